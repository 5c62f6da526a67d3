/*
 * The client's side of streaming calls: the reader and writer of stream.h over a call that the
 * program makes. Its program pulls at its own pace: the status that the server sent is kept until
 * all messages before it were read.
 */
#include "core/status.h"
#include "handlers/client_chain.h"
#include "handlers/reply.h"
#include "handlers/streaming/stream.h"

/* ---- The end ---- */

static void settle_wait(struct pk_stream_wait *wait, const pk_status *status)
{
    if (pk_stream_is_awaited(wait)) {
        if (status->code == PK_OK)
            pk_stream_settle(wait, pk_done(NULL));
        else
            pk_stream_settle(wait, pk_failed_with(status));
    }
    pk_stream_forget(wait);
}

/* A write that is pending will find no room any more. */
static void close_writer(pk_client_call *client)
{
    settle_wait(&client->call.stream->out.wait, &client->call.end_status);
}

static void stream_ended(pk_client_call *client)
{
    settle_wait(&client->call.stream->in.wait, &client->status);
    close_writer(client);
    pk_reader_close(&client->call.stream->in);
}

static void reply_ended(pk_client_call *client)
{
    close_writer(client);
    pk_reply_settle(client);
}

pk_future pk_stream_outcome(pk_call *call)
{
    pk_client_call *client = call->client;
    if (pk_call_is_open(call)) {
        pk_status status = client->status;
        if (call->scope.arena.exhausted)
            status = pk_status_no_memory;
        pk_client_end(client, &status);
    }
    if (PK_UNLIKELY(pk_call_is_open(call)))
        return (pk_future){.state = PK_FUTURE_PENDING}; /* interceptors have the last word */
    return client->status.code == PK_OK ? pk_done(NULL) : pk_failed_with(&client->status);
}

/* ---- What the exchange tells ---- */

static void data_came(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    pk_call *call = &pk_client_of(exchange)->call;
    if (PK_LIKELY(pk_call_is_open(call)))
        pk_reader_data(&call->stream->in, bytes, length);
    else
        exchange->ops->consume(exchange, length);
}

static void response_ended(pk_exchange *exchange, const pk_head *trailers)
{
    pk_client_call *client = pk_client_of(exchange);
    pk_call *call = &client->call;
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return;
    pk_status status = pk_client_outcome(client, trailers);
    pk_client_over(client, &status);
    close_writer(client);
    pk_reader_end(&call->stream->in);
}

static void room_came(pk_exchange *exchange)
{
    pk_writer_room(&pk_client_of(exchange)->call.stream->out);
}

static void closed(pk_exchange *exchange)
{
    pk_call *call = &pk_client_of(exchange)->call;
    pk_reader *in = &call->stream->in;
    if (in->owed > 0)
        exchange->ops->consume(exchange, in->owed);
    in->owed = 0;
    pk_client_on_closed(exchange);
}

static void has_room(pk_client_call *client)
{
    pk_writer_room(&client->call.stream->out);
}

/* ---- Reader and writer of a call without memory ---- */

static struct pk_call no_call = {
    .state = PK_CALL_ENDED,
    .path = "",
    .end_status = {PK_RESOURCE_EXHAUSTED, {(const uint8_t *) "out of memory", 13}, {NULL, 0}},
};
static struct pk_reader no_reader = {.call = &no_call};
static struct pk_writer no_writer = {.call = &no_call};

/* ---- Stubs ---- */

/* A call with reader and writer; NULL without memory. */
static pk_client_call *open_call(pk_channel *channel, const pk_method *method,
                                 const pk_client_style *style, const pk_call_opts *opts)
{
    pk_client_call *client = pk_client_call_new(channel, method, style, opts);
    if (!client)
        return NULL;
    pk_call *call = &client->call;
    call->stream = pk_arena_get(&call->scope.arena, sizeof *call->stream);
    pk_reader_open(&call->stream->in, call, method->reply);
    pk_writer_open(&call->stream->out, call, method->request);
    call->stream->out.started = true; /* the channel sends the head */
    client->keeps_fields = true;
    return client;
}

static const pk_exchange_events stream_events = {
    .on_head = pk_client_on_head,
    .on_data = data_came,
    .on_end = response_ended,
    .on_room = room_came,
    .on_cancelled = pk_client_on_cancelled,
    .on_closed = closed,
};

static const pk_client_style stream_style = {
    .events = &stream_events,
    .body_kind = PK_BODY_RESPONSE,
    .room = has_room,
    .ended = stream_ended,
    .wire_ended = close_writer,
};

/* With a parent they live as long as that. */
static pk_reader *lend_reader(pk_client_call *client)
{
    if (!client->has_parent)
        pk_scope_pin(&client->call.scope);
    return &client->call.stream->in;
}

static pk_writer *lend_writer(pk_client_call *client)
{
    if (!client->has_parent)
        pk_scope_pin(&client->call.scope);
    return &client->call.stream->out;
}

pk_reader *pk_call_server_streaming(pk_channel *channel, const pk_method *method,
                                    const void *request, const pk_call_opts *opts)
{
    pk_client_call *client = open_call(channel, method, &stream_style, opts);
    if (PK_UNLIKELY(!client))
        return &no_reader;
    pk_reader *reader = lend_reader(client);
    if (PK_UNLIKELY(channel->interceptions != NULL) && pk_client_chain_new(client, request)) {
        pk_client_chain_stream(client);
        return reader;
    }
    pk_client_send_only(client, request);
    pk_client_start(client);
    return reader;
}

pk_reader *pk_call_bidi_streaming(pk_channel *channel, const pk_method *method, pk_writer **ret_out,
                                  const pk_call_opts *opts)
{
    pk_client_call *client = open_call(channel, method, &stream_style, opts);
    *ret_out = client ? lend_writer(client) : &no_writer;
    if (PK_UNLIKELY(!client))
        return &no_reader;
    pk_reader *reader = lend_reader(client);
    if (PK_UNLIKELY(channel->interceptions != NULL) && pk_client_chain_new(client, NULL))
        pk_client_chain_stream(client);
    else
        pk_client_start(client);
    return reader;
}

pk_future pk_call_client_streaming(pk_channel *channel, const pk_method *method,
                                   pk_writer **ret_out, const pk_call_opts *opts)
{
    static const pk_exchange_events events = {
        .on_head = pk_client_on_head,
        .on_data = pk_reply_data,
        .on_end = pk_reply_end,
        .on_room = room_came,
        .on_cancelled = pk_client_on_cancelled,
        .on_closed = pk_client_on_closed,
    };
    static const pk_client_style style = {
        .events = &events,
        .body_kind = PK_BODY_RESPONSE | PK_BODY_ONE,
        .room = has_room,
        .ended = reply_ended,
        .wire_ended = close_writer,
    };
    pk_client_call *client = open_call(channel, method, &style, opts);
    *ret_out = client ? lend_writer(client) : &no_writer;
    if (PK_UNLIKELY(!client))
        return pk_promise_future(NULL);
    if (PK_UNLIKELY(channel->interceptions != NULL) && pk_client_chain_new(client, NULL))
        return pk_client_chain_reply(client);
    pk_future future = pk_reply_future(client);
    pk_client_start(client);
    return future;
}

/* ---- Raw calls ---- */

/* What pekoe itself knows of compression is not told. */
static void set_encodings(pk_client_call *client, const pk_encodings *encodings)
{
    static const pk_compressor_set none;
    static const pk_slice identity = PK_SLICE("identity");
    pk_call *call = &client->call;
    call->encoding.compressors = &none;
    call->encoding.compressor = NULL;
    int r = pk_stream_add_encodings(
        &call->headers,
        &(pk_encodings){encodings ? encodings->message : (pk_slice){NULL, 0},
                        encodings && encodings->accepted.length > 0 ? encodings->accepted
                                                                    : identity});
    if (r < 0)
        pk_client_spoil(client, r == PK_ERR_NOMEM
                                    ? &pk_status_no_memory
                                    : &PK_STATUS(PK_INTERNAL, "encodings that may not be sent"));
}

pk_reader *pk_call_raw(pk_channel *channel, const char *path, const pk_encodings *encodings,
                       pk_writer **ret_out, const pk_call_opts *opts)
{
    static const pk_client_style raw_style = {
        .events = &stream_events,
        .body_kind = PK_BODY_RESPONSE | PK_BODY_RAW,
        .room = has_room,
        .ended = stream_ended,
        .wire_ended = close_writer,
    };
    static const pk_method any = {.path = "a raw call"};
    pk_client_call *client = open_call(channel, &any, &raw_style, opts);
    *ret_out = client ? lend_writer(client) : &no_writer;
    if (PK_UNLIKELY(!client))
        return &no_reader;
    pk_reader *reader = lend_reader(client);
    pk_client_set_path(client, PK_BIDI_STREAMING, path);
    set_encodings(client, encodings);
    if (PK_UNLIKELY(channel->interceptions != NULL) && pk_client_chain_new(client, NULL))
        pk_client_chain_stream(client);
    else
        pk_client_start(client);
    return reader;
}

/* ---- The program's ends ---- */

void pk_writer_end(pk_writer *writer)
{
    pk_call *call = writer->call;
    if (call->client && pk_call_is_open(call))
        pk_client_end_writing(call->client);
}

static void unref(pk_call *call, bool given_up)
{
    static const pk_status why = {
        PK_CANCELLED, PK_SLICE("the program has given the stream up"), {NULL, 0}};
    if (!call->client)
        return;
    if (given_up && pk_call_is_open(call)) {
        call->abandoned = true;
        pk_client_end(call->client, &why);
    }
    if (!call->client->has_parent)
        pk_scope_unpin(&call->scope);
}

pk_reader *pk_reader_unref(pk_reader *reader)
{
    if (reader)
        unref(reader->call, true);
    return NULL;
}

pk_writer *pk_writer_unref(pk_writer *writer)
{
    if (writer)
        unref(writer->call, writer->call->client && !writer->call->client->half_closed);
    return NULL;
}
