/*
 * Reads JSON into a tree. Strict: RFC 8259 and nothing more, nesting bounded.
 *
 * For result files; knows nothing of results.
 */
#ifndef PEKOE_BENCH_JSON_READER_H
#define PEKOE_BENCH_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#define PK_BENCH_JSON_DEPTH 64

typedef enum pk_bench_json_type {
    PK_BENCH_JSON_NULL,
    PK_BENCH_JSON_BOOLEAN,
    PK_BENCH_JSON_NUMBER,
    PK_BENCH_JSON_STRING,
    PK_BENCH_JSON_ARRAY,
    PK_BENCH_JSON_OBJECT
} pk_bench_json_type;

typedef struct pk_bench_json {
    pk_bench_json_type type;
    double number; /* of a number; 1 for true */
    char *string;  /* ends at the first NUL that the text holds */
    struct pk_bench_json *items;
    char **names; /* of an object's items */
    size_t count;
} pk_bench_json;

/* The tree of a text; on failure false, and ret_error gets "line 3: ..." to be freed. */
bool pk_bench_json_parse(pk_bench_json *json, const char *text, size_t length, char **ret_error);
void pk_bench_json_done(pk_bench_json *json);

/* The member of that name, NULL when there is none or json is no object (or NULL). */
const pk_bench_json *pk_bench_json_member(const pk_bench_json *json, const char *name);

#endif
