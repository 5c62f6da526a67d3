/*
 * The official interop server: grpc.testing.TestService with every method, for the clients that
 * gRPC's own projects ship.
 *
 *     interop-server --port 10000
 *
 * What each method must do is in gRPC's doc/interop-test-descriptions.md, "Server features".
 * Payloads are zero bytes.
 */
#include <pekoe/pekoe.h>

#include "flags.h"
#include "grpc/testing/empty.pekoe.h"
#include "grpc/testing/messages.pekoe.h"
#include "grpc/testing/test.pekoe.h"

#include <ev.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_MAX (16 << 20)
static uint8_t zeros[PAYLOAD_MAX];

/* ---- What every method does ---- */

/* The server feature "Echo Metadata". */
static void echo_metadata(pk_call *call)
{
    static const char initial[] = "x-grpc-test-echo-initial";
    static const char trailing[] = "x-grpc-test-echo-trailing-bin";
    const pk_metadata *received = pk_call_metadata(call);
    pk_slice value = pk_metadata_get(received, initial);
    if (value.bytes && pk_metadata_add(pk_call_headers(call), initial,
                                       pk_call_copy(call, value.bytes, value.length)) < 0)
        fprintf(stderr, "interop-server: a header could not be echoed\n");
    value = pk_metadata_get(received, trailing);
    if (value.bytes &&
        pk_metadata_add_binary(pk_call_trailers(call), trailing, value.bytes, value.length) < 0)
        fprintf(stderr, "interop-server: a trailer could not be echoed\n");
}

/* "Echo Status". A future that is done: there is nothing to echo. */
static pk_future echo_status(pk_call *call, const Grpc__Testing__EchoStatus *status)
{
    if (!status || status->code == 0)
        return pk_done(NULL);
    return pk_failed(call, (pk_code) status->code, "%s", status->message);
}

/* "CompressedRequest": whether the message came as the client says that it sent it. */
static pk_future check_compressed(pk_call *call, const Grpc__Testing__BoolValue *expected)
{
    bool compressed = pk_call_request_compressed(call);
    if (!expected || (bool) expected->value == compressed)
        return pk_done(NULL);
    return pk_failed(call, PK_INVALID_ARGUMENT, "the request message came %s",
                     compressed ? "compressed" : "without compression");
}

static pk_future check_size(pk_call *call, int32_t size)
{
    if (size >= 0 && size <= PAYLOAD_MAX)
        return pk_done(NULL);
    return pk_failed(call, PK_INVALID_ARGUMENT, "a payload cannot have %d bytes", size);
}

static Grpc__Testing__Payload payload_of(int32_t size)
{
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.type = GRPC__TESTING__PAYLOAD_TYPE__COMPRESSABLE;
    payload.body = (ProtobufCBinaryData){(size_t) size, zeros};
    return payload;
}

/* ---- Unary ---- */

static pk_future empty_call(void *self, pk_call *call, const Grpc__Testing__Empty *request)
{
    echo_metadata(call);
    return grpc_testing_empty_done(grpc_testing_empty_new(call));
}

static pk_future answer_unary(pk_call *call, const Grpc__Testing__SimpleRequest *request,
                              Grpc__Testing__Payload payload)
{
    Grpc__Testing__SimpleResponse *response = grpc_testing_simple_response_new(call);
    response->payload = grpc_testing_payload_new(call);
    *response->payload = payload;
    if (request->fill_server_id)
        response->server_id = pk_call_printf(call, "pekoe-%ld", (long) getpid());
    /* "CompressedResponse": zeros always become smaller. */
    if (request->response_compressed)
        pk_call_set_compress_min_bytes(call, request->response_compressed->value ? 0 : SIZE_MAX);
    return grpc_testing_simple_response_done(response);
}

static pk_future unary_call(void *self, pk_call *call, const Grpc__Testing__SimpleRequest *request)
{
    echo_metadata(call);
    pk_future checked = check_compressed(call, request->expect_compressed);
    if (checked.state == PK_FUTURE_DONE)
        checked = check_size(call, request->response_size);
    if (checked.state == PK_FUTURE_DONE)
        checked = echo_status(call, request->response_status);
    if (checked.state != PK_FUTURE_DONE)
        return checked;
    return answer_unary(call, request, payload_of(request->response_size));
}

static pk_future cacheable_unary_call(void *self, pk_call *call,
                                      const Grpc__Testing__SimpleRequest *request)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char *text = pk_call_printf(call, "%lld", (long long) now.tv_sec * 1000000000 + now.tv_nsec);
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){strlen(text), (uint8_t *) text};
    if (pk_metadata_add(pk_call_headers(call), "cache-control", "max-age=60, public") < 0)
        return pk_failed(call, PK_INTERNAL, "cache-control cannot be set");
    return answer_unary(call, request, payload);
}

/* ---- Streams of responses ---- */

/* A streaming call; lives in it. */
struct session {
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    const Grpc__Testing__StreamingOutputCallRequest *request; /* the one that is being served */
    size_t next;                                              /* of its responses */
    int64_t sum;                                              /* of payload bytes received */
};

static pk_future send_next(const void *unused, void *arg);

static pk_future send_one(const void *unused, void *arg)
{
    struct session *s = arg;
    const Grpc__Testing__ResponseParameters *wanted = s->request->response_parameters[s->next++];
    pk_future checked = check_size(s->call, wanted->size);
    if (checked.state != PK_FUTURE_DONE)
        return checked;
    Grpc__Testing__Payload payload = payload_of(wanted->size);
    Grpc__Testing__StreamingOutputCallResponse response =
        GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
    response.payload = &payload;
    if (wanted->compressed) {
        pk_writer_set_compression(s->out, wanted->compressed->value);
        pk_call_set_compress_min_bytes(s->call, 0);
    }
    pk_future written = grpc_testing_streaming_output_call_response_write(s->out, &response);
    return pk_then(written, send_next, s);
}

/* One request's responses, each after its interval. */
static pk_future send_next(const void *unused, void *arg)
{
    struct session *s = arg;
    if (s->next == s->request->n_response_parameters)
        return pk_done(NULL);
    int32_t interval = s->request->response_parameters[s->next]->interval_us;
    if (interval <= 0)
        return send_one(NULL, s);
    uint64_t milliseconds = ((uint64_t) interval + 999) / 1000;
    return pk_then(pk_sleep(pk_call_scope(s->call), milliseconds), send_one, s);
}

static pk_future serve_request(const void *message, void *arg)
{
    struct session *s = arg;
    s->request = message;
    s->next = 0;
    pk_future echoed = echo_status(s->call, s->request->response_status);
    return echoed.state == PK_FUTURE_DONE ? send_next(NULL, s) : echoed;
}

static pk_future streaming_output_call(void *self, pk_call *call,
                                       const Grpc__Testing__StreamingOutputCallRequest *request,
                                       pk_writer *out)
{
    echo_metadata(call);
    return serve_request(request, pk_call_new(call, struct session, .call = call, .out = out));
}

static pk_future full_duplex_call(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    echo_metadata(call);
    struct session *s = pk_call_new(call, struct session, .call = call, .in = in, .out = out);
    return pk_reader_each(in, serve_request, s);
}

/* ---- All requests first ---- */

struct kept {
    const Grpc__Testing__StreamingOutputCallRequest *request;
    struct kept *next;
};

struct half_duplex {
    struct session session; /* first: a step of it is a step of this */
    struct kept *first, **last;
};

static pk_future serve_kept(const void *unused, void *arg)
{
    struct half_duplex *half = arg;
    struct kept *kept = half->first;
    if (!kept)
        return pk_done(NULL);
    half->first = kept->next;
    return pk_then(serve_request(kept->request, &half->session), serve_kept, half);
}

static pk_future keep_request(const void *message, void *arg)
{
    struct half_duplex *half = arg;
    if (!message)
        return serve_kept(NULL, half);
    *half->last = pk_call_new(half->session.call, struct kept, .request = message);
    half->last = &(*half->last)->next;
    return pk_then(pk_reader_take(half->session.in), keep_request, half);
}

static pk_future half_duplex_call(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    echo_metadata(call);
    struct half_duplex *half =
        pk_call_new(call, struct half_duplex, .session = {.call = call, .in = in, .out = out});
    half->last = &half->first;
    return pk_then(pk_reader_take(in), keep_request, half);
}

/* ---- A stream of requests, one response ---- */

static pk_future add_payload(const void *message, void *arg)
{
    struct session *s = arg;
    const Grpc__Testing__StreamingInputCallRequest *request = message;
    if (request->payload)
        s->sum += (int64_t) request->payload->body.len;
    return check_compressed(s->call, request->expect_compressed);
}

static pk_future answer_sum(const void *unused, void *arg)
{
    struct session *s = arg;
    Grpc__Testing__StreamingInputCallResponse *response =
        grpc_testing_streaming_input_call_response_new(s->call);
    response->aggregated_payload_size = (int32_t) s->sum;
    return grpc_testing_streaming_input_call_response_done(response);
}

static pk_future streaming_input_call(void *self, pk_call *call, pk_reader *in)
{
    echo_metadata(call);
    struct session *s = pk_call_new(call, struct session, .call = call, .in = in);
    return pk_then(pk_reader_each(in, add_payload, s), answer_sum, s);
}

/* unimplemented_call stays NULL: that is what it is for. */
static const grpc_testing_test_service_impl test_service = {
    .empty_call = empty_call,
    .unary_call = unary_call,
    .cacheable_unary_call = cacheable_unary_call,
    .streaming_output_call = streaming_output_call,
    .streaming_input_call = streaming_input_call,
    .full_duplex_call = full_duplex_call,
    .half_duplex_call = half_duplex_call,
};

/* ---- The program ---- */

static void on_term(struct ev_loop *ev, ev_signal *watcher, int events)
{
    pk_detach(pk_server_stop(watcher->data, 5000));
    ev_signal_stop(ev, watcher);
}

static int serve(const char *address, pk_server_credentials *credentials)
{
    pk_loop *loop = NULL;
    pk_server *server = NULL;
    const char *bound;
    int r = pk_loop_new(&loop, NULL);
    if (r == 0)
        r = pk_server_new(&server, loop, NULL);
    if (r == 0)
        r = grpc_testing_test_service_serve(server, &test_service, NULL);
    if (r == 0 && credentials)
        r = pk_server_listen_tls(server, address, credentials, &bound);
    else if (r == 0)
        r = pk_server_listen(server, address, &bound);
    if (r < 0) {
        fprintf(stderr, "interop-server: %s: %s\n", address,
                r == PK_ERR_SYSTEM ? strerror(errno) : pk_error_text(r));
        return 1;
    }
    ev_signal term;
    ev_signal_init(&term, on_term, SIGTERM);
    term.data = server;
    ev_signal_start(pk_loop_ev(loop), &term);
    printf("interop-server: listening on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    pk_server_free(server);
    pk_loop_free(loop);
    return 0;
}

static const char usage[] =
    "usage: interop-server --port PORT [--use_tls=true --tls_cert_file FILE --tls_key_file FILE]\n"
    "       interop-server --listen ADDRESS [...]\n"
    "  PORT is one of 127.0.0.1; 0 lets the system choose\n";

int main(int argc, char **argv)
{
    char local[64] = "", problem[PK_TLS_PROBLEM];
    const char *address = NULL, *value;
    const pk_pem none = {NULL, NULL};
    pk_pem certificate = none, key = none;
    pk_server_credentials *credentials = NULL;
    bool use_tls = false;
    for (int i = 1; i < argc; i++) {
        if ((value = flag_value(argv, argc, &i, "--port"))) {
            snprintf(local, sizeof local, "127.0.0.1:%s", value);
            address = local;
        } else if ((value = flag_value(argv, argc, &i, "--listen"))) {
            address = value;
        } else if ((value = flag_value(argv, argc, &i, "--tls_cert_file"))) {
            certificate.file = value;
        } else if ((value = flag_value(argv, argc, &i, "--tls_key_file"))) {
            key.file = value;
        } else if (!is_flag(argv, argc, &i, "--use_tls", &use_tls)) {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (!address) {
        fputs(usage, stderr);
        return 2;
    }
    if (use_tls && pk_server_credentials_new(
                       &credentials, PK_SERVER_CREDENTIALS(.certificate = certificate, .key = key),
                       problem) < 0) {
        fprintf(stderr, "interop-server: %s\n", problem);
        return 2;
    }
    int failed = serve(address, credentials);
    pk_server_credentials_unref(credentials);
    return failed;
}
