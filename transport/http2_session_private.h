/*
 * What the files of the HTTP/2 session share: see http2_session.h. Only http2_session*.c include
 * this header, and only they see nghttp2.
 *
 * http2_session.c has the session's life and its streams, http2_session_receive.c what comes in,
 * http2_session_send.c what goes out; http2_session_known.c spares decoding of fields,
 * http2_session_encode.c encodes them.
 */
#ifndef PEKOE_TRANSPORT_HTTP2_SESSION_PRIVATE_H
#define PEKOE_TRANSPORT_HTTP2_SESSION_PRIVATE_H

#include "transport/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <assert.h>
#include <string.h>

#define PK_HTTP2_SECOND UINT64_C(1000000000)

/* In the PING between both GOAWAYs. */
extern const uint8_t pk_http2_drain_mark[8];

static inline nghttp2_session *engine(const pk_http2_session *session)
{
    return session->engine;
}

/* Maps the library's result: what it cannot live on with is remembered. */
static inline int settle(pk_http2_session *session, int result)
{
    if (PK_LIKELY(result >= 0))
        return 0;
    if (result == NGHTTP2_ERR_NOMEM) {
        session->failed = PK_ERR_NOMEM;
        return PK_ERR_NOMEM;
    }
    if (nghttp2_is_fatal(result)) {
        if (!session->failed)
            session->failed = PK_ERR_MALFORMED;
        return session->failed;
    }
    return 0; /* the stream is gone already: its CLOSED event is on the way */
}

/* What a callback of the library returns once memory has run out. */
static inline int callback_failed(pk_http2_session *session, int error)
{
    session->failed = error;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* Makes the batch larger. */
int pk_http2_session_grow_batch(pk_http2_session *session);

/* Appends an event; the result is that of a callback of the library. */
static inline int collect(pk_http2_session *session, pk_http2_stream *stream,
                          pk_http2_event_kind kind, const uint8_t *bytes, size_t length)
{
    if (PK_UNLIKELY(session->event_count == session->event_capacity) &&
        pk_http2_session_grow_batch(session) < 0)
        return callback_failed(session, PK_ERR_NOMEM);
    session->events[session->event_count++] = (pk_http2_event){
        .stream = stream, .bytes = bytes, .length = (uint32_t) length, .kind = kind};
    return 0;
}

/* The stream of an id; NULL where it is closed or was never kept. */
static inline pk_http2_stream *find(pk_http2_session *session, int32_t id)
{
    pk_http2_stream *last = session->last;
    if (PK_LIKELY(last && last->id == id))
        return last;
    /* Streams are made, answered and often fed in one order. */
    if (last && last->next->id == id && !last->next->closed) {
        session->last = last->next;
        return last->next;
    }
    pk_http2_stream *stream = nghttp2_session_get_stream_user_data(engine(session), id);
    if (stream)
        session->last = stream;
    return stream;
}

/* Nobody will use up what has come on a stream: the connection's window has it back. */
static inline void pk_http2_session_forgive(pk_http2_stream *stream)
{
    if (stream->session->server)
        stream->session->credit += stream->uncredited;
    stream->uncredited = 0;
}

/* Whether nothing can be sent on a stream any more. */
static inline bool lost(const pk_http2_stream *stream)
{
    return stream->closed || stream->dead || stream->session->failed;
}

/* What each file wants to hear from the library. */
void pk_http2_session_set_receive_callbacks(nghttp2_session_callbacks *callbacks);
void pk_http2_session_set_send_callbacks(nghttp2_session_callbacks *callbacks);

/* A stream's object, in the session's ring; NULL: no memory. */
pk_http2_stream *pk_http2_session_new_stream(pk_http2_session *session, int32_t id);

/* Starts the fields of a new stream, gives back those of one that ends. */
void pk_http2_session_init_fields(pk_http2_stream *stream);
void pk_http2_session_release_fields(pk_http2_stream *stream);

/* Forgets the fields that were seen, when the session ends. */
void pk_http2_session_forget_seen(pk_http2_session *session);

/* Takes a stream off the list of those that wait for a place. */
void pk_http2_session_stop_waiting(pk_http2_stream *stream);

/* The stream ends before the library knows of it. */
int pk_http2_session_close_waiting(pk_http2_stream *stream, pk_http2_error error);

/* Resets a stream; may be called inside the library's callbacks, whose results it has. */
int pk_http2_session_reset_stream(pk_http2_stream *stream, pk_http2_error error);

/* Gives the connection's window what came free inside callbacks. */
int pk_http2_session_return_credit(pk_http2_session *session);

/*
 * Server: hands what the peer sent to the library, but for blocks that are known. While the frame of
 * a request with a known head is handed over `arriving` has that, and the stream has to share it;
 * while one that is to become known is, `learning` has its block.
 */
void pk_http2_session_begin_walk(pk_http2_session *session);
int pk_http2_session_walk(pk_http2_session *session, const uint8_t *bytes, size_t length);
void pk_http2_session_share_known(pk_http2_session *session, pk_http2_stream *stream);
void pk_http2_session_learn(pk_http2_session *session, const pk_http2_stream *stream);
pk_http2_known_head *pk_http2_known_unref(pk_http2_session *session, pk_http2_known_head *known);
void pk_http2_session_forget_known(pk_http2_session *session);

/* The encoder of field blocks that go out. */
int pk_http2_session_encoder_init(pk_http2_session *session, const nghttp2_mem *library_memory);
void pk_http2_session_encoder_done(pk_http2_session *session);

/* The peer allows its table this size. */
int pk_http2_session_encoder_limit(pk_http2_session *session, size_t bytes);

/*
 * Puts HEADERS with these fields, :status in front where it is not 0, to the output. `sent` has the
 * last block of this kind. 0 or PK_ERR_NOMEM.
 */
int pk_http2_session_put_fields(pk_http2_session *session, int32_t id, bool ended, unsigned status,
                                const pk_field *fields, size_t count, pk_http2_sent_block *sent);

#endif
