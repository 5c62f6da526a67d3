/* Messages into pooled buffers and back: see marshal.h. */
#include "marshalling/marshal.h"

#include <pekoe/generated_messages.h>

#include "core/status.h"
#include "marshalling/frame.h"

#include <string.h>

void pk_marshalling_init(pk_marshalling *marshalling, pk_memory *memory, pk_buffer_pool *buffers)
{
    *marshalling = (pk_marshalling){.buffers = buffers, .memory = memory};
    pk_compressor_pool_init(&marshalling->compressors, memory);
}

void pk_marshalling_done(pk_marshalling *marshalling)
{
    pk_compressor_pool_done(&marshalling->compressors);
}

void pk_marshalling_forget(pk_marshalling *marshalling, const pk_compressor_set *set)
{
    if (marshalling->accepted.set == set)
        marshalling->accepted.set = NULL;
}

/* ---- Encoding ---- */

/* Out of the way of the one path that most messages take. */
#define SELDOM __attribute__((noinline, cold))

/* The codec's own memory, copied behind the tail's front: for codecs that cannot write in place. */
static int copy_marshalled(const pk_codec *codec, const pk_message_type *type, const void *message,
                           pk_buffer *buffer)
{
    pk_memory *memory = buffer->pool->memory;
    uint8_t *bytes;
    size_t length;
    int r = codec->marshal(codec, type, message, memory, &bytes, &length);
    if (r < 0)
        return r;
    r = pk_buffer_prepend(buffer, bytes, length);
    pk_memory_put(memory, bytes, length);
    return r;
}

/* Front to back: the prefix's room, the message, the tail. */
static int append_message(const pk_codec *codec, const pk_message_type *type, const void *message,
                          pk_slice tail, pk_buffer *buffer)
{
    pk_buffer_rewind_for_append(buffer, PK_FRAME_PREFIX);
    int r = codec->append(codec, type, message, buffer);
    return r < 0 ? r : pk_buffer_append(buffer, tail.bytes, tail.length);
}

int pk_marshal_write(const pk_codec *codec, const pk_message_type *type, const void *message,
                     pk_slice tail, pk_buffer *buffer)
{
    if (codec->append && !codec->prepend)
        return append_message(codec, type, message, tail, buffer);
    int r = pk_buffer_prepend(buffer, tail.bytes, tail.length);
    if (r < 0)
        return r;
    return codec->prepend ? codec->prepend(codec, type, message, buffer)
                          : copy_marshalled(codec, type, message, buffer);
}

/* Whether another codec may do better: memory and limits are the same for all. */
static bool may_try_backup(const pk_codec *codec, const pk_codec *backup, int error)
{
    return backup && error != PK_ERR_NOMEM && error != PK_ERR_LIMIT &&
           strcmp(codec->name, backup->name) != 0;
}

static SELDOM const pk_status *refusal_of(const pk_codec *codec)
{
    return codec->refusal ? codec->refusal(codec) : NULL;
}

/* The codec has failed with `r`: the backup's turn, or the end. */
SELDOM int pk_marshal_again(const pk_encoding *encoding, const pk_message_type *type,
                            const void *message, pk_slice tail, int r, pk_buffer **ret_buffer,
                            pk_status *ret_status)
{
    pk_buffer_pool *pool = encoding->marshalling->buffers;
    if (may_try_backup(encoding->codec, encoding->backup, r)) {
        int second = pk_marshal_to_pool(pool, encoding->backup, type, message, tail, ret_buffer);
        if (second == 0)
            return 0;
    }
    const pk_status *refusal = refusal_of(encoding->codec);
    if (refusal)
        *ret_status = *refusal;
    else if (r == PK_ERR_NOMEM)
        *ret_status = PK_STATUS(PK_RESOURCE_EXHAUSTED, "out of memory while encoding a message");
    else
        *ret_status = pk_status_print(
            encoding->arena, r == PK_ERR_LIMIT ? PK_RESOURCE_EXHAUSTED : PK_INTERNAL,
            "cannot encode a message as %s with codec %s: %s",
            type && type->name ? type->name : "bytes", encoding->codec->name, pk_error_text(r));
    return r;
}

/*
 * Replaces the buffer by one with the message compressed, where that is smaller. A compressor that
 * fails, for want of memory too, leaves the message as it is, which every peer can read.
 */
bool pk_marshal_compress(const pk_encoding *encoding, pk_slice tail, pk_buffer **buffer,
                         size_t *length)
{
    pk_marshalling *marshalling = encoding->marshalling;
    pk_buffer *compressed = pk_buffer_get(marshalling->buffers);
    if (!compressed)
        return false;
    pk_buffer_rewind_for_append(compressed, PK_FRAME_PREFIX);
    pk_slice message = {(*buffer)->start, *length};
    if (pk_compress(&marshalling->compressors, encoding->compressor, message, *length - 1,
                    compressed) < 0) {
        pk_buffer_unref(compressed);
        return false;
    }
    size_t compressed_length = pk_buffer_length(compressed);
    if (tail.length > 0 && pk_buffer_append(compressed, tail.bytes, tail.length) < 0) {
        pk_buffer_unref(compressed);
        return false;
    }
    pk_buffer_unref(*buffer);
    *buffer = compressed;
    *length = compressed_length;
    return true;
}

SELDOM int pk_marshal_refuse(const pk_encoding *encoding, bool compressed, size_t length,
                             pk_buffer *buffer, pk_status *ret_status)
{
    pk_buffer_unref(buffer);
    size_t limit = encoding->send_limit && encoding->send_limit < UINT32_MAX ? encoding->send_limit
                                                                             : UINT32_MAX;
    *ret_status = pk_status_print(encoding->arena, PK_RESOURCE_EXHAUSTED,
                                  "%smessage of %zu bytes is above the send limit of %zu bytes",
                                  compressed ? "compressed " : "", length, limit);
    return PK_ERR_LIMIT;
}

SELDOM int pk_marshal_no_memory(pk_buffer *buffer, pk_status *ret_status)
{
    pk_buffer_unref(buffer);
    *ret_status = PK_STATUS(PK_RESOURCE_EXHAUSTED, "out of memory while encoding a message");
    return PK_ERR_NOMEM;
}

/* A NULL message: nothing but the tail. */
SELDOM int pk_marshal_tail(const pk_encoding *encoding, pk_slice tail, pk_buffer **ret_buffer,
                           pk_status *ret_status)
{
    if (tail.length == 0) {
        *ret_buffer = NULL;
        return 0;
    }
    pk_buffer *buffer = pk_buffer_get(encoding->marshalling->buffers);
    if (!buffer || pk_buffer_prepend(buffer, tail.bytes, tail.length) < 0)
        return pk_marshal_no_memory(buffer, ret_status);
    *ret_buffer = buffer;
    return 0;
}

int pk_marshal(const pk_encoding *encoding, const pk_message_type *type, const void *message,
               const pk_envelope *envelope, pk_slice tail, pk_buffer **ret_buffer,
               bool *ret_compressed, pk_status *ret_status)
{
    return pk_marshal_in_line(encoding, type, message, envelope, tail, ret_buffer, ret_compressed,
                              ret_status);
}

/* ---- Decoding ---- */

_Static_assert(PK_FRAME_PADDING >= PK_DECODE_PADDING,
               "a message may be decoded where the body reader has gathered it");

/* Puts what a codec found wrong into words. */
static SELDOM int refuse_message(const pk_codec *codec, const pk_message_type *type, int r,
                                 pk_code code, const char *reason, pk_arena *arena,
                                 pk_status *ret_status)
{
    const pk_status *refusal = refusal_of(codec);
    if (refusal) {
        *ret_status = *refusal;
        return r;
    }
    *ret_status = pk_status_print(arena, code, "cannot decode a message as %s with codec %s: %s",
                                  type && type->name ? type->name : "bytes", codec->name,
                                  reason ? reason : pk_error_text(r));
    return r;
}

static pk_code code_of(int r)
{
    return r == PK_ERR_NOMEM || r == PK_ERR_LIMIT ? PK_RESOURCE_EXHAUSTED : PK_INTERNAL;
}

int pk_unmarshal_failed(const pk_codec *codec, const pk_codec *backup, const pk_message_type *type,
                        pk_slice bytes, pk_arena *arena, int r, const char *reason,
                        const void **ret_message, pk_status *ret_status)
{
    pk_code code = code_of(r);
    if (may_try_backup(codec, backup, r)) {
        const char *second = NULL;
        if (backup->decode(backup, type, bytes, arena, ret_message, &second) == 0)
            return 0;
        code = PK_INVALID_ARGUMENT;
    }
    return refuse_message(codec, type, r, code, reason, arena, ret_status);
}

int pk_unmarshal(const pk_codec *codec, const pk_codec *backup, const pk_message_type *type,
                 pk_slice bytes, pk_arena *arena, const void **ret_message, pk_status *ret_status)
{
    return pk_unmarshal_in_line(codec, backup, type, bytes, arena, ret_message, ret_status);
}

int pk_unmarshal_held(const pk_codec *codec, const pk_codec *backup, const pk_message_type *type,
                      pk_slice bytes, pk_buffer *holder, pk_arena *arena, const void **ret_message,
                      pk_buffer **ret_kept, pk_status *ret_status)
{
    *ret_kept = NULL;
    if (PK_LIKELY(!holder || !type || !(type->flags & PK_MESSAGE_ZERO_COPY) ||
                  !codec->decode_in_place || may_try_backup(codec, backup, PK_ERR_MALFORMED)))
        return pk_unmarshal(codec, backup, type, bytes, arena, ret_message, ret_status);
    /* The one who gave the holder says that the bytes may be changed. */
    uint8_t *own = (uint8_t *) (uintptr_t) bytes.bytes;
    const char *reason = NULL;
    int r = codec->decode_in_place(codec, type, own, bytes.length, arena, ret_message, &reason);
    if (PK_UNLIKELY(r < 0))
        return refuse_message(codec, type, r, code_of(r), reason, arena, ret_status);
    *ret_kept = pk_buffer_ref(holder);
    return 0;
}
