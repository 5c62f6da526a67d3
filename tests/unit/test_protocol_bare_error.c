/* marshalling/protocol_bare_error.c: errors as Connect's protocol page writes them in JSON. */
#include "marshalling/protocol_bare_error.h"
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

static marshalling_fixture fixture;

static void set_up(void)
{
    fixture_init(&fixture);
}

static void tear_down(void)
{
    cr_assert_eq(fixture_done(&fixture), 0);
}

static const char *written(const pk_status *status)
{
    static char text[1024];
    pk_buffer *buffer = pk_buffer_get(&fixture.pool);
    cr_assert_not_null(buffer);
    pk_buffer_rewind_for_append(buffer, 0);
    cr_assert_eq(pk_bare_error_write(status, buffer), 0);
    memcpy(text, buffer->start, pk_buffer_length(buffer));
    text[pk_buffer_length(buffer)] = '\0';
    pk_buffer_unref(buffer);
    return text;
}

/* Reads from a block of exactly its size. */
static bool read_json(const char *text, size_t length, pk_status *ret_status)
{
    uint8_t *exact = malloc(length + (length == 0));
    if (!exact)
        abort();
    memcpy(exact, text, length);
    bool ok = pk_bare_error_read((pk_slice){exact, length}, &fixture.arena, ret_status);
    free(exact);
    return ok;
}

/* google.rpc.Status {5, "m", [Any {"type.googleapis.com/a.B", "\1\2"}]}, by python3-protobuf. */
#define DETAILS                                  \
    PK_SLICE("\x08\x05\x12\x01m\x1a\x1d\x0a\x17" \
             "type.googleapis.com/a.B\x12\x02\x01\x02")

Test(protocol_bare_error, is_written_as_json, .init = set_up, .fini = tear_down)
{
    const struct {
        pk_status status;
        const char *json;
    } rows[] = {
        {PK_STATUS(PK_CANCELLED, ""), "{\"code\":\"canceled\"}"},
        {PK_STATUS(PK_NOT_FOUND, "no"), "{\"code\":\"not_found\",\"message\":\"no\"}"},
        {PK_STATUS((pk_code) 99, "x"), "{\"code\":\"unknown\",\"message\":\"x\"}"},
        {PK_STATUS(PK_INTERNAL, "a\"b\\c\n\x01\xc3\xa4"),
         "{\"code\":\"internal\",\"message\":\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa4\"}"},
        {PK_STATUS(PK_INTERNAL, "\xff!"), "{\"code\":\"internal\",\"message\":\"\\ufffd!\"}"},
        {{PK_NOT_FOUND, PK_SLICE("m"), DETAILS},
         "{\"code\":\"not_found\",\"message\":\"m\",\"details\":[{\"type\":\"a.B\",\"value\":"
         "\"AQI\"}]}"},
        {{PK_NOT_FOUND, PK_SLICE("m"), PK_SLICE("\xff")},
         "{\"code\":\"not_found\",\"message\":\"m\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_str_eq(written(&rows[i].status), rows[i].json);
}

Test(protocol_bare_error, every_code_comes_back, .init = set_up, .fini = tear_down)
{
    for (int code = 1; code <= 16; code++) {
        pk_status status = {(pk_code) code, PK_SLICE("m"), DETAILS}, back;
        const char *json = written(&status);
        cr_assert(read_json(json, strlen(json), &back), "%s", json);
        cr_expect_eq((int) back.code, code);
        cr_expect(slice_is(back.message, "m"));
        /* The same details, with the code of this status in them. */
        cr_assert_eq(back.details.length, status.details.length);
        cr_expect_eq(back.details.bytes[1], code);
        cr_expect_eq(
            memcmp(back.details.bytes + 2, status.details.bytes + 2, back.details.length - 2), 0);
    }
}

Test(protocol_bare_error, json_is_read_leniently_in_its_members_and_strictly_in_its_form,
     .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *json;
        int code; /* 0: refused */
        const char *message;
    } rows[] = {
        {"{\"code\":\"aborted\"}", 10, ""},
        {" {\r\n\t\"message\" : \"m\" , \"code\" : \"aborted\" } ", 10, "m"},
        {"{\"code\":\"aborted\",\"x\":[1,-2.5e+3,true,null,{\"y\":{}},[]],\"message\":null}", 10,
         ""},
        {"{\"code\":\"aborted\",\"message\":\"\\u0041\\u00e4\\u20ac\\ud83d\\ude08\\n\\/\"}", 10,
         "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x88\n/"},
        {"{\"code\":\"aborted\",\"message\":\"\\ud83d!\"}", 10, "\xef\xbf\xbd!"},
        {"{\"code\":\"aborted\",\"details\":[{\"type\":\"a\",\"value\":\"!\"}]}", 0, ""},
        {"{\"code\":\"aborted\",\"details\":[]}", 10, ""},
        {"{\"code\":\"ABORTED\"}", 0, ""},
        {"{\"code\":10}", 0, ""},
        {"{}", 0, ""},
        {"", 0, ""},
        {"[]", 0, ""},
        {"{\"code\":\"aborted\"} x", 0, ""},
        {"{\"code\":\"aborted\"", 0, ""},
        {"{\"code\":\"aborted\",}", 0, ""},
        {"{\"code\" \"aborted\"}", 0, ""},
        {"{\"code\":\"aborted\",\"message\":\"\\x\"}", 0, ""},
        {"{\"code\":\"aborted\",\"message\":\"\\u12\"}", 0, ""},
        {"{\"code\":\"aborted\",\"message\":\"a\nb\"}", 0, ""},
        {"{\"code\":\"aborted\",\"message\":\"\xff\"}", 0, ""},
        {"{\"code\":\"aborted\",\"message\":\"\\", 0, ""},
        {"<html>", 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_status status = {PK_OK, {NULL, 0}, {NULL, 0}};
        bool ok = read_json(rows[i].json, strlen(rows[i].json), &status);
        cr_expect_eq(ok, rows[i].code != 0, "%s", rows[i].json);
        cr_expect_eq((int) status.code, rows[i].code, "%s", rows[i].json);
        if (ok)
            cr_expect(slice_is(status.message, rows[i].message), "%s", rows[i].json);
    }
}

Test(protocol_bare_error, nesting_is_bounded_and_truncations_are_refused, .init = set_up,
     .fini = tear_down)
{
    static char deep[20000];
    pk_status status = {PK_OK, {NULL, 0}, {NULL, 0}};
    strcpy(deep, "{\"x\":");
    memset(deep + 5, '[', 10000);
    cr_expect_not(read_json(deep, 10005, &status));
    static const char whole[] = "{\"code\":\"aborted\",\"message\":\"\\u00e4\",\"details\":"
                                "[{\"type\":\"a\",\"value\":\"AQI\"}],\"x\":[{},1]}";
    for (size_t length = 0; length < sizeof whole - 1; length++)
        cr_expect_not(read_json(whole, length, &status), "%zu", length);
    cr_expect(read_json(whole, sizeof whole - 1, &status));
    for (size_t bit = 0; bit < 8 * (sizeof whole - 1); bit++) {
        char flipped[sizeof whole];
        memcpy(flipped, whole, sizeof whole);
        flipped[bit / 8] = (char) (flipped[bit / 8] ^ 1 << bit % 8);
        if (read_json(flipped, sizeof whole - 1, &status))
            cr_expect_eq(status.code, PK_ABORTED, "bit %zu", bit);
    }
}
