/*
 * The start of a client's call: its options, the request's head, the opening that it hands to the
 * channel. Called by stubs and generic calls through client_call.h; what follows is client_call.c's.
 */
#include "core/status.h"
#include "handlers/client_call.h"

#include <string.h>

#define NANOSECONDS_PER_MS UINT64_C(1000000)

static const pk_status deadline_passed = {
    PK_DEADLINE_EXCEEDED, PK_SLICE("deadline exceeded"), {NULL, 0}};

/* ---- Rest ---- */

void pk_client_rest(pk_client_call *client)
{
    pk_opening *opening = &client->opening, **first = &client->channel->resting;
    opening->previous = NULL;
    opening->next = *first;
    if (*first)
        (*first)->previous = opening;
    *first = opening;
    client->resting = true;
}

void pk_client_wake(pk_client_call *client)
{
    if (!client->resting)
        return;
    client->resting = false;
    pk_opening *opening = &client->opening;
    if (opening->previous)
        opening->previous->next = opening->next;
    else
        client->channel->resting = opening->next;
    if (opening->next)
        opening->next->previous = opening->previous;
    opening->next = opening->previous = NULL;
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
    pk_client_send_written(client);
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

static void adopt(pk_client_call *client, pk_call *parent)
{
    client->has_parent = true;
    client->next_child = parent->children;
    parent->children = client;
    pk_scope_pin(&client->call.scope);
    if (!pk_call_is_open(parent))
        pk_client_spoil(client, &parent->end_status);
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
    call->fail = pk_client_fail;
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
    client->resting = false;
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

/*
 * Whether it may stand in :path (RFC 9113 section 8.3.1, RFC 3986). Proxies pass on what a caller has
 * sent, and a server may end the connection, with the calls of others, for a head that is malformed.
 */
static bool is_path(const char *path)
{
    if (*path != '/')
        return false;
    for (; *path; path++)
        if (*path <= ' ' || *path >= 0x7f || *path == '#')
            return false;
    return true;
}

void pk_client_set_path(pk_client_call *client, pk_style style, const char *path)
{
    pk_call *call = &client->call;
    pk_method *method = pk_arena_zeroed(&call->scope.arena, sizeof *method);
    method->style = style;
    method->path_length = strlen(path);
    method->path = call->path = pk_arena_copy(&call->scope.arena, path, method->path_length);
    call->method = method;
    pk_client_configure(client, path);
    if (!is_path(path))
        pk_client_spoil(
            client, &PK_STATUS(PK_INTERNAL, "the path of a call is not /package.Service/Method"));
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
