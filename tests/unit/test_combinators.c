/* future/combinators.c: groups, timeouts, sleeping, waiting; and random programs against a model. */
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

/* ---- Random programs against a model ---- */

/*
 * A program is a tree. It is run by the library on a frozen clock, and interpreted here: when does
 * it settle, with what, and was it pending at first? `cancel_at` is when the scope is cancelled.
 */
enum op {
    OP_DONE,
    OP_FAIL,
    OP_SLEEP,
    OP_THEN,
    OP_RECOVER,
    OP_FINALLY,
    OP_ALL,
    OP_ANY,
    OP_TIMEOUT,
    OP_LATER,
    OPS
};

struct program {
    enum op op;
    unsigned number; /* a value, a code, milliseconds */
    bool foreign;    /* of a sleep: in the other scope */
    unsigned count;
    struct program *children[3];
    pk_future kept; /* OP_LATER */
    bool used;
};

struct result {
    uint64_t at;
    bool pending; /* at first */
    bool done;
    unsigned number; /* value or code; groups of values are 1000 */
};

static struct program programs[4000];
static unsigned program_count;
static uint64_t random_state;
static uint64_t cancel_at;
static struct call model_call, model_other;
static unsigned cleanups_hung, cleanups_run;
static pk_status model_statuses[20];
static char model_values[100];

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (random_state >> 33) % below;
}

static struct program *make_program(unsigned depth)
{
    struct program *program = &programs[program_count++];
    *program = (struct program){.op = (enum op) draw(depth == 0 ? OP_THEN : OPS)};
    program->number = program->op == OP_DONE   ? draw(100)
                      : program->op == OP_FAIL ? 2 + draw(14)
                                               : 1 + draw(1000000);
    program->foreign = draw(3) == 0;
    program->count = program->op < OP_THEN                                 ? 0
                     : program->op == OP_THEN || program->op == OP_RECOVER ? 2
                     : program->op == OP_ALL || program->op == OP_ANY      ? 1 + draw(3)
                                                                           : 1;
    for (unsigned i = 0; i < program->count; i++)
        program->children[i] = make_program(depth - 1);
    return program;
}

static struct result cancelled_at(uint64_t at)
{
    return (struct result){.at = at, .pending = true, .number = PK_ABORTED};
}

static struct result interpret(const struct program *program, uint64_t start);

static struct result interpret_group(const struct program *program, uint64_t start)
{
    bool any = program->op == OP_ANY;
    struct result results[3], decisive = {0};
    bool pending = false, decided = false;
    for (unsigned i = 0; i < program->count; i++) {
        results[i] = interpret(program->children[i], start);
        pending |= results[i].pending;
        if (!results[i].pending && !decided && results[i].done == any) {
            decisive = results[i];
            decided = true;
        }
    }
    if (decided)
        return decisive;
    if (!pending)
        return any ? results[program->count - 1]
                   : (struct result){.at = start, .done = true, .number = 1000};
    if (start >= cancel_at)
        return cancelled_at(start);
    struct result last = {0};
    for (unsigned i = 0; i < program->count; i++) {
        if (!results[i].pending)
            continue;
        if (results[i].done == any && (!decided || results[i].at < decisive.at)) {
            decisive = results[i];
            decided = true;
        }
        if (results[i].at >= last.at)
            last = results[i];
    }
    struct result result = decided ? decisive : last;
    if (!decided && !any)
        result = (struct result){.at = last.at, .done = true, .number = 1000};
    result.pending = true;
    return result.at < cancel_at ? result : cancelled_at(cancel_at);
}

static struct result interpret(const struct program *program, uint64_t start)
{
    struct result first, next;
    switch (program->op) {
    case OP_DONE:
        return (struct result){.at = start, .done = true, .number = program->number};
    case OP_FAIL:
        return (struct result){.at = start, .number = program->number};
    case OP_SLEEP:
        if (start >= cancel_at)
            return cancelled_at(start);
        if (start + program->number >= cancel_at)
            return cancelled_at(cancel_at);
        return (struct result){.at = start + program->number, .pending = true, .done = true};
    case OP_THEN:
    case OP_RECOVER:
        first = interpret(program->children[0], start);
        if (first.done != (program->op == OP_THEN))
            return first;
        next = interpret(program->children[1], first.at);
        next.pending |= first.pending;
        return next;
    case OP_FINALLY:
        return interpret(program->children[0], start);
    case OP_ALL:
    case OP_ANY:
        return interpret_group(program, start);
    case OP_TIMEOUT:
        first = interpret(program->children[0], start);
        if (!first.pending)
            return first;
        if (start >= cancel_at)
            return cancelled_at(start);
        if (first.at > start + program->number)
            first = (struct result){.at = start + program->number, .number = PK_DEADLINE_EXCEEDED};
        first.pending = true;
        return first.at < cancel_at ? first : cancelled_at(cancel_at);
    case OP_LATER:
        if (start >= cancel_at)
            return cancelled_at(start);
        if (start + program->number >= cancel_at)
            return cancelled_at(cancel_at);
        first = interpret(program->children[0], start);
        if (first.at < start + program->number)
            first.at = start + program->number;
        first.pending = true;
        return first;
    case OPS:
        break;
    }
    abort();
}

static pk_future run_program(struct program *program);

static pk_future then_program(const void *value, void *arg)
{
    return run_program(arg);
}

static pk_future recover_program(const pk_status *status, void *arg)
{
    return run_program(arg);
}

static void count_cleanup(void *arg)
{
    cleanups_run++;
}

static pk_future use_kept(const void *value, void *arg)
{
    struct program *program = arg;
    program->used = true;
    return program->kept;
}

static void drop_kept_future(void *arg)
{
    struct program *program = arg;
    if (!program->used)
        pk_detach(program->kept);
}

static pk_future run_program(struct program *program)
{
    pk_scope *scope = &model_call.scope;
    pk_future futures[3];
    switch (program->op) {
    case OP_DONE:
        return pk_done(&model_values[program->number]);
    case OP_FAIL:
        return pk_failed_with(&model_statuses[program->number]);
    case OP_SLEEP:
        return pk_then(pk_sleep(program->foreign ? &model_other.scope : scope, program->number),
                       then_program, &programs[0]);
    case OP_THEN:
        return pk_then(run_program(program->children[0]), then_program, program->children[1]);
    case OP_RECOVER:
        return pk_recover(run_program(program->children[0]), recover_program, program->children[1]);
    case OP_FINALLY:
        cleanups_hung++;
        return pk_finally(run_program(program->children[0]), count_cleanup, NULL);
    case OP_ALL:
    case OP_ANY:
        for (unsigned i = 0; i < program->count; i++)
            futures[i] = run_program(program->children[i]);
        return program->op == OP_ALL ? pk_all(scope, futures, program->count)
                                     : pk_any(scope, futures, program->count);
    case OP_TIMEOUT:
        return pk_timeout(scope, run_program(program->children[0]), program->number);
    case OP_LATER:
        program->used = false;
        program->kept = run_program(program->children[0]);
        return pk_finally(pk_then(pk_sleep(scope, program->number), use_kept, program),
                          drop_kept_future, program);
    case OPS:
        break;
    }
    abort();
}

/* A random program with random cancelling; false where the model cannot say who came first. */
static void run_random_program(uint64_t seed)
{
    random_state = seed;
    program_count = 1;
    programs[0] = (struct program){.op = OP_DONE, .number = 0}; /* what follows each sleep */
    struct program *program = make_program(1 + draw(6));
    uint64_t steps = draw(4) == 0 ? 1 + draw(1500000) : 0;
    cancel_at = steps ? steps : UINT64_MAX;
    struct result expected = interpret(program, 0);
    start_call(&model_call);
    start_call(&model_other);
    cleanups_hung = cleanups_run = 0;
    struct outcome outcome = {0};
    struct pk_current outer = enter_scope(&model_call.scope);
    pk_await(&model_call.scope, run_program(program), note_outcome, &outcome);
    leave_scope(outer);
    cr_assert_eq(outcome.times, !expected.pending, "seed %lu", (unsigned long) seed);
    static const pk_status aborted = {.code = PK_ABORTED};
    uint64_t now = 0;
    for (unsigned phase = 0; phase < 3; phase++) {
        uint64_t until = phase == 0   ? (expected.at > 0 ? expected.at - 1 : 0)
                         : phase == 1 ? expected.at
                                      : 100000000;
        if (steps && now < steps && until >= steps) {
            pk_test_clock_advance(loop, steps - now);
            now = steps;
            pk_scope_cancel(&model_call.scope, &aborted);
            pk_loop_end_turn(loop);
        }
        pk_test_clock_advance(loop, until - now);
        now = until;
        if (phase == 0 && expected.pending && expected.at > 0)
            cr_assert_eq(outcome.times, 0, "seed %lu: too early", (unsigned long) seed);
        if (phase > 0)
            cr_assert_eq(outcome.times, 1, "seed %lu", (unsigned long) seed);
    }
    cr_assert_eq(outcome.state == PK_FUTURE_DONE, expected.done, "seed %lu: %s",
                 (unsigned long) seed, outcome.text);
    if (!expected.done)
        cr_assert_eq((unsigned) outcome.code, expected.number, "seed %lu: %s", (unsigned long) seed,
                     outcome.text);
    else if (expected.number < 1000)
        cr_assert_eq(outcome.value, &model_values[expected.number], "seed %lu",
                     (unsigned long) seed);
    end_call(&model_call);
    end_call(&model_other);
    cr_assert_eq(cleanups_run, cleanups_hung, "seed %lu", (unsigned long) seed);
    cr_assert_eq(loop->memory.live_blocks, blocks_before, "seed %lu leaves promises",
                 (unsigned long) seed);
    cr_assert_eq(loop->timer_count, 0);
}

Test(combinators, random_programs_do_what_a_plain_interpretation_says)
{
    for (unsigned i = 0; i < 20; i++)
        model_statuses[i].code = (pk_code) i;
    pk_test_clock_freeze(loop);
    for (uint64_t seed = 1; seed <= 20000; seed++)
        run_random_program(seed);
    end_futures();
}

/* ---- Every allocation failed in turn ---- */

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
