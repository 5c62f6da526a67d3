/* jmh-like-bench/json_reader.c: RFC 8259, and nothing beyond it. */
#include "jmh-like-bench/json_reader.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static bool parse(pk_bench_json *json, const char *text, char **ret_error)
{
    return pk_bench_json_parse(json, text, strlen(text), ret_error);
}

Test(bench_json_reader, reads_every_kind_of_value)
{
    pk_bench_json json;
    char *error = NULL;
    cr_assert(parse(&json,
                    " {\"a\" : [1, -2.5e3, 0, 0.125E+1], \"b\":{}, \"c\":[ ],\n\"d\":true,"
                    "\"e\":false,\"f\":null, \"g\":\"x\"} ",
                    &error),
              "%s", error);
    const pk_bench_json *a = pk_bench_json_member(&json, "a");
    cr_assert_eq(a->count, 4);
    cr_expect_float_eq(a->items[0].number, 1, 0);
    cr_expect_float_eq(a->items[1].number, -2500, 0);
    cr_expect_float_eq(a->items[2].number, 0, 0);
    cr_expect_float_eq(a->items[3].number, 1.25, 0);
    cr_expect_eq(pk_bench_json_member(&json, "b")->type, PK_BENCH_JSON_OBJECT);
    cr_expect_eq(pk_bench_json_member(&json, "c")->type, PK_BENCH_JSON_ARRAY);
    cr_expect_float_eq(pk_bench_json_member(&json, "d")->number, 1, 0);
    cr_expect_float_eq(pk_bench_json_member(&json, "e")->number, 0, 0);
    cr_expect_eq(pk_bench_json_member(&json, "f")->type, PK_BENCH_JSON_NULL);
    cr_expect_str_eq(pk_bench_json_member(&json, "g")->string, "x");
    cr_expect_null(pk_bench_json_member(&json, "h"));
    cr_expect_null(pk_bench_json_member(a, "h"));
    cr_expect_null(pk_bench_json_member(NULL, "h"));
    pk_bench_json_done(&json);
}

Test(bench_json_reader, unescapes_strings)
{
    static const char *const rows[][2] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
        {"\"\\ud83d\\ude08\"", "\xf0\x9f\x98\x88"},
        {"\"\xc2\xb1\"", "\xc2\xb1"},
        {"\"\"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_json json;
        char *error = NULL;
        cr_assert(parse(&json, rows[i][0], &error), "%s: %s", rows[i][0], error);
        cr_expect_str_eq(json.string, rows[i][1]);
        pk_bench_json_done(&json);
    }
}

Test(bench_json_reader, refuses_everything_else)
{
    static const char *const rows[] = {
        "",
        "[",
        "[1,",
        "[1 2]",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,}",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "tru",
        "nul",
        "NaN",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\\ud800\"",
        "\"\\ude08\"",
        "\"\\ud800\\u0041\"",
        "1 1",
        "[1}",
        "'a'",
        "\"\\",
        "{\"a\":1 \"b\":2}",
        "]",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_json json;
        char *error = NULL;
        cr_assert_not(parse(&json, rows[i], &error), "%s", rows[i]);
        cr_expect_eq(strncmp(error, "line ", 5), 0, "%s", error);
        free(error);
    }
}

Test(bench_json_reader, bounds_nesting_and_names_the_line)
{
    char text[2 * PK_BENCH_JSON_DEPTH + 8];
    pk_bench_json json;
    char *error = NULL;
    memset(text, '[', PK_BENCH_JSON_DEPTH);
    memset(text + PK_BENCH_JSON_DEPTH, ']', PK_BENCH_JSON_DEPTH);
    cr_assert(pk_bench_json_parse(&json, text, 2 * PK_BENCH_JSON_DEPTH, &error));
    pk_bench_json_done(&json);
    memset(text, '[', PK_BENCH_JSON_DEPTH + 1);
    memset(text + PK_BENCH_JSON_DEPTH + 1, ']', PK_BENCH_JSON_DEPTH + 1);
    cr_assert_not(pk_bench_json_parse(&json, text, 2 * PK_BENCH_JSON_DEPTH + 2, &error));
    cr_expect_not_null(strstr(error, "deep"));
    free(error);
    cr_assert_not(parse(&json, "[1,\n2,\nx]", &error));
    cr_expect_eq(strncmp(error, "line 3", 6), 0, "%s", error);
    free(error);
}
