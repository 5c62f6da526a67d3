/*
 * JMH's sample buffer: a histogram of times with 10 significant bits, of constant size however
 * many samples there are. Filled inside the measured loop of mode sample.
 */
#ifndef PEKOE_BENCH_HISTOGRAM_H
#define PEKOE_BENCH_HISTOGRAM_H

#include "jmh-like-bench/statistics.h"

#define PK_BENCH_HISTOGRAM_BITS 10

/* About 440 KiB: allocate it, do not put it on a stack. All zero is an empty one. */
typedef struct pk_bench_histogram {
    /* counts[b][s]: samples from s << b on, below (s + 1) << b */
    uint64_t counts[64 - PK_BENCH_HISTOGRAM_BITS + 1][1 << PK_BENCH_HISTOGRAM_BITS];
} pk_bench_histogram;

static inline void pk_bench_histogram_add(pk_bench_histogram *histogram, uint64_t sample)
{
    int bits = sample ? 64 - __builtin_clzll(sample) : 0;
    int bucket = bits > PK_BENCH_HISTOGRAM_BITS ? bits - PK_BENCH_HISTOGRAM_BITS : 0;
    histogram->counts[bucket][sample >> bucket]++;
}

/*
 * What was seen, as values (each the lower end of its bucket, times `scale`) with counts above 0,
 * ascending. The array is the caller's, to be freed with free; its length goes to ret_count.
 */
pk_bench_point *pk_bench_histogram_points(const pk_bench_histogram *histogram, double scale,
                                          size_t *ret_count);

/* Both lists as one, ascending, equal values joined. Freed with free. */
pk_bench_point *pk_bench_points_merge(const pk_bench_point *a, size_t n_a, const pk_bench_point *b,
                                      size_t n_b, size_t *ret_count);

#endif
