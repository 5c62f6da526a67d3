/*
 * A text that grows: what reports, JSON and charts are written into before they reach a file.
 *
 * Keeps count of columns, not bytes, for padding, since scores may hold ± and ≈.
 */
#ifndef PEKOE_BENCH_TEXT_H
#define PEKOE_BENCH_TEXT_H

#include <stddef.h>

typedef struct pk_bench_text {
    char *bytes; /* ends with NUL; NULL while empty */
    size_t length;
    size_t room;
} pk_bench_text;

void pk_bench_text_done(pk_bench_text *text);

void pk_bench_text_add(pk_bench_text *text, const char *bytes, size_t length);
void pk_bench_text_put(pk_bench_text *text, const char *string);
void pk_bench_text_print(pk_bench_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* `string` in at least `width` columns, to the right (width > 0) or to the left (width < 0). */
void pk_bench_text_pad(pk_bench_text *text, int width, const char *string);

/* Columns of a UTF-8 string, one per code point. */
int pk_bench_text_columns(const char *string);

/* Moves the bytes out; "" when nothing was written. Freed with free. */
char *pk_bench_text_take(pk_bench_text *text);

#endif
