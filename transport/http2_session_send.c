/* What goes out over the HTTP/2 session: see http2_session.h. */
#include "transport/http2_session_private.h"

#define FIELDS_MOST (1u << 20) /* bytes of a block's fields */

/* Whether these are more than anybody takes. */
static bool too_large(const pk_field *fields, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += fields[i].name.length + fields[i].value.length;
    return bytes > FIELDS_MOST;
}

/*
 * The library is handed HEADERS without fields: on_frame_send puts them in. Where a DATA frame is
 * still to come they follow it at once instead, see on_send_data.
 */
static int submit_last(pk_http2_stream *stream)
{
    pk_http2_session *session = stream->session;
    stream->last_submitted = true;
    return settle(session, nghttp2_submit_trailer(engine(session), stream->id, NULL, 0));
}

/* ---- Callbacks of the library ---- */

/* Says how many bytes the next DATA frame takes from the queue; send_data then moves them. */
static ssize_t on_read(nghttp2_session *library, int32_t id, uint8_t *bytes, size_t length,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    pk_http2_session *session = user;
    pk_http2_stream *stream = source->ptr;
    if (session->output->bytes >= session->output_limit) {
        session->output_full = true;
        return NGHTTP2_ERR_PAUSE;
    }
    if (stream->queued == 0 && (!stream->finishing || stream->last_submitted)) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->queued > length)
        return (ssize_t) length;
    if (stream->finishing)
        *flags |= NGHTTP2_DATA_FLAG_EOF; /* for the library trailers are part of the last frame */
    return (ssize_t) stream->queued;
}

/* Moves `length` bytes from the queue to the output; whole buffers take their reference along. */
static int move_bytes(pk_http2_stream *stream, pk_output *output, size_t length)
{
    stream->queued -= length;
    stream->moved += (uint32_t) length;
    stream->session->queued -= length;
    while (length > 0) {
        pk_buffer *buffer = stream->queue;
        size_t part = pk_buffer_length(buffer);
        if (part > length)
            part = length;
        int r = pk_output_refer(output, buffer->start, part, buffer);
        if (r < 0)
            return r;
        buffer->start += part;
        length -= part;
        if (buffer->start == buffer->end) {
            stream->queue = buffer->next;
            if (!stream->queue)
                stream->queue_end = &stream->queue;
            pk_buffer_unref(buffer);
        }
    }
    return 0;
}

/* Puts the last DATA frame and trailers behind it, which end the stream in its place. */
static int put_last(pk_http2_stream *stream, const uint8_t *frame_head, size_t length)
{
    pk_http2_session *session = stream->session;
    uint8_t head[9];
    memcpy(head, frame_head, sizeof head);
    head[4] &= (uint8_t) ~NGHTTP2_FLAG_END_STREAM;
    if (pk_output_copy(session->output, head, sizeof head) < 0 ||
        move_bytes(stream, session->output, length) < 0)
        return PK_ERR_NOMEM;
    return pk_http2_session_put_fields(session, stream->id, true, 0, stream->last,
                                       stream->last_count, &session->sent_trailers);
}

static int on_send_data(nghttp2_session *library, nghttp2_frame *frame, const uint8_t *frame_head,
                        size_t length, nghttp2_data_source *source, void *user)
{
    pk_http2_session *session = user;
    pk_http2_stream *stream = source->ptr;
    session->last = stream;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM && stream->last_count > 0)
        return put_last(stream, frame_head, length) < 0 ? callback_failed(session, PK_ERR_NOMEM)
                                                        : 0;
    if (pk_output_copy(session->output, frame_head, 9) < 0 ||
        move_bytes(stream, session->output, length) < 0)
        return callback_failed(session, PK_ERR_NOMEM);
    if (stream->wants_room && stream->queued <= PK_HTTP2_QUEUE_LOW &&
        (stream->queued == 0 || session->queued < session->limits.send_budget)) {
        stream->wants_room = false;
        session->rooms++;
        return collect(session, stream, PK_HTTP2_ROOM, NULL, 0);
    }
    return 0;
}

/*
 * A stream was reset, by us or by the library. A server counts those for which errors of the peer
 * are the reason, which may come at the rate of its own resets: making us reset streams is as cheap
 * for it as resetting them. A client counts all, since servers do.
 */
static int count_reset(pk_http2_session *session, int32_t id, uint32_t error)
{
    const pk_http2_stream *stream = find(session, id);
    bool ours = error == NGHTTP2_NO_ERROR || error == NGHTTP2_CANCEL ||
                error == NGHTTP2_REFUSED_STREAM || error == NGHTTP2_INTERNAL_ERROR ||
                (stream && stream->shed);
    if (ours && session->server)
        return 0;
    if (session->resets_left == 0) {
        uint64_t now = session->clock(session->clock_context);
        uint64_t more =
            (now - session->resets_since) / PK_HTTP2_SECOND * session->limits.resets_per_second;
        session->resets_since = now;
        session->resets_left =
            more < session->limits.resets ? (uint32_t) more : session->limits.resets;
    }
    if (session->resets_left > 0)
        session->resets_left--;
    else if (session->server)
        return nghttp2_session_terminate_session(engine(session), NGHTTP2_ENHANCE_YOUR_CALM);
    else
        session->worn_out = true;
    return 0;
}

/* The library has packed HEADERS without fields: puts what it stands for in its place. */
static int put_headers(pk_http2_stream *stream, bool ended)
{
    pk_http2_session *session = stream->session;
    session->frame_put = true;
    if (stream->head_left)
        return pk_http2_session_put_fields(session, stream->id, ended, 0, stream->last,
                                           stream->last_count, &session->sent_trailers);
    stream->head_left = true;
    return pk_http2_session_put_fields(session, stream->id, ended, stream->status, stream->first,
                                       stream->first_count, &session->sent_head);
}

static int on_frame_send(nghttp2_session *library, const nghttp2_frame *frame, void *user)
{
    pk_http2_session *session = user;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        return count_reset(session, frame->hd.stream_id, frame->rst_stream.error_code) ==
                       NGHTTP2_ERR_NOMEM
                   ? callback_failed(session, PK_ERR_NOMEM)
                   : 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    session->glitch_count = 0;
    pk_http2_stream *stream = find(session, frame->hd.stream_id);
    if (!stream)
        return 0;
    bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS && put_headers(stream, ended) < 0)
        return callback_failed(session, PK_ERR_NOMEM);
    stream->local_ended = ended;
    if (!ended || !session->server || stream->remote_ended)
        return 0;
    /* The response is complete and the rest of the request unwanted (RFC 9113 section 8.1). */
    return pk_http2_session_reset_stream(stream, PK_HTTP2_NO_ERROR) == NGHTTP2_ERR_NOMEM
               ? callback_failed(session, PK_ERR_NOMEM)
               : 0;
}

void pk_http2_session_set_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}

/* ---- Requests ---- */

/* Whether a stream waits and the peer allows one more. */
static bool may_start(const pk_http2_session *session)
{
    return session->waiting && !session->output_full &&
           session->open_count < nghttp2_session_get_remote_settings(
                                     engine(session), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

/* Hands the first stream that waits to the library. */
static int start_one(pk_http2_session *session)
{
    pk_http2_stream *stream = session->waiting;
    if (too_large(stream->first, stream->first_count))
        return pk_http2_session_close_waiting(stream, PK_HTTP2_INTERNAL_ERROR) == 0 ? 0
                                                                                    : PK_ERR_NOMEM;
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_read};
    int32_t id = nghttp2_submit_request(engine(session), NULL, NULL, 0,
                                        stream->body_attached ? &provider : NULL, stream);
    if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) /* all ids are used up */
        return pk_http2_session_close_waiting(stream, PK_HTTP2_REFUSED_STREAM) == 0 ? 0
                                                                                    : PK_ERR_NOMEM;
    if (id < 0)
        return PK_ERR_NOMEM;
    pk_http2_session_stop_waiting(stream);
    stream->id = id;
    session->open_count++;
    return 0;
}

static int start_waiting(pk_http2_session *session)
{
    int r = 0;
    while (r == 0 && may_start(session))
        r = start_one(session);
    return r;
}

/* Hands what the library has to say to the output, until that is full. */
static int take_frames(pk_http2_session *session)
{
    int r = 0;
    while (r == 0 && !session->output_full) {
        const uint8_t *bytes;
        session->frame_put = false;
        ssize_t length = nghttp2_session_mem_send(engine(session), &bytes);
        r = length < 0 ? settle(session, (int) length) : session->failed;
        if (length <= 0 || r < 0)
            break;
        if (!session->frame_put)
            r = pk_output_copy(session->output, bytes, (size_t) length);
        if (session->output->bytes >= session->output_limit)
            session->output_full = true;
    }
    return r;
}

/*
 * A client's GOAWAY comes behind its requests: a server that has heard it and sees no request open
 * may close the connection. The library would send it first.
 */
static int take_goaway(pk_http2_session *session)
{
    if (session->server || session->gone_away || session->waiting || session->output_full)
        return 0;
    int r = pk_http2_session_go_away(session);
    return r < 0 ? r : take_frames(session);
}

/* ---- For the caller ---- */

int pk_http2_session_take(pk_http2_session *session, pk_output *output, size_t limit)
{
    if (session->failed)
        return session->failed;
    session->output = output;
    session->output_limit = limit;
    session->output_full = false;
    int r;
    do {
        r = start_waiting(session);
        if (r == 0)
            r = pk_http2_session_return_credit(session);
        if (r == 0)
            r = take_frames(session);
    } while (r == 0 && (session->credit > 0 || may_start(session)));
    if (PK_UNLIKELY(session->draining) && r == 0)
        r = take_goaway(session);
    session->output = NULL;
    if (r < 0)
        session->failed = r;
    return r < 0 ? r : session->output_full;
}

int pk_http2_open(pk_http2_session *session, const pk_field *fields, size_t count, bool body,
                  pk_http2_stream **ret_stream)
{
    if (session->failed)
        return session->failed;
    if (session->peer_goes_away || session->draining || session->gone_away ||
        !nghttp2_session_check_request_allowed(engine(session)))
        return PK_ERR_CLOSED;
    pk_http2_stream *stream = pk_http2_session_new_stream(session, 0);
    if (!stream)
        return PK_ERR_NOMEM;
    stream->first = fields;
    stream->first_count = count;
    stream->head_sent = true;
    stream->body_attached = body;
    stream->finishing = !body;
    stream->waiting = true;
    *session->waiting_end = stream;
    session->waiting_end = &stream->next_waiting;
    *ret_stream = stream; /* it is started when output is taken */
    return 0;
}

size_t pk_http2_room_for_streams(const pk_http2_session *session)
{
    if (session->failed || session->peer_goes_away || session->draining || session->gone_away ||
        !nghttp2_session_check_request_allowed(engine(session)))
        return 0;
    uint32_t most = nghttp2_session_get_remote_settings(engine(session),
                                                        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return most > session->stream_count ? most - session->stream_count : 0;
}

int pk_http2_respond(pk_http2_stream *stream, unsigned status, const pk_field *fields, size_t count,
                     bool ended)
{
    pk_http2_session *session = stream->session;
    if (lost(stream) || stream->head_sent)
        return session->failed;
    if (PK_UNLIKELY(too_large(fields, count)))
        return pk_http2_reset(stream, PK_HTTP2_INTERNAL_ERROR);
    stream->head_sent = true;
    stream->finishing = ended;
    stream->status = status;
    stream->first = fields;
    stream->first_count = count;
    uint8_t flags = ended ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    return settle(session,
                  nghttp2_submit_headers(engine(session), flags, stream->id, NULL, NULL, 0, NULL));
}

/* The last buffer of a queue that is not empty. */
static pk_buffer *last_queued(const pk_http2_stream *stream)
{
    return (pk_buffer *) ((char *) stream->queue_end - offsetof(pk_buffer, next));
}

int pk_http2_write(pk_http2_stream *stream, pk_buffer *body_take)
{
    pk_http2_session *session = stream->session;
    size_t length = pk_buffer_length(body_take);
    if (lost(stream) || stream->finishing || length == 0) {
        pk_buffer_unref(body_take);
        return session->failed;
    }
    stream->queued += length;
    session->queued += length;
    pk_buffer *buffer = stream->queue ? pk_buffer_queue(last_queued(stream), body_take) : body_take;
    if (!buffer)
        return 0;
    buffer->next = NULL;
    *stream->queue_end = buffer;
    stream->queue_end = &buffer->next;
    if (!stream->body_attached) {
        stream->body_attached = true;
        nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_read};
        return settle(session, nghttp2_submit_data(engine(session), NGHTTP2_FLAG_END_STREAM,
                                                   stream->id, &provider));
    }
    if (stream->deferred) {
        stream->deferred = false;
        return settle(session, nghttp2_session_resume_data(engine(session), stream->id));
    }
    return 0;
}

bool pk_http2_full(pk_http2_stream *stream)
{
    const pk_http2_session *session = stream->session;
    if (lost(stream))
        return false;
    stream->wants_room = stream->queued >= PK_HTTP2_QUEUE_HIGH ||
                         (stream->queued > 0 && session->queued >= session->limits.send_budget);
    return stream->wants_room;
}

bool pk_http2_shut_out(const pk_http2_stream *stream)
{
    return stream->queued > 0 &&
           nghttp2_session_get_stream_remote_window_size(engine(stream->session), stream->id) <= 0;
}

int pk_http2_finish(pk_http2_stream *stream, const pk_field *trailers, size_t count)
{
    pk_http2_session *session = stream->session;
    if (lost(stream) || stream->finishing)
        return session->failed;
    if (PK_UNLIKELY(too_large(trailers, count)))
        return pk_http2_reset(stream, PK_HTTP2_INTERNAL_ERROR);
    stream->finishing = true;
    stream->wants_room = false;
    stream->last = trailers;
    stream->last_count = count;
    if (stream->queued > 0)
        return 0; /* on_send_data puts them behind the last byte */
    if (!session->server && count == 0 && stream->body_attached) {
        /* A request has no trailers: an empty DATA frame ends it. */
        if (!stream->deferred)
            return 0;
        stream->deferred = false;
        return settle(session, nghttp2_session_resume_data(engine(session), stream->id));
    }
    /* Not through on_read, which the library does not call while the window is shut. */
    return submit_last(stream);
}
