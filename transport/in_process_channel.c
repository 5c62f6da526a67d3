/*
 * A channel to a router in the same loop, without a socket: part of the test kit (pekoe/testing.h).
 *
 * A call is a pair of exchanges, the client's and the server's. An operation of one side only notes
 * what it wants; the pair's entry in the ready queue then delivers it to the other as events, so
 * that no event comes from inside an operation, as with the transports over HTTP. Each direction
 * has a window, so that back-pressure shows in tests as it does over a network.
 */
#include <pekoe/testing.h>

#include "core/loop.h"
#include "handlers/router.h"
#include "transport/channel_state.h"

#include <string.h>

static const pk_peer in_process = {"in-process:", NULL};

#define WINDOW 65536u /* bytes written and not consumed at which a writer has to wait */

/* What one side has to say to the other. */
struct direction {
    pk_buffer *queue, **queue_end; /* bytes not delivered */
    size_t out;                    /* bytes that were written and not consumed */
    bool wants_room;               /* the writer waits */
    bool ended, end_told;
    pk_head head;
    bool head_given, head_told;
    pk_head trailers;
    bool reset; /* the writer broke it off */
    pk_reset why;
};

struct pair {
    struct pair *next, *previous; /* in the channel's ring */
    struct in_process *channel;
    pk_exchange client, server;
    struct direction request, response;
    pk_ready later;
    bool queued, running;
    bool client_cancelled, server_cancelled; /* told */
    bool lost;                               /* the channel was freed */
    pk_arena arena;                          /* fields with their known names */
};

struct in_process {
    pk_channel base; /* first: the way back from it */
    pk_router *router;
    struct pair *pairs; /* ring; NULL: none */
};

static struct pair *of_client(pk_exchange *exchange)
{
    return (struct pair *) ((char *) exchange - offsetof(struct pair, client));
}

static struct pair *of_server(pk_exchange *exchange)
{
    return (struct pair *) ((char *) exchange - offsetof(struct pair, server));
}

static void later(struct pair *pair)
{
    if (pair->queued || pair->running)
        return;
    pair->queued = true;
    pk_loop_ready(pair->client.loop, &pair->later);
}

/* ---- What both sides do ---- */

/* Fields as a head: copied, known names looked up. False without memory. */
static bool fill_head(struct pair *pair, pk_head *ret_head, const pk_field *first,
                      const pk_field *fields, size_t count)
{
    size_t total = count + (first ? 1 : 0);
    pk_field *copies = pk_arena_try(&pair->arena, (total + 1) * sizeof *copies);
    if (!copies)
        return false;
    memset(ret_head, 0, sizeof *ret_head);
    for (size_t i = 0; i < total; i++) {
        copies[i] = first && i == 0 ? *first : fields[first ? i - 1 : i];
        pk_slice *texts[] = {&copies[i].name, &copies[i].value};
        for (size_t j = 0; j < 2; j++)
            texts[j]->bytes =
                (const uint8_t *) pk_arena_copy(&pair->arena, texts[j]->bytes, texts[j]->length);
        pk_field_name known = pk_field_lookup(copies[i].name);
        copies[i].known = (uint8_t) known;
        if (known != PK_FIELD_OTHER && ret_head->first[known] == 0)
            ret_head->first[known] = (uint16_t) (i + 1);
        else if (known != PK_FIELD_OTHER)
            ret_head->repeated |= 1u << known;
    }
    ret_head->fields = copies;
    ret_head->count = total;
    return !pair->arena.exhausted;
}

static void break_off(struct pair *pair, struct direction *direction, pk_reset why)
{
    if (!direction->reset) {
        direction->reset = true;
        direction->why = why;
    }
    later(pair);
}

static bool put(struct pair *pair, struct direction *direction, pk_buffer *body_take)
{
    size_t length = pk_buffer_length(body_take);
    if (length == 0 || direction->ended || direction->reset) {
        pk_buffer_unref(body_take);
        return true;
    }
    body_take->next = NULL;
    *direction->queue_end = body_take;
    direction->queue_end = &body_take->next;
    direction->out += length;
    direction->wants_room = direction->out >= WINDOW;
    later(pair);
    return !direction->wants_room;
}

static void took(struct pair *pair, struct direction *direction, size_t length)
{
    direction->out -= length < direction->out ? length : direction->out;
    if (direction->wants_room && direction->out < WINDOW / 2)
        later(pair);
}

static void drop_queue(struct direction *direction)
{
    while (direction->queue) {
        pk_buffer *buffer = direction->queue;
        direction->queue = buffer->next;
        pk_buffer_unref(buffer);
    }
    direction->queue_end = &direction->queue;
}

static void end(struct pair *pair, struct direction *direction, const pk_field *trailers,
                size_t count)
{
    if (direction->ended)
        return;
    direction->ended = true;
    if (count > 0 && !fill_head(pair, &direction->trailers, NULL, trailers, count))
        break_off(pair, direction, PK_RESET_INTERNAL);
    later(pair);
}

/* ---- Operations ---- */

static void client_consume(pk_exchange *exchange, size_t length)
{
    took(of_client(exchange), &of_client(exchange)->response, length);
}

static bool client_write(pk_exchange *exchange, pk_buffer *body_take)
{
    return put(of_client(exchange), &of_client(exchange)->request, body_take);
}

static void client_finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    end(of_client(exchange), &of_client(exchange)->request, NULL, 0);
}

static void client_reset(pk_exchange *exchange, pk_reset why)
{
    break_off(of_client(exchange), &of_client(exchange)->request, why);
}

static void hold(pk_exchange *exchange, size_t bytes)
{
}

static void server_consume(pk_exchange *exchange, size_t length)
{
    took(of_server(exchange), &of_server(exchange)->request, length);
}

static void server_start(pk_exchange *exchange, unsigned http_status, const pk_field *fields,
                         size_t count)
{
    struct pair *pair = of_server(exchange);
    const uint8_t text[3] = {(uint8_t) ('0' + http_status / 100 % 10),
                             (uint8_t) ('0' + http_status / 10 % 10),
                             (uint8_t) ('0' + http_status % 10)};
    const pk_field status = {.name = PK_SLICE(":status"), .value = {text, 3}};
    if (pair->response.head_given)
        return;
    pair->response.head_given = true;
    if (!fill_head(pair, &pair->response.head, &status, fields, count))
        break_off(pair, &pair->response, PK_RESET_INTERNAL);
    later(pair);
}

static bool server_write(pk_exchange *exchange, pk_buffer *body_take)
{
    return put(of_server(exchange), &of_server(exchange)->response, body_take);
}

static void server_finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    end(of_server(exchange), &of_server(exchange)->response, trailers, count);
}

static void server_reply(pk_exchange *exchange, const pk_reply *reply)
{
    server_start(exchange, reply->http_status, reply->fields, reply->field_count);
    if (reply->body)
        (void) server_write(exchange, reply->body);
    server_finish(exchange, reply->trailers, reply->trailer_count);
}

static void server_reset(pk_exchange *exchange, pk_reset why)
{
    break_off(of_server(exchange), &of_server(exchange)->response, why);
}

static const pk_exchange_ops client_ops = {
    .consume = client_consume,
    .write = client_write,
    .finish = client_finish,
    .reset = client_reset,
    .hold = hold,
};

static const pk_exchange_ops server_ops = {
    .consume = server_consume,
    .reply_strict = server_reply,
    .start = server_start,
    .write = server_write,
    .finish = server_finish,
    .reset = server_reset,
    .hold = hold,
};

/* ---- Delivering ---- */

static void deliver_data(struct direction *direction, pk_exchange *to)
{
    while (direction->queue) {
        pk_buffer *buffer = direction->queue;
        direction->queue = buffer->next;
        if (!direction->queue)
            direction->queue_end = &direction->queue;
        buffer->next = NULL;
        if (to->events->on_data)
            to->events->on_data(to, buffer->start, pk_buffer_length(buffer), NULL);
        else
            to->ops->consume(to, pk_buffer_length(buffer));
        pk_buffer_unref(buffer);
    }
}

static void deliver_end(struct direction *direction, pk_exchange *to)
{
    if (!direction->ended || direction->queue || direction->end_told)
        return;
    direction->end_told = true;
    if (to->events->on_end)
        to->events->on_end(to, direction->trailers.count > 0 ? &direction->trailers : NULL);
}

static void deliver_room(struct direction *direction, pk_exchange *from)
{
    if (!direction->wants_room || direction->out >= WINDOW / 2)
        return;
    direction->wants_room = false;
    if (from->events->on_room)
        from->events->on_room(from);
}

static void deliver_request(struct pair *pair)
{
    struct direction *request = &pair->request;
    if (!request->head_told) {
        request->head_told = true;
        request->end_told = request->ended && !request->queue;
        pk_acceptor acceptor = pk_router_acceptor(pair->channel->router);
        acceptor.accept(acceptor.self, &pair->server, &request->head, request->end_told);
    }
    deliver_data(request, &pair->server);
    deliver_end(request, &pair->server);
    deliver_room(request, &pair->client);
}

static void deliver_response(struct pair *pair)
{
    struct direction *response = &pair->response;
    if (!response->head_given)
        return;
    if (!response->head_told) {
        response->head_told = true;
        response->end_told = response->ended && !response->queue && response->trailers.count == 0;
        if (pair->client.events->on_head)
            pair->client.events->on_head(&pair->client, &response->head, response->end_told);
    }
    deliver_data(response, &pair->client);
    deliver_end(response, &pair->client);
    deliver_room(response, &pair->server);
}

/* ---- The end of a pair ---- */

static void tell_client(struct pair *pair, pk_code code, const char *text)
{
    const pk_status why = {code, {(const uint8_t *) text, strlen(text)}, {NULL, 0}};
    if (pair->client_cancelled || pair->response.end_told || pair->request.reset)
        return;
    pair->client_cancelled = true;
    pair->client.unprocessed = code == PK_UNAVAILABLE && !pair->lost;
    if (pair->client.events->on_cancelled)
        pair->client.events->on_cancelled(&pair->client, &why);
}

static void tell_server(struct pair *pair, const char *text)
{
    const pk_status why = {PK_CANCELLED, {(const uint8_t *) text, strlen(text)}, {NULL, 0}};
    if (pair->server_cancelled || !pair->request.head_told || pair->response.ended ||
        pair->response.reset)
        return;
    pair->server_cancelled = true;
    if (pair->server.events->on_cancelled)
        pair->server.events->on_cancelled(&pair->server, &why);
}

static void tell_resets(struct pair *pair)
{
    static const pk_code codes[] = {
        [PK_RESET_NONE] = PK_INTERNAL,           [PK_RESET_CANCEL] = PK_CANCELLED,
        [PK_RESET_INTERNAL] = PK_INTERNAL,       [PK_RESET_REFUSED] = PK_UNAVAILABLE,
        [PK_RESET_CALM] = PK_RESOURCE_EXHAUSTED,
    };
    if (pair->lost) {
        tell_server(pair, "the channel was freed");
        tell_client(pair, PK_UNAVAILABLE, "the channel was freed");
    } else if (pair->request.reset) {
        tell_server(pair, "the client has reset the call");
    } else if (pair->response.reset) {
        tell_client(pair, codes[pair->response.why], "the server has reset the call");
    }
}

static bool is_over(const struct pair *pair)
{
    return pair->lost || pair->request.reset || pair->response.reset || pair->response.end_told;
}

/* Both sides hear the end; the server's first, whose request lies with the client. */
static void close_pair(struct pair *pair)
{
    struct in_process *channel = pair->channel;
    pk_memory *memory = &pair->client.loop->memory;
    if (pair->request.head_told)
        pair->server.events->on_closed(&pair->server);
    if (channel->pairs == pair)
        channel->pairs = pair->next == pair ? NULL : pair->next;
    pair->next->previous = pair->previous;
    pair->previous->next = pair->next;
    pair->client.events->on_closed(&pair->client);
    drop_queue(&pair->request);
    drop_queue(&pair->response);
    pk_arena_done(&pair->arena);
    pk_memory_put(memory, pair, sizeof *pair);
    pk_channel_unref(&channel->base);
}

static void deliver(struct pair *pair)
{
    pair->running = true;
    if (!is_over(pair))
        deliver_request(pair);
    if (!pair->lost && !pair->request.reset)
        deliver_response(pair);
    tell_resets(pair);
    pair->running = false;
    if (is_over(pair))
        close_pair(pair);
    else if (pair->request.queue || pair->response.queue ||
             (pair->request.ended && !pair->request.end_told) ||
             (pair->response.ended && !pair->response.end_told) ||
             (pair->request.wants_room && pair->request.out < WINDOW / 2) ||
             (pair->response.wants_room && pair->response.out < WINDOW / 2) ||
             (pair->response.head_given && !pair->response.head_told))
        later(pair); /* one side has spoken while the other was told */
}

static void run_later(pk_ready *ready)
{
    struct pair *pair = (struct pair *) ((char *) ready - offsetof(struct pair, later));
    pair->queued = false;
    deliver(pair);
}

/* ---- The channel ---- */

static void do_open(pk_channel *base, pk_opening *opening)
{
    static const pk_status no_memory = {
        PK_RESOURCE_EXHAUSTED, PK_SLICE("out of memory"), {NULL, 0}};
    struct in_process *channel = (struct in_process *) base;
    pk_loop *loop = base->loop;
    pk_opening_head head;
    if (!opening->head(opening, &head))
        return;
    struct pair *pair = pk_memory_get(&loop->memory, sizeof *pair);
    if (!pair) {
        opening->failed(opening, &no_memory);
        return;
    }
    *pair = (struct pair){
        .channel = channel,
        .client = {.ops = &client_ops,
                   .events = opening->events,
                   .user = opening->user,
                   .loop = loop,
                   .peer = &in_process},
        .server = {.ops = &server_ops, .loop = loop, .peer = &in_process},
        .request.queue_end = &pair->request.queue,
        .response.queue_end = &pair->response.queue,
        .later = {.run = run_later, .scope = &loop->scope},
    };
    pk_arena_init(&pair->arena, &loop->memory, 0);
    if (!fill_head(pair, &pair->request.head, NULL, head.fields, head.count)) {
        pk_arena_done(&pair->arena);
        pk_memory_put(&loop->memory, pair, sizeof *pair);
        opening->failed(opening, &no_memory);
        return;
    }
    if (channel->pairs) {
        pair->next = channel->pairs;
        pair->previous = channel->pairs->previous;
        pair->next->previous = pair->previous->next = pair;
    } else {
        channel->pairs = pair->next = pair->previous = pair;
    }
    base->references++;
    opening->opened(opening, &pair->client);
    later(pair);
}

/* Nothing waits. */
static void do_withdraw(pk_channel *base, pk_opening *opening)
{
}

static void do_close(pk_channel *base)
{
    struct in_process *channel = (struct in_process *) base;
    struct pair *pair = channel->pairs;
    if (!pair)
        return;
    do {
        pair->lost = true;
        later(pair);
        pair = pair->next;
    } while (pair != channel->pairs);
    /* From the program: at once. From a step of the loop: before the turn ends. */
    pk_loop_drain(base->loop);
}

static void do_free(pk_channel *base)
{
    pk_channel_done(base);
    pk_memory_put(&base->loop->memory, base, sizeof(struct in_process));
}

int pk_channel_new_in_process(pk_channel **ret_channel, pk_router *router)
{
    static const pk_channel_ops operations = {
        .open = do_open, .withdraw = do_withdraw, .close = do_close, .free = do_free};
    pk_loop *loop = router->loop;
    pk_assert_owner(loop);
    struct in_process *channel = pk_memory_get(&loop->memory, sizeof *channel);
    if (!channel)
        return PK_ERR_NOMEM;
    *channel = (struct in_process){
        .base = {.ops = &operations,
                 .loop = loop,
                 .scheme = PK_SLICE("http"),
                 .secure = true, /* there is no way */
                 .authority = PK_SLICE("in-process"),
                 .compress_min_bytes = 1024,
                 .call_buffer_bytes = 256u << 10,
                 .buffer_bytes = 16u << 20,
                 .state = PK_CHANNEL_READY,
                 .references = 1},
        .router = router,
    };
    *ret_channel = &channel->base;
    return 0;
}
