/* Runs of whole frames: see protocol_frames.h. */
#include "marshalling/protocol_frames.h"

#include "core/status.h"
#include "marshalling/protocol_flags.h"

#include <string.h>

static uint8_t flags_of(bool compressed)
{
    return compressed ? PK_FRAME_COMPRESSED : 0;
}

/* A buffer for `length` bytes, front to back: a large one only where that fills it. */
static pk_buffer *buffer_for(pk_buffer_pool *pool, size_t length)
{
    bool block = length > PK_BUFFER_BLOCK / 4 && length <= PK_BUFFER_BLOCK;
    pk_buffer *buffer = block ? pk_buffer_get_block(pool) : pk_buffer_get(pool);
    if (!buffer)
        return NULL;
    pk_buffer_rewind_for_append(buffer, 0);
    return pk_buffer_room_after_exactly(buffer, length) < 0 ? pk_buffer_unref(buffer) : buffer;
}

/* ---- From a reader ---- */

static void append(pk_buffer *buffer, pk_slice bytes)
{
    if (bytes.length > 0)
        memcpy(buffer->end, bytes.bytes, bytes.length);
    buffer->end += bytes.length;
}

/* What a message with its prefix, and the frames `rest` behind it, come to. */
static int copy_with_prefix(pk_buffer_pool *pool, bool compressed, pk_slice message, pk_slice rest,
                            pk_buffer **ret_buffer)
{
    size_t length = PK_FRAME_PREFIX + message.length + rest.length;
    pk_buffer *buffer = message.length <= UINT32_MAX ? buffer_for(pool, length) : NULL;
    if (!buffer)
        return PK_ERR_NOMEM;
    pk_frame_write_prefix(buffer->end, flags_of(compressed), (uint32_t) message.length);
    buffer->end += PK_FRAME_PREFIX;
    append(buffer, message);
    append(buffer, rest);
    *ret_buffer = buffer;
    return 0;
}

int pk_frames_collect(pk_body_reader *reader, const pk_body_message *first, size_t *ret_count,
                      pk_buffer **ret_buffer)
{
    size_t length = first->bytes.length, count = 1;
    if (first->owned) {
        pk_buffer *buffer = first->holder;
        if (pk_buffer_room_before(buffer, PK_FRAME_PREFIX) < 0)
            return PK_ERR_NOMEM;
        buffer->start -= PK_FRAME_PREFIX;
        pk_frame_write_prefix(buffer->start, flags_of(first->compressed), (uint32_t) length);
        *ret_buffer = pk_buffer_ref(buffer);
        *ret_count = 1;
        return 0;
    }
    /* The first may lie in the reader; the others lie in the chunk. */
    pk_slice rest = {reader->frames.at, 0};
    if (length + PK_FRAME_PREFIX < PK_FRAMES_MOST)
        count += pk_frame_reader_take_alike(&reader->frames, flags_of(first->compressed),
                                            PK_FRAMES_MOST - PK_FRAME_PREFIX - length);
    if (count > 1)
        rest.length = (size_t) (reader->frames.at - rest.bytes);
    reader->messages += count - 1;
    int r = copy_with_prefix(reader->marshalling->buffers, first->compressed, first->bytes, rest,
                             ret_buffer);
    if (r == 0)
        *ret_count = count;
    return r;
}

int pk_frames_copy_message(pk_buffer_pool *pool, pk_slice message, bool compressed,
                           pk_buffer **ret_buffer)
{
    return copy_with_prefix(pool, compressed, message, (pk_slice){NULL, 0}, ret_buffer);
}

/* ---- To a writer ---- */

int pk_frames_copy(pk_buffer_pool *pool, pk_slice frames, pk_buffer **ret_buffer)
{
    pk_buffer *buffer = buffer_for(pool, frames.length);
    if (!buffer)
        return PK_ERR_NOMEM;
    memcpy(buffer->end, frames.bytes, frames.length);
    buffer->end += frames.length;
    *ret_buffer = buffer;
    return 0;
}

int pk_frames_check(const pk_encoding *encoding, pk_slice frames, size_t count, bool compressed,
                    pk_status *ret_status)
{
    const uint8_t flags = flags_of(compressed), *at = frames.bytes;
    size_t limit = encoding->send_limit ? encoding->send_limit : SIZE_MAX;
    size_t left = frames.length, found = 0;
    while (left >= PK_FRAME_PREFIX && at[0] == flags) {
        size_t length = pk_frame_read_length(at);
        if (length > left - PK_FRAME_PREFIX)
            break;
        if (PK_UNLIKELY(length > limit)) {
            *ret_status = pk_status_print(
                encoding->arena, PK_RESOURCE_EXHAUSTED,
                "message of %zu bytes is above the send limit of %zu bytes", length, limit);
            return PK_ERR_LIMIT;
        }
        at += PK_FRAME_PREFIX + length;
        left -= PK_FRAME_PREFIX + length;
        found++;
    }
    if (PK_LIKELY(left == 0 && found == count && count > 0))
        return 0;
    *ret_status = PK_STATUS(PK_INTERNAL, "frames are to be written that are not what they say");
    return PK_ERR_INVALID;
}

bool pk_frames_cut(pk_slice *frames, pk_slice *ret_message)
{
    if (frames->length == 0)
        return false;
    size_t length = pk_frame_read_length(frames->bytes);
    *ret_message = (pk_slice){frames->bytes + PK_FRAME_PREFIX, length};
    frames->bytes += PK_FRAME_PREFIX + length;
    frames->length -= PK_FRAME_PREFIX + length;
    return true;
}
