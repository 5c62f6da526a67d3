/* future/promise.c: completing, telling the producer, references, cancelling from both sides. */
#include "tests/support/future_fixture.h"

TestSuite(promise, .init = start_futures);

static char one, two;
static unsigned told;

static void tell(void *arg)
{
    told++;
    if (arg)
        *(bool *) arg = true;
}

static pk_future pass(const void *value, void *arg)
{
    return pk_done(value);
}

Test(promise, the_first_completion_wins_and_the_second_is_told)
{
    /* Each pair of completions; a second reference stands for a second producer. */
    for (unsigned first = 0; first < 4; first++) {
        for (unsigned second = 0; second < 3; second++) {
            for (unsigned turn = 0; turn < 2; turn++) {
                struct call call;
                start_call(&call);
                pk_promise *promise = pk_promise_new(&call.scope);
                pk_promise_ref(promise);
                struct outcome outcome = {0};
                pk_await(&call.scope, pk_promise_future(promise), note_outcome, &outcome);
                if (first == 3)
                    pk_scope_cancel(&call.scope, &broken);
                int r = first == 0   ? pk_promise_done(promise, &one)
                        : first == 1 ? pk_promise_fail(promise, PK_ABORTED, "no %d", 1)
                        : first == 2 ? pk_promise_fail_with(promise, &broken)
                                     : pk_promise_done(promise, &one);
                cr_assert_eq(r, first == 3 ? PK_ERR_TOO_LATE : 0);
                if (turn)
                    pk_loop_end_turn(loop);
                r = second == 0   ? pk_promise_done(promise, &two)
                    : second == 1 ? pk_promise_fail(promise, PK_INTERNAL, "%s", "late")
                                  : pk_promise_fail_with(promise, &broken);
                cr_assert_eq(r, PK_ERR_TOO_LATE);
                pk_loop_end_turn(loop);
                if (first == 0)
                    assert_done(outcome, &one);
                else
                    assert_failed(outcome, first == 1 ? PK_ABORTED : PK_DATA_LOSS);
                if (first == 1)
                    cr_assert_str_eq(outcome.text, "no 1");
                end_call(&call);
            }
        }
    }
    end_futures();
}

Test(promise, a_producer_that_comes_after_its_call_and_arena_are_gone_is_told)
{
    struct call call;
    start_call(&call);
    pk_promise *promises[3];
    struct outcome outcomes[3] = {{0}};
    for (unsigned i = 0; i < 3; i++) {
        promises[i] = pk_promise_new(&call.scope);
        pk_await(&call.scope, pk_then(pk_promise_future(promises[i]), pass, NULL), note_outcome,
                 &outcomes[i]);
    }
    end_call(&call);
    memset(&call, 0xee, sizeof call);
    for (unsigned i = 0; i < 3; i++)
        assert_failed(outcomes[i], PK_CANCELLED);
    cr_assert_eq(pk_promise_done(promises[0], &one), PK_ERR_TOO_LATE);
    cr_assert_eq(pk_promise_fail(promises[1], PK_ABORTED, "x"), PK_ERR_TOO_LATE);
    cr_assert_eq(pk_promise_fail_with(promises[2], &broken), PK_ERR_TOO_LATE);
    end_futures();
}

Test(promise, without_memory_or_scope_every_function_takes_what_comes)
{
    told = 0;
    cr_assert_eq(pk_promise_done(NULL, &one), PK_ERR_TOO_LATE);
    cr_assert_eq(pk_promise_fail(NULL, PK_ABORTED, "x"), PK_ERR_TOO_LATE);
    cr_assert_eq(pk_promise_fail_with(NULL, &broken), PK_ERR_TOO_LATE);
    pk_promise_on_abandon(NULL, tell, NULL);
    cr_assert_eq(told, 0);
    pk_future future = pk_promise_future(NULL);
    cr_assert_eq(future.state, PK_FUTURE_FAILED);
    cr_assert_eq(((const pk_status *) future.pointer)->code, PK_RESOURCE_EXHAUSTED);
    /* A promise in a scope that was cancelled fails with that status at once. */
    struct call call;
    start_call(&call);
    pk_scope_cancel(&call.scope, &broken);
    pk_promise *late = pk_promise_new(&call.scope);
    struct outcome outcome = {0};
    pk_await(&call.scope, pk_promise_future(late), note_outcome, &outcome);
    pk_promise_on_abandon(late, tell, NULL);
    cr_assert_eq(told, 1);
    pk_loop_end_turn(loop);
    assert_failed(outcome, PK_DATA_LOSS);
    end_call(&call);
    end_futures();
}

Test(promise, an_abandoned_producer_is_told_once_whoever_gives_up)
{
    enum { WAYS = 8 };
    for (unsigned way = 0; way < WAYS; way++) {
        struct call call;
        start_call(&call);
        struct pk_current outer = enter_scope(&call.scope);
        told = 0;
        pk_promise *promise = pk_promise_new(&call.scope);
        pk_promise_on_abandon(promise, tell, NULL);
        pk_future future = pk_promise_future(promise);
        if (way & 1)
            future = pk_then(pk_then(future, pass, NULL), pass, NULL);
        pk_future fails = pk_failed_with(&broken), done = pk_done(&one);
        pk_future pair[] = {future, way / 2 == 0   ? fails
                                    : way / 2 == 1 ? done
                                                   : pk_sleep(&call.scope, 0)};
        pk_future group = way / 2 == 0   ? pk_all(&call.scope, pair, 2)
                          : way / 2 == 1 ? pk_any(&call.scope, pair, 2)
                          : way / 2 == 2 ? pk_any(&call.scope, pair, 2)
                                         : pk_all(&call.scope, pair, 2);
        if (way / 2 == 3)
            group = pk_timeout(&call.scope, group, 1);
        struct outcome outcome = {0};
        pk_await(&call.scope, group, note_outcome, &outcome);
        leave_scope(outer);
        while (outcome.times == 0)
            pk_loop_turn(loop);
        pk_loop_end_turn(loop);
        cr_assert_eq(told, 1, "way %u", way);
        end_call(&call);
        cr_assert_eq(told, 1);
    }
    end_futures();
}

static bool finished[4];
static struct call *ending;

static pk_future end_own_call(const void *value, void *arg)
{
    pk_scope_end(&ending->scope, call_released);
    return pk_done(value);
}

static pk_future never_again(const void *value, void *arg)
{
    cr_assert_fail("a step ran after its scope was cancelled");
    return pk_done(NULL);
}

Test(promise, the_owner_may_go_while_continuations_are_queued_or_running)
{
    for (unsigned way = 0; way < 2; way++) {
        struct call call;
        start_call(&call);
        ending = &call;
        memset(finished, 0, sizeof finished);
        struct pk_current outer = enter_scope(&call.scope);
        pk_promise *first = pk_promise_new(&call.scope), *second = pk_promise_new(&call.scope);
        struct outcome outcomes[2] = {{0}};
        pk_future future = pk_promise_future(first);
        if (way == 1)
            future = pk_then(future, end_own_call, NULL);
        pk_await(&call.scope, pk_finally(future, tell, &finished[0]), note_outcome, &outcomes[0]);
        future = pk_then(pk_promise_future(second), never_again, NULL);
        pk_await(&call.scope, pk_finally(future, tell, &finished[1]), note_outcome, &outcomes[1]);
        leave_scope(outer);
        pk_promise_done(first, &one);
        pk_promise_done(second, &two);
        if (way == 0)
            pk_scope_end(&call.scope, call_released);
        cr_assert_not(call.released);
        pk_loop_end_turn(loop);
        cr_assert(call.released);
        cr_assert(finished[0] && finished[1]);
        if (way == 0)
            assert_failed(outcomes[0], PK_CANCELLED);
        else
            assert_done(outcomes[0], &one);
        assert_failed(outcomes[1], PK_CANCELLED);
    }
    end_futures();
}

static pk_promise *started;
static bool started_told;

static pk_future start_more(const pk_status *status, void *arg)
{
    started = pk_promise_new(pk_current.scope);
    pk_promise_on_abandon(started, tell, &started_told);
    return pk_promise_future(started);
}

static pk_future start_more_then(const void *value, void *arg)
{
    return start_more(NULL, arg);
}

Test(promise, what_the_steps_of_a_loser_start_is_given_up_too)
{
    for (unsigned way = 0; way < 3; way++) {
        struct call call;
        start_call(&call);
        struct pk_current outer = enter_scope(&call.scope);
        started_told = false;
        pk_promise *loser = pk_promise_new(&call.scope), *winner = pk_promise_new(&call.scope);
        pk_future pair[] = {pk_promise_future(loser), pk_promise_future(winner)};
        pair[0] = way == 0 ? pk_recover(pair[0], start_more, NULL)
                           : pk_then(pair[0], start_more_then, NULL);
        struct outcome outcome = {0};
        pk_await(&call.scope, pk_any(&call.scope, pair, 2), note_outcome, &outcome);
        leave_scope(outer);
        started = NULL;
        if (way == 0) {
            pk_promise_done(winner, &one); /* the loser recovers from its cancel */
        } else if (way == 1) {
            pk_promise_done(loser, &two); /* settled, its step has not run */
            pk_promise_done(winner, &one);
        } else {
            pk_promise_done(loser, &two); /* its step has run and waits */
            pk_loop_end_turn(loop);
            pk_promise_done(winner, &one);
        }
        pk_loop_end_turn(loop);
        assert_done(outcome, &one);
        cr_assert_not_null(started);
        cr_assert(started_told, "way %u", way);
        if (way == 0)
            cr_assert_eq(pk_promise_done(loser, &two), PK_ERR_TOO_LATE);
        end_call(&call);
    }
    end_futures();
}

/* ---- Reports of debug builds ---- */

#ifndef NDEBUG
static char report[512];

static void keep_report(void *context, pk_log_level level, const char *text)
{
    cr_assert_eq(level, PK_LOG_WARNING);
    strncat(report, text, sizeof report - strlen(report) - 1);
    strncat(report, "\n", sizeof report - strlen(report) - 1);
}

Test(promise, what_a_program_forgot_is_reported_when_the_loop_is_freed)
{
    pk_loop_free(loop);
    start_futures_with(0, keep_report);
    struct call call;
    start_call(&call);
    call.scope.label = "/demo.Greeter/SayHello";
    pk_promise *dropped = pk_promise_new(&call.scope);
    pk_future forgotten = pk_promise_future(dropped);
    (void) forgotten;
    pk_promise_done(dropped, &one);
    pk_detach(pk_promise_future(pk_promise_new(&loop->scope)));
    pk_scope_end(&call.scope, call_released);
    pk_loop_free(loop);
    cr_assert_not_null(strstr(report, "dropped"), "%s", report);
    cr_assert_not_null(strstr(report, "/demo.Greeter/SayHello"), "%s", report);
    cr_assert_not_null(strstr(report, "neither completed"), "%s", report);
    cr_assert_eq(counts.blocks, 0);
}

static pk_future own;

static pk_future return_own(const void *value, void *arg)
{
    return own;
}

Test(promise, a_step_that_returns_its_own_future_asserts, .signal = SIGABRT)
{
    pk_promise *promise = pk_promise_new(&loop->scope);
    own = pk_then(pk_promise_future(promise), return_own, NULL);
    pk_promise_done(promise, NULL);
    pk_loop_end_turn(loop);
}
#endif
