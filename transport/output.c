/* Gathered output: see output.h. */
#include "transport/output.h"

#include <assert.h>
#include <string.h>

void pk_output_init(pk_output *output, pk_buffer_pool *pool)
{
    output->pool = pool;
    output->pieces = output->few;
    output->first = output->count = 0;
    output->capacity = PK_OUTPUT_FEW;
    output->bytes = 0;
    output->tail = NULL;
}

static void release_pieces(pk_output *output)
{
    if (output->pieces != output->few)
        pk_memory_put(output->pool->memory, output->pieces,
                      output->capacity * sizeof *output->pieces);
    output->pieces = output->few;
    output->capacity = PK_OUTPUT_FEW;
    output->first = output->count = 0;
    output->tail = pk_buffer_unref(output->tail);
}

void pk_output_done(pk_output *output)
{
    for (size_t i = output->first; i < output->count; i++)
        pk_buffer_unref(output->pieces[i].holder);
    output->bytes = 0;
    release_pieces(output);
}

/* Room for one more piece: moves the rest to the front, or takes memory of twice the size. */
static int make_room(pk_output *output)
{
    size_t left = output->count - output->first;
    pk_output_piece *pieces = output->pieces;
    size_t capacity = output->capacity;
    if (left > capacity / 2) {
        capacity = 4 * capacity;
        pieces = pk_memory_get(output->pool->memory, capacity * sizeof *pieces);
        if (!pieces)
            return PK_ERR_NOMEM;
    }
    memmove(pieces, output->pieces + output->first, left * sizeof *pieces);
    if (pieces != output->pieces && output->pieces != output->few)
        pk_memory_put(output->pool->memory, output->pieces,
                      output->capacity * sizeof *output->pieces);
    output->pieces = pieces;
    output->capacity = capacity;
    output->first = 0;
    output->count = left;
    return 0;
}

static int add_piece(pk_output *output, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    if (output->count == output->capacity) {
        int r = make_room(output);
        if (r < 0)
            return r;
    }
    output->pieces[output->count++] =
        (pk_output_piece){.bytes = bytes, .length = length, .holder = pk_buffer_ref(holder)};
    output->bytes += length;
    return 0;
}

static int new_tail(pk_output *output)
{
    pk_buffer *tail = pk_buffer_get_block(output->pool);
    if (!tail)
        return PK_ERR_NOMEM;
    pk_buffer_unref(output->tail);
    output->tail = tail;
    return 0;
}

int pk_output_copy_on(pk_output *output, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        pk_buffer *tail = output->tail;
        size_t room = tail ? (size_t) (tail->memory + tail->capacity - tail->end) : 0;
        if (room == 0) {
            int r = new_tail(output);
            if (r < 0)
                return r;
            continue;
        }
        size_t part = length < room ? length : room;
        memcpy(tail->end, bytes, part);
        pk_output_piece *last =
            output->count > output->first ? &output->pieces[output->count - 1] : NULL;
        if (last && last->holder == tail && last->bytes + last->length == tail->end) {
            last->length += part;
            output->bytes += part;
        } else {
            int r = add_piece(output, tail->end, part, tail);
            if (r < 0)
                return r;
        }
        tail->end += part;
        bytes += part;
        length -= part;
    }
    return 0;
}

int pk_output_refer(pk_output *output, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    if (length < PK_OUTPUT_COPIED)
        return pk_output_copy(output, bytes, length);
    return add_piece(output, bytes, length, holder);
}

int pk_output_gather(const pk_output *output, struct iovec *pieces, int count)
{
    int n = 0;
    for (size_t i = output->first; i < output->count && n < count; i++, n++) {
        pieces[n].iov_base = (void *) (uintptr_t) output->pieces[i].bytes;
        pieces[n].iov_len = output->pieces[i].length;
    }
    return n;
}

void pk_output_advance(pk_output *output, size_t length)
{
    assert(length <= output->bytes);
    output->bytes -= length;
    while (length > 0) {
        pk_output_piece *piece = &output->pieces[output->first];
        if (length < piece->length) {
            piece->bytes += length;
            piece->length -= length;
            return;
        }
        length -= piece->length;
        pk_buffer_unref(piece->holder);
        output->first++;
    }
    if (output->bytes == 0)
        release_pieces(output);
}
