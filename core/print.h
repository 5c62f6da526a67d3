/*
 * Printed text for the hot path: what vsnprintf does, for the few conversions that replies use.
 */
#ifndef PEKOE_CORE_PRINT_H
#define PEKOE_CORE_PRINT_H

#include <pekoe/base.h>

#include <stdarg.h>
#include <string.h>

/*
 * Prints into `room` bytes and returns the length of the whole text without its NUL, as vsnprintf
 * does; -1 where that fails. Text, %s, %.*s, %c, %%, and %d %i %u with the lengths l, ll, z are done
 * here; a format with anything else is handed to vsnprintf as a whole. `arguments` are left as they
 * were, so that it can be called again with them.
 */
int pk_print(char *out, size_t room, const char *format, va_list arguments) PK_PRINTF(3, 0);

/* ---- The short way, in line ---- */

/* va_list is an array on some ABIs: a struct keeps it one object behind a pointer. */
struct pk_print_arguments {
    va_list list;
};

/* Short texts without a call: their halves overlap. */
PK_INLINE void pk_print_copy(char *to, const char *from, size_t length)
{
    if (length > 16) {
        memcpy(to, from, length);
    } else if (length >= 8) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, from + length - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + length - 8, &last, 8);
    } else if (length >= 4) {
        uint32_t first, last;
        memcpy(&first, from, 4);
        memcpy(&last, from + length - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + length - 4, &last, 4);
    } else if (length > 0) {
        to[0] = from[0];
        to[length / 2] = from[length / 2];
        to[length - 1] = from[length - 1];
    }
}

/*
 * Text and %s in as much room as they need, which is what nearly all formats are and have: one pass,
 * without the bookkeeping of texts that are cut. Returns where the NUL is; NULL: there is something
 * else in the format, or no room.
 */
PK_INLINE char *pk_print_texts(char *out, const char *end, const char *format,
                               struct pk_print_arguments *arguments)
{
    char *to = out;
    do {
        const char *percent = strchrnul(format, '%');
        size_t length = (size_t) (percent - format);
        if (PK_UNLIKELY(length >= (size_t) (end - to)))
            return NULL;
        pk_print_copy(to, format, length);
        to += length;
        if (!*percent)
            break;
        const char *text = percent[1] == 's' ? va_arg(arguments->list, const char *) : NULL;
        if (PK_UNLIKELY(!text))
            return NULL;
        length = strlen(text);
        if (PK_UNLIKELY(length >= (size_t) (end - to)))
            return NULL;
        pk_print_copy(to, text, length);
        to += length;
        format = percent + 2;
    } while (*format);
    *to = '\0';
    return to;
}

#endif
