/*
 * marshalling/marshal.c: the in-place paths give the same bytes as allocate-then-copy, limits and
 * thresholds cannot drift between them, and nothing is allocated in steady state.
 *
 * The rows are those of dubbo-go's pull request 3718, restated for C: its fast path is prepend (or
 * append) into the pooled buffer, its slow path marshal.
 */
#include "marshalling/frame.h"
#include "marshalling/marshal.h"
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>

#define MIB ((size_t) 1 << 20)

static marshalling_fixture fixture;
static const pk_envelope envelope = {0, 1};
static const pk_slice no_tail = {NULL, 0};

static void set_up(void)
{
    fixture_init(&fixture);
}

static void tear_down(void)
{
    cr_assert_eq(fixture_done(&fixture), 0);
}

/* `length` bytes that compress well, but not to nothing. */
static uint8_t *sample(size_t length)
{
    uint8_t *bytes = malloc(length + 1);
    if (!bytes)
        abort();
    memset(bytes, 'x', length);
    for (size_t i = 0; i < length; i += 97)
        bytes[i] = (uint8_t) (i / 97);
    return bytes;
}

/* A codec with only some of its entry points. */
static pk_codec only(const pk_codec *codec, bool prepend, bool append)
{
    pk_codec part = *codec;
    if (!prepend)
        part.prepend = NULL;
    if (!append)
        part.append = NULL;
    return part;
}

static int marshal(const void *message, bool enveloped, pk_slice tail, pk_buffer **ret_buffer,
                   bool *ret_compressed, pk_status *ret_status)
{
    return pk_marshal(&fixture.encoding, bytes_value_type(), message, enveloped ? &envelope : NULL,
                      tail, ret_buffer, ret_compressed, ret_status);
}

/* ---- WireParity ---- */

/* One message on one wire through the three ways of a codec: the bytes must be the same. */
static void compare_ways(const pk_codec *codec, const void *message, bool enveloped, pk_slice tail)
{
    pk_codec ways[3] = {only(codec, true, false), only(codec, false, true),
                        only(codec, false, false)};
    pk_buffer *buffers[3];
    bool compressed[3];
    pk_status status;
    for (size_t i = 0; i < 3; i++) {
        fixture.encoding.codec = &ways[i];
        cr_assert_eq(marshal(message, enveloped, tail, &buffers[i], &compressed[i], &status), 0);
    }
    for (size_t i = 1; i < 3; i++) {
        cr_assert_eq(compressed[i], compressed[0]);
        cr_assert_eq(pk_buffer_length(buffers[i]), pk_buffer_length(buffers[0]));
        cr_assert_eq(memcmp(buffers[i]->start, buffers[0]->start, pk_buffer_length(buffers[0])), 0);
    }
    if (enveloped) {
        size_t length = pk_buffer_length(buffers[0]) - PK_FRAME_PREFIX - tail.length;
        cr_assert_eq(buffers[0]->start[0], compressed[0]);
        cr_assert_eq(pk_frame_read_length(buffers[0]->start), length);
    }
    if (tail.length > 0)
        cr_assert_eq(memcmp(buffers[0]->end - tail.length, tail.bytes, tail.length), 0);
    for (size_t i = 0; i < 3; i++)
        pk_buffer_unref(buffers[i]);
}

Test(marshal, every_way_gives_the_same_bytes_on_both_wires, .init = set_up, .fini = tear_down,
     .timeout = 60)
{
    static const size_t sizes[] = {0, 1, 511, 512, 513, 1024, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1};
    uint8_t *bytes = sample(8 * MIB + 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        pk_slice raw = {bytes, size};
        Google__Protobuf__BytesValue value = bytes_value(bytes, size);
        /* No compression, then the threshold at, one below and one above the length; then 0. */
        const size_t thresholds[] = {SIZE_MAX, size, size - 1, size + 1, 0};
        size_t settings = size > MIB ? 4 : 5;
        for (size_t j = 0; j < settings; j++) {
            fixture.encoding.compressor = j == 0 ? NULL : &pk_compressor_gzip;
            fixture.encoding.compress_min_bytes = thresholds[j];
            for (int wire = 0; wire < 2; wire++) {
                compare_ways(&pk_codec_bytes, &raw, wire, no_tail);
                if (size <= MIB || j < 2) /* a large one takes a while */
                    compare_ways(&pk_codec_proto, &value, wire, no_tail);
            }
            if (size <= MIB || j < 2)
                compare_ways(&pk_codec_bytes, &raw, true, PK_SLICE("the tail"));
        }
    }
    free(bytes);
}

Test(marshal, the_prefix_and_the_message_are_what_the_specification_says, .init = set_up,
     .fini = tear_down)
{
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_buffer *buffer;
    bool compressed;
    pk_status status;
    cr_assert_eq(marshal(&value, true, PK_SLICE("!"), &buffer, &compressed, &status), 0);
    cr_expect_eq(pk_buffer_length(buffer), 11);
    /* Field 1, wire type 2, three bytes (protobuf's encoding.md). */
    cr_expect_eq(memcmp(buffer->start,
                        "\0\0\0\0\x05\x0a\x03"
                        "abc!",
                        11),
                 0);
    cr_expect_not(compressed);
    pk_buffer_unref(buffer);
    cr_assert_eq(marshal(&value, false, no_tail, &buffer, &compressed, &status), 0);
    cr_expect_eq(pk_buffer_length(buffer), 5);
    pk_buffer_unref(buffer);
}

/* ---- PoolInvariants ---- */

Test(marshal, no_message_writes_nothing_and_an_empty_one_five_zero_bytes, .init = set_up,
     .fini = tear_down)
{
    Google__Protobuf__BytesValue empty = bytes_value("", 0);
    pk_buffer *buffer;
    bool compressed = true;
    pk_status status;
    for (int wire = 0; wire < 2; wire++) {
        cr_assert_eq(marshal(NULL, wire, no_tail, &buffer, &compressed, &status), 0);
        cr_expect_null(buffer);
        cr_expect_not(compressed);
        cr_assert_eq(marshal(NULL, wire, PK_SLICE("tail"), &buffer, &compressed, &status), 0);
        cr_expect_eq(pk_buffer_length(buffer), 4);
        pk_buffer_unref(buffer);
        fixture.encoding.compressor = &pk_compressor_gzip;
        fixture.encoding.compress_min_bytes = 0;
        cr_assert_eq(marshal(&empty, wire, no_tail, &buffer, &compressed, &status), 0);
        cr_expect_eq(pk_buffer_length(buffer), wire ? 5 : 0);
        cr_expect_eq(memcmp(buffer->start, "\0\0\0\0\0", wire ? 5 : 0), 0);
        pk_buffer_unref(buffer);
    }
    buffer = pk_buffer_get(&fixture.pool);
    cr_expect_eq(pk_buffer_length(buffer), 0);
    cr_expect_geq(buffer->capacity, 512);
    cr_assert_eq(pk_buffer_prepend(buffer, "abc", 3), 0);
    pk_buffer_unref(buffer);
    buffer = pk_buffer_get(&fixture.pool);
    cr_expect_eq(pk_buffer_length(buffer), 0);
    pk_buffer_unref(buffer);
}

Test(marshal, only_what_gets_smaller_is_compressed, .init = set_up, .fini = tear_down)
{
    static const uint8_t noise[64] = "0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kPlOmNnMoLpKqJrIsHtGuFvEwDxCy";
    pk_slice raw[] = {{noise, 60},
                      {(const uint8_t *) "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 42}};
    pk_buffer *buffer;
    bool compressed;
    pk_status status;
    fixture.encoding.codec = &pk_codec_bytes;
    fixture.encoding.compressor = &pk_compressor_gzip;
    fixture.encoding.compress_min_bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(marshal(&raw[i], true, no_tail, &buffer, &compressed, &status), 0);
        cr_expect_eq(compressed, i == 1);
        cr_expect_eq(buffer->start[0], i);
        if (i == 0)
            cr_expect_eq(memcmp(buffer->start + 5, noise, 60), 0);
        else
            cr_expect_lt(pk_buffer_length(buffer), 42);
        pk_buffer_unref(buffer);
    }
    /* Length >= minimum, to the byte. */
    for (size_t minimum = 41; minimum <= 43; minimum++) {
        fixture.encoding.compress_min_bytes = minimum;
        cr_assert_eq(marshal(&raw[1], true, no_tail, &buffer, &compressed, &status), 0);
        cr_expect_eq(compressed, minimum <= 42, "%zu", minimum);
        pk_buffer_unref(buffer);
    }
}

/* ---- BackupCodecFallback, ErrorGuard ---- */

static unsigned called;

static int failing_prepend(const pk_codec *self, const pk_message_type *type, const void *message,
                           pk_buffer *buffer)
{
    called++;
    return PK_ERR_INVALID;
}

static int failing_marshal(const pk_codec *self, const pk_message_type *type, const void *message,
                           pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length)
{
    called++;
    return PK_ERR_INVALID;
}

static int failing_decode(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                          pk_arena *arena, const void **ret_message, const char **ret_reason)
{
    called++;
    *ret_reason = "as it was told to";
    return PK_ERR_MALFORMED;
}

static const pk_codec failing = {.name = "failing",
                                 .prepend = failing_prepend,
                                 .marshal = failing_marshal,
                                 .decode = failing_decode};
static const pk_codec failing_slowly = {
    .name = "failing", .marshal = failing_marshal, .decode = failing_decode};
static const pk_codec failing_too = {.name = "too",
                                     .prepend = failing_prepend,
                                     .marshal = failing_marshal,
                                     .decode = failing_decode};

Test(marshal, a_backup_codec_is_tried_once, .init = set_up, .fini = tear_down)
{
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_codec proto_by_that_name = pk_codec_proto;
    proto_by_that_name.name = "failing";
    const struct {
        const pk_codec *backup;
        int result;
        unsigned calls; /* of failing codecs */
    } rows[] = {
        {&pk_codec_proto, 0, 1},
        {NULL, PK_ERR_INVALID, 1},
        {&proto_by_that_name, PK_ERR_INVALID, 1},
        {&failing, PK_ERR_INVALID, 1},
        {&failing_too, PK_ERR_INVALID, 2},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        size_t row = i / 2;
        pk_buffer *buffer = NULL;
        bool compressed;
        pk_status status = {.code = PK_OK};
        called = 0;
        fixture.encoding.codec = i % 2 ? &failing_slowly : &failing;
        fixture.encoding.backup = rows[row].backup;
        int r = marshal(&value, true, no_tail, &buffer, &compressed, &status);
        cr_expect_eq(r, rows[row].result, "row %zu", row);
        cr_expect_eq(called, rows[row].calls, "row %zu", row);
        if (r == 0)
            cr_expect_eq(memcmp(buffer->start,
                                "\0\0\0\0\x05\x0a\x03"
                                "abc",
                                10),
                         0);
        else
            cr_expect_eq(status.code, PK_INTERNAL);
        cr_expect_eq(fixture.pool.lent, r == 0);
        pk_buffer_unref(buffer);

        /* And the other direction. */
        const void *message = NULL;
        called = 0;
        status.code = PK_OK;
        r = pk_unmarshal(fixture.encoding.codec, rows[row].backup, bytes_value_type(),
                         PK_SLICE("\x0a\x01z"), &fixture.arena, &message, &status);
        cr_expect_eq(called, rows[row].calls, "row %zu", row);
        cr_expect_eq(r == 0, rows[row].result == 0, "row %zu", row);
        if (r == 0)
            cr_expect_eq(((const Google__Protobuf__BytesValue *) message)->value.data[0], 'z');
        else
            cr_expect_eq(status.code, row == 4 ? PK_INVALID_ARGUMENT : PK_INTERNAL, "row %zu", row);
    }
}

Test(marshal, a_message_of_another_type_is_an_error_on_every_way, .init = set_up, .fini = tear_down)
{
    Google__Protobuf__StringValue other = GOOGLE__PROTOBUF__STRING_VALUE__INIT;
    pk_codec slow = only(&pk_codec_proto, false, false);
    const pk_codec *const ways[] = {&pk_codec_proto, &slow};
    for (size_t i = 0; i < 2; i++) {
        pk_buffer *buffer = NULL;
        bool compressed;
        pk_status status;
        fixture.encoding.codec = ways[i];
        cr_expect_eq(marshal(&other, true, no_tail, &buffer, &compressed, &status), PK_ERR_INVALID);
        cr_expect_eq(status.code, PK_INTERNAL);
        cr_expect_not_null(
            memmem(status.message.bytes, status.message.length, "google.protobuf.BytesValue", 26));
        cr_expect_null(buffer);
        cr_expect_eq(fixture.pool.lent, 0);
    }
}

Test(marshal, bytes_that_are_no_message_are_internal, .init = set_up, .fini = tear_down)
{
    const void *message = NULL;
    pk_status status;
    cr_expect_eq(pk_unmarshal(&pk_codec_proto, NULL, bytes_value_type(), PK_SLICE("\x0a\x05z"),
                              &fixture.arena, &message, &status),
                 PK_ERR_MALFORMED);
    cr_expect_eq(status.code, PK_INTERNAL);
    cr_expect_null(message);
    cr_assert_eq(pk_unmarshal(&pk_codec_bytes, NULL, NULL, PK_SLICE("\x0a\x05z"), &fixture.arena,
                              &message, &status),
                 0);
    const pk_slice *raw = message;
    cr_expect(slice_is(*raw, "\x0a\x05z"));
}

/* ---- CompressionAndMaxBytes ---- */

Test(marshal, a_message_at_the_send_limit_passes_and_one_above_is_refused, .init = set_up,
     .fini = tear_down)
{
    uint8_t *bytes = sample(2000);
    pk_slice raw = {bytes, 2000};
    pk_codec ways[3] = {only(&pk_codec_bytes, true, false), only(&pk_codec_bytes, false, true),
                        only(&pk_codec_bytes, false, false)};
    for (size_t i = 0; i < 12; i++) {
        bool enveloped = i % 2, compress = i / 2 % 2, compressed = false;
        pk_buffer *buffer;
        pk_status status;
        fixture.encoding.codec = &ways[i / 4];
        fixture.encoding.compressor = compress ? &pk_compressor_gzip : NULL;
        fixture.encoding.send_limit = 0;
        cr_assert_eq(marshal(&raw, enveloped, no_tail, &buffer, &compressed, &status), 0);
        cr_expect_eq(compressed, compress);
        size_t length = pk_buffer_length(buffer) - (enveloped ? 5 : 0);
        cr_expect_eq(compress, length < 2000);
        pk_buffer_unref(buffer);

        fixture.encoding.send_limit = length;
        cr_assert_eq(marshal(&raw, enveloped, no_tail, &buffer, &compressed, &status), 0);
        pk_buffer_unref(buffer);

        char numbers[2][32];
        sprintf(numbers[0], "%zu", length);
        sprintf(numbers[1], "%zu", length - 1);
        fixture.encoding.send_limit = length - 1;
        buffer = NULL;
        cr_assert_eq(marshal(&raw, enveloped, no_tail, &buffer, &compressed, &status),
                     PK_ERR_LIMIT);
        cr_expect_null(buffer);
        cr_expect_eq(fixture.pool.lent, 0);
        cr_expect_eq(status.code, PK_RESOURCE_EXHAUSTED);
        for (size_t j = 0; j < 2; j++)
            cr_expect_not_null(memmem(status.message.bytes, status.message.length, numbers[j],
                                      strlen(numbers[j])));
    }
    free(bytes);
}

/* ---- LargeBufferDropped ---- */

Test(marshal, a_buffer_above_8_mib_is_never_handed_out_again, .init = set_up, .fini = tear_down)
{
    uint8_t *bytes = sample(9 * MIB);
    pk_slice large = {bytes, 9 * MIB}, small = {bytes, 1};
    pk_buffer *buffer;
    bool compressed;
    pk_status status;
    fixture.encoding.codec = &pk_codec_bytes;
    cr_assert_eq(marshal(&large, true, no_tail, &buffer, &compressed, &status), 0);
    cr_expect_gt(buffer->capacity, 8 * MIB);
    pk_buffer_unref(buffer);
    cr_expect_lt(fixture.counts.bytes, MIB);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(marshal(&small, true, no_tail, &buffer, &compressed, &status), 0);
        cr_expect_leq(buffer->capacity, 8 * MIB);
        cr_expect_eq(pk_buffer_length(buffer), 6);
        cr_expect_eq(memcmp(buffer->start, "\0\0\0\0\x01\0", 6), 0);
        pk_buffer_unref(buffer);
    }
    free(bytes);
}

/* ---- ConcurrentSend: loops share codecs, compressors and nothing else ---- */

struct sender {
    pthread_t thread;
    unsigned seed;
    size_t wrong;
};

static void *send_many(void *arg)
{
    struct sender *sender = arg;
    marshalling_fixture own;
    uint8_t *bytes = sample(5000);
    fixture_init(&own);
    own.encoding.compressor = sender->seed % 2 ? &pk_compressor_gzip : &pk_compressor_deflate;
    for (size_t i = 0; i < 300; i++) {
        size_t length = (i * 37 + sender->seed * 101) % 5000;
        Google__Protobuf__BytesValue value = bytes_value(bytes, length);
        pk_buffer *buffer = NULL, *plain = pk_buffer_get(&own.pool);
        bool compressed = false;
        pk_status status;
        if (pk_marshal(&own.encoding, bytes_value_type(), &value, &envelope, no_tail, &buffer,
                       &compressed, &status) < 0) {
            sender->wrong++;
            continue;
        }
        pk_slice payload = {buffer->start + 5, pk_buffer_length(buffer) - 5};
        pk_buffer_rewind_for_append(plain, 0);
        if (compressed) {
            sender->wrong += pk_decompress(&own.marshalling.compressors, own.encoding.compressor,
                                           payload, 6000, plain) < 0;
            payload = (pk_slice){plain->start, pk_buffer_length(plain)};
        }
        const void *message = NULL;
        if (pk_unmarshal(&pk_codec_proto, NULL, bytes_value_type(), payload, &own.arena, &message,
                         &status) < 0) {
            sender->wrong++;
        } else {
            const Google__Protobuf__BytesValue *back = message;
            sender->wrong += back->value.len != length || buffer->start[0] != compressed ||
                             memcmp(back->value.data, bytes, length) != 0;
        }
        pk_buffer_unref(buffer);
        pk_buffer_unref(plain);
        pk_arena_reset(&own.arena);
    }
    sender->wrong += fixture_done(&own);
    free(bytes);
    return NULL;
}

Test(marshal, loops_do_not_disturb_each_other, .timeout = 60)
{
    struct sender senders[4] = {{.seed = 1}, {.seed = 2}, {.seed = 3}, {.seed = 4}};
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(senders[i].thread, NULL);
        cr_expect_eq(senders[i].wrong, 0);
    }
}

/* ---- TypeGuard ---- */

Test(marshal, only_codecs_that_write_their_marshalled_bytes_in_place_offer_it)
{
    cr_expect_not_null(pk_codec_proto.prepend);
    cr_expect_not_null(pk_codec_bytes.prepend);
    cr_expect_not_null(pk_codec_bytes.append);
    cr_expect_not_null(pk_codec_proto.marshal);
    cr_expect_not_null(pk_codec_bytes.marshal);
}

/* ---- Memory ---- */

Test(marshal, nothing_is_allocated_in_steady_state, .init = set_up, .fini = tear_down)
{
    static const size_t sizes[] = {128, 1024, 16384, 100000};
    uint8_t *bytes = sample(100000);
    pk_codec forward = only(&pk_codec_bytes, false, true);
    for (int round = 0; round < 6; round++) {
        size_t before = fixture.counts.requests;
        for (size_t i = 0; i < 4 * 2 * 2; i++) {
            Google__Protobuf__BytesValue value = bytes_value(bytes, sizes[i % 4]);
            pk_slice raw = {bytes, sizes[i % 4]};
            bool compressed, other;
            pk_buffer *buffer[2];
            pk_status status;
            fixture.encoding.compressor = i / 4 % 2 ? &pk_compressor_gzip : NULL;
            fixture.encoding.compress_min_bytes = 0;
            fixture.encoding.codec = &pk_codec_proto;
            cr_assert_eq(marshal(&value, i / 8, no_tail, &buffer[0], &compressed, &status), 0);
            fixture.encoding.codec = &forward;
            cr_assert_eq(marshal(&raw, i / 8, no_tail, &buffer[1], &other, &status), 0);
            pk_buffer_unref(buffer[0]);
            pk_buffer_unref(buffer[1]);
        }
        if (round > 2)
            cr_expect_eq(fixture.counts.requests, before);
    }
    free(bytes);
}

Test(marshal, each_allocation_may_fail)
{
    uint8_t *bytes = sample(3000);
    Google__Protobuf__BytesValue value = bytes_value(bytes, 3000);
    for (size_t way = 0; way < 4; way++) {
        pk_codec slow = only(&pk_codec_proto, false, false);
        bool finished = false;
        for (size_t fail_at = 1; !finished; fail_at++) {
            fixture_init(&fixture);
            fixture.counts.fail_at = fail_at;
            fixture.counts.fail_after = fail_at % 2;
            fixture.encoding.codec = way % 2 ? &slow : &pk_codec_proto;
            fixture.encoding.compressor = way / 2 ? &pk_compressor_gzip : NULL;
            pk_buffer *buffer = NULL;
            bool compressed;
            pk_status status;
            int r = marshal(&value, true, PK_SLICE("tail"), &buffer, &compressed, &status);
            cr_assert(r == 0 || (r == PK_ERR_NOMEM && status.code == PK_RESOURCE_EXHAUSTED));
            finished = fixture.counts.requests < fail_at;
            cr_expect(!finished || r == 0);
            pk_buffer_unref(buffer);
            cr_assert_eq(fixture_done(&fixture), 0);
            cr_assert_lt(fail_at, 100);
        }
    }
    free(bytes);
}
