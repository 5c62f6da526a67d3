/* The client's side of a call: options, opening, response head, end. See client_call.h. */
#include "handlers/client_call.h"

#include <pekoe/raw.h>

#include "core/status.h"
#include "handlers/client_chain.h"

#include <string.h>

#define NANOSECONDS_PER_MS UINT64_C(1000000)

static const pk_status ended_normally = {PK_CANCELLED, PK_SLICE("the call has ended"), {NULL, 0}};
static const pk_status deadline_passed = {
    PK_DEADLINE_EXCEEDED, PK_SLICE("deadline exceeded"), {NULL, 0}};

static void release_call(pk_scope *scope);

/* ---- The end ---- */

/* Nothing of the wire is left: the memory goes when nobody pins it. */
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

/* Keeps a reference. False without memory. */
static bool keep(pk_client_call *client, pk_buffer *buffer)
{
    if (client->written_count == client->written_capacity) {
        size_t capacity = 4 * client->written_capacity;
        struct pk_written *more = pk_arena_try(&client->call.scope.arena, capacity * sizeof *more);
        if (!more)
            return false;
        memcpy(more, client->written, client->written_count * sizeof *more);
        client->written = more;
        client->written_capacity = capacity;
    }
    client->written[client->written_count++] =
        (struct pk_written){pk_buffer_ref(buffer), buffer->start};
    client->written_bytes += pk_buffer_length(buffer);
    client->channel->buffered += pk_buffer_length(buffer);
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

/* Sends all that was written so far on the exchange that is there now. */
static void send_written(pk_client_call *client)
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
    if (PK_UNLIKELY(call->children != NULL))
        pk_client_end_children(call, &call->end_status);
    pk_call_run_end_entries(call);
    if (PK_UNLIKELY(client->chain != NULL))
        pk_client_chain_end(client);
    pk_client_release_if_over(client);
}

/* Of pk_call: the deadline, pk_call_cancel, a stream that breaks off. */
static void fail(pk_call *call, const pk_status *status)
{
    pk_client_end(call->client, status);
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

static void adopt(pk_client_call *client, pk_call *parent)
{
    client->has_parent = true;
    client->next_child = parent->children;
    parent->children = client;
    pk_scope_pin(&client->call.scope);
    if (!pk_call_is_open(parent))
        pk_client_spoil(client, &parent->end_status);
}

/* ---- Opening ---- */

/* The head with one more field: how often the call was tried before. */
static bool add_repetitions(pk_client_call *client, unsigned earlier, pk_opening_head *head)
{
    pk_arena *arena = &client->call.scope.arena;
    pk_field *fields = pk_arena_try(arena, (head->count + 1) * sizeof *fields);
    uint8_t *digit = pk_arena_try(arena, 1);
    if (!fields || !digit) {
        pk_client_end(client, &pk_status_no_memory);
        return false;
    }
    memcpy(fields, head->fields, head->count * sizeof *fields);
    *digit = (uint8_t) ('0' + earlier); /* at most 4 */
    fields[head->count] =
        (pk_field){.name = PK_SLICE("grpc-previous-rpc-attempts"), .value = {digit, 1}};
    *head = (pk_opening_head){fields, head->count + 1};
    return true;
}

/* The head of an attempt that comes after `earlier` others. False: the call has ended instead. */
bool pk_client_make_head(pk_client_call *client, unsigned earlier, pk_opening_head *ret_head)
{
    pk_call *call = &client->call;
    const pk_protocol *protocol = call->protocol;
    pk_request_target target = {
        .scheme = client->channel->scheme,
        .authority = client->authority,
        .path = {(const uint8_t *) call->path, call->method->path_length},
        .user_agent = client->channel->user_agent,
        .timeout = pk_call_time_left(call),
    };
    if (PK_UNLIKELY(target.timeout == 0)) {
        pk_client_end(client, &deadline_passed);
        return false;
    }
    pk_fields fields = protocol->request_head(protocol, &call->encoding, &target, &call->headers);
    if (PK_UNLIKELY(!fields.items || call->scope.arena.exhausted)) {
        pk_client_end(client, &pk_status_no_memory);
        return false;
    }
    *ret_head = (pk_opening_head){fields.items, fields.count};
    return earlier == 0 || add_repetitions(client, earlier, ret_head);
}

static bool make_head(pk_opening *opening, pk_opening_head *ret_head)
{
    pk_client_call *client =
        (pk_client_call *) ((char *) opening - offsetof(pk_client_call, opening));
    return pk_client_make_head(client, client->repetitions, ret_head);
}

static void opened(pk_opening *opening, pk_exchange *exchange)
{
    pk_client_call *client = exchange->user;
    client->call.exchange = exchange;
    send_written(client);
}

static void not_opened(pk_opening *opening, const pk_status *why)
{
    pk_client_call *client =
        (pk_client_call *) ((char *) opening - offsetof(pk_client_call, opening));
    if (!pk_client_repeats(client, why, NULL))
        pk_client_end(client, why);
}

/* ---- Options ---- */

static void add_fields(pk_client_call *client, const pk_call_opts *opts)
{
    pk_metadata *headers = &client->call.headers;
    int r = 0;
    for (const char *const *field = opts->fields; field && *field && r == 0; field += 2)
        r = pk_metadata_add(headers, field[0], field[1]);
    pk_metadata_place place = PK_METADATA_START;
    pk_slice key, value;
    if (r == 0 && opts->metadata && !opts->metadata->received)
        r = pk_metadata_forward(headers, opts->metadata, NULL, NULL);
    while (r == 0 && opts->metadata && opts->metadata->received &&
           pk_metadata_next(opts->metadata, NULL, &place, &key, &value)) {
        char *name = pk_arena_copy(&client->call.scope.arena, key.bytes, key.length);
        if (key.length > 4 && memcmp(key.bytes + key.length - 4, "-bin", 4) == 0)
            r = pk_metadata_add_binary(headers, name, value.bytes, value.length);
        else
            r = pk_metadata_add_slice(headers, (pk_slice){(const uint8_t *) name, key.length},
                                      value);
    }
    if (r == PK_ERR_NOMEM)
        pk_client_spoil(client, &pk_status_no_memory);
    else if (r < 0)
        pk_client_spoil(client, &PK_STATUS(PK_INTERNAL, "metadata that may not be sent"));
}

static void set_compression(pk_client_call *client, const char *name)
{
    pk_encoding *encoding = &client->call.encoding;
    encoding->compressor = pk_compressor_set_find(encoding->compressors,
                                                  (pk_slice){(const uint8_t *) name, strlen(name)});
    if (!encoding->compressor && strcmp(name, "identity") != 0)
        pk_client_spoil(client, &PK_STATUS(PK_INTERNAL, "the compression is not known"));
}

static uint64_t in_nanoseconds(uint64_t milliseconds)
{
    return milliseconds < UINT64_MAX / NANOSECONDS_PER_MS ? milliseconds * NANOSECONDS_PER_MS
                                                          : UINT64_MAX;
}

/* The earliest of three ends. */
static void set_deadline(pk_client_call *client, const pk_call_opts *opts)
{
    pk_call *call = &client->call;
    uint64_t left = UINT64_MAX;
    if (opts->timeout_ms > 0)
        left = in_nanoseconds(opts->timeout_ms);
    if (opts->deadline > 0) {
        uint64_t now = pk_loop_now(call->loop);
        uint64_t until = opts->deadline > now ? opts->deadline - now : 0;
        left = until < left ? until : left;
    }
    if (opts->parent) {
        uint64_t until = pk_call_time_left(opts->parent);
        left = until < left ? until : left;
    }
    if (left == 0)
        pk_client_spoil(client, &deadline_passed);
    else if (left != UINT64_MAX && !pk_call_set_deadline(call, left))
        pk_client_spoil(client, &pk_status_no_memory);
}

static void apply(pk_client_call *client, const pk_call_opts *opts)
{
    client->opening.wait_for_ready = opts->wait_for_ready;
    if (opts->fields || opts->metadata)
        add_fields(client, opts);
    if (opts->compression)
        set_compression(client, opts->compression);
    if (opts->authority) {
        size_t length = strlen(opts->authority);
        const char *copy = pk_arena_copy(&client->call.scope.arena, opts->authority, length);
        client->authority = (pk_slice){(const uint8_t *) copy, length};
    }
    if (opts->credentials) {
        client->credentials_left = 2;
        client->credentials = pk_arena_try(&client->call.scope.arena, sizeof *client->credentials);
        if (client->credentials)
            memcpy((void *) (uintptr_t) client->credentials, opts->credentials,
                   sizeof *client->credentials);
        else
            pk_client_spoil(client, &pk_status_no_memory);
    }
    set_deadline(client, opts);
    if (opts->parent)
        adopt(client, opts->parent);
    if (opts->call) {
        client->keeps_fields = true;
        pk_scope_pin(&client->call.scope);
        *opts->call = &client->call;
    }
}

/* ---- Life ---- */

void pk_client_spoil(pk_client_call *client, const pk_status *status)
{
    if (client->status.code == PK_OK)
        client->status = pk_status_copy(&client->call.scope.arena, status);
}

pk_client_call *pk_client_call_new(pk_channel *channel, const pk_method *method,
                                   const pk_client_style *style, const pk_call_opts *opts_in)
{
    pk_loop *loop = channel->loop;
    pk_assert_owner(loop);
    pk_call_opts opts = {.size = sizeof opts};
    if (opts_in)
        memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    if (opts.call)
        *opts.call = NULL;
    pk_marshalling *marshalling = pk_loop_marshalling(loop);
    pk_client_call *client = marshalling ? pk_memory_get(&loop->memory, sizeof *client) : NULL;
    if (!client)
        return NULL;
    pk_encoding encoding = {
        .marshalling = marshalling,
        .codec = method->request ? &pk_codec_proto : &pk_codec_bytes,
        .compressors = &pk_compressor_set_default,
        .compress_min_bytes = channel->compress_min_bytes,
        .send_limit = channel->send_limit,
    };
    pk_call *call = &client->call;
    pk_arena_init(&call->scope.arena, &loop->memory, 0);
    pk_call_init(call, loop, &pk_protocol_grpc, &encoding);
    call->client = client;
    call->method = method;
    call->path = method->path;
    call->scope.label = method->path;
    call->fail = fail;
    call->head = NULL;
    call->metadata = pk_metadata_over(NULL, 0, &call->scope.arena);
    pk_body_reader_init(&call->body, &pk_protocol_grpc, marshalling, &call->scope.arena, NULL,
                        channel->receive_limit ? channel->receive_limit : PK_RECEIVE_LIMIT_DEFAULT,
                        style->body_kind);
    client->style = style;
    client->opening = (pk_opening){.events = style->events,
                                   .user = client,
                                   .head = make_head,
                                   .opened = opened,
                                   .failed = not_opened};
    client->channel = channel;
    client->authority = channel->authority;
    client->status = (pk_status){.code = PK_OK};
    client->received_trailers = pk_metadata_over(NULL, 0, &call->scope.arena);
    client->head_wait = NULL;
    client->headed = false;
    client->reply = NULL;
    client->message = NULL;
    client->written = &client->first_written;
    client->written_count = 0;
    client->written_capacity = 1;
    client->written_bytes = 0;
    client->keeps_written = true;
    client->half_closed = false;
    client->over = false;
    client->chain = NULL;
    client->credentials_left = channel->call_credentials ? 2 : 0;
    client->credentials = NULL;
    client->policy = NULL;
    client->hedging = NULL;
    client->hedges = NULL;
    client->repetitions = 0;
    client->pauses = 0;
    client->repeating = false;
    client->pause = (pk_timer){.fire = pk_client_repeat};
    client->replays = 0;
    client->replay = false;
    client->keeps_fields = false;
    client->released = false;
    client->has_parent = false;
    client->next_child = NULL;
    apply(client, &opts);
    if (PK_UNLIKELY(pk_channel_has_policies(channel)) && method->path[0] == '/')
        pk_client_configure(client, method->path);
    return client;
}

void pk_client_start(pk_client_call *client)
{
    static const pk_status freed = {PK_UNAVAILABLE, PK_SLICE("the channel was freed"), {NULL, 0}};
    if (client->channel->freed)
        pk_client_spoil(client, &freed);
    if (PK_UNLIKELY(client->status.code != PK_OK)) {
        pk_status why = client->status;
        pk_client_end(client, &why);
        return;
    }
    if (PK_UNLIKELY(client->credentials_left > 0))
        pk_client_ask_credentials(client);
    else if (PK_UNLIKELY(client->hedging != NULL))
        pk_hedges_start(client);
    else
        client->channel->ops->open(client->channel, &client->opening);
}

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

/* The head of a response was all of it. */
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
