/*
 * A small printf: see print.h. vsnprintf costs some 500 instructions for "Hello, %s", which is as
 * much as the rest of a unary call's encoding.
 */
#include "core/print.h"

#include <stdio.h>
#include <string.h>

struct sink {
    char *out;
    size_t room;
    size_t length; /* of the whole text, whether it fitted or not */
};

PK_INLINE void put(struct sink *sink, const char *text, size_t length)
{
    if (PK_LIKELY(sink->length + length <= sink->room)) {
        pk_print_copy(sink->out + sink->length, text, length);
    } else if (sink->length < sink->room) {
        size_t left = sink->room - sink->length;
        memcpy(sink->out + sink->length, text, length < left ? length : left);
    }
    sink->length += length;
}

static void put_number(struct sink *sink, uint64_t magnitude, bool negative)
{
    char digits[21]; /* 2^64 has 20, and a sign */
    char *at = digits + sizeof digits;
    do {
        *--at = (char) ('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (negative)
        *--at = '-';
    put(sink, at, (size_t) (digits + sizeof digits - at));
}

/* The length modifiers l, ll and z; long and size_t may differ from long long on other ABIs. */
enum width { WIDTH_INT, WIDTH_LONG, WIDTH_LONG_LONG, WIDTH_SIZE };

static enum width take_width(const char **format)
{
    if (**format == 'z') {
        ++*format;
        return WIDTH_SIZE;
    }
    if (**format != 'l')
        return WIDTH_INT;
    ++*format;
    if (**format != 'l')
        return WIDTH_LONG;
    ++*format;
    return WIDTH_LONG_LONG;
}

static int64_t take_signed(struct pk_print_arguments *arguments, enum width width)
{
    switch (width) {
    case WIDTH_INT:
        return va_arg(arguments->list, int);
    case WIDTH_LONG:
        return va_arg(arguments->list, long);
    case WIDTH_LONG_LONG:
        return va_arg(arguments->list, long long);
    case WIDTH_SIZE:
        return (int64_t) va_arg(arguments->list, size_t);
    }
    __builtin_unreachable();
}

static uint64_t take_unsigned(struct pk_print_arguments *arguments, enum width width)
{
    switch (width) {
    case WIDTH_INT:
        return va_arg(arguments->list, unsigned);
    case WIDTH_LONG:
        return va_arg(arguments->list, unsigned long);
    case WIDTH_LONG_LONG:
        return va_arg(arguments->list, unsigned long long);
    case WIDTH_SIZE:
        return va_arg(arguments->list, size_t);
    }
    __builtin_unreachable();
}

/* A conversion other than %s; `format` stands behind its '%'. False: not one of ours. */
static __attribute__((noinline)) bool convert(struct sink *sink, const char **format,
                                              struct pk_print_arguments *arguments)
{
    if (strncmp(*format, ".*s", 3) == 0) {
        int limit = va_arg(arguments->list, int);
        const char *text = va_arg(arguments->list, const char *);
        if (limit < 0 || (!text && limit > 0))
            return false;
        put(sink, text ? text : "", limit > 0 ? strnlen(text, (size_t) limit) : 0);
        *format += 3;
        return true;
    }
    enum width width = take_width(format);
    char conversion = *(*format)++;
    if (conversion == 'd' || conversion == 'i') {
        int64_t value = take_signed(arguments, width);
        put_number(sink, value < 0 ? -(uint64_t) value : (uint64_t) value, value < 0);
        return true;
    }
    if (conversion == 'u') {
        put_number(sink, take_unsigned(arguments, width), false);
        return true;
    }
    if (width != WIDTH_INT)
        return false;
    char letter = '%';
    if (conversion == 'c')
        letter = (char) va_arg(arguments->list, int);
    else if (conversion != '%')
        return false;
    put(sink, &letter, 1);
    return true;
}

static PK_PRINTF(3, 0) int print_any(char *out, size_t room, const char *format,
                                     va_list arguments_in)
{
    struct sink sink = {out, room, 0};
    struct pk_print_arguments arguments;
    va_copy(arguments.list, arguments_in);
    const char *at = format;
    bool ours = true;
    while (*at && ours) {
        const char *percent = strchrnul(at, '%');
        put(&sink, at, (size_t) (percent - at));
        at = percent;
        if (at[0] != '%')
            break;
        if (PK_LIKELY(at[1] == 's')) { /* what nearly all are */
            const char *text = va_arg(arguments.list, const char *);
            ours = text != NULL;
            if (ours)
                put(&sink, text, strlen(text));
            at += 2;
        } else {
            at++;
            ours = convert(&sink, &at, &arguments);
        }
    }
    va_end(arguments.list);
    if (PK_UNLIKELY(!ours)) {
        va_copy(arguments.list, arguments_in);
        int length = vsnprintf(out, room, format, arguments.list);
        va_end(arguments.list);
        return length;
    }
    if (room > 0)
        out[sink.length < room ? sink.length : room - 1] = '\0';
    return sink.length > INT32_MAX ? -1 : (int) sink.length;
}

int pk_print(char *out, size_t room, const char *format, va_list arguments_in)
{
    struct pk_print_arguments arguments;
    va_copy(arguments.list, arguments_in);
    const char *end = pk_print_texts(out, out + room, format, &arguments);
    va_end(arguments.list);
    return PK_LIKELY(end && end - out <= INT32_MAX) ? (int) (end - out)
                                                    : print_any(out, room, format, arguments_in);
}
