/*
 * marshalling/frame.c: frames of any bytes are the same however the bytes are cut. The first byte
 * of the input is the size of the pieces, and says whether what is left of one is kept.
 */
#include "marshalling/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 5000u

struct outcome {
    uint64_t hash; /* of all frames */
    size_t frames;
    int error;
    bool inside;
};

static void add(struct outcome *outcome, const pk_frame *frame)
{
    outcome->frames++;
    outcome->hash = (outcome->hash ^ frame->flags) * UINT64_C(1099511628211);
    for (size_t i = 0; i < frame->payload.length; i++)
        outcome->hash = (outcome->hash ^ frame->payload.bytes[i]) * UINT64_C(1099511628211);
    if (frame->payload.length > LIMIT || frame->flags > 1)
        abort();
}

static struct outcome read_all(pk_buffer_pool *pool, const uint8_t *bytes, size_t size,
                               size_t piece, bool keep)
{
    struct outcome outcome = {0};
    pk_frame_reader reader;
    pk_frame_reader_init(&reader, pool, LIMIT, 1);
    for (size_t at = 0; at < size && outcome.error == 0; at += piece) {
        size_t now = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(now);
        if (!exact)
            abort();
        memcpy(exact, bytes + at, now);
        if (pk_frame_reader_feed(&reader, exact, now, NULL) < 0 ||
            (keep && pk_frame_reader_keep(&reader) < 0))
            abort();
        if (keep)
            memset(exact, 0xee, now);
        pk_frame frame;
        int r;
        while ((r = pk_frame_reader_next(&reader, &frame)) > 0)
            add(&outcome, &frame);
        outcome.error = r;
        free(exact);
    }
    outcome.inside = pk_frame_reader_inside(&reader);
    pk_frame_reader_done(&reader);
    if (pool->lent != 0)
        abort();
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_memory memory;
    pk_buffer_pool pool;
    if (size == 0 || pk_memory_init(&memory, NULL) < 0)
        return 0;
    pk_buffer_pool_init(&pool, &memory);
    struct outcome whole = read_all(&pool, data + 1, size - 1, size, false);
    struct outcome cut = read_all(&pool, data + 1, size - 1, data[0] % 16u + 1, data[0] >= 128);
    if (whole.hash != cut.hash || whole.frames != cut.frames || whole.error != cut.error ||
        whole.inside != cut.inside)
        abort();
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
