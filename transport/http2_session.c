/* The HTTP/2 session on nghttp2: see http2_session.h. The only file that sees nghttp2. */
#include "transport/http2_session.h"

#include "transport/field_rules.h"

#include <nghttp2/nghttp2.h>

#include <assert.h>
#include <string.h>

#define FIELDS_ON_STACK 32u /* fields of a block that is sent without taking memory */
#define SEEN_BYTES 256u     /* of name and value together: longer fields are not remembered */
#define FIRST_EVENTS 64u    /* room of a new batch */
#define SECOND UINT64_C(1000000000)
#define GLITCH_SPAN (10 * SECOND) /* over which glitches are counted */

static const uint8_t drain_mark[8] = {'p', 'e', 'k', 'o', 'e', 'e', 'n', 'd'};

static nghttp2_session *engine(const pk_http2_session *session)
{
    return session->engine;
}

/* Maps the library's result: what it cannot live on with is remembered. */
static int settle(pk_http2_session *session, int result)
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
static int callback_failed(pk_http2_session *session, int error)
{
    session->failed = error;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- The batch ---- */

static int grow_batch(pk_http2_session *session)
{
    size_t capacity = session->event_capacity ? 2 * session->event_capacity : FIRST_EVENTS;
    pk_http2_event *events = pk_memory_get(session->memory, capacity * sizeof *events);
    if (!events)
        return PK_ERR_NOMEM;
    if (session->events) {
        memcpy(events, session->events, session->event_count * sizeof *events);
        pk_memory_put(session->memory, session->events, session->event_capacity * sizeof *events);
    }
    session->events = events;
    session->event_capacity = capacity;
    return 0;
}

static int collect(pk_http2_session *session, pk_http2_stream *stream, pk_http2_event_kind kind,
                   const uint8_t *bytes, size_t length)
{
    if (PK_UNLIKELY(session->event_count == session->event_capacity) && grow_batch(session) < 0)
        return callback_failed(session, PK_ERR_NOMEM);
    session->events[session->event_count++] = (pk_http2_event){
        .stream = stream, .bytes = bytes, .length = (uint32_t) length, .kind = kind};
    return 0;
}

void pk_http2_session_clear(pk_http2_session *session)
{
    if (session->events)
        pk_memory_put(session->memory, session->events,
                      session->event_capacity * sizeof *session->events);
    session->events = NULL;
    session->event_count = session->event_capacity = 0;
    session->rooms = 0;
}

/* ---- Streams ---- */

static void fields_init(pk_http2_fields *fields, pk_field *storage, size_t capacity)
{
    fields->head.fields = fields->storage = storage;
    fields->head.count = 0;
    fields->head.repeated = 0;
    fields->capacity = capacity;
    fields->bytes = 0;
    memset(fields->head.first, 0, sizeof fields->head.first);
}

static pk_http2_stream *new_stream(pk_http2_session *session, int32_t id)
{
    pk_http2_stream *stream = pk_memory_get(session->memory, session->stream_size);
    if (!stream)
        return NULL;
    /* The inline fields are written before they are read. */
    memset(stream, 0, offsetof(pk_http2_stream, fields_inline));
    memset((uint8_t *) stream + sizeof *stream, 0, session->stream_size - sizeof *stream);
    stream->session = session;
    stream->id = id;
    stream->body_left = -1;
    stream->queue_end = &stream->queue;
    fields_init(&stream->head, stream->fields_inline, PK_HTTP2_FIELDS_INLINE);
    fields_init(&stream->trailers, NULL, 0);
    if (session->ring) {
        stream->next = session->ring;
        stream->previous = session->ring->previous;
        stream->next->previous = stream->previous->next = stream;
    } else {
        session->ring = stream->next = stream->previous = stream;
    }
    session->stream_count++;
    return stream;
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

static void drop_queue(pk_http2_stream *stream)
{
    while (stream->queue) {
        pk_buffer *buffer = stream->queue;
        stream->queue = buffer->next;
        pk_buffer_unref(buffer);
    }
    stream->queue_end = &stream->queue;
    stream->session->queued -= stream->queued;
    stream->queued = 0;
}

/* Takes a stream off the list of those that wait for a place. */
static void stop_waiting(pk_http2_stream *stream)
{
    pk_http2_session *session = stream->session;
    pk_http2_stream **place = &session->waiting;
    while (*place != stream)
        place = &(*place)->next_waiting;
    *place = stream->next_waiting;
    if (!*place)
        session->waiting_end = place;
    stream->waiting = false;
}

void pk_http2_release(pk_http2_stream *stream)
{
    pk_http2_session *session = stream->session;
    if (session->last == stream)
        session->last = NULL;
    if (session->ring == stream)
        session->ring = stream->next == stream ? NULL : stream->next;
    stream->next->previous = stream->previous;
    stream->previous->next = stream->next;
    session->stream_count--;
    if (stream->waiting)
        stop_waiting(stream);
    drop_queue(stream);
    fields_release(stream, &stream->head);
    fields_release(stream, &stream->trailers);
    pk_memory_put(session->memory, stream, session->stream_size);
}

/* The stream of an id; NULL where it is closed or was never kept. */
static pk_http2_stream *find(pk_http2_session *session, int32_t id)
{
    if (PK_LIKELY(session->last && session->last->id == id))
        return session->last;
    pk_http2_stream *stream = nghttp2_session_get_stream_user_data(engine(session), id);
    if (stream)
        session->last = stream;
    return stream;
}

static void forget(pk_http2_seen_field *seen)
{
    if (!seen->value_text)
        return;
    nghttp2_rcbuf_decref(seen->name_text);
    nghttp2_rcbuf_decref(seen->value_text);
    seen->name_text = seen->value_text = NULL;
}

/* Resets a stream; may be called inside the library's callbacks. */
static int reset(pk_http2_stream *stream, pk_http2_error error)
{
    pk_http2_session *session = stream->session;
    stream->dead = true;
    session->credit += stream->uncredited;
    stream->uncredited = 0;
    drop_queue(stream);
    return nghttp2_submit_rst_stream(engine(session), NGHTTP2_FLAG_NONE, stream->id, error);
}

/* ---- What comes in: callbacks of the library; they collect and never call out ---- */

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
    pk_http2_stream *stream = new_stream(session, frame->hd.stream_id);
    if (!stream)
        return callback_failed(session, PK_ERR_NOMEM);
    session->last = stream;
    session->open_count++;
    nghttp2_session_set_stream_user_data(library, frame->hd.stream_id, stream);
    return 0;
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

/* END_STREAM came. */
static int end_of_message(pk_http2_stream *stream)
{
    pk_http2_session *session = stream->session;
    stream->remote_ended = true;
    if (stream->dead)
        return 0;
    if (stream->body_left > 0)
        return reset(stream, PK_HTTP2_PROTOCOL_ERROR);
    return collect(session, stream, PK_HTTP2_END, NULL, 0);
}

/* A field block is complete. */
static int end_of_block(pk_http2_stream *stream, bool ended)
{
    pk_http2_session *session = stream->session;
    if (stream->dead)
        return 0;
    if (stream->too_large) {
        fields_release(stream, stream->head_seen ? &stream->trailers : &stream->head);
        return reset(stream, PK_HTTP2_ENHANCE_YOUR_CALM);
    }
    if (stream->head_seen) {
        if (stream->malformed || !ended)
            return reset(stream, PK_HTTP2_PROTOCOL_ERROR);
        return end_of_message(stream);
    }
    const pk_head *head = &stream->head.head;
    bool complete =
        session->server ? pk_field_request_complete(head) : pk_field_response_complete(head);
    if (stream->malformed || !complete)
        return reset(stream, PK_HTTP2_PROTOCOL_ERROR);
    if (!session->server && pk_field_status(pk_head_value(head, PK_FIELD_STATUS)) < 200) {
        /* An interim response: the real head is still to come. */
        if (ended)
            return reset(stream, PK_HTTP2_PROTOCOL_ERROR);
        fields_release(stream, &stream->head);
        fields_init(&stream->head, stream->fields_inline, PK_HTTP2_FIELDS_INLINE);
        stream->regular_seen = false;
        stream->body_left = -1;
        return 0;
    }
    stream->head_seen = true;
    stream->head_ended = stream->remote_ended = ended;
    if (ended && stream->body_left > 0 && session->server)
        return reset(stream, PK_HTTP2_PROTOCOL_ERROR);
    return collect(session, stream, PK_HTTP2_HEAD, NULL, 0);
}

/* The stream ends before the library knows of it. */
static int close_waiting(pk_http2_stream *stream, pk_http2_error error)
{
    stop_waiting(stream);
    stream->closed = true;
    stream->error = error;
    drop_queue(stream);
    return collect(stream->session, stream, PK_HTTP2_CLOSED, NULL, 0);
}

/* Streams that the peer still serves go on, the library closes the others. */
static int on_goaway(pk_http2_session *session, const nghttp2_goaway *goaway)
{
    session->peer_goes_away = true;
    session->peer_last = goaway->last_stream_id;
    session->peer_error = goaway->error_code;
    int result = 0;
    while (session->waiting && result == 0)
        result = close_waiting(session->waiting, PK_HTTP2_REFUSED_STREAM);
    return result;
}

static int on_ping(pk_http2_session *session, const nghttp2_ping *ping)
{
    if (!(ping->hd.flags & NGHTTP2_FLAG_ACK))
        return session->server ? count_glitch(session) : 0;
    session->pings_out = 0;
    if (session->draining && memcmp(ping->opaque_data, drain_mark, sizeof drain_mark) == 0)
        return pk_http2_session_go_away(session) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    return 0;
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
        session->greeted = true;
        return frame->hd.flags & NGHTTP2_FLAG_ACK ? 0 : count_glitch(session);
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
    stream->quiet_ticks = 0;
    if (stream->body_left >= 0) {
        if (length > (uint64_t) stream->body_left)
            return reset(stream, PK_HTTP2_PROTOCOL_ERROR) == NGHTTP2_ERR_NOMEM
                       ? callback_failed(session, PK_ERR_NOMEM)
                       : 0;
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
    session->credit += stream->uncredited;
    stream->uncredited = 0;
    stream->closed = true;
    stream->error = error;
    drop_queue(stream);
    /*
     * Not told to the library: on its way out of a request that could not be sent it would leave
     * that request behind (1.52). `failed` is seen when it returns.
     */
    (void) collect(session, stream, PK_HTTP2_CLOSED, NULL, 0);
    return 0;
}

/* ---- What goes out: callbacks of the library ---- */

static int submit_last(pk_http2_stream *stream);

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
    if (stream->finishing) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->last_count > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_last(stream) < 0)
                return callback_failed(session, PK_ERR_NOMEM);
        }
    }
    return (ssize_t) stream->queued;
}

/* Moves `length` bytes from the queue to the output; whole buffers take their reference along. */
static int move_bytes(pk_http2_stream *stream, pk_output *output, size_t length)
{
    stream->queued -= length;
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

static int on_send_data(nghttp2_session *library, nghttp2_frame *frame, const uint8_t *frame_head,
                        size_t length, nghttp2_data_source *source, void *user)
{
    pk_http2_session *session = user;
    pk_http2_stream *stream = source->ptr;
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
 * A stream was reset, by us or by the library. Where errors of the peer are the reason they may
 * come at the rate of its own resets: making us reset streams is as cheap for it as resetting them.
 */
static int count_reset(pk_http2_session *session, uint32_t error)
{
    if (error == NGHTTP2_NO_ERROR || error == NGHTTP2_CANCEL || error == NGHTTP2_REFUSED_STREAM ||
        error == NGHTTP2_INTERNAL_ERROR)
        return 0;
    if (session->errors_left == 0) {
        uint64_t now = session->clock(session->clock_context);
        uint64_t more = (now - session->errors_since) / SECOND * session->limits.resets_per_second;
        session->errors_since = now;
        session->errors_left =
            more < session->limits.resets ? (uint32_t) more : session->limits.resets;
    }
    if (session->errors_left == 0)
        return nghttp2_session_terminate_session(engine(session), NGHTTP2_ENHANCE_YOUR_CALM);
    session->errors_left--;
    return 0;
}

static int on_frame_send(nghttp2_session *library, const nghttp2_frame *frame, void *user)
{
    pk_http2_session *session = user;
    if (frame->hd.type == NGHTTP2_RST_STREAM && session->server)
        return count_reset(session, frame->rst_stream.error_code) == NGHTTP2_ERR_NOMEM
                   ? callback_failed(session, PK_ERR_NOMEM)
                   : 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    session->glitch_count = 0;
    bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!ended && session->server)
        return 0;
    pk_http2_stream *stream = find(session, frame->hd.stream_id);
    if (!stream)
        return 0;
    stream->head_left = true;
    stream->local_ended = ended;
    if (!session->server || stream->remote_ended)
        return 0;
    /* The response is complete and the rest of the request unwanted (RFC 9113 section 8.1). */
    return reset(stream, PK_HTTP2_NO_ERROR) == NGHTTP2_ERR_NOMEM
               ? callback_failed(session, PK_ERR_NOMEM)
               : 0;
}

static int on_frame_not_send(nghttp2_session *library, const nghttp2_frame *frame, int error,
                             void *user)
{
    pk_http2_session *session = user;
    if (frame->hd.type != NGHTTP2_HEADERS || error != NGHTTP2_ERR_FRAME_SIZE_ERROR)
        return 0;
    /* Fields too large for the library: the stream cannot be answered. */
    pk_http2_stream *stream = find(session, frame->hd.stream_id);
    return stream && reset(stream, PK_HTTP2_INTERNAL_ERROR) == NGHTTP2_ERR_NOMEM
               ? callback_failed(session, PK_ERR_NOMEM)
               : 0;
}

/* ---- Life of a session ---- */

static int make_callbacks(nghttp2_session_callbacks **ret_callbacks)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return PK_ERR_NOMEM;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    *ret_callbacks = callbacks;
    return 0;
}

static int make_option(const pk_http2_limits *limits, nghttp2_option **ret_option)
{
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return PK_ERR_NOMEM;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1); /* field_rules.h does it */
    nghttp2_option_set_max_outbound_ack(option, limits->queued_frames);
    nghttp2_option_set_stream_reset_rate_limit(option, limits->resets, limits->resets_per_second);
    nghttp2_option_set_max_send_header_block_length(option, 1u << 20);
    *ret_option = option;
    return 0;
}

/*
 * SETTINGS_NO_RFC7540_PRIORITIES is not sent: nghttp2's other scheduler is no faster, and when its
 * queue cannot grow for lack of memory a freed item stays behind (seen in 1.52).
 */
static int submit_settings(pk_http2_session *session)
{
    const pk_http2_limits *limits = &session->limits;
    nghttp2_settings_entry entries[] = {
        {session->server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH,
         session->server ? limits->max_streams : 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->header_bytes},
    };
    int result = nghttp2_submit_settings(engine(session), NGHTTP2_FLAG_NONE, entries,
                                         sizeof entries / sizeof *entries);
    if (result == 0)
        result = nghttp2_session_set_local_window_size(engine(session), NGHTTP2_FLAG_NONE, 0,
                                                       (int32_t) limits->connection_window);
    return result == 0 ? 0 : PK_ERR_NOMEM;
}

int pk_http2_session_init(pk_http2_session *session, bool server, pk_memory *memory,
                          const pk_http2_limits *limits, size_t stream_size,
                          uint64_t (*clock)(const void *context), const void *clock_context)
{
    assert(stream_size >= sizeof(pk_http2_stream));
    *session = (pk_http2_session){.memory = memory,
                                  .limits = *limits,
                                  .stream_size = stream_size,
                                  .server = server,
                                  .clock = clock,
                                  .clock_context = clock_context,
                                  .errors_left = limits->resets,
                                  .errors_since = clock(clock_context)};
    session->waiting_end = &session->waiting;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem library_memory = {memory, pk_memory_malloc, pk_memory_free, pk_memory_calloc,
                                  pk_memory_realloc};
    nghttp2_session *library = NULL;
    int r = make_callbacks(&callbacks);
    if (r == 0)
        r = make_option(limits, &option);
    if (r == 0) {
        int result = server ? nghttp2_session_server_new3(&library, callbacks, session, option,
                                                          &library_memory)
                            : nghttp2_session_client_new3(&library, callbacks, session, option,
                                                          &library_memory);
        r = result == 0 ? 0 : PK_ERR_NOMEM;
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    session->engine = library;
    if (r == 0)
        r = submit_settings(session);
    if (r < 0)
        nghttp2_session_del(library);
    return r;
}

void pk_http2_session_done(pk_http2_session *session)
{
    assert(session->stream_count == 0);
    pk_http2_session_clear(session);
    for (size_t i = 0; i < PK_HTTP2_SEEN_FIELDS; i++)
        forget(&session->seen[i]);
    nghttp2_session_del(engine(session));
    session->engine = NULL;
}

/* ---- Field blocks that go out ---- */

/* Names and values stay where they are: the exchange's contract keeps them readable. */
static void fill(nghttp2_nv *ret_fields, const pk_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ret_fields[i] = (nghttp2_nv){
            .name = (uint8_t *) (uintptr_t) fields[i].name.bytes,
            .value = (uint8_t *) (uintptr_t) fields[i].value.bytes,
            .namelen = fields[i].name.length,
            .valuelen = fields[i].value.length,
            .flags = (uint8_t) (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE |
                                (fields[i].sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : 0))};
    }
}

/* A block being submitted: on the stack where it is small. */
struct block {
    nghttp2_nv few[FIELDS_ON_STACK];
    nghttp2_nv *fields;
    size_t count;
};

static int block_init(struct block *block, pk_memory *memory, size_t count)
{
    block->fields = block->few;
    block->count = count;
    if (count > FIELDS_ON_STACK)
        block->fields = pk_memory_get(memory, count * sizeof *block->fields);
    return block->fields ? 0 : PK_ERR_NOMEM;
}

static void block_done(struct block *block, pk_memory *memory)
{
    if (block->fields != block->few)
        pk_memory_put(memory, block->fields, block->count * sizeof *block->fields);
}

/* ---- Requests that go out ---- */

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
    struct block block;
    if (block_init(&block, session->memory, stream->request_count) < 0)
        return PK_ERR_NOMEM;
    fill(block.fields, stream->request, stream->request_count);
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_read};
    int32_t id = nghttp2_submit_request(engine(session), NULL, block.fields, block.count,
                                        stream->body_attached ? &provider : NULL, stream);
    block_done(&block, session->memory);
    if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) /* all ids are used up */
        return close_waiting(stream, PK_HTTP2_REFUSED_STREAM) == 0 ? 0 : PK_ERR_NOMEM;
    if (id < 0)
        return PK_ERR_NOMEM;
    stop_waiting(stream);
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

/* Gives the connection's window what came free inside callbacks. */
static int return_credit(pk_http2_session *session)
{
    if (session->credit == 0)
        return 0;
    size_t credit = session->credit;
    session->credit = 0;
    return settle(session, nghttp2_session_consume_connection(engine(session), credit));
}

int pk_http2_session_feed(pk_http2_session *session, const uint8_t *bytes, size_t length)
{
    if (session->failed)
        return session->failed;
    ssize_t eaten = nghttp2_session_mem_recv(engine(session), bytes, length);
    if (eaten < 0)
        return settle(session, (int) eaten);
    if (session->failed)
        return session->failed;
    if (nghttp2_session_get_outbound_queue_size(engine(session)) >
        session->limits.queued_frames + 4 * session->stream_count) {
        /* The peer makes us queue frames and does not read them. */
        session->failed = PK_ERR_MALFORMED;
        return PK_ERR_MALFORMED;
    }
    return return_credit(session);
}

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
            r = return_credit(session);
        while (r == 0 && !session->output_full) {
            const uint8_t *bytes;
            ssize_t length = nghttp2_session_mem_send(engine(session), &bytes);
            if (length < 0)
                r = settle(session, (int) length);
            else
                r = session->failed;
            if (length <= 0 || r < 0)
                break;
            r = pk_output_copy(output, bytes, (size_t) length);
            if (output->bytes >= limit)
                session->output_full = true;
        }
    } while (r == 0 && (session->credit > 0 || may_start(session)));
    session->output = NULL;
    if (r < 0)
        session->failed = r;
    return r < 0 ? r : session->output_full;
}

bool pk_http2_session_deaf(const pk_http2_session *session)
{
    return !nghttp2_session_want_read(engine(session));
}

bool pk_http2_session_over(const pk_http2_session *session)
{
    return !nghttp2_session_want_read(engine(session)) &&
           !nghttp2_session_want_write(engine(session));
}

int pk_http2_session_drain(pk_http2_session *session)
{
    if (session->failed)
        return session->failed;
    if (!session->server)
        return pk_http2_session_go_away(session);
    session->draining = true;
    int result = nghttp2_submit_shutdown_notice(engine(session));
    if (result == 0)
        result = nghttp2_submit_ping(engine(session), NGHTTP2_FLAG_NONE, drain_mark);
    return settle(session, result);
}

int pk_http2_session_go_away(pk_http2_session *session)
{
    if (session->failed)
        return session->failed;
    if (session->gone_away)
        return 0;
    session->gone_away = true;
    return settle(session,
                  nghttp2_submit_goaway(engine(session), NGHTTP2_FLAG_NONE,
                                        nghttp2_session_get_last_proc_stream_id(engine(session)),
                                        NGHTTP2_NO_ERROR, NULL, 0));
}

int pk_http2_session_ping(pk_http2_session *session)
{
    if (session->failed)
        return session->failed;
    session->pings_out++;
    return settle(session, nghttp2_submit_ping(engine(session), NGHTTP2_FLAG_NONE, NULL));
}

int pk_http2_session_terminate(pk_http2_session *session, pk_http2_error error)
{
    if (session->failed)
        return session->failed;
    return settle(session, nghttp2_session_terminate_session(engine(session), error));
}

/* ---- Submitting ---- */

static int submit_last(pk_http2_stream *stream)
{
    pk_http2_session *session = stream->session;
    struct block block;
    stream->last_submitted = true;
    if (block_init(&block, session->memory, stream->last_count) < 0)
        return PK_ERR_NOMEM;
    fill(block.fields, stream->last, stream->last_count);
    int result = nghttp2_submit_trailer(engine(session), stream->id, block.fields, block.count);
    block_done(&block, session->memory);
    return settle(session, result);
}

static bool lost(const pk_http2_stream *stream)
{
    return stream->closed || stream->dead || stream->session->failed;
}

int pk_http2_open(pk_http2_session *session, const pk_field *fields, size_t count, bool body,
                  pk_http2_stream **ret_stream)
{
    if (session->failed)
        return session->failed;
    if (session->peer_goes_away || session->gone_away ||
        !nghttp2_session_check_request_allowed(engine(session)))
        return PK_ERR_CLOSED;
    pk_http2_stream *stream = new_stream(session, 0);
    if (!stream)
        return PK_ERR_NOMEM;
    stream->request = fields;
    stream->request_count = count;
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
    if (session->failed || session->peer_goes_away || session->gone_away ||
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
    struct block block;
    if (block_init(&block, session->memory, count + 1) < 0) {
        session->failed = PK_ERR_NOMEM;
        return PK_ERR_NOMEM;
    }
    stream->head_sent = true;
    stream->finishing = ended;
    for (size_t i = 3, rest = status; i > 0; i--, rest /= 10)
        stream->status[i - 1] = (char) ('0' + rest % 10);
    const pk_field first = {.name = PK_SLICE(":status"),
                            .value = {(const uint8_t *) stream->status, 3}};
    fill(block.fields, &first, 1);
    fill(block.fields + 1, fields, count);
    uint8_t flags = ended ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    int32_t result = nghttp2_submit_headers(engine(session), flags, stream->id, NULL, block.fields,
                                            count + 1, NULL);
    block_done(&block, session->memory);
    return settle(session, result);
}

int pk_http2_write(pk_http2_stream *stream, pk_buffer *body_take)
{
    pk_http2_session *session = stream->session;
    size_t length = pk_buffer_length(body_take);
    if (lost(stream) || stream->finishing || length == 0) {
        pk_buffer_unref(body_take);
        return session->failed;
    }
    body_take->next = NULL;
    *stream->queue_end = body_take;
    stream->queue_end = &body_take->next;
    stream->queued += length;
    session->queued += length;
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

int pk_http2_finish(pk_http2_stream *stream, const pk_field *trailers, size_t count)
{
    pk_http2_session *session = stream->session;
    if (lost(stream) || stream->finishing)
        return session->failed;
    stream->finishing = true;
    stream->wants_room = false;
    stream->last = trailers;
    stream->last_count = count;
    if (stream->queued > 0)
        return 0; /* on_read sends them behind the last byte */
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

int pk_http2_credit(pk_http2_stream *stream, size_t length)
{
    pk_http2_session *session = stream->session;
    if (length > stream->uncredited)
        length = stream->uncredited;
    if (length == 0 || session->failed)
        return session->failed;
    stream->uncredited -= length;
    if (stream->remote_ended)
        return settle(session, nghttp2_session_consume_connection(engine(session), length));
    return settle(session, nghttp2_session_consume(engine(session), stream->id, length));
}

int pk_http2_reset(pk_http2_stream *stream, pk_http2_error error)
{
    pk_http2_session *session = stream->session;
    if (lost(stream))
        return session->failed;
    if (stream->waiting)
        return close_waiting(stream, error) == 0 ? 0 : PK_ERR_NOMEM;
    int r = settle(session, reset(stream, error));
    return r < 0 ? r : return_credit(session);
}
