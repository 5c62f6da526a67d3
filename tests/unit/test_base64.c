/* core/base64.c: RFC 4648's vectors, and every way to cut and to spoil them. */
#include "core/base64.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* RFC 4648, section 10, and three that use the ends of the alphabet. */
static const struct {
    const char *bytes;
    size_t length;
    const char *padded;
} rows[] = {
    {"", 0, ""},
    {"f", 1, "Zg=="},
    {"fo", 2, "Zm8="},
    {"foo", 3, "Zm9v"},
    {"foob", 4, "Zm9vYg=="},
    {"fooba", 5, "Zm9vYmE="},
    {"foobar", 6, "Zm9vYmFy"},
    {"\xab\xab\xab", 3, "q6ur"},
    {"\xfb\xff\xbf", 3, "+/+/"},
    {"\0\0\0\0", 4, "AAAAAA=="},
};

/* Decodes from and to blocks of exactly the sizes that the contract names. */
static int decode(const char *text, size_t length, uint8_t out[64], size_t *ret_length)
{
    uint8_t *in = malloc(length + (length == 0)), *room = malloc(pk_base64_decoded_max(length));
    cr_assert(in && room);
    memcpy(in, text, length);
    int r = pk_base64_decode(room, (pk_slice){in, length}, ret_length);
    if (r == 0)
        memcpy(out, room, *ret_length);
    free(in);
    free(room);
    return r;
}

Test(base64, writes_the_vectors_with_and_without_padding)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t out[64];
        const uint8_t *bytes = (const uint8_t *) rows[i].bytes;
        size_t padded = strlen(rows[i].padded), bare = strcspn(rows[i].padded, "=");
        cr_expect_eq(pk_base64_encoded_length(rows[i].length, true), padded);
        cr_expect_eq(pk_base64_encoded_length(rows[i].length, false), bare);
        cr_expect_eq(pk_base64_encode(out, bytes, rows[i].length, true), padded);
        cr_expect_eq(memcmp(out, rows[i].padded, padded), 0, "%s", rows[i].padded);
        cr_expect_eq(pk_base64_encode(out, bytes, rows[i].length, false), bare);
        cr_expect_eq(memcmp(out, rows[i].padded, bare), 0, "%s", rows[i].padded);
    }
}

Test(base64, reads_the_vectors_with_and_without_padding)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t lengths[2] = {strlen(rows[i].padded), strcspn(rows[i].padded, "=")};
        for (size_t j = 0; j < 2; j++) {
            uint8_t out[64];
            size_t length = 99;
            cr_assert_eq(decode(rows[i].padded, lengths[j], out, &length), 0, "%s", rows[i].padded);
            cr_expect_eq(length, rows[i].length);
            cr_expect_eq(memcmp(out, rows[i].bytes, length), 0, "%s", rows[i].padded);
        }
    }
}

Test(base64, refuses_what_is_not_base64)
{
    static const char *const bad[] = {
        "q",       "q6urq", "=",   "==",    "====",         "q===",   "q6=r",
        "q6u=r",   "q6ur=", "Zg=", "Zm8==", "-_-_",         "Zg==\n", "Z g=",
        "Zm9\xff", "Zh==",  "Zh",  "Zm9=",  "Zm9vZg==Zg==",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t out[64];
        size_t length = 99;
        cr_expect_eq(decode(bad[i], strlen(bad[i]), out, &length), PK_ERR_MALFORMED, "%s", bad[i]);
        cr_expect_eq(length, 99, "%s", bad[i]);
    }
}

/* Feeds a text in pieces of a size; returns the number of bytes, or SIZE_MAX where it is spoilt. */
static size_t stream(const char *text, size_t piece, uint8_t *out)
{
    pk_base64_stream state = {0};
    size_t length = strlen(text), written = 0;
    for (size_t i = 0; i < length; i += piece) {
        size_t now = length - i < piece ? length - i : piece;
        uint8_t *room = malloc(pk_base64_decoded_max(now));
        cr_assert_not_null(room);
        size_t got = pk_base64_stream_decode(&state, room, (const uint8_t *) text + i, now);
        memcpy(out + written, room, got);
        written += got;
        free(room);
    }
    return pk_base64_stream_complete(&state) ? written : SIZE_MAX;
}

Test(base64, a_stream_may_be_cut_anywhere_and_padded_in_its_middle)
{
    static const struct {
        const char *text;
        const char *bytes;
        size_t length;
    } streams[] = {
        {"Zm9vYmFy", "foobar", 6},
        {"Zg==Zm8=Zm9v", "ffofoo", 6},
        {"Zm8=Zg==", "fof", 3},
        {"AAAAAAA=", "\0\0\0\0\0", 5},
        {"", "", 0},
        {"AAAAAAA=gAAAAA8=", "\0\0\0\0\0\x80\0\0\0\x0f", 10},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        for (size_t piece = 1; piece < 18; piece++) {
            uint8_t out[64];
            size_t length = stream(streams[i].text, piece, out);
            cr_expect_eq(length, streams[i].length, "%s by %zu", streams[i].text, piece);
            cr_expect_eq(memcmp(out, streams[i].bytes, streams[i].length), 0, "%s by %zu",
                         streams[i].text, piece);
        }
    }
}

Test(base64, a_stream_that_ends_inside_a_group_or_has_a_wrong_character_is_not_complete)
{
    static const char *const bad[] = {"AAA",      "AAAAAA=",  "AAAA\r\nAAAA", "AA-A", "AA_A",
                                      "A===",     "=",        "AAAA=",        "AA=A", "AAB=AAAA",
                                      "AB==AAAA", "AAAA AAAA"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t piece = 1; piece < 10; piece++) {
            uint8_t out[64];
            cr_expect_eq(stream(bad[i], piece, out), SIZE_MAX, "%s by %zu", bad[i], piece);
        }
}

Test(base64, all_lengths_survive_the_way_there_and_back)
{
    uint8_t bytes[300], text[404], back[303];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t) (i * 151 + (i >> 3));
    for (size_t length = 0; length <= sizeof bytes; length++) {
        for (int padded = 0; padded < 2; padded++) {
            size_t written = pk_base64_encode(text, bytes, length, padded);
            cr_assert_eq(written, pk_base64_encoded_length(length, padded));
            size_t got = SIZE_MAX;
            cr_assert_eq(pk_base64_decode(back, (pk_slice){text, written}, &got), 0);
            cr_assert_eq(got, length);
            cr_assert_eq(memcmp(back, bytes, length), 0);
        }
    }
}
