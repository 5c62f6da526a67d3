/*
 * The client's side of a unary call, top to bottom: the message is encoded, the channel asked for
 * an exchange, the one reply decoded into the call, and the future settled by the trailers.
 */
#include "core/status.h"
#include "handlers/client_call.h"

static void send(pk_client_call *client)
{
    pk_exchange *exchange = client->call.exchange;
    client->body->start = client->body_start;
    (void) exchange->ops->write(exchange, pk_buffer_ref(client->body));
    exchange->ops->finish(exchange, NULL, 0);
}

static void settle(pk_client_call *client)
{
    pk_promise *reply = pk_steal(&client->reply);
    if (client->status.code == PK_OK)
        (void) pk_promise_done(reply, client->message);
    else
        (void) pk_promise_fail_with(reply, &client->status);
}

static void on_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    pk_client_call *client = pk_client_of(exchange);
    pk_call *call = &client->call;
    exchange->ops->consume(exchange, length);
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return;
    int got = pk_body_reader_feed(&call->body, bytes, length, holder);
    pk_body_message message;
    while (got >= 0 && (got = pk_body_reader_next(&call->body, &message)) > 0) {
        pk_status status;
        call->request_compressed = message.compressed;
        if (PK_UNLIKELY(pk_unmarshal(call->encoding.codec, call->encoding.backup,
                                     call->method->reply, message.bytes, &call->scope.arena,
                                     &client->message, &status) < 0)) {
            pk_client_end(client, &status);
            return;
        }
    }
    if (PK_UNLIKELY(got < 0))
        pk_client_end(client, &call->body.status);
}

static void on_end(pk_exchange *exchange, const pk_head *trailers)
{
    pk_client_call *client = pk_client_of(exchange);
    pk_call *call = &client->call;
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return;
    pk_status status = pk_client_outcome(client, trailers);
    if (PK_LIKELY(status.code == PK_OK) && PK_UNLIKELY(pk_body_reader_end(&call->body) < 0))
        status = call->body.status;
    if (PK_UNLIKELY(status.code == PK_OK && call->scope.arena.exhausted))
        status = pk_status_no_memory;
    pk_client_end(client, &status);
}

/* Nobody waits for the reply any more. */
static void not_wanted(void *arg)
{
    static const pk_status why = {
        PK_CANCELLED, PK_SLICE("nobody waits for the reply any more"), {NULL, 0}};
    pk_client_call *client = arg;
    client->reply = NULL; /* its reference goes with this call */
    client->call.abandoned = true;
    pk_client_end(client, &why);
}

pk_future pk_call_unary(pk_channel *channel, const pk_method *method, const void *request,
                        const pk_call_opts *opts)
{
    static const pk_exchange_events events = {
        .on_head = pk_client_on_head,
        .on_data = on_data,
        .on_end = on_end,
        .on_cancelled = pk_client_on_cancelled,
        .on_closed = pk_client_on_closed,
    };
    static const pk_client_style style = {
        .events = &events,
        .body_kind = PK_BODY_RESPONSE | PK_BODY_ONE,
        .opened = send,
        .ended = settle,
    };
    pk_client_call *client = pk_client_call_new(channel, method, &style, opts);
    if (!client)
        return pk_promise_future(NULL);
    pk_call *call = &client->call;
    pk_status status;
    if (PK_UNLIKELY(!request)) {
        pk_client_spoil(client, &PK_STATUS(PK_INTERNAL, "a NULL message was to be sent"));
    } else if (PK_UNLIKELY(call->protocol->message(call->protocol, &call->encoding, method->request,
                                                   request, &client->body, &status) < 0)) {
        client->body = NULL;
        pk_client_spoil(client, &status);
    } else {
        client->body_start = client->body->start;
    }
    client->reply = pk_promise_new(&call->scope);
    if (PK_UNLIKELY(!client->reply))
        pk_client_spoil(client, &pk_status_no_memory);
    pk_future future = pk_promise_future(client->reply);
    if (client->reply)
        pk_promise_on_abandon(client->reply, not_wanted, client);
    pk_client_start(client);
    return future;
}
