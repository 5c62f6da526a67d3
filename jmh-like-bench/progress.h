/*
 * What a run shows while it goes on, as JMH shows it: headings, iterations, each benchmark's
 * result. Writes to a stream that the run gives; keeps no state of its own.
 */
#ifndef PEKOE_BENCH_PROGRESS_H
#define PEKOE_BENCH_PROGRESS_H

#include "jmh-like-bench/measure.h"

#include <stdio.h>

void pk_bench_show_heading(FILE *out, const pk_bench_plan *plan);

/* "Run progress" and the time that is left, from the share that is done (0 to 1). */
void pk_bench_show_share(FILE *out, double done, double seconds_left);

/* The two halves of an iteration's line. */
void pk_bench_show_begin(FILE *out, bool warmup, unsigned number);
void pk_bench_show_iteration(FILE *out, const pk_bench_plan *plan,
                             const pk_bench_iteration *iteration);

/* All forks of a benchmark together, with its secondary metrics. */
void pk_bench_show_result(FILE *out, const pk_bench_result *result);

/* "00:01:40" */
void pk_bench_format_duration(double seconds, char *bytes, size_t room);

/* "ops/s", "us/op". To be freed. */
char *pk_bench_unit_of_plan(const pk_bench_plan *plan);

#endif
