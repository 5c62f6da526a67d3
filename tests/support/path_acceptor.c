/* See path_acceptor.h. */
#include "path_acceptor.h"

#include "core/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    ECHO,
    NONE,
    ONLY,
    BYTES,
    STREAM,
    EACH,
    EARLY,
    REFUSE,
    STUCK,
    PULL,
    LATER,
    CANCEL,
    UNKNOWN
};

static const struct {
    const char *path;
    enum kind kind;
} kinds[] = {
    {"/echo", ECHO},      {"/none", NONE},  {"/only", ONLY},   {"/bytes/", BYTES},
    {"/stream/", STREAM}, {"/each/", EACH}, {"/early", EARLY}, {"/refuse", REFUSE},
    {"/stuck", STUCK},    {"/pull/", PULL}, {"/later", LATER}, {"/cancel", CANCEL},
};

struct path_call {
    struct path_acceptor *acceptor;
    struct path_call *next, **place;
    pk_exchange *exchange;
    enum kind kind;
    size_t number, size; /* from the path */
    size_t done;         /* pieces written, bytes credited */
    size_t received;
    pk_buffer *body;
    bool ended, cancelled, answered;
    char count[24];
    pk_field trailers[2];
};

static const pk_field head[] = {
    {.name = PK_SLICE("content-type"),
     .value = PK_SLICE("application/test"),
     .known = PK_FIELD_CONTENT_TYPE},
};

static void answer(struct path_call *call, unsigned status, pk_buffer *body)
{
    snprintf(call->count, sizeof call->count, "%zu", call->received);
    call->trailers[0] = (pk_field){.name = PK_SLICE("x-received"),
                                   .value = {(const uint8_t *) call->count, strlen(call->count)}};
    call->trailers[1] = (pk_field){.name = PK_SLICE("grpc-status"), .value = PK_SLICE("0")};
    call->answered = true;
    bool only = call->kind == ONLY || call->kind == UNKNOWN;
    call->exchange->ops->reply_strict(call->exchange, &(pk_reply){.http_status = status,
                                                                  .fields = head,
                                                                  .field_count = 1,
                                                                  .body = body,
                                                                  .trailers = call->trailers,
                                                                  .trailer_count = only ? 0 : 2});
}

/* NULL after the call was reset for lack of memory. */
static pk_buffer *filled(struct path_call *call, size_t length)
{
    pk_exchange *exchange = call->exchange;
    pk_buffer *buffer = pk_buffer_get(&exchange->loop->buffers);
    if (buffer)
        pk_buffer_rewind_for_append(buffer, 0);
    if (!buffer || pk_buffer_room_after(buffer, length) < 0) {
        if (!call->acceptor->careful)
            abort();
        exchange->ops->reset(exchange, PK_RESET_INTERNAL);
        return pk_buffer_unref(buffer);
    }
    memset(buffer->end, 'x', length);
    buffer->end += length;
    return buffer;
}

/* Writes pieces until there is no room, then the trailers. */
static void stream_on(struct path_call *call)
{
    const pk_exchange_ops *ops = call->exchange->ops;
    while (call->done < call->number) {
        pk_buffer *piece = filled(call, call->size);
        if (!piece)
            return;
        call->done++;
        call->acceptor->written++;
        if (!ops->write(call->exchange, piece) || call->kind == EACH)
            return;
    }
    if (!call->answered) {
        call->answered = true;
        call->trailers[0] = (pk_field){.name = PK_SLICE("grpc-status"), .value = PK_SLICE("0")};
        ops->finish(call->exchange, call->trailers, 1);
    }
}

static void complete(struct path_call *call)
{
    switch (call->kind) {
    case ECHO:
        answer(call, 200, call->body ? pk_buffer_ref(call->body) : NULL);
        break;
    case BYTES: {
        pk_buffer *body = filled(call, call->number);
        if (body)
            answer(call, 200, body);
        break;
    }
    case CANCEL:
        for (struct path_call *other = call->acceptor->calls; other; other = other->next) {
            if (other != call)
                other->exchange->ops->reset(other->exchange, PK_RESET_CANCEL);
        }
        answer(call, 200, NULL);
        break;
    case NONE:
    case PULL:
        answer(call, 200, NULL);
        break;
    case ONLY:
    case STREAM:
    case EACH:
    case EARLY:
    case REFUSE:
    case STUCK:
    case LATER:
    case UNKNOWN:
        break;
    }
}

static void on_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    struct path_call *call = exchange->user;
    if (call->ended || call->cancelled)
        call->acceptor->events_after_end++;
    call->received += length;
    call->acceptor->bytes += length;
    if (call->kind == PULL) {
        size_t left = call->number - call->done;
        size_t part = length < left ? length : left;
        call->done += part;
        exchange->ops->consume(exchange, part);
        return;
    }
    if (call->kind == ECHO || call->kind == LATER || call->kind == STUCK) {
        if (!call->body) {
            call->body = pk_buffer_get(&exchange->loop->buffers);
            if (call->body)
                pk_buffer_rewind_for_append(call->body, 0);
        }
        if (!call->body || pk_buffer_append(call->body, bytes, length) < 0) {
            exchange->ops->reset(exchange, PK_RESET_INTERNAL);
            return;
        }
        if (call->kind == STUCK)
            return;
        exchange->ops->hold(exchange, call->received);
    }
    exchange->ops->consume(exchange, length);
}

static void on_end(pk_exchange *exchange, const pk_head *trailers)
{
    struct path_call *call = exchange->user;
    if (call->ended || call->cancelled)
        call->acceptor->events_after_end++;
    call->ended = true;
    call->acceptor->ended++;
    call->acceptor->trailers += trailers != NULL;
    complete(call);
}

static void on_room(pk_exchange *exchange)
{
    struct path_call *call = exchange->user;
    if (call->cancelled || call->answered)
        call->acceptor->events_after_end++;
    if (call->kind == STREAM)
        stream_on(call);
}

static void on_cancelled(pk_exchange *exchange, const pk_status *why)
{
    struct path_call *call = exchange->user;
    if (call->cancelled)
        call->acceptor->events_after_end++;
    call->cancelled = true;
    call->acceptor->cancelled++;
}

static void on_closed(pk_exchange *exchange)
{
    struct path_call *call = exchange->user;
    call->acceptor->closed++;
    *call->place = call->next;
    if (call->next)
        call->next->place = call->place;
    pk_buffer_unref(call->body);
    free(call);
}

static const pk_exchange_events events = {.on_data = on_data,
                                          .on_end = on_end,
                                          .on_room = on_room,
                                          .on_cancelled = on_cancelled,
                                          .on_closed = on_closed};

static struct path_call *new_call(struct path_acceptor *acceptor, pk_exchange *exchange)
{
    struct path_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    call->acceptor = acceptor;
    call->exchange = exchange;
    call->kind = UNKNOWN;
    call->next = acceptor->calls;
    call->place = &acceptor->calls;
    if (call->next)
        call->next->place = &call->next;
    acceptor->calls = call;
    exchange->events = &events;
    exchange->user = call;
    return call;
}

static void accept(void *self, pk_exchange *exchange, const pk_head *request, bool ended)
{
    struct path_acceptor *acceptor = self;
    struct path_call *call = new_call(acceptor, exchange);
    acceptor->accepted++;
    pk_slice scheme = pk_head_value(request, PK_FIELD_SCHEME);
    snprintf(acceptor->scheme, sizeof acceptor->scheme, "%.*s", (int) scheme.length,
             (const char *) scheme.bytes);
    pk_slice value = pk_head_value(request, PK_FIELD_PATH);
    char path[64] = "";
    memcpy(path, value.bytes, value.length < sizeof path ? value.length : sizeof path - 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].path);
        if (strncmp(path, kinds[i].path, length) == 0) {
            char *end = path + length;
            call->kind = kinds[i].kind;
            call->number = strtoul(end, &end, 10);
            call->size = *end == '/' ? strtoul(end + 1, NULL, 10) : 0;
            if (acceptor->bounded) {
                call->number %= 1000;
                call->size %= 1000;
            }
            break;
        }
    }
    call->ended = ended;
    if (call->kind == UNKNOWN) {
        answer(call, 404, NULL);
    } else if (call->kind == ONLY || call->kind == EARLY) {
        answer(call, 200, NULL);
    } else if (call->kind == REFUSE) {
        exchange->ops->reset(exchange, PK_RESET_REFUSED);
    } else if (call->kind == STREAM || call->kind == EACH) {
        exchange->ops->start(exchange, 200, head, 1);
        if (call->kind == STREAM)
            stream_on(call);
    } else if (ended) {
        complete(call);
    }
}

static void refuse(void *self, pk_exchange *exchange, const pk_head *request, bool ended,
                   const pk_status *why)
{
    struct path_acceptor *acceptor = self;
    struct path_call *call = new_call(acceptor, exchange);
    acceptor->refused++;
    call->ended = ended;
    call->kind = REFUSE;
    answer(call, 200 + (unsigned) why->code, NULL);
}

void path_acceptor_init(struct path_acceptor *acceptor)
{
    *acceptor =
        (struct path_acceptor){.acceptor = {.accept = accept, .refuse = refuse, .self = acceptor}};
}

void path_acceptor_answer(struct path_acceptor *acceptor)
{
    struct path_call *next;
    for (struct path_call *call = acceptor->calls; call; call = next) {
        next = call->next;
        if (call->kind == LATER && !call->answered)
            answer(call, 200, call->body ? pk_buffer_ref(call->body) : NULL);
        else if (call->kind == EACH)
            stream_on(call);
    }
}
