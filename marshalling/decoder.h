/*
 * Starting and ending a slab decode. What runs in between is generated code over
 * <pekoe/generated_messages.h>; what of it is not inlined is in decoder.c, numbers.c, prescan.c and
 * required.c.
 */
#ifndef PEKOE_MARSHALLING_DECODER_H
#define PEKOE_MARSHALLING_DECODER_H

#include <pekoe/generated_messages.h>

#include "core/arena.h"

/*
 * Takes over the arena's current block until pk_decoder_done. `budget` counts the bytes that the
 * decode may carve.
 */
void pk_decoder_init(pk_decoder *decoder, pk_arena *arena, size_t budget, unsigned depth);

/* Gives the block back with what was taken from it. */
void pk_decoder_done(pk_decoder *decoder);

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

/* Bytes of the decode budget for a payload: see the figures in message.h. */
size_t pk_decode_budget(size_t payload, size_t most);

#endif
