/*
 * The measured loop; see measure.h.
 *
 * Reading the clock costs some 30 ns, so a timed batch of invocations grows until it takes
 * BATCH_ENOUGH: the clock is then less than a thousandth of the figure.
 */
#include "jmh-like-bench/measure.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/histogram.h"
#include "jmh-like-bench/profile.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_ENOUGH 50000u            /* nanoseconds */
#define BATCH_MOST (UINT64_C(1) << 40) /* invocations: more in so short a time are none */
#define BATCH_TOO_LONG 2000000u /* nanoseconds: the end of an iteration should not be overrun */

/* What the threads of a trial share. */
struct trial {
    const pk_bench_plan *plan;
    const pk_bench_sink *sink;
    pk_bench_profile profile;
    pthread_barrier_t barrier;
    atomic_uint started;  /* threads that have reached the measured part, over all iterations */
    atomic_uint finished; /* threads that have left it */
    atomic_bool failed;   /* or skipped: there will be no score */
    pthread_mutex_t lock; /* guards the two below until failed is set */
    bool skipped;
    char why[512];
    struct worker *workers;
};

struct pk_bench_context {
    struct trial *trial;
    unsigned thread;
    pk_bench_extras extras; /* of this iteration */
};

struct worker {
    pk_bench_context context;
    pthread_t thread;
    void *state;
    bool set_up;
    uint64_t batch; /* invocations between two looks at the clock; 0 before the first iteration */

    /* Of this iteration. */
    uint64_t invocations;          /* timed */
    uint64_t all;                  /* the untimed ones, too */
    uint64_t time;                 /* nanoseconds */
    pk_bench_histogram *histogram; /* mode sample only */
};

void pk_bench_extras_add(pk_bench_extras *extras, const char *label, const char *unit,
                         pk_bench_policy policy, double value)
{
    for (size_t i = 0; i < extras->count; i++)
        if (strcmp(extras->items[i].label, label) == 0) {
            extras->items[i].value += value;
            return;
        }
    extras->items = pk_bench_room(extras->items, extras->count, sizeof *extras->items);
    extras->items[extras->count++] = (pk_bench_extra){.label = pk_bench_copy(label),
                                                      .unit = pk_bench_copy(unit),
                                                      .policy = policy,
                                                      .value = value};
}

void pk_bench_extras_done(pk_bench_extras *extras)
{
    for (size_t i = 0; i < extras->count; i++) {
        free(extras->items[i].label);
        free(extras->items[i].unit);
    }
    free(extras->items);
    *extras = (pk_bench_extras){0};
}

/* The first end of a trial is the one that is told. */
__attribute__((format(printf, 3, 0))) static void end_trial(struct trial *trial, bool skipped,
                                                            const char *format, va_list list)
{
    pthread_mutex_lock(&trial->lock);
    if (!atomic_load(&trial->failed)) {
        vsnprintf(trial->why, sizeof trial->why, format, list);
        for (char *at = trial->why; *at; at++)
            if (*at == '\n')
                *at = ' ';
        trial->skipped = skipped;
        atomic_store(&trial->failed, true);
    }
    pthread_mutex_unlock(&trial->lock);
}

void pk_bench_fail(pk_bench_context *context, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    end_trial(context->trial, false, format, list);
    va_end(list);
}

void pk_bench_skip(pk_bench_context *context, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    end_trial(context->trial, true, format, list);
    va_end(list);
}

const char *pk_bench_value(pk_bench_context *context, const char *name)
{
    const pk_bench_plan *plan = context->trial->plan;
    for (size_t i = 0; i < plan->param_count; i++)
        if (strcmp(plan->params[i].name, name) == 0)
            return plan->params[i].value;
    pk_bench_fail(context, "the benchmark declares no parameter %s", name);
    return "";
}

uint64_t pk_bench_number(pk_bench_context *context, const char *name)
{
    const char *value = pk_bench_value(context, name);
    char *end;
    unsigned long long number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end) {
        pk_bench_fail(context, "parameter %s: '%s' is not a number", name, value);
        return 0;
    }
    return number;
}

unsigned pk_bench_thread(const pk_bench_context *context)
{
    return context->thread;
}

void pk_bench_metric_add(pk_bench_context *context, const char *label, const char *unit,
                         double value)
{
    pk_bench_extras_add(&context->extras, label, unit, PK_BENCH_AVERAGE, value);
}

/* Waits until every thread of the trial is here. */
static void meet(struct trial *trial)
{
    if (trial->plan->threads > 1)
        pthread_barrier_wait(&trial->barrier);
}

static void run_untimed(struct worker *worker, uint64_t invocations)
{
    worker->context.trial->plan->benchmark->run(worker->state, invocations);
    worker->all += invocations;
}

/* The first batch size, found before the first timed part. A multiple of the batch of the phase. */
static void calibrate(struct worker *worker, const pk_bench_phase *phase)
{
    worker->batch = phase->batch;
    while (worker->batch < BATCH_MOST) {
        uint64_t start = pk_bench_now();
        run_untimed(worker, worker->batch);
        if (pk_bench_now() - start >= BATCH_ENOUGH / 2)
            return;
        worker->batch *= 2;
    }
}

/* Modes thrpt and avgt: how many invocations fit into the time. */
static void run_for_time(struct worker *worker, const pk_bench_phase *phase)
{
    const pk_benchmark *benchmark = worker->context.trial->plan->benchmark;
    uint64_t length = pk_bench_time_nanoseconds(phase->time);
    uint64_t batch = worker->batch - worker->batch % phase->batch;
    uint64_t least = phase->batch;
    uint64_t invocations = 0;
    uint64_t start = pk_bench_now();
    uint64_t last = start;
    if (batch < least)
        batch = least;
    do {
        benchmark->run(worker->state, batch);
        invocations += batch;
        uint64_t now = pk_bench_now();
        if (now - last < BATCH_ENOUGH && batch < BATCH_MOST)
            batch *= 2;
        else if (now - last > BATCH_TOO_LONG && batch >= 2 * least)
            batch = batch / 2 - batch / 2 % least;
        last = now;
    } while (last - start < length);
    worker->batch = batch;
    worker->invocations = invocations;
    worker->all += invocations;
    worker->time = last - start;
}

/* Mode sample: the time of each operation on its own, clock included, as JMH has it. */
static void run_sampled(struct worker *worker, const pk_bench_phase *phase)
{
    const pk_bench_plan *plan = worker->context.trial->plan;
    uint64_t length = pk_bench_time_nanoseconds(phase->time);
    uint64_t invocations = 0;
    uint64_t start = pk_bench_now();
    uint64_t now;
    memset(worker->histogram, 0, sizeof *worker->histogram);
    do {
        uint64_t before = pk_bench_now();
        plan->benchmark->run(worker->state, phase->batch);
        now = pk_bench_now();
        pk_bench_histogram_add(worker->histogram, (now - before) / plan->operations);
        invocations += phase->batch;
    } while (now - start < length);
    worker->invocations = invocations;
    worker->all += invocations;
    worker->time = now - start;
}

static void run_once(struct worker *worker, const pk_bench_phase *phase)
{
    uint64_t start = pk_bench_now();
    worker->context.trial->plan->benchmark->run(worker->state, phase->batch);
    worker->time = pk_bench_now() - start;
    worker->invocations = phase->batch;
    worker->all += phase->batch;
}

static void run_timed(struct worker *worker, const pk_bench_phase *phase)
{
    switch (worker->context.trial->plan->mode) {
    case PK_BENCH_SAMPLE_TIME:
        run_sampled(worker, phase);
        break;
    case PK_BENCH_SINGLE_SHOT:
        run_once(worker, phase);
        break;
    case PK_BENCH_THROUGHPUT:
    case PK_BENCH_AVERAGE_TIME:
    case PK_BENCH_MODES:
        run_for_time(worker, phase);
        break;
    }
}

/*
 * The timed part of one thread. With several threads, none is timed while another one is not yet
 * or no longer at work; `round` counts iterations from 1.
 */
static void run_iteration(struct worker *worker, const pk_bench_phase *phase, unsigned round)
{
    struct trial *trial = worker->context.trial;
    const pk_bench_plan *plan = trial->plan;
    bool together = plan->threads > 1 && plan->synchronized && plan->mode != PK_BENCH_SINGLE_SHOT;
    unsigned all = plan->threads * round;
    if (together) {
        atomic_fetch_add(&trial->started, 1);
        while (atomic_load(&trial->started) < all)
            run_untimed(worker, phase->batch);
    }
    run_timed(worker, phase);
    if (together) {
        atomic_fetch_add(&trial->finished, 1);
        while (atomic_load(&trial->finished) < all)
            run_untimed(worker, phase->batch);
    }
}

/* One iteration's scores of all threads as one: throughput adds up, times are averaged. */
static void report(struct trial *trial, const pk_bench_phase *phase, pk_bench_iteration *iteration)
{
    const pk_bench_plan *plan = trial->plan;
    double nanoseconds = 0;
    for (unsigned i = 0; i < plan->threads; i++) {
        struct worker *worker = &trial->workers[i];
        double invocations = (double) worker->invocations;
        double operations = invocations * plan->operations / phase->batch;
        double time = (double) worker->time / plan->unit->nanoseconds;
        nanoseconds += (double) worker->time / invocations / plan->threads;
        if (plan->mode == PK_BENCH_THROUGHPUT) {
            iteration->score += operations / time;
        } else if (plan->mode != PK_BENCH_SAMPLE_TIME) {
            iteration->score += time / operations / plan->threads;
        } else {
            size_t count;
            size_t joined_count;
            pk_bench_point *points =
                pk_bench_histogram_points(worker->histogram, 1 / plan->unit->nanoseconds, &count);
            pk_bench_point *joined = pk_bench_points_merge(
                iteration->points, iteration->point_count, points, count, &joined_count);
            free(points);
            free(iteration->points);
            iteration->points = joined;
            iteration->point_count = joined_count;
        }
        for (size_t j = 0; j < worker->context.extras.count; j++) {
            const pk_bench_extra *extra = &worker->context.extras.items[j];
            pk_bench_extras_add(&iteration->extras, extra->label, extra->unit, extra->policy,
                                extra->value);
        }
        pk_bench_extras_done(&worker->context.extras);
    }
    if (plan->mode == PK_BENCH_SAMPLE_TIME)
        iteration->score =
            pk_bench_summarize_points(iteration->points, iteration->point_count).mean;
    iteration->nanoseconds = nanoseconds;
    trial->sink->end(trial->sink->self, iteration);
    pk_bench_extras_done(&iteration->extras);
    free(iteration->points);
}

static double operations_of_all(const struct trial *trial, const pk_bench_phase *phase)
{
    uint64_t invocations = 0;
    for (unsigned i = 0; i < trial->plan->threads; i++)
        invocations += trial->workers[i].all;
    return (double) invocations * trial->plan->operations / phase->batch;
}

/* What one thread does in one iteration; the first thread also profiles and reports. */
static void iterate(struct worker *worker, bool warmup, unsigned number, unsigned round)
{
    struct trial *trial = worker->context.trial;
    const pk_bench_plan *plan = trial->plan;
    const pk_benchmark *benchmark = plan->benchmark;
    const pk_bench_phase *phase = warmup ? &plan->warmup : &plan->measurement;
    pk_bench_iteration iteration = {.warmup = warmup, .number = number};
    bool first = worker->context.thread == 0;

    if (first)
        trial->sink->begin(trial->sink->self, warmup, number);
    worker->all = 0;
    if (benchmark->before_iteration)
        benchmark->before_iteration(worker->state);
    if (worker->batch == 0 && plan->mode != PK_BENCH_SINGLE_SHOT)
        calibrate(worker, phase);
    uint64_t calibrating = worker->all;
    worker->all = 0;
    meet(trial);
    if (first)
        pk_bench_profile_start(&trial->profile);
    meet(trial);
    run_iteration(worker, phase, round);
    meet(trial);
    if (first)
        pk_bench_profile_stop(&trial->profile, operations_of_all(trial, phase), &iteration.extras);
    meet(trial);
    benchmark->check(&worker->context, worker->state, worker->all + calibrating);
    if (benchmark->after_iteration)
        benchmark->after_iteration(worker->state);
    meet(trial);
    if (first && !atomic_load(&trial->failed))
        report(trial, phase, &iteration);
    else if (first)
        pk_bench_extras_done(&iteration.extras);
}

static void set_up(struct worker *worker)
{
    struct trial *trial = worker->context.trial;
    const pk_benchmark *benchmark = trial->plan->benchmark;
    if (benchmark->setup)
        worker->state = benchmark->setup(&worker->context);
    worker->set_up = !atomic_load(&trial->failed);
    if (trial->plan->mode == PK_BENCH_SAMPLE_TIME)
        worker->histogram = pk_bench_zeroed(1, sizeof *worker->histogram);
}

static void tear_down(struct worker *worker)
{
    const pk_benchmark *benchmark = worker->context.trial->plan->benchmark;
    if (worker->set_up && benchmark->teardown)
        benchmark->teardown(worker->state);
    free(worker->histogram);
    pk_bench_extras_done(&worker->context.extras);
}

/* A thread of a trial, from set-up to tear-down. */
static void *work(void *arg)
{
    struct worker *worker = arg;
    struct trial *trial = worker->context.trial;
    const pk_bench_plan *plan = trial->plan;
    unsigned round = 0;
    set_up(worker);
    meet(trial);
    for (unsigned i = 1; i <= plan->warmup.iterations && !atomic_load(&trial->failed); i++) {
        iterate(worker, true, i, ++round);
        meet(trial); /* nobody sees a later failure of this round as one of the next */
    }
    for (unsigned i = 1; i <= plan->measurement.iterations && !atomic_load(&trial->failed); i++) {
        iterate(worker, false, i, ++round);
        meet(trial);
    }
    meet(trial);
    tear_down(worker);
    return NULL;
}

/* Tells the sink why a trial has no score; true when it has one. */
static bool tell_end(struct trial *trial)
{
    if (!atomic_load(&trial->failed))
        return true;
    if (trial->skipped)
        trial->sink->skipped(trial->sink->self, trial->why);
    else
        trial->sink->failed(trial->sink->self, trial->why);
    return false;
}

bool pk_bench_measure(const pk_bench_plan *plan, const pk_bench_sink *sink)
{
    struct trial trial = {.plan = plan, .sink = sink, .lock = PTHREAD_MUTEX_INITIALIZER};
    trial.workers = pk_bench_zeroed(plan->threads, sizeof *trial.workers);
    pk_bench_profile_init(&trial.profile, plan->profilers);
    pthread_barrier_init(&trial.barrier, NULL, plan->threads);
    for (unsigned i = 0; i < plan->threads; i++)
        trial.workers[i].context = (pk_bench_context){.trial = &trial, .thread = i};
    for (unsigned i = 1; i < plan->threads; i++)
        if (pthread_create(&trial.workers[i].thread, NULL, work, &trial.workers[i]) != 0) {
            /* The threads that are there wait for ones that will never come. */
            fputs("pekoe-bench: cannot start a thread\n", stderr);
            exit(1);
        }
    work(&trial.workers[0]);
    for (unsigned i = 1; i < plan->threads; i++)
        pthread_join(trial.workers[i].thread, NULL);
    pthread_barrier_destroy(&trial.barrier);
    pk_bench_profile_done(&trial.profile);
    free(trial.workers);
    return tell_end(&trial);
}

__attribute__((noinline)) void pk_bench_counted_region(void (*run)(void *, uint64_t), void *state,
                                                       uint64_t invocations)
{
    run(state, invocations);
    /* Keeps the call above from becoming a jump, which would end the region too early. */
    pk_bench_barrier();
}

bool pk_bench_measure_counted(const pk_bench_plan *plan, uint64_t warmup, uint64_t invocations,
                              const pk_bench_sink *sink)
{
    pk_bench_plan single = *plan;
    single.threads = 1;
    struct trial trial = {.plan = &single, .sink = sink, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct worker worker = {.context = {.trial = &trial}};
    const pk_benchmark *benchmark = plan->benchmark;
    trial.workers = &worker;
    set_up(&worker);
    if (!atomic_load(&trial.failed)) {
        if (benchmark->before_iteration)
            benchmark->before_iteration(worker.state);
        benchmark->run(worker.state, warmup);
        pk_bench_counted_region(benchmark->run, worker.state, invocations);
        benchmark->check(&worker.context, worker.state, warmup + invocations);
        if (benchmark->after_iteration)
            benchmark->after_iteration(worker.state);
    }
    tear_down(&worker);
    return tell_end(&trial);
}
