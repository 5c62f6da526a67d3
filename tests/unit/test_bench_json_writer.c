/* jmh-like-bench/json_writer.c: the layout of JMH's files, and numbers that read back. */
#include "jmh-like-bench/json_writer.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

Test(bench_json_writer, lays_out_as_jmh_does)
{
    pk_bench_text text = {0};
    pk_bench_json_writer json = {.text = &text};
    pk_bench_json_open(&json, '[');
    pk_bench_json_open(&json, '{');
    pk_bench_json_name(&json, "threads");
    pk_bench_json_integer(&json, 2);
    pk_bench_json_name(&json, "raw");
    pk_bench_json_open(&json, '[');
    pk_bench_json_open_line(&json);
    pk_bench_json_number(&json, 4.25);
    pk_bench_json_integer(&json, 1);
    pk_bench_json_close(&json, ']');
    pk_bench_json_open_line(&json);
    pk_bench_json_number(&json, 5);
    pk_bench_json_integer(&json, 2);
    pk_bench_json_close(&json, ']');
    pk_bench_json_close(&json, ']');
    pk_bench_json_name(&json, "unit");
    pk_bench_json_string(&json, "ops/s");
    pk_bench_json_close(&json, '}');
    pk_bench_json_close(&json, ']');
    cr_expect_str_eq(text.bytes, "[\n"
                                 "    {\n"
                                 "        \"threads\" : 2,\n"
                                 "        \"raw\" : [\n"
                                 "            [ 4.25, 1 ],\n"
                                 "            [ 5, 2 ]\n"
                                 "        ],\n"
                                 "        \"unit\" : \"ops/s\"\n"
                                 "    }\n"
                                 "]");
    pk_bench_text_done(&text);
}

Test(bench_json_writer, numbers_read_back_as_they_were)
{
    static const double numbers[] = {
        0,       1,       -1,          0.1,      1.0 / 3,      6.0663084567988925e7,
        DBL_MAX, DBL_MIN, 4.9406e-324, 1e15 + 1, 123456789.125};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        pk_bench_text text = {0};
        pk_bench_json_writer json = {.text = &text};
        pk_bench_json_number(&json, numbers[i]);
        cr_expect_float_eq(strtod(text.bytes, NULL), numbers[i], 0, "%s", text.bytes);
        pk_bench_text_done(&text);
    }
}

Test(bench_json_writer, what_is_no_number_is_a_string_as_in_jmh)
{
    pk_bench_text text = {0};
    pk_bench_json_writer json = {.text = &text};
    pk_bench_json_open_line(&json);
    pk_bench_json_number(&json, NAN);
    pk_bench_json_number(&json, INFINITY);
    pk_bench_json_number(&json, -INFINITY);
    pk_bench_json_close(&json, ']');
    cr_expect_str_eq(text.bytes, "[ \"NaN\", \"+INF\", \"-INF\" ]");
    pk_bench_text_done(&text);
}

Test(bench_json_writer, strings_are_escaped)
{
    pk_bench_text text = {0};
    pk_bench_json_writer json = {.text = &text};
    pk_bench_json_string(&json, "a\"b\\c\nd\x01 ±");
    cr_expect_str_eq(text.bytes, "\"a\\\"b\\\\c\\u000ad\\u0001 ±\"");
    pk_bench_text_done(&text);
}
