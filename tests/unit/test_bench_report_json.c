/*
 * jmh-like-bench/report_json.c: what JMH 1.37 wrote, read and written again, has every member that
 * JMH's has, in its order, with its values.
 */
#include "jmh-like-bench/json_reader.h"
#include "jmh-like-bench/report.h"
#include "jmh-like-bench/result_reader.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Members that describe machine and program, not figures. */
static bool is_environment(const char *name)
{
    static const char *const names[] = {"jmhVersion", "jvm",    "jvmArgs",
                                        "jdkVersion", "vmName", "vmVersion"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void expect_same(const pk_bench_json *ours, const pk_bench_json *theirs, const char *where)
{
    cr_assert_eq(ours->type, theirs->type, "%s: %d is not %d", where, ours->type, theirs->type);
    cr_assert_eq(ours->count, theirs->count, "%s", where);
    if (ours->string)
        cr_expect_str_eq(ours->string, theirs->string, "%s", where);
    /* JMH's inverse t is good to 1e-9. */
    cr_expect(fabs(ours->number - theirs->number) <= 1e-8 * fabs(theirs->number) + 1e-12,
              "%s: %.17g is not %.17g", where, ours->number, theirs->number);
    for (size_t i = 0; i < ours->count; i++) {
        const char *name = ours->names ? ours->names[i] : where;
        if (ours->names)
            cr_assert_str_eq(name, theirs->names[i]);
        if (!ours->names || !is_environment(name))
            expect_same(&ours->items[i], &theirs->items[i], name);
    }
}

Test(bench_report_json, is_that_of_jmh)
{
    pk_bench_environment environment;
    pk_bench_results results = {0};
    pk_bench_text text = {0};
    pk_bench_text file_text = {0};
    pk_bench_json ours;
    pk_bench_json theirs;
    char bytes[4096];
    size_t length;
    char *error = NULL;
    FILE *file = fopen(JMH_FILES "/result.json", "r");
    cr_assert_not_null(file);
    while ((length = fread(bytes, 1, sizeof bytes, file)) > 0)
        pk_bench_text_add(&file_text, bytes, length);
    fclose(file);
    cr_assert(pk_bench_results_parse(&results, file_text.bytes, file_text.length, &error), "%s",
              error);
    pk_bench_environment_read(&environment);
    pk_bench_report(&text, PK_BENCH_FORMAT_JSON, &results, &environment);
    cr_assert(pk_bench_json_parse(&ours, text.bytes, text.length, &error), "%s", error);
    cr_assert(pk_bench_json_parse(&theirs, file_text.bytes, file_text.length, &error), "%s", error);
    expect_same(&ours, &theirs, "results");
    pk_bench_json_done(&ours);
    pk_bench_json_done(&theirs);
    pk_bench_text_done(&text);
    pk_bench_text_done(&file_text);
    pk_bench_environment_done(&environment);
    pk_bench_results_done(&results);
}

Test(bench_report_json, secondary_metrics_are_always_there)
{
    static const char minimal[] = "[{\"benchmark\":\"a.B.c\",\"mode\":\"avgt\",\"primaryMetric\":{"
                                  "\"score\":1,\"scoreUnit\":\"s/op\",\"rawData\":[[1]]}}]";
    pk_bench_environment environment;
    pk_bench_results results = {0};
    pk_bench_text text = {0};
    pk_bench_json json;
    char *error = NULL;
    cr_assert(pk_bench_results_parse(&results, minimal, sizeof minimal - 1, &error), "%s", error);
    pk_bench_environment_read(&environment);
    pk_bench_report_json(&text, &results, &environment);
    cr_assert(pk_bench_json_parse(&json, text.bytes, text.length, &error), "%s", error);
    const pk_bench_json *secondary = pk_bench_json_member(&json.items[0], "secondaryMetrics");
    cr_assert_not_null(secondary);
    cr_expect_eq(secondary->type, PK_BENCH_JSON_OBJECT);
    cr_expect_null(pk_bench_json_member(&json.items[0], "params"));
    pk_bench_json_done(&json);
    pk_bench_text_done(&text);
    pk_bench_environment_done(&environment);
    pk_bench_results_done(&results);
}
