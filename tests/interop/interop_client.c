/*
 * The official interop client: the cases of gRPC's doc/interop-test-descriptions.md that need no
 * cloud, for our own server and for those that gRPC's own projects ship.
 *
 *     interop-client --server_host 127.0.0.1 --server_port 10000 --test_case large_unary
 *
 * `--test_case all` runs every case. Prints "OK: CASE" for each; the exit code is 1 after a failure.
 * One function a case, in the order of that page, which is why the file is long.
 */
#include <pekoe/pekoe.h>

#include "flags.h"
#include "grpc/testing/empty.pekoe.h"
#include "grpc/testing/messages.pekoe.h"
#include "grpc/testing/test.pekoe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint8_t zeros[512 << 10];
static pk_loop *loop;
static pk_channel *channel;
static bool failed;

/* How every channel is made, for the case that makes its own. */
static char target[300];
static pk_channel_opts channel_opts = {.size = sizeof channel_opts};

/* How long the soak cases go on, and what they take: the official client's flags and defaults. */
static struct {
    int iterations, max_failures, latency_ms, pause_ms, seconds;
} soak = {10, 0, 1000, 0, 10};

/* ---- What is expected ---- */

PK_PRINTF(2, 3) static void expect(bool condition, const char *format, ...)
{
    if (condition)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    failed = true;
}

static bool is_text(pk_slice text, const char *expected)
{
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

static void expect_status(pk_status status, pk_code code)
{
    expect(status.code == code, "%s instead of %s: %.*s", pk_code_name(status.code),
           pk_code_name(code), (int) status.message.length,
           status.message.bytes ? (const char *) status.message.bytes : "");
}

static void expect_zeros(const Grpc__Testing__Payload *payload, size_t size)
{
    expect(payload && payload->body.len == size, "a payload of %zu bytes instead of %zu",
           payload ? payload->body.len : 0, size);
    for (size_t i = 0; payload && i < payload->body.len; i++)
        expect(payload->body.data[i] == 0, "byte %zu of the payload is not 0", i);
}

/* Waits; the reply or message, NULL where there was none. */
static const void *wait_for(pk_future future, pk_code code)
{
    const void *value = NULL;
    expect_status(pk_loop_run_until(loop, future, &value), code);
    return value;
}

static Grpc__Testing__Payload payload_of(size_t size)
{
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){size, zeros};
    return payload;
}

/* ---- Unary ---- */

static void empty_unary(void)
{
    Grpc__Testing__Empty request = GRPC__TESTING__EMPTY__INIT;
    expect(wait_for(grpc_testing_test_service_empty_call(channel, &request, NULL), PK_OK) != NULL,
           "no reply");
}

/* One call of 271,828 bytes that asks for 314,159; the flags where they are not NULL. */
static pk_future ask_large(Grpc__Testing__BoolValue *expect_compressed,
                           Grpc__Testing__BoolValue *response_compressed, const pk_call_opts *opts)
{
    Grpc__Testing__Payload payload = payload_of(271828);
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    request.response_size = 314159;
    request.payload = &payload;
    request.expect_compressed = expect_compressed;
    request.response_compressed = response_compressed;
    return grpc_testing_test_service_unary_call(channel, &request, opts);
}

static void expect_large(pk_future future)
{
    const Grpc__Testing__SimpleResponse *reply = wait_for(future, PK_OK);
    if (reply)
        expect_zeros(reply->payload, 314159);
}

static void large_unary(void)
{
    expect_large(ask_large(NULL, NULL, NULL));
}

static Grpc__Testing__BoolValue flag(bool value)
{
    Grpc__Testing__BoolValue flag = GRPC__TESTING__BOOL_VALUE__INIT;
    flag.value = value;
    return flag;
}

static void client_compressed_unary(void)
{
    Grpc__Testing__BoolValue yes = flag(true), no = flag(false);
    (void) wait_for(ask_large(&yes, NULL, NULL), PK_INVALID_ARGUMENT);
    expect_large(ask_large(&yes, NULL, PK_CALL_OPTS(.compression = "gzip")));
    expect_large(ask_large(&no, NULL, NULL));
}

static void server_compressed_unary(void)
{
    for (int i = 0; i < 2; i++) {
        Grpc__Testing__BoolValue wanted = flag(i == 0);
        pk_call *call;
        expect_large(ask_large(NULL, &wanted, PK_CALL_OPTS(.call = &call)));
        expect(pk_call_request_compressed(call) == (i == 0), "the flag of reply %d is wrong", i);
        pk_call_unref(call);
    }
}

/* ---- Streams ---- */

static const size_t request_sizes[] = {27182, 8, 1828, 45904};
static const size_t response_sizes[] = {31415, 9, 2653, 58979};

static pk_future send_input(pk_writer *out, size_t size, Grpc__Testing__BoolValue *compressed)
{
    Grpc__Testing__Payload payload = payload_of(size);
    Grpc__Testing__StreamingInputCallRequest request =
        GRPC__TESTING__STREAMING_INPUT_CALL_REQUEST__INIT;
    request.payload = &payload;
    request.expect_compressed = compressed;
    return grpc_testing_streaming_input_call_request_write(out, &request);
}

static void expect_sum(pk_future future, int sum)
{
    const Grpc__Testing__StreamingInputCallResponse *reply = wait_for(future, PK_OK);
    expect(reply && reply->aggregated_payload_size == sum, "a sum of %d instead of %d",
           reply ? reply->aggregated_payload_size : -1, sum);
}

static void client_streaming(void)
{
    pk_writer *out;
    pk_future reply = grpc_testing_test_service_streaming_input_call(channel, &out, NULL);
    for (size_t i = 0; i < 4; i++)
        (void) wait_for(send_input(out, request_sizes[i], NULL), PK_OK);
    pk_writer_end(out);
    expect_sum(reply, 74922);
    pk_writer_unref(out);
}

static void client_compressed_streaming(void)
{
    Grpc__Testing__BoolValue yes = flag(true), no = flag(false);
    const pk_call_opts *gzip = PK_CALL_OPTS(.compression = "gzip");
    pk_writer *out;
    pk_future reply = grpc_testing_test_service_streaming_input_call(channel, &out, gzip);
    pk_writer_set_compression(out, false);
    pk_detach(send_input(out, 27182, &yes));
    (void) wait_for(reply, PK_INVALID_ARGUMENT);
    pk_writer_unref(out);
    reply = grpc_testing_test_service_streaming_input_call(channel, &out, gzip);
    (void) wait_for(send_input(out, 27182, &yes), PK_OK);
    pk_writer_set_compression(out, false);
    (void) wait_for(send_input(out, 45904, &no), PK_OK);
    pk_writer_end(out);
    expect_sum(reply, 73086);
    pk_writer_unref(out);
}

static Grpc__Testing__ResponseParameters parameters_of(size_t size)
{
    Grpc__Testing__ResponseParameters parameters = GRPC__TESTING__RESPONSE_PARAMETERS__INIT;
    parameters.size = (int32_t) size;
    return parameters;
}

static pk_reader *ask_outputs(Grpc__Testing__ResponseParameters *wanted, size_t count)
{
    Grpc__Testing__ResponseParameters *list[4];
    for (size_t i = 0; i < count; i++)
        list[i] = &wanted[i];
    Grpc__Testing__StreamingOutputCallRequest request =
        GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
    request.n_response_parameters = count;
    request.response_parameters = list;
    return grpc_testing_test_service_streaming_output_call(channel, &request, NULL);
}

static void expect_output(pk_reader *in, size_t size)
{
    const Grpc__Testing__StreamingOutputCallResponse *reply = wait_for(pk_reader_read(in), PK_OK);
    expect(reply != NULL, "the stream has ended early");
    if (reply)
        expect_zeros(reply->payload, size);
}

static void expect_end(pk_reader *in, pk_code code)
{
    expect(!wait_for(pk_reader_read(in), code), "a message instead of the end");
}

static void server_streaming(void)
{
    Grpc__Testing__ResponseParameters wanted[4];
    for (size_t i = 0; i < 4; i++)
        wanted[i] = parameters_of(response_sizes[i]);
    pk_reader *in = ask_outputs(wanted, 4);
    for (size_t i = 0; i < 4; i++)
        expect_output(in, response_sizes[i]);
    expect_end(in, PK_OK);
    pk_reader_unref(in);
}

static void server_compressed_streaming(void)
{
    Grpc__Testing__BoolValue yes = flag(true), no = flag(false);
    Grpc__Testing__ResponseParameters wanted[2] = {parameters_of(31415), parameters_of(92653)};
    wanted[0].compressed = &yes;
    wanted[1].compressed = &no;
    pk_reader *in = ask_outputs(wanted, 2);
    pk_call *call = pk_reader_call(in);
    expect_output(in, 31415);
    expect(pk_call_request_compressed(call), "the first message came without compression");
    expect_output(in, 92653);
    expect(!pk_call_request_compressed(call), "the second message came compressed");
    expect_end(in, PK_OK);
    pk_reader_unref(in);
}

static pk_future send_duplex(pk_writer *out, size_t request_size, size_t response_size,
                             Grpc__Testing__EchoStatus *status)
{
    Grpc__Testing__Payload payload = payload_of(request_size);
    Grpc__Testing__ResponseParameters parameters = parameters_of(response_size);
    Grpc__Testing__ResponseParameters *list[] = {&parameters};
    Grpc__Testing__StreamingOutputCallRequest request =
        GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
    request.payload = &payload;
    request.n_response_parameters = status ? 0 : 1;
    request.response_parameters = list;
    request.response_status = status;
    return grpc_testing_streaming_output_call_request_write(out, &request);
}

static void close_duplex(pk_reader *in, pk_writer *out)
{
    pk_writer_unref(out);
    pk_reader_unref(in);
}

static void ping_pong(void)
{
    pk_writer *out;
    pk_reader *in = grpc_testing_test_service_full_duplex_call(channel, &out, NULL);
    for (size_t i = 0; i < 4; i++) {
        (void) wait_for(send_duplex(out, request_sizes[i], response_sizes[i], NULL), PK_OK);
        expect_output(in, response_sizes[i]);
    }
    pk_writer_end(out);
    expect_end(in, PK_OK);
    close_duplex(in, out);
}

static void empty_stream(void)
{
    pk_writer *out;
    pk_reader *in = grpc_testing_test_service_full_duplex_call(channel, &out, NULL);
    pk_writer_end(out);
    expect_end(in, PK_OK);
    close_duplex(in, out);
}

static void cancel_after_begin(void)
{
    pk_writer *out;
    pk_call *call;
    pk_future reply =
        grpc_testing_test_service_streaming_input_call(channel, &out, PK_CALL_OPTS(.call = &call));
    pk_call_cancel(call);
    (void) wait_for(reply, PK_CANCELLED);
    pk_writer_unref(out);
    pk_call_unref(call);
}

static void cancel_after_first_response(void)
{
    pk_writer *out;
    pk_reader *in = grpc_testing_test_service_full_duplex_call(channel, &out, NULL);
    (void) wait_for(send_duplex(out, 27182, 31415, NULL), PK_OK);
    expect_output(in, 31415);
    pk_call_cancel(pk_reader_call(in));
    expect_end(in, PK_CANCELLED);
    close_duplex(in, out);
}

static void timeout_on_sleeping_server(void)
{
    pk_writer *out;
    pk_reader *in =
        grpc_testing_test_service_full_duplex_call(channel, &out, PK_CALL_OPTS(.timeout_ms = 1));
    pk_detach(send_duplex(out, 27182, 31415, NULL));
    /* A fast server may have answered: the deadline comes all the same. */
    const void *message;
    pk_status status;
    do
        status = pk_loop_run_until(loop, pk_reader_read(in), &message);
    while (status.code == PK_OK && message);
    expect_status(status, PK_DEADLINE_EXCEEDED);
    close_duplex(in, out);
}

/* ---- Metadata and statuses ---- */

static void expect_echoes(pk_call *call)
{
    expect(is_text(pk_metadata_get(pk_call_metadata(call), "x-grpc-test-echo-initial"),
                   "test_initial_metadata_value"),
           "the initial metadata did not come back");
    expect(
        is_text(pk_metadata_get(pk_call_received_trailers(call), "x-grpc-test-echo-trailing-bin"),
                "\xab\xab\xab"),
        "the trailing metadata did not come back");
}

static void custom_metadata(void)
{
    static const char *const fields[] = {"x-grpc-test-echo-initial", "test_initial_metadata_value",
                                         NULL};
    pk_metadata *more = pk_metadata_new(pk_loop_scope(loop));
    expect(pk_metadata_add_binary(more, "x-grpc-test-echo-trailing-bin", "\xab\xab\xab", 3) == 0,
           "the binary value was not taken");
    pk_call *call;
    expect_large(
        ask_large(NULL, NULL, PK_CALL_OPTS(.fields = fields, .metadata = more, .call = &call)));
    expect_echoes(call);
    pk_call_unref(call);
    pk_writer *out;
    pk_reader *in = grpc_testing_test_service_full_duplex_call(
        channel, &out, PK_CALL_OPTS(.fields = fields, .metadata = more));
    (void) wait_for(send_duplex(out, 271828, 314159, NULL), PK_OK);
    expect_output(in, 314159);
    pk_writer_end(out);
    expect_end(in, PK_OK);
    expect_echoes(pk_reader_call(in));
    close_duplex(in, out);
}

static void ask_for_status(const char *text, bool stream_too)
{
    Grpc__Testing__EchoStatus echo = GRPC__TESTING__ECHO_STATUS__INIT;
    echo.code = 2;
    echo.message = (char *) text;
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    request.response_status = &echo;
    pk_status status = pk_loop_run_until(
        loop, grpc_testing_test_service_unary_call(channel, &request, NULL), NULL);
    expect_status(status, PK_UNKNOWN);
    expect(is_text(status.message, text), "another message: %.*s", (int) status.message.length,
           (const char *) status.message.bytes);
    if (!stream_too)
        return;
    pk_writer *out;
    pk_reader *in = grpc_testing_test_service_full_duplex_call(channel, &out, NULL);
    (void) wait_for(send_duplex(out, 0, 0, &echo), PK_OK);
    pk_writer_end(out);
    expect_end(in, PK_UNKNOWN);
    expect(is_text(pk_call_status(pk_reader_call(in))->message, text), "another message");
    close_duplex(in, out);
}

static void status_code_and_message(void)
{
    ask_for_status("test status message", true);
}

static void special_status_message(void)
{
    ask_for_status("\t\ntest with whitespace\r\nand Unicode BMP \xe2\x98\xba and non-BMP "
                   "\xf0\x9f\x98\x88\t\n",
                   false);
}

static void unimplemented_method(void)
{
    Grpc__Testing__Empty request = GRPC__TESTING__EMPTY__INIT;
    (void) wait_for(grpc_testing_test_service_unimplemented_call(channel, &request, NULL),
                    PK_UNIMPLEMENTED);
}

static void unimplemented_service(void)
{
    Grpc__Testing__Empty request = GRPC__TESTING__EMPTY__INIT;
    (void) wait_for(grpc_testing_unimplemented_service_unimplemented_call(channel, &request, NULL),
                    PK_UNIMPLEMENTED);
}

/* All calls of one channel go to one server. */
static void pick_first_unary(void)
{
    char first[100] = "";
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    request.fill_server_id = true;
    for (int i = 0; i < 100 && !failed; i++) {
        const Grpc__Testing__SimpleResponse *reply =
            wait_for(grpc_testing_test_service_unary_call(channel, &request, NULL), PK_OK);
        const char *id = reply ? reply->server_id : "";
        if (i == 0)
            snprintf(first, sizeof first, "%s", id);
        expect(id[0] != '\0' && strcmp(id, first) == 0, "call %d went to \"%s\", not to \"%s\"", i,
               id, first);
    }
}

/* ---- Soaking ---- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Large calls, one after the other; a failure is a status, a wrong reply, or one that is late. */
static void soak_calls(bool own_channels)
{
    pk_channel *kept = channel;
    uint64_t end = now_ms() + (uint64_t) soak.seconds * 1000;
    int done = 0, failures = 0;
    for (; done < soak.iterations && now_ms() < end; done++) {
        uint64_t start = now_ms();
        if (own_channels && pk_channel_new(&channel, loop, target, &channel_opts) < 0)
            break;
        failed = false;
        large_unary();
        uint64_t took = now_ms() - start;
        expect(took <= (uint64_t) soak.latency_ms, "iteration %d took %d ms", done, (int) took);
        failures += failed;
        if (own_channels)
            pk_channel_free(channel);
        if (took < (uint64_t) soak.pause_ms)
            (void) wait_for(
                pk_sleep(pk_loop_scope(loop), (uint32_t) soak.pause_ms - (uint32_t) took), PK_OK);
    }
    channel = kept;
    failed = false;
    expect(done == soak.iterations, "%d of %d iterations were made", done, soak.iterations);
    expect(failures <= soak.max_failures, "%d iterations failed", failures);
}

static void rpc_soak(void)
{
    soak_calls(false);
}

static void channel_soak(void)
{
    soak_calls(true);
}

/* ---- The program ---- */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"empty_unary", empty_unary},
    {"large_unary", large_unary},
    {"client_compressed_unary", client_compressed_unary},
    {"server_compressed_unary", server_compressed_unary},
    {"client_streaming", client_streaming},
    {"client_compressed_streaming", client_compressed_streaming},
    {"server_streaming", server_streaming},
    {"server_compressed_streaming", server_compressed_streaming},
    {"ping_pong", ping_pong},
    {"empty_stream", empty_stream},
    {"cancel_after_begin", cancel_after_begin},
    {"cancel_after_first_response", cancel_after_first_response},
    {"timeout_on_sleeping_server", timeout_on_sleeping_server},
    {"custom_metadata", custom_metadata},
    {"status_code_and_message", status_code_and_message},
    {"special_status_message", special_status_message},
    {"unimplemented_method", unimplemented_method},
    {"unimplemented_service", unimplemented_service},
    {"pick_first_unary", pick_first_unary},
    {"rpc_soak", rpc_soak},
    {"channel_soak", channel_soak},
};

/* Whether argv[*at] is one of the soak cases' numbers, which is taken. */
static bool is_soak_option(char **argv, int argc, int *at)
{
    const struct {
        const char *name;
        int *number;
    } options[] = {
        {"--soak_iterations", &soak.iterations},
        {"--soak_max_failures", &soak.max_failures},
        {"--soak_per_iteration_max_acceptable_latency_ms", &soak.latency_ms},
        {"--soak_min_time_ms_between_rpcs", &soak.pause_ms},
        {"--soak_overall_timeout_seconds", &soak.seconds},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *value = flag_value(argv, argc, at, options[i].name);
        if (value) {
            *options[i].number = atoi(value);
            return true;
        }
    }
    return false;
}

static const char usage[] =
    "usage: interop-client --server_host HOST --server_port PORT --test_case CASE\n"
    "         [--use_tls=true [--use_test_ca=true --ca_file FILE] [--server_host_override NAME]]\n"
    "         [--soak_iterations N] [--soak_max_failures N] [--soak_overall_timeout_seconds N]\n"
    "         [--soak_per_iteration_max_acceptable_latency_ms N] [--soak_min_time_ms_between_rpcs N]\n"
    "CASE is one of gRPC's interop cases, or all. The test CA is the file's; without it the system's\n"
    "CAs count.\n";

static bool run_cases(const char *wanted)
{
    bool found = false, all_passed = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(wanted, "all") != 0 && strcmp(wanted, cases[i].name) != 0)
            continue;
        found = true;
        failed = false;
        cases[i].run();
        printf("%s: %s\n", failed ? "FAILED" : "OK", cases[i].name);
        fflush(stdout);
        all_passed &= !failed;
    }
    if (!found)
        fprintf(stderr, "interop-client: there is no case %s\n%s", wanted, usage);
    return found && all_passed;
}

int main(int argc, char **argv)
{
    const char *host = "localhost", *port = NULL, *wanted = "large_unary", *value;
    const char *ca_file = NULL, *override = NULL;
    bool use_tls = false, use_test_ca = false;
    for (int i = 1; i < argc; i++) {
        if ((value = flag_value(argv, argc, &i, "--server_host"))) {
            host = value;
        } else if ((value = flag_value(argv, argc, &i, "--server_port"))) {
            port = value;
        } else if ((value = flag_value(argv, argc, &i, "--test_case"))) {
            wanted = value;
        } else if ((value = flag_value(argv, argc, &i, "--ca_file"))) {
            ca_file = value;
        } else if ((value = flag_value(argv, argc, &i, "--server_host_override"))) {
            override = value;
        } else if (!is_soak_option(argv, argc, &i) &&
                   !is_flag(argv, argc, &i, "--use_tls", &use_tls) &&
                   !is_flag(argv, argc, &i, "--use_test_ca", &use_test_ca)) {
            fprintf(stderr, "interop-client: what is %s?\n%s", argv[i], usage);
            return 2;
        }
    }
    if (!port || (use_test_ca && !ca_file)) {
        fputs(usage, stderr);
        return 2;
    }
    pk_channel_credentials *credentials = NULL;
    char problem[PK_TLS_PROBLEM];
    if (use_tls &&
        pk_channel_credentials_new(
            &credentials, PK_CHANNEL_CREDENTIALS(.server_ca.file = use_test_ca ? ca_file : NULL),
            problem) < 0) {
        fprintf(stderr, "interop-client: %s\n", problem);
        return 2;
    }
    snprintf(target, sizeof target, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    channel_opts.credentials = credentials;
    channel_opts.authority = override;
    if (pk_loop_new(&loop, NULL) < 0 || pk_channel_new(&channel, loop, target, &channel_opts) < 0) {
        fprintf(stderr, "interop-client: %s is no address\n", target);
        return 2;
    }
    bool passed = run_cases(wanted);
    pk_channel_free(channel);
    pk_loop_free(loop);
    pk_channel_credentials_unref(credentials);
    return passed ? 0 : 1;
}
