/* future/combinators.c: groups, timeouts, sleeping, waiting; test_programs.c puts them together. */
#include <pekoe/testing.h>

#include "tests/support/future_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(combinators, .init = start_futures, .timeout = 120);

static char one, two, three;

/* ---- All and any ---- */

enum { MEMBERS = 4 };

/* What each member is: 'd' done, 'f' failed, 'D' and 'F' pending, 'p' never completed. */
static void check_group(bool any, const char *kinds, const char *completion_order)
{
    struct call call;
    start_call(&call);
    static char values[MEMBERS];
    static pk_status failures[MEMBERS];
    pk_promise *producers[MEMBERS] = {0};
    pk_future futures[MEMBERS];
    size_t count = strlen(kinds);
    for (size_t i = 0; i < count; i++) {
        failures[i] = (pk_status){.code = (pk_code) (i + 2)};
        if (kinds[i] == 'd')
            futures[i] = pk_done(&values[i]);
        else if (kinds[i] == 'f')
            futures[i] = pk_failed_with(&failures[i]);
        else
            futures[i] = pk_promise_future(producers[i] = pk_promise_new(&call.scope));
    }
    struct outcome outcome = {0};
    pk_future group =
        any ? pk_any(&call.scope, futures, count) : pk_all(&call.scope, futures, count);
    pk_await(&call.scope, group, note_outcome, &outcome);
    /* The reference: the members in the order in which they settle. */
    size_t last = count;
    for (size_t k = 0; k < 2 * count && last == count; k++) {
        size_t i = k < count ? k : (size_t) (completion_order[k - count] - '0');
        char kind = kinds[i];
        if (k < count && (kind == (any ? 'd' : 'f')))
            last = i;
        if (k >= count && ((any && kind == 'D') || (!any && kind == 'F')))
            last = i;
    }
    bool decided = last < count;
    size_t waiting = 0, last_settled = count;
    for (size_t i = 0; i < count; i++)
        waiting += kinds[i] == 'p';
    for (size_t k = 0; k < count; k++) {
        size_t i = k;
        if (kinds[i] == 'd' || kinds[i] == 'f')
            last_settled = i;
    }
    for (size_t k = 0; k < count; k++) {
        size_t i = (size_t) (completion_order[k] - '0');
        if (kinds[i] == 'D' || kinds[i] == 'F')
            last_settled = i;
        if (kinds[i] == 'D')
            pk_promise_done(producers[i], &values[i]);
        else if (kinds[i] == 'F')
            pk_promise_fail_with(producers[i], &failures[i]);
        pk_loop_end_turn(loop);
    }
    if (!decided && waiting > 0) {
        cr_assert_eq(outcome.times, 0);
    } else if (any == decided) {
        cr_assert_eq(outcome.times, 1);
        cr_assert_eq(outcome.state, PK_FUTURE_DONE, "%s %s", kinds, completion_order);
        if (any)
            cr_assert_eq(outcome.value, &values[last], "%s %s", kinds, completion_order);
        for (size_t i = 0; i < count && !any; i++)
            cr_assert_eq(((const void *const *) outcome.value)[i], &values[i]);
    } else {
        assert_failed(outcome, any ? (count ? failures[last_settled].code : PK_INVALID_ARGUMENT)
                                   : failures[last].code);
    }
    for (size_t i = 0; i < count; i++) {
        if (kinds[i] == 'p')
            cr_assert_eq(pk_promise_done(producers[i], NULL), decided ? PK_ERR_TOO_LATE : 0);
    }
    end_call(&call);
}

Test(combinators, groups_of_every_kind_of_member_in_every_order_settle_as_they_say)
{
    static const char *const orders[] = {"0123", "3210", "2031", "1302"};
    static const char letters[] = "dfDFp";
    for (unsigned count = 0; count <= MEMBERS; count++) {
        unsigned all = 1;
        for (unsigned i = 0; i < count; i++)
            all *= 5;
        for (unsigned code = 0; code < all; code++) {
            char kinds[MEMBERS + 1] = {0};
            for (unsigned i = 0, rest = code; i < count; i++, rest /= 5)
                kinds[i] = letters[rest % 5];
            for (unsigned order = 0; order < 4; order++) {
                char within[MEMBERS + 1] = {0};
                for (unsigned i = 0, k = 0; i < MEMBERS; i++) {
                    if (orders[order][i] < (char) ('0' + count))
                        within[k++] = orders[order][i];
                }
                check_group(false, kinds, within);
                check_group(true, kinds, within);
            }
        }
    }
    end_futures();
}

static const char *sequence[8];
static char told[] = "told", cleaned[] = "cleaned", shown[] = "result";
static unsigned sequence_length;

static void note(void *arg)
{
    sequence[sequence_length++] = arg;
}

static void note_and_keep(pk_future outcome, void *arg)
{
    note(arg);
}

Test(combinators, losers_are_cancelled_before_the_result_shows)
{
    for (unsigned way = 0; way < 3; way++) {
        struct call call;
        start_call(&call);
        sequence_length = 0;
        struct pk_current outer = enter_scope(&call.scope);
        pk_promise *loser = pk_promise_new(&call.scope), *decisive = pk_promise_new(&call.scope);
        pk_promise_on_abandon(loser, note, told);
        pk_future lost = pk_finally(pk_promise_future(loser), note, cleaned);
        pk_future pair[] = {pk_promise_future(decisive), lost};
        pk_future future = way == 0   ? pk_all(&call.scope, pair, 2)
                           : way == 1 ? pk_any(&call.scope, pair, 2)
                                      : pk_timeout(&call.scope, lost, 1);
        if (way == 2)
            pk_detach(pair[0]);
        pk_await(&call.scope, future, note_and_keep, shown);
        leave_scope(outer);
        way == 0 ? pk_promise_fail_with(decisive, &broken) : pk_promise_done(decisive, &one);
        while (sequence_length < 3)
            pk_loop_turn(loop);
        cr_assert_str_eq(sequence[0], "told");
        cr_assert_str_eq(sequence[1], "cleaned");
        cr_assert_str_eq(sequence[2], "result");
        end_call(&call);
        cr_assert_eq(sequence_length, 3);
    }
    end_futures();
}

Test(combinators, a_group_of_a_hundred_thousand_settles)
{
    enum { COUNT = 100000 };
    pk_future *futures = calloc(COUNT, sizeof *futures);
    pk_promise **producers = calloc(COUNT, sizeof *producers);
    for (unsigned pending = 0; pending < 2; pending++) {
        struct call call;
        start_call(&call);
        for (unsigned i = 0; i < COUNT; i++)
            futures[i] = pending ? pk_promise_future(producers[i] = pk_promise_new(&call.scope))
                                 : pk_done(&futures[i]);
        struct outcome outcome = {0};
        pk_await(&call.scope, pk_all(&call.scope, futures, COUNT), note_outcome, &outcome);
        for (unsigned i = 0; i < COUNT && pending; i++)
            pk_promise_done(producers[i], &futures[i]);
        pk_loop_end_turn(loop);
        cr_assert_eq(outcome.state, PK_FUTURE_DONE);
        for (unsigned i = 0; i < COUNT; i++)
            cr_assert_eq(((const void *const *) outcome.value)[i], &futures[i]);
        end_call(&call);
    }
    free(futures);
    free(producers);
    end_futures();
}

/* ---- Time ---- */

Test(combinators, sleeping_and_timeouts_follow_the_clock_of_the_test)
{
    pk_test_clock_freeze(loop);
    struct outcome slept[3] = {{0}}, timed[2] = {{0}};
    uint64_t begun = pk_loop_now(loop);
    pk_scope *scope = &loop->scope;
    pk_await(scope, pk_sleep(scope, 20), note_outcome, &slept[1]);
    pk_await(scope, pk_sleep(scope, 10), note_outcome, &slept[0]);
    pk_await(scope, pk_sleep(scope, UINT64_MAX), note_outcome, &slept[2]);
    pk_await(scope, pk_timeout(scope, pk_sleep(scope, 15), 14), note_outcome, &timed[0]);
    pk_await(scope, pk_timeout(scope, pk_sleep(scope, 15), 16), note_outcome, &timed[1]);
    pk_test_clock_advance(loop, 9);
    cr_assert_eq(slept[0].times, 0);
    pk_test_clock_advance(loop, 1);
    assert_done(slept[0], NULL);
    pk_test_clock_advance(loop, 5);
    assert_failed(timed[0], PK_DEADLINE_EXCEEDED);
    cr_assert_str_eq(timed[0].text, "did not settle within 14 ms");
    assert_done(timed[1], NULL);
    cr_assert_eq(slept[1].times, 0);
    pk_test_clock_advance(loop, 1000);
    assert_done(slept[1], NULL);
    cr_assert_eq(pk_loop_now(loop) - begun, 1015000000u);
    cr_assert_eq(slept[2].times, 0);
    pk_loop_free(loop);
    assert_failed(slept[2], PK_CANCELLED);
    cr_assert_eq(counts.blocks, 0);
}

static pk_future block_then_sleep(const void *value, void *arg)
{
    usleep(300000);
    *(uint64_t *) arg = pk_loop_now(loop);
    return pk_sleep(&loop->scope, 200);
}

Test(combinators, a_timer_started_after_a_handler_blocked_never_fires_early)
{
    for (unsigned round = 0; round < 2; round++) {
        uint64_t started = 0;
        pk_future future = pk_sleep(&loop->scope, 1);
        if (round == 1)
            pk_detach(pk_sleep(&loop->scope, 400));
        future = pk_then(future, block_then_sleep, &started);
        cr_assert_eq(pk_loop_run_until(loop, future, NULL).code, PK_OK);
        uint64_t took = pk_loop_now(loop) - started;
        cr_assert_geq(took, 200000000u);
        cr_assert_lt(took, 2000000000u);
    }
    pk_loop_run(loop);
    end_futures();
}

static pk_promise *awaited;

static void complete_awaited(void *arg)
{
    pk_promise_done(awaited, arg);
}

static void *complete_later(void *arg)
{
    usleep(20000);
    if (pk_loop_post(loop, complete_awaited, &three) != 0)
        abort();
    return NULL;
}

Test(combinators, run_until_returns_with_the_outcome_and_waits_for_nothing_else)
{
    const void *value = &one;
    /* Something else keeps the loop busy for a minute. */
    pk_detach(pk_sleep(&loop->scope, 60000));
    cr_assert_eq(pk_loop_run_until(loop, pk_done(&two), &value).code, PK_OK);
    cr_assert_eq(value, &two);
    pk_status status = pk_loop_run_until(loop, pk_failed_with(&broken), &value);
    cr_assert_eq(status.code, PK_DATA_LOSS);
    cr_assert_eq(value, &two);
    /* Settled before the loop runs. */
    pk_promise *promise = pk_promise_new(&loop->scope);
    pk_future future = pk_promise_future(promise);
    pk_promise_done(promise, &one);
    cr_assert_eq(pk_loop_run_until(loop, future, &value).code, PK_OK);
    cr_assert_eq(value, &one);
    /* Settled by another thread, with nothing else to wait for. */
    pthread_t thread;
    awaited = pk_promise_new(&loop->scope);
    future = pk_promise_future(awaited);
    pthread_create(&thread, NULL, complete_later, NULL);
    cr_assert_eq(pk_loop_run_until(loop, future, &value).code, PK_OK);
    cr_assert_eq(value, &three);
    pthread_join(thread, NULL);
    pk_loop_free(loop);
    cr_assert_eq(counts.blocks, 0);
}

/* ---- Every allocation failed in turn ---- */

static unsigned cleanups_run;

static void count_cleanup(void *arg)
{
    cleanups_run++;
}

static pk_future pass(const void *value, void *arg)
{
    return pk_done(value);
}

static pk_future sleep_again(const void *value, void *arg)
{
    return pk_then(pk_sleep(pk_current.scope, 1), pass, NULL);
}

static pk_future sleep_after_all(const pk_status *status, void *arg)
{
    return pk_sleep(pk_current.scope, 1);
}

static const void *do_work(void *arg)
{
    return arg;
}

static void run_with_failures(size_t fail_at, bool fail_after, bool *ret_failed)
{
    start_futures_with(1, NULL);
    pk_test_clock_freeze(loop);
    counts.fail_after = fail_after;
    counts.fail_at = counts.requests + fail_at;
    struct call call, other;
    start_call(&call);
    start_call(&other);
    enum { FUTURES = 6 };
    struct outcome outcomes[FUTURES] = {{0}};
    unsigned before = cleanups_run;
    struct pk_current outer = enter_scope(&call.scope);
    pk_scope *scope = &call.scope;
    pk_future pair[2] = {pk_then(pk_sleep(scope, 1), sleep_again, NULL), pk_sleep(&other.scope, 2)};
    pk_future futures[FUTURES];
    futures[0] = pk_all(scope, pair, 2);
    pair[0] = pk_then(pk_sleep(&other.scope, 5), pass, NULL);
    pair[1] = pk_recover(pk_sleep(scope, 3), sleep_after_all, NULL);
    futures[1] = pk_any(scope, pair, 2);
    futures[2] = pk_timeout(scope, pk_then(pk_sleep(&other.scope, 50), pass, NULL), 2);
    futures[3] = pk_recover(pk_timeout(scope, pk_sleep(scope, 9), 2), sleep_after_all, NULL);
    futures[4] = pk_offload(scope, do_work, &one);
    futures[5] = pk_finally(pk_then(pk_sleep(scope, 1), sleep_again, NULL), count_cleanup, NULL);
    for (unsigned i = 0; i < FUTURES; i++)
        pk_await(scope, futures[i], note_outcome, &outcomes[i]);
    leave_scope(outer);
    for (unsigned i = 0; i < 20; i++)
        pk_test_clock_advance(loop, 5);
    while (outcomes[4].times == 0)
        pk_loop_turn(loop);
    *ret_failed = counts.requests >= counts.fail_at;
    for (unsigned i = 0; i < FUTURES; i++) {
        cr_assert_eq(outcomes[i].times, 1, "future %u, allocation %zu", i, fail_at);
        if (outcomes[i].state == PK_FUTURE_FAILED && i != 2)
            cr_assert_eq(outcomes[i].code, PK_RESOURCE_EXHAUSTED, "future %u, allocation %zu: %s",
                         i, fail_at, outcomes[i].text);
    }
    cr_assert_eq(cleanups_run, before + 1);
    pk_scope_end(&call.scope, call_released);
    pk_scope_end(&other.scope, call_released);
    pk_loop_end_turn(loop);
    while (!call.released || !other.released)
        pk_loop_turn(loop); /* the worker may still be at it */
    loop = pk_loop_free(loop);
    cr_assert_eq(counts.blocks, 0);
}

Test(combinators, each_allocation_failed_in_turn_leaves_one_outcome_each_and_no_leak)
{
    pk_loop_free(loop);
    for (unsigned after = 0; after < 2; after++) {
        bool failed = true;
        for (size_t fail_at = 1; failed; fail_at++) {
            run_with_failures(fail_at, after, &failed);
            cr_assert_lt(fail_at, 1000);
        }
    }
}
