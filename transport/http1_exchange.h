/*
 * Exchanges over HTTP/1.1: one after the other on a connection, in the order of their requests, as
 * events and operations of core/exchange.h. Server only; no socket.
 *
 * A connection feeds what it reads, lets it run before it writes, and writes what stands in its
 * output. Parsing and telling handlers take turns here: no handler is called by the parser. Trailers
 * of a response are dropped (`no_trailers` says so to handlers). A request that comes before the one
 * ahead of it is answered waits as bytes.
 */
#ifndef PEKOE_TRANSPORT_HTTP1_EXCHANGE_H
#define PEKOE_TRANSPORT_HTTP1_EXCHANGE_H

#include "transport/byte_budget.h"
#include "transport/http1_parser.h"
#include "transport/output.h"

#define PK_HTTP1_QUEUE_HIGH 65536u /* bytes of output at which a writer has to wait */
#define PK_HTTP1_REST_BYTES 65536u /* bytes that wait for their turn, then nothing is read */
#define PK_HTTP1_DISCARDED 65536u /* bytes of a body, left unread, for which a connection is kept */
#define PK_HTTP1_HELD_TICKS 5u    /* a request waits so long for the byte budget */

typedef struct pk_http1 pk_http1;

/* What a connection gives to it; borrowed for the connection's life. */
typedef struct pk_http1_terms {
    pk_loop *loop;
    const pk_peer *peer;
    const pk_acceptor *acceptor;
    pk_output *output;            /* the connection's */
    const pk_output *sealed;      /* what TLS made of it and the socket has not; NULL: none */
    size_t header_bytes;          /* a request's head above it is refused by the acceptor */
    size_t header_bytes_max;      /* and above it with 431 */
    size_t window;                /* bytes of a body that a handler may leave unconsumed */
    size_t budget;                /* bytes that may wait on this connection */
    pk_byte_budget *server_bytes; /* and on all of them; may be NULL */
    void *connection;             /* for `wanted` */
    /* There is something to do or to write. Called by operations. */
    void (*wanted)(pk_http1 *http1);
} pk_http1_terms;

struct pk_http1 {
    pk_http1_terms terms;
    pk_http1_parser parser;
    pk_exchange exchange; /* while `open` */
    pk_buffer *rest;      /* bytes that were read and wait; NULL: none */
    size_t uncredited;    /* bytes of the body that the handler has not consumed */
    size_t held;          /* what it gathers beyond that */
    size_t counted;       /* of ours in server_bytes */
    int error;            /* of an operation; ends the connection */
    bool open;            /* the handler knows of it and was not told that it is closed */
    bool held_back;       /* a head waits for the byte budget */
    bool continue_sent;   /* "100 Continue" */
    bool head_sent;       /* of the response */
    bool chunked;         /* the response is */
    bool no_body;         /* the request was HEAD */
    bool finished;        /* the response is complete */
    bool wants_room;      /* write has returned none */
    bool given_up;        /* by the handler: it hears of no cancel */
    bool cancelled;       /* the handler was told */
    bool draining;        /* no request after the one at hand */
    bool closing;         /* this response is the last */
    bool stopped;         /* nothing more is parsed */
    bool lost;            /* the connection is gone */
    unsigned ticks;       /* of a head that is being read, of one that is held back */
    unsigned quiet_ticks; /* without a byte of the body */
};

void pk_http1_init(pk_http1 *http1, const pk_http1_terms *terms);

/* After pk_http1_lose. */
void pk_http1_done(pk_http1 *http1);

/*
 * Takes bytes that were read and tells handlers what they mean; `holder` is the buffer that they
 * lie in. A request that breaks the rules is answered. PK_ERR_NOMEM; PK_ERR_CLOSED: the connection
 * can only be cut, since a response is under way that will not be completed.
 */
PK_NODISCARD int pk_http1_feed(pk_http1 *http1, const uint8_t *bytes, size_t length,
                               pk_buffer *holder);

/* Goes on with what waits: the end of the exchange, requests behind it, a writer. As above. */
PK_NODISCARD int pk_http1_run(pk_http1 *http1);

/* Whether pk_http1_run has something to do. */
bool pk_http1_runnable(const pk_http1 *http1);

/* Whether no more should be read now. */
bool pk_http1_full(const pk_http1 *http1);

/* Whether all was answered and no request follows: once the output has left, the end. */
bool pk_http1_over(const pk_http1 *http1);

/* The exchange at hand is the last one. */
void pk_http1_drain(pk_http1 *http1);

/* At the end of a turn: brings the server's count of waiting bytes up to date. */
void pk_http1_settle(pk_http1 *http1);

/*
 * Once per tick: why the connection should be ended, or NULL. A head may take `header_ticks`, a
 * body `body_ticks` without a byte; 0: for ever.
 */
const char *pk_http1_tick(pk_http1 *http1, unsigned header_ticks, unsigned body_ticks);

/* The connection is gone: the exchange hears on_cancelled with `why`, then on_closed. */
void pk_http1_lose(pk_http1 *http1, const pk_status *why);

#endif
