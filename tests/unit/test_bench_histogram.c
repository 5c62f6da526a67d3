/* jmh-like-bench/histogram.c against org.openjdk.jmh.util.SampleBuffer of JMH 1.37. */
#include "jmh-like-bench/histogram.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool near(double value, double wanted)
{
    return fabs(value - wanted) <= 1e-12 * fabs(wanted);
}

Test(bench_histogram, percentiles_are_those_of_jmh)
{
    /* The same 5000 numbers went into a SampleBuffer, and this came out. */
    static const double wanted[][2] = {
        {0, 0},
        {50, 1474},
        {90, 2724},
        {95, 2864},
        {99, 35828.35999999276},
        {99.9, 4128522.23999995},
        {99.99, 4775936},
        {100, 4775936},
    };
    pk_bench_histogram *histogram = calloc(1, sizeof *histogram);
    uint64_t number = 12345;
    for (uint64_t i = 0; i < 5000; i++) {
        number = (number * 1103515245 + 12345) & 0x7fffffff;
        pk_bench_histogram_add(histogram, (number >> 8) % (i % 100 == 0 ? 5000000 : 3000));
    }
    size_t count;
    pk_bench_point *points = pk_bench_histogram_points(histogram, 1, &count);
    pk_bench_summary summary = pk_bench_summarize_points(points, count);
    cr_expect_eq(summary.n, 5000);
    cr_expect(near(summary.mean, 21940.7528), "%.17g", summary.mean);
    cr_expect(near(summary.deviation, 236929.61102595658), "%.17g", summary.deviation);
    cr_expect(fabs(summary.error - 11032.062365808462) < 1e-4, "%.17g", summary.error);
    for (size_t i = 0; i < COUNT(wanted); i++) {
        double value = pk_bench_percentile_points(points, count, wanted[i][0]);
        cr_expect(near(value, wanted[i][1]), "p%g: %.17g", wanted[i][0], value);
    }
    free(points);
    free(histogram);
}

Test(bench_histogram, keeps_ten_bits_of_any_number)
{
    static const uint64_t samples[] = {0, 1, 1023, 1024, 1025, 4095, 123456789, UINT64_MAX};
    for (size_t i = 0; i < COUNT(samples); i++) {
        pk_bench_histogram *histogram = calloc(1, sizeof *histogram);
        pk_bench_histogram_add(histogram, samples[i]);
        size_t count;
        pk_bench_point *points = pk_bench_histogram_points(histogram, 2, &count);
        double sample = (double) samples[i];
        cr_assert_eq(count, 1);
        cr_expect_eq(points[0].count, 1);
        cr_expect_leq(points[0].value, 2 * sample);
        cr_expect_geq(points[0].value, 2 * sample * (1 - 1 / 512.0));
        if (samples[i] < 1024)
            cr_expect_float_eq(points[0].value, 2 * sample, 0);
        free(points);
        free(histogram);
    }
}

Test(bench_histogram, lists_merge_in_order)
{
    static const pk_bench_point a[] = {{1, 2}, {3, 1}, {9, 1}};
    static const pk_bench_point b[] = {{0, 1}, {3, 4}};
    static const pk_bench_point wanted[] = {{0, 1}, {1, 2}, {3, 5}, {9, 1}};
    size_t count;
    pk_bench_point *merged = pk_bench_points_merge(a, COUNT(a), b, COUNT(b), &count);
    cr_assert_eq(count, COUNT(wanted));
    for (size_t i = 0; i < count; i++) {
        cr_expect_float_eq(merged[i].value, wanted[i].value, 0);
        cr_expect_eq(merged[i].count, wanted[i].count);
    }
    free(merged);
    free(pk_bench_points_merge(NULL, 0, NULL, 0, &count));
    cr_expect_eq(count, 0);
}
