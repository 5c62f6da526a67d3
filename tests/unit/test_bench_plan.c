/* jmh-like-bench/plan.c: what is selected, and with which settings. */
#include "jmh-like-bench/plan.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static void run(void *state, uint64_t invocations)
{
}

static void check(pk_bench_context *context, void *state, uint64_t invocations)
{
}

static const pk_bench_param params[] = {
    {"codec", PK_BENCH_VALUES("identity", "gzip")}, {"n", PK_BENCH_VALUES("1", "10", "100")}, {0}};

#define ROW(row_name) .name = row_name, .operation = "nothing", .run = run, .check = check

static const pk_benchmark table[] = {
    {ROW("pekoe.HandlerBenchmark.unaryStrict")},
    {ROW("pekoe.HandlerBenchmark.unaryNonstrict")},
    {ROW("pekoe.FrameBenchmark.read"), .params = params, .operations = 10},
};

static pk_bench_plans select_with(pk_bench_options *options, const char *line)
{
    static char copy[256];
    char *argv[16] = {copy};
    int argc = 1;
    char *error = NULL;
    pk_bench_plans plans = {0};
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    cr_assert(pk_bench_options_parse(options, argc, argv, &error), "%s", error);
    cr_assert(pk_bench_plans_make(&plans, options, &error), "%s", error);
    return plans;
}

Test(bench_plan, expressions_find_anywhere_in_the_name)
{
    static const struct {
        const char *line;
        size_t count;
    } rows[] = {{"", 8},
                {"Handler", 2},
                {"Strict$", 1},
                {"unary|Frame", 8},
                {"Handler -e Non", 1},
                {"Strict Frame", 7},
                {"^Handler", 0},
                {"strict", 1},
                {"-bm thrpt,ss Handler", 4}};
    pk_bench_register(table, 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_options options;
        pk_bench_plans plans = select_with(&options, rows[i].line);
        cr_expect_eq(plans.count, rows[i].count, "%s: %zu", rows[i].line, plans.count);
        pk_bench_plans_done(&plans);
        pk_bench_options_done(&options);
    }
}

Test(bench_plan, parameters_are_combined_and_can_be_replaced)
{
    pk_bench_options options;
    pk_bench_register(table, 3);
    pk_bench_plans plans = select_with(&options, "Frame");
    cr_assert_eq(plans.count, 6);
    cr_expect_str_eq(plans.items[0].params[0].value, "identity");
    cr_expect_str_eq(plans.items[1].params[1].value, "10");
    cr_expect_str_eq(plans.items[5].params[0].value, "gzip");
    cr_expect_str_eq(plans.items[5].params[1].value, "100");
    cr_expect_eq(plans.items[0].operations, 10);
    pk_bench_plans_done(&plans);
    pk_bench_options_done(&options);

    plans = select_with(&options, "Frame -p n=7 -p codec=deflate -opi 3");
    cr_assert_eq(plans.count, 1);
    cr_expect_str_eq(plans.items[0].params[0].value, "deflate");
    cr_expect_str_eq(plans.items[0].params[1].value, "7");
    cr_expect_eq(plans.items[0].operations, 3);
    pk_bench_plans_done(&plans);
    pk_bench_options_done(&options);
}

Test(bench_plan, defaults_are_those_of_jmh)
{
    pk_bench_options options;
    pk_bench_register(table, 3);
    pk_bench_plans plans = select_with(&options, "-bm thrpt,ss unaryStrict");
    cr_assert_eq(plans.count, 2);
    const pk_bench_plan *throughput = &plans.items[0];
    const pk_bench_plan *single = &plans.items[1];
    cr_expect_eq(throughput->forks, 5);
    cr_expect_eq(throughput->warmup_forks, 0);
    cr_expect_eq(throughput->warmup.iterations, 5);
    cr_expect_eq(throughput->measurement.iterations, 5);
    cr_expect_eq(pk_bench_time_nanoseconds(throughput->measurement.time), UINT64_C(10000000000));
    cr_expect_eq(throughput->threads, 1);
    cr_expect_eq(throughput->measurement.batch, 1);
    cr_expect(throughput->synchronized);
    cr_expect_eq(single->mode, PK_BENCH_SINGLE_SHOT);
    cr_expect_eq(single->warmup.iterations, 0);
    cr_expect_eq(single->measurement.iterations, 1);
    cr_expect_eq(pk_bench_time_nanoseconds(single->measurement.time), 0);
    cr_expect_float_eq(pk_bench_plan_duration(throughput), 5 * 100e9, 1);
    pk_bench_plans_done(&plans);
    pk_bench_options_done(&options);
}

static void expect_refused(const pk_benchmark *benchmark, const char *reason)
{
    pk_bench_options options;
    pk_bench_plans plans = {0};
    char *error = NULL;
    char *argv[] = {NULL};
    pk_bench_register(benchmark, 1);
    cr_assert(pk_bench_options_parse(&options, 1, argv, &error));
    cr_assert_not(pk_bench_plans_make(&plans, &options, &error));
    cr_expect_not_null(strstr(error, reason), "%s", error);
    free(error);
    pk_bench_plans_done(&plans);
    pk_bench_options_done(&options);
}

Test(bench_plan, a_benchmark_without_a_check_is_refused)
{
    static const pk_benchmark unchecked = {.name = "a.B.c", .operation = "x", .run = run};
    expect_refused(&unchecked, "no check");
}

Test(bench_plan, two_benchmarks_of_one_name_are_refused)
{
    static const pk_benchmark again = {ROW("pekoe.FrameBenchmark.read")};
    pk_bench_register(table, 3);
    expect_refused(&again, "same name");
}

Test(bench_plan, a_wrong_expression_is_an_error)
{
    pk_bench_options options;
    pk_bench_plans plans = {0};
    char *error = NULL;
    char *argv[] = {NULL, (char[]){"("}};
    pk_bench_register(table, 3);
    cr_assert(pk_bench_options_parse(&options, 2, argv, &error));
    cr_assert_not(pk_bench_plans_make(&plans, &options, &error));
    cr_expect_not_null(strstr(error, "'('"), "%s", error);
    free(error);
    pk_bench_plans_done(&plans);
    pk_bench_options_done(&options);
}
