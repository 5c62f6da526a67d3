/*
 * What the tests of the client's side share: a connection and the host that would be a channel, calls
 * that count their events, and a loop whose allocations can be made to fail. One of each per test
 * program.
 */
#ifndef PEKOE_TESTS_WIRE_CLIENT_FIXTURE_H
#define PEKOE_TESTS_WIRE_CLIENT_FIXTURE_H

#include "../support/wire_peer.h"
#include "transport/connection.h"
#include "transport/field_rules.h"

#include <criterion/criterion.h>
#include <ev.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pk_loop *loop;
static pk_connection_host host;
static pk_connection *connection;
static bool ready, leaving;
static unsigned gone;

static inline void on_turned(pk_connection_host *of, pk_connection *turned)
{
    ready = turned->exchanges.session.greeted;
    leaving = turned->exchanges.session.peer_goes_away;
}

static inline void on_gone(pk_connection_host *of, pk_connection *ended)
{
    connection = NULL;
    gone++;
}

static long allocations_left = -1; /* then all fail; -1: none does */

static inline void *failing_resize(void *context, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return realloc(block, size);
}

static inline void set_up(void)
{
    const pk_allocator failing = {failing_resize, NULL};
    cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = &failing)), 0);
    gone = 0;
    ready = leaving = false;
    connection = NULL;
    host = (pk_connection_host){.loop = loop,
                                .client = true,
                                .limits = {.stream_window = 1u << 20,
                                           .connection_window = 8u << 20,
                                           .header_bytes = 16384,
                                           .resets = 1000,
                                           .glitches = 1000,
                                           .queued_frames = 1000,
                                           .send_budget = 1u << 20},
                                .budget = 16u << 20,
                                .bytes.limit = 64u << 20,
                                .header_ticks = 5,
                                .gone = on_gone,
                                .turned = on_turned};
}

static inline void tear_down(void)
{
    if (connection)
        pk_connection_free(connection, "the test is over");
    pk_buffer_unref(host.read_buffer);
    pk_loop_end_turn(loop);
    cr_expect_eq(loop->buffers.lent, 0);
    pk_loop_free(loop);
}

static inline void turns(int count)
{
    while (count-- > 0) {
        ev_run(pk_loop_ev(loop), EVRUN_NOWAIT);
        pk_loop_end_turn(loop);
    }
}

/* ---- A call ---- */

struct call {
    pk_exchange *exchange;
    char path[32];
    pk_field fields[4];
    unsigned heads, status, ends, trailers, rooms, cancels, closes;
    bool head_ended, unprocessed;
    bool unread; /* nothing of the response is consumed */
    pk_code code;
    char why[64];
    size_t bytes;
};

static inline void call_head(pk_exchange *exchange, const pk_head *head, bool end)
{
    struct call *call = exchange->user;
    call->heads++;
    call->head_ended = end;
    call->status = pk_field_status(pk_head_value(head, PK_FIELD_STATUS));
}

static inline void call_data(pk_exchange *exchange, const uint8_t *bytes, size_t length,
                             pk_buffer *holder)
{
    struct call *call = exchange->user;
    call->bytes += length;
    if (!call->unread)
        exchange->ops->consume(exchange, length);
}

static inline void call_end(pk_exchange *exchange, const pk_head *trailers)
{
    struct call *call = exchange->user;
    call->ends++;
    call->trailers += trailers ? (unsigned) trailers->count : 0;
}

static inline void call_room(pk_exchange *exchange)
{
    ((struct call *) exchange->user)->rooms++;
}

static inline void call_cancelled(pk_exchange *exchange, const pk_status *why)
{
    struct call *call = exchange->user;
    call->cancels++;
    call->code = why->code;
    snprintf(call->why, sizeof call->why, "%.*s", (int) why->message.length,
             (const char *) why->message.bytes);
    call->unprocessed = exchange->unprocessed;
}

static inline void call_closed(pk_exchange *exchange)
{
    struct call *call = exchange->user;
    call->closes++;
    call->exchange = NULL;
}

static const pk_exchange_events call_events = {.on_head = call_head,
                                               .on_data = call_data,
                                               .on_end = call_end,
                                               .on_room = call_room,
                                               .on_cancelled = call_cancelled,
                                               .on_closed = call_closed};

static inline int try_open(struct call *call, const char *path, bool body)
{
    *call = (struct call){.fields = {{.name = PK_SLICE(":method"), .value = PK_SLICE("POST")},
                                     {.name = PK_SLICE(":scheme"), .value = PK_SLICE("http")},
                                     {.name = PK_SLICE(":path")},
                                     {.name = PK_SLICE(":authority"), .value = PK_SLICE("test")}}};
    strncpy(call->path, path, sizeof call->path - 1);
    call->fields[2].value = (pk_slice){(const uint8_t *) call->path, strlen(call->path)};
    return pk_http2_exchange_open(&connection->exchanges, call->fields, 4, body, &call_events, call,
                                  &call->exchange);
}

static inline void open_call(struct call *call, const char *path, bool body)
{
    cr_assert_eq(try_open(call, path, body), 0);
}

static inline bool write_bytes(struct call *call, size_t length)
{
    pk_buffer *buffer = pk_buffer_get(&loop->buffers);
    cr_assert_not_null(buffer);
    pk_buffer_rewind_for_append(buffer, 0);
    cr_assert_eq(pk_buffer_room_after(buffer, length), 0);
    memset(buffer->end, 'x', length);
    buffer->end += length;
    return call->exchange->ops->write(call->exchange, buffer);
}

static inline void finish(struct call *call)
{
    call->exchange->ops->finish(call->exchange, NULL, 0);
}

#endif
