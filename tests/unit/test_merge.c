/* handlers/streaming/merge.c: several sources as one. */
#include <pekoe/pekoe.h>

#include "tests/support/pipeline_kit.h"

static Helloworld__HelloReply reply_of(const char *text)
{
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char *) (uintptr_t) text;
    return reply;
}

static Helloworld__HelloReply one, two, three, tock;
static const void *const ones[] = {&one, &one, &one}, *const twos[] = {&two, &two},
                         *const threes[] = {&three};

static void make_replies(void)
{
    one = reply_of("1");
    two = reply_of("2");
    three = reply_of("3");
    tock = reply_of("tock");
}

TestSuite(merge, .init = make_replies);

static pk_future arrays(line *l)
{
    pk_source *sources[] = {pk_source_of_array(l->call, ones, 3),
                            pk_source_of_array(l->call, twos, 2),
                            pk_source_of_array(l->call, threes, 1)};
    return pk_source_pipe(pk_source_merge(l->call, sources, 3), l->out);
}

static pk_future of_nothing(line *l)
{
    return pk_source_pipe(pk_source_merge(l->call, NULL, 0), l->out);
}

Test(merge, gives_each_its_turn)
{
    line l;
    line_open(&l, arrays);
    cr_assert_str_eq(kit_replies(l.x), "1|2|3|1|2|1");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
    line_open(&l, of_nothing);
    cr_assert_str_eq(kit_replies(l.x), "");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}

static pk_future names_and_ticks(line *l)
{
    pk_source *ticks = pk_source_limit(l->call, pk_source_tick(l->call, 100, &tock), 2);
    pk_source *sources[] = {pk_source_map(l->call, names(l), greet, l), probe(l, ticks)};
    return pk_source_pipe(pk_source_merge(l->call, sources, 2), l->out);
}

Test(merge, gives_messages_as_they_come)
{
    line l;
    line_open(&l, names_and_ticks);
    line_feed(&l, "a|b");
    pk_test_clock_advance(l.k.loop, 100);
    line_feed(&l, "c");
    pk_test_clock_advance(l.k.loop, 100);
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>|tock|<c>|tock");
    cr_assert_str_eq(kit_status(l.x), "none");
    line_feed(&l, "d.");
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>|tock|<c>|tock|<d>");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}

Test(merge, waits_for_room_as_one)
{
    line l;
    line_open(&l, names_and_ticks);
    pk_test_exchange_set_room(l.x, 1);
    line_feed(&l, "a|b|c");
    pk_test_clock_advance(l.k.loop, 1000);
    cr_assert_str_eq(kit_replies(l.x), "<a>");
    cr_assert_leq(l.calls, 2u, "one message of each source is ahead at most");
    pk_test_exchange_set_room(l.x, 1000);
    pk_test_clock_advance(l.k.loop, 1000);
    line_feed(&l, ".");
    cr_assert_eq(strlen(kit_replies(l.x)), strlen("<a>|tock|<b>|tock|<c>"));
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}

static pk_future fail_at_b(const void *message, void *arg)
{
    line *l = arg;
    const Helloworld__HelloRequest *request = message;
    return request->name[0] == 'b' ? pk_failed(l->call, PK_ABORTED, "b") : greet(message, arg);
}

static pk_future failing(line *l)
{
    pk_source *ticks = probe(l, pk_source_tick(l->call, 100, &tock));
    pk_source *sources[] = {ticks, pk_source_map(l->call, names(l), fail_at_b, l)};
    return pk_source_pipe(pk_source_merge(l->call, sources, 2), l->out);
}

Test(merge, fails_with_the_first_failure_and_cancels_the_others)
{
    line l;
    line_open(&l, failing);
    line_feed(&l, "a");
    pk_test_clock_advance(l.k.loop, 100);
    line_feed(&l, "b");
    cr_assert_str_eq(kit_replies(l.x), "<a>|tock");
    cr_assert_str_eq(kit_status(l.x), "10");
    cr_assert_geq(l.cancelled, 2u);
    line_close(&l);
}

Test(merge, ends_with_the_call)
{
    line l;
    line_open(&l, names_and_ticks);
    line_feed(&l, "a");
    pk_test_exchange_cancel(l.x);
    cr_assert_geq(l.cancelled, 2u);
    line_close(&l);
}

static pk_future count(const void *message, void *arg)
{
    line *l = arg;
    if (l->calls++ == 1000)
        *(size_t *) l->own = l->k.counts.requests;
    return pk_done(NULL);
}

static pk_future long_merge(line *l)
{
    pk_source *sources[] = {pk_source_limit(l->call, pk_source_repeat(l->call, &one), 100000),
                            pk_source_limit(l->call, pk_source_repeat(l->call, &two), 100000)};
    static size_t requests;
    l->own = &requests;
    return pk_source_each(l->call, pk_source_merge(l->call, sources, 2), count, l);
}

Test(merge, of_ready_sources_allocates_nothing)
{
    line l;
    line_open(&l, long_merge);
    cr_assert_eq(l.calls, 200000u);
    cr_assert_lt(l.k.counts.requests - *(size_t *) l.own, 10u, "beside the response");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}
