/*
 * The statistics of JMH's reports: mean, 99.9 % confidence by Student's t, percentiles; and
 * Welch's test for comparisons.
 *
 * Pure functions on arrays; they know nothing of benchmarks. Where JMH and a textbook differ
 * (the percentile of a histogram), this follows JMH, so that figures can be put side by side.
 */
#ifndef PEKOE_BENCH_STATISTICS_H
#define PEKOE_BENCH_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* The confidence of every interval in a report. */
#define PK_BENCH_CONFIDENCE 0.999

/* A value that was seen `count` times. */
typedef struct pk_bench_point {
    double value;
    uint64_t count;
} pk_bench_point;

typedef struct pk_bench_summary {
    uint64_t n;
    double sum;
    double mean;      /* NaN when n is 0 */
    double deviation; /* of the sample, NaN when n is below 2 */
    double min;
    double max;
    double error; /* half the width of the 99.9 % interval of the mean, NaN when n is 2 or less */
} pk_bench_summary;

pk_bench_summary pk_bench_summarize(const double *values, size_t n);
pk_bench_summary pk_bench_summarize_points(const pk_bench_point *points, size_t n);

/*
 * The value below which `rank` percent (0 to 100) lie: at position rank * (n + 1) / 100, counted
 * from 1, interpolated between neighbours. `sorted` ascends; n of 0 gives NaN.
 */
double pk_bench_percentile(const double *sorted, size_t n, double rank);

/* The same over values with counts, each count above 0; ascending by value. */
double pk_bench_percentile_points(const pk_bench_point *sorted, size_t n, double rank);

/* P(T <= t) for Student's t with `freedom` degrees of freedom, a real number above 0. */
double pk_bench_student_cdf(double t, double freedom);

/* The t with P(T <= t) = p; p in (0, 1), otherwise NaN. */
double pk_bench_student_quantile(double p, double freedom);

/* Welch's test of two means: P of a difference at least this large when there is none. */
typedef struct pk_bench_welch {
    double t;
    double freedom;
    double p; /* two-sided; NaN when a side has fewer than 2 values */
} pk_bench_welch;

pk_bench_welch pk_bench_welch_test(const pk_bench_summary *a, const pk_bench_summary *b);

#endif
