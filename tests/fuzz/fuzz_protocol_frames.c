/*
 * marshalling/protocol_frames.c: runs of frames out of any body come to the same bytes however that
 * is cut, and are what a writer takes. The first byte of the input chooses the protocol and whether
 * an encoding was named, the second the size of the pieces.
 */
#include "marshalling/protocol.h"
#include "marshalling/protocol_frames.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 5000u

static pk_memory memory;
static pk_buffer_pool pool;
static pk_marshalling marshalling;

struct outcome {
    uint64_t hash; /* of all frames */
    uint64_t messages;
    int error;
    pk_code code;
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* One run: what it says, cut into its messages. */
static void take_run(struct outcome *outcome, const pk_encoding *encoding, pk_slice frames,
                     size_t count, bool compressed)
{
    pk_status status;
    pk_slice left = frames, message;
    size_t cut = 0;
    check(pk_frames_check(encoding, frames, count, compressed, &status) == 0);
    while (pk_frames_cut(&left, &message)) {
        check(message.length <= LIMIT);
        cut++;
    }
    check(cut == count && (count == 1 || frames.length <= PK_FRAMES_MOST));
    for (size_t i = 0; i < frames.length; i++)
        outcome->hash = (outcome->hash ^ frames.bytes[i]) * UINT64_C(1099511628211);
    outcome->messages += count;
}

static struct outcome read_all(unsigned choice, const uint8_t *bytes, size_t size, size_t piece)
{
    static const pk_protocol *const protocols[] = {&pk_protocol_grpc, &pk_protocol_grpc_web,
                                                   &pk_protocol_grpc_web_text, &pk_protocol_grpc};
    const pk_field named = {.name = PK_SLICE("grpc-encoding"), .value = PK_SLICE("zstd")};
    pk_head head = {.fields = &named, .count = 1};
    struct outcome outcome = {0};
    pk_arena arena;
    pk_body_reader reader;
    pk_body_message message;
    int r = 0;
    pk_arena_init(&arena, &memory, 0);
    const pk_encoding encoding = {
        .marshalling = &marshalling, .arena = &arena, .send_limit = LIMIT};
    head.first[PK_FIELD_GRPC_ENCODING] = choice & 4 ? 1 : 0;
    pk_body_reader_init(&reader, protocols[choice & 3], &marshalling, &arena, NULL, LIMIT,
                        choice & 8 ? PK_BODY_RESPONSE : PK_BODY_REQUEST);
    pk_body_reader_set_raw(&reader, &head);
    for (size_t at = 0; at < size && r >= 0; at += piece) {
        size_t now = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(now);
        check(exact != NULL);
        memcpy(exact, bytes + at, now);
        r = pk_body_reader_feed(&reader, exact, now, NULL);
        while (r >= 0 && (r = pk_body_reader_next(&reader, &message)) > 0) {
            size_t count;
            pk_buffer *run;
            check(pk_frames_collect(&reader, &message, &count, &run) == 0);
            take_run(&outcome, &encoding, (pk_slice){run->start, pk_buffer_length(run)}, count,
                     message.compressed);
            pk_buffer_unref(run);
        }
        free(exact);
    }
    if (r >= 0)
        r = pk_body_reader_end(&reader);
    check(outcome.messages == reader.messages);
    outcome.error = r;
    outcome.code = r < 0 ? reader.status.code : PK_OK;
    pk_body_reader_done(&reader);
    pk_arena_done(&arena);
    check(pool.lent == 0);
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
        check(pk_memory_init(&memory, NULL) == 0);
        pk_buffer_pool_init(&pool, &memory);
        pk_marshalling_init(&marshalling, &memory, &pool);
        started = true;
        atexit(stop);
    }
    if (size < 2)
        return 0;
    struct outcome whole = read_all(data[0], data + 2, size - 2, size);
    struct outcome cut = read_all(data[0], data + 2, size - 2, data[1] % 16u + 1);
    check(whole.hash == cut.hash && whole.messages == cut.messages && whole.error == cut.error &&
          whole.code == cut.code);
    return 0;
}
