/*
 * What one thread has made of one configuration: upstreams with their channels, and the rules.
 *
 * A setup is used by its thread and by the calls that came while it was the thread's; after a
 * reload it lives until the last of them has ended. An upstream of which a reload changes nothing
 * goes over to the next setup, and its connections with it.
 */
#ifndef PEKOE_GATEWAY_SETUP_H
#define PEKOE_GATEWAY_SETUP_H

#include "gateway/config.h"
#include "gateway/forward.h"
#include "gateway/metrics.h"

/* One target of a route, which may be several addresses. */
typedef struct gateway_upstream {
    size_t users; /* setups that have it */
    char *target;
    bool tls;
    pk_channel *channel;
} gateway_upstream;

typedef struct gateway_route {
    char *prefix;
    size_t prefix_length;
    gateway_upstream **upstreams;
    size_t upstream_count;
    size_t next; /* whose turn it is */
    gateway_route_metrics *metrics;
} gateway_route;

typedef struct gateway_setup {
    struct gateway_setup *next; /* in its thread's list of those that are out of use */
    gateway_config *config;     /* a reference */
    gateway_forward_rules rules;
    gateway_route *routes; /* longer prefixes first */
    size_t route_count;
    gateway_route_metrics *strays; /* calls without a route; NULL where every call has one */
    size_t users;                  /* calls, and the thread itself */
} gateway_setup;

/*
 * With one user; `before` is the thread's setup so far, or NULL. NULL, and *ret_wrong in words: a
 * target that is none, or memory.
 */
PK_NODISCARD gateway_setup *gateway_setup_new(gateway_config *config, const gateway_setup *before,
                                              pk_loop *loop, gateway_metrics *metrics,
                                              const char **ret_wrong);

/* Closes the channels that no other has; nobody uses it any more. Takes NULL. Not inside a call. */
void gateway_setup_free(gateway_setup *setup);

/* The route of a call's path; NULL: no prefix fits. */
gateway_route *gateway_setup_route(gateway_setup *setup, const char *path);

/* The channel whose turn it is: one that is ready where there is one. */
pk_channel *gateway_route_channel(gateway_route *route);

#endif
