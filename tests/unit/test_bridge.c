/* Futures between scopes: values stay as long as they are read, cancels stay on their side. */
#include "tests/support/future_fixture.h"

TestSuite(bridge, .init = start_futures, .timeout = 120);

static char value, other;

static pk_future pass(const void *passed, void *arg)
{
    return pk_done(passed);
}

/* A step that, where there is a failure to recover from, waits for something else. */
struct recovery {
    unsigned times;
    pk_promise *producer;
};

static pk_future wait_again(const pk_status *status, void *arg)
{
    struct recovery *recovery = arg;
    recovery->times++;
    recovery->producer = pk_promise_new(pk_current.scope);
    return pk_promise_future(recovery->producer);
}

static void check_text(pk_future outcome, void *arg)
{
    (*(unsigned *) arg)++;
    cr_assert_eq(outcome.state, PK_FUTURE_DONE);
    cr_assert_str_eq(outcome.pointer, "a reply of the other call");
}

static void check_texts(pk_future outcome, void *arg)
{
    const void *const *values = outcome.pointer;
    cr_assert_eq(outcome.state, PK_FUTURE_DONE);
    for (unsigned i = 0; i < 2; i++)
        check_text(pk_done(values[i]), arg);
}

static pk_future plain(pk_scope *scope, pk_future future)
{
    return future;
}

static pk_future one_step(pk_scope *scope, pk_future future)
{
    return pk_then(future, pass, NULL);
}

static pk_future step_and_timeout(pk_scope *scope, pk_future future)
{
    return pk_timeout(scope, pk_then(future, pass, NULL), 100000);
}

static pk_future timeout_and_step(pk_scope *scope, pk_future future)
{
    return pk_then(pk_timeout(scope, future, 100000), pass, NULL);
}

static pk_future timeouts(pk_scope *scope, pk_future future)
{
    return pk_timeout(scope, pk_timeout(scope, one_step(scope, future), 100000), 100000);
}

static pk_future any_of_two(pk_scope *scope, pk_future future)
{
    pk_future pair[] = {pk_sleep(scope, 100000), one_step(scope, future)};
    return pk_any(scope, pair, 2);
}

static pk_future deep_any(pk_scope *scope, pk_future future)
{
    return timeouts(scope, any_of_two(scope, step_and_timeout(scope, future)));
}

Test(bridge, a_value_of_another_scope_is_readable_until_the_chain_has_settled)
{
    static pk_future (*const ways[])(pk_scope *, pk_future) = {
        plain, one_step, step_and_timeout, timeout_and_step, timeouts, any_of_two, deep_any};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    for (unsigned way = 0; way <= WAYS; way++) {
        struct call call, others[2];
        pk_promise *producers[2];
        pk_future futures[2];
        start_call(&call);
        struct pk_current outer = enter_scope(&call.scope);
        for (unsigned i = 0; i < 2; i++) {
            start_call(&others[i]);
            producers[i] = pk_promise_new(&others[i].scope);
            futures[i] = pk_promise_future(producers[i]);
            if (way < WAYS)
                futures[i] = ways[way](&call.scope, futures[i]);
        }
        unsigned checked = 0;
        if (way < WAYS) {
            pk_await(&call.scope, futures[0], check_text, &checked);
            pk_await(&call.scope, futures[1], check_text, &checked);
        } else {
            pk_await(&call.scope, timeouts(&call.scope, pk_all(&call.scope, futures, 2)),
                     check_texts, &checked);
        }
        leave_scope(outer);
        for (unsigned i = 0; i < 2; i++) {
            char *text = pk_arena_printf(&others[i].scope.arena, "a reply of the %s", "other call");
            cr_assert_eq(pk_promise_done(producers[i], text), 0);
            /* The other call is over for its own side: only the chain holds it. */
            pk_scope_release(&others[i].scope, call_released);
            cr_assert_not(others[i].released);
            if (i == 0)
                pk_loop_end_turn(loop);
            /* The group still waits for the other one: this one's value must stay. */
            cr_assert_eq(others[i].released, way < WAYS && i == 0, "way %u", way);
        }
        pk_loop_end_turn(loop);
        cr_assert_eq(checked, 2, "way %u", way);
        cr_assert(others[0].released && others[1].released, "way %u", way);
        end_call(&call);
    }
    end_futures();
}

/* A in which a step hangs on a future of B: cancel A, end B and complete, in every order. */
static void bridge_in_order(const char *order, unsigned way)
{
    struct call a, b;
    start_call(&a);
    start_call(&b);
    struct pk_current outer = enter_scope(&a.scope);
    pk_promise *producer = pk_promise_new(&b.scope);
    pk_future future = pk_promise_future(producer);
    struct recovery recovery = {0};
    if (way & 1)
        future = pk_recover(future, wait_again, &recovery);
    if (way & 2)
        future = pk_timeout(&a.scope, future, 100000);
    struct outcome outcome = {0};
    if (!(way & 4))
        pk_await(&a.scope, future, note_outcome, &outcome);
    leave_scope(outer);
    bool b_ended = false;
    for (const char *what = order; *what; what++) {
        if (*what == 'a') {
            static const pk_status gone = {.code = PK_ABORTED};
            pk_scope_cancel(&a.scope, &gone);
        } else if (*what == 'b') {
            pk_scope_end(&b.scope, call_released);
            b_ended = true;
        } else if (*what == 'c') {
            int r = pk_promise_done(producer, &value);
            cr_assert_eq(r, b_ended ? PK_ERR_TOO_LATE : 0, "%s", order);
        } else if (*what == '.') {
            pk_loop_end_turn(loop);
        }
    }
    pk_loop_end_turn(loop);
    if (recovery.producer)
        (void) pk_promise_done(recovery.producer, &other);
    pk_loop_end_turn(loop);
    if (way & 4) /* kept until now */
        pk_await(&a.scope, future, note_outcome, &outcome);
    pk_loop_end_turn(loop);
    cr_assert_eq(outcome.times, 1, "%s, way %u", order, way);
    end_call(&a);
    cr_assert(b.released, "%s, way %u", order, way);
}

Test(bridge, cancelling_one_scope_and_ending_the_other_is_safe_in_every_order)
{
    static const char *const orders[] = {"abc",   "acb",   "bac",   "bca",   "cab",   "cba",
                                         "a.b.c", "a.c.b", "b.a.c", "b.c.a", "c.a.b", "c.b.a",
                                         "ab.c",  "ac.b",  "ba.c",  "bc.a",  "ca.b",  "cb.a"};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        for (unsigned way = 0; way < 8; way++)
            bridge_in_order(orders[i], way);
    }
    end_futures();
}

Test(bridge, a_cancelled_bridge_whose_steps_wait_again_is_not_settled_by_its_old_source)
{
    struct call a, b;
    start_call(&a);
    start_call(&b);
    pk_promise *producer = pk_promise_new(&b.scope);
    struct recovery recovery = {0};
    struct pk_current outer = enter_scope(&a.scope);
    pk_future kept = pk_recover(pk_promise_future(producer), wait_again, &recovery);
    leave_scope(outer);
    pk_scope_cancel(&a.scope, &broken);
    pk_loop_end_turn(loop); /* the recovery returned a promise of the cancelled scope */
    cr_assert_eq(recovery.times, 1);
    cr_assert_eq(pk_promise_done(producer, &value), 0);
    pk_loop_end_turn(loop);
    cr_assert_eq(pk_promise_done(recovery.producer, &other), PK_ERR_TOO_LATE);
    struct outcome outcome = {0};
    pk_await(&a.scope, kept, note_outcome, &outcome);
    assert_failed(outcome, PK_DATA_LOSS);
    end_call(&b);
    end_call(&a);
    end_futures();
}
