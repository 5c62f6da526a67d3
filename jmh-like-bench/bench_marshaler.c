/*
 * pekoe.MarshalerBenchmark: one message into a pooled buffer, as the benchmarks of dubbo-go's pull
 * request 3718 measure theirs.
 *
 * unaryMarshaler writes the bare body, envelopeWriter the 5-byte prefix as well. Fast: the codec
 * writes in place into the buffer. Slow: the same codec without that, so that its bytes are
 * allocated, copied and given back. Compressed: gzip of everything. What left the loop's memory for
 * malloc shows with -prof gc.
 */
#include "google/protobuf/wrappers.pekoe.h"
#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/wire_bytes.h"
#include "marshalling/frame.h"
#include "marshalling/marshal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    pk_marshalling marshalling;
    pk_codec codec;
    pk_encoding encoding;
    const pk_envelope *envelope; /* NULL: the bare body */
    Google__Protobuf__BytesValue message;
    uint8_t *payload;
    pk_buffer *last; /* what the last invocation made */
    uint64_t made;
};

static const pk_envelope envelope = {0, 1};

static int marshal(struct state *state, pk_buffer **ret_buffer)
{
    bool compressed;
    pk_status status;
    return pk_marshal(&state->encoding, &google_protobuf_bytes_value_type, &state->message,
                      state->envelope, (pk_slice){NULL, 0}, ret_buffer, &compressed, &status);
}

/* Records of a name and a number, as a reply's text may hold: compresses to about a half. */
static void fill(uint8_t *bytes, size_t length)
{
    static const char *const names[] = {"oolong", "assam", "ceylon", "keemun", "sencha", "pekoe"};
    uint32_t random = 1;
    size_t at = 0;
    while (at < length) {
        char record[48];
        random = random * 1664525 + 1013904223;
        int size = snprintf(record, sizeof record, "{\"%s\":%u}", names[(random >> 8) % 6], random);
        size_t now = (size_t) size < length - at ? (size_t) size : length - at;
        memcpy(bytes + at, record, now);
        at += now;
    }
}

static void *setup(pk_bench_context *context, bool enveloped, bool fast, bool compressed)
{
    struct state *state = calloc(1, sizeof *state);
    size_t length = (size_t) pk_bench_number(context, "payload");
    uint8_t *payload = malloc(length + 1);
    if (!state || !payload || pk_memory_init(&state->memory, NULL) < 0) {
        free(payload);
        free(state);
        pk_bench_fail(context, "no memory");
        return NULL;
    }
    fill(payload, length);
    pk_buffer_pool_init(&state->pool, &state->memory);
    pk_arena_init(&state->arena, &state->memory, 0);
    pk_marshalling_init(&state->marshalling, &state->memory, &state->pool);
    state->codec = pk_codec_proto;
    if (!fast)
        state->codec.prepend = NULL;
    state->encoding = (pk_encoding){
        .marshalling = &state->marshalling,
        .arena = &state->arena,
        .codec = &state->codec,
        .compressor = compressed ? &pk_compressor_gzip : NULL,
        .compressors = &pk_compressor_set_default,
    };
    state->envelope = enveloped ? &envelope : NULL;
    state->payload = payload;
    state->message = (Google__Protobuf__BytesValue) GOOGLE__PROTOBUF__BYTES_VALUE__INIT;
    state->message.value = (ProtobufCBinaryData){.len = length, .data = payload};
    /* Until every buffer that takes part has grown as large as it gets. */
    for (int i = 0; i < 8; i++) {
        pk_buffer *buffer = NULL;
        if (marshal(state, &buffer) < 0)
            pk_bench_fail(context, "the message cannot be marshalled");
        pk_buffer_unref(state->last);
        state->last = buffer;
    }
    return state;
}

static void teardown(void *arg)
{
    struct state *state = arg;
    pk_buffer_unref(state->last);
    pk_marshalling_done(&state->marshalling);
    pk_arena_done(&state->arena);
    pk_buffer_pool_done(&state->pool);
    pk_memory_done(&state->memory);
    free(state->payload);
    free(state);
}

static void before_iteration(void *arg)
{
    struct state *state = arg;
    state->made = 0;
}

static void run(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    for (uint64_t i = 0; i < invocations; i++) {
        state->last = pk_buffer_unref(state->last);
        if (marshal(state, &state->last) == 0)
            state->made++;
        pk_bench_keep(state->last);
    }
}

/* A BytesValue as it has to be on the wire: tag, length, payload. Returns how long it is. */
static size_t write_expected(const struct state *state, uint8_t *out)
{
    size_t at = 0, length = state->message.value.len;
    out[at++] = 0x0a;
    for (; length >= 0x80; length >>= 7)
        out[at++] = (uint8_t) (length | 0x80);
    out[at++] = (uint8_t) length;
    memcpy(out + at, state->payload, state->message.value.len);
    return at + state->message.value.len;
}

/* The bytes behind a prefix that tells the truth about them. */
static pk_slice behind_prefix(pk_bench_context *context, const struct state *state)
{
    pk_slice bytes = {state->last->start, pk_buffer_length(state->last)};
    if (!state->envelope)
        return bytes;
    PK_BENCH_EXPECT(context, bytes.length > PK_FRAME_PREFIX);
    if (bytes.length <= PK_FRAME_PREFIX)
        return (pk_slice){NULL, 0};
    const uint8_t *prefix = bytes.bytes;
    bytes = (pk_slice){prefix + PK_FRAME_PREFIX, bytes.length - PK_FRAME_PREFIX};
    PK_BENCH_EXPECT(context, prefix[0] == (state->encoding.compressor != NULL));
    PK_BENCH_EXPECT(context, ((size_t) prefix[1] << 24 | (size_t) prefix[2] << 16 |
                              (size_t) prefix[3] << 8 | prefix[4]) == bytes.length);
    return bytes;
}

/* The last invocation's bytes are the message, byte for byte, and zlib finds it in the gzip. */
static void check(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    PK_BENCH_EXPECT(context, state->made == invocations);
    if (!state->last)
        return;
    size_t room = state->message.value.len + 16;
    uint8_t *expected = malloc(room);
    uint8_t *plain = malloc(room);
    PK_BENCH_EXPECT(context, expected && plain);
    if (expected && plain) {
        pk_slice bytes = behind_prefix(context, state);
        size_t length = write_expected(state, expected);
        if (state->encoding.compressor)
            bytes = (pk_slice){plain, pk_bench_gunzip(bytes.bytes, bytes.length, plain, room)};
        PK_BENCH_EXPECT(context, bytes.length == length);
        PK_BENCH_EXPECT(context,
                        bytes.length == length && memcmp(bytes.bytes, expected, length) == 0);
    }
    free(plain);
    free(expected);
}

static void *setup_unary_fast(pk_bench_context *context)
{
    return setup(context, false, true, false);
}

static void *setup_unary_slow(pk_bench_context *context)
{
    return setup(context, false, false, false);
}

static void *setup_unary_fast_compressed(pk_bench_context *context)
{
    return setup(context, false, true, true);
}

static void *setup_unary_slow_compressed(pk_bench_context *context)
{
    return setup(context, false, false, true);
}

static void *setup_envelope_fast(pk_bench_context *context)
{
    return setup(context, true, true, false);
}

static void *setup_envelope_slow(pk_bench_context *context)
{
    return setup(context, true, false, false);
}

static void *setup_envelope_fast_compressed(pk_bench_context *context)
{
    return setup(context, true, true, true);
}

static void *setup_envelope_slow_compressed(pk_bench_context *context)
{
    return setup(context, true, false, true);
}

static const pk_bench_param params[] = {
    {"payload", PK_BENCH_VALUES("128", "1024", "16384", "1048576")},
    {NULL, NULL},
};

#define MARSHALER(method, setup_function, what)                                              \
    {                                                                                        \
        .name = "pekoe.MarshalerBenchmark." method, .operation = what, .params = params,     \
        .setup = setup_function, .teardown = teardown, .before_iteration = before_iteration, \
        .run = run, .check = check                                                           \
    }

static const pk_benchmark benchmarks[] = {
    MARSHALER("unaryMarshalerFastPath", setup_unary_fast,
              "one message into a pooled buffer, in place"),
    MARSHALER("unaryMarshalerSlowPath", setup_unary_slow,
              "one message into memory of its own, copied into a pooled buffer"),
    MARSHALER("unaryMarshalerFastPathCompressed", setup_unary_fast_compressed,
              "one message in place, then gzip into a second pooled buffer"),
    MARSHALER("unaryMarshalerSlowPathCompressed", setup_unary_slow_compressed,
              "one message copied into a pooled buffer, then gzip into a second"),
    MARSHALER("envelopeWriterFastPath", setup_envelope_fast,
              "one message in place, its prefix in front"),
    MARSHALER("envelopeWriterSlowPath", setup_envelope_slow,
              "one message copied into a pooled buffer, its prefix in front"),
    MARSHALER("envelopeWriterFastPathCompressed", setup_envelope_fast_compressed,
              "one message in place, gzip into a second pooled buffer, the prefix in front"),
    MARSHALER("envelopeWriterSlowPathCompressed", setup_envelope_slow_compressed,
              "one message copied, gzip into a second pooled buffer, the prefix in front"),
};

PK_BENCHMARKS(benchmarks)
