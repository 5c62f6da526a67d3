/*
 * Whether bytes are UTF-8 that a C string can hold. Called for strings that are not plainly ASCII
 * and short; see pk_text_is_plain.
 */
#ifndef PEKOE_MARSHALLING_UTF8_H
#define PEKOE_MARSHALLING_UTF8_H

#include <stddef.h>
#include <stdint.h>

typedef enum pk_text_verdict {
    PK_TEXT_OK,
    PK_TEXT_NUL, /* valid but for a NUL byte */
    PK_TEXT_BAD, /* not UTF-8: overlong forms, surrogates and what is above U+10FFFF included */
} pk_text_verdict;

pk_text_verdict pk_utf8_check(const uint8_t *text, size_t length);

#endif
