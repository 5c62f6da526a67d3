/* jmh-like-bench/statistics.c against SciPy and against JMH's own classes. */
#include "jmh-like-bench/statistics.h"

#include <criterion/criterion.h>

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool near(double value, double wanted, double relative)
{
    return fabs(value - wanted) <= relative * fabs(wanted);
}

/* scipy.stats.t.ppf(p, freedom) of SciPy 1.17.1, p = 0.9, 0.975, 0.995, 0.9995. */
static const double quantiles[][5] = {
    {1, 3.0776835371752544, 12.706204736174694, 63.656741162871526, 636.6192487687897},
    {2, 1.8856180831641272, 4.302652729749462, 9.924843200918287, 31.599054576445365},
    {3, 1.637744353696209, 3.1824463052837078, 5.840909309733355, 12.923978636687961},
    {4, 1.533206274058944, 2.7764451051977934, 4.604094871349992, 8.610301581379522},
    {5, 1.4758840488244815, 2.5705818356363146, 4.032142983555228, 6.868826625881276},
    {9, 1.3830287383966329, 2.262157162798205, 3.249835541592126, 4.780912585931217},
    {10, 1.372183641110336, 2.228138851986274, 3.16927267261695, 4.586893858702708},
    {14, 1.345030374454651, 2.144786687917804, 2.9768427343708344, 4.140454112738259},
    {24, 1.3178359336731498, 2.0638985616280245, 2.796939504774456, 3.745398619290096},
    {29, 1.311433647301551, 2.045229642132703, 2.756385903670605, 3.6594050194663748},
    {30, 1.3104150253913955, 2.0422724563012378, 2.7499956535672254, 3.6459586350420627},
    {60, 1.295821093515731, 2.0002978220142604, 2.6602830288550368, 3.460200469196392},
    {100, 1.290074761346516, 1.9839715185235518, 2.6258905214380173, 3.390491311164263},
    {499, 1.2832504230098851, 1.9647293909876886, 2.585717683111754, 3.3101305703978303},
    {12948, 1.281616952388877, 1.960147216640206, 2.5762090710803682, 3.291278334000886},
    {1e6, 1.281552412129939, 1.959966356814107, 2.5758342201053344, 3.2905364612487222},
};

Test(bench_statistics, quantiles_of_t_are_those_of_scipy)
{
    static const double p[] = {0.9, 0.975, 0.995, 0.9995};
    for (size_t i = 0; i < COUNT(quantiles); i++)
        for (size_t j = 0; j < COUNT(p); j++) {
            double wanted = quantiles[i][j + 1];
            double upper = pk_bench_student_quantile(p[j], quantiles[i][0]);
            double lower = pk_bench_student_quantile(1 - p[j], quantiles[i][0]);
            cr_expect(near(upper, wanted, 1e-9), "df %g p %g: %.15g", quantiles[i][0], p[j], upper);
            cr_expect(near(lower, -wanted, 1e-9), "df %g p %g: %.15g", quantiles[i][0], 1 - p[j],
                      lower);
        }
    cr_expect(fabs(pk_bench_student_quantile(0.5, 7)) < 1e-12);
}

/* scipy.stats.t.cdf(t, freedom) of SciPy 1.17.1. */
static const double probabilities[][3] = {
    {1, 1.0, 0.75},
    {2, -3.5, 0.036413675027234665},
    {5, 2.015, 0.9499969138365968},
    {29, 3.659, 0.9994994608644798},
    {4.7, 10.0, 0.9998793725268941},
    {1000, 0.01, 0.5039883590339064},
    {3, 40.0, 0.9999828096596054},
    {7.5, -0.2, 0.42339813199544},
};

Test(bench_statistics, probabilities_of_t_are_those_of_scipy)
{
    for (size_t i = 0; i < COUNT(probabilities); i++) {
        double p = pk_bench_student_cdf(probabilities[i][1], probabilities[i][0]);
        cr_expect(near(p, probabilities[i][2], 1e-12), "%zu: %.15g", i, p);
    }
}

Test(bench_statistics, what_has_no_quantile_gives_nan)
{
    cr_expect(isnan(pk_bench_student_quantile(0, 3)));
    cr_expect(isnan(pk_bench_student_quantile(1, 3)));
    cr_expect(isnan(pk_bench_student_quantile(NAN, 3)));
    cr_expect(isnan(pk_bench_student_quantile(0.9, 0)));
    cr_expect(isnan(pk_bench_student_cdf(NAN, 3)));
}

/*
 * org.openjdk.jmh.util.ListStatistics of JMH 1.37: mean, deviation, getMeanErrorAt(0.999), and
 * percentiles 0, 50, 90 and 95. Its t is good to 1e-9 only.
 */
static const struct {
    size_t n;
    double values[11];
    double mean, deviation, error, percentiles[4];
} lists[] = {
    {1, {3}, 3, NAN, NAN, {3, 3, 3, 3}},
    {2, {1, 2}, 1.5, 0.7071067811865476, NAN, {1, 1.5, 2, 2}},
    {3, {1, 4, 5}, 3.3333333333333335, 2.081665999466133, 37.97733717718522, {1, 4, 5, 5}},
    {7, {10, 20, 30, 40, 50, 60, 70}, 40, 21.602468994692867, 48.653530360364485, {10, 40, 70, 70}},
    {8, {2, 4, 4, 4, 5, 5, 7, 9}, 5, 2.138089935299395, 4.0879749340509255, {2, 4.5, 9, 9}},
    {11,
     {0.75e7, 1e7, 1.05e7, 1.1e7, 1.25e7, 1.5e7, 1.7e7, 1.9e7, 2e7, 2.2e7, 3e7},
     15863636.363636363,
     6592006.178284836,
     9116748.069799341,
     {7500000, 15000000, 28400000.000000007, 30000000}},
};

Test(bench_statistics, summaries_and_percentiles_are_those_of_jmh)
{
    static const double ranks[] = {0, 50, 90, 95};
    for (size_t i = 0; i < COUNT(lists); i++) {
        pk_bench_summary summary = pk_bench_summarize(lists[i].values, lists[i].n);
        cr_expect_eq(summary.n, lists[i].n);
        cr_expect(near(summary.mean, lists[i].mean, 1e-14), "%zu mean %.17g", i, summary.mean);
        cr_expect(isnan(lists[i].deviation) ? isnan(summary.deviation)
                                            : near(summary.deviation, lists[i].deviation, 1e-14));
        cr_expect(isnan(lists[i].error) ? isnan(summary.error)
                                        : near(summary.error, lists[i].error, 1e-8),
                  "%zu error %.17g", i, summary.error);
        cr_expect_float_eq(summary.min, lists[i].values[0], 0);
        cr_expect_float_eq(summary.max, lists[i].values[lists[i].n - 1], 0);
        for (size_t j = 0; j < COUNT(ranks); j++) {
            double value = pk_bench_percentile(lists[i].values, lists[i].n, ranks[j]);
            cr_expect(near(value, lists[i].percentiles[j], 1e-14), "%zu p%g %.17g", i, ranks[j],
                      value);
        }
    }
}

Test(bench_statistics, nothing_has_no_mean)
{
    pk_bench_summary summary = pk_bench_summarize(NULL, 0);
    cr_expect(isnan(summary.mean) && isnan(summary.min) && isnan(summary.error));
    cr_expect(isnan(pk_bench_percentile(NULL, 0, 50)));
    cr_expect(isnan(pk_bench_percentile_points(NULL, 0, 50)));
}

Test(bench_statistics, counted_values_are_as_many_equal_ones)
{
    static const double values[] = {1, 2, 2, 2, 7};
    static const pk_bench_point points[] = {{1, 1}, {2, 3}, {7, 1}};
    pk_bench_summary plain = pk_bench_summarize(values, COUNT(values));
    pk_bench_summary counted = pk_bench_summarize_points(points, COUNT(points));
    cr_expect_eq(counted.n, plain.n);
    cr_expect(near(counted.mean, plain.mean, 1e-14));
    cr_expect(near(counted.deviation, plain.deviation, 1e-14));
    cr_expect(near(counted.error, plain.error, 1e-14));
}

/* scipy.stats.ttest_ind(a, b, equal_var=False): statistic, degrees of freedom, p. */
static const struct {
    size_t n_a, n_b;
    double a[5], b[5];
    double t, freedom, p;
} tests[] = {
    {5,
     4,
     {5.0, 5.1, 4.9, 5.05, 4.95},
     {6.0, 6.3, 5.8, 6.1},
     -9.552035349094194,
     3.695349688758691,
     0.000976833681076493},
    {4,
     5,
     {10, 11, 9, 10.5},
     {10.2, 10.9, 9.4, 10.1, 10.6},
     -0.23144330619582343,
     5.0293144378204655,
     0.8260922262638818},
    {5,
     5,
     {1e7, 1.02e7, 0.99e7, 1.01e7, 1.0e7},
     {1.031e7, 1.04e7, 1.05e7, 1.035e7, 1.044e7},
     -5.910381929728066,
     6.888852742082807,
     0.0006297133206431022},
};

Test(bench_statistics, welch_is_that_of_scipy)
{
    for (size_t i = 0; i < COUNT(tests); i++) {
        pk_bench_summary a = pk_bench_summarize(tests[i].a, tests[i].n_a);
        pk_bench_summary b = pk_bench_summarize(tests[i].b, tests[i].n_b);
        pk_bench_welch welch = pk_bench_welch_test(&a, &b);
        cr_expect(near(welch.t, tests[i].t, 1e-10), "%zu t %.17g", i, welch.t);
        cr_expect(near(welch.freedom, tests[i].freedom, 1e-10), "%zu df %.17g", i, welch.freedom);
        cr_expect(near(welch.p, tests[i].p, 1e-9), "%zu p %.17g", i, welch.p);
    }
}

Test(bench_statistics, welch_of_counts_that_do_not_vary_sees_any_difference)
{
    static const double ten[] = {10, 10, 10}, eleven[] = {11, 11, 11};
    pk_bench_summary a = pk_bench_summarize(ten, 3);
    pk_bench_summary b = pk_bench_summarize(eleven, 3);
    cr_expect_float_eq(pk_bench_welch_test(&a, &b).p, 0, 0);
    cr_expect_float_eq(pk_bench_welch_test(&a, &a).p, 1, 0);
    b = pk_bench_summarize(eleven, 1);
    cr_expect(isnan(pk_bench_welch_test(&a, &b).p));
}
