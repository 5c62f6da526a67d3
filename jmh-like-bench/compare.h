/*
 * Two results side by side, with a verdict: did it get faster, or is that noise?
 *
 * Decided by Welch's test at 99.9 % on the scores of iterations and, where both sides have three
 * forks or more, on the means of forks too, since layout and placement are the same within a fork;
 * the less certain of the two counts.
 */
#ifndef PEKOE_BENCH_COMPARE_H
#define PEKOE_BENCH_COMPARE_H

#include "jmh-like-bench/result.h"

typedef enum pk_bench_verdict {
    PK_BENCH_SAME, /* a difference is not shown */
    PK_BENCH_FASTER,
    PK_BENCH_SLOWER,
    PK_BENCH_TOO_FEW,    /* a side has fewer than 3 scores */
    PK_BENCH_OTHER_UNITS /* the units cannot be converted */
} pk_bench_verdict;

typedef struct pk_bench_compared {
    const pk_bench_result *result; /* the new one, borrowed */
    const char *secondary;         /* label of a secondary metric, NULL for the primary one */
    const char *unit;              /* of both scores, the new one's */
    double before;
    double after;
    double gain;     /* above 1 is better: more throughput, less time, fewer of anything */
    double gain_low; /* 99.9 % interval; NaN where there is none */
    double gain_high;
    double p;
    pk_bench_verdict verdict;
} pk_bench_compared;

typedef struct pk_bench_comparison {
    pk_bench_compared *items;
    size_t count;
    size_t faster; /* of the primary metrics */
    size_t slower;
    size_t only_before; /* benchmarks that the other side does not have */
    size_t only_after;
} pk_bench_comparison;

/* Both results are borrowed for as long as the comparison is used. */
void pk_bench_compare(pk_bench_comparison *comparison, const pk_bench_results *before,
                      const pk_bench_results *after);
void pk_bench_comparison_done(pk_bench_comparison *comparison);

const char *pk_bench_verdict_text(pk_bench_verdict verdict);

/* "A.b [n=10] (avgt)", with every parameter; to be freed. */
char *pk_bench_compared_name(const pk_bench_compared *compared);

void pk_bench_comparison_print(pk_bench_text *text, const pk_bench_comparison *comparison);

#endif
