/* marshalling/timeout.c: grpc-timeout as PROTOCOL-HTTP2.md has it. */
#include "marshalling/timeout.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define MS (SECOND / 1000)

static int parse(const char *text, uint64_t *ret)
{
    /* Exactly its size: grpc-go's and grpc-rust's old parsers read in front of the string. */
    size_t length = strlen(text);
    uint8_t *bytes = malloc(length + (length == 0));
    cr_assert_not_null(bytes);
    memcpy(bytes, text, length);
    int r = pk_timeout_parse((pk_slice){bytes, length}, ret);
    free(bytes);
    return r;
}

Test(timeout, each_unit_is_read)
{
    static const struct {
        const char *text;
        uint64_t nanoseconds;
    } rows[] = {
        {"1n", 1},
        {"1u", 1000},
        {"1m", 1000000},
        {"1S", SECOND},
        {"1M", 60 * SECOND},
        {"1H", 3600 * SECOND},
        {"0m", 0},
        {"00000001S", 1 * SECOND},
        {"99999999n", 99999999},
        {"99999999S", 99999999 * SECOND},
        {"99999999M", 99999999 * UINT64_C(60) * SECOND},
        {"99999999H", UINT64_MAX}, /* 3.6e20 ns do not fit: no deadline within 584 years */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t nanoseconds = 7;
        cr_expect_eq(parse(rows[i].text, &nanoseconds), 0, "%s", rows[i].text);
        cr_expect_eq(nanoseconds, rows[i].nanoseconds, "%s", rows[i].text);
    }
}

Test(timeout, everything_else_is_malformed)
{
    static const char *const bad[] = {
        "",    "S",   "10",         "-5m", " 1S",  "1S ",   "1.5S", "1s", "1h",        "1U",
        "+1S", "1SS", "123456789n", "1 S", "0x1S", "1\xc2", "1e3S", "n1", "000000001S"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t nanoseconds = 7;
        cr_expect_eq(parse(bad[i], &nanoseconds), PK_ERR_MALFORMED, "%s", bad[i]);
        cr_expect_eq(nanoseconds, 7, "%s", bad[i]);
    }
}

Test(timeout, is_written_with_three_digits_that_count_and_never_shorter_than_it_is)
{
    static const struct {
        uint64_t nanoseconds;
        const char *text;
    } rows[] = {
        {0, "0n"},
        {1, "1n"},
        {999, "999n"},
        {1001, "1010n"},
        {99999999, "100m"},
        {100000001, "101m"},
        {123456, "124u"},
        {1500 * MS, "1500m"},
        {1500 * MS - 2345, "1500m"},
        {20 * SECOND - 4321, "20S"},
        {5 * SECOND, "5S"},
        {100 * SECOND, "100S"},
        {3600 * SECOND, "3600S"},
        {99900000 * SECOND, "99900000S"},
        {99999999 * SECOND, "1666667M"},
        {99999999 * SECOND + 1, "1666667M"},
        {UINT64_MAX - 1, "5124096H"},
        {UINT64_MAX, "5124096H"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t text[PK_TIMEOUT_LENGTH_MAX];
        size_t length = pk_timeout_print(text, rows[i].nanoseconds);
        cr_expect_eq(length, strlen(rows[i].text));
        cr_expect_eq(memcmp(text, rows[i].text, length), 0, "%.*s is not %s", (int) length, text,
                     rows[i].text);
    }
    for (uint64_t nanoseconds = 1; nanoseconds < UINT64_MAX / 3; nanoseconds *= 3) {
        uint8_t text[PK_TIMEOUT_LENGTH_MAX];
        uint64_t back = 0;
        size_t length = pk_timeout_print(text, nanoseconds);
        cr_assert_eq(pk_timeout_parse((pk_slice){text, length}, &back), 0);
        cr_expect_geq(back, nanoseconds);
        cr_expect_leq(back - nanoseconds, nanoseconds / 100 + 1, "not more than 1 %%");
    }
}
