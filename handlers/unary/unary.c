/*
 * The server's side of a unary call, top to bottom.
 *
 * The request is gathered and decoded into the call (request.c), and when the peer has ended its
 * side the handler is asked (dispatch). A future that is done is answered at once, on this stack;
 * one that is pending is answered later by the same function.
 *
 * Knows no protocol and no transport: bytes come through the body reader, the response goes out
 * through pk_call_answer.
 */
#include "handlers/request.h"

/* The handler's outcome becomes the response. */
static void answer(pk_call *call, pk_future outcome)
{
    pk_outcome result = {
        .type = call->method->reply, .headers = &call->headers, .trailers = &call->trailers};
    if (PK_LIKELY(outcome.state == PK_FUTURE_DONE)) {
        result.message = outcome.pointer;
        /* A generic handler replies with what pk_call_encode gave it: no other copy is needed. */
        if (PK_UNLIKELY(outcome.pointer == &call->packed))
            result.packed = call->kept;
    } else {
        result.status = pk_call_map_failure(call, outcome.pointer);
    }
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
        pk_await(&call->scope, pk_call_waiting(call, outcome), answer_later, call);
}

void pk_serve_unary(pk_call *call, bool ended)
{
    static const pk_exchange_events events = {
        .on_data = pk_request_data,
        .on_end = pk_request_end,
        .on_cancelled = pk_call_on_cancelled,
        .on_closed = pk_call_on_closed,
    };
    call->exchange->events = &events;
    pk_request_gather(call, ended, dispatch);
}
