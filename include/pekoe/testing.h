/*
 * For tests of programs that use pekoe: a router's calls without a socket, and a clock that moves
 * only when the test says so.
 *
 * A pk_test_exchange is one HTTP request and its response in memory, driven step by step: the head
 * goes to the router when it is made, body bytes and the end follow as the test says, and what the
 * handler answered can be looked at in between. Each step ends with a turn of the loop: queued
 * steps run, timers and descriptors are not waited for.
 */
#ifndef PEKOE_TESTING_H
#define PEKOE_TESTING_H

#include <pekoe/channel.h>
#include <pekoe/service.h>

PK_BEGIN_DECLS

/* ---- One exchange ---- */

typedef struct pk_test_exchange pk_test_exchange;

typedef struct pk_test_request {
    const char *path;         /* "/demo.Greeter/SayHello" */
    const char *method;       /* NULL: POST */
    const char *content_type; /* "application/grpc", ...; NULL leaves the field out */
    /* Further fields, name and value in turn, ended by NULL; may be NULL itself. */
    const char *const *fields;
    bool ended; /* the request has no body */
} pk_test_request;

/* Hands the request's head to the router. Everything is copied. NULL when memory runs out. */
PK_API PK_NODISCARD pk_test_exchange *pk_test_exchange_new(pk_router *router,
                                                           const pk_test_request *request);

/* More of the request's body; borrowed until it returns. */
PK_API void pk_test_exchange_send(pk_test_exchange *exchange, const void *bytes, size_t length);

/* The end of the request's body. */
PK_API void pk_test_exchange_end(pk_test_exchange *exchange);

/* The client goes away: the handler sees CANCELLED. */
PK_API void pk_test_exchange_cancel(pk_test_exchange *exchange);

/*
 * Response bytes that the client takes before it reads no more; SIZE_MAX (the default): any number.
 * Adding room lets waiting writers go on.
 */
PK_API void pk_test_exchange_set_room(pk_test_exchange *exchange, size_t bytes);

/* Cancels what still goes on, and frees. Takes NULL; returns NULL. */
PK_API pk_test_exchange *pk_test_exchange_free(pk_test_exchange *exchange);

/* ---- What came back ---- */

/* 0 while there is no response yet. */
PK_API unsigned pk_test_exchange_http_status(const pk_test_exchange *exchange);

/* The value of a field of the head, or of the trailers where the head has none; NULL: absent. */
PK_API const char *pk_test_exchange_field(const pk_test_exchange *exchange, const char *name);

/* Body bytes so far; readable until the next step. */
PK_API pk_slice pk_test_exchange_body(const pk_test_exchange *exchange);

/* Whether the response is complete. */
PK_API bool pk_test_exchange_finished(const pk_test_exchange *exchange);

/* Whether the handler's side broke the exchange off (RST_STREAM). */
PK_API bool pk_test_exchange_was_reset(const pk_test_exchange *exchange);

/* Request body bytes whose flow control credit was given back. */
PK_API size_t pk_test_exchange_consumed(const pk_test_exchange *exchange);

/* ---- A client without a socket ------------------------------------------------------------ */

/*
 * A channel to a router of the same loop: calls go from stub to handler and back in memory, with
 * flow control, deadlines and cancels as over a network. It is ready from the start. The router
 * must outlive it. Freed by pk_channel_free. PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_channel_new_in_process(pk_channel **ret_channel, pk_router *router);

/* ---- The clock --------------------------------------------------------------------------- */

/*
 * Stops the loop's clock where it is: pk_loop_now stands still, and no timer (deadline, pk_sleep,
 * pk_timeout) fires by itself any more. Timers that run already keep their times. It cannot be
 * thawed. Timers do not keep pk_loop_run from returning then.
 */
PK_API void pk_test_clock_freeze(pk_loop *loop);

/*
 * Moves a frozen clock by that many milliseconds and fires what falls due on the way: each timer at
 * its own time, and what it causes (steps, writes, timers started anew) before the next one. When
 * it returns the turn has ended. Not from inside a step. 0 fires what is due already.
 */
PK_API void pk_test_clock_advance(pk_loop *loop, uint64_t milliseconds);

PK_END_DECLS

#endif
