/* Plain HTTP requests: see <pekoe/http.h>. The router calls pk_http_serve; knows no gRPC. */
#include "handlers/http.h"

#include "core/loop.h"

#include <string.h>

#define FIELDS_MAX 16u

struct pk_http {
    pk_exchange *exchange;
    const pk_head *head;
    pk_arena arena; /* the answer's fields, as long as the exchange */
    pk_field fields[FIELDS_MAX + 1];
    size_t count;
    bool answered;
};

static void on_closed(pk_exchange *exchange)
{
    pk_http *http = exchange->user;
    pk_memory *memory = &exchange->loop->memory;
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
    if (!is_name(name) || !is_value(value))
        return PK_ERR_INVALID;
    return http->count < FIELDS_MAX ? add(http, name, value) : PK_ERR_LIMIT;
}

/* HTTP/1.1 leaves the body of an answer to HEAD out by itself, and tells its length. */
static bool carries_body(const pk_http *http)
{
    pk_slice method = pk_http_method(http);
    bool head = method.length == 4 && memcmp(method.bytes, "HEAD", 4) == 0;
    return !head || http->exchange->no_trailers;
}

int pk_http_reply(pk_http *http, unsigned status, const char *content_type, const void *body,
                  size_t length)
{
    if (http->answered)
        return PK_ERR_STATE;
    pk_exchange *exchange = http->exchange;
    pk_buffer *buffer = NULL;
    int r = content_type ? add(http, "content-type", content_type) : 0;
    if (r == 0 && length > 0 && carries_body(http)) {
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

void pk_http_serve(pk_http_handler *handler, void *self, pk_exchange *exchange, const pk_head *head)
{
    static const pk_exchange_events events = {.on_closed = on_closed};
    pk_memory *memory = &exchange->loop->memory;
    pk_http *http = pk_memory_get(memory, sizeof *http);
    if (!http) {
        answer_unavailable(exchange);
        return;
    }
    http->exchange = exchange;
    http->head = head;
    http->count = 0;
    http->answered = false;
    pk_arena_init(&http->arena, memory, 0);
    exchange->events = &events;
    exchange->user = http;
    handler(self, http);
    if (!http->answered)
        (void) !pk_http_reply(http, 404, "text/plain", "not found\n", 10);
}
