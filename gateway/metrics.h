/*
 * Counters of all threads, and their Prometheus text (format 0.0.4).
 *
 * Counting takes no lock. A route is named by the prefix of its upstream: paths themselves are the
 * callers' and would make any number of series.
 */
#ifndef PEKOE_GATEWAY_METRICS_H
#define PEKOE_GATEWAY_METRICS_H

#include "gateway/forward.h"

#include <stdio.h>

typedef struct gateway_metrics gateway_metrics;
typedef struct gateway_route_metrics gateway_route_metrics;

#define GATEWAY_NO_ROUTE "none" /* the name for calls without one; a prefix begins with "/" */

/* NULL without memory. */
gateway_metrics *gateway_metrics_new(void);
gateway_metrics *gateway_metrics_free(gateway_metrics *metrics);

/* The counters of a route, made at the first need; they live as long as `metrics`. NULL: no memory. */
gateway_route_metrics *gateway_metrics_route(gateway_metrics *metrics, const char *route);

/* A call has come; `protocol` is that of pk_call_protocol. `route` may be NULL: nothing is counted. */
void gateway_metrics_started(gateway_route_metrics *route);
void gateway_metrics_ended(gateway_route_metrics *route, const char *protocol,
                           const gateway_tally *tally, uint64_t nanoseconds);

/* The configuration was read again, or could not be. */
void gateway_metrics_reloaded(gateway_metrics *metrics, bool well);

void gateway_metrics_print(gateway_metrics *metrics, FILE *to);

#endif
