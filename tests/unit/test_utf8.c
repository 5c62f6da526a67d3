/* UTF-8 as the Unicode standard's table 3-7 has it, at every distance from the fast steps. */
#include "marshalling/utf8.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    size_t length;
    pk_text_verdict verdict;
} rows[] = {
    {"", 0, PK_TEXT_OK},
    {"a", 1, PK_TEXT_OK},
    {"\xc2\x80", 2, PK_TEXT_OK},
    {"\xdf\xbf", 2, PK_TEXT_OK},
    {"\xe0\xa0\x80", 3, PK_TEXT_OK},
    {"\xed\x9f\xbf", 3, PK_TEXT_OK},
    {"\xee\x80\x80", 3, PK_TEXT_OK},
    {"\xef\xbf\xbf", 3, PK_TEXT_OK},
    {"\xf0\x90\x80\x80", 4, PK_TEXT_OK},
    {"\xf4\x8f\xbf\xbf", 4, PK_TEXT_OK},
    {"\x00", 1, PK_TEXT_NUL},
    {"\xc3\xa9\x00", 3, PK_TEXT_NUL},
    {"\x00\xff", 2, PK_TEXT_BAD},
    {"\x80", 1, PK_TEXT_BAD},         /* a continuation alone */
    {"\xc0\x80", 2, PK_TEXT_BAD},     /* overlong NUL */
    {"\xc1\xbf", 2, PK_TEXT_BAD},     /* overlong */
    {"\xc3", 1, PK_TEXT_BAD},         /* cut */
    {"\xc3\x28", 2, PK_TEXT_BAD},     /* no continuation */
    {"\xe0\x9f\xbf", 3, PK_TEXT_BAD}, /* overlong */
    {"\xed\xa0\x80", 3, PK_TEXT_BAD}, /* surrogate */
    {"\xe2\x82", 2, PK_TEXT_BAD},
    {"\xf0\x8f\xbf\xbf", 4, PK_TEXT_BAD}, /* overlong */
    {"\xf4\x90\x80\x80", 4, PK_TEXT_BAD}, /* above U+10FFFF */
    {"\xf5\x80\x80\x80", 4, PK_TEXT_BAD},
    {"\xf0\x9f\x98", 3, PK_TEXT_BAD},
    {"\xff", 1, PK_TEXT_BAD},
};

Test(utf8, verdicts_hold_wherever_the_sequence_stands)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t before = 0; before < 40; before++) {
            for (size_t after = 0; after < 20; after++) {
                size_t length = before + rows[i].length + after;
                /* Of exactly that size: a sanitizer sees what is read beyond. */
                uint8_t *text = malloc(length + 1);
                cr_assert_not_null(text);
                uint8_t *start = text + 1;
                memset(start, 'x', length);
                memcpy(start + before, rows[i].text, rows[i].length);
                cr_assert_eq(pk_utf8_check(start, length), rows[i].verdict,
                             "row %zu, %zu before, %zu after", i, before, after);
                free(text);
            }
        }
    }
}
