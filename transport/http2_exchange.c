/* Exchanges over HTTP/2: see http2_exchange.h. */
#include "transport/http2_exchange.h"

#include "core/loop.h"

#include <stdio.h>
#include <string.h>

/* One request and its response. The stream stands first: the session makes the object. */
struct http2_exchange {
    pk_http2_stream stream;
    pk_exchange exchange;
    pk_http2_exchanges *all;
    size_t held; /* bytes that the handler gathers */
    /* While it is held back. */
    struct http2_exchange *next_held;
    pk_buffer *early; /* what came of its body */
    bool is_held, early_end;
    unsigned ticks; /* for which it has been held back, or has stood still */

    bool known;     /* the handler was told of it */
    bool given_up;  /* by the handler: it hears of no cancel */
    bool cancelled; /* the handler was told */
};

_Static_assert(sizeof(void *) > 8 || sizeof(struct http2_exchange) <= 1024,
               "one size class of the loop's memory");

const size_t pk_http2_exchange_size = sizeof(struct http2_exchange);

static struct http2_exchange *of_stream(pk_http2_stream *stream)
{
    return (struct http2_exchange *) stream;
}

static struct http2_exchange *of_exchange(pk_exchange *exchange)
{
    return (struct http2_exchange *) ((char *) exchange -
                                      offsetof(struct http2_exchange, exchange));
}

/* Errors that the session cannot live on with are seen by the connection when it takes output. */
static void submitted(struct http2_exchange *one, int result)
{
    if (result < 0)
        pk_log(one->all->loop, PK_LOG_DEBUG, "%s: %s", one->all->peer->address,
               pk_error_text(result));
    one->all->output_wanted(one->all);
}

/* ---- Operations ---- */

static bool over(const struct http2_exchange *one)
{
    return one->all->lost || one->stream.closed || one->stream.dead;
}

static void do_consume(pk_exchange *exchange, size_t length)
{
    struct http2_exchange *one = of_exchange(exchange);
    if (!over(one))
        submitted(one, pk_http2_credit(&one->stream, length));
}

static void do_reply_strict(pk_exchange *exchange, const pk_reply *reply)
{
    struct http2_exchange *one = of_exchange(exchange);
    if (over(one)) {
        pk_buffer_unref(reply->body);
        return;
    }
    bool body = reply->body && pk_buffer_length(reply->body) > 0;
    bool ended = !body && reply->trailer_count == 0;
    int r = pk_http2_respond(&one->stream, reply->http_status, reply->fields, reply->field_count,
                             ended);
    if (body && r == 0)
        r = pk_http2_write(&one->stream, reply->body);
    else
        pk_buffer_unref(reply->body);
    if (!ended && r == 0)
        r = pk_http2_finish(&one->stream, reply->trailers, reply->trailer_count);
    submitted(one, r);
}

static void do_start(pk_exchange *exchange, unsigned http_status, const pk_field *fields,
                     size_t count)
{
    struct http2_exchange *one = of_exchange(exchange);
    if (!over(one))
        submitted(one, pk_http2_respond(&one->stream, http_status, fields, count, false));
}

static bool do_write(pk_exchange *exchange, pk_buffer *body_take)
{
    struct http2_exchange *one = of_exchange(exchange);
    if (over(one)) {
        pk_buffer_unref(body_take);
        return false; /* a writer that waits for room ends with the exchange */
    }
    submitted(one, pk_http2_write(&one->stream, body_take));
    return !one->all->session.failed && !pk_http2_full(&one->stream);
}

static void do_finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    struct http2_exchange *one = of_exchange(exchange);
    if (!over(one))
        submitted(one, pk_http2_finish(&one->stream, trailers, count));
}

static void do_reset(pk_exchange *exchange, pk_reset why)
{
    static const pk_http2_error codes[] = {
        [PK_RESET_NONE] = PK_HTTP2_NO_ERROR,           [PK_RESET_CANCEL] = PK_HTTP2_CANCEL,
        [PK_RESET_INTERNAL] = PK_HTTP2_INTERNAL_ERROR, [PK_RESET_REFUSED] = PK_HTTP2_REFUSED_STREAM,
        [PK_RESET_CALM] = PK_HTTP2_ENHANCE_YOUR_CALM,
    };
    struct http2_exchange *one = of_exchange(exchange);
    one->given_up = true;
    if (!over(one))
        submitted(one, pk_http2_reset(&one->stream, codes[why]));
}

static void do_hold(pk_exchange *exchange, size_t bytes)
{
    struct http2_exchange *one = of_exchange(exchange);
    one->all->held += bytes - one->held;
    one->held = bytes;
}

static const pk_exchange_ops http2_ops = {
    .consume = do_consume,
    .reply_strict = do_reply_strict,
    .start = do_start,
    .write = do_write,
    .finish = do_finish,
    .reset = do_reset,
    .hold = do_hold,
};

static void init_exchange(struct http2_exchange *one, pk_http2_exchanges *all)
{
    one->all = all;
    one->exchange = (pk_exchange){.ops = &http2_ops, .loop = all->loop, .peer = all->peer};
    one->known = true;
}

/* ---- Budgets ---- */

static size_t waiting(const pk_http2_exchanges *all)
{
    return all->session.queued + all->held + all->unsent;
}

static void count_bytes(pk_http2_exchanges *all)
{
    size_t now = waiting(all);
    if (all->server_bytes)
        all->server_bytes->used += now - all->counted;
    all->counted = now;
}

static bool over_budget(const pk_http2_exchanges *all)
{
    size_t now = waiting(all);
    const pk_byte_budget *server = all->server_bytes;
    return now > all->budget || (server && pk_byte_budget_over(server, all->counted, now));
}

/* ---- Streams that stand still ---- */

/* What waits on this one for its peer, which could go on with it and does not. */
static size_t standing(const struct http2_exchange *one)
{
    const pk_http2_stream *stream = &one->stream;
    if (!one->known || over(one))
        return 0;
    size_t bytes = pk_http2_shut_out(stream) ? stream->queued : 0;
    if (!stream->remote_ended && stream->uncredited == 0)
        bytes += one->held;
    return bytes;
}

size_t pk_http2_standing(const pk_http2_exchanges *all)
{
    size_t bytes = 0;
    pk_http2_stream *stream = all->session.ring;
    for (size_t left = all->session.stream_count; left > 0; left--, stream = stream->next)
        bytes += standing(of_stream(stream));
    return bytes;
}

static void look_who_stands(pk_http2_exchanges *all)
{
    pk_http2_stream *stream = all->session.ring;
    if (all->session.queued + all->held == 0 && !all->some_stand)
        return;
    all->some_stand = false;
    for (size_t left = all->session.stream_count; left > 0; left--, stream = stream->next) {
        struct http2_exchange *one = of_stream(stream);
        size_t waits = standing(one);
        bool moves = waits == 0 || stream->moved > waits / PK_SLOW_SHARE;
        if (one->known)
            one->ticks = moves ? 0 : one->ticks + 1;
        all->some_stand |= !moves;
        stream->moved = 0;
    }
}

size_t pk_http2_shed(pk_http2_exchanges *all, size_t most)
{
    size_t before = waiting(all), left = before;
    size_t count = all->session.stream_count;
    size_t average = count > 0 ? (all->session.queued + all->held) / count : 0;
    pk_http2_stream *stream = all->session.ring;
    for (; count > 0 && left > most; count--, stream = stream->next) {
        struct http2_exchange *one = of_stream(stream);
        size_t bytes = stream->queued + one->held;
        if (one->ticks < PK_HTTP2_STILL_TICKS || bytes < average || standing(one) == 0)
            continue;
        stream->shed = true;
        submitted(one, pk_http2_reset(stream, PK_HTTP2_ENHANCE_YOUR_CALM));
        left -= bytes;
    }
    return before - left;
}

static size_t most_of_budget(const pk_http2_exchanges *all)
{
    return all->budget / 4 * 3;
}

/* Whether one more request finds the connection full, after streams have been shed for it. */
static bool is_full(pk_http2_exchanges *all)
{
    if (PK_UNLIKELY(waiting(all) > all->budget && !all->shed_in_vain))
        all->shed_in_vain = pk_http2_shed(all, most_of_budget(all)) == 0;
    return over_budget(all);
}

/* ---- Refusals ---- */

static const pk_exchange_events no_events;

/* Answers with a bare HTTP status: for acceptors that word no refusal themselves. */
static void refuse_plainly(struct http2_exchange *one, unsigned status)
{
    one->exchange.events = &no_events;
    do_reply_strict(&one->exchange, &(pk_reply){.http_status = status});
}

static void refuse(struct http2_exchange *one, bool for_its_head)
{
    const pk_http2_exchanges *all = one->all;
    pk_http2_stream *stream = &one->stream;
    char text[128];
    int length = for_its_head
                     ? snprintf(text, sizeof text, "metadata of %zu bytes exceeds the limit of %zu",
                                stream->head.bytes, all->header_bytes)
                     : snprintf(text, sizeof text, "too many bytes wait to be handled or sent");
    const pk_status why = {.code = PK_RESOURCE_EXHAUSTED,
                           .message = {(const uint8_t *) text, (size_t) length}};
    if (all->acceptor->refuse)
        all->acceptor->refuse(all->acceptor->self, &one->exchange, &stream->head.head,
                              stream->head_ended, &why);
    else
        refuse_plainly(one, for_its_head ? 431 : 503);
}

/* ---- Requests that are held back while too many bytes wait ---- */

static void hold_back(struct http2_exchange *one)
{
    struct http2_exchange **place = &one->all->held_back;
    while (*place)
        place = &(*place)->next_held;
    *place = one;
    one->is_held = true;
}

static void no_longer_held(struct http2_exchange *one)
{
    struct http2_exchange **place = &one->all->held_back;
    while (*place != one)
        place = &(*place)->next_held;
    *place = one->next_held;
    one->is_held = false;
}

/* Its body stays within the window, for which no credit is given. */
static void keep_early(struct http2_exchange *one, const pk_http2_event *event)
{
    if (!one->early) {
        one->early = pk_buffer_get(&one->all->loop->buffers);
        if (one->early)
            pk_buffer_rewind_for_append(one->early, 0);
    }
    if (!one->early || pk_buffer_append(one->early, event->bytes, event->length) < 0)
        submitted(one, pk_http2_reset(&one->stream, PK_HTTP2_INTERNAL_ERROR));
}

static void accept_request(struct http2_exchange *one)
{
    const pk_http2_exchanges *all = one->all;
    init_exchange(one, one->all);
    all->acceptor->accept(all->acceptor->self, &one->exchange, &one->stream.head.head,
                          one->stream.head_ended);
}

/* ---- Events ---- */

static void on_head(struct http2_exchange *one)
{
    pk_http2_exchanges *all = one->all;
    pk_http2_stream *stream = &one->stream;
    if (!all->session.server) {
        if (one->exchange.events->on_head)
            one->exchange.events->on_head(&one->exchange, &stream->head.head, stream->head_ended);
    } else if (PK_UNLIKELY(stream->head.bytes > all->header_bytes)) {
        init_exchange(one, all);
        refuse(one, true);
    } else if (PK_UNLIKELY(all->held_back || is_full(all))) {
        hold_back(one);
    } else {
        accept_request(one);
    }
}

/* Whether all of the response has passed by; what the request still lacks does not matter then. */
static bool complete(const struct http2_exchange *one)
{
    return one->all->session.server ? one->stream.local_ended : one->stream.remote_ended;
}

/* Client: whether the peer has told, or cannot know, that it has done nothing for this stream. */
static bool unprocessed(const struct http2_exchange *one)
{
    const pk_http2_stream *stream = &one->stream;
    const pk_http2_session *session = &one->all->session;
    return !stream->head_left || (stream->closed && stream->error == PK_HTTP2_REFUSED_STREAM) ||
           (session->peer_goes_away && stream->id > session->peer_last);
}

/* What a stream that ended early means to the handler. */
static void tell_cancelled(struct http2_exchange *one, const pk_status *why)
{
    if (one->cancelled || one->given_up || complete(one) || !one->exchange.events)
        return;
    one->cancelled = true;
    one->exchange.unprocessed = !one->all->session.server && unprocessed(one);
    one->exchange.unsent = one->exchange.unprocessed && !one->stream.head_left;
    if (one->exchange.events->on_cancelled)
        one->exchange.events->on_cancelled(&one->exchange, why);
}

static void on_closed(struct http2_exchange *one)
{
    do_hold(&one->exchange, 0);
    /* A call that is sent again at once hands the same buffers to another stream's queue. */
    pk_http2_drop_queue(&one->stream);
    if (one->is_held)
        no_longer_held(one);
    pk_buffer_unref(one->early);
    if (one->known && one->exchange.events && one->exchange.events->on_closed)
        one->exchange.events->on_closed(&one->exchange);
    pk_http2_release(&one->stream);
}

/* What a reset means to a client. Source: PROTOCOL-HTTP2.md, "Errors". */
static pk_code code_of(uint32_t error)
{
    switch (error) {
    case PK_HTTP2_REFUSED_STREAM:
        return PK_UNAVAILABLE;
    case PK_HTTP2_CANCEL:
        return PK_CANCELLED;
    case PK_HTTP2_ENHANCE_YOUR_CALM:
        return PK_RESOURCE_EXHAUSTED;
    case PK_HTTP2_INADEQUATE_SECURITY:
        return PK_PERMISSION_DENIED;
    default:
        return PK_INTERNAL;
    }
}

/* Why a stream has ended before its time: the peer has reset it or we have, for what has come. */
static pk_status reason_of_end(const struct http2_exchange *one, char *text, size_t size)
{
    const pk_http2_stream *stream = &one->stream;
    bool server = one->all->session.server;
    pk_code code = code_of(stream->error);
    if (!server && unprocessed(one)) {
        code = PK_UNAVAILABLE;
        snprintf(text, size, "the server did not take the call");
    } else if (stream->dead && stream->too_large) {
        /* Where both sides had ended, the library closes it without our error. */
        code = PK_RESOURCE_EXHAUSTED;
        snprintf(text, size, "the peer's fields are more than %u bytes",
                 (unsigned) one->all->session.limits.header_bytes);
    } else if (stream->dead && stream->malformed) {
        code = PK_INTERNAL;
        snprintf(text, size, "what the peer has sent is malformed");
    } else {
        snprintf(text, size, "%s (error code %u)",
                 stream->dead ? "the stream was reset" : "the peer reset the stream",
                 (unsigned) stream->error);
    }
    return (pk_status){.code = server ? PK_CANCELLED : code,
                       .message = {(const uint8_t *) text, strlen(text)}};
}

static void on_stream_closed(struct http2_exchange *one)
{
    if (one->known && !complete(one)) {
        char text[64];
        const pk_status why = reason_of_end(one, text, sizeof text);
        tell_cancelled(one, &why);
    }
    on_closed(one);
}

static void on_data(struct http2_exchange *one, const uint8_t *bytes, size_t length,
                    pk_buffer *holder)
{
    if (one->exchange.events->on_data)
        one->exchange.events->on_data(&one->exchange, bytes, length, holder);
    else
        do_consume(&one->exchange, length);
}

static void on_end(struct http2_exchange *one)
{
    const pk_http2_fields *trailers = &one->stream.trailers;
    if (one->exchange.events->on_end)
        one->exchange.events->on_end(&one->exchange,
                                     trailers->head.count > 0 ? &trailers->head : NULL);
}

static void handle(pk_http2_exchanges *all, const pk_http2_event *event, pk_buffer *holder)
{
    struct http2_exchange *one = of_stream(event->stream);
    if (event->kind == PK_HTTP2_CLOSED) {
        one->all = all;
        on_stream_closed(one);
        return;
    }
    /* A request that was reset within this batch is worth no more work; a response is complete. */
    if (one->stream.dead || (one->stream.closed && all->session.server))
        return;
    if (event->kind == PK_HTTP2_HEAD) {
        one->all = all;
        on_head(one);
        return;
    }
    if (PK_UNLIKELY(one->is_held)) {
        if (event->kind == PK_HTTP2_DATA)
            keep_early(one, event);
        else if (event->kind == PK_HTTP2_END)
            one->early_end = true;
        return;
    }
    if (!one->exchange.events)
        return;
    switch (event->kind) {
    case PK_HTTP2_DATA:
        on_data(one, event->bytes, event->length, holder);
        break;
    case PK_HTTP2_END:
        on_end(one);
        break;
    case PK_HTTP2_ROOM:
        if (one->exchange.events->on_room)
            one->exchange.events->on_room(&one->exchange);
        break;
    case PK_HTTP2_HEAD:
    case PK_HTTP2_CLOSED:
        break;
    }
}

void pk_http2_dispatch(pk_http2_exchanges *all, pk_buffer *holder)
{
    /* What handlers do may add events (a request that is reset while it waits), or move them. */
    for (size_t i = 0; i < all->session.event_count; i++) {
        pk_http2_event event = all->session.events[i];
        handle(all, &event, holder);
    }
    pk_http2_session_clear(&all->session);
}

/* Hands over a request that was held back, with what has come of it meanwhile. */
static void let_go(struct http2_exchange *one)
{
    no_longer_held(one);
    one->ticks = 0;
    accept_request(one);
    pk_buffer *early = pk_steal(&one->early);
    if (early && !over(one) && one->exchange.events)
        on_data(one, early->start, pk_buffer_length(early), early);
    pk_buffer_unref(early);
    if (one->early_end && !over(one) && one->exchange.events)
        on_end(one);
}

void pk_http2_settle(pk_http2_exchanges *all, size_t unsent)
{
    all->unsent = unsent;
    while (PK_UNLIKELY(all->held_back != NULL) && !over_budget(all)) {
        let_go(all->held_back);
        pk_loop_drain(all->loop);
    }
    count_bytes(all);
}

void pk_http2_tick(pk_http2_exchanges *all)
{
    struct http2_exchange *next;
    look_who_stands(all);
    if (all->held_back)
        pk_http2_shed(all, most_of_budget(all));
    all->shed_in_vain = false;
    pk_http2_settle(all, all->unsent);
    for (struct http2_exchange *one = all->held_back; one; one = next) {
        next = one->next_held;
        if (++one->ticks < PK_HTTP2_HELD_TICKS)
            continue;
        no_longer_held(one);
        one->early = pk_buffer_unref(one->early);
        init_exchange(one, all);
        refuse(one, false);
    }
}

void pk_http2_lose(pk_http2_exchanges *all, const pk_status *why)
{
    all->lost = true;
    pk_http2_session_clear(&all->session);
    /* First all are told: a handler that ends one of its calls here finds the others alive. */
    pk_http2_stream *first = all->session.ring, *stream = first;
    if (first) {
        do {
            struct http2_exchange *one = of_stream(stream);
            if (one->known)
                tell_cancelled(one, why);
            stream = stream->next;
        } while (stream != first);
    }
    while (all->session.ring) {
        struct http2_exchange *one = of_stream(all->session.ring);
        one->all = all;
        on_closed(one);
    }
    all->unsent = 0;
    count_bytes(all);
}

int pk_http2_exchange_open(pk_http2_exchanges *all, const pk_field *fields, size_t count, bool body,
                           const pk_exchange_events *events, void *user, pk_exchange **ret_exchange)
{
    pk_http2_stream *stream;
    if (all->lost)
        return PK_ERR_CLOSED;
    int r = pk_http2_open(&all->session, fields, count, body, &stream);
    if (r < 0)
        return r;
    struct http2_exchange *one = of_stream(stream);
    init_exchange(one, all);
    one->exchange.events = events;
    one->exchange.user = user;
    *ret_exchange = &one->exchange;
    submitted(one, 0);
    return 0;
}
