/*
 * The 5-byte prefix in front of each message: one byte of flags, the length in four, big-endian.
 *
 * The reader cuts a stream of chunks into frames. It checks each length against the limit as soon
 * as the prefix is complete, before a byte of the payload is kept. What the flags mean is the
 * protocol's business. Source: gRPC's PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
#ifndef PEKOE_MARSHALLING_FRAME_H
#define PEKOE_MARSHALLING_FRAME_H

#include "core/buffer.h"

#include <string.h>

#define PK_FRAME_PREFIX 5u

/* Readable bytes behind a payload that was gathered: a decoder may look ahead that far. */
#define PK_FRAME_PADDING 64u

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
    /* The buffer that the payload lies in; a reference keeps it. NULL: the chunk had no holder. */
    pk_buffer *holder;
    /*
     * The payload is the reader's own and all of its holder's contents: writable, with room for the
     * prefix in front and PK_FRAME_PADDING readable bytes behind.
     */
    bool gathered;
} pk_frame;

typedef struct pk_frame_reader {
    const uint8_t *at, *end; /* what is left of the chunk */
    pk_buffer *holder;       /* of the chunk; borrowed, or referenced where `kept` */
    bool kept;
    uint8_t prefix[PK_FRAME_PREFIX];
    uint8_t prefix_length; /* bytes of the prefix that are there */
    uint32_t length;       /* of the payload, once the prefix is complete */
    size_t limit;          /* the largest length accepted */
    uint8_t allowed;       /* bits that may be set in the flags */
    int error;             /* the first error, for good */
    pk_buffer_pool *pool;  /* borrowed: the loop's */
    pk_buffer *gathered;   /* of a payload that came in pieces; else NULL */
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
    if (PK_UNLIKELY(left < PK_FRAME_PREFIX || reader->prefix_length != 0 || reader->gathered ||
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
 * `most` bytes together, prefixes included. Right after pk_frame_reader_next has given a frame of the
 * chunk, behind which they lie. Returns how many; what stops them is for pk_frame_reader_next to say.
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
    return reader->prefix[0];
}

static inline uint32_t pk_frame_reader_length(const pk_frame_reader *reader)
{
    return reader->length;
}

/*
 * Bytes of an incomplete frame that the reader holds beside the chunk. A payload that somebody else
 * has a reference to is theirs to count.
 */
static inline size_t pk_frame_reader_held(const pk_frame_reader *reader)
{
    const pk_buffer *gathered = reader->gathered;
    return gathered && gathered->references == 1 ? pk_buffer_length(gathered) : 0;
}

/* Whether the bytes so far end inside a frame. */
static inline bool pk_frame_reader_inside(const pk_frame_reader *reader)
{
    return reader->prefix_length != 0;
}

#endif
