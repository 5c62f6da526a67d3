/*
 * The body of a request or response, cut into messages: the one decoder for strict and streamed.
 *
 * A handler embeds a pk_body_reader in its call, feeds it what exchange.on_data brings, and takes
 * complete messages out, decompressed. It checks flags, limits and, where exactly one message is
 * due, their number, and says what is wrong as a pk_status. It knows every protocol variant; nobody
 * else looks at frames.
 *
 *     pk_body_reader_feed(reader, bytes, length, holder);
 *     while ((got = pk_body_reader_next(reader, &message)) > 0)
 *         decode message.bytes now, or keep message.holder
 *     if (got < 0) fail the call with reader->status
 *     ... and when the peer has ended its side: pk_body_reader_end(reader)
 *
 * A message that lies whole inside one chunk is not copied.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_BODY_H
#define PEKOE_MARSHALLING_PROTOCOL_BODY_H

#include <pekoe/status.h>

#include "core/base64.h"
#include "core/exchange.h"
#include "marshalling/frame.h"
#include "marshalling/marshal.h"

typedef struct pk_protocol pk_protocol;

/* Which side reads, how many messages are due, and what has become of the body. */
typedef enum pk_body_kind {
    PK_BODY_REQUEST = 0,
    PK_BODY_RESPONSE = 1, /* trailer frames are taken where the protocol has them */
    PK_BODY_ONE = 2,      /* flag: exactly one message (a unary call) */
    PK_BODY_RAW = 4,      /* flag: messages stay compressed */
    /* Set by the reader itself: */
    PK_BODY_TEXT = 8,    /* flag: the protocol's body is base64 */
    PK_BODY_OVER = 16,   /* flag: its trailers have come, nothing may follow */
    PK_BODY_FAILED = 32, /* flag: there was an error */
} pk_body_kind;

typedef struct pk_body_message {
    pk_slice bytes; /* plain unless raw; readable until the reader's next function is called */
    /* The buffer that the bytes lie in: a reference keeps them readable longer. May be NULL. */
    pk_buffer *holder;
    /*
     * Nobody else sees the bytes: they may be changed; PK_FRAME_PADDING readable ones follow. They
     * are all that the holder contains.
     */
    bool owned;
    bool compressed; /* it came compressed */
} pk_body_message;

typedef struct pk_body_reader {
    const pk_protocol *protocol;
    pk_marshalling *marshalling;
    pk_arena *arena; /* the call's: texts and trailers */
    const pk_compressor *incoming;
    size_t limit;
    unsigned kind;        /* of pk_body_kind */
    unsigned http_status; /* 400 where the body broke HTTP's side of the bargain, else 0 */
    int error;            /* PK_ERR_* once it has failed; `status` says why */
    uint64_t messages;
    pk_frame_reader frames;
    pk_buffer *plain; /* of the message decompressed last */
    pk_buffer *text;  /* base64: the bytes decoded from the chunk */
    pk_base64_stream base64;
    pk_head trailers; /* of a trailer frame; fields NULL until there was one */
    pk_status status; /* valid once `error` is set; text in the arena or static */
} pk_body_reader;

/*
 * `incoming`: from negotiation, NULL for none. `limit`: bytes of one message, on the wire and
 * decompressed. Allocates nothing.
 */
void pk_body_reader_init(pk_body_reader *reader, const pk_protocol *protocol,
                         pk_marshalling *marshalling, pk_arena *arena,
                         const pk_compressor *incoming, size_t limit, unsigned kind);

/* What a compressed message means, where negotiation tells only later; before the first chunk. */
void pk_body_reader_set_incoming(pk_body_reader *reader, const pk_compressor *incoming);

/*
 * Hands messages on as they come: compressed ones stay so, and may come where `head`, in which the
 * body was announced, names an encoding. Before the first chunk.
 */
void pk_body_reader_set_raw(pk_body_reader *reader, const pk_head *head);

/* The slow path of pk_body_reader_done: there are buffers. */
void pk_body_reader_let_go(pk_body_reader *reader);

static inline bool pk_body_reader_has_buffers(const pk_body_reader *reader)
{
    return reader->plain || reader->text || reader->frames.gathered || reader->frames.kept;
}

/* Gives back every buffer; the reader may be done more than once. */
static inline void pk_body_reader_done(pk_body_reader *reader)
{
    if (PK_UNLIKELY(pk_body_reader_has_buffers(reader)))
        pk_body_reader_let_go(reader);
}

/*
 * The next chunk, readable until pk_body_reader_next has returned 0 or pk_body_reader_keep. 0, or
 * negative with `status` set.
 */
PK_NODISCARD int pk_body_reader_feed(pk_body_reader *reader, const uint8_t *bytes, size_t length,
                                     pk_buffer *holder);

/* Whether this is a stream that goes on, and its frames are the chunk as it came. */
static inline bool pk_body_reader_is_plain(const pk_body_reader *reader)
{
    const unsigned not_plain = PK_BODY_ONE | PK_BODY_TEXT | PK_BODY_OVER | PK_BODY_FAILED;
    return PK_LIKELY(!(reader->kind & not_plain) && !reader->plain);
}

/*
 * Feed and next in one for the short messages of a stream. 1: *ret_message was completed by this
 * chunk, of which there may be more. 0: the chunk is used up, and leaves a message incomplete.
 * PK_ERR_STATE: it is another kind of chunk; nothing has changed, and it is to be fed.
 */
PK_NODISCARD static inline int pk_body_reader_feed_short(pk_body_reader *reader,
                                                         const uint8_t *bytes, size_t length,
                                                         pk_body_message *ret_message)
{
    pk_frame_reader *frames = &reader->frames;
    if (PK_UNLIKELY(!pk_body_reader_is_plain(reader) || frames->at != frames->end))
        return PK_ERR_STATE;
    if (pk_frame_reader_swallow(frames, bytes, length))
        return 0;
    pk_slice payload;
    if (PK_UNLIKELY(!pk_frame_reader_complete(frames, bytes, length, &payload)))
        return PK_ERR_STATE;
    reader->messages++;
    *ret_message = (pk_body_message){payload, NULL, false, false};
    return 1;
}

/*
 * Next for the usual case. 1: *ret_message is whole in the chunk. 0: no message is complete, and the
 * chunk is used up. PK_ERR_STATE: it is another case; nothing has changed, and next is to be asked.
 */
PK_NODISCARD static inline int pk_body_reader_next_plainly(pk_body_reader *reader,
                                                           pk_body_message *ret_message)
{
    pk_frame_reader *frames = &reader->frames;
    pk_slice payload;
    if (PK_UNLIKELY(!pk_body_reader_is_plain(reader)))
        return PK_ERR_STATE;
    if (!pk_frame_reader_take_whole(frames, &payload))
        return pk_frame_reader_swallow_rest(frames) ? 0 : PK_ERR_STATE;
    reader->messages++;
    *ret_message = (pk_body_message){payload, frames->holder, false, false};
    return 1;
}

/* Before the first byte: another limit than that of init. */
static inline void pk_body_reader_set_limit(pk_body_reader *reader, size_t limit)
{
    reader->limit = reader->frames.limit = limit;
}

/* One more message has come; no further one may where exactly one was due. */
static inline void pk_body_reader_count_message(pk_body_reader *reader)
{
    reader->messages++;
    /* The prefix alone, unless it is that of an empty message, gives a second one away. */
    if ((reader->kind & (PK_BODY_ONE | PK_BODY_RESPONSE)) == PK_BODY_ONE)
        reader->frames.limit = 0;
}

/* 1: *ret_message is the next. 0: more bytes are needed. Negative: failed, see `status`. */
PK_NODISCARD int pk_body_reader_next(pk_body_reader *reader, pk_body_message *ret_message);

/*
 * Feed and next in one for the usual unary request: true where the chunk is the whole body, one
 * plain message of binary form. Then *ret_message is it, readable as long as the chunk, and nothing
 * is left. False: nothing has changed, and the chunk is to be fed.
 */
static inline bool pk_body_reader_take_whole(pk_body_reader *reader, const uint8_t *bytes,
                                             size_t length, pk_buffer *holder,
                                             pk_body_message *ret_message)
{
    const pk_frame_reader *frames = &reader->frames;
    if (PK_UNLIKELY(length < PK_FRAME_PREFIX || bytes[0] != 0 || reader->messages > 0 ||
                    (reader->kind & (PK_BODY_TEXT | PK_BODY_FAILED)) || frames->begun > 0 ||
                    frames->at != frames->end))
        return false;
    size_t message_length = pk_frame_read_length(bytes);
    if (PK_UNLIKELY(message_length != length - PK_FRAME_PREFIX || message_length > frames->limit))
        return false;
    pk_body_reader_count_message(reader);
    *ret_message =
        (pk_body_message){{bytes + PK_FRAME_PREFIX, message_length}, holder, false, false};
    return true;
}

/*
 * Decodes a message that the reader gave, before the reader's next function is called: in place
 * where that can be, see pk_unmarshal_held.
 */
PK_NODISCARD PK_INLINE int pk_body_unmarshal(const pk_encoding *encoding,
                                             const pk_message_type *type,
                                             const pk_body_message *message, pk_arena *arena,
                                             const void **ret_message, pk_buffer **ret_kept,
                                             pk_status *ret_status)
{
    if (PK_UNLIKELY(message->owned))
        return pk_unmarshal_held(encoding->codec, encoding->backup, type, message->bytes,
                                 message->holder, arena, ret_message, ret_kept, ret_status);
    *ret_kept = NULL;
    return pk_unmarshal_in_line(encoding->codec, encoding->backup, type, message->bytes, arena,
                                ret_message, ret_status);
}

/*
 * Makes what is left of the chunk outlive it, for a reader that takes no more messages now: by a
 * reference to its holder, or by a copy. 0, or negative with `status` set.
 */
PK_NODISCARD int pk_body_reader_keep(pk_body_reader *reader);

/*
 * The peer has ended its side and pk_body_reader_next has returned 0. 0, or negative with `status`
 * set: INTERNAL where the end lies inside a message, UNIMPLEMENTED where one message was due and
 * none came. A client that reads a response asks pk_protocol.response_end first and this only where
 * that is OK: a call that failed has no message.
 */
PK_NODISCARD int pk_body_reader_end(pk_body_reader *reader);

/* Bytes of the chunk that no message has used up yet; of base64, bytes that came out of it. */
static inline size_t pk_body_reader_left(const pk_body_reader *reader)
{
    return pk_frame_reader_left(&reader->frames);
}

/* Bytes that the reader keeps of messages that are not complete: for exchange.hold. */
static inline size_t pk_body_reader_held(const pk_body_reader *reader)
{
    return pk_frame_reader_held(&reader->frames);
}

#endif
