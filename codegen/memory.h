/*
 * Memory of one run of the plugin: everything that a run allocates hangs on one list and is
 * freed with it. Called by every file of codegen/.
 *
 * A plugin lives for a moment and has nobody to answer to when memory runs out, so these
 * functions do not fail: they end the process. Nothing of the runtime may use them.
 *
 * Each piece is a malloc of its own, so that AddressSanitizer sees a write past its end.
 */
#ifndef PEKOE_CODEGEN_MEMORY_H
#define PEKOE_CODEGEN_MEMORY_H

#include <stdarg.h>
#include <stddef.h>

struct gen_memory {
    struct gen_piece *last; /* newest first */
};

/* Zeroed, for any type. Lives until gen_memory_done. */
void *gen_alloc(struct gen_memory *memory, size_t size);
/* count elements of size bytes each, zeroed; ends the process where the product overflows. */
void *gen_array(struct gen_memory *memory, size_t count, size_t size);
#define gen_new(memory, type) ((type *) gen_alloc(memory, sizeof(type)))

char *gen_strdup(struct gen_memory *memory, const char *text);
char *gen_strndup(struct gen_memory *memory, const char *text, size_t length);
char *gen_format(struct gen_memory *memory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *gen_vformat(struct gen_memory *memory, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

void gen_memory_done(struct gen_memory *memory);

/* A text or byte string that grows; belongs to no gen_memory. Zero-initialise before use. */
struct gen_text {
    char *data; /* NUL-ended as soon as it is not NULL */
    size_t length;
    size_t capacity;
};

void gen_text_append(struct gen_text *text, const char *data, size_t length);
void gen_text_done(struct gen_text *text);

#endif
