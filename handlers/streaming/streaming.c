/*
 * The server's side of streaming calls, top to bottom: when the handler is asked, what reaches its
 * reader and writer, and how its future ends the call.
 *
 * A server-streaming handler is asked when its one request is complete, as a unary one is; handlers
 * of the other two kinds at the request's head, with a reader over what follows. Client-streaming
 * answers with one message, and so as a whole, as unary does.
 */
#include "core/status.h"
#include "handlers/request.h"
#include "handlers/streaming/stream.h"

/* ---- A pending read or write ---- */

bool pk_stream_waits(const struct pk_stream_wait *wait)
{
    return wait->promise &&
           (wait->promise->state == PK_PROMISE_OPEN || wait->promise->state == PK_PROMISE_QUEUED);
}

/* A new promise in the place of the spare one. NULL without memory. */
static __attribute__((noinline)) pk_promise *new_promise(pk_call *call, struct pk_stream_wait *wait)
{
    if (wait->spare)
        pk_promise_unref(wait->spare);
    return pk_promise_new(&call->scope);
}

pk_future pk_stream_wait(pk_call *call, struct pk_stream_wait *wait)
{
    if (PK_UNLIKELY(wait->producer != NULL)) /* the last one was given up */
        pk_promise_unref(pk_steal(&wait->producer));
    pk_promise *promise = wait->spare;
    if (PK_UNLIKELY(!promise || !pk_promise_renew(promise)))
        promise = new_promise(call, wait);
    wait->spare = wait->promise;
    wait->producer = wait->promise = promise ? pk_promise_ref(promise) : NULL;
    return pk_promise_future(promise);
}

void pk_stream_settle(struct pk_stream_wait *wait, pk_future outcome)
{
    pk_promise *producer = pk_steal(&wait->producer);
    if (PK_LIKELY(outcome.state == PK_FUTURE_DONE))
        (void) pk_promise_done(producer, outcome.pointer);
    else
        (void) pk_promise_fail_with(producer, outcome.pointer);
}

void pk_stream_forget(struct pk_stream_wait *wait)
{
    if (wait->producer)
        pk_promise_unref(pk_steal(&wait->producer));
    if (wait->promise)
        pk_promise_unref(pk_steal(&wait->promise));
    if (wait->spare)
        pk_promise_unref(pk_steal(&wait->spare));
}

/* ---- Life ---- */

bool pk_stream_open(pk_call *call)
{
    call->stream = pk_arena_try(&call->scope.arena, sizeof *call->stream);
    if (!call->stream)
        return false;
    pk_reader_open(&call->stream->in, call, call->method->request);
    pk_writer_open(&call->stream->out, call, call->method->reply);
    return true;
}

/* The call ends: its scope settles what is pending. */
static void close_stream(pk_call *call)
{
    pk_reader_close(&call->stream->in);
    pk_writer_close(&call->stream->out);
}

/* ---- The response's end ---- */

/* A response of which the head has gone ends with trailers. */
static void finish(pk_call *call, const pk_status *status)
{
    const pk_protocol *protocol = call->reply_protocol;
    pk_exchange *exchange = call->exchange;
    pk_protocol_end end;
    if (PK_UNLIKELY(call->scope.arena.exhausted))
        status = &pk_status_no_memory;
    protocol->end(protocol, &call->encoding, status, &call->trailers, &end);
    call->answered = true;
    if (end.body)
        (void) exchange->ops->write(exchange, end.body);
    exchange->ops->finish(exchange, end.trailers, end.trailer_count);
    pk_call_end(call, status);
}

/* Ends the call with a status (NULL: OK) as far as the response has come. */
static void end_stream(pk_call *call, const pk_status *status)
{
    if (!pk_call_is_open(call))
        return;
    if (call->stream->out.started)
        finish(call, status);
    else
        pk_call_answer_status(call, status);
    close_stream(call);
}

/* Client-streaming: the reply is the handler's value. */
static void answer_once(pk_call *call, const void *message)
{
    pk_outcome outcome = {.type = call->method->reply,
                          .message = message,
                          .headers = &call->headers,
                          .trailers = &call->trailers};
    pk_call_answer(call, &outcome);
    close_stream(call);
}

/* ---- The handler ---- */

static void handled(pk_future outcome, void *arg)
{
    pk_call *call = arg;
    if (PK_LIKELY(pk_call_is_open(call))) {
        if (PK_UNLIKELY(outcome.state == PK_FUTURE_FAILED))
            end_stream(call, pk_call_map_failure(call, outcome.pointer));
        else if (call->method->style == PK_CLIENT_STREAMING)
            answer_once(call, outcome.pointer);
        else
            end_stream(call, NULL);
    }
    pk_call_settled(call);
}

static void dispatch(pk_call *call)
{
    const pk_method *method = call->method;
    struct pk_stream *stream = call->stream;
    pk_call_handling(call);
    struct pk_current outer = pk_call_enter(call);
    pk_future outcome = method->invoke(call->impl, call->self, call, call->request,
                                       method->style == PK_SERVER_STREAMING ? NULL : &stream->in,
                                       method->style == PK_CLIENT_STREAMING ? NULL : &stream->out);
    pk_call_leave(outer);
    pk_await(&call->scope, pk_call_waiting(call, outcome), handled, call);
}

/* ---- What the exchange tells ---- */

static void data_came(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    pk_call *call = exchange->user;
    if (PK_LIKELY(pk_call_is_open(call)))
        pk_reader_data(&call->stream->in, bytes, length);
    else
        exchange->ops->consume(exchange, length);
}

static void request_ended(pk_exchange *exchange, const pk_head *trailers)
{
    pk_call *call = exchange->user;
    if (PK_LIKELY(pk_call_is_open(call)))
        pk_reader_end(&call->stream->in);
}

static void room_came(pk_exchange *exchange)
{
    pk_call *call = exchange->user;
    pk_writer_room(&call->stream->out);
}

static void cancelled(pk_exchange *exchange, const pk_status *why)
{
    pk_call *call = exchange->user;
    pk_call_on_cancelled(exchange, why);
    close_stream(call);
}

static void closed(pk_exchange *exchange)
{
    pk_call *call = exchange->user;
    close_stream(call);
    pk_call_on_closed(exchange);
}

void pk_serve_streaming(pk_call *call, bool ended)
{
    static const pk_exchange_events one_request = {
        .on_data = pk_request_data,
        .on_end = pk_request_end,
        .on_room = room_came,
        .on_cancelled = cancelled,
        .on_closed = closed,
    };
    static const pk_exchange_events requests = {
        .on_data = data_came,
        .on_end = request_ended,
        .on_room = room_came,
        .on_cancelled = cancelled,
        .on_closed = closed,
    };
    if (PK_UNLIKELY(!pk_stream_open(call))) {
        pk_call_answer_status(call, &pk_status_no_memory);
        return;
    }
    call->fail = end_stream;
    if (call->method->style == PK_SERVER_STREAMING) {
        call->exchange->events = &one_request;
        pk_request_gather(call, ended, dispatch);
        return;
    }
    call->exchange->events = &requests;
    call->stream->in.ended = ended;
    dispatch(call);
}
