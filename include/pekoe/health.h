/*
 * grpc.health.v1: tells load balancers and orchestrators whether the services of a server work.
 *
 * The program says how a service stands; Check answers with it, and Watch sends it again whenever
 * it changes. The service "" stands for the server as a whole. Source: gRPC's health-checking.md.
 */
#ifndef PEKOE_HEALTH_H
#define PEKOE_HEALTH_H

#include <pekoe/service.h>

PK_BEGIN_DECLS

typedef struct pk_health pk_health;

typedef enum pk_health_status {
    PK_HEALTH_UNKNOWN = 0,
    PK_HEALTH_SERVING = 1,
    PK_HEALTH_NOT_SERVING = 2,
} pk_health_status;

/* Knows the service "", which is serving. Belongs to the loop. PK_ERR_NOMEM. */
PK_API PK_NODISCARD int pk_health_new(pk_health **ret_health, pk_loop *loop);

/* After the routers that serve it, and their calls, are gone. Takes NULL; returns NULL. */
PK_API pk_health *pk_health_free(pk_health *health);

/* Has the router serve it, which borrows it. Errors as pk_router_add. */
PK_API PK_NODISCARD int pk_health_route(pk_health *health, pk_router *router);

/*
 * How a service stands from now on; those that watch it are told in this turn. The name is copied.
 * PK_ERR_NOMEM; PK_ERR_STATE after pk_health_stop.
 */
PK_API PK_NODISCARD int pk_health_set(pk_health *health, const char *service,
                                      pk_health_status status);

/*
 * For the time before a server stops: no service is serving any more, for good. Calls that watch
 * hear it and end with UNAVAILABLE, so that they do not keep a graceful stop waiting.
 */
PK_API void pk_health_stop(pk_health *health);

PK_END_DECLS

#endif
