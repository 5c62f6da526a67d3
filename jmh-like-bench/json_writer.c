/* JSON as JMH lays it out; see json_writer.h. */
#include "jmh-like-bench/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void new_line(pk_bench_json_writer *json)
{
    pk_bench_text_put(json->text, "\n");
    for (int i = 0; i < json->depth; i++)
        pk_bench_text_put(json->text, "    ");
}

/* What stands before a value or a name: a comma and a new line, unless a name stands there. */
static void begin_value(pk_bench_json_writer *json)
{
    if (json->named) {
        json->named = false;
        return;
    }
    if (json->filled)
        pk_bench_text_put(json->text, ",");
    if (json->one_line)
        pk_bench_text_put(json->text, " ");
    else if (json->depth > 0)
        new_line(json);
}

void pk_bench_json_open(pk_bench_json_writer *json, char bracket)
{
    begin_value(json);
    pk_bench_text_add(json->text, &bracket, 1);
    json->depth++;
    json->filled = false;
}

void pk_bench_json_open_line(pk_bench_json_writer *json)
{
    pk_bench_json_open(json, '[');
    json->one_line = json->depth;
}

void pk_bench_json_close(pk_bench_json_writer *json, char bracket)
{
    bool one_line = json->one_line == json->depth;
    json->depth--;
    if (one_line) {
        pk_bench_text_put(json->text, " ");
        json->one_line = 0;
    } else {
        new_line(json);
    }
    pk_bench_text_add(json->text, &bracket, 1);
    json->filled = true;
}

static void put_quoted(pk_bench_text *text, const char *string)
{
    pk_bench_text_put(text, "\"");
    for (; *string; string++) {
        unsigned char byte = (unsigned char) *string;
        if (byte == '"' || byte == '\\')
            pk_bench_text_print(text, "\\%c", byte);
        else if (byte < 0x20)
            pk_bench_text_print(text, "\\u%04x", byte);
        else
            pk_bench_text_add(text, string, 1);
    }
    pk_bench_text_put(text, "\"");
}

void pk_bench_json_name(pk_bench_json_writer *json, const char *name)
{
    begin_value(json);
    put_quoted(json->text, name);
    pk_bench_text_put(json->text, " : ");
    json->named = true;
}

void pk_bench_json_string(pk_bench_json_writer *json, const char *string)
{
    begin_value(json);
    put_quoted(json->text, string);
    json->filled = true;
}

void pk_bench_json_number(pk_bench_json_writer *json, double number)
{
    char digits[64];
    if (!isfinite(number)) {
        pk_bench_json_string(json, isnan(number) ? "NaN" : number > 0 ? "+INF" : "-INF");
        return;
    }
    begin_value(json);
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        double back = strtod(digits, NULL);
        if (!(back < number) && !(back > number))
            break;
    }
    pk_bench_text_put(json->text, digits);
    json->filled = true;
}

void pk_bench_json_integer(pk_bench_json_writer *json, uint64_t number)
{
    begin_value(json);
    pk_bench_text_print(json->text, "%" PRIu64, number);
    json->filled = true;
}
