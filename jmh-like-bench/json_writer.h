/*
 * Writes JSON in the layout of JMH's result files: one value a line, four spaces a level,
 * "name" : value. Knows nothing of results.
 */
#ifndef PEKOE_BENCH_JSON_WRITER_H
#define PEKOE_BENCH_JSON_WRITER_H

#include "jmh-like-bench/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Set up with .text; the rest zero. */
typedef struct pk_bench_json_writer {
    pk_bench_text *text; /* borrowed */
    int depth;
    bool filled;  /* the object or array at hand has a member already */
    bool named;   /* a name was written, its value comes next */
    int one_line; /* depth of arrays that are kept on one line */
} pk_bench_json_writer;

void pk_bench_json_open(pk_bench_json_writer *json, char bracket);  /* '{' or '[' */
void pk_bench_json_close(pk_bench_json_writer *json, char bracket); /* '}' or ']' */
/* An array whose values stand on one line. Closed by pk_bench_json_close. */
void pk_bench_json_open_line(pk_bench_json_writer *json);

void pk_bench_json_name(pk_bench_json_writer *json, const char *name);

/* Invalid UTF-8 is written as it is. */
void pk_bench_json_string(pk_bench_json_writer *json, const char *string);
/* The shortest digits that read back as the same number; "NaN", "+INF" and "-INF" as strings. */
void pk_bench_json_number(pk_bench_json_writer *json, double number);
void pk_bench_json_integer(pk_bench_json_writer *json, uint64_t number);

#endif
