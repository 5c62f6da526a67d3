/*
 * The inside of a streaming call: reader and writer, side by side in the call's memory.
 *
 * streaming.c joins them with the handler's future; reader.c is the pull side and writer.c the push
 * side. What the two need of the call goes through its exchange, body reader and encoding, so that
 * neither knows on which side of the wire it stands.
 */
#ifndef PEKOE_HANDLERS_STREAMING_STREAM_H
#define PEKOE_HANDLERS_STREAMING_STREAM_H

#include <pekoe/operators.h>
#include <pekoe/raw.h>

#include "handlers/call.h"

struct pk_taken; /* a message of pk_reader_take; see reader.c */

/*
 * An operation's promise. It is kept after it was settled until its step has begun to run, and then
 * until the next operation but one, which waits with it again.
 */
struct pk_stream_wait {
    pk_promise *producer; /* our end of it; NULL once settled */
    pk_promise *promise;  /* a reference; NULL: none was made yet */
    pk_promise *spare;    /* the one before, a reference; NULL: none */
};

/* What a read is to give. */
enum pk_reading {
    PK_READING_MESSAGE,
    PK_READING_TAKEN, /* a message of pk_reader_take */
    PK_READING_FRAMES,
};

struct pk_reader {
    pk_source source; /* filled where the reader is used as one */
    struct pk_call_release release;
    pk_call *call;
    const pk_message_type *type; /* NULL: raw */
    pk_arena arena; /* what the message that is lent out lives in; reset at the next read */
    struct pk_stream_wait wait;
    pk_buffer *kept;        /* what the message that is lent out was decoded in; NULL: copied */
    size_t kept_bytes;      /* of it and of those of messages that were taken */
    struct pk_taken *taken; /* messages with a block of their own, newest first */
    pk_buffer *unread;      /* bytes that came while nobody read; NULL: none */
    size_t owed;            /* body bytes whose flow control credit was not given back */
    size_t held;            /* what the exchange was told of bytes that are kept or gathered */
    pk_raw_frames frames;   /* those that are lent out */
    pk_buffer *lent;        /* what they lie in, unless that is `kept`; else NULL */
    enum pk_reading asked;  /* by the pending read */
    bool ended;             /* the peer has ended its side */
};

struct pk_writer {
    pk_call *call;
    const pk_message_type *type; /* NULL: raw */
    struct pk_stream_wait wait;
    bool started; /* the response's head has gone */
    bool plain;   /* messages are not to be compressed */
};

struct pk_stream {
    pk_reader in;
    pk_writer out;
};

/* The call's reader and writer, in the call. False without memory. */
PK_NODISCARD bool pk_stream_open(pk_call *call);

/* ---- A pending read or write ---- */

/* Whether the last one has not come back to whoever asked for it. */
bool pk_stream_waits(const struct pk_stream_wait *wait);

/* A promise for one, whose future is the result. */
PK_NODISCARD pk_future pk_stream_wait(pk_call *call, struct pk_stream_wait *wait);

/* Whether somebody waits for it. It may have been given up alone, as by pk_timeout. */
static inline bool pk_stream_is_awaited(const struct pk_stream_wait *wait)
{
    return wait->producer && pk_promise_waits(wait->producer);
}

/* Settles it, done or failed. */
void pk_stream_settle(struct pk_stream_wait *wait, pk_future outcome);

/* Nothing will come any more. */
void pk_stream_forget(struct pk_stream_wait *wait);

/* A failed future for what is asked of a call that has ended. */
static inline pk_future pk_stream_ended(const pk_call *call)
{
    return pk_failed_with(call->scope.cancelled ? call->scope.cancelled : &call->end_status);
}

/*
 * Client: all was read; ends the call with the server's status, which is the outcome of a read. While
 * interceptors have not said what that is, it is a pending future without a promise.
 */
pk_future pk_stream_outcome(pk_call *call);

/* Adds what a raw call's head says of compression. PK_ERR_INVALID, PK_ERR_NOMEM. */
PK_NODISCARD int pk_stream_add_encodings(pk_metadata *headers, const pk_encodings *encodings);

/* ---- Reader ---- */

/* Its memory is given back with the call's. */
void pk_reader_open(pk_reader *reader, pk_call *call, const pk_message_type *type);

/* Bytes and the end of the body. */
void pk_reader_data(pk_reader *reader, const uint8_t *bytes, size_t length);
void pk_reader_end(pk_reader *reader);

/* The call has ended: no more is read, and all credit goes back. */
void pk_reader_close(pk_reader *reader);

/* ---- Writer ---- */

void pk_writer_open(pk_writer *writer, pk_call *call, const pk_message_type *type);

/* Sends the response's head, unless it has gone. */
void pk_writer_start(pk_writer *writer);

/* There is room again. */
void pk_writer_room(pk_writer *writer);

/* The call has ended. */
void pk_writer_close(pk_writer *writer);

#endif
