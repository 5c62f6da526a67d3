/*
 * Benchmarks for program.py: one that is right, and one for each way in which a benchmark can go
 * wrong. Linked with the harness alone.
 */
#include "jmh-like-bench/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct state {
    uint64_t invocations;
    uint64_t step; /* parameter n */
    uint64_t sum;
    void *blocks[4];
};

static void *setup(pk_bench_context *context)
{
    uint64_t step = pk_bench_number(context, "n");
    if (step == 0)
        return NULL; /* the trial has failed, and no teardown follows */
    struct state *state = calloc(1, sizeof *state);
    state->step = step;
    return state;
}

static void *setup_without_param(pk_bench_context *context)
{
    struct state *state = calloc(1, sizeof *state);
    state->step = 1;
    return state;
}

static void before(void *arg)
{
    struct state *state = arg;
    state->invocations = state->sum = 0;
}

static void add(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        state->sum += state->step;
        pk_bench_keep(state);
    }
    state->invocations += invocations;
}

static void check_sum(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    PK_BENCH_EXPECT(context, state->invocations == invocations);
    PK_BENCH_EXPECT(context, state->sum == invocations * state->step);
    pk_bench_metric_add(context, "steps", "counts", (double) state->step);
}

static void allocate(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        state->blocks[0] = malloc(10);
        state->blocks[1] = calloc(2, 10);
        state->blocks[2] = realloc(malloc(20), 40);
        state->blocks[3] = aligned_alloc(64, 64);
        pk_bench_keep(state);
        for (int j = 0; j < 4; j++)
            free(state->blocks[j]);
    }
    state->invocations += invocations;
}

static void check_count(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    PK_BENCH_EXPECT(context, state->invocations == invocations);
}

/* The defect that checks are for: the compiler may remove all of it, and does. */
static void removed(void *arg, uint64_t invocations)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < invocations; i++)
        sum += i;
    (void) sum;
}

static void crash(void *arg, uint64_t invocations)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
    raise(SIGSEGV);
}

static void leave(void *arg, uint64_t invocations)
{
    _exit(0);
}

static void hang(void *arg, uint64_t invocations)
{
    sleep(60);
}

static void *setup_skipped(pk_bench_context *context)
{
    pk_bench_skip(context, "this machine has no abacus");
    return NULL;
}

static const pk_bench_param params[] = {{"n", PK_BENCH_VALUES("1", "3")}, {0}};

#define COMMON                                                                 \
    .operation = "see trials.c", .teardown = free, .before_iteration = before, \
    .setup = setup_without_param, .check = check_count

static const pk_benchmark benchmarks[] = {
    {.name = "pekoe.TrialBenchmark.add",
     .operation = "one addition of n",
     .params = params,
     .operations = 2,
     .setup = setup,
     .teardown = free,
     .before_iteration = before,
     .run = add,
     .check = check_sum},
    {.name = "pekoe.TrialBenchmark.allocate", .run = allocate, COMMON},
    {.name = "pekoe.SkippedBenchmark.abacus",
     .operation = "never runs",
     .setup = setup_skipped,
     .teardown = free,
     .run = crash,
     .check = check_count},
    {.name = "pekoe.FaultyBenchmark.removed", .run = removed, COMMON},
    {.name = "pekoe.FaultyBenchmark.crash", .run = crash, COMMON},
    {.name = "pekoe.FaultyBenchmark.leave", .run = leave, COMMON},
    {.name = "pekoe.FaultyBenchmark.hang", .run = hang, COMMON},
};

PK_BENCHMARKS(benchmarks)

int main(int argc, char **argv)
{
    return pk_bench_main(argc, argv);
}
