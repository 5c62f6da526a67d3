/*
 * Futures put together: all, any, timeout, sleep; and waiting for one in a plain program.
 *
 * The pending members of a group are bridged into its scope, so that each can be cancelled alone.
 */
#include "core/status.h"
#include "future/promise.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define NANOSECONDS_PER_MILLISECOND 1000000u

static const pk_status lost = {
    .code = PK_CANCELLED,
    .message = {(const uint8_t *) "another future decided the outcome", 34},
};

/* What a timeout says when there is no memory to say it in full. */
static const pk_status timed_out = {
    .code = PK_DEADLINE_EXCEEDED,
    .message = {(const uint8_t *) "did not settle in time", 22},
};

/* ---- All and any ---- */

struct member {
    struct group *group;
    pk_promise *bridge; /* a reference, while pending; NULL afterwards */
    size_t place;
};

struct group { /* in the scope */
    pk_scope *scope;
    pk_promise *result; /* the producer's reference; NULL once settled */
    const void **values;
    size_t left; /* members that have not settled */
    size_t count;
    bool any; /* one value is enough */
    struct member members[];
};

static void cancel_members(struct group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        if (group->members[i].bridge)
            pk_promise_cancel(group->members[i].bridge, &lost);
    }
}

static void settle_group(struct group *group, pk_future outcome)
{
    pk_promise *result = pk_steal(&group->result);
    /* The losers first: their steps are in the queue before the result's. */
    cancel_members(group);
    if (outcome.state == PK_FUTURE_DONE)
        (void) pk_promise_done(result, outcome.pointer);
    else
        (void) pk_promise_fail_with(result, outcome.pointer);
}

static void member_settled(pk_future outcome, void *arg)
{
    struct member *member = arg;
    struct group *group = member->group;
    pk_promise *bridge = pk_steal(&member->bridge);
    /* The outcome stays readable until the group's own is consumed. */
    if (group->result)
        pk_promise_take_held(group->result, bridge);
    pk_promise_unref(bridge);
    group->left--;
    if (!group->result)
        return;
    bool done = outcome.state == PK_FUTURE_DONE;
    if (done)
        group->values[member->place] = outcome.pointer;
    if (group->any ? done || group->left == 0 : !done)
        settle_group(group, outcome);
    else if (!group->any && group->left == 0)
        settle_group(group, pk_done(group->values));
}

/* Somebody gave up on the whole group. */
static void abandon_group(void *arg)
{
    struct group *group = arg;
    group->result = NULL;
    /* A scope that is cancelled resolves the members itself, and leaves other scopes alone. */
    if (!group->scope->cancelled)
        cancel_members(group);
}

static void cancel_all_pending(const pk_future *futures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pk_promise_drop(futures[i], &lost);
}

/* Joins the pending ones; `values` holds those that are done. */
static pk_future join(pk_scope *scope, const pk_future *futures, size_t count, const void **values,
                      bool any)
{
    struct group *group =
        pk_arena_try(&scope->arena, sizeof *group + count * sizeof *group->members);
    pk_promise *result = group ? pk_promise_new(scope) : NULL;
    if (!result) {
        cancel_all_pending(futures, count);
        return pk_failed_with(&pk_status_no_memory);
    }
    *group = (struct group){
        .scope = scope, .result = result, .values = values, .count = count, .any = any};
    memset(group->members, 0, count * sizeof *group->members);
    for (size_t i = 0; i < count; i++)
        group->left += futures[i].state == PK_FUTURE_PENDING;
    pk_future future = pk_promise_future(result);
    pk_promise_on_abandon(result, abandon_group, group);
    for (size_t i = 0; i < count; i++) {
        if (futures[i].state != PK_FUTURE_PENDING)
            continue;
        struct member *member = &group->members[i];
        *member = (struct member){.group = group, .place = i};
        pk_promise *bridge = pk_bridge(scope, futures[i]);
        if (bridge) {
            member->bridge = pk_promise_ref(bridge);
            pk_await(scope, pk_promise_future(bridge), member_settled, member);
            if (!group->result && member->bridge)
                pk_promise_cancel(member->bridge, &lost);
        } else {
            group->left--;
            if (group->result)
                settle_group(group, pk_failed_with(&pk_status_no_memory));
        }
    }
    return future;
}

pk_future pk_all(pk_scope *scope, const pk_future *futures, size_t count)
{
    const void **values = pk_arena_try(&scope->arena, (count ? count : 1) * sizeof *values);
    if (!values) {
        cancel_all_pending(futures, count);
        return pk_failed_with(&pk_status_no_memory);
    }
    bool pending = false;
    for (size_t i = 0; i < count; i++) {
        if (futures[i].state == PK_FUTURE_FAILED) {
            cancel_all_pending(futures, count);
            return futures[i];
        }
        pending |= futures[i].state == PK_FUTURE_PENDING;
        values[i] = futures[i].state == PK_FUTURE_DONE ? futures[i].pointer : NULL;
    }
    return pending ? join(scope, futures, count, values, false) : pk_done(values);
}

pk_future pk_any(pk_scope *scope, const pk_future *futures, size_t count)
{
    if (count == 0)
        return pk_scope_failed(scope, PK_INVALID_ARGUMENT, "pk_any of no futures");
    bool pending = false;
    for (size_t i = 0; i < count; i++) {
        if (futures[i].state == PK_FUTURE_DONE) {
            cancel_all_pending(futures, count);
            return futures[i];
        }
        pending |= futures[i].state == PK_FUTURE_PENDING;
    }
    if (!pending)
        return futures[count - 1];
    const void **values = pk_arena_try(&scope->arena, count * sizeof *values);
    if (!values) {
        cancel_all_pending(futures, count);
        return pk_failed_with(&pk_status_no_memory);
    }
    return join(scope, futures, count, values, true);
}

/* ---- Timers ---- */

/* A timer that settles a promise. From the loop's memory: a loop's own scope never gives back. */
struct alarm {
    pk_timer timer;
    pk_promise *promise; /* a reference of its own */
    pk_loop *loop;
    uint64_t milliseconds;
};

static uint64_t nanoseconds_of(uint64_t milliseconds)
{
    uint64_t nanoseconds;
    if (__builtin_mul_overflow(milliseconds, NANOSECONDS_PER_MILLISECOND, &nanoseconds))
        return UINT64_MAX;
    return nanoseconds;
}

static void free_alarm(void *arg)
{
    struct alarm *alarm = arg;
    pk_timer_stop(alarm->loop, &alarm->timer);
    pk_memory_put(&alarm->loop->memory, alarm, sizeof *alarm);
}

/* NULL without memory. */
static struct alarm *start_alarm(pk_scope *scope, pk_promise *promise, uint64_t milliseconds,
                                 void (*fire)(pk_timer *timer))
{
    pk_loop *loop = scope->loop;
    struct alarm *alarm = pk_memory_get(&loop->memory, sizeof *alarm);
    if (!alarm)
        return NULL;
    *alarm = (struct alarm){
        .timer.fire = fire, .promise = promise, .loop = loop, .milliseconds = milliseconds};
    if (pk_timer_start(loop, &alarm->timer, nanoseconds_of(milliseconds)) < 0) {
        free_alarm(alarm);
        return NULL;
    }
    return alarm;
}

static void sleep_over(pk_timer *timer)
{
    struct alarm *alarm = (struct alarm *) timer;
    pk_promise *promise = alarm->promise;
    free_alarm(alarm);
    (void) pk_promise_done(promise, NULL);
}

pk_future pk_sleep(pk_scope *scope, uint64_t milliseconds)
{
    pk_promise *promise = pk_promise_new(scope);
    if (!promise)
        return pk_promise_future(NULL);
    pk_future future = pk_promise_future(promise);
    struct alarm *alarm = start_alarm(scope, promise, milliseconds, sleep_over);
    if (alarm)
        pk_promise_on_abandon(promise, free_alarm, alarm);
    else
        (void) pk_promise_fail_with(promise, &pk_status_no_memory);
    return future;
}

static void timeout_over(pk_timer *timer)
{
    struct alarm *alarm = (struct alarm *) timer;
    pk_promise *promise = alarm->promise;
    if (!pk_promise_waits(promise))
        return; /* settled in this turn; its steps free the alarm */
    pk_arena *arena = &promise->scope->arena;
    pk_status *status = pk_arena_try(arena, sizeof *status);
    if (status)
        *status = pk_status_print(arena, PK_DEADLINE_EXCEEDED,
                                  "did not settle within %" PRIu64 " ms", alarm->milliseconds);
    pk_promise_cancel(promise, status ? status : &timed_out);
}

pk_future pk_timeout(pk_scope *scope, pk_future future, uint64_t milliseconds)
{
    if (future.state != PK_FUTURE_PENDING)
        return future;
    pk_promise *bridge = pk_bridge(scope, future);
    if (!bridge)
        return pk_promise_future(NULL);
    struct alarm *alarm = start_alarm(scope, bridge, milliseconds, timeout_over);
    if (!alarm || !pk_promise_finally(bridge, free_alarm, alarm)) {
        if (alarm)
            free_alarm(alarm);
        pk_promise_cancel(bridge, &pk_status_no_memory);
    }
    return pk_promise_future(bridge);
}

/* ---- A plain program's wait ---- */

struct waiting {
    struct ev_loop *ev; /* while libev runs: to be kept from blocking once there is an outcome */
    bool settled;
    const void *value;
    pk_status status; /* what it lies in may go before the turn is over */
};

static void wait_over(pk_future outcome, void *arg)
{
    struct waiting *waiting = arg;
    if (outcome.state == PK_FUTURE_FAILED)
        waiting->status = *(const pk_status *) outcome.pointer;
    else
        waiting->value = outcome.pointer;
    waiting->settled = true;
    if (waiting->ev)
        ev_break(waiting->ev, EVBREAK_ONE);
}

/* As pk_await; but what the outcome lies in stays with the promise, which may be NULL. */
static pk_promise *await_and_keep(pk_loop *loop, pk_future future, struct waiting *waiting)
{
    if (future.state != PK_FUTURE_PENDING) {
        wait_over(future, waiting);
        return NULL;
    }
    struct pk_hung_step step = {.kind = PK_STEP_AWAIT, .fn.await = wait_over, .arg = waiting};
    pk_promise *bridge = pk_bridge(&loop->scope, future);
    if (!bridge || !pk_promise_hang(bridge, &step)) {
        if (bridge)
            pk_promise_drop(pk_promise_future(bridge), &pk_status_no_memory);
        wait_over(pk_failed_with(&pk_status_no_memory), waiting);
        return NULL;
    }
    return bridge;
}

pk_status pk_loop_run_until(pk_loop *loop, pk_future future, const void **ret_value)
{
    pk_assert_owner(loop);
    assert(!loop->draining && "a step waits for a future: it must return it instead");
    if (loop->draining) {
        pk_detach(future);
        return PK_STATUS(PK_FAILED_PRECONDITION, "a step must not run the loop");
    }
    if (loop->kept)
        pk_promise_consumed(pk_steal(&loop->kept));
    struct waiting waiting = {0};
    pk_promise *promise = await_and_keep(loop, future, &waiting);
    pk_loop_end_turn(loop);
    ev_ref(loop->ev); /* what settles it may come from another thread */
    while (!waiting.settled) {
        waiting.ev = loop->ev;
        ev_run(loop->ev, EVRUN_ONCE);
        waiting.ev = NULL;
        pk_loop_end_turn(loop);
    }
    ev_unref(loop->ev);
    /* Only what lies in another scope, as a call's, would go with the promise. */
    if (promise && promise->held && !loop->kept) {
        loop->kept = promise;
        loop->drop_kept = pk_promise_consumed;
    } else if (promise) {
        pk_promise_consumed(promise);
    }
    if (waiting.status.code == PK_OK && ret_value)
        *ret_value = waiting.value;
    return waiting.status;
}
