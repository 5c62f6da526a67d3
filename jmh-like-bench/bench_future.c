/*
 * pekoe.FutureBenchmark: what a step costs by itself, where the value is there and where it comes
 * later, and what a completion from another thread costs.
 *
 * Every operation starts with an empty ready queue and leaves no promise behind. Where a promise
 * settles, the operation ends with the drain that runs its steps, as a turn of the loop does.
 */
#include <pekoe/future.h>

#include "core/loop.h"
#include "future/promise.h"
#include "jmh-like-bench/harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LONGEST 1000u

struct state {
    pk_loop *loop;
    pk_scope scope; /* as a call's; its arena starts anew for each operation that uses it */
    unsigned length;
    uint64_t steps; /* since before_iteration */
    pk_future last;
    /* The other thread of crossThread: completes a promise whenever it is asked. */
    pthread_t thread;
    atomic_int asked; /* 0 idle, 1 complete it, 2 end */
    pk_promise *crossing;
};

static void *setup_length(pk_bench_context *context, unsigned length)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state || pk_loop_new(&state->loop, NULL) < 0) {
        pk_bench_fail(context, "the loop cannot be made");
        return NULL;
    }
    pk_scope_init(&state->scope, &state->loop->memory, &pk_loop_host, state->loop, 32u << 10);
    state->length = length;
    if (length == 0 || length > LONGEST)
        pk_bench_fail(context, "a length is between 1 and %u", LONGEST);
    pk_current.scope = &state->scope;
    return state;
}

static void *setup(pk_bench_context *context)
{
    return setup_length(context, 1);
}

static void *setup_chain(pk_bench_context *context)
{
    return setup_length(context, (unsigned) pk_bench_number(context, "length"));
}

static void *setup_group(pk_bench_context *context)
{
    return setup_length(context, (unsigned) pk_bench_number(context, "members"));
}

static void scope_released(pk_scope *scope)
{
    pk_arena_done(&scope->arena);
}

static void teardown(void *arg)
{
    struct state *state = arg;
    pk_current.scope = pk_loop_scope(state->loop);
    pk_scope_end(&state->scope, scope_released);
    pk_loop_free(state->loop);
    free(state);
}

static void before_iteration(void *arg)
{
    struct state *state = arg;
    state->steps = 0;
    state->last = (pk_future){0};
}

/* ---- Steps ---- */

static __attribute__((noinline)) pk_future count(const void *value, void *arg)
{
    ((struct state *) arg)->steps++;
    return pk_done(value);
}

static __attribute__((noinline)) pk_future count_failure(const pk_status *status, void *arg)
{
    ((struct state *) arg)->steps++;
    return pk_done(status);
}

/* The compiler does not know its state, or it would leave out what looks at it. */
static inline pk_future hidden(pk_future future)
{
    pk_bench_keep(&future);
    return future;
}

static void keep_outcome(pk_future outcome, struct state *state)
{
    state->last = outcome;
    pk_bench_keep(&state->last);
}

static void take_outcome(pk_future outcome, void *arg)
{
    keep_outcome(outcome, arg);
}

static void run_then_done(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++)
        keep_outcome(pk_then(hidden(pk_done(state)), count, state), state);
}

static void run_recover_done(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++)
        keep_outcome(pk_recover(hidden(pk_done(state)), count_failure, state), state);
}

static const pk_status failure = {.code = PK_NOT_FOUND};

static void run_recover_failed(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++)
        keep_outcome(pk_recover(hidden(pk_failed_with(&failure)), count_failure, state), state);
}

static void run_chain_done(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_future future = hidden(pk_done(state));
        for (unsigned k = 0; k < state->length; k++)
            future = pk_then(future, count, state);
        keep_outcome(future, state);
    }
}

static void run_chain_pending(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_promise *promise = pk_promise_new(&state->scope);
        pk_future future = pk_promise_future(promise);
        for (unsigned k = 0; k < state->length; k++)
            future = pk_then(future, count, state);
        pk_await(&state->scope, future, take_outcome, state);
        pk_promise_done(promise, state);
        pk_loop_drain(state->loop);
    }
}

static pk_future again(const void *value, void *arg)
{
    struct state *state = arg;
    state->steps++;
    if (state->steps % state->length == 0)
        return pk_done(value);
    return pk_then(hidden(pk_done(value)), again, arg);
}

static void run_recursive_done(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_await(&state->scope, pk_then(hidden(pk_done(state)), again, state), take_outcome, state);
        pk_loop_drain(state->loop);
    }
}

static void run_all_done(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    pk_future futures[LONGEST];
    for (uint64_t i = 0; i < invocations; i++) {
        pk_arena_reset(&state->scope.arena); /* the last values stay for the check */
        for (unsigned k = 0; k < state->length; k++)
            futures[k] = pk_done(state);
        pk_bench_keep(futures);
        keep_outcome(pk_all(&state->scope, futures, state->length), state);
    }
}

static void run_all_pending(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    pk_promise *promises[LONGEST];
    pk_future futures[LONGEST];
    for (uint64_t i = 0; i < invocations; i++) {
        pk_arena_reset(&state->scope.arena);
        for (unsigned k = 0; k < state->length; k++)
            futures[k] = pk_promise_future(promises[k] = pk_promise_new(&state->scope));
        pk_await(&state->scope, pk_all(&state->scope, futures, state->length), take_outcome, state);
        for (unsigned k = 0; k < state->length; k++)
            pk_promise_done(promises[k], state);
        pk_loop_drain(state->loop);
    }
}

/* ---- Another thread ---- */

static void complete_crossing(void *arg)
{
    struct state *state = arg;
    pk_promise_done(state->crossing, state);
}

static void *run_other_thread(void *arg)
{
    struct state *state = arg;
    for (;;) {
        int asked = atomic_load_explicit(&state->asked, memory_order_acquire);
        if (asked == 2)
            return NULL;
        if (asked == 0)
            continue; /* it spins: waking it is not what is measured */
        atomic_store_explicit(&state->asked, 0, memory_order_relaxed);
        while (pk_loop_post(state->loop, complete_crossing, state) < 0)
            ;
    }
}

static void *setup_other_thread(pk_bench_context *context)
{
    struct state *state = setup(context);
    if (state && pthread_create(&state->thread, NULL, run_other_thread, state) != 0)
        pk_bench_fail(context, "the other thread cannot be started");
    return state;
}

static void teardown_other_thread(void *arg)
{
    struct state *state = arg;
    atomic_store(&state->asked, 2);
    pthread_join(state->thread, NULL);
    teardown(state);
}

static void run_cross_thread(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        const void *value;
        state->crossing = pk_promise_new(&state->scope);
        pk_future future = pk_then(pk_promise_future(state->crossing), count, state);
        atomic_store_explicit(&state->asked, 1, memory_order_release);
        pk_status status = pk_loop_run_until(state->loop, future, &value);
        keep_outcome(status.code == PK_OK ? pk_done(value) : pk_failed_with(&failure), state);
    }
}

/* ---- Checks ---- */

static void check_done(pk_bench_context *context, const struct state *state)
{
    PK_BENCH_EXPECT(context, state->last.state == PK_FUTURE_DONE);
    PK_BENCH_EXPECT(context, state->scope.pins == 0);
}

/* Each step ran, and the value that the first one got came out behind the last. */
static void check(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    check_done(context, state);
    PK_BENCH_EXPECT(context, state->steps == invocations * state->length);
    PK_BENCH_EXPECT(context, state->last.pointer == (const void *) state);
}

/* The loop keeps what it waited for last until it waits for something else. */
static void check_crossed(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    pk_status status = pk_loop_run_until(state->loop, pk_done(state), NULL);
    PK_BENCH_EXPECT(context, status.code == PK_OK);
    check(context, arg, invocations);
}

static void check_passed_by(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    check_done(context, state);
    PK_BENCH_EXPECT(context, state->steps == 0);
    PK_BENCH_EXPECT(context, state->last.pointer == (const void *) state);
}

static void check_recovered(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    check_done(context, state);
    PK_BENCH_EXPECT(context, state->steps == invocations);
    PK_BENCH_EXPECT(context, state->last.pointer == (const void *) &failure);
}

static void check_all(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    check_done(context, state);
    const void *const *values = state->last.pointer;
    PK_BENCH_EXPECT(context, values != NULL);
    for (unsigned k = 0; values && k < state->length; k++)
        PK_BENCH_EXPECT(context, values[k] == state);
}

static const pk_bench_param lengths[] = {{"length", PK_BENCH_VALUES("10", "1000")}, {0}};
static const pk_bench_param members[] = {{"members", PK_BENCH_VALUES("2", "10")}, {0}};

static const pk_benchmark benchmarks[] = {
    {
        .name = "pekoe.FutureBenchmark.thenDone",
        .operation = "pk_then on a done future; the step counts and passes the value on",
        .setup = setup,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_then_done,
        .check = check,
    },
    {
        .name = "pekoe.FutureBenchmark.thenPending",
        .operation = "a promise, one step, an awaiter; completed and drained",
        .setup = setup,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_chain_pending,
        .check = check,
    },
    {
        .name = "pekoe.FutureBenchmark.recoverDone",
        .operation = "pk_recover on a done future, which passes by",
        .setup = setup,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_recover_done,
        .check = check_passed_by,
    },
    {
        .name = "pekoe.FutureBenchmark.recoverFailed",
        .operation = "pk_recover on a failed future; the recovery gives a value",
        .setup = setup,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_recover_failed,
        .check = check_recovered,
    },
    {
        .name = "pekoe.FutureBenchmark.chainDone",
        .operation = "`length` steps in a row, each on a done future",
        .params = lengths,
        .setup = setup_chain,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_chain_done,
        .check = check,
    },
    {
        .name = "pekoe.FutureBenchmark.chainPending",
        .operation = "`length` steps hung on one promise, an awaiter; completed and drained",
        .params = lengths,
        .setup = setup_chain,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_chain_pending,
        .check = check,
    },
    {
        .name = "pekoe.FutureBenchmark.recursiveDone",
        .operation = "`length` steps, each hung up by the one before it; every 32nd is queued",
        .params = lengths,
        .setup = setup_chain,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_recursive_done,
        .check = check,
    },
    {
        .name = "pekoe.FutureBenchmark.allDone",
        .operation = "pk_all of `members` done futures",
        .params = members,
        .setup = setup_group,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_all_done,
        .check = check_all,
    },
    {
        .name = "pekoe.FutureBenchmark.allPending",
        .operation = "pk_all of `members` promises, an awaiter; all completed and drained",
        .params = members,
        .setup = setup_group,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_all_pending,
        .check = check_all,
    },
    {
        .name = "pekoe.FutureBenchmark.crossThread",
        .operation =
            "a promise that another, spinning thread completes by pk_loop_post; waited for",
        .setup = setup_other_thread,
        .teardown = teardown_other_thread,
        .before_iteration = before_iteration,
        .run = run_cross_thread,
        .check = check_crossed,
    },
};

PK_BENCHMARKS(benchmarks)
