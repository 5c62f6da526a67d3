/*
 * The measured loop: runs one fork's iterations of one plan in this process and hands each result
 * to a sink. Knows nothing of processes, reports or files.
 */
#ifndef PEKOE_BENCH_MEASURE_H
#define PEKOE_BENCH_MEASURE_H

#include "jmh-like-bench/plan.h"
#include "jmh-like-bench/result.h"

/* A secondary metric of one iteration. */
typedef struct pk_bench_extra {
    char *label;
    char *unit;
    pk_bench_policy policy;
    double value;
} pk_bench_extra;

typedef struct pk_bench_extras {
    pk_bench_extra *items;
    size_t count;
} pk_bench_extras;

/* Adds a value; to a label that is there already it is added up. */
void pk_bench_extras_add(pk_bench_extras *extras, const char *label, const char *unit,
                         pk_bench_policy policy, double value);
void pk_bench_extras_done(pk_bench_extras *extras);

typedef struct pk_bench_iteration {
    bool warmup;
    unsigned number;        /* from 1 */
    double score;           /* in the plan's unit */
    double nanoseconds;     /* per invocation and thread */
    pk_bench_point *points; /* mode sample, otherwise NULL */
    size_t point_count;
    pk_bench_extras extras;
} pk_bench_iteration;

/* Who hears of iterations, on the thread that called. Arguments are lent for the call. */
typedef struct pk_bench_sink {
    void (*begin)(void *self, bool warmup, unsigned number);
    void (*end)(void *self, const pk_bench_iteration *iteration);
    void (*failed)(void *self, const char *why);
    void (*skipped)(void *self, const char *why);
    void *self;
} pk_bench_sink;

/* Runs warm-up and measurement; false after sink->failed or sink->skipped. */
bool pk_bench_measure(const pk_bench_plan *plan, const pk_bench_sink *sink);

/*
 * Runs `warmup` invocations, then `invocations` inside pk_bench_counted_region, for an instrument
 * that counts what happens in that function. One thread. False after sink->failed or sink->skipped.
 */
bool pk_bench_measure_counted(const pk_bench_plan *plan, uint64_t warmup, uint64_t invocations,
                              const pk_bench_sink *sink);

/* The only thing that pk_bench_measure_counted wants counted; its name is given to callgrind. */
void pk_bench_counted_region(void (*run)(void *, uint64_t), void *state, uint64_t invocations);

#endif
