/* marshalling/protocol_status.c: statuses as fields and back. */
#include "marshalling/protocol_status.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static pk_memory memory;
static pk_arena arena;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_arena_init(&arena, &memory, 0);
}

static void tear_down(void)
{
    pk_arena_done(&arena);
    pk_memory_done(&memory);
}

static pk_slice slice(const char *text)
{
    return (pk_slice){(const uint8_t *) text, strlen(text)};
}

static bool is(pk_slice have, const char *want)
{
    return have.length == strlen(want) &&
           (have.length == 0 || memcmp(have.bytes, want, have.length) == 0);
}

Test(protocol_status, each_code_is_written_in_decimal, .init = set_up, .fini = tear_down)
{
    for (int code = 0; code <= 16; code++) {
        pk_field fields[PK_STATUS_FIELDS_MAX];
        char digits[4];
        pk_status status = {.code = (pk_code) code};
        sprintf(digits, "%d", code);
        cr_assert_eq(pk_status_write_fields(&status, &arena, fields), 1);
        cr_expect(is(fields[0].name, "grpc-status"));
        cr_expect(is(fields[0].value, digits));
    }
    pk_field fields[PK_STATUS_FIELDS_MAX];
    pk_status strange = {.code = (pk_code) 17};
    pk_status_write_fields(&strange, &arena, fields);
    cr_expect(is(fields[0].value, "2"));
}

Test(protocol_status, message_and_details_are_encoded_and_read_back, .init = set_up,
     .fini = tear_down)
{
    pk_field fields[PK_STATUS_FIELDS_MAX];
    pk_status status = {PK_NOT_FOUND, PK_SLICE("100% \xe2\x98\xba\n"), PK_SLICE("\x08\x05")};
    cr_assert_eq(pk_status_write_fields(&status, &arena, fields), 3);
    cr_expect(is(fields[1].name, "grpc-message"));
    cr_expect(is(fields[1].value, "100%25 %E2%98%BA%0A"));
    cr_expect(is(fields[2].name, "grpc-status-details-bin"));
    cr_expect(is(fields[2].value, "CAU")); /* unpadded */
    pk_status back;
    cr_assert(pk_status_read_fields(fields, 3, &arena, &back));
    cr_expect_eq(back.code, PK_NOT_FOUND);
    cr_expect(is(back.message, "100% \xe2\x98\xba\n"));
    cr_expect(is(back.details, "\x08\x05"));
}

Test(protocol_status, what_cannot_be_read_is_unknown, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *value, *message;
        int code;
        const char *text;
    } rows[] = {
        {"0", NULL, 0, ""},
        {"16", NULL, 16, ""},
        {"05", NULL, 5, ""},
        {"17", "kept", 2, "kept"},
        {"17", NULL, 2, "grpc-status \"17\" is no status code"},
        {"", NULL, 2, "grpc-status \"\" is no status code"},
        {"-1", NULL, 2, "grpc-status \"-1\" is no status code"},
        {"99999999999999999999", NULL, 2, "grpc-status \"99999999999999999999\" is no status code"},
        {"5", "broken % is %kept", 5, "broken % is %kept"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_field fields[3] = {{.name = slice("x"), .value = slice("y")},
                              {.name = slice("grpc-status"), .value = slice(rows[i].value)}};
        size_t count = 2;
        if (rows[i].message)
            fields[count++] =
                (pk_field){.name = slice("grpc-message"), .value = slice(rows[i].message)};
        pk_status status;
        cr_assert(pk_status_read_fields(fields, count, &arena, &status));
        cr_expect_eq((int) status.code, rows[i].code, "%s", rows[i].value);
        cr_expect(is(status.message, rows[i].text), "%s", rows[i].text);
    }
}

Test(protocol_status, no_status_is_told_and_bad_details_are_dropped, .init = set_up,
     .fini = tear_down)
{
    const pk_field none[] = {{.name = slice("grpc-message"), .value = slice("m")}};
    const pk_field bad[] = {{.name = slice("grpc-status"), .value = slice("3")},
                            {.name = slice("grpc-status-details-bin"), .value = slice("!")}};
    pk_status status = {.code = PK_ABORTED};
    cr_expect_not(pk_status_read_fields(none, 1, &arena, &status));
    cr_expect_not(pk_status_read_fields(NULL, 0, &arena, &status));
    cr_expect_eq(status.code, PK_ABORTED);
    cr_assert(pk_status_read_fields(bad, 2, &arena, &status));
    cr_expect_eq(status.code, PK_INVALID_ARGUMENT);
    cr_expect_eq(status.details.length, 0);
}
