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
    /* What was written before the exchange was there has gone; NULL: nobody waits for that. */
    void (*room)(pk_client_call *client);
    /* The call has ended with client->status: settles the futures. */
    void (*ended)(pk_client_call *client);
    /* What was sent has ended, the call has not: nothing more can be written. NULL: nothing was. */
    void (*wire_ended)(pk_client_call *client);
} pk_client_style;

/* Messages that were written; the transport changes where their buffer starts. */
struct pk_written {
    pk_buffer *buffer;
    uint8_t *start;
};

/* Bytes that may be written before there is a connection. */
#define PK_CLIENT_EARLY_BYTES 65536u

struct pk_client_call {
    pk_call call; /* first */
    const pk_client_style *style;
    pk_opening opening;
    pk_channel *channel;
    pk_slice authority;
    pk_status status; /* once ended, or over on the wire */
    pk_metadata received_trailers;
    pk_promise *head_wait; /* the producer's end of pk_call_received_head; NULL: none waits */
    bool headed;           /* the response's head has come, and is not all of it */
    pk_promise *reply;     /* the producer's end of the stub's future; NULL: settled, or none */
    const void *message;   /* the reply, once decoded; in the call */
    /* What was written, for as long as it may have to be sent again. */
    struct pk_written *written; /* first_written, or in the call */
    struct pk_written first_written;
    size_t written_count, written_capacity, written_bytes;
    bool keeps_written;               /* it is all there */
    bool half_closed;                 /* nothing more will be written */
    bool over;                        /* the server has said all, and how the call ends */
    struct pk_client_chain *chain;    /* NULL: no interceptor sees it; client_chain.h */
    const pk_retry_policy *policy;    /* NULL: it is not tried again */
    const pk_hedging_policy *hedging; /* NULL: it is sent once; not with `policy` */
    struct pk_hedges *hedges;         /* once it was sent, by hedging.c; in the call */
    unsigned repetitions;             /* attempts before this one, by the policy */
    unsigned pauses;                  /* by the policy since the server named one */
    bool repeating;                   /* between two attempts */
    bool resting;                     /* see pk_client_rest */
    pk_timer pause;
    unsigned replays;  /* times that it was sent again */
    bool replay;       /* the exchange that closes is to be followed by another */
    bool keeps_fields; /* the program can ask for metadata after the exchange has closed */
    bool released;
    uint8_t credentials_left; /* the channel's, the call's own: 2; they are asked once */
    const pk_call_credentials *credentials; /* its own, in the call; NULL: none */
    bool has_parent;                        /* which keeps the memory */
    pk_client_call *next_child;             /* of the parent, which holds a pin */
    pk_ready parting;                       /* takes the pin of pk_client_end back */
};

/*
 * A call for the method, its options applied. NULL without memory; then *opts->call is NULL. A call
 * that cannot be made (bad options) is there all the same: pk_client_start will end it with
 * client->status.
 */
pk_client_call *pk_client_call_new(pk_channel *channel, const pk_method *method,
                                   const pk_client_style *style, const pk_call_opts *opts);

/*
 * Sends bytes, now or when there is an exchange; the reference passes. False: no room for more,
 * on_room or the style's `room` will come.
 */
bool pk_client_write(pk_client_call *client, pk_buffer *body_take);

/* Nothing more will be written. */
void pk_client_end_writing(pk_client_call *client);

/* Encodes and sends the one message of styles that send one; before pk_client_start. */
void pk_client_send_only(pk_client_call *client, const void *request);

/* Has the credentials of the channel and the call asked, and then pk_client_start go on. */
void pk_client_ask_credentials(pk_client_call *client);

/* Asks the channel for an exchange; the call may have ended when it returns. */
void pk_client_start(pk_client_call *client);

/*
 * Ends the call: NULL is OK. What is open on the wire is reset. Nothing happens to an ended one. Where
 * interceptors wait for it, they hear of it first, and the call is still open when this returns.
 */
void pk_client_end(pk_client_call *client, const pk_status *status);

/* For client_chain.c: nothing more is sent or received, nor written by the program. */
void pk_client_leave_wire(pk_client_call *client, pk_code code);
void pk_client_close_writing(pk_client_call *client, const pk_status *status);

/*
 * The server has ended the call, but the program has not read it all: nothing can change the status
 * now except a cancel.
 */
void pk_client_over(pk_client_call *client, const pk_status *status);

/*
 * An attempt has failed before any headers came: whether it is repeated, after a pause. `trailers`
 * may be NULL. See retry.c.
 */
bool pk_client_repeats(pk_client_call *client, const pk_status *status, const pk_head *trailers);

/* For the channel's throttling: how an attempt has ended. */
void pk_client_count_outcome(pk_client_call *client, pk_code code);

/* What the channel's options and its service config say of a path. */
void pk_client_configure(pk_client_call *client, const char *path);

/* Milliseconds that the server asks for; -1: it wants no further attempt; -2: it does not say. */
int64_t pk_client_pushback(const pk_head *trailers);

/* Whether so few calls fail that one may be repeated or hedged. */
bool pk_client_has_tokens(const pk_channel *channel);

/* ---- Hedging: see hedging.c ---- */

/* Sends the first attempt, and others by the policy. The call may have ended when it returns. */
void pk_hedges_start(pk_client_call *client);

/* While no attempt is the call's: what the program writes goes to all that there are. */
static inline bool pk_client_is_hedged(const pk_client_call *client)
{
    return client->hedges != NULL && !client->call.exchange;
}
void pk_hedges_write(pk_client_call *client, const pk_buffer *body);
void pk_hedges_end_writing(pk_client_call *client);

/* What was written is no longer kept: one attempt goes on, and it is the call's; NULL: none is. */
pk_exchange *pk_hedges_settle_for_one(pk_client_call *client);

/* The call has ended: no attempt goes on. */
void pk_hedges_end(pk_client_call *client);

/* Gives the channel back, which may be gone then. */
void pk_hedges_let_go(pk_client_call *client);

/* Whether all attempts that go on wait in the channel's queue. */
bool pk_hedges_wait(const pk_client_call *client);

/* Whether something of them is left on the wire. */
bool pk_hedges_open(const pk_client_call *client);

/* ---- What the files of a client's call take from each other ---- */

/*
 * The call has nothing open in the channel, nor in its queue: it waits for interceptors, credentials
 * or the end of a pause, or its attempts have openings of their own. The channel knows of it
 * meanwhile, to end it when it goes itself.
 */
void pk_client_rest(pk_client_call *client);

/* It goes on, or ends. Nothing happens to one that does not rest. */
void pk_client_wake(pk_client_call *client);

/* client_start.c: the head of an attempt after `earlier` others. False: the call has ended instead. */
bool pk_client_make_head(pk_client_call *client, unsigned earlier, pk_opening_head *ret_head);

/* client_call.c: `fail` of the pk_call, for the deadline, pk_call_cancel, a stream that breaks off. */
void pk_client_fail(pk_call *call, const pk_status *status);

/* Sends all that was written so far on the exchange that is there now. */
void pk_client_send_written(pk_client_call *client);

/* Lets the memory go where nothing is left of the call, on the wire and in the program. */
void pk_client_release_if_over(pk_client_call *client);

/* The head of a response was all of it. */
void pk_client_end_with(pk_client_call *client, const pk_status *status, const pk_head *trailers);

/* The pause is over, and the last exchange has closed. */
void pk_client_repeat(pk_timer *pause);

/* The call's own method row: its path, copied, and no types. What is no path spoils the call. */
void pk_client_set_path(pk_client_call *client, pk_style style, const char *path);

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
