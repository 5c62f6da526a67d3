/*
 * Results: what a run (or a JSON file) says of each benchmark, from raw scores to summaries.
 *
 * Filled by the run and by the JSON loader, read by every report, the comparison and the charts.
 * Measures nothing.
 */
#ifndef PEKOE_BENCH_RESULT_H
#define PEKOE_BENCH_RESULT_H

#include "jmh-like-bench/options.h"
#include "jmh-like-bench/statistics.h"

/* How the scores of iterations become one. */
typedef enum pk_bench_policy {
    PK_BENCH_AVERAGE, /* mean, with an error */
    PK_BENCH_SUM,     /* no error */
    PK_BENCH_DERIVED  /* `derived`, computed from all samples of the primary metric; no error */
} pk_bench_policy;

/* One iteration of one fork. */
typedef struct pk_bench_score {
    unsigned fork;          /* from 0; ascends within a metric */
    double score;           /* in the metric's unit */
    pk_bench_point *points; /* mode sample: the times; otherwise NULL. Owned */
    size_t point_count;
} pk_bench_score;

typedef struct pk_bench_metric {
    char *label; /* "gc.alloc.rate"; the primary metric's is the method's name */
    char *unit;  /* "ops/s", "B/op" */
    pk_bench_policy policy;
    double derived;
    pk_bench_score *scores;
    size_t count;
} pk_bench_metric;

typedef struct pk_bench_pair {
    char *name;
    char *value;
} pk_bench_pair;

/* One benchmark in one mode with one choice of parameters. All strings are owned. */
typedef struct pk_bench_result {
    char *benchmark;
    pk_bench_mode mode;
    pk_bench_pair *params;
    size_t param_count;
    unsigned threads;
    unsigned forks;
    unsigned warmup_iterations;
    char *warmup_time;
    unsigned warmup_batch;
    unsigned iterations;
    char *time;
    unsigned batch;
    pk_bench_metric primary;
    pk_bench_metric *secondary;
    size_t secondary_count;
} pk_bench_result;

typedef struct pk_bench_results {
    pk_bench_result *items;
    size_t count;
} pk_bench_results;

void pk_bench_metric_done(pk_bench_metric *metric);
void pk_bench_result_done(pk_bench_result *result);
void pk_bench_results_done(pk_bench_results *results);

/* Adds a score and returns it; `points` is taken. */
void pk_bench_metric_add_score(pk_bench_metric *metric, unsigned fork, double score,
                               pk_bench_point *points, size_t point_count);

/* The secondary metric of that label, made if it is not there. Borrowed until the next call. */
pk_bench_metric *pk_bench_result_metric(pk_bench_result *result, const char *label,
                                        const char *unit, pk_bench_policy policy);

/* Adds what JMH derives in mode sample: secondary metrics p0.00 to p1.00. */
void pk_bench_result_derive(pk_bench_result *result);

/* Takes result into results, leaving *result empty. */
void pk_bench_results_take(pk_bench_results *results, pk_bench_result *result);

/* What a report says of a metric. */
typedef struct pk_bench_metric_summary {
    pk_bench_summary statistics; /* of iterations, or of all samples in mode sample */
    double score;
    double error; /* NaN where there is none */
    uint64_t count;
} pk_bench_metric_summary;

pk_bench_metric_summary pk_bench_metric_summarize(const pk_bench_metric *metric);

/* The same of the scores of one fork. */
pk_bench_summary pk_bench_metric_summarize_fork(const pk_bench_metric *metric, unsigned fork);

/* The percentile of a metric's iterations, or of all its samples. */
double pk_bench_metric_percentile(const pk_bench_metric *metric, double rank);

/* The value of a parameter, NULL when the benchmark has none of that name. */
const char *pk_bench_result_param(const pk_bench_result *result, const char *name);

/* Every parameter name in the results, sorted, once each; borrowed from them, array to be freed. */
const char **pk_bench_results_param_names(const pk_bench_results *results, size_t *ret_count);

/* "A.b" for "pekoe.A.b", by JMH's rule over all names together: see result.c. */
char **pk_bench_dense_names(const char *const *names, size_t count);

#endif
