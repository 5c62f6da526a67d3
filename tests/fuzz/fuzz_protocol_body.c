/*
 * marshalling/protocol_body.c: any body in any protocol comes to the same however it is cut. The
 * first byte of the input chooses protocol and compressor, the second the size of the pieces.
 */
#include "marshalling/protocol.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 5000u

static pk_memory memory;
static pk_buffer_pool pool;
static pk_marshalling marshalling;

struct outcome {
    uint64_t hash; /* of all messages and trailers */
    uint64_t messages;
    int error;
    pk_code code;
};

static void add(struct outcome *outcome, pk_slice bytes)
{
    outcome->hash = (outcome->hash ^ bytes.length) * UINT64_C(1099511628211);
    for (size_t i = 0; i < bytes.length; i++)
        outcome->hash = (outcome->hash ^ bytes.bytes[i]) * UINT64_C(1099511628211);
}

/* Feeds a chunk, and the first message of it; `short_cuts`: as the reader of a stream does. */
static int feed(pk_body_reader *reader, const uint8_t *bytes, size_t length, bool short_cuts,
                pk_body_message *ret_message)
{
    int r = PK_ERR_STATE;
    if (short_cuts)
        r = pk_body_reader_feed_short(reader, bytes, length, ret_message);
    if (r == PK_ERR_STATE)
        r = pk_body_reader_feed(reader, bytes, length, NULL);
    else
        return r;
    return r < 0 ? r : pk_body_reader_next(reader, ret_message);
}

static int next(pk_body_reader *reader, bool short_cuts, pk_body_message *ret_message)
{
    int r = short_cuts ? pk_body_reader_next_plainly(reader, ret_message) : PK_ERR_STATE;
    return r == PK_ERR_STATE ? pk_body_reader_next(reader, ret_message) : r;
}

static struct outcome read_all(unsigned choice, const uint8_t *bytes, size_t size, size_t piece,
                               bool short_cuts)
{
    static const pk_protocol *const protocols[] = {&pk_protocol_grpc, &pk_protocol_grpc_web,
                                                   &pk_protocol_grpc_web_text, &pk_protocol_grpc};
    static const pk_compressor *const compressors[] = {NULL, &pk_compressor_gzip,
                                                       &pk_compressor_deflate, NULL};
    struct outcome outcome = {0};
    pk_arena arena;
    pk_body_reader reader;
    pk_body_message message;
    int r = 0;
    pk_arena_init(&arena, &memory, 0);
    pk_body_reader_init(&reader, protocols[choice & 3], &marshalling, &arena,
                        compressors[choice >> 2 & 3], LIMIT, choice >> 4 & 3);
    if (choice & 0x40) {
        const pk_field named = {.name = PK_SLICE("grpc-encoding"), .value = PK_SLICE("zstd")};
        pk_head head = {.fields = &named, .count = 1};
        head.first[PK_FIELD_GRPC_ENCODING] = choice & 0x80 ? 1 : 0;
        pk_body_reader_set_raw(&reader, &head);
    }
    for (size_t at = 0; at < size && r >= 0; at += piece) {
        size_t now = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(now);
        if (!exact)
            abort();
        memcpy(exact, bytes + at, now);
        r = feed(&reader, exact, now, short_cuts, &message);
        for (; r > 0; r = next(&reader, short_cuts, &message)) {
            if (message.bytes.length > LIMIT)
                abort();
            add(&outcome, message.bytes);
        }
        free(exact);
    }
    if (r >= 0)
        r = pk_body_reader_end(&reader);
    for (size_t i = 0; i < reader.trailers.count; i++) {
        add(&outcome, reader.trailers.fields[i].name);
        add(&outcome, reader.trailers.fields[i].value);
    }
    outcome.messages = reader.messages;
    outcome.error = r;
    outcome.code = r < 0 ? reader.status.code : PK_OK;
    pk_body_reader_done(&reader);
    pk_arena_done(&arena);
    if (pool.lent != 0)
        abort();
    return outcome;
}

/* Sanitizers take what only poisoned blocks point to for leaked. */
static void stop(void)
{
    pk_marshalling_done(&marshalling);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    if (!started) {
        if (pk_memory_init(&memory, NULL) < 0)
            abort();
        pk_buffer_pool_init(&pool, &memory);
        pk_marshalling_init(&marshalling, &memory, &pool);
        started = true;
        atexit(stop);
    }
    if (size < 2)
        return 0;
    size_t piece = data[1] % 16u + 1;
    struct outcome whole = read_all(data[0], data + 2, size - 2, size, false);
    for (int short_cuts = 0; short_cuts < 2; short_cuts++) {
        struct outcome cut = read_all(data[0], data + 2, size - 2, piece, short_cuts);
        if (whole.hash != cut.hash || whole.messages != cut.messages || whole.error != cut.error ||
            whole.code != cut.code)
            abort();
    }
    return 0;
}
