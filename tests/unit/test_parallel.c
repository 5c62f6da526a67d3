/* handlers/streaming/parallel.c: several futures at a time, results in order. */
#include <pekoe/pekoe.h>

#include "tests/support/pipeline_kit.h"

/* A result that comes when the test says so, by the first letter of the name: a is 0. */
struct work {
    line *l;
    const void *message;
};

static pk_future work_done(const void *unused, void *arg)
{
    struct work *work = arg;
    work->l->running--;
    return pk_done(greet_taken(work->l, work->message));
}

static pk_future work_later(const void *message, void *arg)
{
    line *l = arg;
    const Helloworld__HelloRequest *request = message;
    size_t place = (size_t) (request->name[0] - 'a');
    if (++l->running > l->most_running)
        l->most_running = l->running;
    struct work *work = pk_call_new(l->call, struct work, l, message);
    l->waiting[place] = pk_promise_new(pk_call_scope(l->call));
    return pk_then(pk_promise_future(l->waiting[place]), work_done, work);
}

static pk_future work_at_once(const void *message, void *arg)
{
    return pk_done(greet_taken(arg, message));
}

static void finish(line *l, char letter)
{
    cr_assert_eq(pk_promise_done(pk_steal(&l->waiting[letter - 'a']), NULL), 0);
    pk_loop_end_turn(l->k.loop);
}

static pk_future three_at_a_time(line *l)
{
    return pk_source_pipe(pk_source_map_parallel(l->call, names(l), work_later, l, 3), l->out);
}

Test(parallel, keeps_the_order_and_the_bound)
{
    line l;
    line_open(&l, three_at_a_time);
    line_feed(&l, "a|b|c|d|e.");
    cr_assert_eq(l.running, 3u);
    finish(&l, 'c');
    finish(&l, 'b');
    cr_assert_str_eq(kit_replies(l.x), "", "the first one is missing");
    cr_assert_eq(l.most_running, 3u);
    cr_assert_null(l.waiting[3], "a result that waits takes its place");
    finish(&l, 'a');
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>|<c>");
    finish(&l, 'e');
    finish(&l, 'd');
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>|<c>|<d>|<e>");
    cr_assert_str_eq(kit_status(l.x), "0");
    cr_assert_eq(l.most_running, 3u);
    line_close(&l);
}

static pk_future eight_at_once(line *l)
{
    return pk_source_pipe(pk_source_map_parallel(l->call, names(l), work_at_once, l, 8), l->out);
}

Test(parallel, of_what_is_done_at_once_is_a_plain_map)
{
    line l;
    line_open(&l, eight_at_once);
    line_feed(&l, "a|b|c.");
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>|<c>");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}

Test(parallel, a_writer_without_room_holds_it)
{
    line l;
    line_open(&l, eight_at_once);
    pk_test_exchange_set_room(l.x, 1);
    line_feed(&l, "a|b|c|d|e|f|g|h|i|j|k|l|m|n|o");
    cr_assert_str_eq(kit_replies(l.x), "<a>");
    cr_assert_leq(l.calls, 10u);
    pk_test_exchange_set_room(l.x, 100000);
    line_feed(&l, ".");
    cr_assert_str_eq(kit_status(l.x), "0");
    cr_assert_eq(l.calls, 15u);
    line_close(&l);
}

static pk_future fail_at_b(const void *message, void *arg)
{
    line *l = arg;
    const Helloworld__HelloRequest *request = message;
    return request->name[0] == 'b' ? pk_failed(l->call, PK_ABORTED, "b") : work_later(message, arg);
}

static pk_future failing(line *l)
{
    return pk_source_pipe(pk_source_map_parallel(l->call, names(l), fail_at_b, l, 3), l->out);
}

Test(parallel, a_failure_comes_behind_the_results_before_it)
{
    line l;
    line_open(&l, failing);
    line_feed(&l, "a|b|c");
    cr_assert_str_eq(kit_status(l.x), "none");
    finish(&l, 'a');
    cr_assert_str_eq(kit_replies(l.x), "<a>");
    cr_assert_str_eq(kit_status(l.x), "10");
    cr_assert_eq(l.cancelled, 1u);
    /* What still runs finds out that nobody waits. */
    cr_assert_eq(pk_promise_done(pk_steal(&l.waiting[2]), NULL), PK_ERR_TOO_LATE);
    line_close(&l);
}

Test(parallel, ends_with_the_call_wherever_it_stands)
{
    for (int how = 0; how < 4; how++) {
        line l;
        line_open(&l, how == 3 ? eight_at_once : three_at_a_time);
        if (how == 3)
            pk_test_exchange_set_room(l.x, 1);
        line_feed(&l, "a|b");
        if (how == 1)
            finish(&l, 'b');
        if (how == 2)
            pk_call_cancel(l.call);
        else
            pk_test_exchange_cancel(l.x);
        pk_loop_end_turn(l.k.loop);
        cr_assert_eq(l.cancelled, 1u, "%d", how);
        line_close(&l);
    }
}

/* ---- Off-loaded work outlives the call ---- */

static const void *count_letters(void *message)
{
    const Helloworld__HelloRequest *request = message;
    for (volatile int i = 0; i < 1000000; i++)
        ;
    return request->name[0] == 'a' ? message : NULL;
}

static pk_future offloaded_done(const void *value, void *arg)
{
    return pk_done(greet_taken(arg, value));
}

static pk_future offload(const void *message, void *arg)
{
    line *l = arg;
    pk_future counted = pk_call_offload(l->call, count_letters, (void *) (uintptr_t) message);
    return pk_then(counted, offloaded_done, l);
}

static pk_future on_threads(line *l)
{
    return pk_source_pipe(pk_source_map_parallel(l->call, names(l), offload, l, 4), l->out);
}

Test(parallel, messages_stay_while_a_worker_has_them)
{
    line l;
    line_open(&l, on_threads);
    line_feed(&l, "a|aa|aaa|aaaa");
    pk_test_exchange_cancel(l.x);
    for (int i = 0; i < 1000 && l.k.loop->memory.live_blocks > 1000; i++)
        pk_loop_turn(l.k.loop);
    pk_test_exchange_free(l.x);
    l.x = NULL;
    pk_router_free(l.k.router);
    l.k.router = NULL;
    pk_loop_run(l.k.loop); /* until the workers have returned */
    pk_loop_free(l.k.loop);
    cr_assert_eq(l.k.counts.blocks, 0u);
}

/* ---- Limits ---- */

static pk_future none_at_a_time(line *l)
{
    return pk_source_pipe(pk_source_map_parallel(l->call, names(l), work_at_once, l, 0), l->out);
}

static pk_future too_many_at_a_time(line *l)
{
    return pk_source_pipe(pk_source_map_parallel(l->call, names(l), work_at_once, l, 1025), l->out);
}

static pk_future over_a_lender(line *l)
{
    pk_source *lends = pk_source_map(l->call, names(l), greet, l);
    return pk_source_pipe(pk_source_map_parallel(l->call, lends, work_at_once, l, 2), l->out);
}

Test(parallel, refuses_what_it_cannot_do)
{
    pk_future (*const builds[])(line * l) = {none_at_a_time, too_many_at_a_time, over_a_lender};
    for (size_t i = 0; i < 3; i++) {
        line l;
        line_open(&l, builds[i]);
        cr_assert_str_eq(kit_status(l.x), "13");
        line_close(&l);
    }
}

static pk_future count(const void *message, void *arg)
{
    line *l = arg;
    if (l->running++ == 5000)
        *(size_t *) l->own = l->k.counts.requests;
    return pk_done(NULL);
}

static pk_future long_parallel(line *l)
{
    pk_source *all = pk_source_map_parallel(l->call, names(l), work_at_once, l, 4);
    return pk_source_each(l->call, all, count, l);
}

Test(parallel, over_ready_input_allocates_nothing)
{
    line l;
    line_open(&l, long_parallel);
    size_t requests = 0;
    l.own = &requests;
    static uint8_t chunk[1000 * 8];
    size_t length = 0;
    for (int i = 0; i < 1000; i++)
        length += kit_frame(chunk + length, "x");
    for (int i = 0; i < 100; i++)
        pk_test_exchange_send(l.x, chunk, length);
    pk_test_exchange_end(l.x);
    cr_assert_str_eq(kit_status(l.x), "0");
    cr_assert_eq(l.running, 100000u);
    cr_assert_gt(requests, 0u);
    cr_assert_eq(l.k.counts.requests - requests, 0u, "%zu allocations",
                 l.k.counts.requests - requests);
    line_close(&l);
}
