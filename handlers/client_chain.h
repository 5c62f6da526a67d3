/*
 * A client's interceptors: between the program, which has the stub's future or reader, and what goes
 * over the wire, which is what they wrap.
 *
 * Such a call ends twice. What was sent ends first: the exchange is let go and the interceptors hear
 * of it. What they make of that is the end of the call for the program. A deadline, a cancel and a
 * program that gives up end both at once.
 */
#ifndef PEKOE_HANDLERS_CLIENT_CHAIN_H
#define PEKOE_HANDLERS_CLIENT_CHAIN_H

#include "handlers/chain.h"
#include "handlers/client_call.h"

typedef enum pk_client_chain_state {
    PK_CLIENT_CHAIN_WAITING, /* nothing was sent */
    PK_CLIENT_CHAIN_SENT,    /* what they wrap goes on */
    PK_CLIENT_CHAIN_OVER,    /* it has ended */
} pk_client_chain_state;

struct pk_client_chain {
    struct pk_chain chain; /* first */
    pk_client_chain_state state;
    bool settled;      /* they have said how the call ends */
    bool keeps_fields; /* what the call would do without them */
    pk_promise *inner; /* the producer's end of what they wrap; NULL: settled, or nobody waits */
    pk_promise *outer; /* stands for the outermost's future; NULL: not pending */
    pk_status status;  /* of what they wrap, once it has ended */
    uint64_t due;      /* the deadline, while its timer stands; 0: none */
    struct pk_interception entries[]; /* the channel's, which may change and go */
};

/*
 * Gives the call its chain, with the one request of styles that have one. False: none is asked (the
 * call cannot be made), and the call goes its plain way.
 */
PK_NODISCARD bool pk_client_chain_new(pk_client_call *client, const void *request);

/* Asks them, for calls with one reply; what the stub returns. */
PK_NODISCARD pk_future pk_client_chain_reply(pk_client_call *client);

/* The same for calls with a reader, which must be there. */
void pk_client_chain_stream(pk_client_call *client);

/*
 * The call is about to end. True: only what they wrap does, or has before; they hear of it, and the
 * call ends later.
 */
bool pk_client_chain_goes_on(pk_client_call *client, const pk_status *status);

/* The call has ended: what is pending of them ends with its status. */
void pk_client_chain_end(pk_client_call *client);

/* The deadline's timer is about to be stopped, since the server has answered in time. */
void pk_client_chain_answered(pk_client_call *client);

#endif
