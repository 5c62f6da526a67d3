/*
 * The profilers that count inside the measuring process: allocations and hardware events.
 *
 * Started and stopped by the measured loop around its timed part; each adds secondary metrics.
 */
#ifndef PEKOE_BENCH_PROFILE_H
#define PEKOE_BENCH_PROFILE_H

#include "jmh-like-bench/measure.h"

#define PK_BENCH_EVENTS 8

typedef struct pk_bench_profile {
    unsigned profilers; /* those that work here */
    uint64_t time;
    uint64_t allocations;
    uint64_t bytes;
    uint64_t releases;
    int events[PK_BENCH_EVENTS]; /* file descriptors, -1 for events that are not there */
    double event_counts[PK_BENCH_EVENTS];
} pk_bench_profile;

/* Opens what `profilers` ask for. Before the threads that are to be counted are started. */
void pk_bench_profile_init(pk_bench_profile *profile, unsigned profilers);
void pk_bench_profile_done(pk_bench_profile *profile);

/* Neither allocates between the two moments that it compares. */
void pk_bench_profile_start(pk_bench_profile *profile);
void pk_bench_profile_stop(pk_bench_profile *profile, double operations, pk_bench_extras *extras);

/* Whether allocations are counted in this process: the counting library was loaded with it. */
bool pk_bench_allocations_counted(void);

/* The path of that library, in ret_path (`room` bytes); false when it is not there. */
bool pk_bench_allocation_library(char *ret_path, size_t room);

/* Opens the events and says which hardware counters are missing, "" for none; to be freed. */
char *pk_bench_missing_events(bool *ret_any_hardware);

#endif
