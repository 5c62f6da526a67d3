/*
 * Byte buffers with room at both ends, reference counted, and the pool that they come from.
 *
 * An encoder borrows one from the loop's pool, writes into it back to front (or front to back),
 * and hands it down to the transport, which gives it back after the bytes have left. The pool and
 * all of its buffers belong to one loop; a buffer that reaches another loop is a bug and asserts.
 */
#ifndef PEKOE_CORE_BUFFER_H
#define PEKOE_CORE_BUFFER_H

#include "core/memory.h"

#include <string.h>

#define PK_BUFFER_FIRST 512u          /* bytes of a new buffer */
#define PK_BUFFER_BLOCK 16384u        /* bytes of a block */
#define PK_BUFFER_GATHERED 256u       /* a shorter message shares the buffer of a queue's others */
#define PK_BUFFER_KEPT_MAX (8u << 20) /* a larger buffer is freed and never handed out again */

typedef struct pk_buffer_pool pk_buffer_pool;

typedef struct pk_buffer {
    uint8_t *memory; /* `capacity` bytes */
    size_t capacity;
    uint8_t *start;         /* first byte of the contents */
    uint8_t *end;           /* one past the last byte of the contents */
    pk_buffer_pool *pool;   /* owner */
    struct pk_buffer *next; /* in the pool's list, or wherever the holder links it */
    unsigned references;
    bool block; /* came from pk_buffer_get_block */
} pk_buffer;

struct pk_buffer_pool {
    pk_memory *memory;  /* borrowed: the loop's */
    pk_buffer *kept;    /* empty buffers, newest first */
    pk_buffer *blocks;  /* the same, of PK_BUFFER_BLOCK bytes each */
    size_t kept_bytes;  /* their capacity together */
    size_t lent;        /* buffers outside */
    const void *thread; /* marks the thread that made the pool: debug builds hold all to it */
};

void pk_buffer_pool_init(pk_buffer_pool *pool, pk_memory *memory);

/* Every buffer must be back. */
void pk_buffer_pool_done(pk_buffer_pool *pool);

/*
 * An empty buffer of at least PK_BUFFER_FIRST bytes, one reference, start == end == its middle of
 * nothing: contents go where the first prepend or append puts them. NULL when memory runs out.
 */
PK_NODISCARD pk_buffer *pk_buffer_get(pk_buffer_pool *pool);

/*
 * An empty buffer of PK_BUFFER_BLOCK bytes, to be filled front to back: for output that is gathered.
 * Blocks are kept apart, so that small messages do not use them up. NULL when memory runs out.
 */
PK_NODISCARD pk_buffer *pk_buffer_get_block(pk_buffer_pool *pool);

static inline pk_buffer *pk_buffer_ref(pk_buffer *buffer)
{
    buffer->references++;
    return buffer;
}

/* Drops a reference; the last one gives the buffer back to its pool. Takes NULL, returns NULL. */
pk_buffer *pk_buffer_unref(pk_buffer *buffer);

static inline size_t pk_buffer_length(const pk_buffer *buffer)
{
    return (size_t) (buffer->end - buffer->start);
}

/* Empties the buffer for writing back to front (start == end == end of memory). */
static inline void pk_buffer_rewind_for_prepend(pk_buffer *buffer)
{
    buffer->start = buffer->end = buffer->memory + buffer->capacity;
}

/* Empties the buffer for writing front to back, `reserved` bytes (at most 64) kept free in front. */
static inline void pk_buffer_rewind_for_append(pk_buffer *buffer, size_t reserved)
{
    buffer->start = buffer->end = buffer->memory + reserved;
}

/*
 * Makes room for `size` more bytes before the start (after the end). When the memory is too small
 * it is replaced by one at least twice as large, the contents moved to its end (to the same
 * distance from its front). 0, or PK_ERR_NOMEM with the buffer as it was.
 */
PK_NODISCARD int pk_buffer_room_before(pk_buffer *buffer, size_t size);
PK_NODISCARD int pk_buffer_room_after(pk_buffer *buffer, size_t size);

/*
 * The same behind the end for a writer that knows the most it will ever write: memory that is
 * replaced becomes as large as is needed and not twice as large as it was.
 */
PK_NODISCARD int pk_buffer_room_after_exactly(pk_buffer *buffer, size_t size);

/* Copies bytes in front of (behind) the contents. 0 or PK_ERR_NOMEM. */
PK_NODISCARD int pk_buffer_prepend(pk_buffer *buffer, const void *bytes, size_t length);
PK_NODISCARD int pk_buffer_append(pk_buffer *buffer, const void *bytes, size_t length);

/* The slow path of pk_buffer_queue. */
PK_NODISCARD pk_buffer *pk_buffer_queue_on(pk_buffer *more_take);

/*
 * For queues of messages, behind whose last one, `last`, comes another one: what is to be linked
 * there, NULL where the contents of `more_take` were copied into `last`. Short ones are gathered, as
 * far as nobody else holds `last`, so that a queue holds little more memory than its bytes.
 */
PK_NODISCARD static inline pk_buffer *pk_buffer_queue(pk_buffer *last, pk_buffer *more_take)
{
    size_t length = pk_buffer_length(more_take);
    if (length > PK_BUFFER_GATHERED)
        return more_take;
    if (last->references > 1 || (size_t) (last->memory + last->capacity - last->end) < length)
        return pk_buffer_queue_on(more_take);
    memcpy(last->end, more_take->start, length);
    last->end += length;
    pk_buffer_unref(more_take);
    return NULL;
}

#endif
