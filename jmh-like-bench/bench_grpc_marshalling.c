/*
 * pekoe.GrpcMarshallingBenchmark: bytes into a message and a message into a reply, beside the rows
 * of the same name in pekko-grpc. The message is empty there, or an Any with the type "benchmark"
 * and the value "payload"; the protocol is gRPC without compression, the first of each parameter.
 * A reply is compressed only where that makes it smaller: with gzip it is an Any with that value
 * many times.
 *
 * handleUnaryStrict is with the handler benchmarks' exchange: see bench_handler.c.
 */
#include "google/protobuf/any.pekoe.h"
#include "google/protobuf/empty.pekoe.h"
#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/wire_bytes.h"
#include "marshalling/protocol.h"

#include <stdlib.h>
#include <string.h>

struct state {
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    pk_marshalling marshalling;
    pk_encoding encoding;
    const pk_protocol *protocol;
    const pk_compressor *incoming;
    const pk_message_type *type;
    uint8_t plain[256]; /* the message */
    size_t plain_length;
    uint8_t body[128]; /* the same on the wire */
    size_t length;
    const void *value; /* the same as a struct: `empty` or `any` */
    Google__Protobuf__Empty empty;
    Google__Protobuf__Any any;
    /* What the last invocation made. */
    pk_reply reply;
    pk_protocol_end end;
    const void *message;
    uint64_t made;
};

static const pk_protocol *protocol_named(const char *name)
{
    static const pk_protocol *const protocols[] = {&pk_protocol_grpc, &pk_protocol_grpc_web,
                                                   &pk_protocol_grpc_web_text};
    static const char *const names[] = {"grpc", "grpc-web", "grpc-web-text"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return protocols[i];
    return NULL;
}

static struct state *setup(pk_bench_context *context)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state || pk_memory_init(&state->memory, NULL) < 0) {
        free(state);
        pk_bench_fail(context, "no memory");
        return NULL;
    }
    const char *codec = pk_bench_value(context, "codec");
    const char *protocol = pk_bench_value(context, "protocol");
    state->protocol = protocol_named(protocol);
    if (!state->protocol || (strcmp(codec, "gzip") != 0 && strcmp(codec, "identity") != 0)) {
        pk_bench_fail(context, "there is no protocol %s with the codec %s", protocol, codec);
        state->protocol = &pk_protocol_grpc;
    }
    state->incoming = strcmp(codec, "gzip") == 0 ? &pk_compressor_gzip : NULL;
    pk_buffer_pool_init(&state->pool, &state->memory);
    pk_arena_init(&state->arena, &state->memory, 4096);
    pk_marshalling_init(&state->marshalling, &state->memory, &state->pool);
    state->encoding = (pk_encoding){.marshalling = &state->marshalling,
                                    .arena = &state->arena,
                                    .codec = &pk_codec_proto,
                                    .compressor = state->incoming,
                                    .compressors = &pk_compressor_set_default};
    state->type = &google_protobuf_empty_type;
    state->empty = (Google__Protobuf__Empty) GOOGLE__PROTOBUF__EMPTY__INIT;
    state->value = &state->empty;
    return state;
}

/* An Any whose value is "payload" so many times. */
static void take_any(struct state *state, size_t times)
{
    static const char head[] = "\x0a\x09"
                               "benchmark"
                               "\x12";
    static char type_url[] = "benchmark";
    size_t at = sizeof head - 1, length = times * 7;
    memcpy(state->plain, head, at);
    if (length >= 128) {
        state->plain[at++] = (uint8_t) (length | 128);
        length >>= 7;
    }
    state->plain[at++] = (uint8_t) length;
    state->any = (Google__Protobuf__Any) GOOGLE__PROTOBUF__ANY__INIT;
    state->any.type_url = type_url;
    state->any.value = (ProtobufCBinaryData){times * 7, state->plain + at};
    for (size_t i = 0; i < times; i++, at += 7)
        memcpy(state->plain + at, "payload", 7);
    state->plain_length = at;
    state->type = &google_protobuf_any_type;
    state->value = &state->any;
}

/* For replies. */
static void *setup_reply(pk_bench_context *context)
{
    struct state *state = setup(context);
    if (state && state->incoming)
        take_any(state, 30);
    return state;
}

/* With the body of the parameter `message`. */
static void *setup_body(pk_bench_context *context)
{
    struct state *state = setup(context);
    if (!state)
        return NULL;
    const char *message = pk_bench_value(context, "message");
    if (strcmp(message, "any") == 0)
        take_any(state, 1);
    else if (strcmp(message, "empty") != 0)
        pk_bench_fail(context, "there is no message %s", message);
    uint8_t frame[96];
    size_t length = pk_bench_frame(state->plain, state->plain_length, state->incoming != NULL,
                                   frame, sizeof frame);
    if (state->protocol->text) {
        state->length = pk_bench_encode_base64(frame, length, state->body);
    } else {
        memcpy(state->body, frame, length);
        state->length = length;
    }
    return state;
}

static void teardown(void *arg)
{
    struct state *state = arg;
    pk_buffer_unref(state->reply.body);
    pk_buffer_unref(state->end.body);
    pk_marshalling_done(&state->marshalling);
    pk_arena_done(&state->arena);
    pk_buffer_pool_done(&state->pool);
    pk_memory_done(&state->memory);
    free(state);
}

static void before_iteration(void *arg)
{
    ((struct state *) arg)->made = 0;
}

/* ---- Into replies ---- */

static void run_marshall(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_buffer_unref(state->reply.body);
        pk_arena_reset(&state->arena);
        pk_outcome outcome = {.type = state->type, .message = state->value};
        pk_code code = state->protocol->reply_unary(state->protocol, &state->encoding, &outcome,
                                                    &state->reply);
        state->made += code == PK_OK;
        pk_bench_keep(&state->reply);
    }
}

static bool has_field(const pk_field *fields, size_t count, const char *name, const char *begins)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].name.length == strlen(name) &&
            memcmp(fields[i].name.bytes, name, strlen(name)) == 0 &&
            fields[i].value.length >= strlen(begins) &&
            memcmp(fields[i].value.bytes, begins, strlen(begins)) == 0)
            return true;
    return false;
}

static void check_head(pk_bench_context *context, const struct state *state)
{
    static const char *const types[] = {"application/grpc", "application/grpc-web",
                                        "application/grpc-web-text"};
    const char *type = types[state->protocol->trailers_in_body + state->protocol->text];
    const pk_reply *reply = &state->reply;
    PK_BENCH_EXPECT(context, has_field(reply->fields, reply->field_count, "content-type", type));
    PK_BENCH_EXPECT(context, has_field(reply->fields, reply->field_count, "grpc-encoding",
                                       "gzip") == (state->incoming != NULL));
}

/* The body's bytes behind base64. */
static size_t binary_of(const struct state *state, const pk_buffer *body, uint8_t *out, size_t room)
{
    size_t length = body ? pk_buffer_length(body) : 0;
    if (length > room)
        return 0;
    if (state->protocol->text)
        return pk_bench_decode_base64(body->start, length, out);
    if (body)
        memcpy(out, body->start, length);
    return length;
}

/* OK in a frame of trailers where the protocol has them in the body, else in the trailers alone. */
static void check_end(pk_bench_context *context, const struct state *state, const uint8_t *rest,
                      size_t length, const pk_field *trailers, size_t count)
{
    static const char ok[] = "\x80\0\0\0\x0fgrpc-status:0\r\n";
    if (state->protocol->trailers_in_body) {
        PK_BENCH_EXPECT(context, length == sizeof ok - 1 && memcmp(rest, ok, length) == 0);
        PK_BENCH_EXPECT(context, count == 0);
    } else {
        PK_BENCH_EXPECT(context, length == 0 && count == 1);
        PK_BENCH_EXPECT(context, has_field(trailers, count, "grpc-status", "0"));
    }
}

static void check_marshall(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    const pk_reply *reply = &state->reply;
    uint8_t body[512], plain[256];
    PK_BENCH_EXPECT(context, state->made == invocations);
    PK_BENCH_EXPECT(context, reply->http_status == 200);
    check_head(context, state);
    size_t length = binary_of(state, reply->body, body, sizeof body);
    size_t message = length >= PK_FRAME_PREFIX ? pk_frame_read_length(body) : length;
    PK_BENCH_EXPECT(context, PK_FRAME_PREFIX + message <= length);
    if (PK_FRAME_PREFIX + message > length)
        return;
    const uint8_t *bytes = body + PK_FRAME_PREFIX;
    size_t plain_length = message;
    PK_BENCH_EXPECT(context, body[0] == (state->incoming != NULL));
    if (state->incoming) {
        plain_length = pk_bench_gunzip(bytes, message, plain, sizeof plain);
        bytes = plain;
    }
    PK_BENCH_EXPECT(context, plain_length == state->plain_length &&
                                 memcmp(bytes, state->plain, plain_length) == 0);
    check_end(context, state, body + PK_FRAME_PREFIX + message, length - PK_FRAME_PREFIX - message,
              reply->trailers, reply->trailer_count);
}

static void run_marshall_stream(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    const pk_protocol *protocol = state->protocol;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_buffer_unref(state->end.body);
        pk_arena_reset(&state->arena);
        pk_fields head = protocol->head(protocol, &state->encoding, NULL);
        state->reply.fields = head.items;
        state->reply.field_count = head.count;
        protocol->end(protocol, &state->encoding, NULL, NULL, &state->end);
        state->made++;
        pk_bench_keep(state);
    }
}

static void check_marshall_stream(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    uint8_t body[64];
    PK_BENCH_EXPECT(context, state->made == invocations);
    check_head(context, state);
    size_t length = binary_of(state, state->end.body, body, sizeof body);
    check_end(context, state, body, length, state->end.trailers, state->end.trailer_count);
}

/* ---- Into messages ---- */

static void begin_body(struct state *state, pk_body_reader *reader)
{
    pk_arena_reset(&state->arena);
    pk_body_reader_init(reader, state->protocol, &state->marshalling, &state->arena,
                        state->incoming, PK_RECEIVE_LIMIT_DEFAULT, PK_BODY_REQUEST | PK_BODY_ONE);
}

static bool decode(struct state *state, const pk_body_message *message)
{
    pk_buffer *kept;
    pk_status status;
    return pk_body_unmarshal(&state->encoding, state->type, message, &state->arena, &state->message,
                             &kept, &status) == 0;
}

static bool take_first(struct state *state, pk_body_reader *reader, pk_body_message *ret_message)
{
    return pk_body_reader_feed(reader, state->body, state->length, NULL) == 0 &&
           pk_body_reader_next(reader, ret_message) > 0;
}

/* As a unary call takes its request: whole where it is plain, else through the reader. */
static void run_unmarshall(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_body_reader reader;
        pk_body_message message;
        begin_body(state, &reader);
        state->made +=
            (pk_body_reader_take_whole(&reader, state->body, state->length, NULL, &message) ||
             take_first(state, &reader, &message)) &&
            decode(state, &message) && pk_body_reader_end(&reader) == 0;
        pk_body_reader_done(&reader);
        pk_bench_keep(state);
    }
}

static void run_unmarshall_streamed(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_body_reader reader;
        pk_body_message message;
        begin_body(state, &reader);
        state->made += take_first(state, &reader, &message) && decode(state, &message) &&
                       pk_body_reader_next(&reader, &message) == 0 &&
                       pk_body_reader_end(&reader) == 0;
        pk_body_reader_done(&reader);
        pk_bench_keep(state);
    }
}

static void check_unmarshall(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    PK_BENCH_EXPECT(context, state->made == invocations);
    const ProtobufCMessage *base = state->message;
    PK_BENCH_EXPECT(context, base && base->descriptor == state->type->descriptor);
    if (state->type == &google_protobuf_any_type) {
        const Google__Protobuf__Any *any = state->message;
        PK_BENCH_EXPECT(context, strcmp(any->type_url, "benchmark") == 0);
        PK_BENCH_EXPECT(context, any->value.len == 7 && memcmp(any->value.data, "payload", 7) == 0);
    }
}

#define PROTOCOL_AND_CODEC                                              \
    {"protocol", PK_BENCH_VALUES("grpc", "grpc-web", "grpc-web-text")}, \
    {                                                                   \
        "codec", PK_BENCH_VALUES("identity", "gzip")                    \
    }

static const pk_bench_param params[] = {PROTOCOL_AND_CODEC, {0}};
static const pk_bench_param messages[] = {
    {"message", PK_BENCH_VALUES("empty", "any")}, PROTOCOL_AND_CODEC, {0}};

static const pk_benchmark benchmarks[] = {
    {
        .name = "pekoe.GrpcMarshallingBenchmark.marshall",
        .operation =
            "the strict reply for an empty message (with gzip for an Any of 224 bytes), its "
            "body not read",
        .params = params,
        .setup = setup_reply,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_marshall,
        .check = check_marshall,
    },
    {
        .name = "pekoe.GrpcMarshallingBenchmark.marshallStream",
        .operation = "head and end of a streamed reply that is not run: no message is made, as in "
                     "the model",
        .params = params,
        .setup = setup_reply,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_marshall_stream,
        .check = check_marshall_stream,
    },
    {
        .name = "pekoe.GrpcMarshallingBenchmark.unmarshallStrict",
        .operation = "one message out of a whole body: prefix, limit, decode into an arena",
        .params = messages,
        .setup = setup_body,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_unmarshall,
        .check = check_unmarshall,
    },
    {
        .name = "pekoe.GrpcMarshallingBenchmark.unmarshallStrictStreamed",
        .operation = "the same bytes fed to the reader that cuts streams into messages, to its end",
        .params = messages,
        .setup = setup_body,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_unmarshall_streamed,
        .check = check_unmarshall,
    },
};

PK_BENCHMARKS(benchmarks)
