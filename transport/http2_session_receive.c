/* What comes in over the HTTP/2 session: see http2_session.h. */
#include "transport/field_rules.h"
#include "transport/http2_session_private.h"

#define SEEN_BYTES 256u /* of name and value together: longer fields are not remembered */
#define GLITCH_SPAN (10 * PK_HTTP2_SECOND) /* over which glitches are counted */

/* ---- Fields ---- */

static void fields_init(pk_http2_fields *fields, pk_field *storage, size_t capacity)
{
    fields->head.fields = fields->storage = storage;
    fields->head.count = 0;
    fields->head.repeated = 0;
    fields->capacity = capacity;
    fields->bytes = 0;
    memset(fields->head.first, 0, sizeof fields->head.first);
}

static void **holders_of(pk_http2_stream *stream, const pk_http2_fields *fields)
{
    if (fields->storage == stream->fields_inline)
        return stream->holders_inline;
    return fields->storage ? (void **) (fields->storage + fields->capacity) : NULL;
}

static size_t storage_size(size_t capacity)
{
    return capacity * (sizeof(pk_field) + 2 * sizeof(void *));
}

static void fields_release(pk_http2_stream *stream, pk_http2_fields *fields)
{
    void **holders = holders_of(stream, fields);
    for (size_t i = 0; i < 2 * fields->head.count; i++)
        nghttp2_rcbuf_decref(holders[i]);
    if (fields->storage && fields->storage != stream->fields_inline)
        pk_memory_put(stream->session->memory, fields->storage, storage_size(fields->capacity));
    fields_init(fields, NULL, 0);
}

static int fields_grow(pk_http2_stream *stream, pk_http2_fields *fields)
{
    size_t count = fields->head.count;
    size_t capacity = fields->capacity ? 2 * fields->capacity : PK_HTTP2_FIELDS_INLINE;
    pk_field *storage = pk_memory_get(stream->session->memory, storage_size(capacity));
    if (!storage)
        return PK_ERR_NOMEM;
    if (count > 0) {
        memcpy(storage, fields->storage, count * sizeof *storage);
        memcpy(storage + capacity, holders_of(stream, fields), 2 * count * sizeof(void *));
    }
    if (fields->storage && fields->storage != stream->fields_inline)
        pk_memory_put(stream->session->memory, fields->storage, storage_size(fields->capacity));
    fields->storage = storage;
    fields->head.fields = storage;
    fields->capacity = capacity;
    return 0;
}

void pk_http2_session_init_fields(pk_http2_stream *stream)
{
    fields_init(&stream->head, stream->fields_inline, PK_HTTP2_FIELDS_INLINE);
    fields_init(&stream->trailers, NULL, 0);
}

void pk_http2_session_release_fields(pk_http2_stream *stream)
{
    if (stream->known)
        stream->known = pk_http2_known_unref(stream->session, stream->known);
    else
        fields_release(stream, &stream->head);
    fields_release(stream, &stream->trailers);
}

static void forget(pk_http2_seen_field *seen)
{
    if (!seen->value_text)
        return;
    nghttp2_rcbuf_decref(seen->name_text);
    nghttp2_rcbuf_decref(seen->value_text);
    seen->name_text = seen->value_text = NULL;
}

void pk_http2_session_forget_seen(pk_http2_session *session)
{
    for (size_t i = 0; i < PK_HTTP2_SEEN_FIELDS; i++)
        forget(&session->seen[i]);
}

/* Whether the field may stand where it stands; what it says was found valid. */
static bool in_place(pk_http2_stream *stream, const pk_http2_fields *fields, const pk_field *field)
{
    bool pseudo = field->name.length > 0 && field->name.bytes[0] == ':';
    if (!pseudo) {
        stream->regular_seen = true;
        if (PK_UNLIKELY(field->known == PK_FIELD_CONTENT_LENGTH && fields == &stream->head)) {
            if (fields->head.first[PK_FIELD_CONTENT_LENGTH])
                return false;
            stream->body_left = pk_field_content_length(field->value);
            return stream->body_left >= 0;
        }
        return true;
    }
    /* Known ones only, each once, before all regular fields, never in trailers. */
    return fields == &stream->head && !stream->regular_seen && field->known != PK_FIELD_OTHER &&
           !fields->head.first[field->known];
}

static pk_slice slice_of(nghttp2_rcbuf *text)
{
    nghttp2_vec vector = nghttp2_rcbuf_get_buf(text);
    return (pk_slice){vector.base, vector.len};
}

/* Where the field that stands at this place of a block is remembered; NULL: nowhere. */
static pk_http2_seen_field *seen_at(pk_http2_session *session, const pk_http2_stream *stream,
                                    size_t place)
{
    if (PK_LIKELY(!stream->head_seen))
        return place < PK_HTTP2_SEEN_HEAD ? &session->seen[place] : NULL;
    place += PK_HTTP2_SEEN_HEAD;
    return place < PK_HTTP2_SEEN_FIELDS ? &session->seen[place] : NULL;
}

/*
 * The field that two texts make, its name looked up; `known` is PK_FIELD_NAMES where one of them is
 * not valid. One that is not the same as at this place of the block before is made in *fresh.
 */
static const pk_field *look_at(pk_http2_seen_field *seen, nghttp2_rcbuf *name, nghttp2_rcbuf *value,
                               pk_field *fresh)
{
    if (PK_LIKELY(seen && seen->value_text == value && seen->name_text == name))
        return &seen->field;
    *fresh = (pk_field){.name = slice_of(name), .value = slice_of(value)};
    fresh->known = (uint8_t) pk_field_lookup(fresh->name);
    bool pseudo = fresh->name.length > 0 && fresh->name.bytes[0] == ':';
    if (pseudo ? !pk_field_value_valid(fresh->value) : !pk_field_allowed(fresh)) {
        fresh->known = PK_FIELD_NAMES;
        return fresh;
    }
    if (!seen || fresh->name.length + fresh->value.length > SEEN_BYTES)
        return fresh;
    forget(seen);
    nghttp2_rcbuf_incref(name);
    nghttp2_rcbuf_incref(value);
    *seen = (pk_http2_seen_field){name, value, *fresh};
    return fresh;
}

/* ---- Callbacks of the library; they collect and never call out ---- */

/* One frame without use. Too many within a short time end the session. */
static int count_glitch(pk_http2_session *session)
{
    if (session->glitch_count++ == 0)
        session->glitch_since = session->clock(session->clock_context);
    if (session->glitch_count <= session->limits.glitches)
        return 0;
    uint64_t now = session->clock(session->clock_context);
    bool too_fast = now - session->glitch_since < GLITCH_SPAN;
    session->glitch_count = 0;
    return too_fast ? nghttp2_session_terminate_session(engine(session), NGHTTP2_ENHANCE_YOUR_CALM)
                    : 0;
}

static int on_begin_headers(nghttp2_session *library, const nghttp2_frame *frame, void *user)
{
    pk_http2_session *session = user;
    session->block_open = true;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    pk_http2_stream *stream = pk_http2_session_new_stream(session, frame->hd.stream_id);
    if (!stream)
        return callback_failed(session, PK_ERR_NOMEM);
    session->last = stream;
    session->open_count++;
    nghttp2_session_set_stream_user_data(library, frame->hd.stream_id, stream);
    if (session->arriving)
        pk_http2_session_share_known(session, stream);
    return 0;
}

static int on_header(nghttp2_session *library, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    pk_http2_session *session = user;
    pk_http2_stream *stream = find(session, frame->hd.stream_id);
    if (!stream || stream->malformed || stream->too_large)
        return 0;
    pk_http2_fields *fields = stream->head_seen ? &stream->trailers : &stream->head;
    pk_field fresh;
    size_t place = fields->head.count;
    const pk_field *field = look_at(seen_at(session, stream, place), name, value, &fresh);
    fields->bytes += field->name.length + field->value.length + 32;
    if (PK_UNLIKELY(fields->bytes > session->limits.header_bytes)) {
        stream->too_large = true;
        return 0;
    }
    if (PK_UNLIKELY(field->known == PK_FIELD_NAMES || !in_place(stream, fields, field))) {
        stream->malformed = true;
        return 0;
    }
    if (PK_UNLIKELY(place == fields->capacity) && fields_grow(stream, fields) < 0)
        return callback_failed(session, PK_ERR_NOMEM);
    fields->storage[place] = *field;
    fields->storage[place].sensitive = (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0;
    void **holders = holders_of(stream, fields);
    holders[2 * place] = name;
    holders[2 * place + 1] = value;
    nghttp2_rcbuf_incref(name);
    nghttp2_rcbuf_incref(value);
    fields->head.count = ++place;
    if (field->known != PK_FIELD_OTHER && !fields->head.first[field->known])
        fields->head.first[field->known] = (uint16_t) place;
    else if (field->known != PK_FIELD_OTHER)
        fields->head.repeated |= 1u << field->known;
    return 0;
}

/* Resets a stream whose message breaks a rule (RFC 9113 section 8.1.1). */
static int refuse(pk_http2_stream *stream)
{
    stream->malformed = true;
    return pk_http2_session_reset_stream(stream, PK_HTTP2_PROTOCOL_ERROR);
}

/* END_STREAM came. */
static int end_of_message(pk_http2_stream *stream)
{
    if (!stream->dead && stream->body_left > 0)
        return refuse(stream); /* less than its content-length: that is not its end */
    stream->remote_ended = true;
    return stream->dead ? 0 : collect(stream->session, stream, PK_HTTP2_END, NULL, 0);
}

/* A head is complete and right. */
static int begin_message(pk_http2_stream *stream, bool ended)
{
    pk_http2_session *session = stream->session;
    stream->head_seen = true;
    stream->head_ended = stream->remote_ended = ended;
    if (ended && stream->body_left > 0 && session->server)
        return refuse(stream);
    return collect(session, stream, PK_HTTP2_HEAD, NULL, 0);
}

/* A field block is complete. */
static int end_of_block(pk_http2_stream *stream, bool ended)
{
    pk_http2_session *session = stream->session;
    if (stream->dead)
        return 0;
    if (PK_LIKELY(stream->known && !stream->head_seen))
        return begin_message(stream, ended);
    if (stream->too_large) {
        fields_release(stream, stream->head_seen ? &stream->trailers : &stream->head);
        return pk_http2_session_reset_stream(stream, PK_HTTP2_ENHANCE_YOUR_CALM);
    }
    if (stream->head_seen) {
        if (stream->malformed || !ended)
            return refuse(stream);
        return end_of_message(stream);
    }
    const pk_head *head = &stream->head.head;
    bool complete =
        session->server ? pk_field_request_complete(head) : pk_field_response_complete(head);
    if (stream->malformed || !complete)
        return refuse(stream);
    if (!session->server && pk_field_status(pk_head_value(head, PK_FIELD_STATUS)) < 200) {
        /* An interim response: the real head is still to come. */
        if (ended)
            return refuse(stream);
        fields_release(stream, &stream->head);
        fields_init(&stream->head, stream->fields_inline, PK_HTTP2_FIELDS_INLINE);
        stream->regular_seen = false;
        stream->body_left = -1;
        return 0;
    }
    if (session->learning)
        pk_http2_session_learn(session, stream);
    return begin_message(stream, ended);
}

/* Streams that the peer still serves go on, the library closes the others. */
static int on_goaway(pk_http2_session *session, const nghttp2_goaway *goaway)
{
    session->peer_goes_away = true;
    session->peer_last = goaway->last_stream_id;
    session->peer_error = goaway->error_code;
    int result = 0;
    while (session->waiting && result == 0)
        result = pk_http2_session_close_waiting(session->waiting, PK_HTTP2_REFUSED_STREAM);
    return result;
}

static int on_ping(pk_http2_session *session, const nghttp2_ping *ping)
{
    if (!(ping->hd.flags & NGHTTP2_FLAG_ACK))
        return session->server ? count_glitch(session) : 0;
    session->pings_out = 0;
    if (session->draining &&
        memcmp(ping->opaque_data, pk_http2_drain_mark, sizeof pk_http2_drain_mark) == 0)
        return pk_http2_session_go_away(session) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    return 0;
}

static int on_settings(pk_http2_session *session, const nghttp2_settings *settings)
{
    session->greeted = true;
    if (settings->hd.flags & NGHTTP2_FLAG_ACK)
        return 0;
    for (size_t i = 0; i < settings->niv; i++) {
        if (settings->iv[i].settings_id == NGHTTP2_SETTINGS_HEADER_TABLE_SIZE &&
            pk_http2_session_encoder_limit(session, settings->iv[i].value) < 0)
            return NGHTTP2_ERR_NOMEM;
    }
    return count_glitch(session);
}

/* What a frame means once it is whole; results are those of the library. */
static int frame_received(pk_http2_session *session, const nghttp2_frame *frame)
{
    bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    pk_http2_stream *stream;
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        if (!ended)
            return frame->hd.length <= frame->data.padlen ? count_glitch(session) : 0;
        stream = find(session, frame->hd.stream_id);
        return stream ? end_of_message(stream) : 0;
    case NGHTTP2_HEADERS:
        session->block_open = false;
        stream = find(session, frame->hd.stream_id);
        return stream ? end_of_block(stream, ended) : 0;
    case NGHTTP2_SETTINGS:
        return on_settings(session, &frame->settings);
    case NGHTTP2_PING:
        return on_ping(session, &frame->ping);
    case NGHTTP2_PRIORITY:
        return count_glitch(session);
    case NGHTTP2_GOAWAY:
        return on_goaway(session, &frame->goaway);
    default:
        return 0;
    }
}

static int on_frame_recv(nghttp2_session *library, const nghttp2_frame *frame, void *user)
{
    pk_http2_session *session = user;
    int result = frame_received(session, frame);
    if (PK_LIKELY(result == 0) || !nghttp2_is_fatal(result))
        return 0;
    return callback_failed(session, session->failed ? session->failed : PK_ERR_NOMEM);
}

static int on_data_chunk(nghttp2_session *library, uint8_t flags, int32_t id, const uint8_t *bytes,
                         size_t length, void *user)
{
    pk_http2_session *session = user;
    pk_http2_stream *stream = find(session, id);
    if (!stream || stream->dead) {
        session->credit += length;
        return 0;
    }
    stream->uncredited += length;
    stream->moved += (uint32_t) length;
    stream->quiet_ticks = 0;
    if (!session->server)
        session->credit += length; /* see pk_http2_credit */
    if (stream->body_left >= 0) {
        if (length > (uint64_t) stream->body_left)
            return refuse(stream) == NGHTTP2_ERR_NOMEM ? callback_failed(session, PK_ERR_NOMEM) : 0;
        stream->body_left -= (int64_t) length;
    }
    return collect(session, stream, PK_HTTP2_DATA, bytes, length);
}

static int on_stream_close(nghttp2_session *library, int32_t id, uint32_t error, void *user)
{
    pk_http2_session *session = user;
    pk_http2_stream *stream = find(session, id);
    if (!stream)
        return 0;
    session->last = NULL;
    session->open_count--;
    pk_http2_session_forgive(stream);
    stream->closed = true;
    stream->error = error;
    pk_http2_drop_queue(stream);
    /*
     * Not told to the library: on its way out of a request that could not be sent it would leave
     * that request behind (1.52). `failed` is seen when it returns.
     */
    (void) collect(session, stream, PK_HTTP2_CLOSED, NULL, 0);
    return 0;
}

void pk_http2_session_set_receive_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

/* ---- For the caller ---- */

int pk_http2_session_feed(pk_http2_session *session, const uint8_t *bytes, size_t length)
{
    if (session->failed)
        return session->failed;
    int r = pk_http2_session_walk(session, bytes, length);
    if (r < 0)
        return r;
    if (nghttp2_session_get_outbound_queue_size(engine(session)) >
        session->limits.queued_frames + 4 * session->stream_count) {
        /* The peer makes us queue frames and does not read them. */
        session->failed = PK_ERR_MALFORMED;
        return PK_ERR_MALFORMED;
    }
    return pk_http2_session_return_credit(session);
}

int pk_http2_credit(pk_http2_stream *stream, size_t length)
{
    pk_http2_session *session = stream->session;
    if (length > stream->uncredited)
        length = stream->uncredited;
    if (length == 0 || session->failed)
        return session->failed;
    stream->uncredited -= length;
    if (!session->server)
        return stream->remote_ended
                   ? 0
                   : settle(session,
                            nghttp2_session_consume_stream(engine(session), stream->id, length));
    if (stream->remote_ended)
        return settle(session, nghttp2_session_consume_connection(engine(session), length));
    return settle(session, nghttp2_session_consume(engine(session), stream->id, length));
}
