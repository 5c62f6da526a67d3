/*
 * Streaming calls of a client over a real connection: all messages in order, the status behind
 * them, flow control in both directions, half-close, and streams that are given up.
 */
#include "handlers/call.h"
#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"

#include <stdlib.h>

#define BIG 20000

static struct {
    unsigned ended; /* calls of the server that have ended */
    unsigned read;  /* messages that the server has read */
    unsigned sent;
    pk_code code;
} seen;

static char big_text[BIG + 1];

static void count_end(void *arg)
{
    seen.ended++;
}

/* ---- The server ---- */

struct session {
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    const char *name;
    unsigned left;
    pk_code code;
};

static pk_future reply_more(const void *unused, void *arg)
{
    struct session *session = arg;
    if (session->left == 0)
        return session->code == PK_OK ? pk_done(NULL)
                                      : pk_failed(session->call, session->code, "at the end");
    session->left--;
    seen.sent++;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = session->name[0] == 'B' ? big_text : (char *) session->name;
    return pk_then(helloworld_hello_reply_write(session->out, &reply), reply_more, session);
}

/* "3x": three replies, OK. "3A": three, then ABORTED. "B9": nine large ones. */
static pk_future reply_many(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                            pk_writer *out)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    bool big = request->name[0] == 'B';
    return reply_more(NULL, pk_call_new(call, struct session, .call = call, .out = out,
                                        .name = request->name,
                                        .left = (unsigned) atoi(request->name + (big ? 1 : 0)),
                                        .code = strchr(request->name, 'A') ? PK_ABORTED : PK_OK));
}

static pk_future count_message(const void *message, void *arg)
{
    seen.read++;
    return pk_done(NULL);
}

static pk_future counted(const void *unused, void *arg)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(arg);
    reply->message = pk_call_printf(arg, "%u", seen.read);
    return helloworld_hello_reply_done(reply);
}

static pk_future count_all(void *self, pk_call *call, pk_reader *in)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    return pk_then(pk_reader_each(in, count_message, NULL), counted, call);
}

static pk_future echo_one(const void *message, void *arg)
{
    const Helloworld__HelloRequest *request = message;
    struct session *session = arg;
    seen.read++;
    if (strcmp(request->name, "stop") == 0)
        return pk_failed(session->call, PK_ABORTED, "stopped");
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = request->name;
    return helloworld_hello_reply_write(session->out, &reply);
}

static pk_future echo(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    return pk_reader_each(in, echo_one,
                          pk_call_new(call, struct session, .call = call, .in = in, .out = out));
}

static const helloworld_greeter_impl impl = {
    .it_keeps_replying = reply_many, .it_keeps_talking = count_all, .stream_hellos = echo};

static struct client_kit open_kit(void)
{
    memset(&seen, 0, sizeof seen);
    uint32_t random = 1;
    for (size_t i = 0; i < BIG; i++) { /* what no compressor makes smaller than a window */
        random = random * 1664525 + 1013904223;
        big_text[i] = (char) (' ' + (random >> 24) % 95);
    }
    if (in_process)
        return client_kit_open_in_process(&helloworld_greeter_service, &impl, NULL);
    return client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL,
                           PK_CHANNEL_OPTS(.stream_window = 65536, .connection_window = 65536));
}

/* ---- The client ---- */

static Helloworld__HelloRequest request_of(const char *name)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) name;
    return request;
}

static pk_reader *ask_many(struct client_kit *kit, const char *name, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = request_of(name);
    return helloworld_greeter_it_keeps_replying(kit->channel, &request, opts);
}

/* Reads one message, or "" at the end; `seen.code` is the status. */
static const char *read_one(struct client_kit *kit, pk_reader *in)
{
    const void *message = NULL;
    seen.code = pk_loop_run_until(kit->loop, pk_reader_read(in), &message).code;
    return message ? ((const Helloworld__HelloReply *) message)->message : "";
}

static pk_code write_one(struct client_kit *kit, pk_writer *out, const char *name)
{
    Helloworld__HelloRequest request = request_of(name);
    return pk_loop_run_until(kit->loop, helloworld_hello_request_write(out, &request), NULL).code;
}

TEST_BOTH(streaming_client, messages_come_in_order_and_then_the_status)
{
    struct client_kit kit = open_kit();
    const struct {
        const char *name;
        int count;
        pk_code code;
    } rows[] = {{"3x", 3, PK_OK}, {"0x", 0, PK_OK}, {"3A", 3, PK_ABORTED}, {"0A", 0, PK_ABORTED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pk_reader *in = ask_many(&kit, rows[i].name, NULL);
        /* All of it is here, connection included, before the first read. */
        if (i > 0)
            WAIT_UNTIL(&kit, seen.ended == i + 1);
        for (int j = 0; j < rows[i].count; j++) {
            cr_assert_str_eq(read_one(&kit, in), rows[i].name);
            cr_assert_eq(seen.code, PK_OK);
        }
        cr_assert_str_eq(read_one(&kit, in), "");
        cr_assert_eq(seen.code, rows[i].code);
        cr_assert_str_eq(read_one(&kit, in), "");
        cr_assert_eq(seen.code, rows[i].code);
        cr_assert_eq(pk_call_status(pk_reader_call(in))->code, rows[i].code);
        pk_reader_unref(in);
    }
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, a_reader_that_stops_holds_the_server_back)
{
    struct client_kit kit = open_kit();
    pk_reader *in = ask_many(&kit, "B100", NULL);
    (void) read_one(&kit, in);
    (void) pk_loop_run_until(kit.loop, pk_sleep(pk_loop_scope(kit.loop), 50), NULL);
    cr_assert_lt(seen.sent, 20, "%u were sent",
                 seen.sent); /* a window, and what waits on the server */
    unsigned count = 1;
    while (read_one(&kit, in)[0])
        count++;
    cr_assert_eq(seen.code, PK_OK);
    cr_assert_eq(count, 100);
    pk_reader_unref(in);
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, a_reader_given_up_cancels_the_call)
{
    struct client_kit kit = open_kit();
    pk_reader *in = ask_many(&kit, "B100", NULL);
    (void) read_one(&kit, in);
    pk_reader_unref(in);
    WAIT_UNTIL(&kit, seen.ended == 1);
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, client_streaming_sends_all_and_gets_one_reply)
{
    struct client_kit kit = open_kit();
    for (int round = 0; round < 2; round++) {
        pk_writer *out;
        seen.read = 0;
        pk_future reply = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
        for (int i = 0; i < 5; i++)
            cr_assert_eq(write_one(&kit, out, "x"), PK_OK);
        pk_writer_end(out);
        cr_assert_eq(write_one(&kit, out, "late"), PK_INTERNAL);
        const void *value;
        cr_assert_eq(pk_loop_run_until(kit.loop, reply, &value).code, PK_OK);
        cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, "5");
        pk_writer_unref(out);
    }
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, bidi_plays_ping_pong_and_ends_with_OK)
{
    struct client_kit kit = open_kit();
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(write_one(&kit, out, i % 2 ? "ping" : "pong"), PK_OK);
        cr_assert_str_eq(read_one(&kit, in), i % 2 ? "ping" : "pong");
    }
    pk_writer_end(out);
    cr_assert_str_eq(read_one(&kit, in), "");
    cr_assert_eq(seen.code, PK_OK);
    pk_writer_unref(out);
    pk_reader_unref(in);
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, a_server_that_ends_early_fails_reads_and_writes_with_its_status)
{
    struct client_kit kit = open_kit();
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    cr_assert_eq(write_one(&kit, out, "stop"), PK_OK);
    WAIT_UNTIL(&kit, seen.ended == 1);
    cr_assert_str_eq(read_one(&kit, in), "");
    cr_assert_eq(seen.code, PK_ABORTED);
    cr_assert_eq(write_one(&kit, out, "more"), PK_ABORTED);
    pk_writer_unref(out);
    pk_reader_unref(in);
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, a_cancel_fails_pending_reads_and_reaches_the_server)
{
    struct client_kit kit = open_kit();
    pk_writer *out;
    pk_call *call;
    pk_reader *in =
        helloworld_greeter_stream_hellos(kit.channel, &out, PK_CALL_OPTS(.call = &call));
    cr_assert_eq(write_one(&kit, out, "a"), PK_OK);
    cr_assert_str_eq(read_one(&kit, in), "a");
    pk_future read = pk_reader_read(in);
    pk_call_cancel(call);
    cr_assert_eq(pk_loop_run_until(kit.loop, read, NULL).code, PK_CANCELLED);
    WAIT_UNTIL(&kit, seen.ended == 1);
    cr_assert_eq(write_one(&kit, out, "b"), PK_CANCELLED);
    pk_call_unref(call);
    pk_writer_unref(out);
    pk_reader_unref(in);
    client_kit_close(&kit);
}

TEST_BOTH(streaming_client, a_deadline_ends_a_stream)
{
    struct client_kit kit = open_kit();
    pk_writer *out;
    pk_reader *in =
        helloworld_greeter_stream_hellos(kit.channel, &out, PK_CALL_OPTS(.timeout_ms = 30));
    cr_assert_str_eq(read_one(&kit, in), "");
    cr_assert_eq(seen.code, PK_DEADLINE_EXCEEDED);
    pk_writer_unref(out);
    pk_reader_unref(in);
    client_kit_close(&kit);
}

static pk_future write_many(const void *unused, void *arg)
{
    pk_writer *out = arg;
    if (seen.sent++ == 1000) {
        pk_writer_end(out);
        return pk_done(NULL);
    }
    Helloworld__HelloRequest request = request_of(big_text);
    return pk_then(helloworld_hello_request_write(out, &request), write_many, out);
}

Test(streaming_client, a_writer_waits_for_room_before_and_after_the_connection)
{
    struct client_kit kit = open_kit();
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
    pk_future writes = write_many(NULL, out);
    cr_assert_lt(seen.sent, 10); /* nothing is connected yet */
    cr_assert_eq(pk_loop_run_until(kit.loop, writes, NULL).code, PK_OK);
    const void *value;
    cr_assert_eq(pk_loop_run_until(kit.loop, reply, &value).code, PK_OK);
    cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, "1000");
    pk_writer_unref(out);
    client_kit_close(&kit);
}

/* What is kept for a connection, or for another attempt: little more than the bytes themselves. */
Test(streaming_client, small_messages_that_are_kept_hold_little_more_than_their_bytes)
{
    struct client_kit kit = open_kit();
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
    Helloworld__HelloRequest request = request_of("x");
    size_t sent = 1;
    pk_future wrote;
    while ((wrote = helloworld_hello_request_write(out, &request)).state == PK_FUTURE_DONE)
        sent++; /* nothing is connected yet */
    cr_assert_geq(sent, 65536 / 8);
    size_t buffers = kit.loop->buffers.lent;
    cr_expect_leq(buffers * PK_BUFFER_FIRST, 4 * 8 * sent, "%zu buffers", buffers);
    cr_assert_eq(pk_loop_run_until(kit.loop, wrote, NULL).code, PK_OK);
    for (; sent < 20000; sent++) {
        wrote = helloworld_hello_request_write(out, &request);
        cr_assert_eq(pk_loop_run_until(kit.loop, wrote, NULL).code, PK_OK);
    }
    pk_writer_end(out);
    const void *value;
    cr_assert_eq(pk_loop_run_until(kit.loop, reply, &value).code, PK_OK);
    cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, "20000");
    pk_writer_unref(out);
    client_kit_close(&kit);
}

static void give_back(void *in)
{
    pk_reader_unref(in);
    seen.read++;
}

/* By a read that finds the end at once, or waits for it. */
TEST_BOTH(streaming_client, a_reader_may_be_given_back_when_its_call_ends)
{
    struct client_kit kit = open_kit();
    for (unsigned waits = 0; waits < 2; waits++) {
        pk_reader *in = ask_many(&kit, "1A", NULL);
        cr_assert_eq(pk_call_on_end(pk_reader_call(in), give_back, in), 0);
        if (!waits)
            WAIT_UNTIL(&kit, seen.ended == 1 && !pk_reader_call(in)->exchange);
        cr_assert_str_eq(read_one(&kit, in), "1A");
        cr_assert_eq(seen.read, waits);
        cr_assert_str_eq(read_one(&kit, in), "");
        cr_assert_eq(seen.code, PK_ABORTED);
        cr_assert_eq(seen.read, waits + 1);
    }
    client_kit_close(&kit);
}

/* The same by a call that was made for it, and ends with it. */
TEST_BOTH(streaming_client, a_reader_may_be_given_back_when_a_child_of_its_call_ends)
{
    struct client_kit kit = open_kit();
    pk_reader *in = ask_many(&kit, "1A", NULL);
    pk_reader *beside = ask_many(&kit, "100000x", PK_CALL_OPTS(.parent = pk_reader_call(in)));
    cr_assert_eq(pk_call_on_end(pk_reader_call(beside), give_back, in), 0);
    WAIT_UNTIL(&kit, seen.ended == 1 && !pk_reader_call(in)->exchange);
    cr_assert_str_eq(read_one(&kit, in), "1A");
    cr_assert_str_eq(read_one(&kit, in), "");
    cr_assert_eq(seen.code, PK_ABORTED);
    cr_assert_eq(seen.read, 1);
    client_kit_close(&kit);
}
