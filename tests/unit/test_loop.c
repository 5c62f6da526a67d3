/* core/loop.c: turns, posts, wrapping the program's own loop, the end. */
#include <pekoe/testing.h>

#include "tests/support/future_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(loop, .init = start_futures, .timeout = 60);

#define MILLISECOND 1000000u

static void do_nothing(void *arg)
{
}

/* ---- Turns ---- */

static pk_future sleep_and_count(const void *value, void *arg)
{
    unsigned *left = arg;
    return --*left == 0 ? pk_done(NULL) : pk_then(pk_sleep(&loop->scope, 1), sleep_and_count, arg);
}

Test(loop, run_goes_on_while_steps_of_its_last_event_wait_for_something)
{
    for (unsigned own = 0; own < 2; own++) {
        unsigned left = 20;
        pk_detach(pk_then(pk_sleep(&loop->scope, 1), sleep_and_count, &left));
        if (own)
            ev_run(pk_loop_ev(loop), 0);
        else
            pk_loop_run(loop);
        cr_assert_eq(left, 0, "%u left", left);
    }
    end_futures();
}

/* ---- The ready queue and the flush list ---- */

struct entry {
    pk_ready ready;
    unsigned number;
    struct entry *also;
};

static unsigned order[5000], order_length;

static void run_entry(pk_ready *ready)
{
    struct entry *entry = (struct entry *) ready;
    cr_assert_eq(pk_current.scope, entry->ready.scope);
    cr_assert_eq(pk_current.depth, 0);
    order[order_length++] = entry->number;
    if (entry->also)
        pk_loop_ready(loop, &entry->also->ready);
    pk_loop_drain(loop); /* re-entered: nothing happens */
    pk_loop_end_turn(loop);
}

Test(loop, the_ready_queue_is_first_in_first_out_also_for_what_it_queues_itself)
{
    enum { COUNT = 1000 };
    static struct entry entries[2 * COUNT];
    order_length = 0;
    pk_scope *before = pk_current.scope;
    for (unsigned i = 0; i < COUNT; i++) {
        entries[i] = (struct entry){.ready = {.run = run_entry, .scope = &loop->scope},
                                    .number = i,
                                    .also = &entries[COUNT + i]};
        entries[COUNT + i] = (struct entry){.ready = {.run = run_entry}, .number = COUNT + i};
        pk_loop_ready(loop, &entries[i].ready);
    }
    pk_loop_end_turn(loop);
    cr_assert_eq(order_length, 2 * COUNT);
    for (unsigned i = 0; i < order_length; i++)
        cr_assert_eq(order[i], i);
    cr_assert_eq(pk_current.scope, before);
    end_futures();
}

struct output {
    pk_flush flush;
    unsigned times;
    struct entry *queues;
};

static void write_output(pk_flush *flush)
{
    struct output *output = (struct output *) flush;
    output->times++;
    if (output->queues) {
        struct entry *entry = output->queues;
        output->queues = NULL;
        pk_loop_ready(loop, &entry->ready);
    }
}

Test(loop, output_is_flushed_once_per_turn_and_again_after_what_a_flush_caused)
{
    order_length = 0;
    struct output outputs[4] = {{.flush.flush = write_output},
                                {.flush.flush = write_output},
                                {.flush.flush = write_output},
                                {.flush.flush = write_output}};
    struct entry entry = {.ready = {.run = run_entry}};
    outputs[1].queues = &entry;
    for (unsigned again = 0; again < 3; again++) {
        for (unsigned i = 0; i < 4; i++)
            pk_loop_flush_later(loop, &outputs[i].flush);
    }
    pk_loop_flush_forget(loop, &outputs[3].flush);
    pk_loop_flush_forget(loop, &outputs[3].flush);
    pk_loop_flush_later(loop, &outputs[3].flush);
    pk_loop_flush_forget(loop, &outputs[0].flush);
    pk_loop_flush_forget(loop, &outputs[3].flush);
    pk_loop_end_turn(loop);
    cr_assert_eq(outputs[0].times, 0);
    cr_assert_eq(outputs[1].times, 1);
    cr_assert_eq(outputs[2].times, 1);
    cr_assert_eq(outputs[3].times, 0);
    cr_assert_eq(order_length, 1);
    end_futures();
}

/* ---- Posts ---- */

enum { POSTERS = 4, POSTS = 5000 };

struct poster {
    unsigned next; /* on the loop's thread */
    unsigned number[POSTS];
};

static struct poster posters[POSTERS];
static unsigned posts_run;

static void check_post(void *arg)
{
    unsigned *number = arg;
    for (unsigned i = 0; i < POSTERS; i++) {
        if (number >= posters[i].number && number < posters[i].number + POSTS)
            cr_assert_eq(*number, posters[i].next++);
    }
    if (++posts_run == POSTERS * POSTS)
        pk_loop_stop(loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (unsigned i = 0; i < POSTS; i++) {
        poster->number[i] = i;
        if (pk_loop_post(loop, check_post, &poster->number[i]) != 0)
            abort();
    }
    return NULL;
}

static void keep_running(struct ev_loop *ev, ev_timer *timer, int events)
{
}

Test(loop, posts_of_each_thread_keep_their_order)
{
    pthread_t threads[POSTERS];
    ev_timer keeper;
    ev_timer_init(&keeper, keep_running, 50., 50.);
    ev_timer_start(pk_loop_ev(loop), &keeper);
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_create(&threads[i], NULL, post_all, &posters[i]);
    pk_loop_run(loop);
    cr_assert_eq(posts_run, POSTERS * POSTS);
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    ev_timer_stop(pk_loop_ev(loop), &keeper);
    end_futures();
}

static pk_promise *crossing;

static void complete_crossing(void *arg)
{
    pk_promise_done(pk_steal(&crossing), arg);
}

static void *complete_from_here(void *arg)
{
    if (pk_loop_post(loop, complete_crossing, arg) != 0)
        abort();
    return NULL;
}

Test(loop, a_promise_is_completed_from_another_thread_by_a_post)
{
    static char value;
    for (unsigned i = 0; i < 200; i++) {
        const void *got = NULL;
        pthread_t thread;
        crossing = pk_promise_new(&loop->scope);
        pk_future future = pk_promise_future(crossing);
        pthread_create(&thread, NULL, complete_from_here, &value);
        cr_assert_eq(pk_loop_run_until(loop, future, &got).code, PK_OK);
        cr_assert_eq(got, &value);
        pthread_join(thread, NULL);
    }
    end_futures();
}

static bool later_post_ran;

static void set_flag(void *arg)
{
    later_post_ran = true;
    pk_promise_done(pk_steal(&crossing), NULL);
}

static void wait_inside(void *arg)
{
    cr_assert_eq(pk_loop_run_until(loop, *(pk_future *) arg, NULL).code, PK_OK);
    cr_assert(later_post_ran);
}

Test(loop, a_post_that_runs_the_loop_does_not_hold_up_those_behind_it)
{
    crossing = pk_promise_new(&loop->scope);
    pk_future future = pk_promise_future(crossing);
    cr_assert_eq(pk_loop_post(loop, wait_inside, &future), 0);
    cr_assert_eq(pk_loop_post(loop, set_flag, NULL), 0);
    pk_loop_turn(loop);
    cr_assert(later_post_ran);
    end_futures();
}

static int posted_too_late;

static void post_while_closing(void *arg)
{
    posted_too_late = pk_loop_post(loop, do_nothing, NULL);
}

Test(loop, a_loop_is_freed_with_posts_timers_sleepers_and_promises_left)
{
    struct outcome outcomes[3] = {{0}};
    struct entry entry = {.ready = {.run = run_entry}};
    order_length = 0;
    pk_scope *scope = &loop->scope;
    pk_await(scope, pk_sleep(scope, 100000), note_outcome, &outcomes[0]);
    pk_await(scope, pk_timeout(scope, pk_sleep(scope, 100000), 50000), note_outcome, &outcomes[1]);
    pk_promise *promise = pk_promise_new(scope);
    pk_await(scope, pk_promise_future(promise), note_outcome, &outcomes[2]);
    pk_promise_on_abandon(promise, do_nothing, NULL);
    cr_assert_eq(pk_loop_post(loop, do_nothing, NULL), 0);
    cr_assert_eq(pk_loop_post(loop, post_while_closing, NULL), 0);
    pk_loop_ready(loop, &entry.ready);
    pk_loop_free(loop);
    for (unsigned i = 0; i < 3; i++)
        assert_failed(outcomes[i], PK_CANCELLED);
    cr_assert_eq(order_length, 1);
    cr_assert_eq(posted_too_late, 0); /* accepted, and run: the loop had not closed yet */
    cr_assert_eq(counts.blocks, 0);
    cr_assert_null(pk_loop_free(NULL));
    loop = NULL;
}

/* ---- The program's own loop ---- */

static unsigned own_ticks;

static void tick(struct ev_loop *ev, ev_timer *timer, int events)
{
    if (++own_ticks == 5)
        ev_timer_stop(ev, timer);
}

static void complete_in_prepare(struct ev_loop *ev, ev_prepare *prepare, int events)
{
    if (crossing)
        pk_promise_done(pk_steal(&crossing), NULL);
}

Test(loop, it_lives_on_the_programs_own_loop_and_leaves_it_as_it_was)
{
    pk_loop_free(loop);
    struct ev_loop *ev = ev_loop_new(EVFLAG_AUTO);
    ev_timer own;
    ev_timer_init(&own, tick, 0.002, 0.002);
    ev_timer_start(ev, &own);
    ev_prepare prepare;
    ev_prepare_init(&prepare, complete_in_prepare);
    cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.ev = ev)), 0);
    cr_assert_eq(pk_loop_ev(loop), ev);
    struct outcome outcome = {0};
    pk_await(&loop->scope, pk_sleep(&loop->scope, 5), note_outcome, &outcome);
    ev_run(ev, 0);
    assert_done(outcome, NULL);
    cr_assert_eq(own_ticks, 5);
    /* What a prepare watcher of the program causes leaves before libev blocks. */
    ev_prepare_start(ev, &prepare);
    crossing = pk_promise_new(&loop->scope);
    pk_future future = pk_promise_future(crossing);
    pk_detach(pk_sleep(&loop->scope, 60000));
    cr_assert_eq(pk_loop_run_until(loop, future, NULL).code, PK_OK);
    ev_prepare_stop(ev, &prepare);
    pk_loop_free(loop);
    /* Nothing of ours is left in it: it returns at once. */
    cr_assert_eq(ev_run(ev, EVRUN_NOWAIT), 0);
    cr_assert_eq(ev_run(ev, 0), 0);
    ev_loop_destroy(ev);
    loop = NULL;
}

static void stop_loop(pk_timer *timer)
{
    pk_loop_stop(loop);
}

Test(loop, stop_ends_the_run_after_the_turn_and_the_next_run_goes_on)
{
    pk_timer timer = {.fire = stop_loop}, last = {.fire = stop_loop};
    cr_assert_eq(pk_timer_start(loop, &timer, MILLISECOND), 0);
    cr_assert_eq(pk_timer_start(loop, &last, 30 * MILLISECOND), 0);
    pk_loop_run(loop);
    cr_assert_eq(timer.place, 0);
    cr_assert_neq(last.place, 0);
    pk_loop_run(loop);
    cr_assert_eq(last.place, 0);
    pk_loop_run(loop);
    end_futures();
}

/* ---- File descriptors ---- */

static unsigned readable_times, writable_times;

static void on_event(pk_watch *watch, bool readable, bool writable)
{
    char bytes[8];
    readable_times += readable;
    writable_times += writable;
    if (readable)
        cr_assert_eq(read(watch->ev.fd, bytes, sizeof bytes), 3);
    if (writable)
        pk_watch_set(watch, true, false);
}

Test(loop, a_watched_descriptor_tells_what_it_is_ready_for)
{
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    pk_watch reader, writer;
    pk_watch_init(&reader, loop, pipes[0], on_event);
    pk_watch_init(&writer, loop, pipes[1], on_event);
    pk_watch_set(&writer, false, true);
    pk_loop_turn(loop);
    cr_assert_eq(writable_times, 1);
    pk_watch_set(&writer, false, false);
    cr_assert_eq(write(pipes[1], "abc", 3), 3);
    pk_loop_run(loop); /* nothing is watched */
    cr_assert_eq(readable_times, 0);
    pk_watch_set(&reader, true, false);
    pk_watch_set(&reader, true, false);
    pk_loop_turn(loop);
    cr_assert_eq(readable_times, 1);
    pk_watch_set(&reader, false, false);
    close(pipes[0]);
    close(pipes[1]);
    end_futures();
}

Test(loop, each_allocation_failed_in_turn_gives_no_loop_and_no_leak)
{
    pk_loop_free(loop);
    for (size_t fail_at = 1;; fail_at++) {
        counts = (counting_allocator){.fail_at = fail_at};
        loop = NULL;
        int r = pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts)));
        if (counts.requests < fail_at) {
            cr_assert_eq(r, 0);
            pk_loop_free(loop);
            break;
        }
        cr_assert_eq(r, PK_ERR_NOMEM);
        cr_assert_null(loop);
        cr_assert_eq(counts.blocks, 0);
    }
    cr_assert_eq(counts.blocks, 0);
}

/* ---- Log ---- */

static char logged[600];
static unsigned lines;

static void keep_line(void *context, pk_log_level level, const char *text)
{
    cr_assert_eq(context, logged);
    lines++;
    snprintf(logged, sizeof logged, "%d %s", (int) level, text);
}

Test(loop, lines_below_the_level_are_not_made_and_long_ones_are_cut)
{
    lines = 0;
    pk_loop_free(loop);
    int r = pk_loop_new(
        &loop, PK_LOOP_OPTS(.log = keep_line, .log_context = logged, .log_level = PK_LOG_WARNING));
    cr_assert_eq(r, 0);
    pk_log(loop, PK_LOG_INFO, "%s", "quiet");
    cr_assert_eq(lines, 0);
    pk_log(loop, PK_LOG_ERROR, "%d of %s", 3, "four");
    cr_assert_str_eq(logged, "3 3 of four");
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    pk_log(loop, PK_LOG_WARNING, "%s", text);
    cr_assert_eq(strlen(logged), 2 + 511);
    pk_loop_free(loop);
}

#ifndef NDEBUG
static void block(void *arg)
{
    usleep(120000);
}

Test(loop, a_handler_that_blocks_too_long_is_reported)
{
    lines = 0;
    pk_loop_free(loop);
    int r = pk_loop_new(
        &loop, PK_LOOP_OPTS(.log = keep_line, .log_context = logged, .log_level = PK_LOG_WARNING));
    cr_assert_eq(r, 0);
    cr_assert_eq(pk_loop_post(loop, block, NULL), 0);
    pk_loop_turn(loop);
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(logged, "a handler blocked the loop for"), "%s", logged);
    pk_loop_free(loop);
}
#endif
