/*
 * The gateway's heart: generated stubs call through it, a generated service answers behind it, and
 * none of them can tell.
 */
#include "core/base64.h"
#include "gateway/forward.h"
#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"

#include <stdlib.h>

#define BIG 20000

static struct {
    unsigned ended, read, sent;
    uint64_t time_left;
    char header[64], binary[64], agent[64], cookie[64];
    pk_code cancelled_with;
} seen;

static char big_text[BIG + 1];

/* ---- The service behind ---- */

static void count_end(void *arg)
{
    seen.ended++;
}

static void copy_value(char *to, pk_slice value)
{
    memcpy(to, value.bytes ? (const char *) value.bytes : "-", value.bytes ? value.length : 1);
    to[value.bytes ? value.length : 1] = '\0';
}

static void look(pk_call *call)
{
    const pk_metadata *metadata = pk_call_metadata(call);
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    seen.time_left = pk_call_time_left(call);
    copy_value(seen.header, pk_metadata_get(metadata, "x-user"));
    copy_value(seen.binary, pk_metadata_get(metadata, "x-key-bin"));
    copy_value(seen.cookie, pk_metadata_get(metadata, "cookie"));
    cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-first", "head"), 0);
    cr_assert_eq(pk_metadata_add_binary(pk_call_trailers(call), "x-last-bin", "\0\1\2", 3), 0);
    cr_assert_eq(pk_metadata_add_binary(pk_call_trailers(call), "x-last-bin", "\xff", 1), 0);
}

static pk_future never(pk_call *call)
{
    pk_promise *promise = pk_promise_new(pk_call_scope(call));
    pk_future future = pk_promise_future(promise);
    pk_promise_on_abandon(promise, count_end, NULL);
    return future;
}

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    static const pk_status rich = {PK_NOT_FOUND, PK_SLICE("no such na\xc3\xafve name"),
                                   PK_SLICE("\x08\x05\x12\x01x")};
    look(call);
    if (strcmp(request->name, "fail") == 0)
        return pk_failed_status(call, &rich);
    if (strcmp(request->name, "wait") == 0)
        return never(call);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

struct session {
    pk_call *call;
    pk_writer *out;
    unsigned left;
};

static pk_future reply_more(const void *unused, void *arg)
{
    struct session *session = arg;
    if (session->left-- == 0)
        return pk_failed(session->call, PK_ABORTED, "at the end");
    seen.sent++;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = big_text;
    return pk_then(helloworld_hello_reply_write(session->out, &reply), reply_more, session);
}

static pk_future reply_many(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                            pk_writer *out)
{
    look(call);
    return reply_more(NULL, pk_call_new(call, struct session, .call = call, .out = out,
                                        .left = (unsigned) atoi(request->name)));
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
    look(call);
    return pk_then(pk_reader_each(in, count_message, NULL), counted, call);
}

static pk_future echo_one(const void *message, void *arg)
{
    const Helloworld__HelloRequest *request = message;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = request->name;
    seen.read++;
    return helloworld_hello_reply_write(arg, &reply);
}

static pk_future echo(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    look(call);
    cr_assert_eq(pk_writer_send_headers(out), 0);
    return pk_reader_each(in, echo_one, out);
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                             .it_keeps_replying = reply_many,
                                             .it_keeps_talking = count_all,
                                             .stream_hellos = echo};

/* ---- The gateway between ---- */

struct bridge {
    struct client_kit back; /* the service, and the gateway's channel to it */
    struct client_kit kit;  /* the gateway's server, and the caller's channel to that */
    gateway_forward_rules rules;
    gateway_tally tally;
};

static pk_future pass_on(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct bridge *bridge = self;
    return gateway_forward(&bridge->rules, bridge->back.channel, call, in, out, &bridge->tally);
}

static void open_bridge(struct bridge *bridge)
{
    const char *bound;
    const pk_channel_opts *windows =
        PK_CHANNEL_OPTS(.stream_window = 65536, .connection_window = 65536);
    memset(&seen, 0, sizeof seen);
    uint32_t random = 1;
    for (size_t i = 0; i < BIG; i++) { /* what no compressor makes smaller than a window */
        random = random * 1664525 + 1013904223;
        big_text[i] = (char) (' ' + (random >> 24) % 95);
    }
    *bridge = (struct bridge){.rules = {.expose = true}};
    bridge->back = in_process
                       ? client_kit_open_in_process(&helloworld_greeter_service, &impl, NULL)
                       : client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL, windows);
    bridge->kit.loop = bridge->back.loop;
    const pk_server_opts *opts = PK_SERVER_OPTS(.calls = PK_ROUTER_OPTS(.grpc_web = true));
    cr_assert_eq(pk_server_new(&bridge->kit.server, bridge->kit.loop, opts), 0);
    pk_router *router = pk_server_router(bridge->kit.server);
    pk_router_set_raw(router, pass_on, bridge);
    if (in_process) {
        cr_assert_eq(pk_channel_new_in_process(&bridge->kit.channel, router), 0);
    } else {
        cr_assert_eq(pk_server_listen(bridge->kit.server, "127.0.0.1:0", &bound), 0);
        cr_assert_eq(pk_channel_new(&bridge->kit.channel, bridge->kit.loop, bound, windows), 0);
    }
}

static void close_bridge(struct bridge *bridge)
{
    pk_channel_free(bridge->kit.channel);
    pk_server_free(bridge->kit.server);
    client_kit_close(&bridge->back);
}

static pk_status say(struct bridge *bridge, const char *name, const pk_call_opts *opts,
                     const void **ret_reply)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) name;
    return pk_loop_run_until(bridge->kit.loop,
                             helloworld_greeter_say_hello(bridge->kit.channel, &request, opts),
                             ret_reply);
}

TEST_BOTH(forward, a_unary_call_with_metadata_both_ways)
{
    struct bridge bridge;
    open_bridge(&bridge);
    pk_call *call;
    const char *const fields[] = {"x-user", "ann", "cookie", "crumb", NULL};
    pk_metadata *metadata = pk_metadata_new(pk_loop_scope(bridge.kit.loop));
    cr_assert_eq(pk_metadata_add_binary(metadata, "x-key-bin",
                                        "a\xc3"
                                        "b",
                                        3),
                 0);
    const Helloworld__HelloReply *reply = NULL;
    pk_status status = say(
        &bridge, "gate",
        PK_CALL_OPTS(.fields = fields, .metadata = metadata, .call = &call, .timeout_ms = 60000),
        (const void **) &reply);
    cr_assert_eq(status.code, PK_OK);
    cr_assert_str_eq(reply->message, "Hello, gate");
    cr_assert_str_eq(seen.header, "ann");
    cr_assert_str_eq(seen.binary, "a\xc3"
                                  "b");
    cr_assert_str_eq(seen.cookie, "crumb", "it is a browser's only over gRPC-Web");
    cr_assert(seen.time_left <= 60000000000u && seen.time_left > 50000000000u);
    cr_assert(says(pk_metadata_get(pk_call_metadata(call), "x-first"), "head"));
    const pk_metadata *trailers = pk_call_received_trailers(call);
    pk_metadata_place place = PK_METADATA_START;
    pk_slice value;
    cr_assert(pk_metadata_next(trailers, "x-last-bin", &place, NULL, &value));
    cr_assert(value.length == 3 && memcmp(value.bytes, "\0\1\2", 3) == 0);
    cr_assert(pk_metadata_next(trailers, "x-last-bin", &place, NULL, &value));
    cr_assert(value.length == 1 && value.bytes[0] == 0xff);
    cr_assert(!pk_metadata_next(trailers, "x-last-bin", &place, NULL, &value));
    cr_assert_eq(bridge.tally.received_messages, 1);
    cr_assert_eq(bridge.tally.sent_messages, 1);
    cr_assert_eq(bridge.tally.code, PK_OK);
    pk_call_unref(call);
    close_bridge(&bridge);
}

TEST_BOTH(forward, a_failure_keeps_its_text_its_details_and_its_trailers)
{
    struct bridge bridge;
    open_bridge(&bridge);
    pk_call *call;
    pk_status status = say(&bridge, "fail", PK_CALL_OPTS(.call = &call), NULL);
    cr_assert_eq(status.code, PK_NOT_FOUND);
    cr_assert(says(status.message, "no such na\xc3\xafve name"));
    cr_assert(says(status.details, "\x08\x05\x12\x01x"));
    cr_assert(says(pk_metadata_get(pk_call_received_trailers(call), "x-first"), "head"),
              "a status alone has the headers beside it");
    cr_assert_eq(bridge.tally.code, PK_NOT_FOUND);
    pk_call_unref(call);
    close_bridge(&bridge);
}

TEST_BOTH(forward, a_deadline_holds_on_both_sides)
{
    struct bridge bridge;
    open_bridge(&bridge);
    cr_assert_eq(say(&bridge, "wait", PK_CALL_OPTS(.timeout_ms = 50), NULL).code,
                 PK_DEADLINE_EXCEEDED);
    WAIT_UNTIL(&bridge.kit, seen.ended == 2);
    cr_assert(seen.time_left <= 50000000u);
    /* The gateway's own limit is told the upstream as well. */
    bridge.rules.timeout_ms = 30;
    cr_assert_eq(say(&bridge, "wait", NULL, NULL).code, PK_DEADLINE_EXCEEDED);
    WAIT_UNTIL(&bridge.kit, seen.ended == 4);
    cr_assert(seen.time_left <= 30000000u);
    close_bridge(&bridge);
}

TEST_BOTH(forward, a_caller_that_goes_away_cancels_the_call_behind)
{
    struct bridge bridge;
    open_bridge(&bridge);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "wait";
    pk_call *call;
    pk_detach(
        helloworld_greeter_say_hello(bridge.kit.channel, &request, PK_CALL_OPTS(.call = &call)));
    WAIT_UNTIL(&bridge.kit, seen.header[0]);
    pk_call_cancel(call);
    WAIT_UNTIL(&bridge.kit, seen.ended == 2);
    cr_assert_eq(bridge.tally.code, PK_CANCELLED);
    pk_call_unref(call);
    close_bridge(&bridge);
}

TEST_BOTH(forward, a_server_stream_waits_for_its_reader_and_ends_behind_its_messages)
{
    struct bridge bridge;
    open_bridge(&bridge);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "200";
    pk_reader *in = helloworld_greeter_it_keeps_replying(bridge.kit.channel, &request, NULL);
    const void *message;
    for (unsigned i = 0; i < 200; i++) {
        if (i == 1) { /* nobody reads: it all stands still */
            unsigned before;
            do {
                before = seen.sent;
                for (unsigned turn = 0; turn < 20; turn++)
                    pk_loop_run_until(bridge.kit.loop, pk_sleep(pk_loop_scope(bridge.kit.loop), 2),
                                      NULL);
            } while (seen.sent != before);
            cr_assert_lt(seen.sent, 100);
        }
        cr_assert_eq(pk_loop_run_until(bridge.kit.loop, pk_reader_read(in), &message).code, PK_OK);
        cr_assert_eq(strlen(((const Helloworld__HelloReply *) message)->message), BIG);
    }
    pk_status status = pk_loop_run_until(bridge.kit.loop, pk_reader_read(in), &message);
    cr_assert_eq(status.code, PK_ABORTED);
    cr_assert(says(status.message, "at the end"));
    pk_reader_unref(in);
    cr_assert_eq(bridge.tally.sent_messages, 200);
    cr_assert(bridge.tally.sent_bytes > 200 * BIG / 2 &&
              bridge.tally.sent_bytes <= 200 * (BIG + 4));
    close_bridge(&bridge);
}

TEST_BOTH(forward, a_client_stream_is_counted_behind)
{
    struct bridge bridge;
    open_bridge(&bridge);
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(bridge.kit.channel, &out, NULL);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = big_text;
    for (unsigned i = 0; i < 50; i++)
        cr_assert_eq(
            pk_loop_run_until(bridge.kit.loop, helloworld_hello_request_write(out, &request), NULL)
                .code,
            PK_OK);
    pk_writer_end(out);
    const Helloworld__HelloReply *message = NULL;
    cr_assert_eq(pk_loop_run_until(bridge.kit.loop, reply, (const void **) &message).code, PK_OK);
    cr_assert_str_eq(message->message, "50");
    pk_writer_unref(out);
    close_bridge(&bridge);
}

TEST_BOTH(forward, two_sides_talk_in_turn_and_the_head_comes_first)
{
    struct bridge bridge;
    open_bridge(&bridge);
    pk_writer *out;
    pk_call *call;
    pk_reader *in =
        helloworld_greeter_stream_hellos(bridge.kit.channel, &out, PK_CALL_OPTS(.call = &call));
    const void *message = NULL;
    cr_assert_eq(pk_loop_run_until(bridge.kit.loop, pk_call_received_head(call), &message).code,
                 PK_OK);
    cr_assert(says(pk_metadata_get(message, "x-first"), "head"));
    for (unsigned i = 0; i < 5; i++) {
        char text[8] = {(char) ('a' + i)};
        Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
        request.name = text;
        cr_assert_eq(
            pk_loop_run_until(bridge.kit.loop, helloworld_hello_request_write(out, &request), NULL)
                .code,
            PK_OK);
        cr_assert_eq(pk_loop_run_until(bridge.kit.loop, pk_reader_read(in), &message).code, PK_OK);
        cr_assert_str_eq(((const Helloworld__HelloReply *) message)->message, text);
    }
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(bridge.kit.loop, pk_reader_read(in), &message).code, PK_OK);
    cr_assert_null(message);
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_call_unref(call);
    close_bridge(&bridge);
}

TEST_BOTH(forward, compressed_messages_stay_as_they_are)
{
    struct bridge bridge;
    open_bridge(&bridge);
    char name[3000];
    memset(name, 'y', sizeof name);
    name[sizeof name - 1] = '\0';
    const void *reply;
    pk_call *call;
    pk_status status =
        say(&bridge, name, PK_CALL_OPTS(.compression = "gzip", .call = &call), &reply);
    cr_assert_eq(status.code, PK_OK);
    cr_assert(pk_call_request_compressed(call), "the reply came compressed");
    cr_assert_lt(bridge.tally.received_bytes, 1000);
    cr_assert_lt(bridge.tally.sent_bytes, 1000);
    pk_call_unref(call);
    close_bridge(&bridge);
}

/* ---- Pages ---- */

/* The exchange of a page's call, until it is answered. */
static pk_test_exchange *ask_as_page(struct bridge *bridge, const char *type, const void *body,
                                     size_t length, const char *const *fields)
{
    pk_test_exchange *exchange = pk_test_exchange_new(
        pk_server_router(bridge->kit.server),
        &(pk_test_request){
            .path = "/helloworld.Greeter/SayHello", .content_type = type, .fields = fields});
    cr_assert_not_null(exchange);
    pk_test_exchange_send(exchange, body, length);
    pk_test_exchange_end(exchange);
    WAIT_UNTIL(&bridge->kit, pk_test_exchange_finished(exchange));
    return exchange;
}

TEST_BOTH(forward, a_page_gets_plain_messages_and_its_browsers_fields_stay_here)
{
    static const char long_name[] = "\0\0\0\x08\x03\x0a\x80\x10";
    struct bridge bridge;
    open_bridge(&bridge);
    char body[8 + 2048];
    memcpy(body, long_name, 8);
    memset(body + 8, 'z', 2048);
    const char *const fields[] = {"x-user", "bob", "cookie",          "crumb", "origin", "null",
                                  "sec-ch", "x",   "accept-encoding", "gzip",  NULL};
    pk_test_exchange *exchange =
        ask_as_page(&bridge, "application/grpc-web+proto", body, sizeof body, fields);
    pk_slice answer = pk_test_exchange_body(exchange);
    cr_assert_eq(pk_test_exchange_http_status(exchange), 200);
    cr_assert_eq(answer.bytes[0], 0, "not compressed");
    cr_assert_gt(answer.length, 2048);
    cr_assert_str_eq(seen.header, "bob");
    cr_assert_str_eq(seen.cookie, "-");
    cr_assert_str_eq(pk_test_exchange_field(exchange, "access-control-expose-headers"), "x-first");
    pk_test_exchange_free(exchange);
    close_bridge(&bridge);
}

TEST_BOTH(forward, a_status_alone_is_told_once)
{
    struct bridge bridge;
    open_bridge(&bridge);
    pk_test_exchange *exchange = ask_as_page(&bridge, "application/grpc-web",
                                             "\0\0\0\0\x06\x0a\x04"
                                             "fail",
                                             11, NULL);
    cr_assert_str_eq(pk_test_exchange_field(exchange, "grpc-status"), "5");
    cr_assert_str_eq(pk_test_exchange_field(exchange, "grpc-message"), "no such na%C3%AFve name");
    cr_assert_not_null(pk_test_exchange_field(exchange, "grpc-status-details-bin"));
    cr_assert_eq(pk_test_exchange_body(exchange).length, 0);
    pk_test_exchange_free(exchange);
    close_bridge(&bridge);
}

/* ---- Runs of messages ---- */

static const uint8_t many_frames[] = "\0\0\0\0\1a\0\0\0\0\0\0\0\0\0\2bc\1\0\0\0\3zip\0\0\0\0\1d";
#define PLAIN_LENGTH 18u /* of those before the compressed one */

static pk_future count_request(const void *message, void *arg)
{
    seen.read++;
    return pk_done(NULL);
}

static pk_future reply_frames(const void *unused, void *out)
{
    static const pk_raw_frames parts[] = {
        {{many_frames, PLAIN_LENGTH}, 3, false, NULL},
        {{many_frames + PLAIN_LENGTH, 8}, 1, true, NULL},
        {{many_frames + PLAIN_LENGTH + 8, 6}, 1, false, NULL},
    };
    for (unsigned i = 0; i < 3; i++)
        pk_detach(pk_writer_write_frames(out, &parts[i]));
    return pk_done(NULL);
}

/* Reads all, and answers with some that are compressed, whether that was asked for or not. */
static pk_future answer_mixed(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    const pk_encodings zstd = {.message = PK_SLICE("zstd")};
    cr_assert_eq(pk_call_set_encodings(call, &zstd), 0);
    return pk_then(pk_reader_each(in, count_request, NULL), reply_frames, out);
}

TEST_BOTH(forward, messages_before_one_that_nobody_asked_to_be_compressed_arrive)
{
    static const char *const asks[] = {"grpc-accept-encoding", "zstd", NULL};
    static const char *const types[] = {"application/grpc", "application/grpc-web",
                                        "application/grpc-web-text"};
    for (unsigned i = 0; i < 6; i++) {
        struct bridge bridge;
        bool asked = i >= 3;
        uint8_t requests[100], answer[200];
        size_t length = 12;
        memcpy(requests, "\0\0\0\0\1x\0\0\0\0\1y", length);
        if (i % 3 == 2)
            length =
                pk_base64_encode(requests, (const uint8_t *) "\0\0\0\0\1x\0\0\0\0\1y", 12, true);
        open_bridge(&bridge);
        pk_router_set_raw(pk_server_router(bridge.back.server), answer_mixed, NULL);
        pk_test_exchange *exchange = pk_test_exchange_new(
            pk_server_router(bridge.kit.server), &(pk_test_request){.path = "/any.Service/Any",
                                                                    .content_type = types[i % 3],
                                                                    .fields = asked ? asks : NULL});
        cr_assert_not_null(exchange);
        pk_test_exchange_send(exchange, requests, length);
        pk_test_exchange_end(exchange);
        WAIT_UNTIL(&bridge.kit, pk_test_exchange_finished(exchange));
        pk_slice came = pk_test_exchange_body(exchange);
        size_t decoded = came.length, expected = asked ? sizeof many_frames - 1 : PLAIN_LENGTH;
        memcpy(answer, came.bytes, came.length);
        if (i % 3 == 2) {
            pk_base64_stream stream = {0};
            decoded = pk_base64_stream_decode(&stream, answer, came.bytes, came.length);
        }
        cr_assert_geq(decoded, expected, "%u", i);
        cr_assert_arr_eq(answer, many_frames, expected);
        if (i % 3 == 0)
            cr_assert_str_eq(pk_test_exchange_field(exchange, "grpc-status"), asked ? "0" : "13");
        else
            cr_assert(decoded > expected && answer[expected] == 0x80, "trailers follow");
        cr_assert_eq(seen.read, 2);
        cr_assert_eq(bridge.tally.code, asked ? PK_OK : PK_INTERNAL);
        cr_assert_eq(bridge.tally.received_messages, 2);
        cr_assert_eq(bridge.tally.received_bytes, 2);
        cr_assert_eq(bridge.tally.sent_messages, asked ? 5 : 3);
        cr_assert_eq(bridge.tally.sent_bytes, asked ? 7 : 3);
        pk_test_exchange_free(exchange);
        close_bridge(&bridge);
    }
}

Test(forward, an_upstream_that_is_not_there_is_unavailable)
{
    struct bridge bridge;
    in_process = false;
    open_bridge(&bridge);
    pk_channel_free(bridge.back.channel);
    cr_assert_eq(pk_channel_new(&bridge.back.channel, bridge.kit.loop, "127.0.0.1:1", NULL), 0);
    pk_status status = say(&bridge, "gate", NULL, NULL);
    cr_assert_eq(status.code, PK_UNAVAILABLE);
    cr_assert_gt(status.message.length, 10, "it says why");
    close_bridge(&bridge);
}
