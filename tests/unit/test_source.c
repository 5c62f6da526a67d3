/* handlers/streaming/source.c: simple sources, operators and sinks. */
#include <pekoe/pekoe.h>

#include "tests/support/pipeline_kit.h"

static Helloworld__HelloReply tock = {PROTOBUF_C_MESSAGE_INIT(&helloworld__hello_reply__descriptor),
                                      (char[]){"tock"}};

static pk_future greeted(line *l, pk_source *from)
{
    return pk_source_pipe(pk_source_map(l->call, from, greet, l), l->out);
}

/* ---- Pipelines over ready and over pending input ---- */

static pk_future plain(line *l)
{
    return greeted(l, names(l));
}

static pk_future filtered(line *l)
{
    return greeted(l, pk_source_filter(l->call, names(l), is_short, NULL));
}

static pk_future limited(line *l)
{
    return greeted(l, pk_source_limit(l->call, names(l), 2));
}

static pk_future limited_to_none(line *l)
{
    return greeted(l, pk_source_limit(l->call, names(l), 0));
}

static pk_future limited_after_filter(line *l)
{
    pk_source *kept = pk_source_filter(l->call, names(l), is_short, NULL);
    return greeted(l, pk_source_limit(l->call, kept, 2));
}

static pk_future array(line *l)
{
    static const void *const replies[] = {&tock, &tock};
    return pk_source_pipe(pk_source_of_array(l->call, replies, 2), l->out);
}

static pk_future empty_array(line *l)
{
    return pk_source_pipe(pk_source_of_array(l->call, NULL, 0), l->out);
}

static pk_future repeated(line *l)
{
    return pk_source_pipe(pk_source_limit(l->call, pk_source_repeat(l->call, &tock), 3), l->out);
}

Test(source, pipelines_give_what_they_say)
{
    static const struct {
        pk_future (*build)(line *l);
        const char *replies;
        const char *status;
    } cases[] = {
        {plain, "<a>|<bb>|<c>|<d>", "0"},
        {filtered, "<a>|<c>|<d>", "0"},
        {limited, "<a>|<bb>", "0"},
        {limited_to_none, "", "0"},
        {limited_after_filter, "<a>|<c>", "0"},
        {array, "tock|tock", "0"},
        {empty_array, "", "0"},
        {repeated, "tock|tock|tock", "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int at_once = 0; at_once < 2; at_once++) {
            line l;
            line_open(&l, cases[i].build);
            if (at_once) {
                uint8_t bytes[256];
                size_t length = kit_frame(bytes, "a");
                length += kit_frame(bytes + length, "bb");
                length += kit_frame(bytes + length, "c");
                length += kit_frame(bytes + length, "d");
                pk_test_exchange_send(l.x, bytes, length);
                pk_test_exchange_end(l.x);
            } else {
                line_feed(&l, "a|bb|c|d.");
            }
            cr_assert_str_eq(kit_replies(l.x), cases[i].replies, "case %zu", i);
            cr_assert_str_eq(kit_status(l.x), cases[i].status, "case %zu", i);
            line_close(&l);
        }
    }
}

Test(source, limit_cancels_what_it_does_not_need)
{
    line l;
    line_open(&l, limited);
    line_feed(&l, "a");
    cr_assert_eq(l.cancelled, 0u);
    line_feed(&l, "b|c");
    cr_assert_eq(l.cancelled, 1u);
    cr_assert_eq(l.calls, 2u);
    line_close(&l);
}

/* ---- Back-pressure ---- */

Test(source, pipe_writes_while_there_is_room)
{
    line l;
    line_open(&l, plain);
    pk_test_exchange_set_room(l.x, 1);
    line_feed(&l, "a|b|c.");
    cr_assert_str_eq(kit_replies(l.x), "<a>");
    cr_assert_eq(l.calls, 1u, "nothing is asked for that cannot be written");
    pk_test_exchange_set_room(l.x, 1);
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>");
    pk_test_exchange_set_room(l.x, 1000);
    cr_assert_str_eq(kit_replies(l.x), "<a>|<b>|<c>");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}

/* ---- Errors half-way ---- */

static pk_future fail_at_b(const void *message, void *arg)
{
    line *l = arg;
    const Helloworld__HelloRequest *request = message;
    return request->name[0] == 'b' ? pk_failed(l->call, PK_ABORTED, "b") : greet(message, arg);
}

static pk_future null_at_b(const void *message, void *arg)
{
    const Helloworld__HelloRequest *request = message;
    return request->name[0] == 'b' ? pk_done(NULL) : greet(message, arg);
}

/* The same, but later. */
struct late {
    line *l;
    const void *message;
};

static pk_future again(const void *unused, void *arg)
{
    struct late *late = arg;
    return fail_at_b(late->message, late->l);
}

static pk_future fail_at_b_later(const void *message, void *arg)
{
    line *l = arg;
    struct late *late = pk_call_new(l->call, struct late, l, message);
    return pk_then(pk_sleep(pk_call_scope(l->call), 1), again, late);
}

static pk_future failing_map(line *l)
{
    return pk_source_pipe(pk_source_map(l->call, names(l), fail_at_b, l), l->out);
}

static pk_future failing_map_later(line *l)
{
    return pk_source_pipe(pk_source_map(l->call, names(l), fail_at_b_later, l), l->out);
}

static pk_future nothing_from_map(line *l)
{
    return pk_source_pipe(pk_source_map(l->call, names(l), null_at_b, l), l->out);
}

static pk_future failing_each(line *l)
{
    return pk_source_each(l->call, names(l), fail_at_b, l);
}

/* Requests are no replies: the writer refuses them. */
static pk_future failing_write(line *l)
{
    return pk_source_pipe(pk_source_filter(l->call, names(l), is_short, NULL), l->out);
}

Test(source, an_error_half_way_ends_the_stream_and_cancels_the_source)
{
    static const struct {
        pk_future (*build)(line *l);
        const char *replies;
        const char *status;
    } cases[] = {
        {failing_map, "<a>", "10"},      {failing_map_later, "<a>", "10"},
        {nothing_from_map, "<a>", "13"}, {failing_each, "", "10"},
        {failing_write, "", "13"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line l;
        line_open(&l, cases[i].build);
        line_feed(&l, "a");
        pk_test_clock_advance(l.k.loop, 10);
        line_feed(&l, "b");
        pk_test_clock_advance(l.k.loop, 10);
        line_feed(&l, "c.");
        cr_assert_str_eq(kit_status(l.x), cases[i].status, "case %zu", i);
        cr_assert_str_eq(kit_replies(l.x), cases[i].replies, "case %zu", i);
        cr_assert_eq(l.cancelled, 1u, "case %zu", i);
        line_close(&l);
    }
}

/* ---- Cancel from both ends ---- */

Test(source, the_end_of_the_call_ends_the_pipeline)
{
    pk_future (*const builds[])(line * l) = {plain, filtered, limited, failing_map_later};
    for (size_t i = 0; i < 4; i++) {
        for (int how = 0; how < 3; how++) {
            line l;
            line_open(&l, builds[i]);
            if (how == 2)
                pk_test_exchange_set_room(l.x, 1);
            line_feed(&l, "a");
            if (how == 1)
                pk_call_cancel(l.call);
            else
                pk_test_exchange_cancel(l.x);
            pk_loop_end_turn(l.k.loop);
            cr_assert_eq(l.cancelled, 1u, "build %zu, %d", i, how);
            line_close(&l);
        }
    }
}

/* ---- Tick ---- */

static pk_future ticking(line *l)
{
    pk_source *ticks = pk_source_tick(l->call, 100, &tock);
    return pk_source_pipe(pk_source_limit(l->call, ticks, 4), l->out);
}

Test(source, ticks_come_in_time_and_missed_ones_are_left_out)
{
    line l;
    line_open(&l, ticking);
    pk_test_clock_advance(l.k.loop, 99);
    cr_assert_str_eq(kit_replies(l.x), "");
    pk_test_clock_advance(l.k.loop, 1);
    cr_assert_str_eq(kit_replies(l.x), "tock");
    pk_test_exchange_set_room(l.x, 1);
    pk_test_clock_advance(l.k.loop, 100);
    cr_assert_str_eq(kit_replies(l.x), "tock|tock");
    pk_test_clock_advance(l.k.loop, 1050);
    cr_assert_str_eq(kit_replies(l.x), "tock|tock", "nobody asks");
    pk_test_exchange_set_room(l.x, 1000);
    cr_assert_str_eq(kit_replies(l.x), "tock|tock|tock", "one of the ten");
    pk_test_clock_advance(l.k.loop, 99);
    cr_assert_str_eq(kit_replies(l.x), "tock|tock|tock");
    pk_test_clock_advance(l.k.loop, 1);
    cr_assert_str_eq(kit_replies(l.x), "tock|tock|tock|tock");
    cr_assert_str_eq(kit_status(l.x), "0");
    line_close(&l);
}

/* ---- Memory ---- */

static pk_future count_down(const void *message, void *arg)
{
    line *l = arg;
    if (l->running++ == 1000)
        *(size_t *) l->own = l->k.counts.requests;
    return pk_done(NULL);
}

static pk_future long_line(line *l)
{
    pk_source *all = pk_source_filter(l->call, names(l), is_short, NULL);
    all = pk_source_map(l->call, pk_source_limit(l->call, all, 1000000), greet, l);
    return pk_source_each(l->call, all, count_down, l);
}

Test(source, a_pipeline_over_ready_input_allocates_nothing)
{
    line l;
    line_open(&l, long_line);
    size_t requests = 0;
    l.own = &requests;
    static uint8_t chunk[100 * 16];
    size_t length = 0;
    for (int i = 0; i < 100; i++)
        length += kit_frame(chunk + length, i % 10 ? "x" : "left out");
    for (int i = 0; i < 1000; i++)
        pk_test_exchange_send(l.x, chunk, length);
    pk_test_exchange_end(l.x);
    cr_assert_str_eq(kit_status(l.x), "0");
    cr_assert_eq(l.running, 90000u);
    cr_assert_gt(requests, 0u);
    cr_assert_eq(l.k.counts.requests - requests, 0u, "%zu allocations",
                 l.k.counts.requests - requests);
    line_close(&l);
}

Test(source, operators_without_memory_fail_the_call)
{
    bool failed = true;
    for (size_t fail_at = 1; failed; fail_at++) {
        line l;
        *(&l) = (line){.build = limited_after_filter};
        static const helloworld_greeter_impl impl = {.stream_hellos = line_handler};
        kit_open(&l.k, &impl, &l);
        l.k.counts.fail_at = l.k.counts.requests + fail_at;
        l.x = pk_test_exchange_new(
            l.k.router, &(pk_test_request){.path = HELLOS, .content_type = "application/grpc"});
        if (l.x) {
            kit_send(l.x, "a");
            if (!pk_test_exchange_finished(l.x))
                pk_test_exchange_end(l.x);
        }
        failed = l.k.counts.requests >= l.k.counts.fail_at;
        l.k.counts.fail_at = 0;
        pk_test_exchange_free(l.x);
        kit_close(&l.k);
    }
}
