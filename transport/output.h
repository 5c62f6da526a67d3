/*
 * Bytes on their way to a socket: pieces in order, written by one gathering call.
 *
 * A session appends frames to it; a connection writes it. Short runs are copied into pooled
 * buffers, long ones stay where they are and their buffer is referenced. Knows no HTTP.
 */
#ifndef PEKOE_TRANSPORT_OUTPUT_H
#define PEKOE_TRANSPORT_OUTPUT_H

#include "core/buffer.h"

#include <string.h>
#include <sys/uio.h>

#define PK_OUTPUT_COPIED 4096u /* a shorter run is copied: cheaper than a piece of its own */
#define PK_OUTPUT_FEW 4u       /* pieces that need no memory of their own */

typedef struct pk_output_piece {
    const uint8_t *bytes;
    size_t length;
    pk_buffer *holder; /* one reference */
} pk_output_piece;

typedef struct pk_output {
    pk_buffer_pool *pool;
    pk_output_piece *pieces; /* `few`, or memory of `capacity` pieces */
    size_t first, count;     /* those before `first` have left */
    size_t capacity;
    size_t bytes;    /* in all pieces that have not left */
    pk_buffer *tail; /* where short runs are copied to; one reference, or NULL */
    pk_output_piece few[PK_OUTPUT_FEW];
} pk_output;

void pk_output_init(pk_output *output, pk_buffer_pool *pool);

/* Drops what has not left. */
void pk_output_done(pk_output *output);

/* The slow path of pk_output_copy: a new piece or a new tail is needed. */
PK_NODISCARD int pk_output_copy_on(pk_output *output, const uint8_t *bytes, size_t length);

/* Appends a copy. PK_ERR_NOMEM: some of it may have been appended, the output is of no use then. */
PK_NODISCARD static inline int pk_output_copy(pk_output *output, const uint8_t *bytes,
                                              size_t length)
{
    pk_buffer *tail = output->tail;
    if (PK_UNLIKELY(!tail || output->count == output->first))
        return pk_output_copy_on(output, bytes, length);
    pk_output_piece *last = &output->pieces[output->count - 1];
    if (PK_UNLIKELY(last->holder != tail || last->bytes + last->length != tail->end ||
                    (size_t) (tail->memory + tail->capacity - tail->end) < length))
        return pk_output_copy_on(output, bytes, length);
    memcpy(tail->end, bytes, length);
    tail->end += length;
    last->length += length;
    output->bytes += length;
    return 0;
}

/*
 * Appends `length` bytes that lie in `holder`: referenced where they are many, else copied. The
 * bytes must not change until they have left. Errors as above.
 */
PK_NODISCARD int pk_output_refer(pk_output *output, const uint8_t *bytes, size_t length,
                                 pk_buffer *holder);

/* Fills `pieces` with what comes next and returns how many were filled. */
int pk_output_gather(const pk_output *output, struct iovec *pieces, int count);

/* `length` bytes have left. */
void pk_output_advance(pk_output *output, size_t length);

#endif
