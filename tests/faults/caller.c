/*
 * A client for misbehaving servers: makes calls of grpc.testing.TestService and prints how each has
 * ended, in the order of their ends: faults.py judges.
 *
 *     caller --target 127.0.0.1:10000 --calls 10 --parallel 2 --timeout 2000
 *
 * One line per call: the code's name, the messages of a stream, and the status message.
 */
#include <pekoe/pekoe.h>

#include "grpc/testing/messages.pekoe.h"
#include "grpc/testing/test.pekoe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *target, *dns, *config;
    size_t calls, parallel, timeout, size, pause, keepalive, idle, call_buffer, buffer;
    bool stream, wait_for_ready, retry, throttle, round_robin;
} options = {.calls = 1, .parallel = 1, .timeout = 5000};

static pk_loop *loop;
static pk_channel *channel;
static size_t started, ended;

struct one {
    pk_reader *in;
    unsigned messages;
};

static void start_next(void);

static pk_future resume(const void *unused, void *arg)
{
    start_next();
    return pk_done(NULL);
}

static void print_end(struct one *one, const pk_status *status)
{
    printf("%s %u %.*s\n", pk_code_name(status->code), one->messages, (int) status->message.length,
           status->message.bytes ? (const char *) status->message.bytes : "");
    pk_reader_unref(one->in);
    free(one);
    ended++;
    if (ended == options.calls)
        pk_loop_stop(loop);
    else if (options.pause > 0)
        pk_detach(pk_then(pk_sleep(pk_loop_scope(loop), options.pause), resume, NULL));
    else
        start_next();
}

static pk_future failed(const pk_status *status, void *arg)
{
    print_end(arg, status);
    return pk_done(NULL);
}

static pk_future replied(const void *reply, void *arg)
{
    static const pk_status ok = {.code = PK_OK};
    struct one *one = arg;
    one->messages = 1;
    print_end(one, &ok);
    return pk_done(NULL);
}

static pk_future count(const void *message, void *arg)
{
    ((struct one *) arg)->messages++;
    return pk_done(NULL);
}

static pk_future read_all(const void *end, void *arg)
{
    static const pk_status ok = {.code = PK_OK};
    print_end(arg, &ok);
    return pk_done(NULL);
}

static void start(void)
{
    static uint8_t zeros[1 << 20];
    const pk_call_opts *opts =
        PK_CALL_OPTS(.timeout_ms = options.timeout, .wait_for_ready = options.wait_for_ready);
    struct one *one = calloc(1, sizeof *one);
    started++;
    if (options.stream) {
        Grpc__Testing__StreamingOutputCallRequest request =
            GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
        one->in = grpc_testing_test_service_streaming_output_call(channel, &request, opts);
        pk_future all = pk_reader_each(one->in, count, one);
        pk_detach(pk_recover(pk_then(all, read_all, one), failed, one));
        return;
    }
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){options.size, zeros};
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    request.payload = &payload;
    pk_future reply = grpc_testing_test_service_unary_call(channel, &request, opts);
    pk_detach(pk_recover(pk_then(reply, replied, one), failed, one));
}

static void start_next(void)
{
    if (started < options.calls && started - ended < options.parallel)
        start();
}

static size_t number(const char *text)
{
    return text ? strtoul(text, NULL, 10) : 0;
}

static const pk_retry_policy policies[] = {
    {.method = "/grpc.testing.TestService/Streaming"},
    {.method = "/grpc.testing.TestService/",
     .max_attempts = 4,
     .initial_backoff_ms = 10,
     .max_backoff_ms = 50,
     .backoff_multiplier = 2,
     .codes = PK_CODE_BIT(PK_UNAVAILABLE) | PK_CODE_BIT(PK_ABORTED)},
};

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--stream") == 0)
            options.stream = true;
        else if (strcmp(name, "--wait-for-ready") == 0)
            options.wait_for_ready = true;
        else if (strcmp(name, "--retry") == 0)
            options.retry = true;
        else if (strcmp(name, "--throttle") == 0)
            options.throttle = true;
        else if (strcmp(name, "--round-robin") == 0)
            options.round_robin = true;
        else if (strcmp(name, "--target") == 0)
            options.target = argv[++i];
        else if (strcmp(name, "--calls") == 0)
            options.calls = number(argv[++i]);
        else if (strcmp(name, "--parallel") == 0)
            options.parallel = number(argv[++i]);
        else if (strcmp(name, "--timeout") == 0)
            options.timeout = number(argv[++i]);
        else if (strcmp(name, "--size") == 0)
            options.size = number(argv[++i]);
        else if (strcmp(name, "--dns") == 0)
            options.dns = argv[++i];
        else if (strcmp(name, "--keepalive") == 0)
            options.keepalive = number(argv[++i]);
        else if (strcmp(name, "--idle") == 0)
            options.idle = number(argv[++i]);
        else if (strcmp(name, "--config") == 0)
            options.config = argv[++i];
        else if (strcmp(name, "--call-buffer") == 0)
            options.call_buffer = number(argv[++i]);
        else if (strcmp(name, "--buffer") == 0)
            options.buffer = number(argv[++i]);
        else if (strcmp(name, "--pause") == 0)
            options.pause = number(argv[++i]);
        else
            return fprintf(stderr, "caller: what is %s %s?\n", name, value ? value : ""), 2;
    }
    pk_service_config *config = NULL;
    char problem[200];
    if (options.config &&
        pk_service_config_new(&config, options.config, problem, sizeof problem) < 0)
        return fprintf(stderr, "caller: %s\n", problem), 2;
    if (pk_loop_new(&loop, NULL) < 0 || !options.target ||
        pk_channel_new(
            &channel, loop, options.target,
            PK_CHANNEL_OPTS(.backoff_initial_ms = 50, .backoff_max_ms = 200,
                            .dns_servers = options.dns,
                            .load_balancing = options.round_robin ? "round_robin" : NULL,
                            .keepalive_ms = (uint32_t) options.keepalive,
                            .keepalive_timeout_ms = 1000,
                            .idle_timeout_ms = (uint32_t) options.idle, .retry_policies = policies,
                            .retry_policy_count = options.retry ? 2 : 0, .service_config = config,
                            .call_buffer_bytes = options.call_buffer,
                            .buffer_bytes = options.buffer,
                            .retry_throttling = {options.throttle ? 10 : 0, 0.1})) < 0)
        return 2;
    for (size_t i = 0; i < options.parallel; i++)
        start_next();
    pk_loop_run(loop);
    pk_channel_free(channel);
    pk_service_config_free(config);
    pk_loop_free(loop);
    return 0;
}
