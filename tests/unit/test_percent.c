/* core/percent.c: status messages as PROTOCOL-HTTP2.md writes them. */
#include "core/percent.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static pk_slice slice(const char *text)
{
    return (pk_slice){(const uint8_t *) text, strlen(text)};
}

/* Encoded forms as python3's urllib.parse.quote(text, safe=<printable ASCII without %>) has them. */
static const struct {
    const char *plain, *encoded;
} rows[] = {
    {"", ""},
    {"plain text, ~ and all", "plain text, ~ and all"},
    {"100%", "100%25"},
    {"\t\ntest with whitespace\r\nand Unicode BMP \xe2\x98\xba and non-BMP \xf0\x9f\x98\x88\t\n",
     "%09%0Atest with whitespace%0D%0Aand Unicode BMP %E2%98%BA and non-BMP %F0%9F%98%88%09%0A"},
    {"\x7f\x01\xff", "%7F%01%FF"},
};

Test(percent, encodes_what_is_not_printable_and_percent)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t out[256];
        pk_slice plain = slice(rows[i].plain);
        size_t length = pk_percent_encode(out, plain);
        cr_expect_eq(length, strlen(rows[i].encoded));
        cr_expect_eq(length, pk_percent_encoded_length(plain));
        cr_expect_eq(memcmp(out, rows[i].encoded, length), 0, "%s", rows[i].encoded);
        cr_expect_eq(pk_percent_present(slice(rows[i].encoded)),
                     strchr(rows[i].encoded, '%') != NULL);
    }
}

Test(percent, decodes_what_it_encodes)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t out[256];
        size_t length = pk_percent_decode(out, slice(rows[i].encoded));
        cr_expect_eq(length, strlen(rows[i].plain));
        cr_expect_eq(memcmp(out, rows[i].plain, length), 0, "%s", rows[i].encoded);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t one = (uint8_t) byte, text[3], out[3];
        size_t length = pk_percent_encode(text, (pk_slice){&one, 1});
        cr_expect_eq(pk_percent_decode(out, (pk_slice){text, length}), 1);
        cr_expect_eq(out[0], one);
    }
}

Test(percent, broken_escapes_are_kept)
{
    static const struct {
        const char *text, *decoded;
    } broken[] = {
        {"%", "%"},         {"a%", "a%"},
        {"%4", "%4"},       {"%4G", "%4G"},
        {"%G4", "%G4"},     {"%%41", "%A"},
        {"%%", "%%"},       {"%-1", "%-1"},
        {"% 41", "% 41"},   {"%e2%98%ba", "\xe2\x98\xba"},
        {"x%41y%", "xAy%"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        /* In a block of exactly its size: nothing behind the text is read. */
        size_t size = strlen(broken[i].text);
        uint8_t *text = malloc(size);
        cr_assert_not_null(text);
        memcpy(text, broken[i].text, size);
        size_t length = pk_percent_decode(text, (pk_slice){text, size});
        cr_expect_eq(length, strlen(broken[i].decoded), "%s", broken[i].text);
        cr_expect_eq(memcmp(text, broken[i].decoded, length), 0, "%s", broken[i].text);
        free(text);
    }
}
