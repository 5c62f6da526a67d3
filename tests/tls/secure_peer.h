/*
 * A server with TLS and one peer of it in the same thread: OpenSSL as a client of the test's own.
 *
 * secure_run moves bytes until both sides are quiet. secure_close checks that every exchange was
 * closed and that no memory is left. The certificates are those of make_certificates.c.
 */
#ifndef PEKOE_TESTS_SECURE_PEER_H
#define PEKOE_TESTS_SECURE_PEER_H

#include "../support/wire_peer.h"

#include <openssl/ssl.h>

struct secure {
    pk_loop *loop;
    pk_server *server;
    pk_server_credentials *credentials;
    struct path_acceptor acceptor;
    SSL_CTX *context; /* the peer's; what a test sets there holds for secure_join */
    SSL *ssl;         /* NULL: the peer speaks no TLS */
    int fd;           /* the peer's end */
    struct bytes out; /* what the peer sends next, plain where there is `ssl` */
    struct reader in; /* what came; not HTTP/2: in.rest */
    bool http1;       /* what comes is kept in in.rest as it is */
    bool shaken;      /* the peer's handshake is over */
    bool closed;      /* by the server, or TLS has failed */
    int alert;        /* that the server sent, but close_notify; -1: none */
    bool notified;    /* close_notify has come */
    size_t piece;     /* bytes that go to the server at a time; 0: all */
    size_t allowance; /* bytes that may still go to it */
    size_t flipped;   /* of what goes to it, the byte at this place is changed, 1-based; 0: none */
    size_t sent;      /* bytes that went */
    void (*serving)(bool on); /* called around all that the server does; NULL: nothing is */
};

/* Makes server, loop and the peer's context; no connection yet. `credentials` is made here. */
void secure_open(struct secure *secure, const pk_server_opts *opts,
                 const pk_server_credentials_opts *credentials, const pk_allocator *allocator);

/* Where a file of certificates lies; a few results stay valid. */
const char *certificate_path(const char *name);

/* Connects the peer; `alpn` in the form of the wire ("\2h2"), NULL: none. */
void secure_join(struct secure *secure, const char *alpn);

/* The same for HTTP/2, whose preface and SETTINGS go first. */
void secure_join_http2(struct secure *secure);

/* The same without TLS: `out` goes as it is. */
void secure_join_bare(struct secure *secure);

/* Appends the HTTP/2 preface and SETTINGS. */
void secure_greet(struct secure *secure);

void secure_run(struct secure *secure);
void secure_ticks(struct secure *secure, int count);

/* Frees the peer's end, without close_notify. */
void secure_leave(struct secure *secure);

void secure_close(struct secure *secure);

#endif
