/*
 * Codecs: how a message becomes bytes and bytes a message.
 *
 * A codec that can write in place offers `prepend` (in front of what is in the buffer, the fastest)
 * or `append` (behind it); both must give the same bytes as its `marshal`. One that offers neither
 * is served by allocate-then-copy. Codecs are const and shared by all loops.
 */
#ifndef PEKOE_MARSHALLING_CODEC_H
#define PEKOE_MARSHALLING_CODEC_H

#include <pekoe/status.h>

#include "marshalling/message.h"

typedef struct pk_codec pk_codec;

struct pk_codec {
    const char *name; /* "proto" */

    /*
     * Writes the message, which is not NULL, in front of (behind) the buffer's contents. 0, or
     * PK_ERR_INVALID where it is not of that type or cannot be encoded, PK_ERR_NOMEM. On failure
     * the buffer's contents are as they were. NULL: not offered.
     */
    int (*prepend)(const pk_codec *self, const pk_message_type *type, const void *message,
                   pk_buffer *buffer);
    int (*append)(const pk_codec *self, const pk_message_type *type, const void *message,
                  pk_buffer *buffer);

    /*
     * The same into memory of its own, which the caller gives back with pk_memory_put(memory,
     * *ret_bytes, *ret_length). *ret_bytes may be NULL where *ret_length is 0.
     */
    int (*marshal)(const pk_codec *self, const pk_message_type *type, const void *message,
                   pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length);

    /*
     * Makes a message in the arena; the bytes are not referenced by it. 0, or PK_ERR_MALFORMED,
     * PK_ERR_LIMIT (nesting, decode budget), PK_ERR_NOMEM; *ret_reason then says in words what was
     * wrong (static, or in the arena).
     */
    int (*decode)(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                  pk_arena *arena, const void **ret_message, const char **ret_reason);

    /*
     * The same for types with PK_MESSAGE_ZERO_COPY and bytes that nobody else sees: they are
     * changed, even on failure, and stay referenced by the message; PK_DECODE_PADDING readable
     * ones follow them. NULL: not offered.
     */
    int (*decode_in_place)(const pk_codec *self, const pk_message_type *type, uint8_t *bytes,
                           size_t length, pk_arena *arena, const void **ret_message,
                           const char **ret_reason);

    /*
     * The status of the last failure, where that is not for pekoe to put into words; NULL: it is.
     * A NULL function: it always is.
     */
    const pk_status *(*refusal)(const pk_codec *self);
};

/* protobuf over marshalling/message. */
extern const pk_codec pk_codec_proto;

/* Its decode, in line: what nearly all requests are goes by no table. */
PK_NODISCARD PK_INLINE int pk_codec_proto_decode(const pk_message_type *type, pk_slice bytes,
                                                 pk_arena *arena, const void **ret_message,
                                                 const char **ret_reason)
{
    void *message;
    int r = pk_message_decode_whole(type, arena, bytes.bytes, bytes.length, &message, ret_reason);
    if (PK_LIKELY(r == 0))
        *ret_message = message;
    return r;
}

/*
 * Its prepend. A message of another type would be written as if it were of this one: its descriptor,
 * which is the first thing in every message, tells.
 */
PK_NODISCARD PK_INLINE int pk_codec_proto_prepend(const pk_message_type *type, const void *message,
                                                  pk_buffer *buffer)
{
    bool is_of_type = ((const ProtobufCMessage *) message)->descriptor == type->descriptor;
    return PK_LIKELY(is_of_type) ? pk_message_pack(type, message, buffer) : PK_ERR_INVALID;
}

/*
 * Bytes as they are: a message is a pk_slice (of generic handlers and calls; the type is not looked
 * at). Decoding copies into the arena.
 */
extern const pk_codec pk_codec_bytes;

#endif
