/*
 * The TLS of one connection: sealed bytes on the side of the socket, plain ones on the side of HTTP.
 *
 * A connection reads and writes through it once per turn, as it does with a bare socket: one read
 * brings all records that have come, one write takes what was sealed. OpenSSL is seen by tls*.c only,
 * moves bytes between the buffers here, and never touches the socket.
 */
#ifndef PEKOE_TRANSPORT_TLS_H
#define PEKOE_TRANSPORT_TLS_H

#include <pekoe/tls.h>

#include "core/arena.h"
#include "core/loop.h"
#include "transport/output.h"

#include <sys/types.h>

/*
 * A read needs a buffer larger by that than what comes from the socket: the most that a record can
 * take (RFC 8446 section 5.2, RFC 5246 section 6.2.3: 2^14 + 2,048 bytes and its head).
 */
#define PK_TLS_RESERVE 18437u

struct ssl_st;
struct ssl_session_st;

/* What the connections of one channel have in common. */
typedef struct pk_tls_target {
    pk_channel_credentials *credentials; /* one reference; NULL: without TLS */
    const char *name;                    /* of the server, for its certificate; borrowed */
    struct ssl_session_st *session; /* the last one, to be resumed; one reference; NULL: none */
} pk_tls_target;

typedef struct pk_tls {
    struct ssl_st *ssl;
    pk_loop *loop;
    bool http1;        /* server: HTTP/1.1 may be chosen, or ALPN not be there at all */
    bool client;       /* it is a client's end */
    bool established;  /* the handshake is over: `info` is there */
    bool closed;       /* the peer's close_notify has come */
    bool ended;        /* ours is among the sealed bytes */
    pk_output sealed;  /* bytes for the socket */
    const uint8_t *in; /* during a read: those from the socket that nobody has taken yet */
    const uint8_t *in_end;
    pk_arena arena; /* of `info` */
    pk_tls_info info;
    pk_tls_target *target; /* client */
    char refusal[320];     /* what is wrong with the peer's certificate */
    char failure[400];     /* why nothing more can be read; empty: all is well */
} pk_tls;

/* The server's end of a connection that begins. PK_ERR_NOMEM. */
PK_NODISCARD int pk_tls_accept(pk_tls **ret_tls, pk_loop *loop,
                               const pk_server_credentials *credentials, bool http1);

/* A client's end, its first message among the sealed bytes. Errors as above. */
PK_NODISCARD int pk_tls_connect(pk_tls **ret_tls, pk_loop *loop, pk_tls_target *target);

/* Whether the server's certificate, which was verified for another name, has this one too. */
bool pk_tls_is_named(const pk_tls *tls, pk_slice authority);

/*
 * The host of an authority ("example.org:443", "[::1]:443"), without port, brackets and a last dot.
 */
pk_slice pk_tls_host_of(pk_slice authority);

/* Gives the reference and the session back. */
void pk_tls_target_done(pk_tls_target *target);

/*
 * Reads from the socket once. What comes out is plain: `bytes` must have room for `length`, of which
 * all above PK_TLS_RESERVE is used to read. Bytes there are, 0 when there are none now, PK_ERR_CLOSED
 * or PK_ERR_SYSTEM as for a socket, PK_ERR_MALFORMED: see `failure`. That and `closed` may also be set
 * behind bytes that are returned, which were right.
 */
PK_NODISCARD ssize_t pk_tls_read(pk_tls *tls, int fd, uint8_t *bytes, size_t length);

/*
 * Takes bytes from `output`, once the handshake is over, and writes to the socket once. Bytes that the
 * socket took, 0 when it has no room, or an error as of pk_tls_read.
 */
PK_NODISCARD ssize_t pk_tls_write(pk_tls *tls, int fd, pk_output *output);

/*
 * Nothing more will be written: close_notify (RFC 8446 section 6.1) follows the sealed bytes, or an
 * alert that lies there says more. Writes once; what the socket does not take stays in `sealed`.
 */
void pk_tls_end(pk_tls *tls, int fd);

/* Nothing has moved for a while: gives back memory that comes again when it is needed. */
void pk_tls_rest(pk_tls *tls);

/* Takes NULL. */
void pk_tls_free(pk_tls *tls);

/* Fills tls->info from the handshake. PK_ERR_NOMEM. */
PK_NODISCARD int pk_tls_describe(pk_tls *tls);

struct x509_st;

/* Fills info->names. */
void pk_tls_describe_names(pk_arena *arena, const struct x509_st *certificate, pk_tls_info *info);

#endif
