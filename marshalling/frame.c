/* Frames out of chunks: see frame.h. */
#include "marshalling/frame.h"

#include <string.h>

void pk_frame_reader_init(pk_frame_reader *reader, pk_buffer_pool *pool, size_t limit,
                          uint8_t allowed_flags)
{
    *reader = (pk_frame_reader){.pool = pool, .limit = limit, .allowed = allowed_flags};
}

/* Lets go of the chunk, which is used up. */
static void drop_chunk(pk_frame_reader *reader)
{
    if (reader->kept)
        pk_buffer_unref(reader->holder);
    reader->kept = false;
    reader->holder = NULL;
}

void pk_frame_reader_done(pk_frame_reader *reader)
{
    drop_chunk(reader);
    reader->at = reader->end = NULL;
    reader->gathered = pk_buffer_unref(reader->gathered);
}

int pk_frame_reader_feed(pk_frame_reader *reader, const uint8_t *bytes, size_t length,
                         pk_buffer *holder)
{
    if (reader->at != reader->end)
        return PK_ERR_STATE;
    drop_chunk(reader);
    reader->at = bytes;
    reader->end = bytes + length;
    reader->holder = holder;
    return 0;
}

static int fail(pk_frame_reader *reader, int error)
{
    reader->error = error;
    return error;
}

/* Completes the prefix from the chunk. 1 when it is complete, 0 when bytes are missing. */
static int read_prefix(pk_frame_reader *reader)
{
    size_t missing = PK_FRAME_PREFIX - reader->prefix_length;
    size_t left = (size_t) (reader->end - reader->at);
    size_t taken = left < missing ? left : missing;
    if (taken == 0)
        return 0;
    memcpy(reader->prefix + reader->prefix_length, reader->at, taken);
    reader->at += taken;
    reader->prefix_length = (uint8_t) (reader->prefix_length + taken);
    if (taken < missing)
        return 0;
    reader->length = pk_frame_read_length(reader->prefix);
    if (reader->prefix[0] & ~reader->allowed)
        return fail(reader, PK_ERR_MALFORMED);
    return reader->length > reader->limit ? fail(reader, PK_ERR_LIMIT) : 1;
}

/*
 * Takes what the chunk has of the payload into the reader's own buffer. The buffer grows with what
 * has come and not with what the prefix promises. 1 when the payload is complete.
 */
static int gather(pk_frame_reader *reader)
{
    if (!reader->gathered) {
        reader->gathered = pk_buffer_get(reader->pool);
        if (!reader->gathered)
            return fail(reader, PK_ERR_NOMEM);
        pk_buffer_rewind_for_append(reader->gathered, PK_FRAME_PREFIX); /* for who passes it on */
    }
    size_t missing = reader->length - pk_buffer_length(reader->gathered);
    size_t left = (size_t) (reader->end - reader->at);
    size_t taken = left < missing ? left : missing;
    if (pk_buffer_append(reader->gathered, reader->at, taken) < 0)
        return fail(reader, PK_ERR_NOMEM);
    reader->at += taken;
    if (taken < missing)
        return 0;
    if (pk_buffer_room_after(reader->gathered, PK_FRAME_PADDING) < 0)
        return fail(reader, PK_ERR_NOMEM);
    return 1;
}

int pk_frame_reader_next_slowly(pk_frame_reader *reader, pk_frame *ret_frame)
{
    if (PK_UNLIKELY(reader->error))
        return reader->error;
    if (reader->prefix_length == 0 && reader->gathered)
        reader->gathered = pk_buffer_unref(reader->gathered); /* the frame before this one */
    if (reader->at == reader->end) {
        drop_chunk(reader);
        return 0;
    }
    if (reader->prefix_length < PK_FRAME_PREFIX) {
        int r = read_prefix(reader);
        if (r <= 0)
            return r;
    }
    pk_frame frame = {.flags = reader->prefix[0]};
    if (!reader->gathered && (size_t) (reader->end - reader->at) >= reader->length) {
        frame.payload = (pk_slice){reader->at, reader->length};
        frame.holder = reader->holder;
        reader->at += reader->length;
    } else {
        int r = gather(reader);
        if (r <= 0)
            return r;
        frame.payload = (pk_slice){reader->gathered->start, reader->length};
        frame.holder = reader->gathered;
        frame.gathered = true;
    }
    reader->prefix_length = 0;
    *ret_frame = frame;
    return 1;
}

size_t pk_frame_reader_take_alike(pk_frame_reader *reader, uint8_t flags, size_t most)
{
    const uint8_t *at = reader->at;
    size_t left = (size_t) (reader->end - at), count = 0;
    if (left > most)
        left = most;
    while (left >= PK_FRAME_PREFIX && at[0] == flags) {
        uint32_t length = pk_frame_read_length(at);
        if (length > left - PK_FRAME_PREFIX || length > reader->limit)
            break;
        at += PK_FRAME_PREFIX + length;
        left -= PK_FRAME_PREFIX + length;
        count++;
    }
    reader->at = at;
    return count;
}

int pk_frame_reader_keep(pk_frame_reader *reader)
{
    size_t left = pk_frame_reader_left(reader);
    if (left == 0 || reader->kept || reader->error)
        return 0;
    if (reader->holder) {
        pk_buffer_ref(reader->holder);
        reader->kept = true;
        return 0;
    }
    pk_buffer *copy = pk_buffer_get(reader->pool);
    if (!copy || pk_buffer_prepend(copy, reader->at, left) < 0) {
        pk_buffer_unref(copy);
        return fail(reader, PK_ERR_NOMEM);
    }
    reader->at = copy->start;
    reader->end = copy->end;
    reader->holder = copy;
    reader->kept = true;
    return 0;
}
