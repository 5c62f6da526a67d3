/* jmh-like-bench/compare.c: verdicts. */
#include "jmh-like-bench/compare.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A benchmark with `forks` forks of `iterations` scores: base, a step per fork, one per iteration. */
static void add(pk_bench_results *results, const char *name, const char *unit, pk_bench_mode mode,
                unsigned forks, unsigned iterations, double base, double fork_step, double step)
{
    pk_bench_result result = {.benchmark = strdup(name), .mode = mode, .threads = 1};
    result.primary = (pk_bench_metric){.label = strdup("m"), .unit = strdup(unit)};
    for (unsigned fork = 0; fork < forks; fork++)
        for (unsigned i = 0; i < iterations; i++)
            pk_bench_metric_add_score(&result.primary, fork, base + fork * fork_step + i * step,
                                      NULL, 0);
    pk_bench_results_take(results, &result);
}

static const struct {
    const char *what, *unit_before, *unit_after;
    pk_bench_mode mode;
    unsigned forks, iterations;
    double before, after, fork_step, step;
    pk_bench_verdict verdict;
    double gain;
} rows[] = {
    {"more throughput", "ops/s", "ops/s", PK_BENCH_THROUGHPUT, 1, 5, 100, 200, 0, 1,
     PK_BENCH_FASTER, 2},
    {"less throughput", "ops/s", "ops/s", PK_BENCH_THROUGHPUT, 1, 5, 200, 100, 0, 1,
     PK_BENCH_SLOWER, 0.5},
    {"less time", "ns/op", "ns/op", PK_BENCH_AVERAGE_TIME, 1, 5, 200, 100, 0, 1, PK_BENCH_FASTER,
     2},
    {"more time", "ns/op", "ns/op", PK_BENCH_AVERAGE_TIME, 1, 5, 100, 200, 0, 1, PK_BENCH_SLOWER,
     0.5},
    {"within the noise", "ops/s", "ops/s", PK_BENCH_THROUGHPUT, 1, 5, 100, 101, 0, 5, PK_BENCH_SAME,
     1},
    {"the same", "ops/s", "ops/s", PK_BENCH_THROUGHPUT, 1, 5, 100, 100, 0, 0, PK_BENCH_SAME, 1},
    {"forks differ more than the two sides", "ops/s", "ops/s", PK_BENCH_THROUGHPUT, 3, 40, 100, 115,
     10, 0, PK_BENCH_SAME, 1.14},
    {"two values", "ops/s", "ops/s", PK_BENCH_THROUGHPUT, 1, 2, 100, 200, 0, 1, PK_BENCH_TOO_FEW,
     2},
    {"another time unit", "ops/s", "ops/ms", PK_BENCH_THROUGHPUT, 1, 5, 100000, 200, 0, 1,
     PK_BENCH_FASTER, 2},
    {"another time unit of a time", "us/op", "ns/op", PK_BENCH_AVERAGE_TIME, 1, 5, 1, 1000, 0, 0,
     PK_BENCH_SAME, 1},
    {"another thing", "ops/s", "B/op", PK_BENCH_THROUGHPUT, 1, 5, 100, 200, 0, 1,
     PK_BENCH_OTHER_UNITS, NAN},
};

Test(bench_compare, verdicts_need_significance)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_results before = {0};
        pk_bench_results after = {0};
        pk_bench_comparison comparison;
        add(&before, "a.B.c", rows[i].unit_before, rows[i].mode, rows[i].forks, rows[i].iterations,
            rows[i].before, rows[i].fork_step, rows[i].step);
        add(&after, "a.B.c", rows[i].unit_after, rows[i].mode, rows[i].forks, rows[i].iterations,
            rows[i].after, rows[i].fork_step, rows[i].step);
        pk_bench_compare(&comparison, &before, &after);
        cr_assert_eq(comparison.count, 1);
        cr_expect_eq(comparison.items[0].verdict, rows[i].verdict, "%s: %s, p %g", rows[i].what,
                     pk_bench_verdict_text(comparison.items[0].verdict), comparison.items[0].p);
        if (!isnan(rows[i].gain))
            cr_expect_float_eq(comparison.items[0].gain, rows[i].gain, 0.02 * rows[i].gain, "%s",
                               rows[i].what);
        cr_expect_eq(comparison.slower, rows[i].verdict == PK_BENCH_SLOWER);
        cr_expect_eq(comparison.faster, rows[i].verdict == PK_BENCH_FASTER);
        pk_bench_comparison_done(&comparison);
        pk_bench_results_done(&before);
        pk_bench_results_done(&after);
    }
}

Test(bench_compare, only_equal_trials_are_compared)
{
    pk_bench_results before = {0};
    pk_bench_results after = {0};
    pk_bench_comparison comparison;
    pk_bench_text text = {0};
    add(&before, "a.B.gone", "ops/s", PK_BENCH_THROUGHPUT, 1, 3, 1, 0, 1);
    add(&before, "a.B.mode", "s/op", PK_BENCH_AVERAGE_TIME, 1, 3, 1, 0, 1);
    add(&before, "a.B.same", "ops/s", PK_BENCH_THROUGHPUT, 1, 3, 1, 0, 1);
    add(&after, "a.B.mode", "s/op", PK_BENCH_SINGLE_SHOT, 1, 3, 1, 0, 1);
    add(&after, "a.B.new", "ops/s", PK_BENCH_THROUGHPUT, 1, 3, 1, 0, 1);
    add(&after, "a.B.same", "ops/s", PK_BENCH_THROUGHPUT, 1, 3, 1, 0, 1);
    pk_bench_compare(&comparison, &before, &after);
    cr_expect_eq(comparison.count, 1);
    cr_expect_eq(comparison.only_before, 2);
    cr_expect_eq(comparison.only_after, 2);
    pk_bench_comparison_print(&text, &comparison);
    cr_expect_not_null(strstr(text.bytes, "B.same"));
    cr_expect_not_null(strstr(text.bytes, "2 only in the baseline, 2 only now"));
    pk_bench_text_done(&text);
    pk_bench_comparison_done(&comparison);
    pk_bench_results_done(&before);
    pk_bench_results_done(&after);
}
