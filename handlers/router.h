/*
 * The router: finds a call's method and refuses what can be refused by its head.
 *
 * It is the acceptor of a server's exchanges. One router serves one loop. Order of the checks: verb
 * (405), content-type (415), path (UNIMPLEMENTED), grpc-encoding (UNIMPLEMENTED), grpc-timeout
 * (INTERNAL); then the method's own `serve` takes the call.
 */
#ifndef PEKOE_HANDLERS_ROUTER_H
#define PEKOE_HANDLERS_ROUTER_H

#include <pekoe/generated.h>
#include <pekoe/http.h>
#include <pekoe/raw.h>

#include "core/exchange.h"
#include "core/interception.h"
#include "marshalling/protocol.h"

struct pk_route {
    const pk_method *method; /* NULL: the place in the table is free */
    uint32_t hash;
    uint32_t compress_from; /* the method's own compress_min_bytes + 1; 0: as the router's */
    const void *impl;
    void *self;
};

/* A service as it was added. */
struct pk_registration {
    const pk_service *service;
    const void *impl;
    void *self;
};

struct pk_router {
    pk_loop *loop;
    struct pk_route *routes; /* open addressing; the capacity is a power of two */
    size_t route_count, route_capacity;
    struct pk_registration *services;
    size_t service_count, service_capacity;
    struct pk_route
        fallback; /* for paths that no service has; see unary/generic.c, streaming/raw.c */
    pk_generic_handler *generic;
    pk_raw_handler *raw;   /* in place of `generic`: the fallback takes raw calls */
    pk_http_handler *http; /* NULL: requests that are no calls get 405 */
    void *http_self;
    struct pk_interception *interceptions; /* its own, in their order */
    size_t interception_count;
    struct pk_wrapping *wrappings;         /* owned; see router_chain.c */
    struct pk_wrapping *fallback_wrapping; /* one of them, for the fallback; NULL: none */
    pk_error_handler *error_handler;
    void *error_self;
    unsigned protocols;            /* PK_PROTOCOLS_* that are switched on */
    size_t receive_limit;          /* bytes of one message */
    pk_encoding encoding;          /* what each call starts with */
    pk_compressor_set compressors; /* the router's own, where it has been given some */
    struct pk_cors *cors;          /* owned; NULL: pages of other origins are not told anything */
    size_t open_calls;
    bool freed; /* by its owner; it goes with the last of its calls */
};

/* ---- Interceptors around routes: see router_chain.c ---- */

/* What stands around a route; NULL: nothing does. */
const struct pk_wrapping *pk_wrapping_of(const struct pk_route *route);

/* Whether there are interceptors, of the router or of `from` (may be NULL), for a route to be added. */
bool pk_wrapping_is_needed(const struct pk_router *router, const struct pk_wrapping *from);

/*
 * So many wrappings for routes that will be added, where they are needed: the router's interceptors
 * and inside them those of `from`. They come before those of the list. PK_ERR_NOMEM; then the list
 * was freed, and is empty.
 */
PK_NODISCARD int pk_wrapping_make(struct pk_router *router, const struct pk_wrapping *from,
                                  size_t count, struct pk_wrapping **list);

/* Puts the first of the list, which is the router's then, around a route. */
void pk_wrapping_put(struct pk_router *router, struct pk_route *route, struct pk_wrapping **list);

/* The fallback was set anew: its interceptors come around it. */
void pk_wrapping_put_fallback(struct pk_router *router);

void pk_wrapping_free_all(struct pk_router *router);

/* One of its calls is gone. */
void pk_router_call_gone(pk_router *router);

/* What a transport hands new exchanges to. */
pk_acceptor pk_router_acceptor(pk_router *router);

#endif
