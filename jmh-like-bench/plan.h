/*
 * What is to be run: the registered benchmarks that the command line selects, once for each mode
 * and each choice of parameter values, with every setting decided.
 *
 * A parent and the process that it starts make the same list from the same arguments, so a place
 * in the list names a trial between them.
 */
#ifndef PEKOE_BENCH_PLAN_H
#define PEKOE_BENCH_PLAN_H

#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/options.h"

typedef struct pk_bench_choice {
    const char *name; /* borrowed from the benchmark or the options */
    const char *value;
} pk_bench_choice;

/* The settings of warm-up or of measurement. */
typedef struct pk_bench_phase {
    unsigned iterations;
    pk_bench_time time; /* no time: single shot */
    unsigned batch;     /* invocations in one operation */
} pk_bench_phase;

typedef struct pk_bench_plan {
    const pk_benchmark *benchmark;
    pk_bench_mode mode;
    pk_bench_choice *params; /* in the order of the benchmark's table */
    size_t param_count;
    pk_bench_phase warmup;
    pk_bench_phase measurement;
    unsigned threads;
    unsigned operations; /* per invocation */
    unsigned forks;
    unsigned warmup_forks;
    pk_bench_time timeout;
    const pk_bench_unit *unit; /* of scores */
    bool synchronized;
    unsigned profilers;
} pk_bench_plan;

typedef struct pk_bench_plans {
    pk_bench_plan *items;
    size_t count;
} pk_bench_plans;

/*
 * Makes the list, sorted by name, mode and parameters. False when the registered benchmarks or the
 * regular expressions are wrong, or a parameter is asked for that none of those chosen has; ret_error
 * then gets a text to be freed. Options are borrowed.
 */
bool pk_bench_plans_make(pk_bench_plans *plans, const pk_bench_options *options, char **ret_error);
void pk_bench_plans_done(pk_bench_plans *plans);

/* The least time that a plan takes, warm-up forks included, in nanoseconds. */
double pk_bench_plan_duration(const pk_bench_plan *plan);

#endif
