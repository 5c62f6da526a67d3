/* The proto codec, and the one for messages that are bytes already: see codec.h. */
#include "marshalling/codec.h"

#include "marshalling/message.h"

#include <string.h>

/* ---- proto ---- */

/*
 * A message of another type would be written as if it were of this one: its descriptor, which is
 * the first thing in every message, tells.
 */
static bool is_of_type(const pk_message_type *type, const void *message)
{
    return ((const ProtobufCMessage *) message)->descriptor == type->descriptor;
}

static int proto_prepend(const pk_codec *self, const pk_message_type *type, const void *message,
                         pk_buffer *buffer)
{
    return PK_LIKELY(is_of_type(type, message)) ? pk_message_pack(type, message, buffer)
                                                : PK_ERR_INVALID;
}

/* Through a buffer that is ours alone. */
static int proto_marshal(const pk_codec *self, const pk_message_type *type, const void *message,
                         pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length)
{
    pk_buffer_pool own;
    pk_buffer_pool_init(&own, memory);
    pk_buffer *buffer = pk_buffer_get(&own);
    int r = buffer ? proto_prepend(self, type, message, buffer) : PK_ERR_NOMEM;
    size_t length = r == 0 ? pk_buffer_length(buffer) : 0;
    uint8_t *copy = NULL;
    if (length > 0) {
        copy = pk_memory_get(memory, length);
        if (copy)
            memcpy(copy, buffer->start, length);
        else
            r = PK_ERR_NOMEM;
    }
    pk_buffer_unref(buffer);
    pk_buffer_pool_done(&own);
    if (r < 0)
        return r;
    *ret_bytes = copy;
    *ret_length = length;
    return 0;
}

static int proto_decode(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                        pk_arena *arena, const void **ret_message, const char **ret_reason)
{
    void *message;
    int r = pk_message_decode(type, arena, NULL, bytes.bytes, bytes.length, &message, ret_reason);
    if (r == 0)
        *ret_message = message;
    return r;
}

static int proto_decode_in_place(const pk_codec *self, const pk_message_type *type, uint8_t *bytes,
                                 size_t length, pk_arena *arena, const void **ret_message,
                                 const char **ret_reason)
{
    void *message;
    int r = pk_message_decode_in_place(type, arena, NULL, bytes, length, &message, ret_reason);
    if (r == 0)
        *ret_message = message;
    return r;
}

const pk_codec pk_codec_proto = {
    .name = "proto",
    .prepend = proto_prepend,
    .marshal = proto_marshal,
    .decode = proto_decode,
    .decode_in_place = proto_decode_in_place,
};

/* ---- bytes ---- */

static int bytes_prepend(const pk_codec *self, const pk_message_type *type, const void *message,
                         pk_buffer *buffer)
{
    const pk_slice *bytes = message;
    return pk_buffer_prepend(buffer, bytes->bytes, bytes->length);
}

static int bytes_append(const pk_codec *self, const pk_message_type *type, const void *message,
                        pk_buffer *buffer)
{
    const pk_slice *bytes = message;
    return pk_buffer_append(buffer, bytes->bytes, bytes->length);
}

static int bytes_marshal(const pk_codec *self, const pk_message_type *type, const void *message,
                         pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length)
{
    const pk_slice *bytes = message;
    uint8_t *copy = NULL;
    if (bytes->length > 0) {
        copy = pk_memory_get(memory, bytes->length);
        if (!copy)
            return PK_ERR_NOMEM;
        memcpy(copy, bytes->bytes, bytes->length);
    }
    *ret_bytes = copy;
    *ret_length = bytes->length;
    return 0;
}

static int bytes_decode(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                        pk_arena *arena, const void **ret_message, const char **ret_reason)
{
    pk_slice *message = pk_arena_try(arena, sizeof *message);
    uint8_t *copy = pk_arena_try(arena, bytes.length);
    if (!message || !copy) {
        *ret_reason = "out of memory";
        return PK_ERR_NOMEM;
    }
    if (bytes.length > 0)
        memcpy(copy, bytes.bytes, bytes.length);
    *message = (pk_slice){copy, bytes.length};
    *ret_message = message;
    return 0;
}

const pk_codec pk_codec_bytes = {
    .name = "bytes",
    .prepend = bytes_prepend,
    .append = bytes_append,
    .marshal = bytes_marshal,
    .decode = bytes_decode,
};
