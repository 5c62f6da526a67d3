/*
 * Messages to bytes and back, whichever way a type has been generated: the one door to packers,
 * slab decoders and libprotobuf-c for the codec, the stubs and the readers.
 */
#ifndef PEKOE_MARSHALLING_MESSAGE_H
#define PEKOE_MARSHALLING_MESSAGE_H

#include <pekoe/message.h>

#include "core/arena.h"
#include "core/buffer.h"

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

/*
 * Writes the message in front of the buffer's contents. 0, PK_ERR_NOMEM, or PK_ERR_LIMIT where a
 * part is longer than 2^31 - 1 bytes; the buffer's contents are then as they were.
 */
PK_NODISCARD int pk_message_pack(const pk_message_type *type, const void *message,
                                 pk_buffer *buffer);

#endif
