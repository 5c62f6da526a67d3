/* Filters of the messages of streams, typed and raw. */
#include <pekoe/raw.h>

#include "tests/support/interceptor_kit.h"

/* ---- Streams ---- */

static pk_future mark_read(void *self, pk_call *call, const void *message)
{
    note("<");
    note(self);
    /* The message is the call's own: it may be changed. */
    if (pk_call_request_type(call) && ((const ProtobufCMessage *) message)->descriptor ==
                                          pk_call_request_type(call)->descriptor) {
        Helloworld__HelloRequest *request = (void *) (uintptr_t) message;
        request->name = pk_call_printf(call, "%s%s", request->name, (const char *) self);
        return pk_done(request);
    }
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(
        call, "%s%s", ((const Helloworld__HelloReply *) message)->message, (const char *) self);
    return pk_done(reply);
}

static pk_future mark_written(void *self, pk_call *call, const void *message)
{
    note(">");
    note(self);
    return pk_done(message);
}

static pk_future watches(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_filter_reads(call, mark_read, self), 0);
    cr_assert_eq(pk_call_filter_writes(call, mark_written, self), 0);
    return pk_next_run(next);
}

TEST_BOTH(filter, messages_of_streams_pass_filters_in_the_order_of_interceptors)
{
    struct client_kit kit = open_kit();
    on_server(&kit, watches, "s");
    on_server(&kit, watches, "t");
    on_client(&kit, watches, "a");
    on_client(&kit, watches, "b");
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "x";
    pk_detach(helloworld_hello_request_write(out, &request));
    cr_assert_str_eq(read_one(&kit, in), "xstba");
    pk_writer_end(out);
    cr_assert_null(read_one(&kit, in));
    cr_assert_str_eq(trace, ">a>bh<s<t>t>s<b<a");
    pk_reader_unref(in);
    pk_writer_unref(out);
    /* The side that is no stream goes another way. */
    trace[0] = '\0';
    in = many(&kit, "1");
    cr_assert_str_eq(read_one(&kit, in), "1ba");
    cr_assert_null(read_one(&kit, in));
    cr_assert_str_eq(trace, "h>t>s<b<a");
    pk_reader_unref(in);
    trace[0] = '\0';
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "h");
    client_kit_close(&kit);
}

static pk_future filter_badly(void *self, pk_call *call, const void *message)
{
    const char *how = self;
    if (strcmp(how, "fail") == 0)
        return pk_failed(call, PK_DATA_LOSS, "filtered");
    return strcmp(how, "wait") == 0 ? pk_sleep(pk_call_scope(call), 1) : pk_done(NULL);
}

static pk_future filters_reads(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_filter_reads(call, filter_badly, self), 0);
    return pk_next_run(next);
}

static pk_future filters_writes(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_filter_writes(call, filter_badly, self), 0);
    return pk_next_run(next);
}

TEST_BOTH(filter, a_filter_refuses_messages)
{
    static const char *const ways[] = {"fail", "wait", "null"};
    for (unsigned i = 0; i < 12; i++) {
        struct client_kit kit = open_kit();
        pk_interceptor *fn = i % 2 ? filters_reads : filters_writes;
        if (i / 2 % 2)
            on_client(&kit, fn, ways[i / 4]);
        else
            on_server(&kit, fn, ways[i / 4]);
        on_client(&kit, around, "a");
        pk_code expected = i / 4 == 0 ? PK_DATA_LOSS : PK_INTERNAL;
        pk_writer *out;
        pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
        Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
        request.name = (char *) "x";
        pk_status status =
            pk_loop_run_until(kit.loop, helloworld_hello_request_write(out, &request), NULL);
        if (i % 4 == 2) { /* a client's writes */
            cr_assert_eq(status.code, expected, "%u", i);
            pk_call_cancel(pk_reader_call(in));
            expected = PK_CANCELLED;
        }
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, expected, "%u: %d", i, last_code);
        pk_reader_unref(in);
        pk_writer_unref(out);
        client_kit_close(&kit);
    }
}

static pk_future raw_copy(const void *message, void *arg)
{
    return pk_writer_write(arg, message);
}

static pk_future raw_echo(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, raw_copy, out);
}

static pk_future raw_mark(void *self, pk_call *call, const void *message)
{
    const pk_raw_message *raw = message;
    cr_assert_null(pk_call_request_type(call));
    pk_raw_message *other = pk_call_new(call, pk_raw_message);
    const char *text = pk_call_printf(call, "%.*s%s", (int) raw->bytes.length,
                                      (const char *) raw->bytes.bytes, (const char *) self);
    other->bytes = (pk_slice){(const uint8_t *) text, strlen(text)};
    return pk_done(other);
}

static pk_future raw_watches(void *self, pk_call *call, pk_next *next)
{
    cr_assert_null(pk_next_request(next));
    cr_assert_eq(pk_call_filter_reads(call, raw_mark, (void *) (strcmp(self, "s") ? "r" : "R")), 0);
    cr_assert_eq(pk_call_filter_writes(call, raw_mark, (void *) (strcmp(self, "s") ? "w" : "W")),
                 0);
    return pk_next_run(next);
}

TEST_BOTH(filter, raw_streams_have_filters_too)
{
    struct client_kit kit = open_kit();
    pk_router_set_raw(pk_server_router(kit.server), raw_echo, NULL);
    on_server(&kit, raw_watches, "s");
    on_client(&kit, raw_watches, "c");
    pk_writer *out;
    pk_reader *in = pk_call_raw(kit.channel, "/a.B/C", NULL, &out, NULL);
    pk_detach(pk_writer_write(out, &(pk_raw_message){.bytes = PK_SLICE("x")}));
    const void *message;
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_reader_read(in), &message).code, PK_OK);
    cr_assert(says(((const pk_raw_message *) message)->bytes, "xwRWr"));
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

static pk_future raw_pass(const void *frames, void *out)
{
    return pk_writer_write_frames(out, frames);
}

static pk_future raw_pass_all(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each_frames(in, raw_pass, out);
}

/* Lets no message pass that begins with '!'. */
static pk_future raw_refuse(void *self, pk_call *call, const void *message)
{
    const pk_raw_message *raw = message;
    return raw->bytes.bytes[0] == '!' ? pk_failed(call, PK_DATA_LOSS, "!") : pk_done(message);
}

static pk_future raw_guards(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(self ? pk_call_filter_reads(call, raw_refuse, NULL)
                      : pk_call_filter_writes(call, raw_refuse, NULL),
                 0);
    return pk_next_run(next);
}

TEST_BOTH(filter, each_message_of_frames_is_seen)
{
    static const pk_raw_frames frames = {
        {(const uint8_t *) "\0\0\0\0\1x\0\0\0\0\1y\0\0\0\0\2!!", 19}, 3, false, NULL};
    for (unsigned i = 0; i < 3; i++) {
        struct client_kit kit = open_kit();
        pk_router_set_raw(pk_server_router(kit.server), raw_pass_all, NULL);
        if (i == 0) {
            on_server(&kit, raw_watches, "s");
            on_client(&kit, raw_watches, "c");
        } else {
            on_server(&kit, raw_guards, i == 1 ? "reads" : NULL);
        }
        pk_writer *out;
        pk_reader *in = pk_call_raw(kit.channel, "/a.B/C", NULL, &out, NULL);
        cr_assert_eq(pk_loop_run_until(kit.loop, pk_writer_write_frames(out, &frames), NULL).code,
                     PK_OK);
        static const char *const expected[][3] = {{"xwRWr", "ywRWr", "!!wRWr"}, {"x", "y", NULL}};
        const void *message;
        for (unsigned m = 0; m < 3; m++) {
            pk_status status = pk_loop_run_until(kit.loop, pk_reader_read(in), &message);
            const char *text = expected[i > 0][m];
            cr_assert_eq(status.code, text ? PK_OK : PK_DATA_LOSS, "%u %u", i, m);
            cr_assert(!text || says(((const pk_raw_message *) message)->bytes, text), "%u %u", i,
                      m);
        }
        pk_reader_unref(in);
        pk_writer_unref(out);
        client_kit_close(&kit);
    }
}

/* Ends the call, and lets the message pass. */
static pk_future raw_cancel(void *self, pk_call *call, const void *message)
{
    pk_call_cancel(call);
    return pk_done(message);
}

static pk_future raw_cancels(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(self ? pk_call_filter_reads(call, raw_cancel, NULL)
                      : pk_call_filter_writes(call, raw_cancel, NULL),
                 0);
    return pk_next_run(next);
}

TEST_BOTH(filter, one_may_end_the_call)
{
    static const pk_raw_frames frames = {
        {(const uint8_t *) "\0\0\0\0\1x\0\0\0\0\1y", 12}, 2, false, NULL};
    for (unsigned i = 0; i < 8; i++) {
        struct client_kit kit = open_kit();
        pk_router_set_raw(pk_server_router(kit.server), i & 1 ? raw_pass_all : raw_echo, NULL);
        if (i & 2)
            on_server(&kit, raw_cancels, i & 4 ? "reads" : NULL);
        else
            on_client(&kit, raw_cancels, i & 4 ? "reads" : NULL);
        for (unsigned again = 0; again < 2; again++) {
            pk_writer *out;
            pk_reader *in = pk_call_raw(kit.channel, "/a.B/C", NULL, &out, NULL);
            const void *message;
            pk_detach(i & 1 ? pk_writer_write_frames(out, &frames)
                            : pk_writer_write(out, &(pk_raw_message){.bytes = PK_SLICE("x")}));
            pk_future read = i & 1 ? pk_reader_read_frames(in) : pk_reader_read(in);
            pk_status status = pk_loop_run_until(kit.loop, read, &message);
            if (i == 4 || i == 5) /* the message of the read that ends the call comes through */
                cr_assert(status.code == PK_OK || status.code == PK_CANCELLED, "%u", i);
            else
                cr_assert_eq(status.code, PK_CANCELLED, "%u: %d", i, status.code);
            pk_reader_unref(in);
            pk_writer_unref(out);
        }
        client_kit_close(&kit);
    }
}

Test(filter, nothing_is_written_behind_the_end_that_one_has_made)
{
    for (unsigned i = 0; i < 4; i++) {
        pk_loop *loop;
        pk_router *router;
        cr_assert_eq(pk_loop_new(&loop, NULL), 0);
        cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
        cr_assert_eq(pk_router_intercept(router, raw_cancels, (void *) (i & 2 ? "reads" : NULL)),
                     0);
        pk_router_set_raw(router, i & 1 ? raw_pass_all : raw_echo, NULL);
        pk_test_exchange *x = pk_test_exchange_new(
            router, &(pk_test_request){.path = "/a.B/C", .content_type = "application/grpc"});
        pk_test_exchange_send(x, "\0\0\0\0\1x\0\0\0\0\1y", 12);
        cr_assert(pk_test_exchange_finished(x));
        cr_assert_str_eq(pk_test_exchange_field(x, "grpc-status"), "1");
        cr_assert_eq(pk_test_exchange_body(x).length, 0);
        pk_test_exchange_free(x);
        pk_router_free(router);
        pk_loop_free(loop);
    }
}
