/*
 * The 5-byte prefix in front of each message: one byte of flags, the length in four, big-endian.
 *
 * The reader cuts a stream of chunks into frames. It checks each length against the limit as soon
 * as the prefix is complete, before a byte of the payload is kept. What the flags mean is the
 * protocol's business. Source: gRPC's PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
#ifndef PEKOE_MARSHALLING_FRAME_H
#define PEKOE_MARSHALLING_FRAME_H

#include <pekoe/generated_messages.h>

#include "core/buffer.h"

#include <string.h>

#define PK_FRAME_PREFIX 5u

/* Readable bytes behind a payload that was gathered: a decoder may look ahead that far. */
#define PK_FRAME_PADDING 64u

/* A frame of up to that many bytes, prefix included, is put together in the reader itself. */
#define PK_FRAME_SHORT 64u

static inline void pk_frame_write_prefix(uint8_t *at, uint8_t flags, uint32_t length)
{
    const uint8_t big_endian[] = {(uint8_t) (length >> 24), (uint8_t) (length >> 16),
                                  (uint8_t) (length >> 8), (uint8_t) length};
    at[0] = flags;
    memcpy(at + 1, big_endian, sizeof big_endian); /* one store, as compilers see */
}

static inline uint32_t pk_frame_read_length(const uint8_t *prefix)
{
    return (uint32_t) prefix[1] << 24 | (uint32_t) prefix[2] << 16 | (uint32_t) prefix[3] << 8 |
           prefix[4];
}

typedef struct pk_frame {
    uint8_t flags;
    pk_slice payload;
    /*
     * The buffer that the payload lies in; a reference keeps it. NULL: the chunk had no holder, or
     * the payload came in pieces and was short.
     */
    pk_buffer *holder;
    /*
     * It is all of its holder's contents, and the reader's own: writable, with room for the prefix in
     * front and PK_FRAME_PADDING readable bytes behind.
     */
    bool gathered;
} pk_frame;

typedef struct pk_frame_reader {
    const uint8_t *at, *end; /* what is left of the chunk */
    pk_buffer *holder;       /* of the chunk; borrowed, or referenced where `kept` */
    bool kept;
    uint8_t allowed;      /* bits that may be set in the flags */
    uint8_t begun;        /* bytes in `beginning` of a frame that is not complete */
    int error;            /* the first error, for good */
    uint32_t length;      /* of the payload, once the prefix is complete */
    size_t limit;         /* the largest length accepted */
    pk_buffer_pool *pool; /* borrowed: the loop's */
    pk_buffer *gathered;  /* of a payload that came in pieces and is not short; else NULL */
    /* The prefix of a frame that came in pieces, and behind it the payload where that is short. */
    uint8_t beginning[PK_FRAME_SHORT];
} pk_frame_reader;

void pk_frame_reader_init(pk_frame_reader *reader, pk_buffer_pool *pool, size_t limit,
                          uint8_t allowed_flags);

/* Gives back every buffer. The reader may be done more than once. */
void pk_frame_reader_done(pk_frame_reader *reader);

/*
 * Gives the reader its next chunk, readable until pk_frame_reader_next has returned 0, or until
 * pk_frame_reader_keep. The chunk before it must have been used up or kept.
 */
PK_NODISCARD int pk_frame_reader_feed(pk_frame_reader *reader, const uint8_t *bytes, size_t length,
                                      pk_buffer *holder);

/* Adds bytes to a short frame. */
static inline void pk_frame_reader_add(pk_frame_reader *reader, const uint8_t *bytes, size_t length)
{
    pk_pack_bytes(reader->beginning + reader->begun + length, bytes, length);
    reader->begun = (uint8_t) (reader->begun + length);
}

/*
 * The functions from here to pk_frame_reader_take_whole are short cuts for a reader that has not
 * failed. This one takes bytes that leave a short frame incomplete, where all before them were used
 * up. False: they do not, and nothing has changed.
 */
static inline bool pk_frame_reader_swallow(pk_frame_reader *reader, const uint8_t *bytes,
                                           size_t length)
{
    size_t before = reader->begun, begun = before + length;
    if (PK_UNLIKELY(begun >= PK_FRAME_SHORT || length >= PK_FRAME_SHORT || reader->gathered))
        return false;
    if (begun >= PK_FRAME_PREFIX) {
        if (before < PK_FRAME_PREFIX) {
            /* What lies behind the bytes that have begun is nobody's. */
            pk_pack_bytes(reader->beginning + PK_FRAME_PREFIX, bytes, PK_FRAME_PREFIX - before);
            reader->length = pk_frame_read_length(reader->beginning);
            if (PK_UNLIKELY(reader->length > reader->limit ||
                            (reader->beginning[0] & ~reader->allowed)))
                return false;
        }
        if (reader->length > PK_FRAME_SHORT - PK_FRAME_PREFIX ||
            begun >= PK_FRAME_PREFIX + reader->length)
            return false;
    }
    pk_frame_reader_add(reader, bytes, length);
    return true;
}

/*
 * Feed and next in one for a chunk that completes a short frame without flags whose prefix has come,
 * where all before it was used up. True: *ret_payload is that frame's, as pk_frame_reader_next gives
 * it. False: it is another chunk, and nothing has changed.
 */
static inline bool pk_frame_reader_complete(pk_frame_reader *reader, const uint8_t *bytes,
                                            size_t length, pk_slice *ret_payload)
{
    size_t begun = reader->begun, whole = PK_FRAME_PREFIX + (size_t) reader->length;
    if (PK_UNLIKELY(begun < PK_FRAME_PREFIX || reader->beginning[0] != 0 ||
                    whole > PK_FRAME_SHORT || whole - begun > length || reader->kept))
        return false;
    size_t missing = whole - begun;
    pk_pack_bytes(reader->beginning + whole, bytes, missing);
    reader->begun = 0;
    reader->at = bytes + missing;
    reader->end = bytes + length;
    reader->holder = NULL;
    *ret_payload = (pk_slice){reader->beginning + PK_FRAME_PREFIX, reader->length};
    return true;
}

/*
 * Whether what is left of the chunk leaves a short frame incomplete, or is nothing: then it is used
 * up, and pk_frame_reader_next need not be asked. False: nothing has changed.
 */
static inline bool pk_frame_reader_swallow_rest(pk_frame_reader *reader)
{
    size_t left = (size_t) (reader->end - reader->at);
    if (PK_UNLIKELY(reader->kept || !pk_frame_reader_swallow(reader, reader->at, left)))
        return false;
    reader->at = reader->end;
    return true;
}

/* Next for a frame without flags that is whole in the chunk. False: it is not, nothing has changed. */
static inline bool pk_frame_reader_take_whole(pk_frame_reader *reader, pk_slice *ret_payload)
{
    const uint8_t *at = reader->at;
    size_t left = (size_t) (reader->end - at);
    if (left < PK_FRAME_PREFIX || reader->begun > 0 || PK_UNLIKELY(reader->gathered != NULL))
        return false;
    uint32_t length = pk_frame_read_length(at);
    if (length > left - PK_FRAME_PREFIX || PK_UNLIKELY(length > reader->limit || at[0] != 0))
        return false;
    *ret_payload = (pk_slice){at + PK_FRAME_PREFIX, length};
    reader->at = at + PK_FRAME_PREFIX + length;
    return true;
}

/* The slow path of pk_frame_reader_next: whatever is not a whole frame in the chunk. */
PK_NODISCARD int pk_frame_reader_next_slowly(pk_frame_reader *reader, pk_frame *ret_frame);

/*
 * The next frame. 1: *ret_frame is one; its payload is readable until the next call of any function
 * of the reader, or while a reference to its holder is held. 0: more bytes are needed.
 * PK_ERR_MALFORMED: a flag (pk_frame_reader_flags) is not allowed. PK_ERR_LIMIT: the length
 * (pk_frame_reader_length) is above the limit. PK_ERR_NOMEM. An error stays.
 */
PK_NODISCARD static inline int pk_frame_reader_next(pk_frame_reader *reader, pk_frame *ret_frame)
{
    const uint8_t *at = reader->at;
    size_t left = (size_t) (reader->end - at);
    if (left == 0 && PK_LIKELY(!reader->error && !reader->gathered && !reader->kept))
        return 0;
    if (PK_UNLIKELY(left < PK_FRAME_PREFIX || reader->begun != 0 || reader->gathered ||
                    reader->error))
        return pk_frame_reader_next_slowly(reader, ret_frame);
    uint32_t length = pk_frame_read_length(at);
    if (PK_UNLIKELY(length > left - PK_FRAME_PREFIX || length > reader->limit ||
                    (at[0] & ~reader->allowed)))
        return pk_frame_reader_next_slowly(reader, ret_frame);
    ret_frame->flags = at[0];
    ret_frame->payload = (pk_slice){at + PK_FRAME_PREFIX, length};
    ret_frame->holder = reader->holder;
    ret_frame->gathered = false;
    reader->at = at + PK_FRAME_PREFIX + length;
    return 1;
}

/*
 * Takes the frames that follow in the chunk as well: whole ones, with exactly these flags, of at most
 * `most` bytes together, prefixes included. Right after pk_frame_reader_next has given a frame whose
 * end lies in the chunk, and they behind it, and which was not gathered. Returns how many; what stops
 * them is for pk_frame_reader_next to say.
 */
size_t pk_frame_reader_take_alike(pk_frame_reader *reader, uint8_t flags, size_t most);

/*
 * Makes what is left of the chunk outlive the chunk: by a reference to its holder, or by a copy
 * where it has none. PK_ERR_NOMEM.
 */
PK_NODISCARD int pk_frame_reader_keep(pk_frame_reader *reader);

/* Bytes of the chunk that are not used up. */
static inline size_t pk_frame_reader_left(const pk_frame_reader *reader)
{
    return (size_t) (reader->end - reader->at);
}

/* What the prefix announced that an error is about. */
static inline uint8_t pk_frame_reader_flags(const pk_frame_reader *reader)
{
    return reader->beginning[0];
}

static inline uint32_t pk_frame_reader_length(const pk_frame_reader *reader)
{
    return reader->length;
}

/*
 * Bytes of an incomplete frame that the reader holds beside the chunk and beside itself. A payload
 * that somebody else has a reference to is theirs to count.
 */
static inline size_t pk_frame_reader_held(const pk_frame_reader *reader)
{
    const pk_buffer *gathered = reader->gathered;
    return gathered && gathered->references == 1 ? pk_buffer_length(gathered) : 0;
}

/* Whether the bytes so far end inside a frame. */
static inline bool pk_frame_reader_inside(const pk_frame_reader *reader)
{
    return reader->begun != 0;
}

#endif
