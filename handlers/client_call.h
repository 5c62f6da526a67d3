/*
 * The client's side of a call: what all four styles share.
 *
 * A client's call is a pk_call, so that everything of call.h works with it, and what it needs
 * besides. Its scope is not cancelled when it ends: steps that the program hung on its futures run
 * in there and may go on. Instead the style settles its own futures. The memory goes once the
 * exchange has closed, the call has ended, and nobody pins the scope: promises with steps to run,
 * the program's pk_call, readers and writers, the parent.
 */
#ifndef PEKOE_HANDLERS_CLIENT_CALL_H
#define PEKOE_HANDLERS_CLIENT_CALL_H

#include <pekoe/channel.h>

#include "core/channel.h"
#include "handlers/call.h"

typedef struct pk_client_call pk_client_call;

/* What differs between the styles. */
typedef struct pk_client_style {
    const pk_exchange_events *events;
    unsigned body_kind; /* of the response */
    /* The exchange is there, perhaps again: sends what was written so far. */
    void (*opened)(pk_client_call *client);
    /* The call has ended with client->status: settles the futures. */
    void (*ended)(pk_client_call *client);
} pk_client_style;

struct pk_client_call {
    pk_call call; /* first */
    const pk_client_style *style;
    pk_opening opening;
    pk_channel *channel;
    pk_slice authority;
    pk_status status; /* once ended */
    pk_metadata received_trailers;
    pk_promise *reply;   /* the producer's end of the stub's future; NULL: settled, or none */
    const void *message; /* the reply, once decoded; in the call */
    /* What was written, for as long as it may have to be sent again. */
    pk_buffer *body;
    uint8_t *body_start;
    unsigned replays;  /* times that it was sent again */
    bool replay;       /* the exchange that closes is to be followed by another */
    bool keeps_fields; /* the program can ask for metadata after the exchange has closed */
    bool released;
    pk_client_call *next_child; /* of the parent, which holds a pin */
};

/*
 * A call for the method, its options applied. NULL without memory; then *opts->call is NULL. A call
 * that cannot be made (bad options) is there all the same: pk_client_start will end it with
 * client->status.
 */
pk_client_call *pk_client_call_new(pk_channel *channel, const pk_method *method,
                                   const pk_client_style *style, const pk_call_opts *opts);

/* Asks the channel for an exchange; the call may have ended when it returns. */
void pk_client_start(pk_client_call *client);

/* Ends the call: NULL is OK. What is open on the wire is reset. Nothing happens to an ended one. */
void pk_client_end(pk_client_call *client, const pk_status *status);

/* Marks a call as failed before it was started. */
void pk_client_spoil(pk_client_call *client, const pk_status *status);

/* The response's trailers tell how the call ends. */
pk_status pk_client_outcome(pk_client_call *client, const pk_head *trailers);

/* pk_call_cancelled of a client's call: has the promise settled by its end. */
pk_future pk_client_cancelled(pk_client_call *client, pk_promise *promise);

/* Events that all styles share. */
void pk_client_on_head(pk_exchange *exchange, const pk_head *head, bool ended);
void pk_client_on_cancelled(pk_exchange *exchange, const pk_status *why);
void pk_client_on_closed(pk_exchange *exchange);

static inline pk_client_call *pk_client_of(pk_exchange *exchange)
{
    return (pk_client_call *) exchange->user;
}

/* The calls that were made for `parent`: it ends, and its memory goes. */
void pk_client_end_children(pk_call *parent, const pk_status *status);
void pk_client_release_children(pk_call *parent);

#endif
