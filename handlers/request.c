/* The one message of a request: see request.h. */
#include "handlers/request.h"

/* Decodes the message into the call. A second one never gets here: the body reader refuses it. */
static inline void decode(pk_call *call, const pk_body_message *message)
{
    call->request_compressed = message->compressed;
    pk_buffer *kept;
    pk_status status;
    if (PK_UNLIKELY(pk_body_unmarshal(&call->encoding, call->method->request, message,
                                      &call->scope.arena, &call->request, &kept, &status) < 0))
        pk_call_answer_status(call, &status);
    else if (PK_UNLIKELY(kept != NULL))
        pk_call_keep(call, kept);
}

/* A message that comes in pieces, or compressed, or as base64. */
static __attribute__((noinline)) void gather(pk_call *call, const uint8_t *bytes, size_t length,
                                             pk_buffer *holder)
{
    pk_body_message message;
    int got = pk_body_reader_feed(&call->body, bytes, length, holder);
    while (got >= 0 && (got = pk_body_reader_next(&call->body, &message)) > 0) {
        decode(call, &message);
        if (PK_UNLIKELY(call->state != PK_CALL_RECEIVING))
            return;
    }
    if (PK_UNLIKELY(got < 0))
        pk_call_answer_status(call, &call->body.status);
    else if (PK_UNLIKELY(!call->request))
        call->exchange->ops->hold(call->exchange, pk_body_reader_held(&call->body));
}

void pk_request_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    pk_call *call = exchange->user;
    /* The body is gathered or decoded before this returns: the peer may send on. */
    exchange->ops->consume(exchange, length);
    if (PK_UNLIKELY(call->state != PK_CALL_RECEIVING))
        return; /* answered already; the rest is unwanted */
    pk_body_message message;
    if (PK_LIKELY(pk_body_reader_take_whole(&call->body, bytes, length, holder, &message)))
        decode(call, &message);
    else
        gather(call, bytes, length, holder);
}

void pk_request_end(pk_exchange *exchange, const pk_head *trailers)
{
    pk_call *call = exchange->user;
    if (PK_UNLIKELY(call->state != PK_CALL_RECEIVING))
        return;
    if (PK_UNLIKELY(pk_body_reader_end(&call->body) < 0))
        pk_call_answer_status(call, &call->body.status);
    else
        call->dispatch(call);
}

void pk_request_gather(pk_call *call, bool ended, void (*dispatch)(pk_call *call))
{
    call->dispatch = dispatch;
    call->body.kind |= PK_BODY_ONE;
    if (PK_UNLIKELY(ended))
        pk_request_end(call->exchange, NULL);
}
