/* jmh-like-bench/result.c: policies of metrics, and JMH 1.37's ClassUtils.denseClassNames. */
#include "jmh-like-bench/result.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(bench_result, names_are_as_dense_as_in_jmh)
{
    static const struct {
        const char *names[2], *dense[2];
        size_t count;
    } rows[] = {
        {{"pekoe.A.x", "pekoe.A.y:gc.alloc.rate"}, {"A.x", "A.y:gc.alloc.rate"}, 2},
        {{"pekoe.A.x"}, {"A.x"}, 1},
        {{"pekoe.sub.A.x", "pekoe.B.y"}, {"p.sub.A.x", "p.B.y"}, 2},
        {{"org.a.A.x", "org.b.B.y"}, {"o.a.A.x", "o.b.B.y"}, 2},
        {{"A.x", "B.y"}, {"A.x", "B.y"}, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char **dense = pk_bench_dense_names(rows[i].names, rows[i].count);
        for (size_t j = 0; j < rows[i].count; j++) {
            cr_expect_str_eq(dense[j], rows[i].dense[j]);
            free(dense[j]);
        }
        free(dense);
    }
}

Test(bench_result, a_sum_has_no_error_and_an_average_has)
{
    pk_bench_result result = {0};
    for (unsigned i = 0; i < 6; i++) {
        pk_bench_metric_add_score(pk_bench_result_metric(&result, "n", "counts", PK_BENCH_SUM),
                                  i / 3, i + 1, NULL, 0);
        pk_bench_metric_add_score(pk_bench_result_metric(&result, "m", "B/op", PK_BENCH_AVERAGE),
                                  i / 3, i + 1, NULL, 0);
    }
    cr_assert_eq(result.secondary_count, 2);
    pk_bench_metric_summary sum = pk_bench_metric_summarize(&result.secondary[0]);
    pk_bench_metric_summary average = pk_bench_metric_summarize(&result.secondary[1]);
    cr_expect_float_eq(sum.score, 21, 1e-12);
    cr_expect(isnan(sum.error));
    cr_expect_float_eq(average.score, 3.5, 1e-12);
    cr_expect_eq(average.count, 6);
    cr_expect_gt(average.error, 0);
    cr_expect_float_eq(pk_bench_metric_summarize_fork(&result.secondary[1], 1).mean, 5, 1e-12);
    pk_bench_result_done(&result);
}

Test(bench_result, samples_of_all_iterations_are_one)
{
    pk_bench_result result = {.primary = {.unit = strdup("us/op")}};
    for (unsigned fork = 0; fork < 2; fork++) {
        pk_bench_point *points = calloc(2, sizeof *points);
        points[0] = (pk_bench_point){1 + fork, 3};
        points[1] = (pk_bench_point){10, 1};
        pk_bench_metric_add_score(&result.primary, fork, 0, points, 2);
    }
    pk_bench_metric_summary summary = pk_bench_metric_summarize(&result.primary);
    cr_expect_eq(summary.count, 8);
    cr_expect_float_eq(summary.score, 29 / 8.0, 1e-12);
    cr_expect_float_eq(pk_bench_metric_percentile(&result.primary, 50), 2, 1e-12);
    pk_bench_result_derive(&result);
    cr_assert_eq(result.secondary_count, 8);
    cr_expect_str_eq(result.secondary[7].label, "p1.00");
    pk_bench_metric_summary last = pk_bench_metric_summarize(&result.secondary[7]);
    cr_expect_float_eq(last.score, 10, 1e-12);
    cr_expect_eq(last.count, 1);
    pk_bench_result_done(&result);
}
