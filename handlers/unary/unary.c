/*
 * The server's side of a unary call, top to bottom.
 *
 * The request's bytes arrive (receive), the one message is decoded into the call, and when the peer
 * has ended its side the handler is asked (dispatch). A future that is done is answered at once, on
 * this stack; one that is pending is answered later by the same function.
 *
 * Knows no protocol and no transport: bytes come through the body reader, the response goes out
 * through pk_call_answer.
 */
#include "core/status.h"
#include "handlers/call.h"

/* Ends the call with a failure of the request's body. */
static void refuse_body(pk_call *call)
{
    pk_call_answer_status(call, &call->body.status);
}

/* The handler's outcome becomes the response. */
static void answer(pk_call *call, pk_future outcome)
{
    pk_outcome result = {
        .type = call->method->reply, .headers = &call->headers, .trailers = &call->trailers};
    if (PK_LIKELY(outcome.state == PK_FUTURE_DONE))
        result.message = outcome.pointer;
    else
        result.status = pk_call_map_failure(call, outcome.pointer);
    pk_call_answer(call, &result);
    pk_call_settled(call);
}

static void answer_later(pk_future outcome, void *arg)
{
    answer(arg, outcome);
}

/* Asks the handler: the whole request is there. */
static void dispatch(pk_call *call)
{
    pk_call_handling(call);
    struct pk_current outer = pk_call_enter(call);
    pk_future outcome =
        call->method->invoke(call->impl, call->self, call, call->request, NULL, NULL);
    pk_call_leave(outer);
    if (PK_LIKELY(outcome.state != PK_FUTURE_PENDING))
        answer(call, outcome);
    else
        pk_await(&call->scope, outcome, answer_later, call);
}

/* Decodes the message into the call. A second one never gets here: the body reader refuses it. */
static void decode(pk_call *call, const pk_body_message *message)
{
    pk_status status;
    if (PK_UNLIKELY(pk_unmarshal(call->encoding.codec, call->encoding.backup, call->method->request,
                                 message->bytes, &call->scope.arena, &call->request, &status) < 0))
        pk_call_answer_status(call, &status);
}

/* More of the request's body. */
static void receive(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    pk_call *call = exchange->user;
    /* The body is gathered or decoded before this returns: the peer may send on. */
    exchange->ops->consume(exchange, length);
    if (PK_UNLIKELY(call->state != PK_CALL_RECEIVING))
        return; /* answered already; the rest is unwanted */
    int got = pk_body_reader_feed(&call->body, bytes, length, holder);
    pk_body_message message;
    while (got >= 0 && (got = pk_body_reader_next(&call->body, &message)) > 0) {
        decode(call, &message);
        if (PK_UNLIKELY(call->state != PK_CALL_RECEIVING))
            return;
    }
    if (PK_UNLIKELY(got < 0))
        refuse_body(call);
    else if (PK_UNLIKELY(!call->request))
        exchange->ops->hold(exchange, pk_body_reader_held(&call->body));
}

/* The peer has ended its side. */
static void request_ended(pk_exchange *exchange, const pk_head *trailers)
{
    pk_call *call = exchange->user;
    if (PK_UNLIKELY(call->state != PK_CALL_RECEIVING))
        return;
    if (PK_UNLIKELY(pk_body_reader_end(&call->body) < 0))
        refuse_body(call);
    else
        dispatch(call);
}

void pk_serve_unary(pk_call *call, bool ended)
{
    static const pk_exchange_events events = {
        .on_data = receive,
        .on_end = request_ended,
        .on_cancelled = pk_call_on_cancelled,
        .on_closed = pk_call_on_closed,
    };
    call->exchange->events = &events;
    call->body.kind |= PK_BODY_ONE;
    if (PK_UNLIKELY(ended))
        request_ended(call->exchange, NULL);
}
