/*
 * One message into a pooled buffer, and back: codec, backup codec, compressor, limits, prefix.
 *
 * Every encoder of every protocol goes through pk_marshal, so no two of them can disagree about
 * thresholds, limits or bytes. pk_marshal_to_pool is the one place that borrows a buffer for a
 * message and gives it back on failure.
 */
#ifndef PEKOE_MARSHALLING_MARSHAL_H
#define PEKOE_MARSHALLING_MARSHAL_H

#include <pekoe/status.h>

#include "marshalling/codec.h"
#include "marshalling/compressor.h"
#include "marshalling/frame.h"

#define PK_RECEIVE_LIMIT_DEFAULT (4u << 20) /* bytes of one message, decompressed */
#define PK_COMPRESS_MIN_BYTES_DEFAULT ((size_t) 1024)

/* What a loop keeps for marshalling; used on its thread only. */
typedef struct pk_marshalling {
    pk_buffer_pool *buffers; /* borrowed: the loop's */
    pk_memory *memory;       /* borrowed: the loop's */
    pk_compressor_pool compressors;
    /* The last grpc-accept-encoding that was negotiated, since connections repeat theirs. */
    struct {
        const pk_compressor_set *set;
        const pk_compressor *chosen;
        uint8_t length;
        uint8_t text[63];
    } accepted;
} pk_marshalling;

void pk_marshalling_init(pk_marshalling *marshalling, pk_memory *memory, pk_buffer_pool *buffers);
void pk_marshalling_done(pk_marshalling *marshalling);

/* Forgets what was remembered of a set: before it changes or goes. */
void pk_marshalling_forget(pk_marshalling *marshalling, const pk_compressor_set *set);

/*
 * How the messages of one side of a call are written: what configuration and negotiation have
 * decided. A plain struct; a server keeps one filled in and copies it into each call, which then
 * sets `arena` and `compressor`. Each may be changed per message.
 */
typedef struct pk_encoding {
    pk_marshalling *marshalling;          /* the loop's */
    pk_arena *arena;                      /* the call's: fields and texts of errors go there */
    const pk_codec *codec;                /* never NULL */
    const pk_codec *backup;               /* tried once where the codec fails; NULL for none */
    const pk_compressor *compressor;      /* NULL: identity */
    const pk_compressor_set *compressors; /* all that this side knows */
    size_t compress_min_bytes;            /* shorter messages are left as they are */
    size_t send_limit;                    /* bytes of one message as sent; 0: no limit */
    bool tell_encodings;                  /* the reply names the compressors that are known */
    bool precompressed;                   /* what the codec writes is compressed: it is flagged */
} pk_encoding;

/* The flags of a message's prefix, which are the protocol's to say. */
typedef struct pk_envelope {
    uint8_t plain;
    uint8_t compressed;
} pk_envelope;

/* The slow paths of the two functions below, see marshal.c. Those that fail give the buffer back. */
int pk_marshal_write(const pk_codec *codec, const pk_message_type *type, const void *message,
                     pk_slice tail, pk_buffer *buffer);
int pk_marshal_again(const pk_encoding *encoding, const pk_message_type *type, const void *message,
                     pk_slice tail, int r, pk_buffer **ret_buffer, pk_status *ret_status);
bool pk_marshal_compress(const pk_encoding *encoding, pk_slice tail, pk_buffer **buffer,
                         size_t *length);
int pk_marshal_tail(const pk_encoding *encoding, pk_slice tail, pk_buffer **ret_buffer,
                    pk_status *ret_status);
int pk_marshal_refuse(const pk_encoding *encoding, bool compressed, size_t length,
                      pk_buffer *buffer, pk_status *ret_status);
int pk_marshal_no_memory(pk_buffer *buffer, pk_status *ret_status);

/*
 * The message as the codec writes it, in a buffer from the pool in front of `tail`, with room for
 * the prefix in front. Negative: PK_ERR_*, and no buffer is held.
 */
PK_NODISCARD PK_INLINE int pk_marshal_to_pool(pk_buffer_pool *pool, const pk_codec *codec,
                                              const pk_message_type *type, const void *message,
                                              pk_slice tail, pk_buffer **ret_buffer)
{
    pk_buffer *buffer = pk_buffer_get(pool);
    if (PK_UNLIKELY(!buffer))
        return PK_ERR_NOMEM;
    /* What nearly all replies are goes by no table. */
    int r = PK_LIKELY(codec == &pk_codec_proto && tail.length == 0)
                ? pk_codec_proto_prepend(type, message, buffer)
                : pk_marshal_write(codec, type, message, tail, buffer);
    if (PK_UNLIKELY(r < 0)) {
        pk_buffer_unref(buffer);
        return r;
    }
    *ret_buffer = buffer;
    return 0;
}

/*
 * The second half of pk_marshal, for a buffer (taken) that holds what the codec wrote of a message
 * and the tail: compressor, limit, prefix.
 */
PK_NODISCARD PK_INLINE int pk_marshal_finish(const pk_encoding *encoding, pk_buffer *buffer,
                                             const pk_envelope *envelope, pk_slice tail,
                                             pk_buffer **ret_buffer, bool *ret_compressed,
                                             pk_status *ret_status)
{
    size_t length = pk_buffer_length(buffer) - tail.length;
    bool compressed = false;
    if (PK_UNLIKELY(encoding->compressor != NULL) && length > 0 &&
        length >= encoding->compress_min_bytes)
        compressed = pk_marshal_compress(encoding, tail, &buffer, &length);
    if (PK_UNLIKELY(length > UINT32_MAX || (encoding->send_limit && length > encoding->send_limit)))
        return pk_marshal_refuse(encoding, compressed, length, buffer, ret_status);
    if (envelope) {
        if (PK_UNLIKELY((size_t) (buffer->start - buffer->memory) < PK_FRAME_PREFIX) &&
            pk_buffer_room_before(buffer, PK_FRAME_PREFIX) < 0)
            return pk_marshal_no_memory(buffer, ret_status);
        buffer->start -= PK_FRAME_PREFIX;
        pk_frame_write_prefix(buffer->start,
                              compressed || encoding->precompressed ? envelope->compressed
                                                                    : envelope->plain,
                              (uint32_t) length);
    }
    *ret_buffer = buffer;
    *ret_compressed = compressed;
    return 0;
}

/*
 * The message, behind its 5-byte prefix where `envelope` is not NULL, in a buffer from the pool;
 * `tail` (may be empty) is laid behind it. For a NULL message nothing but the tail is written;
 * *ret_buffer is NULL where that is empty. *ret_compressed tells whether the compressor was used:
 * never for a result that is not smaller.
 *
 * 0, or PK_ERR_* with *ret_status filled (text in the arena): INTERNAL where neither codec nor
 * backup can encode the message, RESOURCE_EXHAUSTED above the send limit or without memory.
 */
PK_NODISCARD int pk_marshal(const pk_encoding *encoding, const pk_message_type *type,
                            const void *message, const pk_envelope *envelope, pk_slice tail,
                            pk_buffer **ret_buffer, bool *ret_compressed, pk_status *ret_status);

/*
 * The same in line, for the reply of a unary call: what its encoder knows (no tail, the flags) folds
 * away, and nothing is handed on by the stack.
 */
PK_NODISCARD PK_INLINE int pk_marshal_in_line(const pk_encoding *encoding,
                                              const pk_message_type *type, const void *message,
                                              const pk_envelope *envelope, pk_slice tail,
                                              pk_buffer **ret_buffer, bool *ret_compressed,
                                              pk_status *ret_status)
{
    if (PK_UNLIKELY(!message)) {
        *ret_compressed = false;
        return pk_marshal_tail(encoding, tail, ret_buffer, ret_status);
    }
    pk_buffer *buffer;
    int r = pk_marshal_to_pool(encoding->marshalling->buffers, encoding->codec, type, message, tail,
                               &buffer);
    if (PK_UNLIKELY(r < 0)) {
        r = pk_marshal_again(encoding, type, message, tail, r, &buffer, ret_status);
        if (r < 0)
            return r;
    }
    return pk_marshal_finish(encoding, buffer, envelope, tail, ret_buffer, ret_compressed,
                             ret_status);
}

/* The slow path of pk_unmarshal: the codec has failed with `r`; `reason` may be NULL. */
PK_NODISCARD int pk_unmarshal_failed(const pk_codec *codec, const pk_codec *backup,
                                     const pk_message_type *type, pk_slice bytes, pk_arena *arena,
                                     int r, const char *reason, const void **ret_message,
                                     pk_status *ret_status);

/*
 * Decodes one message into the arena. 0, or PK_ERR_* with *ret_status filled: RESOURCE_EXHAUSTED
 * for a decode budget or memory, else INTERNAL, or INVALID_ARGUMENT where a backup codec was tried
 * as well.
 */
PK_NODISCARD int pk_unmarshal(const pk_codec *codec, const pk_codec *backup,
                              const pk_message_type *type, pk_slice bytes, pk_arena *arena,
                              const void **ret_message, pk_status *ret_status);

/* The same in line, for the request of a call. */
PK_NODISCARD PK_INLINE int pk_unmarshal_in_line(const pk_codec *codec, const pk_codec *backup,
                                                const pk_message_type *type, pk_slice bytes,
                                                pk_arena *arena, const void **ret_message,
                                                pk_status *ret_status)
{
    const char *reason = NULL;
    int r = PK_LIKELY(codec == &pk_codec_proto)
                ? pk_codec_proto_decode(type, bytes, arena, ret_message, &reason)
                : codec->decode(codec, type, bytes, arena, ret_message, &reason);
    return PK_LIKELY(r == 0) ? 0
                             : pk_unmarshal_failed(codec, backup, type, bytes, arena, r, reason,
                                                   ret_message, ret_status);
}

/*
 * The same for bytes in `holder` that nobody else sees, with PK_FRAME_PADDING readable ones behind
 * them; NULL where there is no holder. This is the one place that decides on zero-copy: a type
 * that asks for it is decoded where its bytes lie, unless a backup codec might need them again. Then
 * *ret_kept is a reference to the holder, the caller's to give back when the arena's contents go;
 * otherwise it is NULL, and the message does not reference the bytes.
 */
PK_NODISCARD int pk_unmarshal_held(const pk_codec *codec, const pk_codec *backup,
                                   const pk_message_type *type, pk_slice bytes, pk_buffer *holder,
                                   pk_arena *arena, const void **ret_message, pk_buffer **ret_kept,
                                   pk_status *ret_status);

#endif
