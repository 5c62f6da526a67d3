/*
 * Which connection a call goes to: pick_first and round_robin over the subchannels of a channel.
 * Sources: gRPC's load-balancing.md, connectivity-semantics-and-api.md.
 *
 * pick_first has one subchannel that tries all addresses in order and keeps the first that is there.
 * round_robin has one for each address, keeps all of them connected, and gives calls to those that
 * are ready in turn. Addresses that go away give their place up once another one is ready; calls on
 * them go on.
 *
 * Where no connection has room for a stream and more than one to an address are allowed, a further
 * subchannel is made for an address whose own is ready. It gets the calls for which the others have
 * no room, and goes when it has none, or has failed.
 *
 * Called by the channel alone, which tells it of each change by pk_balancer_settle. Knows no calls,
 * no names, no timers.
 */
#ifndef PEKOE_TRANSPORT_BALANCING_H
#define PEKOE_TRANSPORT_BALANCING_H

#include "transport/subchannel.h"

typedef struct pk_balancer {
    pk_subchannel_host *host;
    bool round_robin;
    bool busy; /* it is on the stack: changes are looked at when it is through */
    pk_subchannel **all;
    pk_subchannel **ready; /* those of them that are, the further ones last */
    size_t count, ready_count, capacity;
    size_t first_count; /* of those that are ready: all but the further ones */
    size_t next;        /* of these */
    size_t most;        /* connections to one address */
} pk_balancer;

/* PK_ERR_INVALID where the policy is not known: NULL and "pick_first", "round_robin" are. */
PK_NODISCARD int pk_balancer_init(pk_balancer *balancer, pk_subchannel_host *host,
                                  const char *policy);

/* Frees the subchannels; calls on their connections go on. */
void pk_balancer_clear(pk_balancer *balancer);

/*
 * These are the addresses now, at least one: makes what is missing and connects it, keeps what is
 * there. Duplicates count once. PK_ERR_NOMEM: as far as it came. Settle afterwards.
 */
PK_NODISCARD int pk_balancer_update(pk_balancer *balancer, const char *const *addresses,
                                    size_t count);

/* Connects what lost its connection (round_robin), drops what left, and counts who is ready. */
void pk_balancer_settle(pk_balancer *balancer);

/*
 * What all together are: one that is ready makes it READY, else one that connects for the first
 * time CONNECTING; when all have failed since they were last ready, TRANSIENT_FAILURE.
 */
pk_channel_state pk_balancer_state(const pk_balancer *balancer);

/* A failed attempt's text, while the state is TRANSIENT_FAILURE. */
const char *pk_balancer_failure(const pk_balancer *balancer);

/* The next one that is ready and has room for a stream; NULL: none. */
static inline pk_subchannel *pk_balancer_pick(pk_balancer *balancer)
{
    for (size_t left = balancer->first_count; left > 0; left--) {
        if (balancer->next >= balancer->first_count)
            balancer->next = 0;
        pk_subchannel *one = balancer->ready[balancer->next++];
        if (pk_subchannel_has_room(one))
            return one;
    }
    for (size_t i = balancer->first_count; i < balancer->ready_count; i++) {
        if (pk_subchannel_has_room(balancer->ready[i]))
            return balancer->ready[i];
    }
    return NULL;
}

/*
 * There was none with room. Where more connections are allowed: connects one that is idle, or else
 * once more to the address with the fewest, unless a further one is on its way or has just failed.
 */
void pk_balancer_widen(pk_balancer *balancer);

/* Once per tick: marks further ones that are no longer needed. True: settle. */
PK_NODISCARD bool pk_balancer_narrow(pk_balancer *balancer);

/* Those that pause connect now, and pauses start small again. Settle afterwards. */
void pk_balancer_reset_backoff(pk_balancer *balancer);

#endif
