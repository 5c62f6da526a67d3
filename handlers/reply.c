/* The one reply of a client's call: see reply.h. */
#include "handlers/reply.h"

#include "core/status.h"

void pk_reply_settle(pk_client_call *client)
{
    pk_promise *reply = pk_steal(&client->reply);
    if (client->status.code == PK_OK)
        (void) pk_promise_done(reply, client->message);
    else
        (void) pk_promise_fail_with(reply, &client->status);
}

void pk_reply_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
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
        pk_buffer *kept;
        if (PK_UNLIKELY(pk_body_unmarshal(&call->encoding, call->method->reply, &message,
                                          &call->scope.arena, &client->message, &kept,
                                          &status) < 0)) {
            pk_client_end(client, &status);
            return;
        }
        if (PK_UNLIKELY(kept != NULL))
            pk_call_keep(call, kept);
    }
    if (PK_UNLIKELY(got < 0))
        pk_client_end(client, &call->body.status);
}

void pk_reply_end(pk_exchange *exchange, const pk_head *trailers)
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

void pk_reply_not_wanted(void *arg)
{
    static const pk_status why = {
        PK_CANCELLED, PK_SLICE("nobody waits for the reply any more"), {NULL, 0}};
    pk_client_call *client = arg;
    client->reply = NULL; /* its reference goes with this call */
    client->call.abandoned = true;
    pk_client_end(client, &why);
}

pk_future pk_reply_future(pk_client_call *client)
{
    client->reply = pk_promise_new(&client->call.scope);
    if (PK_UNLIKELY(!client->reply))
        pk_client_spoil(client, &pk_status_no_memory);
    else
        pk_promise_on_abandon(client->reply, pk_reply_not_wanted, client);
    return pk_promise_future(client->reply);
}
