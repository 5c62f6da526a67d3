/*
 * Messages to bytes and back, whichever way a type has been generated: the one door to packers,
 * slab decoders and libprotobuf-c for the codec, the stubs and the readers.
 */
#ifndef PEKOE_MARSHALLING_MESSAGE_H
#define PEKOE_MARSHALLING_MESSAGE_H

#include <pekoe/generated_messages.h>

#include "core/arena.h"
#include "core/buffer.h"
#include "marshalling/decoder.h"

#include <string.h>

#define PK_DECODE_DEPTH_DEFAULT 100u         /* levels below the root */
#define PK_DECODE_BUDGET_FACTOR 64u          /* bytes of memory per byte of payload ... */
#define PK_DECODE_BUDGET_BASE (64u << 10)    /* ... and this many for any payload, ... */
#define PK_DECODE_BUDGET_DEFAULT (32u << 20) /* ... but never more than this */

/* What a decode may spend. */
struct pk_decode_limits {
    size_t budget;  /* bytes of arena at most, whatever the payload; 0: the default */
    unsigned depth; /* levels of nested messages; 0: the default */
};

/*
 * Decodes `length` bytes into a new message in the arena. The bytes are copied once, into the
 * arena, and are not referenced afterwards. `limits` NULL means the defaults.
 *
 * 0; PK_ERR_MALFORMED for bytes that are no such message, PK_ERR_LIMIT where depth is within
 * bounds but the budget is not, PK_ERR_NOMEM. On failure *ret_problem is a static text for the
 * status and what the arena has given stays taken until its reset.
 */
PK_NODISCARD int pk_message_decode(const pk_message_type *type, pk_arena *arena,
                                   const struct pk_decode_limits *limits, const uint8_t *bytes,
                                   size_t length, void **ret_message, const char **ret_problem);

/* Copies a payload to where a slab decoder will change it, with the padding that it wants. */
PK_INLINE void pk_message_copy_payload(uint8_t *copy, const uint8_t *bytes, size_t length)
{
    pk_pack_bytes(copy + length, bytes, length); /* without a call where it is short */
    /* Sanitizers and valgrind want the padding defined; its contents mean nothing. */
    memset(copy + length, 0, PK_DECODE_PADDING);
}

/* Ends a slab decode: its error, with the reason in words. */
PK_INLINE int pk_message_decoded(const pk_decoder *decoder, int error, const char **ret_problem)
{
    if (PK_UNLIKELY(error))
        *ret_problem = decoder->problem ? decoder->problem : "malformed message";
    return error;
}

/*
 * pk_message_decode with the default limits, in line, since every request goes through it. Where
 * the arena's block has room, which is usual, copy and decoder share it, and the arena is written to
 * once, at the end.
 */
PK_NODISCARD PK_INLINE int pk_message_decode_whole(const pk_message_type *type, pk_arena *arena,
                                                   const uint8_t *bytes, size_t length,
                                                   void **ret_message, const char **ret_problem)
{
    uint8_t *copy = arena->at;
    size_t left = (size_t) (arena->end - copy);
    if (PK_UNLIKELY(!type->decode || left < PK_DECODE_PADDING + PK_ARENA_ALIGNMENT ||
                    length > left - PK_DECODE_PADDING - PK_ARENA_ALIGNMENT))
        return pk_message_decode(type, arena, NULL, bytes, length, ret_message, ret_problem);
    pk_message_copy_payload(copy, bytes, length);
    size_t taken = (length + PK_DECODE_PADDING + (PK_ARENA_ALIGNMENT - 1)) &
                   ~(size_t) (PK_ARENA_ALIGNMENT - 1);
    pk_decoder decoder;
    pk_decoder_init_at(&decoder, arena, copy + taken, left - taken,
                       pk_decode_budget(length, PK_DECODE_BUDGET_DEFAULT), PK_DECODE_DEPTH_DEFAULT);
    if (type->reserve)
        decoder.reserve = type->reserve->strategy;
    void *message = NULL;
    int error = type->decode(&decoder, &message, copy, length);
    pk_decoder_done(&decoder);
    if (PK_LIKELY(!error))
        *ret_message = message;
    return pk_message_decoded(&decoder, error, ret_problem);
}

/*
 * The same without the copy: the bytes are changed, stay referenced by the message and must live as
 * long as the arena's contents. PK_DECODE_PADDING bytes behind them (see
 * <pekoe/generated_messages.h>) are readable, and the first of those is restored. A type without a
 * slab decoder is decoded as above.
 */
PK_NODISCARD int pk_message_decode_in_place(const pk_message_type *type, pk_arena *arena,
                                            const struct pk_decode_limits *limits, uint8_t *bytes,
                                            size_t length, void **ret_message,
                                            const char **ret_problem);

/*
 * Merges further bytes into a message that one of the functions above made in the same arena, as if
 * they had followed the first ones. On failure the message's contents are undefined. For types
 * with a slab decoder; PK_ERR_UNSUPPORTED for others.
 */
PK_NODISCARD int pk_message_merge(const pk_message_type *type, pk_arena *arena,
                                  const struct pk_decode_limits *limits, const uint8_t *bytes,
                                  size_t length, void *message, const char **ret_problem);

/* The slow paths of pk_message_pack: libprotobuf-c packs; a larger buffer; `before` bytes stay. */
PK_NODISCARD int pk_message_pack_by_descriptor(const void *message, pk_buffer *buffer);
uint8_t *pk_message_pack_grow(pk_packer *packer, uint8_t *at, size_t need);
PK_NODISCARD int pk_message_pack_failed(const pk_packer *packer, size_t before);

/*
 * Writes the message in front of the buffer's contents. 0, PK_ERR_NOMEM, or PK_ERR_LIMIT where a
 * part is longer than 2^31 - 1 bytes; the buffer's contents are then as they were. In line, since
 * every reply goes through it.
 */
PK_NODISCARD PK_INLINE int pk_message_pack(const pk_message_type *type, const void *message,
                                           pk_buffer *buffer)
{
    if (PK_UNLIKELY(!type->pack))
        return pk_message_pack_by_descriptor(message, buffer);
    size_t before = pk_buffer_length(buffer);
    pk_packer packer = {buffer->memory, buffer->end, pk_message_pack_grow, buffer, 0};
    uint8_t *at = type->pack(message, &packer, buffer->start);
    if (PK_UNLIKELY(!at))
        return pk_message_pack_failed(&packer, before);
    buffer->start = at;
    return 0;
}

#endif
