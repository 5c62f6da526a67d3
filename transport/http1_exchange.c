/* Exchanges over HTTP/1.1: see http1_exchange.h. */
#include "transport/http1_exchange.h"

#include "core/loop.h"

#include <stdio.h>
#include <string.h>

static pk_http1 *of_exchange(pk_exchange *exchange)
{
    return (pk_http1 *) ((char *) exchange - offsetof(pk_http1, exchange));
}

/* ---- Output ---- */

static void put(pk_http1 *http1, const void *bytes, size_t length)
{
    int r = pk_output_copy(http1->terms.output, bytes, length);
    if (r < 0 && http1->error == 0)
        http1->error = r;
}

static void put_text(pk_http1 *http1, const char *text)
{
    put(http1, text, strlen(text));
}

static void put_buffer(pk_http1 *http1, pk_buffer *buffer)
{
    int r = pk_output_refer(http1->terms.output, buffer->start, pk_buffer_length(buffer), buffer);
    if (r < 0 && http1->error == 0)
        http1->error = r;
}

/* RFC 9110 section 15; a client reads the number only. */
static const char *reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

/* Section 6.4.1 of RFC 9110: such a response has no content and no length either. */
static bool without_content(unsigned status)
{
    return status == 204 || status == 304;
}

/* The head of a response. `length` of the body; SIZE_MAX: it follows piece by piece. */
static void send_head(pk_http1 *http1, unsigned status, const pk_field *fields, size_t count,
                      size_t length)
{
    char text[64];
    snprintf(text, sizeof text, "HTTP/1.1 %u %s\r\n", status, reason(status));
    put_text(http1, text);
    for (size_t i = 0; i < count; i++) {
        put(http1, fields[i].name.bytes, fields[i].name.length);
        put(http1, ": ", 2);
        put(http1, fields[i].value.bytes, fields[i].value.length);
        put(http1, "\r\n", 2);
    }
    if (http1->chunked) {
        put_text(http1, "transfer-encoding: chunked\r\n");
    } else if (length != SIZE_MAX && !without_content(status)) {
        snprintf(text, sizeof text, "content-length: %zu\r\n", length);
        put_text(http1, text);
    }
    put_text(http1, http1->closing ? "connection: close\r\n\r\n" : "\r\n");
    http1->head_sent = true;
}

/* ---- Whether the connection serves another request ---- */

static bool request_complete(const pk_http1 *http1)
{
    return http1->parser.state == PK_HTTP1_COMPLETE;
}

/*
 * A response that ends before its request: the rest is read and dropped where it is known to be
 * short and sure to come, otherwise the connection ends.
 */
static bool rest_is_short(const pk_http1 *http1)
{
    const pk_http1_parser *parser = &http1->parser;
    return request_complete(http1) || (!parser->chunked && parser->left <= PK_HTTP1_DISCARDED &&
                                       (!parser->expects_continue || http1->continue_sent));
}

/* ---- Operations ---- */

static bool can_respond(const pk_http1 *http1)
{
    return http1->open && !http1->finished && !http1->cancelled && !http1->lost &&
           http1->error == 0;
}

static void wanted(pk_http1 *http1)
{
    http1->terms.wanted(http1);
}

static void end_response(pk_http1 *http1)
{
    http1->finished = true;
    http1->wants_room = false;
    if (!rest_is_short(http1))
        http1->closing = true;
    wanted(http1);
}

static void do_consume(pk_exchange *exchange, size_t length)
{
    pk_http1 *http1 = of_exchange(exchange);
    bool waited = http1->uncredited >= http1->terms.window;
    http1->uncredited -= length < http1->uncredited ? length : http1->uncredited;
    if (waited && http1->uncredited < http1->terms.window)
        wanted(http1);
}

static void do_reply_strict(pk_exchange *exchange, const pk_reply *reply)
{
    pk_http1 *http1 = of_exchange(exchange);
    if (!can_respond(http1)) {
        pk_buffer_unref(reply->body);
        return;
    }
    size_t length = reply->body ? pk_buffer_length(reply->body) : 0;
    if (http1->parser.close || http1->draining || !rest_is_short(http1))
        http1->closing = true;
    send_head(http1, reply->http_status, reply->fields, reply->field_count, length);
    if (length > 0 && !http1->no_body && !without_content(reply->http_status))
        put_buffer(http1, reply->body);
    pk_buffer_unref(reply->body);
    end_response(http1);
}

static bool tells_length(const pk_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].known == PK_FIELD_CONTENT_LENGTH)
            return true;
    return false;
}

static void do_start(pk_exchange *exchange, unsigned http_status, const pk_field *fields,
                     size_t count)
{
    pk_http1 *http1 = of_exchange(exchange);
    if (!can_respond(http1))
        return;
    if (http1->parser.close || http1->draining)
        http1->closing = true;
    bool has_length = tells_length(fields, count);
    http1->chunked = !has_length && http1->parser.minor > 0; /* one of HTTP/1.0 reads to the end */
    send_head(http1, http_status, fields, count, SIZE_MAX);
    wanted(http1);
}

static bool do_write(pk_exchange *exchange, pk_buffer *body_take)
{
    pk_http1 *http1 = of_exchange(exchange);
    size_t length = body_take ? pk_buffer_length(body_take) : 0;
    /* An empty chunk would be the last one. */
    if (can_respond(http1) && length > 0 && !http1->no_body) {
        char size[24];
        snprintf(size, sizeof size, "%zx\r\n", length);
        if (http1->chunked)
            put_text(http1, size);
        put_buffer(http1, body_take);
        if (http1->chunked)
            put(http1, "\r\n", 2);
        http1->wants_room = http1->terms.output->bytes >= PK_HTTP1_QUEUE_HIGH;
        wanted(http1);
    }
    pk_buffer_unref(body_take);
    return can_respond(http1) && !http1->wants_room;
}

static void do_finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    pk_http1 *http1 = of_exchange(exchange);
    if (!can_respond(http1))
        return;
    if (http1->chunked && !http1->no_body)
        put_text(http1, "0\r\n\r\n");
    end_response(http1);
}

static void do_reset(pk_exchange *exchange, pk_reset why)
{
    static const unsigned statuses[] = {
        [PK_RESET_NONE] = 500,    [PK_RESET_CANCEL] = 0, [PK_RESET_INTERNAL] = 500,
        [PK_RESET_REFUSED] = 503, [PK_RESET_CALM] = 429,
    };
    pk_http1 *http1 = of_exchange(exchange);
    http1->given_up = true;
    if (!can_respond(http1))
        return;
    http1->closing = true;
    if (!http1->head_sent && statuses[why])
        send_head(http1, statuses[why], NULL, 0, 0);
    else
        http1->error = PK_ERR_CLOSED; /* the client sees that the response is cut */
    end_response(http1);
}

static void do_hold(pk_exchange *exchange, size_t bytes)
{
    of_exchange(exchange)->held = bytes;
}

static const pk_exchange_ops http1_ops = {
    .consume = do_consume,
    .reply_strict = do_reply_strict,
    .start = do_start,
    .write = do_write,
    .finish = do_finish,
    .reset = do_reset,
    .hold = do_hold,
};

/* ---- Budgets ---- */

static size_t waiting(const pk_http1 *http1)
{
    const pk_output *sealed = http1->terms.sealed;
    return http1->held + http1->terms.output->bytes + (sealed ? sealed->bytes : 0);
}

static void count_bytes(pk_http1 *http1)
{
    size_t now = http1->lost ? 0 : waiting(http1);
    if (http1->terms.server_bytes)
        http1->terms.server_bytes->used += now - http1->counted;
    http1->counted = now;
}

static bool over_budget(const pk_http1 *http1)
{
    size_t now = waiting(http1);
    const pk_byte_budget *server = http1->terms.server_bytes;
    return now > http1->terms.budget ||
           (server && pk_byte_budget_over(server, http1->counted, now));
}

/* ---- Requests ---- */

static const pk_exchange_events no_events;

static void open_exchange(pk_http1 *http1)
{
    pk_slice method = pk_head_value(&http1->parser.head, PK_FIELD_METHOD);
    http1->exchange = (pk_exchange){.ops = &http1_ops,
                                    .events = &no_events,
                                    .loop = http1->terms.loop,
                                    .no_trailers = true,
                                    .peer = http1->terms.peer};
    http1->uncredited = 0;
    http1->continue_sent = http1->head_sent = http1->chunked = http1->finished = false;
    http1->wants_room = http1->given_up = http1->cancelled = false;
    http1->no_body = method.length == 4 && memcmp(method.bytes, "HEAD", 4) == 0;
    http1->quiet_ticks = 0;
    http1->open = true;
}

static void accept_request(pk_http1 *http1)
{
    const pk_acceptor *acceptor = http1->terms.acceptor;
    const pk_http1_parser *parser = &http1->parser;
    open_exchange(http1);
    acceptor->accept(acceptor->self, &http1->exchange, &parser->head, parser->ended);
    /* Section 10.1.1 of RFC 9110: whoever is answered at once may keep its body. */
    if (parser->expects_continue && can_respond(http1) && !http1->head_sent) {
        http1->continue_sent = true;
        put_text(http1, "HTTP/1.1 100 Continue\r\n\r\n");
        wanted(http1);
    }
}

static void refuse_request(pk_http1 *http1, bool for_its_head)
{
    const pk_acceptor *acceptor = http1->terms.acceptor;
    const pk_http1_parser *parser = &http1->parser;
    char text[128];
    int length = for_its_head
                     ? snprintf(text, sizeof text, "metadata of %zu bytes exceeds the limit of %zu",
                                parser->head_bytes, http1->terms.header_bytes)
                     : snprintf(text, sizeof text, "too many bytes wait to be handled or sent");
    const pk_status why = {.code = PK_RESOURCE_EXHAUSTED,
                           .message = {(const uint8_t *) text, (size_t) length}};
    open_exchange(http1);
    if (acceptor->refuse)
        acceptor->refuse(acceptor->self, &http1->exchange, &parser->head, parser->ended, &why);
    else
        do_reply_strict(&http1->exchange, &(pk_reply){.http_status = for_its_head ? 431 : 503});
}

static void tell_cancelled(pk_http1 *http1, const pk_status *why)
{
    if (http1->finished || http1->given_up || http1->cancelled)
        return;
    http1->cancelled = true;
    if (http1->exchange.events->on_cancelled)
        http1->exchange.events->on_cancelled(&http1->exchange, why);
}

static void close_exchange(pk_http1 *http1)
{
    http1->open = false;
    http1->held = 0;
    http1->wants_room = false;
    if (http1->exchange.events->on_closed)
        http1->exchange.events->on_closed(&http1->exchange);
    if (http1->draining)
        http1->closing = true;
    if (http1->closing)
        http1->stopped = true;
}

/* The parser refuses what came: says why, and that this is the end. */
static void answer_malformed(pk_http1 *http1)
{
    static const pk_field type[] = {
        {.name = PK_SLICE("content-type"), .value = PK_SLICE("text/plain; charset=utf-8")}};
    const pk_http1_parser *parser = &http1->parser;
    const pk_status why = {.code = PK_CANCELLED,
                           .message = {(const uint8_t *) parser->why, strlen(parser->why)}};
    bool head_sent = http1->open && http1->head_sent;
    http1->closing = http1->stopped = true;
    if (http1->open)
        tell_cancelled(http1, &why);
    if (http1->open && head_sent && !http1->finished) {
        http1->error = PK_ERR_CLOSED;
    } else if (!head_sent) {
        http1->chunked = false;
        send_head(http1, parser->status, type, 1, strlen(parser->why) + 1);
        put_text(http1, parser->why);
        put(http1, "\n", 1);
    }
    http1->finished = true;
    wanted(http1);
}

/* ---- Events ---- */

/* The parser, which knows no TLS, has put "http" there; the fields are still nobody else's. */
static void tell_scheme(const pk_http1 *http1)
{
    const pk_head *head = &http1->parser.head;
    pk_field *scheme = (pk_field *) &head->fields[head->first[PK_FIELD_SCHEME] - 1];
    if (http1->terms.peer->tls)
        scheme->value = (pk_slice) PK_SLICE("https");
}

static void on_head(pk_http1 *http1)
{
    http1->ticks = 0;
    tell_scheme(http1);
    if (http1->parser.head_bytes > http1->terms.header_bytes)
        refuse_request(http1, true);
    else if (over_budget(http1))
        http1->held_back = true;
    else
        accept_request(http1);
}

static void on_data(pk_http1 *http1, pk_buffer *holder)
{
    pk_slice data = http1->parser.data;
    http1->quiet_ticks = 0;
    /* What a response did not wait for is dropped. */
    if (!http1->open || http1->given_up || !http1->exchange.events->on_data)
        return;
    http1->uncredited += data.length;
    http1->exchange.events->on_data(&http1->exchange, data.bytes, data.length, holder);
}

static void on_end(pk_http1 *http1)
{
    const pk_head *trailers = &http1->parser.trailers;
    if (http1->open && !http1->given_up && http1->exchange.events->on_end)
        http1->exchange.events->on_end(&http1->exchange, trailers->count > 0 ? trailers : NULL);
}

/* Whether the next bytes may be looked at. */
static bool may_parse(const pk_http1 *http1)
{
    if (http1->stopped || http1->held_back || http1->error < 0)
        return false;
    return !http1->open || (!request_complete(http1) && http1->uncredited < http1->terms.window);
}

/* Ends what is over, begins what may begin. */
static void settle_exchange(pk_http1 *http1)
{
    if (http1->open && http1->finished)
        close_exchange(http1);
    if (http1->held_back && !over_budget(http1)) {
        http1->held_back = false;
        accept_request(http1);
    }
    if (!http1->open && !http1->held_back && !http1->stopped && request_complete(http1))
        pk_http1_parser_next_request(&http1->parser);
}

/* Parses and tells, in turn, until all is eaten or something has to be waited for. */
static int advance(pk_http1 *http1, const uint8_t **at, const uint8_t *end, pk_buffer *holder)
{
    for (;;) {
        settle_exchange(http1);
        if (http1->error < 0)
            return http1->error;
        if (http1->open && http1->finished)
            continue; /* it was held back and is answered */
        if (!may_parse(http1))
            return 0;
        pk_http1_event event;
        int r = pk_http1_parser_next(&http1->parser, at, end, &event);
        if (r == PK_ERR_NOMEM)
            return r;
        if (r < 0)
            answer_malformed(http1);
        else if (event == PK_HTTP1_HEAD)
            on_head(http1);
        else if (event == PK_HTTP1_DATA)
            on_data(http1, holder);
        else if (event == PK_HTTP1_END)
            on_end(http1);
        else
            return 0;
    }
}

/* ---- Bytes that wait ---- */

static void drop_rest(pk_http1 *http1)
{
    http1->rest = pk_buffer_unref(http1->rest);
}

/* Keeps bytes; those in a buffer that a handler holds too move to one of its own. */
static int keep(pk_http1 *http1, const uint8_t *bytes, size_t length)
{
    if (!http1->rest || http1->rest->references > 1) {
        pk_buffer *fresh = pk_buffer_get(&http1->terms.loop->buffers);
        if (!fresh)
            return PK_ERR_NOMEM;
        pk_buffer_rewind_for_append(fresh, 0);
        pk_buffer *old = http1->rest;
        int r = old ? pk_buffer_append(fresh, old->start, pk_buffer_length(old)) : 0;
        if (r < 0) {
            pk_buffer_unref(fresh);
            return r;
        }
        pk_buffer_unref(old);
        http1->rest = fresh;
    }
    return pk_buffer_append(http1->rest, bytes, length);
}

int pk_http1_feed(pk_http1 *http1, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    const uint8_t *at = bytes, *end = bytes + length;
    int r = 0;
    if (http1->stopped)
        return http1->error;
    if (!http1->rest)
        r = advance(http1, &at, end, holder);
    if (r == 0 && at < end && !http1->stopped)
        r = keep(http1, at, (size_t) (end - at));
    return r;
}

int pk_http1_run(pk_http1 *http1)
{
    static const uint8_t nothing;
    const uint8_t *at = &nothing;
    pk_buffer *rest = http1->rest;
    if (http1->wants_room && http1->terms.output->bytes < PK_HTTP1_QUEUE_HIGH) {
        http1->wants_room = false;
        if (http1->exchange.events->on_room)
            http1->exchange.events->on_room(&http1->exchange);
    }
    if (!rest)
        return advance(http1, &at, at, NULL);
    pk_buffer_ref(rest);
    at = rest->start;
    int r = advance(http1, &at, rest->end, rest);
    rest->start += at - rest->start;
    if (at == rest->end || http1->stopped)
        drop_rest(http1);
    pk_buffer_unref(rest);
    return r;
}

bool pk_http1_runnable(const pk_http1 *http1)
{
    return (http1->open && http1->finished) ||
           (http1->wants_room && http1->terms.output->bytes < PK_HTTP1_QUEUE_HIGH) ||
           (http1->rest && may_parse(http1));
}

bool pk_http1_full(const pk_http1 *http1)
{
    return http1->rest && pk_buffer_length(http1->rest) >= PK_HTTP1_REST_BYTES;
}

/* ---- Life ---- */

void pk_http1_init(pk_http1 *http1, const pk_http1_terms *terms)
{
    *http1 = (pk_http1){.terms = *terms};
    pk_http1_parser_init(&http1->parser, &terms->loop->memory, terms->header_bytes_max);
}

void pk_http1_done(pk_http1 *http1)
{
    pk_http1_parser_done(&http1->parser);
}

bool pk_http1_over(const pk_http1 *http1)
{
    return http1->stopped && !http1->open;
}

void pk_http1_drain(pk_http1 *http1)
{
    http1->draining = true;
    if (!http1->open && !http1->held_back && !http1->rest &&
        !pk_http1_parser_in_head(&http1->parser))
        http1->closing = http1->stopped = true;
    wanted(http1);
}

void pk_http1_settle(pk_http1 *http1)
{
    count_bytes(http1);
}

const char *pk_http1_tick(pk_http1 *http1, unsigned header_ticks, unsigned body_ticks)
{
    if (http1->held_back) {
        if (++http1->ticks >= PK_HTTP1_HELD_TICKS) {
            http1->held_back = false;
            refuse_request(http1, false);
        }
        wanted(http1); /* the budget may have room */
        return NULL;
    }
    if (!pk_http1_parser_in_head(&http1->parser))
        http1->ticks = 0;
    else if (++http1->ticks > header_ticks && header_ticks > 0)
        return "the peer takes too long to send a head";
    bool reads =
        !http1->stopped && http1->open && !request_complete(http1) && http1->uncredited == 0;
    if (!reads)
        http1->quiet_ticks = 0;
    else if (++http1->quiet_ticks > body_ticks && body_ticks > 0)
        return "the peer takes too long to send a body";
    return NULL;
}

void pk_http1_lose(pk_http1 *http1, const pk_status *why)
{
    http1->lost = http1->stopped = true;
    if (http1->open) {
        tell_cancelled(http1, why);
        close_exchange(http1);
    }
    drop_rest(http1);
    count_bytes(http1);
}
