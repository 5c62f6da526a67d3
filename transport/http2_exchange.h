/*
 * Exchanges over an HTTP/2 session: turns the session's events into the events of core/exchange.h
 * and the operations of an exchange into submissions. Both roles; no socket.
 *
 * A connection (or a test, or a fuzz target) owns one pk_http2_exchanges: it feeds the session,
 * calls pk_http2_dispatch, takes output, and calls pk_http2_dispatch again.
 */
#ifndef PEKOE_TRANSPORT_HTTP2_EXCHANGE_H
#define PEKOE_TRANSPORT_HTTP2_EXCHANGE_H

#include "transport/byte_budget.h"
#include "transport/http2_session.h"

typedef struct pk_http2_exchanges pk_http2_exchanges;

struct http2_exchange;

struct pk_http2_exchanges {
    pk_http2_session session;
    pk_loop *loop;
    const pk_peer *peer;              /* borrowed for the life of the connection */
    const pk_acceptor *acceptor;      /* server: who takes new exchanges; borrowed */
    size_t header_bytes;              /* server: a request's head above it is refused */
    size_t budget;                    /* bytes that may wait on this connection */
    pk_byte_budget *server_bytes;     /* and on all of them; borrowed, may be NULL */
    size_t counted;                   /* of ours in server_bytes */
    size_t held;                      /* what handlers said that they gather */
    size_t unsent;                    /* bytes in the connection's output */
    struct http2_exchange *held_back; /* heads that wait for the budget, oldest first */
    bool some_stand;                  /* streams did at the last tick: the next has to look again */
    bool shed_in_vain; /* no stream was to be shed; none will be before the next tick */
    /* There is something to take. Called by operations, so from anywhere on the loop's thread. */
    void (*output_wanted)(pk_http2_exchanges *exchanges);
    bool lost; /* the connection is gone: operations do nothing */
};

/* What an exchange's stream object takes: for pk_http2_session_init. */
extern const size_t pk_http2_exchange_size;

/* Handles the session's batch and empties it. `holder`: the buffer that was fed, or NULL. */
void pk_http2_dispatch(pk_http2_exchanges *exchanges, pk_buffer *holder);

/*
 * At the end of a turn, with the bytes that the connection has not sent: brings the server's count
 * of waiting bytes up to date, and hands the acceptor requests that were held back while they were
 * too many.
 */
void pk_http2_settle(pk_http2_exchanges *exchanges, size_t unsent);

/*
 * Once per tick: looks which streams stand still. Where requests are held back because too many bytes
 * wait on this connection, those are shed that hold most of them. Requests that have been held back for
 * PK_HTTP2_HELD_TICKS are refused.
 */
#define PK_HTTP2_HELD_TICKS 5u
void pk_http2_tick(pk_http2_exchanges *exchanges);

/*
 * A stream stands still where its peer does not take what is queued for it (its own window is shut)
 * or does not go on with a request that is being gathered, while other streams may be well.
 * The bytes that wait on such streams:
 */
size_t pk_http2_standing(const pk_http2_exchanges *exchanges);

/*
 * Resets streams that have stood still for PK_HTTP2_STILL_TICKS and hold at least the average of
 * this connection's streams, until no more than `most` bytes wait. Returns how many no longer do.
 */
#define PK_HTTP2_STILL_TICKS 2u
size_t pk_http2_shed(pk_http2_exchanges *exchanges, size_t most);

/*
 * The connection is gone: every exchange hears on_cancelled with `why`, then on_closed, and is
 * freed.
 */
void pk_http2_lose(pk_http2_exchanges *exchanges, const pk_status *why);

/*
 * Client: opens an exchange. `events` and `user` are installed; the same contract as for
 * pk_http2_open. The exchange lives until on_closed has returned.
 */
PK_NODISCARD int pk_http2_exchange_open(pk_http2_exchanges *exchanges, const pk_field *fields,
                                        size_t count, bool body, const pk_exchange_events *events,
                                        void *user, pk_exchange **ret_exchange);

#endif
