/*
 * pekoe.HandlerBenchmark: a generated handler at the exchange boundary, as pekko-grpc's handler
 * benchmarks measure theirs: no socket, no HTTP/2, all of route, negotiate, decode, call, encode,
 * and the response's bytes read.
 *
 * Strict: the request's body is one chunk, its end follows. Non-strict: the body comes in chunks
 * that cut each message in two, so every message is gathered.
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

/* ---- The service ---- */

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

static const helloworld_greeter_impl greeter = {.say_hello = say_hello};

/* ---- State ---- */

struct state {
    pk_loop *loop;
    pk_router *router;
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

static void before_iteration(void *arg)
{
    struct state *state = arg;
    state->exchange.responses = 0;
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
static void check_unary(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    PK_BENCH_EXPECT(context, state->exchange.responses == invocations);
    pk_bench_exchange_expect(&state->exchange, context, 1, "Hello, Alice");
}

static const pk_bench_param params[] = {
    {"protocol", PK_BENCH_VALUES("grpc", "grpc-web", "grpc-web-text")},
    {"codec", PK_BENCH_VALUES("identity", "gzip")},
    {NULL, NULL},
};

#define UNARY(method, body)                                                           \
    .name = "pekoe.HandlerBenchmark." method, .params = params, .setup = setup_unary, \
    .teardown = teardown, .before_iteration = before_iteration, .run = body, .check = check_unary

static const pk_benchmark benchmarks[] = {
    {UNARY("generatedUnaryStrictRequestProcessing", run_strict),
     .operation = "one SayHello: head, one body chunk, end; route, negotiate, decode, call "
                  "(future done), encode, read the response"},
    {UNARY("generatedUnaryNonstrictRequestProcessing", run_nonstrict),
     .operation = "the same with the body in two chunks, which cut the message"},
};

PK_BENCHMARKS(benchmarks)
