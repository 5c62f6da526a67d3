/*
 * The transport without a wire: exchanges of the test kit (pekoe/testing.h).
 *
 * It keeps the contract of core/exchange.h as the HTTP transports do: events are called only from
 * the test's own steps and from the ready queue, never from inside an operation.
 */
#include <pekoe/testing.h>

#include "core/exchange.h"
#include "core/loop.h"
#include "handlers/router.h"

#include <assert.h>
#include <string.h>

struct pk_test_exchange {
    pk_exchange exchange; /* first: the way back from it */
    pk_ready later;       /* tells the handler what must not be told from inside an operation */
    bool later_queued;
    pk_arena arena; /* request and response fields */
    pk_head head;
    unsigned http_status;
    const pk_field *fields;
    size_t field_count;
    const pk_field *trailers;
    size_t trailer_count;
    pk_buffer *body;
    size_t room;        /* bytes of the body that may come yet */
    bool wants_room;    /* write has returned none */
    bool request_ended; /* by the client */
    bool finished;      /* the response is complete */
    bool reset;         /* by the handler's side */
    bool lost;          /* no memory for the response: the client is about to go */
    bool cancelled;     /* by the client */
    bool closed;        /* on_closed was called */
    size_t consumed;
};

static const pk_peer in_process = {"in-process:", NULL};

static pk_test_exchange *of(pk_exchange *exchange)
{
    return (pk_test_exchange *) exchange;
}

static pk_slice copy_text(pk_arena *arena, pk_slice text)
{
    return (pk_slice){(const uint8_t *) pk_arena_copy(arena, text.bytes, text.length), text.length};
}

/* ---- Operations: what the handler does ---- */

/* The response outlives the call that its fields lie in. */
static const pk_field *copy_fields(pk_test_exchange *test, const pk_field *fields, size_t count)
{
    pk_field *copies = pk_arena_get(&test->arena, (count + 1) * sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        copies[i] = fields[i];
        copies[i].name = copy_text(&test->arena, fields[i].name);
        copies[i].value = copy_text(&test->arena, fields[i].value);
    }
    return copies;
}

static void tell_later(pk_test_exchange *test)
{
    if (test->later_queued)
        return;
    test->later_queued = true;
    pk_loop_ready(test->exchange.loop, &test->later);
}

static void consume(pk_exchange *exchange, size_t length)
{
    of(exchange)->consumed += length;
}

static void start(pk_exchange *exchange, unsigned http_status, const pk_field *fields, size_t count)
{
    pk_test_exchange *test = of(exchange);
    if (test->cancelled || test->reset)
        return;
    assert(test->http_status == 0 && "a response starts once");
    test->http_status = http_status;
    test->fields = copy_fields(test, fields, count);
    test->field_count = count;
}

static bool write_body(pk_exchange *exchange, pk_buffer *body_take)
{
    pk_test_exchange *test = of(exchange);
    size_t length = body_take ? pk_buffer_length(body_take) : 0;
    if (length > 0 && !test->lost && !test->cancelled && !test->reset) {
        assert(!test->finished && "a finished response takes no bytes");
        if (pk_buffer_append(test->body, body_take->start, length) < 0) {
            test->lost = true;
            tell_later(test);
        }
        test->room = length < test->room ? test->room - length : 0;
    }
    pk_buffer_unref(body_take);
    test->wants_room = test->room == 0;
    return !test->wants_room;
}

static void finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    pk_test_exchange *test = of(exchange);
    if (test->lost || test->cancelled || test->reset)
        return;
    assert(!test->finished && "a response ends once");
    test->trailers = copy_fields(test, trailers, count);
    test->trailer_count = count;
    test->finished = true;
    tell_later(test);
}

static void reply_strict(pk_exchange *exchange, const pk_reply *reply)
{
    start(exchange, reply->http_status, reply->fields, reply->field_count);
    if (reply->body)
        (void) write_body(exchange, reply->body);
    finish(exchange, reply->trailers, reply->trailer_count);
}

static void reset(pk_exchange *exchange, pk_reset why)
{
    of(exchange)->reset = true;
    tell_later(of(exchange));
}

static void hold(pk_exchange *exchange, size_t bytes)
{
}

static const pk_exchange_ops operations = {
    .consume = consume,
    .reply_strict = reply_strict,
    .start = start,
    .write = write_body,
    .finish = finish,
    .reset = reset,
    .hold = hold,
};

/* ---- Events: what the test does ---- */

static void close_exchange(pk_test_exchange *test)
{
    if (test->closed)
        return;
    test->closed = true;
    test->exchange.events->on_closed(&test->exchange);
}

/* The client goes, and the handler hears of it. */
static void go_away(pk_test_exchange *test)
{
    static const pk_status gone = {
        PK_CANCELLED, {(const uint8_t *) "the client has cancelled the call", 33}, {NULL, 0}};
    if (test->closed || test->cancelled)
        return;
    test->cancelled = true;
    if (test->exchange.events->on_cancelled)
        test->exchange.events->on_cancelled(&test->exchange, &gone);
    close_exchange(test);
}

static void run_later(pk_ready *ready)
{
    pk_test_exchange *test =
        (pk_test_exchange *) ((char *) ready - offsetof(pk_test_exchange, later));
    test->later_queued = false;
    if (test->finished || test->reset)
        close_exchange(test);
    else if (test->lost)
        go_away(test);
}

/* A request's fields: pseudo fields first, then content-type, then the test's own. */
static bool copy_head(pk_test_exchange *test, const pk_test_request *request)
{
    size_t count = 5;
    for (const char *const *field = request->fields; field && *field; field += 2)
        count++;
    pk_field *fields = pk_arena_try(&test->arena, count * sizeof *fields);
    if (!fields)
        return false;
    const char *const fixed[] = {":method",
                                 request->method ? request->method : "POST",
                                 ":scheme",
                                 "http",
                                 ":path",
                                 request->path,
                                 "te",
                                 "trailers",
                                 request->content_type ? "content-type" : NULL,
                                 request->content_type,
                                 NULL};
    size_t added = 0;
    for (int pass = 0; pass < 2; pass++) {
        const char *const *field = pass == 0 ? fixed : request->fields;
        for (; field && *field; field += 2) {
            pk_slice name = {(const uint8_t *) field[0], strlen(field[0])};
            pk_slice value = {(const uint8_t *) field[1], strlen(field[1])};
            pk_field_name known = pk_field_lookup(name);
            fields[added] = (pk_field){.name = copy_text(&test->arena, name),
                                       .value = copy_text(&test->arena, value),
                                       .known = (uint8_t) known};
            if (known != PK_FIELD_OTHER && test->head.first[known] == 0)
                test->head.first[known] = (uint16_t) (added + 1);
            else if (known != PK_FIELD_OTHER)
                test->head.repeated |= 1u << known;
            added++;
        }
    }
    test->head.fields = fields;
    test->head.count = added;
    return !test->arena.exhausted;
}

pk_test_exchange *pk_test_exchange_new(pk_router *router, const pk_test_request *request)
{
    pk_loop *loop = router->loop;
    pk_test_exchange *test = pk_memory_get(&loop->memory, sizeof *test);
    if (!test)
        return NULL;
    *test = (pk_test_exchange){
        .exchange = {.ops = &operations, .loop = loop, .peer = &in_process},
        .later = {.run = run_later, .scope = &loop->scope},
        .room = SIZE_MAX,
        .request_ended = request->ended,
    };
    pk_arena_init(&test->arena, &loop->memory, 0);
    test->body = pk_buffer_get(&loop->buffers);
    if (!test->body || !copy_head(test, request)) {
        test->closed = true;
        return pk_test_exchange_free(test);
    }
    pk_buffer_rewind_for_append(test->body, 0);
    pk_acceptor acceptor = pk_router_acceptor(router);
    acceptor.accept(acceptor.self, &test->exchange, &test->head, request->ended);
    pk_loop_end_turn(loop);
    return test;
}

void pk_test_exchange_send(pk_test_exchange *test, const void *bytes, size_t length)
{
    assert(!test->request_ended && "the request has ended");
    const pk_exchange_events *events = test->exchange.events;
    if (!test->closed && events->on_data && length > 0)
        events->on_data(&test->exchange, bytes, length, NULL);
    pk_loop_end_turn(test->exchange.loop);
}

void pk_test_exchange_end(pk_test_exchange *test)
{
    assert(!test->request_ended && "a request ends once");
    test->request_ended = true;
    if (!test->closed && test->exchange.events->on_end)
        test->exchange.events->on_end(&test->exchange, NULL);
    pk_loop_end_turn(test->exchange.loop);
}

void pk_test_exchange_cancel(pk_test_exchange *test)
{
    go_away(test);
    pk_loop_end_turn(test->exchange.loop);
}

void pk_test_exchange_set_room(pk_test_exchange *test, size_t bytes)
{
    test->room = bytes;
    if (bytes > 0 && test->wants_room && !test->closed) {
        test->wants_room = false;
        if (test->exchange.events->on_room)
            test->exchange.events->on_room(&test->exchange);
    }
    pk_loop_end_turn(test->exchange.loop);
}

pk_test_exchange *pk_test_exchange_free(pk_test_exchange *test)
{
    if (!test)
        return NULL;
    pk_loop *loop = test->exchange.loop;
    if (!test->closed)
        pk_test_exchange_cancel(test);
    pk_loop_end_turn(loop);
    pk_buffer_unref(test->body);
    pk_arena_done(&test->arena);
    pk_memory_put(&loop->memory, test, sizeof *test);
    return NULL;
}

/* ---- What came back ---- */

unsigned pk_test_exchange_http_status(const pk_test_exchange *test)
{
    return test->http_status;
}

static const char *find_field(const pk_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].name.length == strlen(name) &&
            memcmp(fields[i].name.bytes, name, fields[i].name.length) == 0)
            return (const char *) fields[i].value.bytes;
    }
    return NULL;
}

const char *pk_test_exchange_field(const pk_test_exchange *test, const char *name)
{
    const char *value = find_field(test->fields, test->field_count, name);
    return value ? value : find_field(test->trailers, test->trailer_count, name);
}

pk_slice pk_test_exchange_body(const pk_test_exchange *test)
{
    return (pk_slice){test->body->start, pk_buffer_length(test->body)};
}

bool pk_test_exchange_finished(const pk_test_exchange *test)
{
    return test->finished;
}

bool pk_test_exchange_was_reset(const pk_test_exchange *test)
{
    return test->reset;
}

size_t pk_test_exchange_consumed(const pk_test_exchange *test)
{
    return test->consumed;
}
