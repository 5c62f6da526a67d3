/* handlers/streaming/queue.c: messages from elsewhere. */
#include <pekoe/pekoe.h>

#include "tests/support/pipeline_kit.h"

static Helloworld__HelloReply replies[6];

static void make_replies(void)
{
    static char texts[6][2] = {"a", "b", "c", "d", "e", "f"};
    for (size_t i = 0; i < 6; i++) {
        replies[i] = (Helloworld__HelloReply) HELLOWORLD__HELLO_REPLY__INIT;
        replies[i].message = texts[i];
    }
}

TestSuite(queue, .init = make_replies);

static void released(const void *message, void *arg)
{
    strcat(((line *) arg)->released, ((const Helloworld__HelloReply *) message)->message);
}

static pk_future queue_of_two(line *l)
{
    l->queue = pk_queue_new(l->call, 2, released, l);
    return pk_source_pipe(probe(l, pk_queue_source(l->queue)), l->out);
}

/* How the pushes went, one letter each: d(one), f(ailed). */
struct pushes {
    char log[64];
};

static pk_future push_done(const void *unused, void *arg)
{
    strcat(((struct pushes *) arg)->log, "d");
    return pk_done(NULL);
}

static pk_future push_failed(const pk_status *status, void *arg)
{
    cr_assert_eq(status->code, PK_CANCELLED);
    strcat(((struct pushes *) arg)->log, "f");
    return pk_done(NULL);
}

static void push(line *l, struct pushes *pushes, size_t i)
{
    pk_future pushed = pk_queue_push(l->queue, &replies[i]);
    pk_detach(pk_recover(pk_then(pushed, push_done, pushes), push_failed, pushes));
    pk_loop_end_turn(l->k.loop);
}

Test(queue, gives_what_is_pushed_and_releases_what_was_used)
{
    line l;
    struct pushes pushes = {""};
    line_open(&l, queue_of_two);
    push(&l, &pushes, 0);
    cr_assert_str_eq(kit_replies(l.x), "a");
    cr_assert_str_eq(l.released, "a", "it was encoded, and the pipe came back for more");
    push(&l, &pushes, 1);
    push(&l, &pushes, 2);
    cr_assert_str_eq(kit_replies(l.x), "a|b|c");
    cr_assert_str_eq(pushes.log, "ddd");
    pk_queue_end(l.queue, NULL);
    pk_loop_end_turn(l.k.loop);
    cr_assert_str_eq(kit_status(l.x), "0");
    cr_assert_str_eq(l.released, "abc");
    line_close(&l);
}

Test(queue, who_pushes_into_a_full_one_waits_in_order)
{
    line l;
    struct pushes pushes = {""};
    line_open(&l, queue_of_two);
    pk_test_exchange_set_room(l.x, 1);
    push(&l, &pushes, 0); /* is written, and fills what room there is */
    push(&l, &pushes, 1);
    push(&l, &pushes, 2);
    cr_assert_str_eq(pushes.log, "ddd");
    push(&l, &pushes, 3);
    push(&l, &pushes, 4);
    cr_assert_str_eq(pushes.log, "ddd", "two wait");
    cr_assert_eq(pk_queue_try_push(l.queue, &replies[5]), PK_ERR_LIMIT);
    pk_test_exchange_set_room(l.x, 1);
    cr_assert_str_eq(pushes.log, "dddd");
    pk_test_exchange_set_room(l.x, 1000);
    cr_assert_str_eq(pushes.log, "ddddd");
    cr_assert_str_eq(kit_replies(l.x), "a|b|c|d|e");
    cr_assert_eq(pk_queue_try_push(l.queue, &replies[5]), 0);
    pk_loop_end_turn(l.k.loop);
    cr_assert_str_eq(kit_replies(l.x), "a|b|c|d|e|f");
    line_close(&l);
    cr_assert_str_eq(l.released, "abcdef");
}

Test(queue, ends_with_a_failure_behind_what_is_queued)
{
    static const pk_status failure = {PK_RESOURCE_EXHAUSTED, PK_SLICE("too slow"), {NULL, 0}};
    line l;
    struct pushes pushes = {""};
    line_open(&l, queue_of_two);
    pk_test_exchange_set_room(l.x, 1);
    for (size_t i = 0; i < 4; i++)
        push(&l, &pushes, i);
    pk_queue_end(l.queue, &failure);
    pk_loop_end_turn(l.k.loop);
    cr_assert_str_eq(pushes.log, "dddf", "who waits is turned away");
    cr_assert_eq(pk_queue_try_push(l.queue, &replies[5]), PK_ERR_CLOSED);
    pk_test_exchange_set_room(l.x, 1000);
    cr_assert_str_eq(kit_replies(l.x), "a|b|c");
    cr_assert_str_eq(kit_status(l.x), "8");
    cr_assert_str_eq(l.released, "abc");
    line_close(&l);
}

Test(queue, releases_everything_once_however_it_ends)
{
    for (int how = 0; how < 3; how++) {
        line l;
        struct pushes pushes = {""};
        line_open(&l, queue_of_two);
        pk_test_exchange_set_room(l.x, 1);
        for (size_t i = 0; i < 5; i++)
            push(&l, &pushes, i);
        if (how == 0)
            pk_test_exchange_cancel(l.x);
        else if (how == 1)
            pk_call_cancel(l.call);
        pk_loop_end_turn(l.k.loop);
        if (how == 2)
            pk_test_exchange_cancel(l.x);
        cr_assert_str_eq(pushes.log, "dddff");
        cr_assert_eq(strlen(l.released), 3u, "%s", l.released);
        line_close(&l);
        cr_assert_eq(strlen(l.released), 3u, "what was not taken is not released");
    }
}

static pk_future take_one(line *l)
{
    l->queue = pk_queue_new(l->call, 2, released, l);
    pk_source *first = pk_source_limit(l->call, pk_queue_source(l->queue), 1);
    return pk_source_pipe(first, l->out);
}

Test(queue, a_consumer_that_stops_closes_it)
{
    line l;
    line_open(&l, take_one);
    cr_assert_eq(pk_queue_try_push(l.queue, &replies[0]), 0);
    cr_assert_eq(pk_queue_try_push(l.queue, &replies[1]), 0);
    pk_loop_end_turn(l.k.loop);
    cr_assert_str_eq(kit_replies(l.x), "a");
    cr_assert_str_eq(kit_status(l.x), "0");
    cr_assert_str_eq(l.released, "ab");
    line_close(&l);
}

static const void *keep(const void *message)
{
    return message;
}

static pk_future keep_step(const void *message, void *arg)
{
    return pk_done(keep(message));
}

static pk_future queue_in_parallel(line *l)
{
    l->queue = pk_queue_new(l->call, 4, released, l);
    pk_source *all = pk_source_map_parallel(l->call, pk_queue_source(l->queue), keep_step, l, 3);
    return pk_source_pipe(all, l->out);
}

Test(queue, taken_messages_are_released_when_given_back)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        line l;
        struct pushes pushes = {""};
        line_open(&l, queue_in_parallel);
        if (cancelled)
            pk_test_exchange_set_room(l.x, 1);
        for (size_t i = 0; i < 5; i++)
            push(&l, &pushes, i);
        if (cancelled) {
            pk_test_exchange_cancel(l.x);
        } else {
            pk_queue_end(l.queue, NULL);
            pk_loop_end_turn(l.k.loop);
            cr_assert_str_eq(kit_replies(l.x), "a|b|c|d|e");
        }
        line_close(&l);
        cr_assert_eq(strlen(l.released), 5u, "%s", l.released);
    }
}

Test(queue, refuses_what_cannot_be)
{
    line l;
    line_open(&l, queue_of_two);
    cr_assert_null(pk_queue_new(l.call, 0, NULL, NULL));
    cr_assert_null(pk_queue_new(l.call, 65537, NULL, NULL));
    cr_assert_eq(pk_queue_try_push(l.queue, NULL), PK_ERR_INVALID);
    pk_future pushed = pk_queue_push(l.queue, NULL);
    cr_assert_eq(pushed.state, (uint32_t) PK_FUTURE_FAILED);
    cr_assert_eq(((const pk_status *) pushed.pointer)->code, PK_INTERNAL);
    cr_assert_eq(pk_queue_try_push(NULL, &replies[0]), PK_ERR_CLOSED);
    line_close(&l);
}

Test(queue, pushing_where_there_is_room_allocates_nothing)
{
    line l;
    line_open(&l, queue_of_two);
    size_t before = 0;
    for (int i = 0; i < 20000; i++) {
        cr_assert_eq(pk_queue_try_push(l.queue, &replies[1]), 0);
        pk_loop_end_turn(l.k.loop);
        l.released[0] = '\0';
        if (i == 1000)
            before = l.k.counts.requests;
    }
    cr_assert_lt(l.k.counts.requests - before, 10u, "beside the response");
    line_close(&l);
}
