/*
 * Unary calls through the router and the in-process exchange: what the wire must look like, row by
 * row, and how calls end. Statuses are those of the gRPC specification and the design's section 5.
 */
#include <pekoe/pekoe.h>
#include <pekoe/testing.h>

#include "core/loop.h"
#include "helloworld.pekoe.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

/* ---- The service under test: steered by the name ---- */

static struct {
    unsigned calls;         /* handlers that were asked */
    unsigned ended;         /* pk_call_on_end functions that ran */
    unsigned cancelled;     /* steps hung on pk_call_cancelled that ran */
    unsigned recovered;     /* recoveries that ran */
    pk_code recovered_code; /* of the last one */
    pk_promise *promise;    /* of a call whose name is "wait" */
    uint64_t time_left;
    pk_call *other; /* "hold" keeps its call here, "end other" cancels it */
} seen;

static void count_end(void *arg)
{
    seen.ended++;
}

static pk_future count_cancelled(const void *value, void *arg)
{
    seen.cancelled++;
    return pk_done(NULL);
}

static pk_future note_failure(const pk_status *status, void *arg)
{
    seen.recovered++;
    seen.recovered_code = status->code;
    return pk_failed_with(status);
}

static pk_future greet(pk_call *call, const char *name)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", name);
    return helloworld_hello_reply_done(reply);
}

/* Freed by protobuf-c, and still there. */
static pk_future unpack_in_call(pk_call *call)
{
    ProtobufCAllocator *allocator = pk_call_allocator(call);
    Helloworld__HelloRequest *request =
        helloworld__hello_request__unpack(allocator, 4, (const uint8_t *) "\x0a\2me");
    cr_assert_not_null(request);
    helloworld__hello_request__free_unpacked(request, allocator);
    return greet(call, request->name);
}

static pk_future greet_later(const void *value, void *arg)
{
    return greet(arg, "later");
}

static pk_future wait_for_promise(pk_call *call)
{
    seen.promise = pk_promise_new(pk_call_scope(call));
    for (unsigned i = 0; i < 2; i++)
        pk_detach(pk_then(pk_call_cancelled(call), count_cancelled, NULL));
    pk_future future = pk_then(pk_promise_future(seen.promise), greet_later, call);
    return pk_recover(future, note_failure, NULL);
}

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    seen.calls++;
    seen.time_left = pk_call_time_left(call);
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    cr_assert_str_eq(pk_call_method(call), "/helloworld.Greeter/SayHello");
    if (strcmp(request->name, "nothing") == 0)
        return pk_done(NULL);
    if (strcmp(request->name, "fail") == 0)
        return pk_failed(call, PK_ABORTED, "no luck: 100%% \xc3\xa9\n");
    if (strcmp(request->name, "wait") == 0)
        return wait_for_promise(call);
    if (strcmp(request->name, "hold") == 0) {
        seen.other = call;
        return wait_for_promise(call);
    }
    if (strcmp(request->name, "end other") == 0) {
        pk_call_cancel(seen.other);
        return greet(call, "other");
    }
    if (strcmp(request->name, "cancel self") == 0) {
        pk_call_cancel(call);
        return greet(call, "nobody");
    }
    if (strcmp(request->name, "allocator") == 0)
        return unpack_in_call(call);
    if (strcmp(request->name, "metadata") == 0) {
        cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-head", "one"), 0);
        cr_assert_eq(pk_metadata_add_binary(pk_call_trailers(call), "x-tail-bin", "\x00\xff", 2),
                     0);
        cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-bad", "two\nlines"), PK_ERR_INVALID);
        cr_assert_eq(pk_metadata_add(pk_call_headers(call), "grpc-status", "0"), PK_ERR_INVALID);
    }
    return greet(call, request->name);
}

static const helloworld_greeter_impl greeter = {.say_hello = say_hello};

/* ---- A router, and one call of it ---- */

static pk_loop *loop;
static pk_router *router;

static void set_up(void)
{
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    cr_assert_eq(helloworld_greeter_route(router, &greeter, NULL), 0);
}

/* Nothing may be left: every call, buffer and promise is back. */
static void tear_down(void)
{
    router = pk_router_free(router);
    cr_assert_eq(loop->buffers.lent, 0);
    loop = pk_loop_free(loop);
}

TestSuite(unary, .init = set_up, .fini = tear_down);

static size_t frame(uint8_t *out, const char *name)
{
    size_t length = strlen(name);
    size_t message = length ? length + 2 : 0;
    memcpy(out, (uint8_t[]){0, 0, 0, 0, (uint8_t) message, 0x0a, (uint8_t) length}, 7);
    memcpy(out + 7, name, length);
    return 5 + message;
}

static pk_test_exchange *begin(const char *const *fields)
{
    pk_test_exchange *exchange =
        pk_test_exchange_new(router, &(pk_test_request){.path = "/helloworld.Greeter/SayHello",
                                                        .content_type = "application/grpc",
                                                        .fields = fields});
    cr_assert_not_null(exchange);
    return exchange;
}

static pk_test_exchange *call(const char *name, const char *const *fields)
{
    uint8_t bytes[256];
    pk_test_exchange *exchange = begin(fields);
    pk_test_exchange_send(exchange, bytes, frame(bytes, name));
    pk_test_exchange_end(exchange);
    return exchange;
}

static void expect_status(pk_test_exchange *exchange, const char *status, const char *message)
{
    cr_assert_eq(pk_test_exchange_http_status(exchange), 200);
    cr_assert(pk_test_exchange_finished(exchange));
    cr_assert_str_eq(pk_test_exchange_field(exchange, "grpc-status"), status);
    const char *text = pk_test_exchange_field(exchange, "grpc-message");
    if (message)
        cr_assert(text && strstr(text, message), "\"%s\" has no \"%s\"", text, message);
}

static void expect_hello(pk_test_exchange *exchange, const char *text)
{
    expect_status(exchange, "0", NULL);
    pk_slice body = pk_test_exchange_body(exchange);
    size_t length = strlen(text);
    cr_assert_eq(body.length, 7 + length);
    cr_assert_eq(body.bytes[0], 0);
    cr_assert_eq(body.bytes[4], length + 2);
    cr_assert_eq(memcmp(body.bytes + 7, text, length), 0);
}

/* ---- Requests that are answered ---- */

Test(unary, a_request_is_answered_wherever_it_is_cut)
{
    uint8_t bytes[64];
    size_t length = frame(bytes, "world");
    for (size_t cut = 0; cut <= length; cut++) {
        pk_test_exchange *exchange = begin(NULL);
        pk_test_exchange_send(exchange, bytes, cut);
        pk_test_exchange_send(exchange, bytes + cut, length - cut);
        cr_assert_eq(pk_test_exchange_http_status(exchange), 0, "answered before the end");
        pk_test_exchange_end(exchange);
        expect_hello(exchange, "Hello, world");
        cr_assert_eq(pk_test_exchange_consumed(exchange), length);
        pk_test_exchange_free(exchange);
    }
    pk_test_exchange *exchange = begin(NULL);
    for (size_t i = 0; i < length; i++)
        pk_test_exchange_send(exchange, bytes + i, 1);
    pk_test_exchange_end(exchange);
    expect_hello(exchange, "Hello, world");
    pk_test_exchange_free(exchange);
    cr_assert_eq(seen.ended, seen.calls);
}

Test(unary, what_the_head_says_decides)
{
    static const struct {
        const char *method, *type, *path;
        unsigned http_status;
        const char *status; /* NULL: the reply has none */
        const char *field, *value;
    } rows[] = {
        {"POST", "application/grpc", "/helloworld.Greeter/SayHello", 200, "0", NULL, NULL},
        {"POST", "application/grpc+proto", "/helloworld.Greeter/SayHello", 200, "0", "content-type",
         "application/grpc+proto"},
        {"POST", "application/grpc; charset=utf-8", "/helloworld.Greeter/SayHello", 200, "0", NULL,
         NULL},
        {"POST", "APPLICATION/GRPC", "/helloworld.Greeter/SayHello", 200, "0", NULL, NULL},
        {"POST", "application/grpc+proto;a=b", "/helloworld.Greeter/SayHello", 200, "0", NULL,
         NULL},
        {"POST", "application/grpcfoo", "/helloworld.Greeter/SayHello", 415, NULL, NULL, NULL},
        {"POST", "application/grpc-web", "/helloworld.Greeter/SayHello", 415, NULL, NULL, NULL},
        {"POST", "application/json", "/helloworld.Greeter/SayHello", 415, NULL, NULL, NULL},
        {"POST", "text/plain", "/helloworld.Greeter/SayHello", 415, NULL, NULL, NULL},
        {"POST", NULL, "/helloworld.Greeter/SayHello", 415, NULL, NULL, NULL},
        {"GET", "application/grpc", "/helloworld.Greeter/SayHello", 405, NULL, "allow", "POST"},
        {"PUT", "text/plain", "/nowhere", 405, NULL, "allow", "POST"},
        {"POST", "text/plain", "/nowhere", 415, NULL, NULL, NULL},
        {"POST", "application/grpc", "/helloworld.Greeter/sayhello", 200, "12", NULL, NULL},
        {"POST", "application/grpc", "/helloworld.Greeter/SayHello/", 200, "12", NULL, NULL},
        {"POST", "application/grpc", "/helloworld.Greeter", 200, "12", NULL, NULL},
        {"POST", "application/grpc", "/other.Service/SayHello", 200, "12", NULL, NULL},
        {"POST", "application/grpc", "", 200, "12", NULL, NULL},
    };
    uint8_t bytes[64];
    size_t length = frame(bytes, "x");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pk_test_exchange *exchange =
            pk_test_exchange_new(router, &(pk_test_request){.path = rows[i].path,
                                                            .method = rows[i].method,
                                                            .content_type = rows[i].type});
        pk_test_exchange_send(exchange, bytes, length);
        pk_test_exchange_end(exchange);
        cr_assert_eq(pk_test_exchange_http_status(exchange), rows[i].http_status, "row %zu", i);
        cr_assert(pk_test_exchange_finished(exchange), "row %zu", i);
        const char *status = pk_test_exchange_field(exchange, "grpc-status");
        cr_assert_eq(status == NULL, rows[i].status == NULL, "row %zu", i);
        if (status)
            cr_assert_str_eq(status, rows[i].status, "row %zu", i);
        if (rows[i].field)
            cr_assert_str_eq(pk_test_exchange_field(exchange, rows[i].field), rows[i].value);
        pk_test_exchange_free(exchange);
    }
}

Test(unary, a_body_that_is_not_one_message_is_refused)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *status, *message;
    } rows[] = {
        {"", 0, "12", NULL},
        {"\0\0\0\0\0\0\0\0\0\0", 10, "12", NULL},
        {"\0\0\0\0\0", 5, "0", NULL},
        {"\1\0\0\0\0", 5, "13", NULL},
        {"\2\0\0\0\0", 5, "13", NULL},
        {"\x80\0\0\0\0", 5, "13", NULL},
        {"\0\0\0\0", 4, "13", NULL},
        {"\0\0\0\0\3\x0a", 6, "13", NULL},
        {"\0\0\0\0\2\x0a\5", 7, "13", NULL},
        {"\0\0\0\0\3\x0a\1\xff", 8, "13", NULL},
        {"\0\xff\xff\xff\xff", 5, "8", "4294967295"},
        {"\0\0\x40\0\1", 5, "8", "4194304"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pk_test_exchange *exchange = begin(NULL);
        pk_test_exchange_send(exchange, rows[i].bytes, rows[i].length);
        pk_test_exchange_end(exchange);
        cr_assert_str_eq(pk_test_exchange_field(exchange, "grpc-status"), rows[i].status, "row %zu",
                         i);
        expect_status(exchange, rows[i].status, rows[i].message);
        pk_test_exchange_free(exchange);
    }
}

Test(unary, timeouts_are_read_as_the_specification_says)
{
    static const struct {
        const char *value;
        bool right;
        uint64_t nanoseconds;
    } rows[] = {
        {"1H", true, 3600000000000},
        {"1M", true, 60000000000},
        {"1S", true, 1000000000},
        {"500m", true, 500000000},
        {"99999999H", true, UINT64_MAX},
        {"", false, 0},
        {"S", false, 0},
        {"10", false, 0},
        {"-5m", false, 0},
        {" 1S", false, 0},
        {"1.5S", false, 0},
        {"1s", false, 0},
        {"100000000m", false, 0},
        {"1S ", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        seen.time_left = 0;
        pk_test_exchange *exchange =
            call("x", (const char *const[]){"grpc-timeout", rows[i].value, NULL});
        if (rows[i].right) {
            expect_hello(exchange, "Hello, x");
            if (rows[i].nanoseconds < UINT64_MAX)
                cr_assert_leq(seen.time_left, rows[i].nanoseconds, "row %zu", i);
            cr_assert_gt(seen.time_left, rows[i].nanoseconds / 2, "row %zu", i);
        } else {
            expect_status(exchange, "13", rows[i].value[0] ? rows[i].value : "grpc-timeout");
        }
        pk_test_exchange_free(exchange);
    }
}

Test(unary, an_unknown_encoding_names_those_that_are_known)
{
    for (int flag = 0; flag < 2; flag++) {
        pk_test_exchange *exchange = begin((const char *const[]){"grpc-encoding", "foo", NULL});
        pk_test_exchange_send(exchange, flag ? "\1\0\0\0\0" : "\0\0\0\0\0", 5);
        pk_test_exchange_end(exchange);
        expect_status(exchange, "12", "foo");
        const char *known = pk_test_exchange_field(exchange, "grpc-accept-encoding");
        cr_assert(known && strstr(known, "gzip") && !strstr(known, "foo"));
        pk_test_exchange_free(exchange);
    }
}

Test(unary, a_failure_travels_percent_encoded_without_a_body)
{
    pk_test_exchange *exchange = call("fail", NULL);
    expect_status(exchange, "10", "no luck: 100%25 %C3%A9%0A");
    cr_assert_eq(pk_test_exchange_body(exchange).length, 0);
    pk_test_exchange_free(exchange);
    exchange = call("nothing", NULL);
    expect_status(exchange, "13", NULL);
    pk_test_exchange_free(exchange);
}

Test(unary, metadata_goes_both_ways_and_bad_keys_are_refused)
{
    pk_test_exchange *exchange = call("metadata", NULL);
    expect_hello(exchange, "Hello, metadata");
    cr_assert_str_eq(pk_test_exchange_field(exchange, "x-head"), "one");
    cr_assert_str_eq(pk_test_exchange_field(exchange, "x-tail-bin"), "AP8");
    pk_test_exchange_free(exchange);
}

/* ---- Ends ---- */

Test(unary, protobuf_c_may_unpack_into_the_call_and_free_nothing)
{
    pk_test_exchange *exchange = call("allocator", NULL);
    expect_hello(exchange, "Hello, me");
    pk_test_exchange_free(exchange);
}

Test(unary, a_pending_future_is_answered_later)
{
    pk_test_exchange *exchange = call("wait", NULL);
    cr_assert_eq(pk_test_exchange_http_status(exchange), 0);
    cr_assert_eq(seen.ended, 0);
    cr_assert_eq(pk_promise_done(seen.promise, NULL), 0);
    pk_loop_end_turn(loop);
    expect_hello(exchange, "Hello, later");
    cr_assert_eq(seen.ended, 1);
    cr_assert_eq(seen.cancelled, 0);
    pk_test_exchange_free(exchange);
}

Test(unary, a_call_that_the_client_cancels_runs_its_clean_up_once)
{
    pk_test_exchange *exchange = call("wait", NULL);
    pk_test_exchange_cancel(exchange);
    cr_assert_eq(seen.cancelled, 2);
    cr_assert_eq(seen.recovered, 1);
    cr_assert_eq(seen.recovered_code, PK_CANCELLED);
    cr_assert_eq(seen.ended, 1);
    pk_test_exchange_free(exchange);
    /* The producer comes when the call and its arena are gone. */
    cr_assert_eq(pk_promise_done(seen.promise, NULL), PK_ERR_TOO_LATE);
}

Test(unary, a_deadline_ends_a_pending_call_with_4)
{
    pk_test_exchange *exchange = call("wait", (const char *const[]){"grpc-timeout", "20m", NULL});
    uint64_t begun = pk_loop_now(loop);
    while (!pk_test_exchange_finished(exchange))
        pk_loop_turn(loop);
    cr_assert_geq(pk_loop_now(loop) - begun, 19000000);
    expect_status(exchange, "4", NULL);
    cr_assert_eq(seen.recovered_code, PK_DEADLINE_EXCEEDED);
    cr_assert_eq(seen.cancelled, 2);
    cr_assert_eq(seen.ended, 1);
    cr_assert_eq(pk_promise_done(seen.promise, NULL), PK_ERR_TOO_LATE);
    pk_test_exchange_free(exchange);
}

Test(unary, a_handler_may_cancel_its_own_call_and_another)
{
    pk_test_exchange *held = call("hold", NULL);
    pk_test_exchange *exchange = call("end other", NULL);
    expect_hello(exchange, "Hello, other");
    expect_status(held, "1", NULL);
    cr_assert_eq(pk_promise_done(seen.promise, NULL), PK_ERR_TOO_LATE);
    pk_test_exchange_free(held);
    pk_test_exchange_free(exchange);
    exchange = call("cancel self", NULL);
    expect_status(exchange, "1", NULL);
    pk_test_exchange_free(exchange);
    cr_assert_eq(seen.ended, 3);
}

Test(unary, a_request_cancelled_half_way_leaves_nothing)
{
    uint8_t bytes[64];
    size_t length = frame(bytes, "world");
    for (size_t cut = 0; cut < length; cut++) {
        pk_test_exchange *exchange = begin((const char *const[]){"grpc-timeout", "10S", NULL});
        pk_test_exchange_send(exchange, bytes, cut);
        pk_test_exchange_cancel(exchange);
        pk_test_exchange_free(exchange);
    }
    cr_assert_eq(seen.calls, 0);
    cr_assert_eq(loop->timer_count, 0);
}

/* ---- Composition ---- */

static pk_future echo_bytes(void *self, pk_call *call, pk_slice request)
{
    pk_slice *reply = pk_call_new(call, pk_slice, .bytes = request.bytes, .length = request.length);
    cr_assert_str_eq(pk_call_method(call), "/any.Service/Method");
    return pk_done(reply);
}

Test(unary, a_generic_handler_takes_what_no_service_has)
{
    pk_router_set_generic(router, echo_bytes, NULL);
    pk_test_exchange *exchange =
        pk_test_exchange_new(router, &(pk_test_request){.path = "/any.Service/Method",
                                                        .content_type = "application/grpc"});
    pk_test_exchange_send(exchange, "\0\0\0\0\3abc", 8);
    pk_test_exchange_end(exchange);
    expect_status(exchange, "0", NULL);
    pk_slice body = pk_test_exchange_body(exchange);
    cr_assert_eq(body.length, 8);
    cr_assert_eq(memcmp(body.bytes, "\0\0\0\0\3abc", 8), 0);
    pk_test_exchange_free(exchange);
    exchange = call("world", NULL);
    expect_hello(exchange, "Hello, world");
    pk_test_exchange_free(exchange);
}

static pk_future answer_as_greeter(const void *request, void *call)
{
    return say_hello(NULL, call, request);
}

static pk_future encode_reply(const void *reply, void *call)
{
    return pk_call_encode(call, &helloworld_hello_reply_type, reply);
}

static pk_future greet_by_hand(void *self, pk_call *call, pk_slice request)
{
    pk_future message = pk_call_decode(call, &helloworld_hello_request_type, request);
    return pk_then(pk_then(message, answer_as_greeter, call), encode_reply, call);
}

/* In the place of the greeter. */
static void serve_by_hand(pk_generic_handler *handler)
{
    pk_router_free(router);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    pk_router_set_generic(router, handler, NULL);
}

Test(unary, a_handler_composed_by_hand_answers_as_the_generated_one)
{
    serve_by_hand(greet_by_hand);
    static const char *const names[] = {"world", "", "metadata"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "Hello, %s", names[i]);
        pk_test_exchange *exchange = call(names[i], NULL);
        expect_hello(exchange, text);
        pk_test_exchange_free(exchange);
    }
    pk_test_exchange *exchange = call("fail", NULL);
    expect_status(exchange, "10", "no luck");
    pk_test_exchange_free(exchange);
    exchange = call("nothing", NULL);
    expect_status(exchange, "13", NULL);
    pk_test_exchange_free(exchange);
    exchange = begin(NULL);
    pk_test_exchange_send(exchange, "\0\0\0\0\2\x0a\5", 7);
    pk_test_exchange_end(exchange);
    expect_status(exchange, "13", NULL);
    pk_test_exchange_free(exchange);
}

static const pk_slice *encoded[3];

/* The reply has been handed down by then. */
static void look_at_encoded(void *arg)
{
    for (char text[] = "\x0a\x08Hello, 0"; text[9] < '3'; text[9]++)
        cr_assert_eq(memcmp(encoded[text[9] - '0']->bytes, text, 10), 0);
    seen.ended++;
}

/* The request's name says which of three encoded messages is the reply. */
static pk_future encode_three(void *self, pk_call *call, pk_slice request)
{
    for (unsigned i = 0; i < 3; i++) {
        Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
        reply.message = pk_call_printf(call, "Hello, %u", i);
        pk_future bytes = pk_call_encode(call, &helloworld_hello_reply_type, &reply);
        cr_assert_eq(bytes.state, PK_FUTURE_DONE);
        encoded[i] = bytes.pointer;
    }
    cr_assert_eq(pk_call_on_end(call, look_at_encoded, NULL), 0);
    return pk_done(encoded[request.bytes[2] - '0']);
}

Test(unary, bytes_that_were_encoded_stay_as_they_are_beside_a_reply_that_is_among_them)
{
    serve_by_hand(encode_three);
    for (unsigned i = 0; i < 3; i++) {
        char name[] = {(char) ('0' + i), '\0'}, text[] = "Hello, 0";
        text[7] = name[0];
        pk_test_exchange *exchange = call(name, NULL);
        expect_hello(exchange, text);
        pk_test_exchange_free(exchange);
    }
    cr_assert_eq(seen.ended, 3);
}

static const pk_slice *encoded_reply;

/* As long as the request says, whatever room that leaves in front of it in its buffer. */
static void look_at_encoded_reply(void *arg)
{
    const uint8_t *bytes = encoded_reply->bytes;
    for (size_t i = 3; i < encoded_reply->length; i++)
        cr_assert_eq(bytes[i], 'x');
    seen.ended++;
}

static pk_future encode_long(void *self, pk_call *call, pk_slice request)
{
    size_t length = *(const size_t *) self;
    char *text = pk_call_alloc(call, length + 1);
    memset(text, 'x', length);
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = text;
    pk_future bytes = pk_call_encode(call, &helloworld_hello_reply_type, &reply);
    cr_assert_eq(bytes.state, PK_FUTURE_DONE);
    encoded_reply = bytes.pointer;
    cr_assert_eq(pk_call_on_end(call, look_at_encoded_reply, NULL), 0);
    return bytes;
}

Test(unary, bytes_that_were_encoded_stay_where_there_is_no_room_for_the_prefix)
{
    size_t length;
    pk_router_free(router);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    pk_router_set_generic(router, encode_long, &length);
    for (length = 250; length < 1100; length++) {
        pk_test_exchange *exchange = call("", NULL);
        expect_status(exchange, "0", NULL);
        cr_assert_eq(pk_test_exchange_body(exchange).length, 5 + 3 + length);
        pk_test_exchange_free(exchange);
    }
    cr_assert_eq(seen.ended, 1100 - 250);
}

Test(unary, routers_compose_and_a_taken_path_is_refused_whole)
{
    cr_assert_eq(helloworld_greeter_route(router, &greeter, NULL), PK_ERR_EXISTS);
    pk_router *whole;
    cr_assert_eq(pk_router_new(&whole, loop, NULL), 0);
    cr_assert_eq(pk_router_concat(whole, router), 0);
    cr_assert_eq(pk_router_concat(whole, router), PK_ERR_EXISTS);
    pk_router_free(router);
    router = whole;
    pk_test_exchange *exchange = call("world", NULL);
    expect_hello(exchange, "Hello, world");
    pk_test_exchange_free(exchange);
}

static const pk_status *to_not_found(void *self, pk_call *call, const pk_status *status)
{
    static const pk_status mapped = {PK_NOT_FOUND, {(const uint8_t *) "mapped", 6}, {NULL, 0}};
    (*(unsigned *) self)++;
    return status->code == PK_ABORTED ? &mapped : status;
}

Test(unary, the_error_handler_maps_failures_of_the_application_only)
{
    unsigned asked = 0;
    pk_router_set_error_handler(router, to_not_found, &asked);
    pk_test_exchange *exchange = call("fail", NULL);
    expect_status(exchange, "5", "mapped");
    pk_test_exchange_free(exchange);
    cr_assert_eq(asked, 1);
    exchange = call("wait", NULL);
    pk_test_exchange_cancel(exchange);
    pk_test_exchange_free(exchange);
    pk_test_clock_freeze(loop);
    exchange = call("wait", (const char *const[]){"grpc-timeout", "50m", NULL});
    pk_test_clock_advance(loop, 50);
    expect_status(exchange, "4", NULL);
    pk_test_exchange_free(exchange);
    exchange = call("cancel self", NULL);
    expect_status(exchange, "1", NULL);
    pk_test_exchange_free(exchange);
    cr_assert_eq(seen.recovered, 2);
    exchange = begin(NULL);
    pk_test_exchange_end(exchange);
    expect_status(exchange, "12", NULL);
    pk_test_exchange_free(exchange);
    cr_assert_eq(asked, 1);
}
