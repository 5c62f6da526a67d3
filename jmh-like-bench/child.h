/*
 * A process beside a benchmark: the server that it calls, or a load generator that calls for it. Its
 * standard output is read here; it ends with the thread that started it.
 */
#ifndef PEKOE_BENCH_CHILD_H
#define PEKOE_BENCH_CHILD_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pk_bench_child {
    pid_t pid;
    int output; /* its standard output */
};

/*
 * Starts `argv`, found by PATH, without an environment, so that what is loaded into a benchmark
 * (-prof gc) is not loaded there; on `processors` only, where not NULL. False where it cannot be
 * started; a program that is not there ends with 127.
 */
bool pk_bench_child_start(struct pk_bench_child *child, const char *const *argv,
                          const cpu_set_t *processors);

/* Reads to the end of a line, or to the end of all with `line` false. Returns the length. */
size_t pk_bench_child_read(struct pk_bench_child *child, bool line, char *out, size_t room);

/* The exit status of a child that ends by itself, -1 where it was killed. */
int pk_bench_child_wait(struct pk_bench_child *child);

/* Ends it. */
void pk_bench_child_stop(struct pk_bench_child *child);

/* Nanoseconds that it has run so far, user and system, all threads. */
uint64_t pk_bench_child_cpu(const struct pk_bench_child *child);

#endif
