/* Frames out of chunks: see frame.h. */
#include "marshalling/frame.h"

void pk_frame_reader_init(pk_frame_reader *reader, pk_buffer_pool *pool, size_t limit,
                          uint8_t allowed_flags)
{
    /* All but `beginning`, which is not looked at before it was written. */
    reader->at = reader->end = NULL;
    reader->holder = NULL;
    reader->kept = false;
    reader->allowed = allowed_flags;
    reader->begun = 0;
    reader->error = 0;
    reader->length = 0;
    reader->limit = limit;
    reader->pool = pool;
    reader->gathered = NULL;
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

/* Moves bytes of the chunk behind those of the frame that are here, up to `wanted` in all. */
static inline bool begin(pk_frame_reader *reader, size_t wanted)
{
    size_t missing = wanted - reader->begun;
    size_t left = pk_frame_reader_left(reader);
    size_t taken = left < missing ? left : missing;
    pk_frame_reader_add(reader, reader->at, taken);
    reader->at += taken;
    return taken == missing;
}

/* Looks at a prefix that is complete. 1, or an error. */
static int check_prefix(pk_frame_reader *reader)
{
    reader->length = pk_frame_read_length(reader->beginning);
    if (PK_UNLIKELY(reader->beginning[0] & ~reader->allowed))
        return fail(reader, PK_ERR_MALFORMED);
    return PK_UNLIKELY(reader->length > reader->limit) ? fail(reader, PK_ERR_LIMIT) : 1;
}

/*
 * Takes what the chunk has of a payload that is not short into a buffer. The buffer grows with what
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
    if (reader->begun == 0 && PK_UNLIKELY(reader->gathered != NULL))
        reader->gathered = pk_buffer_unref(reader->gathered); /* the frame before this one */
    if (reader->at == reader->end) {
        drop_chunk(reader);
        return 0;
    }
    if (reader->begun < PK_FRAME_PREFIX) {
        if (!begin(reader, PK_FRAME_PREFIX))
            return 0;
        int r = check_prefix(reader);
        if (PK_UNLIKELY(r < 0))
            return r;
    }
    size_t length = reader->length;
    pk_frame frame = {.flags = reader->beginning[0], .payload.length = length};
    if (reader->begun == PK_FRAME_PREFIX && !reader->gathered &&
        pk_frame_reader_left(reader) >= length) {
        frame.payload.bytes = reader->at;
        frame.holder = reader->holder;
        reader->at += length;
    } else if (PK_LIKELY(length <= PK_FRAME_SHORT - PK_FRAME_PREFIX)) {
        if (!begin(reader, PK_FRAME_PREFIX + length))
            return 0;
        frame.payload.bytes = reader->beginning + PK_FRAME_PREFIX;
    } else {
        int r = gather(reader);
        if (r <= 0)
            return r;
        frame.payload.bytes = reader->gathered->start;
        frame.holder = reader->gathered;
        frame.gathered = true;
    }
    reader->begun = 0;
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
