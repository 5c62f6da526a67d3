/*
 * What takes too long on a connection: looked at once per tick by its server or channel. See
 * connection.h. Ends connections and streams, and never writes by itself.
 */
#include "transport/connection.h"

#define LINGER_TICKS 2u /* for the peer to read our last bytes and close */
#define DRAIN_TICKS 2u  /* for the peer to answer the PING between both GOAWAYs */
#define STILL_TICKS 2u  /* for a peer to be slow because it has had no time */

static bool passed(unsigned *count, bool waiting, unsigned limit)
{
    *count = waiting ? *count + 1 : 0;
    return limit > 0 && *count > limit;
}

/* Failure is seen in the session by the caller. */
static void reset_one(pk_connection *connection, pk_http2_stream *stream)
{
    if (pk_http2_reset(stream, PK_HTTP2_CANCEL) == 0)
        pk_connection_want_flush(connection);
}

static void check_bodies(pk_connection *connection)
{
    pk_http2_session *session = &connection->exchanges.session;
    pk_http2_stream *stream = session->ring;
    unsigned limit = connection->host->body_ticks;
    if (limit == 0)
        return;
    for (size_t left = session->stream_count; left > 0; left--, stream = stream->next) {
        if (stream->remote_ended || stream->dead || stream->closed || stream->uncredited > 0)
            stream->quiet_ticks = 0;
        else if (++stream->quiet_ticks > limit)
            reset_one(connection, stream);
    }
}

/* Asks a peer from which nothing comes whether it is there. False: it is not. */
static bool keep_alive(pk_connection *connection)
{
    const pk_connection_host *host = connection->host;
    pk_http2_session *session = &connection->exchanges.session;
    bool wanted = host->keepalive_ticks > 0 && session->greeted &&
                  (session->stream_count > 0 || host->keepalive_idle);
    if (!wanted) {
        connection->silent = 0;
        return true;
    }
    connection->silent++;
    if (connection->silent > host->keepalive_ticks + host->answer_ticks)
        return false;
    if (connection->silent == host->keepalive_ticks && pk_http2_session_ping(session) == 0)
        pk_connection_want_flush(connection);
    return true;
}

/* A connection without a call gives back what its TLS can do without. */
static void rest(const pk_connection *connection)
{
    if (connection->tls && connection->idle > 1)
        pk_tls_rest(connection->tls);
}

/* The part of a tick that is HTTP/1.1's own. */
static void tick_http1(pk_connection *connection)
{
    const pk_connection_host *host = connection->host;
    pk_http1 *http1 = connection->http1;
    connection->in_turn = true;
    const char *why = pk_http1_tick(http1, host->header_ticks, host->body_ticks);
    connection->in_turn = false;
    if (why)
        pk_connection_kill(connection, why);
    else if (connection->wants_flush && !connection->blocked)
        pk_loop_flush_later(host->loop, &connection->flush);
    bool waits = !http1->open && !http1->held_back && !pk_http1_parser_in_head(&http1->parser);
    if (passed(&connection->idle, waits, host->idle_ticks))
        pk_connection_drain(connection);
    rest(connection);
}

size_t pk_connection_burden(pk_connection *connection)
{
    size_t moved = connection->moved;
    size_t waiting = pk_connection_waiting(connection);
    if (!connection->http1 && waiting > 0) {
        size_t standing = pk_http2_standing(&connection->exchanges);
        waiting -= standing < waiting ? standing : waiting;
    }
    bool moves = moved >= waiting / PK_SLOW_SHARE;
    connection->moved = 0;
    connection->still = moves ? 0 : connection->still + 1;
    return connection->still >= STILL_TICKS ? waiting : 0;
}

size_t pk_connection_shed(pk_connection *connection, size_t most)
{
    bool http2 = !connection->http1 && !connection->undecided && !connection->dead;
    return http2 ? pk_http2_shed(&connection->exchanges, most) : 0;
}

void pk_connection_tick(pk_connection *connection)
{
    const pk_connection_host *host = connection->host;
    pk_http2_session *session = &connection->exchanges.session;
    if (connection->in_turn || connection->dead)
        return;
    /* All was said: the peer has a moment to read it. */
    bool http2 = !connection->http1 && !connection->undecided;
    bool lingering = connection->lingering || (http2 && pk_http2_session_deaf(session));
    if (passed(&connection->lingered, lingering, LINGER_TICKS))
        pk_connection_kill(connection, "the session was ended");
    if (lingering)
        return;
    if (passed(&connection->stalled, pk_connection_unsent(connection) > 0, host->stall_ticks)) {
        pk_connection_kill(connection, "the peer does not read");
        return;
    }
    if (connection->http1) {
        tick_http1(connection);
        return;
    }
    if (passed(&connection->heading,
               connection->undecided || !session->greeted || session->block_open,
               host->header_ticks)) {
        pk_connection_kill(connection, connection->securing
                                           ? "the TLS handshake takes too long"
                                           : "the peer takes too long to send a head");
        return;
    }
    if (!keep_alive(connection)) {
        pk_connection_kill(connection, "the peer does not answer");
        return;
    }
    if (connection->undecided)
        return;
    check_bodies(connection);
    connection->in_turn = true;
    pk_http2_tick(&connection->exchanges);
    connection->in_turn = false;
    if (connection->dead || connection->wants_flush)
        pk_loop_flush_later(connection->host->loop, &connection->flush);
    bool idle = passed(&connection->idle, session->stream_count == 0, host->idle_ticks);
    rest(connection);
    bool no_answer = connection->draining && ++connection->draining > DRAIN_TICKS;
    if (idle && host->client)
        pk_connection_kill(connection, "there was no call");
    else if (idle && !connection->draining)
        pk_connection_drain(connection);
    else if (no_answer && pk_http2_session_go_away(session) == 0)
        pk_connection_want_flush(connection);
    if (session->failed)
        pk_connection_kill(connection, "out of memory");
}
