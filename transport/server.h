/*
 * The inside of a server, for the code that gives it its acceptor, and for tests.
 */
#ifndef PEKOE_TRANSPORT_SERVER_H
#define PEKOE_TRANSPORT_SERVER_H

#include <pekoe/server.h>

#include "transport/connection.h"

#define PK_SERVER_TICK_MS 1000u

typedef struct pk_listener {
    struct pk_listener *next;
    pk_server *server;
    pk_watch watch;
    pk_server_credentials *credentials; /* one reference; NULL: without TLS */
    int fd;
    bool paused; /* out of descriptors: waits for a tick or the end of a connection */
    char bound[PK_ADDRESS_TEXT];
} pk_listener;

/* A walk over the ring of connections, each of which may go meanwhile. */
struct pk_server_walk {
    struct pk_server_walk *outer; /* that is interrupted by this one */
    pk_connection *next, *last;   /* `next` NULL: the walk is over */
};

struct pk_server {
    pk_connection_host host;
    pk_router *router;    /* owned */
    pk_acceptor acceptor; /* the router's, unless a test set another */
    uint32_t max_connections;
    bool reuse_port;
    int backlog;
    pk_listener *listeners;
    pk_connection *connections; /* ring; NULL: none */
    size_t connection_count;
    struct pk_server_walk *walks; /* under way, the innermost first */
    pk_timer tick;
    pk_timer drain;
    bool stopping;
    bool freed;            /* by its owner; it lives on while a connection is on the stack */
    struct pk_stop *stops; /* futures that wait for the end */
};

/* Who takes the exchanges of connections that are accepted from now on. Copied. */
void pk_server_set_acceptor(pk_server *server, const pk_acceptor *acceptor);

/*
 * Serves a connected stream socket as if it had been accepted; the server owns it from then on.
 * `peer` is copied; `credentials` NULL: without TLS. On PK_ERR_NOMEM and PK_ERR_SYSTEM the socket stays the caller's.
 */
PK_NODISCARD int pk_server_adopt(pk_server *server, int fd, const char *peer,
                                 const pk_server_credentials *credentials);

#endif
