/* The HTTP/2 session on nghttp2, its life and its streams: see http2_session.h. */
#include "transport/http2_session_private.h"

#define FIRST_EVENTS 64u /* room of a new batch */

const uint8_t pk_http2_drain_mark[8] = {'p', 'e', 'k', 'o', 'e', 'e', 'n', 'd'};

/* ---- The batch ---- */

int pk_http2_session_grow_batch(pk_http2_session *session)
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

pk_http2_stream *pk_http2_session_new_stream(pk_http2_session *session, int32_t id)
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
    pk_http2_session_init_fields(stream);
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

void pk_http2_drop_queue(pk_http2_stream *stream)
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

void pk_http2_session_stop_waiting(pk_http2_stream *stream)
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

int pk_http2_session_close_waiting(pk_http2_stream *stream, pk_http2_error error)
{
    pk_http2_session_stop_waiting(stream);
    stream->closed = true;
    stream->error = error;
    pk_http2_drop_queue(stream);
    return collect(stream->session, stream, PK_HTTP2_CLOSED, NULL, 0);
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
        pk_http2_session_stop_waiting(stream);
    pk_http2_drop_queue(stream);
    pk_http2_session_release_fields(stream);
    pk_memory_put(session->memory, stream, session->stream_size);
}

int pk_http2_session_reset_stream(pk_http2_stream *stream, pk_http2_error error)
{
    pk_http2_session *session = stream->session;
    stream->dead = true;
    pk_http2_session_forgive(stream);
    pk_http2_drop_queue(stream);
    return nghttp2_submit_rst_stream(engine(session), NGHTTP2_FLAG_NONE, stream->id, error);
}

int pk_http2_session_return_credit(pk_http2_session *session)
{
    if (session->credit == 0)
        return 0;
    size_t credit = session->credit;
    session->credit = 0;
    return settle(session, nghttp2_session_consume_connection(engine(session), credit));
}

/* ---- Life of a session ---- */

static int make_callbacks(nghttp2_session_callbacks **ret_callbacks)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return PK_ERR_NOMEM;
    pk_http2_session_set_receive_callbacks(callbacks);
    pk_http2_session_set_send_callbacks(callbacks);
    *ret_callbacks = callbacks;
    return 0;
}

static int make_option(const pk_http2_limits *limits, bool server, nghttp2_option **ret_option)
{
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return PK_ERR_NOMEM;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1); /* field_rules.h does it */
    nghttp2_option_set_max_outbound_ack(option, limits->queued_frames);
    if (server)
        nghttp2_option_set_stream_reset_rate_limit(option, limits->resets,
                                                   limits->resets_per_second);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, 0); /* it is handed no fields */
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
                                  .resets_left = limits->resets,
                                  .resets_since = clock(clock_context)};
    session->waiting_end = &session->waiting;
    pk_http2_session_begin_walk(session);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem library_memory = {memory, pk_memory_malloc, pk_memory_free, pk_memory_calloc,
                                  pk_memory_realloc};
    nghttp2_session *library = NULL;
    int r = make_callbacks(&callbacks);
    if (r == 0)
        r = make_option(limits, server, &option);
    if (r == 0)
        r = pk_http2_session_encoder_init(session, &library_memory);
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
    if (r < 0) {
        nghttp2_session_del(library);
        pk_http2_session_encoder_done(session);
    }
    return r;
}

void pk_http2_session_done(pk_http2_session *session)
{
    assert(session->stream_count == 0);
    pk_http2_session_clear(session);
    pk_http2_session_forget_seen(session);
    pk_http2_session_forget_known(session);
    nghttp2_session_del(engine(session));
    pk_http2_session_encoder_done(session);
    session->engine = NULL;
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
    session->draining = true;
    if (!session->server)
        return 0; /* GOAWAY leaves behind the requests that were begun: see take */
    int result = nghttp2_submit_shutdown_notice(engine(session));
    if (result == 0)
        result = nghttp2_submit_ping(engine(session), NGHTTP2_FLAG_NONE, pk_http2_drain_mark);
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

int pk_http2_reset(pk_http2_stream *stream, pk_http2_error error)
{
    pk_http2_session *session = stream->session;
    if (lost(stream))
        return session->failed;
    if (stream->waiting)
        return pk_http2_session_close_waiting(stream, error) == 0 ? 0 : PK_ERR_NOMEM;
    int r = settle(session, pk_http2_session_reset_stream(stream, error));
    return r < 0 ? r : pk_http2_session_return_credit(session);
}
