/*
 * A server: listeners and connections on one loop.
 *
 * A server belongs to its loop and is used on that loop's thread. For several threads, make one
 * loop and one server per thread and let them listen on one port (`reuse_port`): nothing is shared,
 * the system spreads the connections.
 */
#ifndef PEKOE_SERVER_H
#define PEKOE_SERVER_H

#include <pekoe/loop.h>
#include <pekoe/service.h>
#include <pekoe/tls.h>

PK_BEGIN_DECLS

#define PK_NEVER UINT32_MAX /* for a time of pk_server_opts: no limit */

/* In all of them 0 means the default that the comment names. */
typedef struct pk_server_opts {
    size_t size;                 /* set by PK_SERVER_OPTS */
    const pk_router_opts *calls; /* of the server's router; borrowed until pk_server_new returns */
    bool reuse_port;             /* share the TCP port with other servers that set it too */
    int backlog;                 /* connections that wait to be accepted; 511 */
    uint32_t max_connections;    /* open at once; further ones wait in the backlog; 65,536 */
    uint32_t max_streams;        /* open at once on a connection; 256 */
    /*
     * Bytes of request bodies in flight: per call (2 MiB) and per connection (8 MiB). A window
     * bounds what a call can receive in one round trip, less the half that is credited at once:
     * 2 MiB fill 100 Mbit/s at 80 ms. The second is also the memory that all calls of a connection
     * whose handlers do not read can take.
     */
    uint32_t stream_window;
    uint32_t connection_window;
    uint32_t header_bytes;     /* a call with more metadata (names + values + 32 each) is refused
                                  with RESOURCE_EXHAUSTED; 8 KiB */
    uint32_t header_bytes_max; /* above it the stream is reset and nothing is kept; 64 KiB */
    /*
     * Bytes gathered from requests and replies not yet taken by the peer, above which new calls are
     * held back for five seconds and then refused with RESOURCE_EXHAUSTED: per connection (16 MiB)
     * and for all of them (256 MiB). The last quarter of the second is kept in equal parts: a
     * connection that holds more than its part has to do with the other three.
     *
     * A call stands still that moves less than a sixteenth of its waiting bytes in a second because
     * its peer keeps the call's own window shut or does not go on with its request. Those that have
     * stood still for two seconds and hold at least the average of their connection are reset
     * (ENHANCE_YOUR_CALM) where others of the connection would be held back, until a quarter of its
     * bytes is free; and on connections that hold more than the average, where three quarters of the
     * second are taken. Then such connections end on which as little moves as a whole.
     */
    size_t connection_bytes;
    size_t server_bytes;
    uint32_t resets;            /* stream resets that a peer may send in a burst; 1,000 */
    uint32_t resets_per_second; /* and from then on; more end the connection; 33 */
    uint32_t pings; /* PING and other frames without use that may come within 10 s while nothing is
                       sent; more end the connection; 1,000 */
    /* Milliseconds, counted in whole seconds and up to one second late. */
    uint32_t idle_timeout_ms;   /* for a connection without a call; 30 minutes */
    uint32_t header_timeout_ms; /* for the first bytes, and for a head that has begun; 10 s */
    uint32_t body_timeout_ms;   /* without a byte of a request whose handler reads; PK_NEVER */
    uint32_t stall_timeout_ms;  /* without a byte read by a peer for which bytes wait; 5 minutes */
    bool http2_only;            /* refuse HTTP/1.1, which gRPC-Web from a page without TLS needs */
    uint32_t max_handshakes;    /* of TLS, under way at once; one more cuts the oldest; 1,024 */
} pk_server_opts;

#define PK_SERVER_OPTS(...) (&(pk_server_opts){.size = sizeof(pk_server_opts), ##__VA_ARGS__})

/* `opts` may be NULL and is copied. PK_ERR_NOMEM; *ret_server is untouched then. */
PK_API PK_NODISCARD int pk_server_new(pk_server **ret_server, pk_loop *loop,
                                      const pk_server_opts *opts);

/*
 * Listens for HTTP/2 with prior knowledge and, unless `http2_only`, for HTTP/1.1, which the first
 * bytes of a connection tell apart. Without TLS, on "host:port", "[::1]:port", ":port" (every
 * interface) or "unix:/path"; port 0 lets the system choose. May be called several times. A name
 * is resolved before it returns. `ret_bound`, where not NULL, gets the address with the real port
 * ("127.0.0.1:50051"), which belongs to the server.
 * PK_ERR_INVALID (no address), PK_ERR_EXISTS (in use), PK_ERR_NOMEM, PK_ERR_SYSTEM (see errno),
 * PK_ERR_STATE (the server was stopped).
 */
PK_API PK_NODISCARD int pk_server_listen(pk_server *server, const char *address,
                                         const char **ret_bound);

/*
 * The same with TLS: HTTP/2 or, unless `http2_only`, HTTP/1.1, as ALPN says (RFC 7301), HTTP/2 where
 * the client takes both. A client that takes neither gets the alert no_application_protocol; one
 * that has no ALPN does too with `http2_only`, else its first bytes decide, as without TLS. The
 * server takes a reference of the credentials. A handshake may take `header_timeout_ms`.
 */
PK_API PK_NODISCARD int pk_server_listen_tls(pk_server *server, const char *address,
                                             pk_server_credentials *credentials,
                                             const char **ret_bound);

/*
 * Other credentials for connections that a listener with TLS accepts from now on; those that there
 * are go on as they are. `bound` is an address as pk_server_listen_tls gave it, NULL means all such
 * listeners. PK_ERR_INVALID: there is no such listener.
 */
PK_API PK_NODISCARD int pk_server_set_credentials(pk_server *server, const char *bound,
                                                  pk_server_credentials *credentials);

/*
 * Stops gracefully: no more connections are accepted, peers are asked to open no more calls
 * (RFC 9113 section 6.8), calls in flight go on. The future is done with NULL when the last
 * connection has ended, or `drain_ms` from now, when those that are left are cut and their calls
 * cancelled. It belongs to the loop's scope. A second stop may only shorten the time; it gives a
 * future of its own.
 */
PK_API PK_NODISCARD pk_future pk_server_stop(pk_server *server, uint64_t drain_ms);

/*
 * Closes what is still open, at once; calls in flight are cancelled and have ended when it
 * returns, or at the end of the turn where it is called from one of their handlers. Takes NULL;
 * returns NULL.
 */
PK_API pk_server *pk_server_free(pk_server *server);

PK_END_DECLS

#endif
