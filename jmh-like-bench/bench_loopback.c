/*
 * pekoe.LoopbackBenchmark: whole calls over a TCP connection of this machine. The server is
 * peers-greeter, a process of its own that starts with the trial and ends with it; what it uses per
 * call is the secondary metric server.cpu, by its CPU clock, all threads.
 *
 * The rows with pekoe's own client measure client and server, whichever is slower; those with h2load
 * (nghttp2's load generator) a client that is not ours, the start of h2load included: its own rate,
 * without that, is h2load.rate. Where there are two processors, the server has the first for itself.
 *
 * An invocation is a batch of calls, since calls at once have a beginning and an end.
 */
#include "jmh-like-bench/child.h"
#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/peers/greeter_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN_CALLS 1000u     /* of an invocation */
#define H2LOAD_CALLS 10000u /* the same: a start of h2load is some milliseconds */

/* What the rpcs are to h2load: request bodies and the bytes of replies that go right. */
struct rpc {
    const char *path;
    const char *name; /* of a request */
    unsigned requests;
    unsigned replies;
    const char *message; /* of a reply */
    greeter_rpc *own;
};

static const struct rpc say_hello = {
    "/helloworld.Greeter/SayHello", "world", 1, 1, "Hello, world", greeter_say_hello};
static const struct rpc it_keeps_replying = {"/helloworld.Greeter/ItKeepsReplying",
                                             "small 10",
                                             1,
                                             GREETER_MESSAGES,
                                             "Hello, small 10",
                                             greeter_it_keeps_replying};
static const struct rpc it_keeps_talking = {"/helloworld.Greeter/ItKeepsTalking",
                                            "world",
                                            GREETER_MESSAGES,
                                            1,
                                            "10",
                                            greeter_it_keeps_talking};
static const struct rpc stream_hellos = {"/helloworld.Greeter/StreamHellos",
                                         "world",
                                         GREETER_MESSAGES,
                                         GREETER_MESSAGES,
                                         "Hello, world",
                                         greeter_stream_hellos};

struct state {
    const struct rpc *rpc;
    unsigned calls;    /* of an invocation */
    cpu_set_t allowed; /* processors of this thread before and after */
    struct pk_bench_child server;
    char address[64];
    uint64_t cpu_before; /* of the server, nanoseconds */
    uint64_t right;      /* calls, since before_iteration */
    /* With pekoe's client. */
    pk_loop *loop;
    pk_channel *channel;
    struct greeter_calls own;
    /* With h2load. */
    char at_once[16];
    char body[32]; /* the file's name */
    double rate;   /* of the last run */
};

/* ---- The server ---- */

/* The server gets the first processor, this thread and what it starts the others. */
static const cpu_set_t *divide_processors(struct state *state, cpu_set_t *ret_first)
{
    sched_getaffinity(0, sizeof state->allowed, &state->allowed);
    if (CPU_COUNT(&state->allowed) < 2)
        return NULL;
    size_t first = 0;
    while (!CPU_ISSET(first, &state->allowed))
        first++;
    cpu_set_t others = state->allowed;
    CPU_CLR(first, &others);
    CPU_ZERO(ret_first);
    CPU_SET(first, ret_first);
    sched_setaffinity(0, sizeof others, &others);
    return ret_first;
}

static bool start_server(struct state *state)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    size_t left = slash ? (size_t) (program + sizeof program - slash) : 0;
    if (left == 0 || snprintf(slash, left, "/peers-greeter") >= (int) left)
        return false;
    cpu_set_t first;
    const cpu_set_t *processors = divide_processors(state, &first);
    const char *const argv[] = {program, "--listen", "127.0.0.1:0", NULL};
    if (!pk_bench_child_start(&state->server, argv, processors))
        return false;
    char line[128];
    pk_bench_child_read(&state->server, true, line, sizeof line);
    if (sscanf(line, "serving on %63s", state->address) == 1)
        return true;
    pk_bench_child_stop(&state->server);
    return false;
}

static struct state *setup(pk_bench_context *context, const struct rpc *rpc, unsigned calls)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state || !start_server(state)) {
        pk_bench_fail(context, "peers-greeter cannot be started from beside this program");
        free(state);
        return NULL;
    }
    state->rpc = rpc;
    state->calls = calls;
    return state;
}

static void teardown(void *arg)
{
    struct state *state = arg;
    pk_bench_child_stop(&state->server);
    sched_setaffinity(0, sizeof state->allowed, &state->allowed);
    free(state);
}

static void before_iteration(void *arg)
{
    struct state *state = arg;
    state->right = 0;
    state->cpu_before = pk_bench_child_cpu(&state->server);
}

static void check(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    uint64_t calls = invocations * state->calls;
    uint64_t used = pk_bench_child_cpu(&state->server) - state->cpu_before;
    PK_BENCH_EXPECT(context, state->right == calls);
    pk_bench_metric_add(context, "server.cpu", "us/op", (double) used / 1e3 / (double) calls);
}

/* ---- With pekoe's client ---- */

static void teardown_own(void *arg)
{
    struct state *state = arg;
    greeter_calls_done(&state->own);
    pk_channel_free(state->channel);
    pk_loop_free(state->loop);
    teardown(state);
}

static void *setup_own(pk_bench_context *context, const struct rpc *rpc)
{
    unsigned at_once = (unsigned) pk_bench_number(context, "atOnce");
    struct state *state = setup(context, rpc, OWN_CALLS);
    if (!state)
        return NULL;
    if (at_once == 0 || pk_loop_new(&state->loop, NULL) < 0 ||
        pk_channel_new(&state->channel, state->loop, state->address, NULL) < 0 ||
        !greeter_calls_init(&state->own, state->loop, state->channel, rpc->own, at_once))
        pk_bench_fail(context, "the client cannot be made");
    return state;
}

static void run_own(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    uint64_t right = state->own.right;
    for (uint64_t i = 0; i < invocations; i++)
        greeter_calls_run(&state->own, OWN_CALLS);
    state->right += state->own.right - right;
}

static void *setup_own_unary(pk_bench_context *context)
{
    return setup_own(context, &say_hello);
}

static void *setup_own_server_streaming(pk_bench_context *context)
{
    return setup_own(context, &it_keeps_replying);
}

static void *setup_own_client_streaming(pk_bench_context *context)
{
    return setup_own(context, &it_keeps_talking);
}

static void *setup_own_bidi_streaming(pk_bench_context *context)
{
    return setup_own(context, &stream_hellos);
}

/* ---- With h2load ---- */

static bool h2load_is_here(void)
{
    struct pk_bench_child child;
    char version[256];
    const char *const argv[] = {"h2load", "--version", NULL};
    if (!pk_bench_child_start(&child, argv, NULL))
        return false;
    pk_bench_child_read(&child, false, version, sizeof version);
    return pk_bench_child_wait(&child) == 0;
}

/* Bytes of a message of one short text with its prefix. */
static size_t framed(const char *text)
{
    return 5 + 2 + strlen(text);
}

static bool write_body(struct state *state)
{
    size_t length = strlen(state->rpc->name);
    uint8_t frame[64] = {0, 0, 0, 0, (uint8_t) (length + 2), 0x0a, (uint8_t) length};
    memcpy(frame + 7, state->rpc->name, length);
    strcpy(state->body, "/tmp/pekoe-bench-XXXXXX");
    int fd = mkstemp(state->body);
    bool good = fd >= 0;
    for (unsigned i = 0; good && i < state->rpc->requests; i++)
        good = write(fd, frame, length + 7) == (ssize_t) length + 7;
    if (fd >= 0)
        close(fd);
    return good;
}

static void teardown_h2load(void *arg)
{
    struct state *state = arg;
    unlink(state->body);
    teardown(state);
}

static void *setup_h2load(pk_bench_context *context, const struct rpc *rpc)
{
    if (!h2load_is_here()) {
        pk_bench_skip(context, "h2load is not installed");
        return NULL;
    }
    unsigned at_once = (unsigned) pk_bench_number(context, "atOnce");
    struct state *state = setup(context, rpc, H2LOAD_CALLS);
    if (!state)
        return NULL;
    snprintf(state->at_once, sizeof state->at_once, "%u", at_once);
    if (at_once == 0 || !write_body(state))
        pk_bench_fail(context, "the request's body cannot be written");
    return state;
}

/* Calls that h2load saw succeed, where all replies together have as many bytes as they should. */
static uint64_t right_calls(struct state *state, const char *printed)
{
    unsigned long long right = 0, bytes = 0;
    const char *finished = strstr(printed, "finished in ");
    const char *requests = strstr(printed, "requests: ");
    const char *traffic = strstr(printed, "traffic: ");
    if (!finished || sscanf(finished, "finished in %*[^,], %lf", &state->rate) != 1 || !requests ||
        sscanf(requests, "requests: %*u total, %*u started, %*u done, %llu", &right) != 1 ||
        !traffic || sscanf(traffic, "traffic: %*[^,], %*[^,], %*s (%llu", &bytes) != 1)
        return 0;
    return bytes == right * state->rpc->replies * framed(state->rpc->message) ? right : 0;
}

static void run_h2load(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    struct pk_bench_child child;
    char count[24], address[256], printed[4096];
    snprintf(count, sizeof count, "%llu", (unsigned long long) invocations * H2LOAD_CALLS);
    snprintf(address, sizeof address, "http://%s%s", state->address, state->rpc->path);
    const char *const argv[] = {"h2load",
                                "-n",
                                count,
                                "-c",
                                "1",
                                "-m",
                                state->at_once,
                                "-d",
                                state->body,
                                "-H",
                                "content-type: application/grpc",
                                "-H",
                                "te: trailers",
                                address,
                                NULL};
    if (!pk_bench_child_start(&child, argv, NULL))
        return;
    pk_bench_child_read(&child, false, printed, sizeof printed);
    if (pk_bench_child_wait(&child) == 0)
        state->right += right_calls(state, printed);
}

static void check_h2load(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    check(context, arg, invocations);
    pk_bench_metric_add(context, "h2load.rate", "ops/s", state->rate);
}

static void *setup_h2load_unary(pk_bench_context *context)
{
    return setup_h2load(context, &say_hello);
}

static void *setup_h2load_server_streaming(pk_bench_context *context)
{
    return setup_h2load(context, &it_keeps_replying);
}

static void *setup_h2load_client_streaming(pk_bench_context *context)
{
    return setup_h2load(context, &it_keeps_talking);
}

static void *setup_h2load_bidi_streaming(pk_bench_context *context)
{
    return setup_h2load(context, &stream_hellos);
}

static const pk_bench_param params[] = {{"atOnce", PK_BENCH_VALUES("1", "10", "100")}, {0}};

/* The two rows of one rpc. */
#define RPC(method, style, what)                                                              \
    {.name = "pekoe.LoopbackBenchmark." method,                                               \
     .operation = what ", with pekoe's client, `atOnce` calls at once on one connection",     \
     .params = params,                                                                        \
     .operations = OWN_CALLS,                                                                 \
     .setup = setup_own_##style,                                                              \
     .teardown = teardown_own,                                                                \
     .before_iteration = before_iteration,                                                    \
     .run = run_own,                                                                          \
     .check = check},                                                                         \
    {                                                                                         \
        .name = "pekoe.LoopbackBenchmark." method "H2load",                                   \
        .operation = what ", with h2load, `atOnce` calls at once on one connection",          \
        .params = params, .operations = H2LOAD_CALLS, .setup = setup_h2load_##style,          \
        .teardown = teardown_h2load, .before_iteration = before_iteration, .run = run_h2load, \
        .check = check_h2load                                                                 \
    }

static const pk_benchmark benchmarks[] = {
    RPC("unary", unary, "one SayHello"),
    RPC("serverStreaming", server_streaming, "one call with one request and 10 replies"),
    RPC("clientStreaming", client_streaming, "one call with 10 requests and one reply"),
    RPC("bidiStreaming", bidi_streaming, "one call with 10 requests, a reply to each"),
};

PK_BENCHMARKS(benchmarks)
