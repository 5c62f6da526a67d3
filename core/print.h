/*
 * Printed text for the hot path: what vsnprintf does, for the few conversions that replies use.
 */
#ifndef PEKOE_CORE_PRINT_H
#define PEKOE_CORE_PRINT_H

#include <pekoe/base.h>

#include <stdarg.h>

/*
 * Prints into `room` bytes and returns the length of the whole text without its NUL, as vsnprintf
 * does; -1 where that fails. Text, %s, %.*s, %c, %%, and %d %i %u with the lengths l, ll, z are done
 * here; a format with anything else is handed to vsnprintf as a whole. `arguments` are left as they
 * were, so that it can be called again with them.
 */
int pk_print(char *out, size_t room, const char *format, va_list arguments) PK_PRINTF(3, 0);

#endif
