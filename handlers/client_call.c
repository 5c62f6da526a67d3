/*
 * The client's side of a call once it is there: what is written, the response, the end. Its start is
 * client_start.c's. See client_call.h.
 */
#include "handlers/client_call.h"

#include <pekoe/raw.h>

#include "core/status.h"
#include "handlers/client_chain.h"

#include <string.h>

static const pk_status ended_normally = {PK_CANCELLED, PK_SLICE("the call has ended"), {NULL, 0}};

static void release_call(pk_scope *scope);

/* ---- Memory ---- */

void pk_client_release_if_over(pk_client_call *client)
{
    pk_call *call = &client->call;
    if (pk_call_is_open(call) || call->exchange || client->released)
        return;
    if (PK_UNLIKELY(client->hedges != NULL) && pk_hedges_open(client))
        return;
    client->released = true;
    pk_scope_release(&call->scope, release_call);
}

static void release_call(pk_scope *scope)
{
    pk_client_call *client = (pk_client_call *) scope;
    pk_call_run_releases(&client->call);
    if (client->call.children)
        pk_client_release_children(&client->call);
    pk_memory *memory = scope->arena.memory;
    pk_arena_end(&scope->arena);
    pk_memory_put(memory, client, sizeof *client);
}

/* One pk_call_cancelled. */
struct token {
    pk_call *call;
    pk_promise *promise;
};

static void settle_token(void *arg)
{
    struct token *token = arg;
    if (token->call->abandoned)
        (void) pk_promise_done(token->promise, NULL);
    else
        (void) pk_promise_fail_with(token->promise, &ended_normally);
}

pk_future pk_client_cancelled(pk_client_call *client, pk_promise *promise)
{
    struct token *token = pk_arena_try(&client->call.scope.arena, sizeof *token);
    if (token)
        *token = (struct token){&client->call, promise};
    pk_future future = pk_promise_future(promise);
    if (!token || pk_call_on_end(&client->call, settle_token, token) < 0)
        (void) pk_promise_fail_with(promise, &pk_status_no_memory);
    return future;
}

/* ---- Waiting for the head ---- */

static void settle_head(pk_client_call *client, const pk_metadata *headers)
{
    if (PK_UNLIKELY(client->head_wait != NULL))
        (void) pk_promise_done(pk_steal(&client->head_wait), headers);
}

pk_future pk_call_received_head(pk_call *call)
{
    pk_client_call *client = call->client;
    if (!client || client->head_wait)
        return pk_failed(call, PK_INTERNAL, "the response's head is waited for once");
    if (client->headed)
        return pk_done(&call->metadata);
    if (!pk_call_is_open(call))
        return pk_done(NULL);
    pk_promise *promise = pk_promise_new(&call->scope);
    client->head_wait = promise;
    return pk_promise_future(promise);
}

/* ---- What was written ---- */

static void forget_written(pk_client_call *client)
{
    for (size_t i = 0; i < client->written_count; i++)
        pk_buffer_unref(client->written[i].buffer);
    client->written_count = 0;
    client->keeps_written = false;
    if (client->written_bytes > 0) /* otherwise the channel may be gone */
        client->channel->buffered -= client->written_bytes;
    client->written_bytes = 0;
}

/* Whether more is kept than a call, or all of the channel, may keep. */
static bool keeps_too_much(const pk_client_call *client, size_t more)
{
    const pk_channel *channel = client->channel;
    return client->written_bytes + more > channel->call_buffer_bytes ||
           channel->buffered + more > channel->buffer_bytes;
}

/* Room for one more buffer. */
static bool reserve_written(pk_client_call *client)
{
    if (client->written_count < client->written_capacity)
        return true;
    size_t capacity = 4 * client->written_capacity;
    struct pk_written *more = pk_arena_try(&client->call.scope.arena, capacity * sizeof *more);
    if (!more)
        return false;
    memcpy(more, client->written, client->written_count * sizeof *more);
    client->written = more;
    client->written_capacity = capacity;
    return true;
}

/* Keeps a reference, or a copy behind the last one that is kept. False without memory. */
static bool keep(pk_client_call *client, pk_buffer *buffer)
{
    if (!reserve_written(client))
        return false;
    size_t length = pk_buffer_length(buffer), count = client->written_count;
    pk_buffer *kept = pk_buffer_ref(buffer);
    if (count > 0)
        kept = pk_buffer_queue(client->written[count - 1].buffer, kept);
    if (kept)
        client->written[client->written_count++] = (struct pk_written){kept, kept->start};
    client->written_bytes += length;
    client->channel->buffered += length;
    return true;
}

bool pk_client_write(pk_client_call *client, pk_buffer *body_take)
{
    pk_exchange *exchange = client->call.exchange;
    if (PK_UNLIKELY(pk_client_is_hedged(client)) &&
        keeps_too_much(client, pk_buffer_length(body_take))) {
        exchange = pk_hedges_settle_for_one(client);
        if (exchange)
            forget_written(client);
    }
    if (!exchange || client->replay || client->repeating) {
        if (PK_UNLIKELY(client->hedges != NULL))
            pk_hedges_write(client, body_take);
        bool kept = client->keeps_written && keep(client, body_take);
        pk_buffer_unref(body_take);
        if (!kept)
            pk_client_end(client, &pk_status_no_memory);
        /* Attempts side by side have room until what is kept is too much. */
        if (PK_UNLIKELY(client->hedges != NULL) && pk_hedges_open(client))
            return kept;
        return kept && client->written_bytes < PK_CLIENT_EARLY_BYTES;
    }
    if (client->keeps_written &&
        (keeps_too_much(client, pk_buffer_length(body_take)) || !keep(client, body_take)))
        forget_written(client);
    return exchange->ops->write(exchange, body_take);
}

void pk_client_end_writing(pk_client_call *client)
{
    pk_exchange *exchange = client->call.exchange;
    if (client->half_closed)
        return;
    client->half_closed = true;
    if (exchange && !client->replay && !client->repeating)
        exchange->ops->finish(exchange, NULL, 0);
    else if (PK_UNLIKELY(pk_client_is_hedged(client)))
        pk_hedges_end_writing(client);
}

void pk_client_send_only(pk_client_call *client, const void *request)
{
    pk_call *call = &client->call;
    pk_buffer *buffer;
    pk_status status;
    client->half_closed = true;
    if (PK_UNLIKELY(!request)) {
        pk_client_spoil(client, &PK_STATUS(PK_INTERNAL, "a NULL message was to be sent"));
    } else if (PK_UNLIKELY(call->protocol->message(call->protocol, &call->encoding,
                                                   call->method->request, request, &buffer,
                                                   &status) < 0)) {
        pk_client_spoil(client, &status);
    } else {
        (void) keep(client, buffer); /* the first one has its place */
        pk_buffer_unref(buffer);
    }
}

void pk_client_send_written(pk_client_call *client)
{
    pk_exchange *exchange = client->call.exchange;
    bool room = true;
    for (size_t i = 0; i < client->written_count; i++) {
        struct pk_written *one = &client->written[i];
        one->buffer->start = one->start;
        room = exchange->ops->write(exchange, pk_buffer_ref(one->buffer));
    }
    if (client->half_closed)
        exchange->ops->finish(exchange, NULL, 0);
    else if (room && client->style->room)
        client->style->room(client);
    if (PK_UNLIKELY(keeps_too_much(client, 0)))
        forget_written(client);
}

/* ---- The end ---- */

void pk_client_over(pk_client_call *client, const pk_status *status)
{
    pk_call *call = &client->call;
    client->over = true; /* from here on the channel may be gone */
    pk_client_count_outcome(client, status->code);
    client->status = pk_status_copy(&call->scope.arena, status);
    call->end_status = status->code != PK_OK ? client->status : ended_normally;
    if (PK_UNLIKELY(client->chain != NULL))
        pk_client_chain_answered(client);
    pk_timer_stop(call->loop, &call->deadline);
    forget_written(client);
}

/* What comes on an exchange that was let go. */
static void ignore_head(pk_exchange *exchange, const pk_head *head, bool ended)
{
}

static void ignore_data(pk_exchange *exchange, const uint8_t *bytes, size_t length,
                        pk_buffer *holder)
{
    exchange->ops->consume(exchange, length);
}

static void left_exchange_closed(pk_exchange *exchange)
{
    pk_client_of(exchange)->style->events->on_closed(exchange);
}

/* Nothing more is sent or received. Inline: each call ends here once. */
static inline __attribute__((always_inline)) void leave_wire(pk_client_call *client, pk_code code)
{
    static const pk_exchange_events only_the_end = {
        .on_head = ignore_head, .on_data = ignore_data, .on_closed = left_exchange_closed};
    pk_call *call = &client->call;
    pk_timer_stop(call->loop, &client->pause);
    client->replay = false;
    forget_written(client);
    if (PK_UNLIKELY(client->resting))
        pk_client_wake(client);
    if (PK_UNLIKELY(client->hedges != NULL))
        pk_hedges_end(client);
    if (PK_UNLIKELY(client->repeating)) {
        client->repeating = false;
        pk_channel_unref(client->channel);
    } else if (!client->over) {
        pk_client_count_outcome(client, code);
    }
    if (PK_UNLIKELY(client->hedges != NULL))
        pk_hedges_let_go(client);
    if (client->opening.waiting)
        client->channel->ops->withdraw(client->channel, &client->opening);
    if (!call->exchange)
        return;
    if (PK_UNLIKELY(client->chain != NULL))
        call->exchange->events = &only_the_end; /* the call is open still */
    call->exchange->ops->reset(call->exchange, PK_RESET_CANCEL);
}

void pk_client_leave_wire(pk_client_call *client, pk_code code)
{
    leave_wire(client, code);
}

void pk_client_close_writing(pk_client_call *client, const pk_status *status)
{
    client->over = true;
    client->half_closed = true;
    client->status = *status;
    client->call.end_status = status->code != PK_OK ? *status : ended_normally;
    settle_head(client, NULL);
    if (client->style->wire_ended)
        client->style->wire_ended(client);
}

static void part(pk_ready *ready)
{
    pk_client_call *client =
        (pk_client_call *) ((char *) ready - offsetof(pk_client_call, parting));
    pk_scope_unpin(&client->call.scope);
}

/*
 * Clean-up functions, of the calls that were made for this one too, may give back all that the
 * program has of it, in the middle of one of its own reads: the memory stays until the loop is back
 * at its queue.
 */
static __attribute__((noinline)) void run_end_entries(pk_client_call *client)
{
    pk_call *call = &client->call;
    pk_scope_pin(&call->scope);
    pk_client_end_children(call, &call->end_status);
    pk_call_run_end_entries(call);
    client->parting = (pk_ready){.run = part, .scope = &call->loop->scope};
    pk_loop_ready(call->loop, &client->parting);
}

void pk_client_end(pk_client_call *client, const pk_status *status)
{
    pk_call *call = &client->call;
    if (!pk_call_is_open(call))
        return;
    if (PK_UNLIKELY(client->chain != NULL) && pk_client_chain_goes_on(client, status))
        return;
    pk_call_change_state(call, PK_CALL_ENDED);
    pk_timer_stop(call->loop, &call->deadline);
    client->status =
        status ? pk_status_copy(&call->scope.arena, status) : (pk_status){.code = PK_OK};
    call->end_status = client->status.code != PK_OK ? client->status : ended_normally;
    if (PK_LIKELY(client->chain == NULL) || client->chain->state != PK_CLIENT_CHAIN_OVER)
        leave_wire(client, client->status.code);
    settle_head(client, NULL);
    client->style->ended(client);
    pk_body_reader_done(&call->body);
    if (PK_UNLIKELY(call->children != NULL || call->end_entries != NULL))
        run_end_entries(client);
    if (PK_UNLIKELY(client->chain != NULL))
        pk_client_chain_end(client);
    pk_client_release_if_over(client);
}

/* Whether it has no exchange because the channel has none to give. */
static bool waits_for_channel(const pk_client_call *client)
{
    return client->opening.waiting || (client->hedges && pk_hedges_wait(client));
}

void pk_client_fail(pk_call *call, const pk_status *status)
{
    pk_client_call *client = call->client;
    char wait[600];
    pk_status told;
    if (status->code == PK_DEADLINE_EXCEEDED && waits_for_channel(client)) {
        client->channel->ops->tell_wait(client->channel, wait, sizeof wait);
        told = pk_status_print(&call->scope.arena, PK_DEADLINE_EXCEEDED,
                               "deadline exceeded while waiting for %s", wait);
        status = &told;
    }
    pk_client_end(client, status);
}

/* ---- Parents ---- */

void pk_client_end_children(pk_call *parent, const pk_status *status)
{
    for (pk_client_call *child = parent->children; child; child = child->next_child) {
        if (pk_call_is_open(&child->call)) {
            child->call.abandoned = true;
            pk_client_end(child, status);
        }
    }
}

void pk_client_release_children(pk_call *parent)
{
    pk_client_call *child = pk_steal(&parent->children);
    while (child) {
        pk_client_call *next = child->next_child;
        pk_scope_unpin(&child->call.scope);
        child = next;
    }
}

/* ---- What the program asks ---- */

pk_call *pk_call_unref(pk_call *call)
{
    if (call)
        pk_scope_unpin(&call->scope);
    return NULL;
}

const pk_status *pk_call_status(const pk_call *call)
{
    return call->client && !pk_call_is_open(call) ? &call->client->status : NULL;
}

pk_metadata *pk_call_edit_received_trailers(pk_call *call)
{
    pk_client_call *client = call->client;
    return client && pk_metadata_unlock(&client->received_trailers) ? &client->received_trailers
                                                                    : NULL;
}

const pk_metadata *pk_call_received_trailers(pk_call *call)
{
    static const pk_metadata none = {.received = true};
    return call->client ? &call->client->received_trailers : &none;
}

/* ---- The response ---- */

/* Fields as metadata; copied where they must outlive the exchange. */
static pk_metadata fields_of(pk_client_call *client, const pk_head *head)
{
    pk_arena *arena = &client->call.scope.arena;
    if (!client->keeps_fields)
        return pk_metadata_over(head->fields, head->count, arena);
    pk_field *copies = pk_arena_try(arena, (head->count + 1) * sizeof *copies);
    if (!copies)
        return pk_metadata_over(NULL, 0, arena);
    for (size_t i = 0; i < head->count; i++) {
        const pk_field *field = &head->fields[i];
        copies[i] = *field;
        copies[i].name.bytes =
            (const uint8_t *) pk_arena_copy(arena, field->name.bytes, field->name.length);
        copies[i].value.bytes =
            (const uint8_t *) pk_arena_copy(arena, field->value.bytes, field->value.length);
    }
    return pk_metadata_over(copies, head->count, arena);
}

void pk_client_end_with(pk_client_call *client, const pk_status *status, const pk_head *trailers)
{
    client->received_trailers = fields_of(client, trailers);
    if (status->code == PK_OK && pk_body_reader_end(&client->call.body) < 0)
        status = &client->call.body.status; /* no reply came */
    pk_client_end(client, status);
}

void pk_client_on_head(pk_exchange *exchange, const pk_head *head, bool ended)
{
    pk_client_call *client = pk_client_of(exchange);
    pk_call *call = &client->call;
    if (!pk_call_is_open(call))
        return;
    if (client->repeating)
        return;
    call->head = head;
    const pk_protocol *protocol = call->protocol;
    pk_status status;
    if (protocol->response_head(protocol, head, ended, &call->scope.arena, &status)) {
        if (!pk_client_repeats(client, &status, head))
            pk_client_end_with(client, &status, head);
        return;
    }
    /* The server works on the request: it is not sent again. */
    forget_written(client);
    call->metadata = fields_of(client, head);
    client->headed = true;
    settle_head(client, &call->metadata);
    const pk_compressor *incoming;
    if (call->body.kind & PK_BODY_RAW)
        pk_body_reader_set_raw(&call->body, head);
    else if (pk_negotiate_response(call->encoding.compressors, head, &call->scope.arena, &incoming,
                                   &status) < 0)
        pk_client_end(client, &status);
    else
        pk_body_reader_set_incoming(&call->body, incoming);
}

pk_status pk_client_outcome(pk_client_call *client, const pk_head *trailers)
{
    pk_call *call = &client->call;
    const pk_protocol *protocol = call->protocol;
    pk_status status;
    if (trailers)
        client->received_trailers = fields_of(client, trailers);
    protocol->response_end(protocol, call->head, trailers, &call->body, &call->scope.arena,
                           &status);
    return status;
}

void pk_client_on_cancelled(pk_exchange *exchange, const pk_status *why)
{
    pk_client_call *client = pk_client_of(exchange);
    if (exchange->unprocessed && client->keeps_written &&
        (exchange->unsent || client->replays == 0) && pk_call_is_open(&client->call)) {
        client->replays += !exchange->unsent;
        client->replay = true;
        return;
    }
    if (!client->repeating && !pk_client_repeats(client, why, NULL))
        pk_client_end(client, why);
}

void pk_client_on_closed(pk_exchange *exchange)
{
    static const pk_status lost = {PK_UNAVAILABLE, PK_SLICE("the connection was lost"), {NULL, 0}};
    pk_client_call *client = pk_client_of(exchange);
    pk_call *call = &client->call;
    call->exchange = NULL;
    call->head = NULL;
    if (!client->keeps_fields) {
        call->metadata = pk_metadata_over(NULL, 0, &call->scope.arena);
        client->received_trailers = call->metadata;
    }
    if (client->replay) {
        client->replay = false;
        pk_client_start(client);
    } else if (client->repeating) {
        if (client->pause.place == 0)
            pk_client_repeat(&client->pause);
    } else if (pk_call_is_open(call) && !client->over) {
        if (!pk_client_repeats(client, &lost, NULL))
            pk_client_end(client, &lost);
    } else {
        pk_client_release_if_over(client);
    }
}
