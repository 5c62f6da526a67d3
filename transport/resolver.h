/*
 * Names to addresses, on the loop: c-ares, its sockets and its timer. Asks /etc/hosts and DNS.
 *
 * Called by the channel; knows no HTTP. The loop is never blocked by a name server.
 */
#ifndef PEKOE_TRANSPORT_RESOLVER_H
#define PEKOE_TRANSPORT_RESOLVER_H

#include <pekoe/loop.h>

typedef struct pk_resolver pk_resolver;

/* What a name has come to: addresses as text, with the port, in the order to be tried. */
typedef struct pk_resolved {
    const char *const *addresses; /* borrowed until the function returns */
    size_t count;
    const char *problem; /* where there are none; static or borrowed as well */
} pk_resolved;

/*
 * Begins to resolve "host:port". done(arg, result) is called once, on the loop's stack, never from
 * inside this function; the resolver is gone then. `servers`: name servers ("127.0.0.1:53", with
 * commas) instead of the system's, or NULL. PK_ERR_INVALID, PK_ERR_NOMEM.
 */
PK_NODISCARD int pk_resolver_start(pk_resolver **ret_resolver, pk_loop *loop, const char *address,
                                   const char *servers,
                                   void (*done)(void *arg, const pk_resolved *result), void *arg);

/* Gives it up: done is not called. Takes NULL; returns NULL. */
pk_resolver *pk_resolver_cancel(pk_resolver *resolver);

#endif
