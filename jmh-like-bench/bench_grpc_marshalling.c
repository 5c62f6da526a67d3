/*
 * pekoe.GrpcMarshallingBenchmark: bytes into a message and a message into a reply, beside the rows
 * of the same name in pekko-grpc. The message is empty there, or an Any with the type "benchmark"
 * and the value "payload"; the protocol is gRPC without compression.
 *
 * handleUnaryStrict is with the handler benchmarks' exchange: see bench_handler.c.
 */
#include "google/protobuf/any.pekoe.h"
#include "google/protobuf/empty.pekoe.h"
#include "jmh-like-bench/harness.h"
#include "marshalling/protocol.h"

#include <stdlib.h>
#include <string.h>

struct state {
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    pk_marshalling marshalling;
    pk_encoding encoding;
    const pk_message_type *type;
    uint8_t body[64]; /* prefix and message */
    size_t length;
    /* What the last invocation made. */
    Google__Protobuf__Empty empty;
    pk_reply reply;
    pk_protocol_end end;
    const void *message;
    uint64_t made;
};

static void *setup(pk_bench_context *context)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state || pk_memory_init(&state->memory, NULL) < 0) {
        pk_bench_fail(context, "no memory");
        return NULL;
    }
    pk_buffer_pool_init(&state->pool, &state->memory);
    pk_arena_init(&state->arena, &state->memory, 4096);
    pk_marshalling_init(&state->marshalling, &state->memory, &state->pool);
    state->encoding = (pk_encoding){.marshalling = &state->marshalling,
                                    .arena = &state->arena,
                                    .codec = &pk_codec_proto,
                                    .compressors = &pk_compressor_set_default};
    state->type = &google_protobuf_empty_type;
    state->length = PK_FRAME_PREFIX;
    state->empty = (Google__Protobuf__Empty) GOOGLE__PROTOBUF__EMPTY__INIT;
    return state;
}

/* With the body of the parameter `message`. */
static void *setup_body(pk_bench_context *context)
{
    static const char any[] = "\x0a\x09"
                              "benchmark"
                              "\x12\x07"
                              "payload";
    struct state *state = setup(context);
    if (state && strcmp(pk_bench_value(context, "message"), "any") == 0) {
        state->type = &google_protobuf_any_type;
        pk_frame_write_prefix(state->body, 0, sizeof any - 1);
        memcpy(state->body + PK_FRAME_PREFIX, any, sizeof any - 1);
        state->length = PK_FRAME_PREFIX + sizeof any - 1;
    }
    return state;
}

static void teardown(void *arg)
{
    struct state *state = arg;
    pk_buffer_unref(state->reply.body);
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
        pk_outcome outcome = {.type = state->type, .message = &state->empty};
        pk_code code = pk_protocol_grpc.reply_unary(&pk_protocol_grpc, &state->encoding, &outcome,
                                                    &state->reply);
        state->made += code == PK_OK;
        pk_bench_keep(&state->reply);
    }
}

static void check_marshall(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    const pk_reply *reply = &state->reply;
    PK_BENCH_EXPECT(context, state->made == invocations);
    PK_BENCH_EXPECT(context, reply->http_status == 200 && reply->field_count == 1);
    PK_BENCH_EXPECT(context, reply->body && pk_buffer_length(reply->body) == PK_FRAME_PREFIX);
    PK_BENCH_EXPECT(context, memcmp(reply->body->start, "\0\0\0\0\0", PK_FRAME_PREFIX) == 0);
    PK_BENCH_EXPECT(context, reply->trailer_count == 1 &&
                                 memcmp(reply->trailers[0].name.bytes, "grpc-status", 11) == 0);
}

static void run_marshall_stream(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_fields head = pk_protocol_grpc.head(&pk_protocol_grpc, &state->encoding, NULL);
        state->reply.fields = head.items;
        state->reply.field_count = head.count;
        pk_protocol_grpc.end(&pk_protocol_grpc, &state->encoding, NULL, NULL, &state->end);
        state->made++;
        pk_bench_keep(state);
    }
}

static void check_marshall_stream(pk_bench_context *context, void *arg, uint64_t invocations)
{
    const struct state *state = arg;
    PK_BENCH_EXPECT(context, state->made == invocations);
    PK_BENCH_EXPECT(context,
                    state->reply.field_count == 1 &&
                        memcmp(state->reply.fields[0].value.bytes, "application/grpc", 16) == 0);
    PK_BENCH_EXPECT(context, state->end.trailer_count == 1 && !state->end.body);
}

/* ---- Into messages ---- */

static void begin_body(struct state *state, pk_body_reader *reader)
{
    pk_arena_reset(&state->arena);
    pk_body_reader_init(reader, &pk_protocol_grpc, &state->marshalling, &state->arena, NULL,
                        PK_RECEIVE_LIMIT_DEFAULT, PK_BODY_REQUEST | PK_BODY_ONE);
}

static bool decode(struct state *state, const pk_body_message *message)
{
    pk_buffer *kept;
    pk_status status;
    return pk_body_unmarshal(&state->encoding, state->type, message, &state->arena, &state->message,
                             &kept, &status) == 0;
}

static void run_unmarshall(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        pk_body_reader reader;
        pk_body_message message;
        begin_body(state, &reader);
        state->made +=
            pk_body_reader_take_whole(&reader, state->body, state->length, NULL, &message) &&
            decode(state, &message) && pk_body_reader_end(&reader) == 0;
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
        state->made += pk_body_reader_feed(&reader, state->body, state->length, NULL) == 0 &&
                       pk_body_reader_next(&reader, &message) > 0 && decode(state, &message) &&
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

static const pk_bench_param messages[] = {{"message", PK_BENCH_VALUES("empty", "any")}, {0}};

static const pk_benchmark benchmarks[] = {
    {
        .name = "pekoe.GrpcMarshallingBenchmark.marshall",
        .operation = "the strict reply for an empty message, its body of 5 bytes not read",
        .setup = setup,
        .teardown = teardown,
        .before_iteration = before_iteration,
        .run = run_marshall,
        .check = check_marshall,
    },
    {
        .name = "pekoe.GrpcMarshallingBenchmark.marshallStream",
        .operation = "head and end of a streamed reply that is not run: no message is made, as in "
                     "the model",
        .setup = setup,
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
