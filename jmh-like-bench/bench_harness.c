/*
 * What the harness itself costs: the floor under every other figure.
 *
 * A benchmark whose score is not clearly above emptyInvocation measures nothing. Needs no pekoe.
 */
#include "jmh-like-bench/harness.h"

#include <stdlib.h>
#include <time.h>

struct state {
    uint64_t invocations; /* since before_iteration */
    struct timespec last;
    struct timespec first;
};

static void *setup(pk_bench_context *context)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        pk_bench_fail(context, "out of memory");
    return state;
}

static void before_iteration(void *arg)
{
    struct state *state = arg;
    state->invocations = 0;
    clock_gettime(CLOCK_MONOTONIC, &state->first);
}

static void empty_invocation(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    uint64_t done = state->invocations;
    for (uint64_t i = 0; i < invocations; i++) {
        done++;
        pk_bench_keep_value(done);
    }
    state->invocations = done;
}

static void check_count(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    PK_BENCH_EXPECT(context, state->invocations == invocations);
}

static void read_clock(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        clock_gettime(CLOCK_MONOTONIC, &state->last);
        pk_bench_keep(&state->last);
    }
    state->invocations += invocations;
}

static void check_clock(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    PK_BENCH_EXPECT(context, state->invocations == invocations);
    PK_BENCH_EXPECT(context, state->last.tv_sec > state->first.tv_sec ||
                                 (state->last.tv_sec == state->first.tv_sec &&
                                  state->last.tv_nsec >= state->first.tv_nsec));
}

static void allocate(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        void *block = malloc(64);
        pk_bench_keep(block);
        free(block);
    }
    state->invocations += invocations;
}

static const pk_benchmark benchmarks[] = {
    {
        .name = "pekoe.HarnessBenchmark.emptyInvocation",
        .operation = "one turn of the benchmark's own loop, with one value kept",
        .setup = setup,
        .teardown = free,
        .before_iteration = before_iteration,
        .run = empty_invocation,
        .check = check_count,
    },
    {
        .name = "pekoe.HarnessBenchmark.clock",
        .operation = "one clock_gettime(CLOCK_MONOTONIC), which mode sample pays per sample",
        .setup = setup,
        .teardown = free,
        .before_iteration = before_iteration,
        .run = read_clock,
        .check = check_clock,
    },
    {
        .name = "pekoe.HarnessBenchmark.allocation",
        .operation = "one malloc of 64 bytes and its free: 1 allocation under -prof gc",
        .setup = setup,
        .teardown = free,
        .before_iteration = before_iteration,
        .run = allocate,
        .check = check_count,
    },
};

PK_BENCHMARKS(benchmarks)
