/* Plain HTTP requests: see <pekoe/http.h>. The router calls pk_http_serve; knows no gRPC. */
#include "handlers/http.h"

#include "core/loop.h"

#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 16u

struct pk_http {
    pk_exchange *exchange;
    const pk_head *head;
    pk_arena arena; /* the answer's fields, as long as the exchange */
    pk_field fields[FIELDS_MAX + 2];
    size_t count;
    bool answered;
    bool started;      /* the answer's head has gone before its body */
    unsigned status;   /* of the answer with the body below */
    pk_http_body body; /* `read` NULL: there is none, or it was closed */
    uint64_t left;     /* bytes of it that were not read */
};

static void close_body(pk_http *http)
{
    pk_http_body body = http->body;
    http->body = (pk_http_body){NULL, NULL, NULL};
    if (body.read && body.close)
        body.close(body.self);
}

static void on_cancelled(pk_exchange *exchange, const pk_status *why)
{
    close_body(exchange->user);
}

static void on_closed(pk_exchange *exchange)
{
    pk_http *http = exchange->user;
    pk_memory *memory = &exchange->loop->memory;
    close_body(http);
    pk_arena_done(&http->arena);
    pk_memory_put(memory, http, sizeof *http);
}

static void nothing_to_close(pk_exchange *exchange)
{
}

static void answer_unavailable(pk_exchange *exchange)
{
    static const pk_exchange_events events = {.on_closed = nothing_to_close};
    exchange->events = &events;
    exchange->ops->reply_strict(exchange, &(pk_reply){.http_status = 503});
}

/* ---- The request ---- */

pk_slice pk_http_method(const pk_http *http)
{
    return pk_head_value(http->head, PK_FIELD_METHOD);
}

pk_slice pk_http_target(const pk_http *http)
{
    return pk_head_value(http->head, PK_FIELD_PATH);
}

pk_slice pk_http_field(const pk_http *http, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < http->head->count; i++) {
        const pk_field *field = &http->head->fields[i];
        if (field->name.length == length && memcmp(field->name.bytes, name, length) == 0)
            return field->value;
    }
    return (pk_slice){NULL, 0};
}

/* ---- The answer ---- */

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

static bool is_value(const char *value)
{
    for (; *value; value++)
        if ((unsigned char) *value < 0x20 || (unsigned char) *value > 0x7e)
            return false;
    return true;
}

/* Fields that say where the answer ends or what becomes of the connection: the transport's own. */
static bool frames(const char *name)
{
    static const char *const names[] = {"connection", "content-length",   "keep-alive",
                                        "upgrade",    "proxy-connection", "transfer-encoding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Interim ones are no answers, and what has not three digits is none at all. */
static bool is_status(unsigned status)
{
    return status >= 200 && status <= 999;
}

static bool may_answer(unsigned status, const char *content_type)
{
    return is_status(status) && (!content_type || is_value(content_type));
}

static int add(pk_http *http, const char *name, const char *value)
{
    size_t name_length = strlen(name), value_length = strlen(value);
    uint8_t *copy = pk_arena_try(&http->arena, name_length + value_length + 1);
    if (!copy)
        return PK_ERR_NOMEM;
    memcpy(copy, name, name_length);
    memcpy(copy + name_length, value, value_length);
    http->fields[http->count++] =
        (pk_field){.name = {copy, name_length}, .value = {copy + name_length, value_length}};
    return 0;
}

int pk_http_add_field(pk_http *http, const char *name, const char *value)
{
    if (http->answered)
        return PK_ERR_STATE;
    if (!is_name(name) || !is_value(value) || frames(name))
        return PK_ERR_INVALID;
    return http->count < FIELDS_MAX ? add(http, name, value) : PK_ERR_LIMIT;
}

static bool is_head(const pk_http *http)
{
    pk_slice method = pk_http_method(http);
    return method.length == 4 && memcmp(method.bytes, "HEAD", 4) == 0;
}

/* RFC 9110 section 6.4.1: a client takes what follows for the next answer. */
static bool without_body(unsigned status)
{
    return status == 204 || status == 304;
}

/* HTTP/1.1 leaves the body of an answer to HEAD out by itself, and tells its length. */
static bool carries_body(const pk_http *http, unsigned status)
{
    return !without_body(status) && (!is_head(http) || http->exchange->no_trailers);
}

int pk_http_reply(pk_http *http, unsigned status, const char *content_type, const void *body,
                  size_t length)
{
    if (http->answered)
        return PK_ERR_STATE;
    if (!may_answer(status, content_type))
        return PK_ERR_INVALID;
    pk_exchange *exchange = http->exchange;
    pk_buffer *buffer = NULL;
    int r = content_type ? add(http, "content-type", content_type) : 0;
    if (r == 0 && length > 0 && carries_body(http, status)) {
        buffer = pk_buffer_get(&exchange->loop->buffers);
        r = buffer ? pk_buffer_prepend(buffer, body, length) : PK_ERR_NOMEM;
        if (r < 0)
            buffer = pk_buffer_unref(buffer);
    }
    pk_reply reply = {.http_status = r < 0 ? 503 : status,
                      .fields = http->fields,
                      .field_count = r < 0 ? 0 : http->count,
                      .body = buffer};
    http->answered = true;
    exchange->ops->reply_strict(exchange, &reply);
    return r;
}

/* ---- A body that is read while it leaves ---- */

/* The next piece in a buffer; NULL where there is none. */
static pk_buffer *read_piece(pk_http *http)
{
    pk_buffer *piece = pk_buffer_get_block(&http->exchange->loop->buffers);
    if (!piece)
        return NULL;
    size_t room = http->left < piece->capacity ? (size_t) http->left : piece->capacity;
    ptrdiff_t got = http->body.read(http->body.self, piece->end, room);
    if (got <= 0 || (size_t) got > room)
        return pk_buffer_unref(piece);
    piece->end += got;
    http->left -= (uint64_t) got;
    return piece;
}

/* The client has been promised more than there is. */
static void break_off(pk_http *http)
{
    pk_exchange *exchange = http->exchange;
    close_body(http);
    if (http->started)
        exchange->ops->reset(exchange, PK_RESET_INTERNAL);
    else
        exchange->ops->reply_strict(exchange, &(pk_reply){.http_status = 500});
}

/* Sends pieces while there is room. */
static void send_pieces(pk_http *http)
{
    pk_exchange *exchange = http->exchange;
    bool room = true;
    while (room && http->body.read) {
        pk_buffer *piece = read_piece(http);
        if (!piece) {
            break_off(http);
            return;
        }
        if (!http->started)
            exchange->ops->start(exchange, http->status, http->fields, http->count);
        http->started = true;
        room = exchange->ops->write(exchange, piece);
        if (http->left > 0)
            continue;
        close_body(http);
        exchange->ops->finish(exchange, NULL, 0);
    }
}

static void on_room(pk_exchange *exchange)
{
    send_pieces(exchange->user);
}

/* With the length of a body that is not sent. HTTP/1.1 would tell that of a strict reply by itself. */
static void reply_to_head(pk_http *http)
{
    pk_exchange *exchange = http->exchange;
    if (exchange->no_trailers) {
        exchange->ops->start(exchange, http->status, http->fields, http->count);
        exchange->ops->finish(exchange, NULL, 0);
        return;
    }
    exchange->ops->reply_strict(exchange, &(pk_reply){.http_status = http->status,
                                                      .fields = http->fields,
                                                      .field_count = http->count});
}

/* Fields of an answer whose body is not at hand. */
static int add_body_fields(pk_http *http, const char *content_type, uint64_t length)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long) length);
    int r = content_type ? add(http, "content-type", content_type) : 0;
    if (r == 0)
        r = add(http, "content-length", text);
    if (r == 0)
        http->fields[http->count - 1].known = PK_FIELD_CONTENT_LENGTH;
    return r;
}

int pk_http_reply_body(pk_http *http, unsigned status, const char *content_type, uint64_t length,
                       const pk_http_body *body)
{
    pk_exchange *exchange = http->exchange;
    if (http->answered || length == 0 || without_body(status) ||
        !may_answer(status, content_type)) {
        if (body->close)
            body->close(body->self);
        return pk_http_reply(http, status, content_type, NULL, 0);
    }
    http->answered = true;
    http->body = *body;
    http->left = length;
    http->status = status;
    int r = add_body_fields(http, content_type, length);
    if (r < 0) {
        close_body(http);
        exchange->ops->reply_strict(exchange, &(pk_reply){.http_status = 503});
    } else if (!is_head(http)) {
        send_pieces(http);
    } else {
        close_body(http);
        reply_to_head(http);
    }
    return r;
}

void pk_http_serve(pk_http_handler *handler, void *self, pk_exchange *exchange, const pk_head *head)
{
    static const pk_exchange_events events = {
        .on_room = on_room, .on_cancelled = on_cancelled, .on_closed = on_closed};
    pk_memory *memory = &exchange->loop->memory;
    pk_http *http = pk_memory_get(memory, sizeof *http);
    if (!http) {
        answer_unavailable(exchange);
        return;
    }
    http->exchange = exchange;
    http->head = head;
    http->count = 0;
    http->answered = http->started = false;
    http->body = (pk_http_body){NULL, NULL, NULL};
    pk_arena_init(&http->arena, memory, 0);
    exchange->events = &events;
    exchange->user = http;
    handler(self, http);
    if (!http->answered)
        (void) !pk_http_reply(http, 404, "text/plain", "not found\n", 10);
}
