/*
 * Raw calls: bytes as they travel, flags, encodings and fields as they are named. What a proxy made
 * of them does is in test_forward.c.
 */
#include <pekoe/raw.h>

#include "core/base64.h"
#include "helloworld.pekoe.h"
#include "proxy_example.h"
#include "tests/support/client_kit.h"
#include "tests/support/counting_allocator.h"

static struct {
    char encoding[32], accepted[32];
    bool compressed;
    unsigned messages;
} seen;

static void copy(char *to, pk_slice from)
{
    memcpy(to, from.length > 0 ? (const char *) from.bytes : "", from.length);
    to[from.length] = '\0';
}

static pk_future send_back(const void *message, void *out)
{
    const pk_raw_message *raw = message;
    seen.messages++;
    seen.compressed = raw->compressed;
    return pk_writer_write(out, raw);
}

static pk_future handle(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    pk_encodings encodings = pk_call_received_encodings(call);
    copy(seen.encoding, encodings.message);
    copy(seen.accepted, encodings.accepted);
    cr_assert_str_eq(pk_call_protocol(call), "grpc");
    if (strcmp(pk_call_method(call), "/any.Service/Refuse") == 0) {
        encodings = (pk_encodings){.accepted = PK_SLICE("zstd")};
        cr_assert_eq(pk_call_set_encodings(call, &encodings), 0);
        return pk_failed(call, PK_UNIMPLEMENTED, "no");
    }
    encodings = (pk_encodings){.message = encodings.message, .accepted = PK_SLICE("zstd,br")};
    cr_assert_eq(pk_call_set_encodings(call, &encodings), 0);
    return pk_reader_each(in, send_back, out);
}

static void open_kit(struct client_kit *kit)
{
    const char *bound;
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(pk_loop_new(&kit->loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit->server, kit->loop, NULL), 0);
    pk_router_set_raw(pk_server_router(kit->server), handle, NULL);
    if (in_process) {
        cr_assert_eq(pk_channel_new_in_process(&kit->channel, pk_server_router(kit->server)), 0);
        return;
    }
    cr_assert_eq(pk_server_listen(kit->server, "127.0.0.1:0", &bound), 0);
    cr_assert_eq(pk_channel_new(&kit->channel, kit->loop, bound, NULL), 0);
}

static pk_code write_raw(struct client_kit *kit, pk_writer *out, const void *bytes, size_t length,
                         bool compressed)
{
    pk_raw_message message = {{bytes, length}, compressed};
    return pk_loop_run_until(kit->loop, pk_writer_write(out, &message), NULL).code;
}

static const pk_raw_message *read_raw(struct client_kit *kit, pk_reader *in, pk_code *ret_code)
{
    const void *message = NULL;
    *ret_code = pk_loop_run_until(kit->loop, pk_reader_read(in), &message).code;
    return *ret_code == PK_OK ? message : NULL;
}

TEST_BOTH(raw, bytes_and_flags_come_back_whatever_the_encoding_is_called)
{
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_call *call;
    pk_code code;
    const pk_encodings zstd = {PK_SLICE("zstd"), PK_SLICE("zstd, x")};
    pk_reader *in =
        pk_call_raw(kit.channel, "/any.Service/Method", &zstd, &out, PK_CALL_OPTS(.call = &call));
    cr_assert_eq(write_raw(&kit, out, "not zstd", 8, true), PK_OK);
    const pk_raw_message *message = read_raw(&kit, in, &code);
    cr_assert(message && message->compressed && says(message->bytes, "not zstd"));
    cr_assert_eq(write_raw(&kit, out, NULL, 0, false), PK_OK);
    message = read_raw(&kit, in, &code);
    cr_assert(message && !message->compressed && message->bytes.length == 0);
    /* One that comes in many pieces. */
    static char large[1000000];
    memset(large, 'l', sizeof large);
    cr_assert_eq(write_raw(&kit, out, large, sizeof large, false), PK_OK);
    message = read_raw(&kit, in, &code);
    cr_assert(message && message->bytes.length == sizeof large);
    cr_assert_arr_eq(message->bytes.bytes, large, sizeof large);
    pk_encodings answered = pk_call_received_encodings(call);
    cr_assert(says(answered.message, "zstd") && says(answered.accepted, "zstd,br"));
    cr_assert_str_eq(seen.encoding, "zstd");
    cr_assert_str_eq(seen.accepted, "zstd, x");
    pk_writer_end(out);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_OK);
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(raw, a_flag_without_a_name_is_refused)
{
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_code code;
    pk_reader *in = pk_call_raw(kit.channel, "/any.Service/Method", NULL, &out, NULL);
    cr_assert_eq(write_raw(&kit, out, "x", 1, true), PK_OK);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_INTERNAL);
    cr_assert_eq(seen.messages, 0);
    cr_assert_str_eq(seen.encoding, "");
    cr_assert_str_eq(seen.accepted, "identity");
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

TEST_BOTH(raw, a_status_alone_has_no_head_and_still_names_encodings)
{
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_call *call;
    pk_code code;
    pk_reader *in =
        pk_call_raw(kit.channel, "/any.Service/Refuse", NULL, &out, PK_CALL_OPTS(.call = &call));
    const void *head = in;
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_call_received_head(call), &head).code, PK_OK);
    cr_assert_null(head);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_UNIMPLEMENTED);
    cr_assert(says(pk_call_received_encodings(call).accepted, "zstd"));
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(raw, what_cannot_be_a_call_fails)
{
    struct client_kit kit;
    open_kit(&kit);
    const pk_encodings bad = {.message = PK_SLICE("g\nzip")};
    static const char *const paths[] = {
        "/any.Service/Method", "no path",  "", "/any.Service/Meth od", "/any.Service/M#d",
        "/any.Service/M\xc3",  "/any\x7f",
    };
    pk_writer *out;
    pk_code code;
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        pk_reader *in = pk_call_raw(kit.channel, paths[i], i ? NULL : &bad, &out, NULL);
        cr_assert_null(read_raw(&kit, in, &code));
        cr_assert_eq(code, PK_INTERNAL);
        pk_reader_unref(in);
        pk_writer_unref(out);
    }
    client_kit_close(&kit);
}

/* ---- Frames ---- */

static struct {
    unsigned runs, messages, ended;
} passed;

static void count_end(void *arg)
{
    passed.ended++;
}

static pk_future pass_frames(const void *run, void *out)
{
    const pk_raw_frames *frames = run;
    passed.runs++;
    passed.messages += (unsigned) frames->count;
    return pk_writer_write_frames(out, frames);
}

static pk_future pass_all(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    pk_encodings encodings = pk_call_received_encodings(call);
    encodings.accepted = (pk_slice){NULL, 0};
    if (pk_call_set_encodings(call, &encodings) < 0 || pk_call_on_end(call, count_end, NULL) < 0)
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "out of memory");
    return pk_reader_each_frames(in, pass_frames, out);
}

struct frames_kit {
    pk_loop *loop;
    pk_server *server;
    pk_test_exchange *exchange;
};

static struct frames_kit open_frames(const char *type, size_t receive_limit)
{
    static const char *const fields[] = {"grpc-encoding", "zstd", NULL};
    struct frames_kit kit;
    memset(&passed, 0, sizeof passed);
    const pk_server_opts *opts =
        PK_SERVER_OPTS(.calls = PK_ROUTER_OPTS(.grpc_web = true, .receive_limit = receive_limit));
    cr_assert_eq(pk_loop_new(&kit.loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit.server, kit.loop, opts), 0);
    pk_router *router = pk_server_router(kit.server);
    pk_router_set_raw(router, pass_all, NULL);
    kit.exchange = pk_test_exchange_new(
        router, &(pk_test_request){.path = "/a.B/C", .content_type = type, .fields = fields});
    cr_assert_not_null(kit.exchange);
    return kit;
}

static void close_frames(struct frames_kit *kit)
{
    pk_test_exchange_free(kit->exchange);
    cr_assert_eq(passed.ended, 1);
    pk_server_free(kit->server);
    pk_loop_free(kit->loop);
}

static const uint8_t mixed[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\2de"
                               "\1\0\0\0\4fghi\1\0\0\0\0\0\0\0\0\22jklmnopqrstuvwxyz0";
#define MIXED_LENGTH (sizeof mixed - 1)
#define MIXED_MESSAGES 6

Test(raw, frames_pass_whatever_the_cut_and_the_protocol)
{
    static const char *const types[] = {"application/grpc", "application/grpc-web",
                                        "application/grpc-web-text"};
    for (unsigned i = 0; i < 3; i++) {
        uint8_t body[200], answer[200];
        size_t length = MIXED_LENGTH;
        if (i < 2)
            memcpy(body, mixed, length);
        else
            length = pk_base64_encode(body, mixed, length, true);
        for (size_t cut = 0; cut <= length; cut++) {
            struct frames_kit kit = open_frames(types[i], 0);
            pk_test_exchange_send(kit.exchange, body, cut);
            pk_test_exchange_send(kit.exchange, body + cut, length - cut);
            cr_assert_eq(passed.messages, MIXED_MESSAGES, "nothing waits for more");
            cr_assert_eq(pk_test_exchange_consumed(kit.exchange), length);
            pk_test_exchange_end(kit.exchange);
            cr_assert(pk_test_exchange_finished(kit.exchange));
            pk_slice came = pk_test_exchange_body(kit.exchange);
            size_t decoded = came.length;
            if (i < 2) {
                memcpy(answer, came.bytes, decoded);
            } else {
                pk_base64_stream stream = {0};
                decoded = pk_base64_stream_decode(&stream, answer, came.bytes, came.length);
                cr_assert(!stream.malformed && pk_base64_stream_complete(&stream));
            }
            cr_assert_geq(decoded, MIXED_LENGTH);
            cr_assert_arr_eq(answer, mixed, MIXED_LENGTH, "%u %zu", i, cut);
            cr_assert_eq(decoded > MIXED_LENGTH, i > 0, "trailers in the body");
            close_frames(&kit);
        }
    }
}

Test(raw, frames_before_one_that_is_refused_arrive)
{
    static const struct {
        const char *body;
        size_t length;
        const char *status;
    } rows[] = {
        {"\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\5ccccc", 22, "8"},
        {"\0\0\0\0\1a\0\0\0\0\1b\4\0\0\0\1c", 18, "13"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct frames_kit kit = open_frames("application/grpc", 4);
        pk_test_exchange_send(kit.exchange, rows[i].body, rows[i].length);
        cr_assert(pk_test_exchange_finished(kit.exchange));
        cr_assert_str_eq(pk_test_exchange_field(kit.exchange, "grpc-status"), rows[i].status);
        pk_slice came = pk_test_exchange_body(kit.exchange);
        cr_assert_eq(came.length, 12);
        cr_assert_arr_eq(came.bytes, rows[i].body, 12);
        close_frames(&kit);
    }
}

Test(raw, frames_wait_for_a_client_that_stops)
{
    static uint8_t body[22000];
    for (size_t at = 0; at < sizeof body; at += 11)
        memcpy(body + at, "\0\0\0\0\6stream", 11);
    for (unsigned goes_on = 0; goes_on < 2; goes_on++) {
        struct frames_kit kit = open_frames("application/grpc", 0);
        pk_test_exchange_set_room(kit.exchange, 5);
        pk_test_exchange_send(kit.exchange, body, 1100);
        cr_assert_eq(passed.messages, 100);
        cr_assert_eq(passed.runs, 1);
        size_t consumed = pk_test_exchange_consumed(kit.exchange);
        pk_test_exchange_send(kit.exchange, body + 1100, sizeof body - 1100);
        cr_assert_eq(passed.messages, 100);
        cr_assert_eq(pk_test_exchange_consumed(kit.exchange), consumed, "nobody has read them");
        if (goes_on) {
            pk_test_exchange_set_room(kit.exchange, SIZE_MAX);
            cr_assert_eq(passed.messages, sizeof body / 11);
            cr_assert_leq(passed.runs, 3);
            cr_assert_eq(pk_test_exchange_consumed(kit.exchange), sizeof body);
            pk_slice came = pk_test_exchange_body(kit.exchange);
            cr_assert_eq(came.length, sizeof body);
            cr_assert_arr_eq(came.bytes, body, sizeof body);
        } else {
            pk_test_exchange_cancel(kit.exchange);
            cr_assert_eq(passed.ended, 1);
        }
        close_frames(&kit);
    }
}

Test(raw, each_allocation_may_fail_under_frames, .timeout = 60)
{
    static const char *const types[] = {"application/grpc", "application/grpc-web",
                                        "application/grpc-web-text"};
    static const char *const fields[] = {"grpc-encoding", "zstd", NULL};
    enum { LONG = 3000 }; /* of one that comes in pieces */
    static uint8_t frames[MIXED_LENGTH + 5 + LONG], body[2 * sizeof frames];
    memcpy(frames, mixed, MIXED_LENGTH);
    memcpy(frames + MIXED_LENGTH, "\0\0\0\x0b\xb8", 5);
    for (unsigned i = 0; i < 3; i++) {
        size_t length = sizeof frames;
        if (i < 2)
            memcpy(body, frames, length);
        else
            length = pk_base64_encode(body, frames, length, true);
        bool failed = true;
        for (size_t fail_at = 1; failed; fail_at++) {
            counting_allocator counts = {0};
            pk_loop *loop;
            pk_router *router;
            cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))),
                         0);
            cr_assert_eq(pk_router_new(&router, loop, PK_ROUTER_OPTS(.grpc_web = true)), 0);
            pk_router_set_raw(router, pass_all, NULL);
            counts.fail_at = counts.requests + fail_at;
            pk_test_exchange *exchange = pk_test_exchange_new(
                router,
                &(pk_test_request){.path = "/a.B/C", .content_type = types[i], .fields = fields});
            if (exchange) {
                pk_test_exchange_send(exchange, body, MIXED_LENGTH + 100);
                pk_test_exchange_send(exchange, body + MIXED_LENGTH + 100,
                                      length - MIXED_LENGTH - 100);
                pk_test_exchange_end(exchange);
            }
            failed = counts.requests >= counts.fail_at;
            counts.fail_at = 0;
            cr_assert(failed || (exchange && pk_test_exchange_finished(exchange)));
            pk_test_exchange_free(exchange);
            pk_router_free(router);
            pk_loop_free(loop);
            cr_assert_eq(counts.blocks, 0, "%u %zu", i, fail_at);
        }
    }
}

static const pk_raw_frames *read_frames(struct client_kit *kit, pk_reader *in, pk_code *ret_code)
{
    const void *frames = NULL;
    *ret_code = pk_loop_run_until(kit->loop, pk_reader_read_frames(in), &frames).code;
    return *ret_code == PK_OK ? frames : NULL;
}

TEST_BOTH(raw, a_program_makes_frames_and_reads_them_in_turn_with_messages)
{
    static const pk_raw_frames two = {
        {(const uint8_t *) "\0\0\0\0\1a\0\0\0\0\2bc", 13}, 2, false, NULL};
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_code code;
    pk_reader *in = pk_call_raw(kit.channel, "/any.Service/Method", NULL, &out, NULL);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(pk_loop_run_until(kit.loop, pk_writer_write_frames(out, &two), NULL).code,
                     PK_OK);
    pk_writer_end(out);
    const pk_raw_message *message = read_raw(&kit, in, &code);
    cr_assert(message && says(message->bytes, "a"));
    size_t count = 0;
    const pk_raw_frames *frames;
    while ((frames = read_frames(&kit, in, &code))) {
        cr_assert(!frames->compressed);
        count += frames->count;
    }
    cr_assert_eq(code, PK_OK);
    cr_assert_eq(count, 3);
    cr_assert_eq(seen.messages, 4);
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

TEST_BOTH(raw, frames_of_a_reader_may_be_written_twice)
{
    static char large[30000];
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out, *second_out;
    pk_code code;
    memset(large, 'l', sizeof large);
    pk_reader *in = pk_call_raw(kit.channel, "/any.Service/Method", NULL, &out, NULL);
    pk_reader *second_in = pk_call_raw(kit.channel, "/any.Service/Method", NULL, &second_out, NULL);
    for (size_t length = 6; length <= sizeof large; length += sizeof large - 6) {
        cr_assert_eq(write_raw(&kit, out, large, length, false), PK_OK);
        const pk_raw_frames *frames = read_frames(&kit, in, &code);
        cr_assert(frames && frames->count == 1);
        for (unsigned i = 0; i < 2; i++)
            cr_assert_eq(
                pk_loop_run_until(kit.loop, pk_writer_write_frames(second_out, frames), NULL).code,
                PK_OK);
        for (unsigned i = 0; i < 2; i++) {
            const pk_raw_message *message = read_raw(&kit, second_in, &code);
            cr_assert(message && message->bytes.length == length);
            cr_assert_arr_eq(message->bytes.bytes, large, length);
        }
    }
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_reader_unref(second_in);
    pk_writer_unref(second_out);
    client_kit_close(&kit);
}

TEST_BOTH(raw, what_are_no_frames_is_not_sent)
{
    static const pk_raw_frames wrong = {
        {(const uint8_t *) "\0\0\0\0\1a\0\0\0\0\2b", 12}, 2, false, NULL};
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_code code;
    pk_reader *in = pk_call_raw(kit.channel, "/any.Service/Method", NULL, &out, NULL);
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_writer_write_frames(out, &wrong), NULL).code,
                 PK_INTERNAL);
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_writer_write_frames(out, NULL), NULL).code,
                 PK_INTERNAL);
    pk_writer_end(out);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_OK);
    cr_assert_eq(seen.messages, 0);
    pk_reader_unref(in);
    pk_writer_unref(out);
    /* A call whose messages have a type. */
    in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    cr_assert_null(read_frames(&kit, in, &code));
    cr_assert_eq(code, PK_INTERNAL);
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_writer_write_frames(out, &wrong), NULL).code,
                 PK_INTERNAL);
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

TEST_BOTH(raw, the_example_of_the_documentation_is_a_proxy)
{
    struct client_kit kit;
    pk_channel *front;
    pk_server *server;
    pk_writer *out;
    pk_code code;
    const char *bound;
    const pk_encodings zstd = {.message = PK_SLICE("zstd")};
    open_kit(&kit);
    cr_assert_eq(pk_server_new(&server, kit.loop, NULL), 0);
    pk_router_set_raw(pk_server_router(server), proxy, kit.channel);
    if (in_process) {
        cr_assert_eq(pk_channel_new_in_process(&front, pk_server_router(server)), 0);
    } else {
        cr_assert_eq(pk_server_listen(server, "127.0.0.1:0", &bound), 0);
        cr_assert_eq(pk_channel_new(&front, kit.loop, bound, NULL), 0);
    }
    pk_reader *in = pk_call_raw(front, "/any.Service/Method", &zstd, &out, NULL);
    cr_assert_eq(write_raw(&kit, out, "one", 3, false), PK_OK);
    const pk_raw_message *message = read_raw(&kit, in, &code);
    cr_assert(message && says(message->bytes, "one"));
    cr_assert_eq(write_raw(&kit, out, "two", 3, false), PK_OK);
    pk_writer_end(out);
    message = read_raw(&kit, in, &code);
    cr_assert(message && says(message->bytes, "two"));
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_OK);
    cr_assert_str_eq(seen.encoding, "zstd");
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_channel_free(front);
    pk_server_free(server);
    client_kit_close(&kit);
}
