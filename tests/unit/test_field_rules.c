/* Rules from RFC 9113 section 8 and RFC 9110 section 5. */
#include "transport/field_rules.h"

#include <criterion/criterion.h>

#include <string.h>

static pk_slice text(const char *string)
{
    return (pk_slice){(const uint8_t *) string, strlen(string)};
}

Test(field_rules, names_are_lower_case_tokens)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    for (int c = 0; c < 256; c++) {
        const uint8_t name[] = {'x', (uint8_t) c};
        bool right = c != 0 && strchr(allowed, c) != NULL;
        cr_expect_eq(pk_field_name_valid((pk_slice){name, 2}), right, "character %d", c);
    }
    cr_expect_not(pk_field_name_valid(text("")));
}

/* Every character at every place of values of many lengths, beside the word-wise path's edges. */
Test(field_rules, values_have_no_control_characters_but_tab)
{
    for (size_t length = 1; length < 40; length++) {
        for (size_t place = 0; place < length; place++) {
            for (int c = 0; c < 256; c++) {
                uint8_t value[40];
                memset(value, 'v', sizeof value);
                value[place] = (uint8_t) c;
                bool edge = place == 0 || place == length - 1;
                bool right = c == '\t' || c == ' ' ? !edge : c >= 0x20 && c != 0x7f;
                cr_assert_eq(pk_field_value_valid((pk_slice){value, length}), right,
                             "character %d at %zu of %zu", c, place, length);
            }
        }
    }
    cr_expect(pk_field_value_valid(text("")));
    cr_expect(pk_field_value_valid(text("Gr\xc3\xbc\xc3\x9f"
                                        "e und mehr als acht")));
}

Test(field_rules, fields_of_one_connection_are_not_allowed)
{
    static const struct {
        const char *name, *value;
        bool allowed;
    } cases[] = {
        {"connection", "close", false},
        {"keep-alive", "5", false},
        {"proxy-connection", "x", false},
        {"transfer-encoding", "chunked", false},
        {"upgrade", "h2c", false},
        {"te", "trailers", true},
        {"te", "gzip", false},
        {"te", "trailers, gzip", false},
        {"te", "", false},
        {"connection-x", "close", true},
        {"upgrades", "h2c", true},
        {"user-agent", "a b", true},
        {"x-bin", "AAA=", true},
        {"x\x80", "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pk_field field = {.name = text(cases[i].name), .value = text(cases[i].value)};
        field.known = (uint8_t) pk_field_lookup(field.name);
        cr_expect_eq(pk_field_allowed(&field), cases[i].allowed, "%s: %s", cases[i].name,
                     cases[i].value);
    }
}

/* A head of up to four fields; a NULL value leaves one out. */
static bool request_complete(const char *method, const char *scheme, const char *path,
                             const char *status)
{
    const char *const names[] = {":method", ":scheme", ":path", ":status"};
    const char *const values[] = {method, scheme, path, status};
    pk_field fields[4];
    pk_head head = {.fields = fields};
    for (size_t i = 0; i < 4; i++) {
        if (!values[i])
            continue;
        fields[head.count] = (pk_field){.name = text(names[i]), .value = text(values[i])};
        head.first[pk_field_lookup(text(names[i]))] = (uint16_t) ++head.count;
    }
    return pk_field_request_complete(&head);
}

Test(field_rules, requests_need_method_scheme_and_path)
{
    cr_expect(request_complete("POST", "http", "/a.B/C", NULL));
    cr_expect(request_complete("OPTIONS", "http", "*", NULL));
    cr_expect_not(request_complete("GET", "http", "*", NULL));
    cr_expect_not(request_complete(NULL, "http", "/", NULL));
    cr_expect_not(request_complete("POST", NULL, "/", NULL));
    cr_expect_not(request_complete("POST", "http", NULL, NULL));
    cr_expect_not(request_complete("POST", "http", "", NULL));
    cr_expect_not(request_complete("POST", "http", "a", NULL));
    cr_expect_not(request_complete("POST", "http", "/", "200"));
    cr_expect_not(request_complete("CONNECT", NULL, NULL, NULL));
}

Test(field_rules, numbers_are_read_whole_or_not_at_all)
{
    static const struct {
        const char *value;
        int64_t length;
        unsigned status;
    } cases[] = {
        {"0", 0, 0},
        {"200", 200, 200},
        {"999", 999, 999},
        {"099", 99, 0},
        {"1000", 1000, 0},
        {"999999999999999999", 999999999999999999, 0},
        {"", -1, 0},
        {"-1", -1, 0},
        {"+20", -1, 0},
        {"20 ", -1, 0},
        {"2e2", -1, 0},
        {"1000000000000000000", -1, 0},
        {"0x1", -1, 0},
        {"\xb2"
         "00",
         -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(pk_field_content_length(text(cases[i].value)), cases[i].length, "%s",
                     cases[i].value);
        cr_expect_eq(pk_field_status(text(cases[i].value)), cases[i].status, "%s", cases[i].value);
    }
}
