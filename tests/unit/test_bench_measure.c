/* jmh-like-bench/measure.c: what is called when, what is counted, and how a failure ends a trial. */
#include "jmh-like-bench/measure.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a trial did, as letters: s set-up, b before, r runs, c check, a after, t tear-down. */
struct state {
    char log[64];
    size_t length;
    uint64_t invocations;
    uint64_t total;
};

static struct state *last; /* survives tear-down, for the test to look at */
static atomic_uint states;

static void note(struct state *state, char what)
{
    if (state->length > 0 && what == 'r' && state->log[state->length - 1] == 'r')
        return;
    if (state->length + 1 < sizeof state->log)
        state->log[state->length++] = what;
}

static void *setup(pk_bench_context *context)
{
    struct state *state = calloc(1, sizeof *state);
    note(state, 's');
    atomic_fetch_add(&states, 1);
    if (pk_bench_thread(context) == 0)
        last = state;
    return state;
}

static void teardown(void *state)
{
    note(state, 't');
    if (state != last)
        free(state);
}

static void before(void *arg)
{
    struct state *state = arg;
    note(state, 'b');
    state->invocations = 0;
}

static void after(void *arg)
{
    note(arg, 'a');
}

static void run(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    note(state, 'r');
    for (uint64_t i = 0; i < invocations; i++) {
        state->invocations++;
        pk_bench_keep(state);
    }
    state->total += invocations;
}

static void check(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    note(state, 'c');
    PK_BENCH_EXPECT(context, state->invocations == invocations);
    pk_bench_metric_add(context, "answer", "counts", 21);
}

static const pk_benchmark counting = {.name = "a.B.count",
                                      .operation = "counts",
                                      .setup = setup,
                                      .teardown = teardown,
                                      .before_iteration = before,
                                      .after_iteration = after,
                                      .run = run,
                                      .check = check};

struct heard {
    unsigned begins, warmups, measured;
    double score, extra;
    uint64_t samples;
    char why[256];
};

static void on_begin(void *self, bool warmup, unsigned number)
{
    struct heard *heard = self;
    heard->begins++;
}

static void on_end(void *self, const pk_bench_iteration *iteration)
{
    struct heard *heard = self;
    if (iteration->warmup)
        heard->warmups++;
    else
        heard->measured++;
    cr_expect_eq(iteration->number, iteration->warmup ? heard->warmups : heard->measured);
    heard->score = iteration->score;
    for (size_t i = 0; i < iteration->extras.count; i++)
        if (strcmp(iteration->extras.items[i].label, "answer") == 0)
            heard->extra = iteration->extras.items[i].value;
    for (size_t i = 0; i < iteration->point_count; i++)
        heard->samples += iteration->points[i].count;
}

static void on_failed(void *self, const char *why)
{
    struct heard *heard = self;
    snprintf(heard->why, sizeof heard->why, "%s", why);
}

static void on_skipped(void *self, const char *why)
{
    struct heard *heard = self;
    snprintf(heard->why, sizeof heard->why, "skipped: %s", why);
}

static pk_bench_plan plan_of(const pk_benchmark *benchmark, pk_bench_mode mode, unsigned threads)
{
    static const pk_bench_unit millisecond = {"ms", 1e6, 1000000};
    pk_bench_phase phase = {2, {2, &millisecond}, 1};
    pk_bench_phase measurement = {3, {2, &millisecond}, 1};
    if (mode == PK_BENCH_SINGLE_SHOT)
        phase.time.count = measurement.time.count = 0;
    return (pk_bench_plan){.benchmark = benchmark,
                           .mode = mode,
                           .warmup = phase,
                           .measurement = measurement,
                           .threads = threads,
                           .operations = 1,
                           .unit = &pk_bench_second,
                           .synchronized = true};
}

static bool measure(const pk_bench_plan *plan, struct heard *heard)
{
    pk_bench_sink sink = {on_begin, on_end, on_failed, on_skipped, heard};
    *heard = (struct heard){0};
    return pk_bench_measure(plan, &sink);
}

Test(bench_measure, calls_come_in_order_in_every_mode)
{
    for (int mode = 0; mode < PK_BENCH_MODES; mode++) {
        struct heard heard;
        pk_bench_plan plan = plan_of(&counting, (pk_bench_mode) mode, 1);
        cr_assert(measure(&plan, &heard), "%s", heard.why);
        cr_expect_str_eq(last->log, "sbrcabrcabrcabrcabrcat", "mode %d: %s", mode, last->log);
        cr_expect_eq(heard.begins, 5);
        cr_expect_eq(heard.warmups, 2);
        cr_expect_eq(heard.measured, 3);
        cr_expect_gt(heard.score, 0);
        cr_expect_float_eq(heard.extra, 21, 0);
        cr_expect_eq(heard.samples > 0, mode == PK_BENCH_SAMPLE_TIME);
        free(last);
    }
}

Test(bench_measure, every_thread_has_its_state_and_counts)
{
    for (int synchronized = 0; synchronized < 2; synchronized++) {
        struct heard heard;
        pk_bench_plan plan = plan_of(&counting, PK_BENCH_THROUGHPUT, 3);
        plan.synchronized = synchronized;
        atomic_store(&states, 0);
        cr_assert(measure(&plan, &heard), "%s", heard.why);
        cr_expect_eq(atomic_load(&states), 3);
        cr_expect_eq(heard.measured, 3);
        cr_expect_float_eq(heard.extra, 63, 0, "summed over threads");
        free(last);
    }
}

/* 1 ms per invocation, so that scores are known. */
static void sleep_a_while(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    state->invocations += invocations;
}

static const pk_benchmark sleeping = {.name = "a.B.sleep",
                                      .operation = "sleeps",
                                      .setup = setup,
                                      .teardown = teardown,
                                      .before_iteration = before,
                                      .run = sleep_a_while,
                                      .check = check};

Test(bench_measure, scores_are_per_operation)
{
    /* JMH 1.37 gave 4 ms/op for a sleep of 10 ms with 10 operations per invocation and -bs 4. */
    static const struct {
        pk_bench_mode mode;
        unsigned operations, batch;
        double score;
    } rows[] = {
        {PK_BENCH_THROUGHPUT, 1, 1, 1000},      {PK_BENCH_THROUGHPUT, 10, 1, 10000},
        {PK_BENCH_THROUGHPUT, 10, 4, 2500},     {PK_BENCH_AVERAGE_TIME, 1, 1, 0.001},
        {PK_BENCH_AVERAGE_TIME, 10, 4, 0.0004}, {PK_BENCH_SAMPLE_TIME, 10, 4, 0.0004},
        {PK_BENCH_SINGLE_SHOT, 10, 4, 0.0004},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double ratio = 4;
        pk_bench_plan plan = plan_of(&sleeping, rows[i].mode, 1);
        plan.operations = rows[i].operations;
        plan.measurement.batch = rows[i].batch;
        /* A sleep is never shorter; on a busy machine it is longer, but not each time. */
        for (unsigned tries = 0; ratio >= 4 && tries < 50; tries++) {
            struct heard heard;
            cr_assert(measure(&plan, &heard), "%s", heard.why);
            ratio = rows[i].mode == PK_BENCH_THROUGHPUT ? rows[i].score / heard.score
                                                        : heard.score / rows[i].score;
            free(last);
        }
        cr_expect(ratio > 0.95 && ratio < 4, "row %zu: %g", i, ratio);
    }
}

static void forget(void *arg, uint64_t invocations)
{
}

static const pk_benchmark forgetful = {.name = "a.B.forget",
                                       .operation = "does nothing",
                                       .setup = setup,
                                       .teardown = teardown,
                                       .before_iteration = before,
                                       .run = forget,
                                       .check = check};

Test(bench_measure, work_that_is_not_done_fails_the_trial)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct heard heard;
        pk_bench_plan plan = plan_of(&forgetful, PK_BENCH_THROUGHPUT, threads);
        cr_expect_not(measure(&plan, &heard));
        cr_expect_not_null(strstr(heard.why, "state->invocations == invocations"), "%s", heard.why);
        cr_expect_eq(heard.warmups + heard.measured, 0);
        free(last);
    }
}

static void *refuse(pk_bench_context *context)
{
    pk_bench_fail(context, "no such %s", pk_bench_value(context, "shape"));
    return NULL;
}

static void must_not_run(void *state, uint64_t invocations)
{
    abort();
}

static const pk_benchmark refusing = {.name = "a.B.refuse",
                                      .operation = "never runs",
                                      .setup = refuse,
                                      .run = must_not_run,
                                      .check = check};

Test(bench_measure, a_failed_set_up_runs_nothing)
{
    struct heard heard;
    pk_bench_choice choice = {"shape", "square"};
    pk_bench_plan plan = plan_of(&refusing, PK_BENCH_AVERAGE_TIME, 2);
    plan.params = &choice;
    plan.param_count = 1;
    cr_expect_not(measure(&plan, &heard));
    cr_expect_str_eq(heard.why, "no such square");
    plan.param_count = 0;
    cr_expect_not(measure(&plan, &heard));
    cr_expect_str_eq(heard.why, "the benchmark declares no parameter shape");
}

static void *skip(pk_bench_context *context)
{
    pk_bench_skip(context, "no\n%s", "kettle");
    return NULL;
}

static const pk_benchmark skipping = {.name = "a.B.skip",
                                      .operation = "never runs",
                                      .setup = skip,
                                      .teardown = teardown,
                                      .run = must_not_run,
                                      .check = check};

Test(bench_measure, a_skipped_trial_runs_nothing)
{
    struct heard heard;
    pk_bench_plan plan = plan_of(&skipping, PK_BENCH_THROUGHPUT, 2);
    cr_expect_not(measure(&plan, &heard));
    cr_expect_str_eq(heard.why, "skipped: no kettle");
    cr_expect_eq(heard.begins, 0);
}

Test(bench_measure, a_counted_run_does_exactly_what_was_asked)
{
    struct heard heard = {0};
    pk_bench_sink sink = {on_begin, on_end, on_failed, on_skipped, &heard};
    pk_bench_plan plan = plan_of(&counting, PK_BENCH_THROUGHPUT, 4);
    cr_assert(pk_bench_measure_counted(&plan, 7, 5, &sink), "%s", heard.why);
    cr_expect_eq(last->total, 12);
    cr_expect_str_eq(last->log, "sbrcat");
    free(last);
}
