/* future/future.c: steps on done, failed and pending futures, inline depth, awaiting. */
#include "tests/support/future_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(future, .init = start_futures, .timeout = 120);

static char one, two, three;

/* ---- Each kind of future times each kind of step ---- */

enum kind { DONE, FAILED, PENDING_DONE, PENDING_FAILED, KINDS };

struct trace {
    unsigned then, recover, finally;
    const void *seen;
    enum kind next; /* what the step returns */
    pk_promise *producer;
};

/* A future of that kind; a pending one's producer is left in *ret_producer. */
static pk_future make_future(pk_scope *scope, enum kind kind, const void *value,
                             pk_promise **ret_producer)
{
    *ret_producer = NULL;
    if (kind == DONE)
        return pk_done(value);
    if (kind == FAILED)
        return pk_failed_with(&broken);
    *ret_producer = pk_promise_new(scope);
    return pk_promise_future(*ret_producer);
}

static void complete(pk_promise *producer, enum kind kind, const void *value)
{
    if (!producer)
        return;
    int r = kind == PENDING_DONE ? pk_promise_done(producer, value)
                                 : pk_promise_fail_with(producer, &broken);
    cr_assert_eq(r, 0);
}

static pk_future traced_then(const void *value, void *arg)
{
    struct trace *trace = arg;
    trace->then++;
    trace->seen = value;
    return make_future(pk_current.scope, trace->next, &two, &trace->producer);
}

static pk_future traced_recover(const pk_status *status, void *arg)
{
    struct trace *trace = arg;
    trace->recover++;
    trace->seen = status;
    return make_future(pk_current.scope, trace->next, &two, &trace->producer);
}

static void traced_finally(void *arg)
{
    ((struct trace *) arg)->finally++;
}

static bool is_done(enum kind kind)
{
    return kind == DONE || kind == PENDING_DONE;
}

/* What `first` then step gives, for every kind of both and every kind of step. */
static void check_combination(enum kind first, enum kind next, unsigned step)
{
    struct call call;
    start_call(&call);
    struct pk_current outer = enter_scope(&call.scope);
    struct trace trace = {.next = next};
    pk_promise *producer;
    pk_future future = make_future(&call.scope, first, &one, &producer);
    if (step == 0)
        future = pk_then(future, traced_then, &trace);
    else if (step == 1)
        future = pk_recover(future, traced_recover, &trace);
    else
        future = pk_finally(future, traced_finally, &trace);
    bool runs = step == 2 || is_done(first) == (step == 0);
    cr_assert_eq(trace.then + trace.recover + trace.finally, !producer && runs);
    struct outcome outcome = {0};
    pk_await(&call.scope, future, note_outcome, &outcome);
    leave_scope(outer);
    complete(producer, first, &one);
    pk_loop_end_turn(loop);
    if (trace.producer) {
        cr_assert_eq(outcome.times, 0);
        complete(trace.producer, next, &two);
        pk_loop_end_turn(loop);
    }
    cr_assert_eq(trace.then, step == 0 && runs);
    cr_assert_eq(trace.recover, step == 1 && runs);
    cr_assert_eq(trace.finally, step == 2);
    if (runs && step < 2)
        cr_assert_eq(trace.seen, step == 0 ? (const void *) &one : (const void *) &broken);
    enum kind last = runs && step < 2 ? next : first;
    if (is_done(last))
        assert_done(outcome, last == first && !(runs && step < 2) ? &one : &two);
    else
        assert_failed(outcome, PK_DATA_LOSS);
    end_call(&call);
}

Test(future, every_kind_of_future_takes_every_kind_of_step)
{
    for (unsigned first = 0; first < KINDS; first++) {
        for (unsigned next = 0; next < KINDS; next++) {
            for (unsigned step = 0; step < 3; step++)
                check_combination(first, next, step);
        }
    }
    end_futures();
}

/* The same with the whole scope cancelled at each point. */
Test(future, a_cancel_at_any_point_runs_the_steps_with_its_status_once)
{
    for (unsigned when = 0; when < 3; when++) {
        for (unsigned step = 0; step < 3; step++) {
            struct call call;
            start_call(&call);
            struct pk_current outer = enter_scope(&call.scope);
            struct trace trace = {.next = PENDING_DONE};
            pk_promise *producer;
            pk_future future = make_future(&call.scope, PENDING_DONE, &one, &producer);
            future = step == 0   ? pk_then(future, traced_then, &trace)
                     : step == 1 ? pk_recover(future, traced_recover, &trace)
                                 : pk_finally(future, traced_finally, &trace);
            struct outcome outcome = {0};
            pk_await(&call.scope, future, note_outcome, &outcome);
            leave_scope(outer);
            if (when > 0)
                cr_assert_eq(pk_promise_done(producer, &one), 0);
            if (when == 2)
                pk_loop_end_turn(loop);
            static const pk_status gone = {.code = PK_ABORTED};
            pk_scope_cancel(&call.scope, &gone);
            pk_loop_end_turn(loop);
            if (when == 2 && step > 0)
                assert_done(outcome, &one);
            else
                assert_failed(outcome, PK_ABORTED);
            cr_assert_eq(trace.then, step == 0 && when == 2);
            cr_assert_eq(trace.recover, step == 1 && when < 2);
            cr_assert_eq(trace.finally, step == 2);
            if (trace.producer)
                cr_assert_eq(pk_promise_done(trace.producer, &two), PK_ERR_TOO_LATE);
            if (when == 0)
                cr_assert_eq(pk_promise_done(producer, &one), PK_ERR_TOO_LATE);
            end_call(&call);
        }
    }
    end_futures();
}

/* ---- Long chains in little stack ---- */

enum { LONG = 1000000, STACK = 256 << 10 };

static unsigned steps_run;

static pk_future count_step(const void *value, void *arg)
{
    steps_run++;
    return pk_done(value);
}

static pk_future again(const void *value, void *arg)
{
    return ++steps_run == LONG ? pk_done(&three) : pk_then(pk_done(value), again, arg);
}

static pk_future fail_again(const pk_status *status, void *arg)
{
    return ++steps_run == LONG ? pk_done(&three)
                               : pk_recover(pk_failed_with(status), fail_again, arg);
}

struct link {
    pk_promise *producer;
    pk_future next;
};

static pk_future return_link(const void *value, void *arg)
{
    steps_run++;
    return ((struct link *) arg)->next;
}

static void in_little_stack(void *(*body)(void *) )
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    cr_assert_eq(pthread_create(&thread, &attributes, body, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* Asserts of this thread's tests are plain: Criterion's jump out of the test's own thread. */
static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}
#define MUST(condition) must(condition, #condition)

static void *run_done_chains(void *arg)
{
    start_futures();
    steps_run = 0;
    pk_future future = pk_done(&one);
    for (unsigned i = 0; i < LONG; i++)
        future = pk_then(future, count_step, NULL);
    MUST(future.state == PK_FUTURE_DONE && future.pointer == &one && steps_run == LONG);
    const void *value = NULL;
    steps_run = 0;
    MUST(pk_loop_run_until(loop, pk_then(pk_done(&one), again, NULL), &value).code == PK_OK);
    MUST(value == &three && steps_run == LONG);
    steps_run = 0;
    MUST(pk_loop_run_until(loop, pk_recover(pk_failed_with(&broken), fail_again, NULL), &value)
             .code == PK_OK);
    MUST(value == &three && steps_run == LONG);
    end_futures();
    return NULL;
}

Test(future, a_million_completed_futures_chain_in_constant_stack)
{
    pk_loop_free(loop);
    in_little_stack(run_done_chains);
}

/* `in_turn`: two scopes take turns, so that each link is bridged to the next. */
static void run_far_end(unsigned length, bool kept, bool in_turn, bool cancel)
{
    struct call calls[2];
    start_call(&calls[0]);
    start_call(&calls[1]);
    struct link *links = calloc(length, sizeof *links);
    steps_run = 0;
    /* Link i's future settles with what link i + 1's does; the last one has the far end. */
    pk_promise *far_end = pk_promise_new(&calls[0].scope);
    pk_future next = pk_promise_future(far_end);
    for (unsigned i = length; i-- > 0;) {
        pk_scope *scope = &calls[in_turn && i % 2].scope;
        links[i].next = next;
        links[i].producer = pk_promise_new(scope);
        struct pk_current outer = enter_scope(scope);
        next = pk_then(pk_promise_future(links[i].producer), return_link, &links[i]);
        if (kept)
            next = pk_timeout(scope, next, 1000000);
        leave_scope(outer);
    }
    struct outcome outcome = {0};
    pk_await(&calls[0].scope, next, note_outcome, &outcome);
    for (unsigned i = 0; i < length; i++) {
        pk_promise_done(links[i].producer, NULL);
        if (i % 3 == 0)
            pk_loop_end_turn(loop);
    }
    pk_loop_end_turn(loop);
    MUST(steps_run == length && outcome.times == 0);
    if (cancel)
        pk_scope_cancel(&calls[0].scope, &broken);
    int r = pk_promise_done(far_end, &three);
    MUST(r == (cancel ? PK_ERR_TOO_LATE : 0));
    pk_loop_end_turn(loop);
    MUST(outcome.times == 1 && (cancel ? outcome.code == PK_DATA_LOSS : outcome.value == &three));
    end_call(&calls[1]);
    end_call(&calls[0]);
    free(links);
}

static void *run_far_ends(void *arg)
{
    for (unsigned way = 0; way < 8; way++) {
        start_futures();
        run_far_end(way == 0 ? LONG : LONG / 10, way & 1, way & 2, way & 4);
        end_futures();
    }
    return NULL;
}

Test(future, a_long_chain_resolves_at_its_far_end_in_constant_stack)
{
    pk_loop_free(loop);
    in_little_stack(run_far_ends);
}

static pk_future note_order(const void *value, void *arg)
{
    cr_assert_eq(steps_run++, (unsigned) (uintptr_t) arg);
    return pk_done(value);
}

Test(future, steps_hung_on_one_promise_and_promises_settled_in_a_turn_run_in_order)
{
    enum { COUNT = 1000 };
    steps_run = 0;
    pk_promise *producers[COUNT];
    struct outcome outcomes[COUNT] = {{0}};
    unsigned place = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        producers[i] = pk_promise_new(&loop->scope);
        pk_future future = pk_promise_future(producers[i]);
        for (unsigned k = 0; k < 5; k++)
            future = pk_then(future, note_order, (void *) (uintptr_t) place++);
        pk_await(&loop->scope, future, note_outcome, &outcomes[i]);
    }
    for (unsigned i = 0; i < COUNT; i++)
        cr_assert_eq(pk_promise_done(producers[i], &one), 0);
    cr_assert_eq(steps_run, 0);
    pk_loop_end_turn(loop);
    cr_assert_eq(steps_run, 5 * COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_done(outcomes[i], &one);
    end_futures();
}

/* ---- Reads in a loop ---- */

struct reads {
    pk_scope *scope; /* where read promises are made */
    unsigned ready_percent;
    unsigned left;
    pk_promise *waiting; /* the pending read */
    size_t most_blocks;
    uint32_t random;
};

static pk_future read_message(struct reads *reads)
{
    reads->random = reads->random * 1664525u + 1013904223u;
    if ((reads->random >> 16) % 100 < reads->ready_percent)
        return pk_done(&one);
    reads->waiting = pk_promise_new(reads->scope);
    return pk_promise_future(reads->waiting);
}

static pk_future read_more(const void *value, void *arg)
{
    struct reads *reads = arg;
    if (loop->memory.live_blocks > reads->most_blocks)
        reads->most_blocks = loop->memory.live_blocks;
    if (--reads->left == 0)
        return pk_done(&three);
    return pk_then(read_message(reads), read_more, reads);
}

static void feed(struct reads *reads, struct outcome *outcome)
{
    while (outcome->times == 0) {
        if (reads[0].waiting)
            pk_promise_done(pk_steal(&reads[0].waiting), &one);
        if (reads[1].waiting)
            pk_promise_done(pk_steal(&reads[1].waiting), &one);
        pk_loop_end_turn(loop);
    }
}

Test(future, a_loop_of_a_million_reads_keeps_a_handful_of_promises)
{
    static const unsigned percents[] = {0, 50, 99, 100};
    for (unsigned way = 0; way < 16; way++) {
        bool own_scope = way & 4, both = way & 8;
        struct call call, reader;
        start_call(&call);
        start_call(&reader);
        struct reads reads[2] = {{.scope = own_scope ? &reader.scope : &call.scope,
                                  .ready_percent = percents[way % 4],
                                  .left = both ? LONG / 4 : LONG,
                                  .random = way}};
        reads[1] = reads[0];
        reads[1].random += 77;
        struct pk_current outer = enter_scope(&call.scope);
        pk_future future = pk_then(read_message(&reads[0]), read_more, &reads[0]);
        if (both) {
            pk_future pair[] = {future, pk_then(read_message(&reads[1]), read_more, &reads[1])};
            future = pk_all(&call.scope, pair, 2);
        }
        leave_scope(outer);
        struct outcome outcome = {0};
        pk_await(&call.scope, future, note_outcome, &outcome);
        feed(reads, &outcome);
        cr_assert_eq(outcome.state, PK_FUTURE_DONE);
        cr_assert_eq(outcome.times, 1);
        cr_assert_lt(reads[0].most_blocks - blocks_before, 24, "%zu blocks in way %u",
                     reads[0].most_blocks - blocks_before, way);
        end_call(&reader);
        end_call(&call);
    }
    end_futures();
}

/* ---- Futures that are kept and used later ---- */

static pk_future pass(const void *value, void *arg)
{
    return pk_done(value);
}

static void never(void *arg)
{
}

Test(future, a_future_that_settled_while_it_was_kept_still_takes_every_use)
{
    for (unsigned use = 0; use < 7; use++) {
        for (unsigned fails = 0; fails < 2; fails++) {
            struct call call, other;
            start_call(&call);
            start_call(&other);
            for (unsigned foreign = 0; foreign < 2; foreign++) {
                pk_scope *scope = foreign ? &other.scope : &call.scope;
                pk_promise *producer = pk_promise_new(scope);
                struct pk_current outer = enter_scope(scope);
                struct trace trace = {.next = DONE};
                pk_future kept = pk_then(pk_promise_future(producer), pass, NULL);
                leave_scope(outer);
                fails ? pk_promise_fail_with(producer, &broken) : pk_promise_done(producer, &one);
                pk_loop_end_turn(loop);
                outer = enter_scope(&call.scope);
                struct outcome outcome = {0};
                pk_future pair[] = {pk_done(&two), kept};
                pk_future next = use == 0   ? pk_then(kept, pass, NULL)
                                 : use == 1 ? pk_recover(kept, traced_recover, &trace)
                                 : use == 2 ? pk_finally(kept, never, NULL)
                                 : use == 3 ? pk_all(&call.scope, pair, 2)
                                 : use == 4 ? pk_any(&call.scope, &kept, 1)
                                 : use == 5 ? pk_timeout(&call.scope, kept, 1000000)
                                            : kept;
                pk_await(&call.scope, next, note_outcome, &outcome);
                leave_scope(outer);
                pk_loop_end_turn(loop);
                cr_assert_eq(outcome.times, 1, "use %u, foreign %u", use, foreign);
                if (fails && use != 1)
                    cr_assert_eq(outcome.code, PK_DATA_LOSS);
                else
                    cr_assert_eq(outcome.state, PK_FUTURE_DONE);
                cr_assert_eq(trace.recover, use == 1 && fails);
            }
            end_call(&other);
            end_call(&call);
        }
    }
    end_futures();
}

static pk_future kept_future;

static pk_future return_kept(const void *value, void *arg)
{
    return kept_future;
}

Test(future, a_step_may_return_a_future_that_has_settled_meanwhile)
{
    for (unsigned foreign = 0; foreign < 2; foreign++) {
        struct call call, other;
        start_call(&call);
        start_call(&other);
        pk_promise *first = pk_promise_new(&call.scope);
        pk_promise *second = pk_promise_new(foreign ? &other.scope : &call.scope);
        char *value = pk_arena_copy(foreign ? &other.scope.arena : &call.scope.arena, "value", 5);
        kept_future = pk_promise_future(second);
        struct pk_current outer = enter_scope(&call.scope);
        pk_future future = pk_then(pk_promise_future(first), return_kept, NULL);
        leave_scope(outer);
        pk_promise_done(second, value);
        pk_loop_end_turn(loop);
        pk_scope_release(&other.scope, call_released);
        cr_assert_eq(other.released, !foreign);
        struct outcome outcome = {0};
        pk_await(&call.scope, future, note_outcome, &outcome);
        pk_promise_done(first, NULL);
        pk_loop_end_turn(loop);
        assert_done(outcome, value);
        cr_assert(other.released);
        end_call(&call);
    }
    end_futures();
}

static unsigned cleaned;

static void clean(void *arg)
{
    cleaned++;
}

static const pk_status *no_memory_status(void)
{
    return &pk_status_no_memory;
}

Test(future, a_clean_up_runs_once_also_where_the_outcome_is_out_of_memory)
{
    cleaned = 0;
    pk_promise *producer = pk_promise_new(&loop->scope);
    pk_future kept = pk_then(pk_promise_future(producer), pass, NULL);
    pk_promise_fail_with(producer, no_memory_status());
    pk_loop_end_turn(loop);
    pk_future last = pk_finally(kept, clean, NULL);
    cr_assert_eq(cleaned, 1);
    cr_assert_eq(last.pointer, no_memory_status());
    end_futures();
}

/* ---- Detach ---- */

static unsigned lines;

static void count_line(void *context, pk_log_level level, const char *text)
{
    lines++;
    cr_assert_eq(level, PK_LOG_DEBUG);
    cr_assert_not_null(strstr(text, "DATA_LOSS"));
    cr_assert_not_null(strstr(text, "broken"));
}

Test(future, a_detached_future_goes_on_alone_and_its_failure_is_logged)
{
    loop->log = count_line;
    loop->log_level = PK_LOG_DEBUG;
    steps_run = 0;
    for (unsigned i = 0; i < KINDS; i++) {
        pk_promise *producer;
        pk_future future = make_future(&loop->scope, i, &one, &producer);
        pk_detach(pk_then(future, count_step, NULL));
        complete(producer, i, &one);
    }
    pk_loop_end_turn(loop);
    cr_assert_eq(steps_run, 2);
    cr_assert_eq(lines, 2);
    end_futures();
}

/* ---- Debug builds see misuse ---- */

#ifndef NDEBUG
Test(future, a_second_use_of_a_pending_future_asserts, .signal = SIGABRT)
{
    pk_promise *producer = pk_promise_new(&loop->scope);
    pk_future future = pk_promise_future(producer);
    pk_detach(pk_then(future, pass, NULL));
    pk_detach(pk_then(future, pass, NULL));
}
#endif
