/*
 * Memory of one run of the plugin: see memory.h.
 */
#include "codegen/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gen_piece {
    struct gen_piece *next;
    max_align_t data[];
};

static void out_of_memory(void)
{
    fputs("protoc-gen-pekoe: out of memory\n", stderr);
    exit(1);
}

void *gen_alloc(struct gen_memory *memory, size_t size)
{
    struct gen_piece *piece;

    if (size > SIZE_MAX - sizeof *piece)
        out_of_memory();
    piece = calloc(1, sizeof *piece + size);
    if (!piece)
        out_of_memory();
    piece->next = memory->last;
    memory->last = piece;
    return piece->data;
}

void *gen_array(struct gen_memory *memory, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        out_of_memory();
    return gen_alloc(memory, count * size);
}

char *gen_strndup(struct gen_memory *memory, const char *text, size_t length)
{
    char *copy = gen_alloc(memory, length + 1);

    memcpy(copy, text, length);
    return copy;
}

char *gen_strdup(struct gen_memory *memory, const char *text)
{
    return gen_strndup(memory, text, strlen(text));
}

char *gen_vformat(struct gen_memory *memory, const char *format, va_list arguments)
{
    va_list again;
    char *text;
    int length;

    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        out_of_memory();
    text = gen_alloc(memory, (size_t) length + 1);
    vsnprintf(text, (size_t) length + 1, format, arguments);
    return text;
}

char *gen_format(struct gen_memory *memory, const char *format, ...)
{
    va_list arguments;
    char *text;

    va_start(arguments, format);
    text = gen_vformat(memory, format, arguments);
    va_end(arguments);
    return text;
}

void gen_memory_done(struct gen_memory *memory)
{
    while (memory->last) {
        struct gen_piece *piece = memory->last;

        memory->last = piece->next;
        free(piece);
    }
}

void gen_text_append(struct gen_text *text, const char *data, size_t length)
{
    if (length > SIZE_MAX / 2 - text->length - 1)
        out_of_memory();
    if (text->length + length + 1 > text->capacity) {
        size_t capacity = (text->length + length + 1) * 2;
        char *grown = realloc(text->data, capacity);

        if (!grown)
            out_of_memory();
        text->data = grown;
        text->capacity = capacity;
    }
    if (length > 0)
        memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void gen_text_done(struct gen_text *text)
{
    free(text->data);
    *text = (struct gen_text){0};
}
