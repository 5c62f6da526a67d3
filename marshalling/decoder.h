/*
 * Starting and ending a slab decode. What runs in between is generated code over
 * <pekoe/generated_messages.h>; what of it is not inlined is in decoder.c, numbers.c, prescan.c and
 * required.c.
 */
#ifndef PEKOE_MARSHALLING_DECODER_H
#define PEKOE_MARSHALLING_DECODER_H

#include <pekoe/generated_messages.h>

#include "core/arena.h"

/* Bytes of the decode budget for a payload: see the figures in message.h. */
PK_INLINE size_t pk_decode_budget(size_t payload, size_t most)
{
    const size_t base = 64u << 10;
    if (most <= base || payload >= (most - base) / 64u)
        return most;
    return base + payload * 64u;
}

/*
 * Takes over the arena's current block until pk_decoder_done: `left` bytes from `at` on. `budget`
 * counts the bytes that the decode may carve.
 */
PK_INLINE void pk_decoder_init_at(pk_decoder *decoder, pk_arena *arena, uint8_t *at, size_t left,
                                  size_t budget, unsigned depth)
{
    size_t within = left < budget ? left : budget;
    decoder->at = at;
    decoder->limit = at + within;
    decoder->depth = (int) depth;
    decoder->error = 0;
    decoder->problem = NULL;
    decoder->arena = arena;
    decoder->budget = budget - within;
    decoder->reserve = PK_RESERVE_GROWTH;
    decoder->required = NULL;
}

/* The same from where the arena stands. */
PK_INLINE void pk_decoder_init(pk_decoder *decoder, pk_arena *arena, size_t budget, unsigned depth)
{
    pk_decoder_init_at(decoder, arena, arena->at, (size_t) (arena->end - arena->at), budget, depth);
}

/* Gives the block back with what was taken from it. */
PK_INLINE void pk_decoder_done(pk_decoder *decoder)
{
    pk_arena *arena = (pk_arena *) decoder->arena;
    size_t left = (size_t) (arena->end - decoder->at);
    size_t rest = (size_t) - (uintptr_t) decoder->at % PK_ARENA_ALIGNMENT;
    arena->at = decoder->at + (rest < left ? rest : left);
}

/*
 * An array with room for `capacity` elements, the first of which are copied from `elements` (`used`
 * bytes); its `next` is NULL after a failure.
 */
pk_array pk_decoder_new_array(pk_decoder *decoder, const void *elements, size_t used,
                              size_t capacity, size_t element_size);

/* Room for `more` further elements behind `count`; sets *elements where they moved. */
bool pk_decoder_array_room(pk_decoder *decoder, pk_array *array, void **elements, size_t count,
                           size_t more, size_t element_size);

/* Adds an unknown field whose value is the `length` bytes at `data`, which stay referenced. */
bool pk_decoder_keep_unknown(pk_decoder *decoder, ProtobufCMessage *message, uint32_t tag,
                             uint8_t *data, size_t length);

/* What the log of required fields says; called by pk_decoder_judge where there is one. */
bool pk_required_judge(pk_decoder *decoder);

#endif
