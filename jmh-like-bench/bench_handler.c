/*
 * pekoe.HandlerBenchmark: a generated handler at the exchange boundary, as pekko-grpc's handler
 * benchmarks measure theirs: no socket, no HTTP/2, all of route, negotiate, decode, call, encode,
 * and the response's bytes read.
 *
 * Strict: the request's body is one chunk, its end follows. Non-strict: the body comes in chunks of
 * half a message and a byte, so that each message is cut once or twice and has to be put together.
 */
#include <pekoe/pekoe.h>

#include "core/exchange.h"
#include "core/loop.h"
#include "handlers/router.h"
#include "helloworld.pekoe.h"
#include "jmh-like-bench/handler_exchange.h"
#include "jmh-like-bench/harness.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGES 10u /* of a stream; the model's stream lengths are not told */

/* ---- The service ---- */

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

/* Client streaming: as many requests as come, one reply. */
struct gathering {
    pk_call *call;
    pk_reader *in;
    size_t length; /* of the longest name */
    unsigned count;
};

static pk_future gather(const void *request, void *arg)
{
    struct gathering *gathering = arg;
    if (request) {
        size_t length = strlen(((const Helloworld__HelloRequest *) request)->name);
        gathering->length = length > gathering->length ? length : gathering->length;
        gathering->count++;
        return pk_then(pk_reader_read(gathering->in), gather, gathering);
    }
    if (gathering->count != MESSAGES)
        return pk_failed(gathering->call, PK_DATA_LOSS, "%u requests came", gathering->count);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(gathering->call);
    /* A reply that is worth compressing where the requests are. */
    static const char crowd[] = "Alice and Alice and Alice and Alice and Alice and Alice and Alice "
                                "and Alice and Alice and Alice and Alice and Alice and Alice";
    reply->message = pk_call_printf(gathering->call, "Hello, %.*s", (int) gathering->length, crowd);
    return helloworld_hello_reply_done(reply);
}

static pk_future it_keeps_talking(void *self, pk_call *call, pk_reader *in)
{
    struct gathering *gathering = pk_call_new(call, struct gathering, .call = call, .in = in);
    return pk_then(pk_reader_read(in), gather, gathering);
}

/* Server streaming: MESSAGES replies. */
struct replying {
    pk_writer *out;
    Helloworld__HelloReply reply;
    unsigned count;
};

static pk_future reply_on(const void *unused, void *arg)
{
    struct replying *replying = arg;
    if (replying->count++ == MESSAGES)
        return pk_done(NULL);
    return pk_then(helloworld_hello_reply_write(replying->out, &replying->reply), reply_on,
                   replying);
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    struct replying *replying =
        pk_call_new(call, struct replying, .out = out, .reply = HELLOWORLD__HELLO_REPLY__INIT);
    replying->reply.message = pk_call_printf(call, "Hello, %s", request->name);
    return reply_on(NULL, replying);
}

/* Bidirectional: a reply for each request. */
struct chat {
    pk_reader *in;
    pk_writer *out;
};

static pk_future answer_one(const void *value, void *arg)
{
    struct chat *chat = arg;
    const Helloworld__HelloRequest *request = value;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = pk_reader_printf(chat->in, "Hello, %s", request->name);
    return helloworld_hello_reply_write(chat->out, &reply);
}

static pk_future stream_hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, answer_one, pk_call_new(call, struct chat, in, out));
}

static const helloworld_greeter_impl greeter = {
    .say_hello = say_hello,
    .it_keeps_talking = it_keeps_talking,
    .it_keeps_replying = it_keeps_replying,
    .stream_hellos = stream_hellos,
};

/* ---- The unary handler as it was written before there was a generated one ---- */

static pk_future call_greeter(const void *request, void *call)
{
    return say_hello(NULL, call, request);
}

static pk_future encode_reply(const void *reply, void *call)
{
    return pk_call_encode(call, &helloworld_hello_reply_type, reply);
}

static pk_future report_failure(const pk_status *status, void *call)
{
    return pk_failed_status(call, status);
}

static pk_future old_style(void *self, pk_call *call, pk_slice request)
{
    pk_future message = pk_call_decode(call, &helloworld_hello_request_type, request);
    pk_future reply = pk_then(pk_then(message, call_greeter, call), encode_reply, call);
    return pk_recover(reply, report_failure, call);
}

/* ---- Handlers without work, for calls that were not routed ---- */

static pk_future reply_constant(const void *impl, void *self, pk_call *call, const void *request,
                                pk_reader *in, pk_writer *out)
{
    return pk_done(self);
}

struct draining {
    pk_call *call;
    pk_reader *in;
    const void *reply;
    unsigned count;
};

static pk_future drain(const void *request, void *arg)
{
    struct draining *draining = arg;
    if (request) {
        draining->count++;
        return pk_then(pk_reader_read(draining->in), drain, draining);
    }
    if (draining->count != MESSAGES)
        return pk_failed(draining->call, PK_DATA_LOSS, "%u requests came", draining->count);
    return pk_done(draining->reply);
}

static pk_future drain_and_reply(const void *impl, void *self, pk_call *call, const void *request,
                                 pk_reader *in, pk_writer *out)
{
    struct draining *draining =
        pk_call_new(call, struct draining, .call = call, .in = in, .reply = self);
    return pk_then(pk_reader_read(in), drain, draining);
}

static const pk_method synthetic_unary = {
    .path = "/by.hand/SayHello",
    .path_length = sizeof "/by.hand/SayHello" - 1,
    .request = &helloworld_hello_request_type,
    .reply = &helloworld_hello_reply_type,
    .invoke = reply_constant,
    .serve = pk_serve_unary,
    .style = PK_UNARY,
};

static const pk_method synthetic_client_streaming = {
    .path = "/by.hand/SayHello",
    .path_length = sizeof "/by.hand/SayHello" - 1,
    .request = &helloworld_hello_request_type,
    .reply = &helloworld_hello_reply_type,
    .invoke = drain_and_reply,
    .serve = pk_serve_streaming,
    .style = PK_CLIENT_STREAMING,
};

/* ---- State ---- */

struct state {
    pk_loop *loop;
    pk_router *router;
    struct pk_bench_unrouted unrouted;
    Helloworld__HelloReply constant; /* what the handlers without work reply */
    struct pk_bench_exchange exchange;
};

static void *setup(pk_bench_context *context, const char *path, unsigned messages)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state || pk_loop_new(&state->loop, NULL) < 0 ||
        pk_router_new(&state->router, state->loop,
                      PK_ROUTER_OPTS(.grpc_web = true, .compress_all = true)) < 0 ||
        helloworld_greeter_route(state->router, &greeter, NULL) < 0) {
        pk_bench_fail(context, "the router cannot be made");
        return NULL;
    }
    pk_bench_exchange_init(&state->exchange, context, state->router, path, messages);
    return state;
}

static void teardown(void *arg)
{
    struct state *state = arg;
    pk_bench_exchange_done(&state->exchange);
    pk_router_free(state->router);
    pk_loop_free(state->loop);
    free(state);
}

static void *setup_unary(pk_bench_context *context)
{
    return setup(context, "/helloworld.Greeter/SayHello", 1);
}

/* Every path goes to the handler composed by hand. */
static void *setup_old_style(pk_bench_context *context)
{
    struct state *state = setup(context, "/by.hand/SayHello", 1);
    if (state)
        pk_router_set_generic(state->router, old_style, NULL);
    return state;
}

/* Past the router: to the generated handler, or to one without work. */
static struct state *setup_unrouted(pk_bench_context *context, const pk_method *method,
                                    unsigned messages)
{
    static char once[] = "Hello, Alice";
    static char often[] =
        "Hello, Alice and Alice and Alice and Alice and Alice and Alice and Alice "
        "and Alice and Alice and Alice and Alice and Alice and Alice and Alice";
    struct state *state = setup(context, "/helloworld.Greeter/SayHello", messages);
    if (!state)
        return NULL;
    bool compressed = strcmp(pk_bench_value(context, "codec"), "gzip") == 0;
    state->constant = (Helloworld__HelloReply) HELLOWORLD__HELLO_REPLY__INIT;
    state->constant.message = compressed ? often : once;
    state->unrouted = (struct pk_bench_unrouted){
        .router = state->router, .method = method, .impl = &greeter, .self = &state->constant};
    pk_bench_exchange_unroute(&state->exchange, &state->unrouted);
    return state;
}

static void *setup_synthetic_unary(pk_bench_context *context)
{
    return setup_unrouted(context, &synthetic_unary, 1);
}

static void *setup_synthetic_client_streaming(pk_bench_context *context)
{
    return setup_unrouted(context, &synthetic_client_streaming, MESSAGES);
}

static void *setup_handle_unary(pk_bench_context *context)
{
    return setup_unrouted(context, &helloworld_greeter_service.methods[0], 1);
}

static void *setup_server_streaming(pk_bench_context *context)
{
    return setup(context, "/helloworld.Greeter/ItKeepsReplying", 1);
}

static void *setup_client_streaming(pk_bench_context *context)
{
    return setup(context, "/helloworld.Greeter/ItKeepsTalking", MESSAGES);
}

static void *setup_bidi_streaming(pk_bench_context *context)
{
    return setup(context, "/helloworld.Greeter/StreamHellos", MESSAGES);
}

static void before_iteration(void *arg)
{
    struct state *state = arg;
    state->exchange.responses = 0;
    state->exchange.trailers_read = 0;
}

static void run_strict(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++)
        pk_bench_exchange_strict(&state->exchange);
}

static void run_nonstrict(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++)
        pk_bench_exchange_nonstrict(&state->exchange);
}

/* Every invocation got a whole response, and the last one says what it should. */
static void check(pk_bench_context *context, void *arg, uint64_t invocations, unsigned messages)
{
    struct state *state = arg;
    PK_BENCH_EXPECT(context, state->exchange.responses == invocations);
    pk_bench_exchange_expect(&state->exchange, context, messages, "Hello, Alice");
}

static void check_one(pk_bench_context *context, void *arg, uint64_t invocations)
{
    check(context, arg, invocations, 1);
}

static void check_many(pk_bench_context *context, void *arg, uint64_t invocations)
{
    check(context, arg, invocations, MESSAGES);
}

static const pk_bench_param params[] = {
    {"protocol", PK_BENCH_VALUES("grpc", "grpc-web", "grpc-web-text")},
    {"codec", PK_BENCH_VALUES("identity", "gzip")},
    {NULL, NULL},
};

/* The two rows of one style: the request's body in one chunk, and in chunks that cut messages. */
#define STYLE(method, setup_style, check_style, what)                                    \
    {.name = "pekoe.HandlerBenchmark." method "StrictRequestProcessing",                 \
     .operation = what ", the request's body in one chunk",                              \
     .params = params,                                                                   \
     .setup = setup_style,                                                               \
     .teardown = teardown,                                                               \
     .before_iteration = before_iteration,                                               \
     .run = run_strict,                                                                  \
     .check = check_style},                                                              \
    {                                                                                    \
        .name = "pekoe.HandlerBenchmark." method "NonstrictRequestProcessing",           \
        .operation = what ", the request's body in chunks of half a message and a byte", \
        .params = params, .setup = setup_style, .teardown = teardown,                    \
        .before_iteration = before_iteration, .run = run_nonstrict, .check = check_style \
    }

static const pk_benchmark benchmarks[] = {
    STYLE("generatedUnary", setup_unary, check_one,
          "one SayHello: route, negotiate, decode, call (its future is done), encode, read the "
          "response"),
    STYLE("generatedServerStreaming", setup_server_streaming, check_many,
          "one request, 10 replies, each read"),
    STYLE("generatedClientStreaming", setup_client_streaming, check_one, "10 requests, one reply"),
    STYLE("generatedBidiStreaming", setup_bidi_streaming, check_many,
          "10 requests, a reply to each as it comes"),
    STYLE("oldStyleUnary", setup_old_style, check_one,
          "one SayHello through a handler composed by hand of decode, then, encode, recover, with "
          "the public API alone"),
    STYLE(
        "syntheticUnary", setup_synthetic_unary, check_one,
        "one call without routing, negotiation and work of the handler: decode, a constant reply, "
        "encode, read the response"),
    STYLE("syntheticClientStreaming", setup_synthetic_client_streaming, check_one,
          "10 requests read by a handler that counts them, a constant reply; without "
          "routing and negotiation"),
    {
        .name = "pekoe.GrpcMarshallingBenchmark.handleUnaryStrict",
        .operation = "decode, call SayHello (its future is done), encode, read the response; "
                     "without routing and negotiation",
        .params = params,
        .setup = setup_handle_unary,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_strict,
        .check = check_one,
    },
};

PK_BENCHMARKS(benchmarks)
