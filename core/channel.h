/*
 * The client's half of the seam: how a call gets an exchange from a channel.
 *
 * A call embeds a pk_opening and hands it to the channel, which keeps it until a connection has room
 * for one more stream. Then it asks the call for the request's head (only now is the time left
 * known), opens the exchange with it, and says so. The channel in transport/ and the in-process one
 * fill pk_channel_ops; handlers/ calls it and knows neither.
 */
#ifndef PEKOE_CORE_CHANNEL_H
#define PEKOE_CORE_CHANNEL_H

#include <pekoe/channel.h>

#include "core/exchange.h"
#include "core/interception.h"

typedef struct pk_opening pk_opening;

/* A request's head as it is sent, pseudo fields first; it stays readable until on_closed. */
typedef struct pk_opening_head {
    const pk_field *fields;
    size_t count;
} pk_opening_head;

/* A wish for an exchange. Its functions may be called from inside `open`. */
struct pk_opening {
    pk_opening *next, *previous; /* the channel's, while it waits */
    bool waiting;                /* in the channel's queue */
    bool wait_for_ready;         /* a connection that fails does not fail it */
    const pk_exchange_events *events;
    void *user; /* of the exchange */
    /* The head is wanted now. False: the call has ended itself instead, and the wish is gone. */
    bool (*head)(pk_opening *opening, pk_opening_head *ret_head);
    /* The exchange is there; the body may be written. */
    void (*opened)(pk_opening *opening, pk_exchange *exchange);
    /* There will be none; `why` is borrowed until it returns. */
    void (*failed)(pk_opening *opening, const pk_status *why);
};

/* A channel's interceptors in their order, never changed. */
struct pk_channel_interceptions {
    size_t count;
    struct pk_interception entries[];
};

typedef struct pk_channel_ops {
    void (*open)(pk_channel *channel, pk_opening *opening);
    /* Takes a waiting one back: nothing is called. */
    void (*withdraw)(pk_channel *channel, pk_opening *opening);
    /* What those that wait are waiting for, as in "waiting for ..."; cut to fit. NULL: none ever waits. */
    void (*tell_wait)(const pk_channel *channel, char *ret_text, size_t size);
    void (*connect)(pk_channel *channel);       /* NULL: there is nothing to connect */
    void (*reset_backoff)(pk_channel *channel); /* likewise */
    /* The owner is through: all calls end. */
    void (*close)(pk_channel *channel);
    /* The last reference is gone. */
    void (*free)(pk_channel *channel);
} pk_channel_ops;

/* What every channel has; the first member of each kind. */
struct pk_channel {
    const pk_channel_ops *ops;
    pk_loop *loop;
    pk_slice scheme;                             /* "http", "https" */
    bool secure;                                 /* nobody on the way reads what is sent */
    const pk_call_credentials *call_credentials; /* of all calls; NULL: none */
    pk_slice authority;                          /* "example.org:443" */
    pk_slice user_agent;
    size_t receive_limit;      /* bytes of one message; 0: the default */
    size_t send_limit;         /* 0: none */
    size_t compress_min_bytes; /* shorter messages are not compressed */
    const pk_retry_policy *retry_policies;
    size_t retry_policy_count;
    const pk_hedging_policy *hedging_policies;
    size_t hedging_policy_count;
    const pk_service_config *service_config; /* NULL: none */
    pk_retry_throttling throttling;          /* max_tokens 0: none */
    double tokens;
    size_t call_buffer_bytes, buffer_bytes; /* that may be kept to be sent again */
    size_t buffered;                        /* bytes that are */
    pk_channel_state state;
    struct pk_channel_waiter *waiters;              /* see transport/channel_state.c */
    struct pk_channel_interceptions *interceptions; /* of the loop's memory; NULL: none */
    pk_opening *resting; /* of calls that have nothing open here, but will, by `next` */
    bool freed;          /* by its owner: nothing opens any more */
    size_t references;   /* the owner's, and what is on the stack or still closes */
};

/* Whether there is something to be looked up for each call. */
static inline bool pk_channel_has_policies(const pk_channel *channel)
{
    return channel->retry_policy_count > 0 || channel->hedging_policy_count > 0 ||
           channel->service_config;
}

/* Drops a reference; ops->free follows the last one. */
static inline void pk_channel_unref(pk_channel *channel)
{
    if (--channel->references == 0)
        channel->ops->free(channel);
}

#endif
