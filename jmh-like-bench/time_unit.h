/*
 * Units of time and lengths of time as JMH's command line writes them: whole numbers with a unit.
 */
#ifndef PEKOE_BENCH_TIME_UNIT_H
#define PEKOE_BENCH_TIME_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pk_bench_unit {
    const char *label; /* "us", "hr" */
    double nanoseconds;
    uint64_t factor; /* the same, exactly */
} pk_bench_unit;

extern const pk_bench_unit pk_bench_nanosecond;
extern const pk_bench_unit pk_bench_second;

typedef struct pk_bench_time {
    uint64_t count;
    const pk_bench_unit *unit;
} pk_bench_time;

/* Reads "100ms", "10 s", "2min" or "1" (seconds); false for fractions, signs and unknown units. */
bool pk_bench_time_parse(const char *text, pk_bench_time *ret_time);

/* Writes "10 s", or "single-shot" for no time; `room` bytes are enough from 40 on. */
void pk_bench_time_write(pk_bench_time time, char *bytes, size_t room);

uint64_t pk_bench_time_nanoseconds(pk_bench_time time);

/* The unit of scores that `-tu` names: ns, us, ms, s, m or h; NULL for others. */
const pk_bench_unit *pk_bench_score_unit(const char *name);

/* The unit in a score such as "ops/us" or "ns/op", NULL when there is none. */
const pk_bench_unit *pk_bench_unit_of_score(const char *score_unit);

/* Nanoseconds of the monotonic clock. */
uint64_t pk_bench_now(void);

#endif
