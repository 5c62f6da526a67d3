/*
 * A server and one peer of it in the same thread, joined by a socket pair.
 *
 * The peer writes bytes, `wire_run` runs the loop until both sides are quiet and reads what came.
 * wire_close checks that every exchange was closed and that no memory is left.
 */
#ifndef PEKOE_TESTS_WIRE_PEER_H
#define PEKOE_TESTS_WIRE_PEER_H

#include "core/loop.h"
#include "http2_bytes.h"
#include "path_acceptor.h"
#include "transport/server.h"

struct wire {
    pk_loop *loop;
    pk_server *server;
    struct path_acceptor acceptor;
    struct bytes out; /* what the peer sends next */
    struct reader in; /* what it got */
    int fd;           /* the peer's end; -1: closed */
    bool deaf;        /* the peer does not read */
    bool http1;       /* what it got stands in in.rest as it came */
    bool closed;      /* by the server */
};

/* Makes both. With `greet` the peer's preface and empty SETTINGS are sent and handled. */
void wire_open(struct wire *wire, const pk_server_opts *opts, bool greet);

/* A second peer of the same server, with its own `wire` for sending and reading. */
void wire_join(struct wire *wire, struct wire *server_of);

/* Sends what is in `out`, runs, reads. */
void wire_run(struct wire *wire);

/* Lets the server's clock tick, and runs after each. */
void wire_ticks(struct wire *wire, int count);

/* Closes the peer's end and lets the server notice. */
void wire_hang_up(struct wire *wire);

/* Frees both and checks what is left behind. */
void wire_close(struct wire *wire);

/* Frees a joined peer alone. */
void wire_leave(struct wire *wire);

#endif
