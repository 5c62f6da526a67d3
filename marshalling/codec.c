/* The proto codec, and the one for messages that are bytes already: see codec.h. */
#include "marshalling/codec.h"

#include <string.h>

/* ---- proto ---- */

static int proto_prepend(const pk_codec *self, const pk_message_type *type, const void *message,
                         pk_buffer *buffer)
{
    return pk_codec_proto_prepend(type, message, buffer);
}

/* Through a buffer that is ours alone. */
static int proto_marshal(const pk_codec *self, const pk_message_type *type, const void *message,
                         pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length)
{
    pk_buffer_pool own;
    pk_buffer_pool_init(&own, memory);
    pk_buffer *buffer = pk_buffer_get(&own);
    int r = buffer ? pk_codec_proto_prepend(type, message, buffer) : PK_ERR_NOMEM;
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
    return pk_codec_proto_decode(type, bytes, arena, ret_message, ret_reason);
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

/* The slice and its bytes are one piece of the arena. */
static int bytes_decode(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                        pk_arena *arena, const void **ret_message, const char **ret_reason)
{
    pk_slice *message = bytes.length <= SIZE_MAX - sizeof *message
                            ? pk_arena_try(arena, sizeof *message + bytes.length)
                            : NULL;
    if (PK_UNLIKELY(!message)) {
        *ret_reason = "out of memory";
        return PK_ERR_NOMEM;
    }
    uint8_t *copy = (uint8_t *) (message + 1);
    pk_pack_bytes(copy + bytes.length, bytes.bytes, bytes.length);
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
