/*
 * One connection of a server or a channel: a socket, an HTTP/2 session or HTTP/1.1 on it, and its
 * turns. A server that takes both versions decides by the first bytes: HTTP/2 begins with "PRI "
 * (RFC 9113 section 3.4), a method that no request of HTTP/1.1 has. With TLS the handshake decides,
 * unless the client knows no ALPN.
 *
 * A turn: read once, feed the session, dispatch what it collected, drain the loop's ready queue,
 * write once. What other events cause (timers, posts, other connections) is written by the loop's
 * after-turn hook. A connection never frees itself while it is on the stack.
 */
#ifndef PEKOE_TRANSPORT_CONNECTION_H
#define PEKOE_TRANSPORT_CONNECTION_H

#include "core/loop.h"
#include "transport/http1_exchange.h"
#include "transport/http2_exchange.h"
#include "transport/socket.h"
#include "transport/tls.h"

typedef struct pk_connection pk_connection;

/* What the connections of one server or channel share. */
typedef struct pk_connection_host {
    pk_loop *loop;
    bool client;                 /* the connections are a channel's */
    bool http1;                  /* server: HTTP/1.1 is taken too */
    const pk_acceptor *acceptor; /* server */
    pk_http2_limits limits;
    size_t header_bytes;
    size_t budget;
    pk_byte_budget bytes;
    pk_buffer *read_buffer; /* kept between reads while nobody else holds it */
    /* In ticks of the server; 0: never. */
    unsigned idle_ticks;      /* without a stream */
    unsigned header_ticks;    /* for the preface, and for a field block */
    unsigned body_ticks;      /* without a byte of a request's body */
    unsigned stall_ticks;     /* without a byte taken by the peer's socket */
    unsigned keepalive_ticks; /* without a byte from the peer, after which a PING is sent */
    unsigned answer_ticks;    /* for any byte to come then */
    bool keepalive_idle;      /* also while there is no stream */
    /* Connections whose TLS handshake is under way, oldest first. */
    pk_connection *securing_first, *securing_last;
    size_t securing_count;
    size_t securing_max; /* when one more comes, the oldest is cut */
    /* Client: a turn is over, and what it brought may matter to the channel. May open exchanges. */
    void (*turned)(struct pk_connection_host *host, pk_connection *connection);
    /* The connection has ended and is about to be freed. */
    void (*gone)(struct pk_connection_host *host, pk_connection *connection);
} pk_connection_host;

struct pk_connection {
    pk_http2_exchanges exchanges;
    pk_http1 *http1; /* owned; NULL: the connection speaks HTTP/2, or is undecided */
    pk_tls *tls;     /* owned; NULL: the bytes of the socket are plain */
    bool securing;   /* the handshake is under way: nothing is said or heard before it is over */
    pk_connection *next_securing, *previous_securing; /* in the host's list */
    bool undecided;                                   /* about the version */
    uint8_t decided_by; /* bytes of HTTP/2's beginning that have come */
    pk_connection_host *host;
    void *user;                     /* the host's */
    pk_connection *next, *previous; /* in the server's list */
    pk_watch watch;
    pk_flush flush;
    pk_output output;
    int fd;
    bool in_turn;     /* it is on the stack: writing and freeing wait for the turn's end */
    bool wants_flush; /* output came up after the turn's write */
    bool blocked;     /* the socket had no room */
    bool lingering;   /* our side is shut, the peer's rest is read and dropped */
    bool dead;        /* to be freed at the end of the turn */
    const char *why;  /* for those whose calls are cancelled then; static, or of `tls` */
    unsigned idle;    /* ticks in each of these states */
    unsigned heading;
    unsigned stalled;
    unsigned lingered;
    unsigned draining; /* ticks since the first GOAWAY */
    unsigned silent;   /* ticks without a byte from the peer */
    size_t moved;      /* bytes read and written since the last tick */
    unsigned still;    /* ticks in which hardly any were, of those that wait */
    pk_peer peer;
    char address[PK_ADDRESS_TEXT]; /* the peer's */
};

/*
 * Takes a connected, prepared socket and, where it is not NULL, the TLS that begins on it. On
 * PK_ERR_NOMEM and PK_ERR_SYSTEM both are the caller's.
 */
PK_NODISCARD int pk_connection_new(pk_connection **ret_connection, pk_connection_host *host, int fd,
                                   const char *peer, pk_tls *tls_take);

/* Begins the graceful end: GOAWAY twice, calls in flight finish, then the connection ends. */
void pk_connection_drain(pk_connection *connection);

/* Ends it at the end of the turn; calls in flight are cancelled. `why` is static. */
void pk_connection_kill(pk_connection *connection, const char *why);

/* The same, before it returns, unless the connection is on the stack. */
void pk_connection_free(pk_connection *connection, const char *why);

/* Bytes that the socket has not taken yet. */
static inline size_t pk_connection_unsent(const pk_connection *connection)
{
    return connection->output.bytes + (connection->tls ? connection->tls->sealed.bytes : 0);
}

/* There is something to write: at the end of this turn or the next, or once the socket has room. */
void pk_connection_want_flush(pk_connection *connection);

/* Once per tick of the server: looks for what takes too long. */
void pk_connection_tick(pk_connection *connection);

/* The bytes that wait on this connection, in either direction. */
static inline size_t pk_connection_waiting(const pk_connection *connection)
{
    return connection->http1 ? connection->http1->counted : connection->exchanges.counted;
}

/*
 * Once per tick, before it: the bytes that wait on this connection as a whole, not on streams that
 * stand still by themselves, where hardly any have moved for two ticks; else 0.
 */
size_t pk_connection_burden(pk_connection *connection);

/* Sheds streams that stand still until `most` bytes wait: see pk_http2_shed. HTTP/1.1 has none. */
size_t pk_connection_shed(pk_connection *connection, size_t most);

#endif
