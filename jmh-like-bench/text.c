/* The growing text of text.h. */
#include "jmh-like-bench/text.h"

#include "jmh-like-bench/allocate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pk_bench_text_done(pk_bench_text *text)
{
    free(text->bytes);
    *text = (pk_bench_text){0};
}

static void reserve(pk_bench_text *text, size_t more)
{
    if (text->room - text->length > more)
        return;
    size_t room = text->room ? text->room : 256;
    while (room - text->length <= more)
        room *= 2;
    char *bytes = pk_bench_zeroed(1, room);
    if (text->bytes)
        memcpy(bytes, text->bytes, text->length);
    free(text->bytes);
    text->bytes = bytes;
    text->room = room;
}

void pk_bench_text_add(pk_bench_text *text, const char *bytes, size_t length)
{
    reserve(text, length);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void pk_bench_text_put(pk_bench_text *text, const char *string)
{
    pk_bench_text_add(text, string, strlen(string));
}

void pk_bench_text_print(pk_bench_text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (length < 0)
        return;
    reserve(text, (size_t) length);
    va_start(list, format);
    vsnprintf(text->bytes + text->length, (size_t) length + 1, format, list);
    va_end(list);
    text->length += (size_t) length;
}

int pk_bench_text_columns(const char *string)
{
    int columns = 0;
    for (; *string; string++)
        columns += ((unsigned char) *string & 0xC0u) != 0x80u;
    return columns;
}

void pk_bench_text_pad(pk_bench_text *text, int width, const char *string)
{
    int wanted = width < 0 ? -width : width;
    int spaces = wanted - pk_bench_text_columns(string);
    if (width < 0)
        pk_bench_text_put(text, string);
    for (; spaces > 0; spaces--)
        pk_bench_text_add(text, " ", 1);
    if (width >= 0)
        pk_bench_text_put(text, string);
}

char *pk_bench_text_take(pk_bench_text *text)
{
    char *bytes = text->bytes ? text->bytes : pk_bench_copy("");
    *text = (pk_bench_text){0};
    return bytes;
}
