/* A connection and its turns: see connection.h. */
#include "transport/connection.h"

#include <string.h>

#define READ_BYTES 65536u   /* of the read buffer */
#define READ_PADDING 32u    /* readable bytes behind what was read, for decoders that look ahead */
#define WRITE_BYTES 262144u /* taken from the session for one write */
#define WRITE_PIECES 64     /* gathered by one write */

static const char peer_closed[] = "the peer closed the connection";

static void finish_turn(pk_connection *connection);
static void lose_exchanges(pk_connection *connection);

static pk_connection *of_exchanges(pk_http2_exchanges *exchanges)
{
    return (pk_connection *) ((char *) exchanges - offsetof(pk_connection, exchanges));
}

/* ---- Reading ---- */

/* The shared read buffer, or a new one where a handler still holds the old one. */
static pk_buffer *read_buffer(pk_connection_host *host)
{
    if (host->read_buffer && host->read_buffer->references > 1)
        host->read_buffer = pk_buffer_unref(host->read_buffer);
    if (!host->read_buffer) {
        pk_buffer *buffer = pk_buffer_get(&host->loop->buffers);
        if (buffer) {
            pk_buffer_rewind_for_append(buffer, 0);
            if (pk_buffer_room_after(buffer, READ_BYTES) < 0)
                buffer = pk_buffer_unref(buffer);
        }
        host->read_buffer = buffer;
    }
    return host->read_buffer;
}

static void die(pk_connection *connection, const char *why)
{
    if (!connection->dead)
        connection->why = why;
    connection->dead = true;
}

/* What the session's or the output's error means. */
static const char *reason(int error)
{
    return error == PK_ERR_NOMEM ? "out of memory"
                                 : "the peer broke a rule or a limit of the connection";
}

static void on_http1_wanted(pk_http1 *http1);

static int speak_http1(pk_connection *connection)
{
    pk_connection_host *host = connection->host;
    pk_http1 *http1 = pk_memory_get(&host->loop->memory, sizeof *http1);
    if (!http1)
        return PK_ERR_NOMEM;
    pk_http1_init(http1,
                  &(pk_http1_terms){.loop = host->loop,
                                    .peer = &connection->peer,
                                    .acceptor = host->acceptor,
                                    .output = &connection->output,
                                    .sealed = connection->tls ? &connection->tls->sealed : NULL,
                                    .header_bytes = host->header_bytes,
                                    .header_bytes_max = host->limits.header_bytes,
                                    .window = host->limits.stream_window,
                                    .budget = host->budget,
                                    .server_bytes = &host->bytes,
                                    .connection = connection,
                                    .wanted = on_http1_wanted});
    pk_http2_session_done(&connection->exchanges.session);
    connection->http1 = http1;
    return 0;
}

static int feed_version(pk_connection *connection, const uint8_t *bytes, size_t length,
                        pk_buffer *holder)
{
    if (connection->http1)
        return pk_http1_feed(connection->http1, bytes, length, holder);
    int r = pk_http2_session_feed(&connection->exchanges.session, bytes, length);
    if (r == 0)
        pk_http2_dispatch(&connection->exchanges, holder);
    return r;
}

/* Hands on what was read, once it is known to which version. */
static int feed(pk_connection *connection, pk_buffer *buffer)
{
    static const uint8_t http2_begins[] = {'P', 'R', 'I', ' '};
    const uint8_t *bytes = buffer->start;
    size_t length = pk_buffer_length(buffer), earlier = connection->decided_by;
    if (PK_LIKELY(!connection->undecided))
        return feed_version(connection, bytes, length, buffer);
    int r = 0;
    for (size_t i = 0; i < length && connection->undecided; i++) {
        if (bytes[i] != http2_begins[connection->decided_by]) {
            connection->undecided = false;
            r = speak_http1(connection);
        } else if (++connection->decided_by == sizeof http2_begins) {
            connection->undecided = false;
        }
    }
    if (connection->undecided || r < 0)
        return r;
    if (earlier > 0)
        r = feed_version(connection, http2_begins, earlier, NULL);
    return r < 0 ? r : feed_version(connection, bytes, length, buffer);
}

/* ---- TLS ---- */

static void begin_securing(pk_connection *connection)
{
    pk_connection_host *host = connection->host;
    connection->securing = true;
    connection->previous_securing = host->securing_last;
    if (host->securing_last)
        host->securing_last->next_securing = connection;
    else
        host->securing_first = connection;
    host->securing_last = connection;
    host->securing_count++;
    if (host->securing_max == 0 || host->securing_count <= host->securing_max)
        return;
    for (pk_connection *one = host->securing_first; one; one = one->next_securing) {
        if (!one->dead) {
            pk_connection_kill(one, "too many TLS handshakes are under way");
            return;
        }
    }
}

static void end_securing(pk_connection *connection)
{
    pk_connection_host *host = connection->host;
    if (!connection->securing)
        return;
    connection->securing = false;
    if (connection->previous_securing)
        connection->previous_securing->next_securing = connection->next_securing;
    else
        host->securing_first = connection->next_securing;
    if (connection->next_securing)
        connection->next_securing->previous_securing = connection->previous_securing;
    else
        host->securing_last = connection->previous_securing;
    host->securing_count--;
}

/* The handshake is over: the version is known, unless the client has no ALPN. */
static int secured(pk_connection *connection)
{
    const char *protocol = connection->tls->info.protocol;
    end_securing(connection);
    connection->peer.tls = &connection->tls->info;
    if (protocol[0] == '\0')
        return 0; /* a server that takes HTTP/1.1 */
    connection->undecided = false;
    if (strcmp(protocol, "h2") != 0)
        return speak_http1(connection);
    pk_connection_want_flush(connection); /* our SETTINGS */
    return 0;
}

/*
 * Nothing more can be read. The alert that says why must reach the peer: a close could destroy it,
 * as in linger.
 */
static void lose_tls(pk_connection *connection)
{
    pk_tls *tls = connection->tls;
    pk_log(connection->host->loop, PK_LOG_DEBUG, "%s: %s", connection->address, tls->failure);
    if (connection->host->client) {
        die(connection, tls->failure);
        return;
    }
    end_securing(connection);
    connection->lingering = true;
    connection->why = tls->failure;
    pk_tls_end(tls, connection->fd);
    pk_socket_end_writing(connection->fd);
    lose_exchanges(connection);
}

static ssize_t read_plain(pk_connection *connection, uint8_t *bytes, size_t length)
{
    if (!connection->tls || connection->lingering)
        return pk_socket_read(connection->fd, bytes, length);
    return pk_tls_read(connection->tls, connection->fd, bytes, length);
}

/* Reads once and handles what came. */
static void read_once(pk_connection *connection)
{
    pk_connection_host *host = connection->host;
    pk_buffer *shared = read_buffer(host);
    if (!shared) {
        die(connection, reason(PK_ERR_NOMEM));
        return;
    }
    /* A handler that runs the loop may bring another connection's read in between. */
    pk_buffer *buffer = pk_buffer_ref(shared);
    pk_buffer_rewind_for_append(buffer, 0);
    ssize_t length = read_plain(connection, buffer->memory, READ_BYTES - READ_PADDING);
    pk_tls *tls = connection->tls;
    bool failed = tls && !connection->lingering && tls->failure[0];
    if (tls && connection->securing && tls->established && secured(connection) < 0)
        die(connection, reason(PK_ERR_NOMEM));
    if (length < 0 && !failed) {
        die(connection, peer_closed);
    } else if (length > 0 && !connection->lingering && !connection->dead) {
        buffer->end = buffer->start + length;
        memset(buffer->end, 0, READ_PADDING);
        connection->idle = connection->silent = 0;
        connection->moved += (size_t) length;
        int r = feed(connection, buffer);
        if (r < 0)
            die(connection, reason(r));
        pk_loop_drain(host->loop);
    }
    if (failed && !connection->dead && !connection->lingering)
        lose_tls(connection); /* behind bytes that were right */
    else if (tls && tls->closed)
        die(connection, peer_closed);
    pk_buffer_unref(buffer);
}

/* ---- Writing ---- */

/* Handlers and writers go on until the output is full. 1: there is more. */
static int run_http1(pk_connection *connection)
{
    pk_http1 *http1 = connection->http1;
    bool more;
    do {
        int r = pk_http1_run(http1);
        if (r < 0)
            return r;
        pk_loop_drain(connection->host->loop);
        connection->wants_flush = false;
        more = pk_http1_runnable(http1);
    } while (more && connection->output.bytes < WRITE_BYTES);
    return more;
}

/* Takes what there is, lets writers that have room go on, until the output is full. */
static int take(pk_connection *connection)
{
    if (connection->http1)
        return run_http1(connection);
    if (PK_UNLIKELY(connection->undecided || connection->securing))
        return 0;
    pk_http2_exchanges *exchanges = &connection->exchanges;
    int more = pk_http2_session_take(&exchanges->session, &connection->output, WRITE_BYTES);
    while (more == 0 && exchanges->session.rooms > 0) {
        pk_http2_dispatch(exchanges, NULL);
        pk_loop_drain(connection->host->loop);
        connection->wants_flush = false;
        more = pk_http2_session_take(&exchanges->session, &connection->output, WRITE_BYTES);
    }
    return more;
}

static void lose_exchanges(pk_connection *connection)
{
    const pk_status why = {.code = connection->host->client ? PK_UNAVAILABLE : PK_CANCELLED,
                           .message = {(const uint8_t *) connection->why, strlen(connection->why)}};
    if (connection->http1)
        pk_http1_lose(connection->http1, &why);
    else
        pk_http2_lose(&connection->exchanges, &why);
}

/* Whether all was said. */
static bool over(const pk_connection *connection)
{
    if (connection->http1)
        return pk_http1_over(connection->http1);
    return !connection->undecided && !connection->securing &&
           pk_http2_session_over(&connection->exchanges.session);
}

/*
 * The session is over and all of it was sent. A close now could destroy bytes that the peer has not
 * read yet (RFC 9112 section 9.6 tells why): our side ends, the peer's rest is read and dropped.
 */
static void linger(pk_connection *connection)
{
    if (connection->host->client) {
        die(connection, "the session was ended"); /* we have nothing more to say */
        return;
    }
    connection->lingering = true;
    connection->why = "the session was ended";
    pk_socket_end_writing(connection->fd);
    lose_exchanges(connection); /* those that an error of the peer has ended; else there are none */
}

/* All of HTTP's bytes have left: with TLS a last alert follows them. */
static void end_writing(pk_connection *connection)
{
    pk_tls *tls = connection->tls;
    if (tls && !tls->ended) {
        pk_tls_end(tls, connection->fd);
        connection->blocked = tls->sealed.bytes > 0;
    }
    if (!connection->blocked)
        linger(connection);
}

/* One system call. Bytes that the socket took, or a negative error. */
static ssize_t send_output(pk_connection *connection)
{
    pk_output *output = &connection->output;
    if (connection->tls)
        return pk_tls_write(connection->tls, connection->fd, output);
    struct iovec pieces[WRITE_PIECES];
    int count = pk_output_gather(output, pieces, WRITE_PIECES);
    ssize_t length = pk_socket_write(connection->fd, pieces, count);
    if (length > 0)
        pk_output_advance(output, (size_t) length);
    return length;
}

/* Writes once. Leftovers and further output are written when the socket has room again. */
static void write_once(pk_connection *connection)
{
    connection->wants_flush = false;
    int more = take(connection);
    if (more < 0) {
        die(connection, reason(more));
        return;
    }
    if (pk_connection_unsent(connection) > 0) {
        ssize_t length = send_output(connection);
        if (length < 0) {
            bool broken = connection->tls && connection->tls->failure[0];
            die(connection, broken ? connection->tls->failure : peer_closed);
            return;
        }
        if (length > 0)
            connection->stalled = 0;
        connection->moved += (size_t) length;
    }
    /* Exchanges that ended with this output hear of it after it has left. */
    if (!connection->http1 && connection->exchanges.session.event_count > 0) {
        pk_http2_dispatch(&connection->exchanges, NULL);
        pk_loop_drain(connection->host->loop);
    }
    if (connection->http1)
        more = pk_http1_runnable(connection->http1); /* what has left made room */
    connection->blocked = pk_connection_unsent(connection) > 0 || more > 0;
    if (!connection->blocked && !connection->wants_flush && over(connection))
        end_writing(connection);
}

static void end_turn(pk_connection *connection)
{
    if (!connection->dead && !connection->lingering)
        write_once(connection);
    if (!connection->dead && connection->http1)
        pk_http1_settle(connection->http1);
    else if (!connection->dead && !connection->undecided)
        pk_http2_settle(&connection->exchanges, pk_connection_unsent(connection));
    if (connection->host->turned)
        connection->host->turned(connection->host, connection);
    connection->in_turn = false;
    finish_turn(connection);
}

static void on_event(pk_watch *watch, bool readable, bool writable)
{
    pk_connection *connection = (pk_connection *) ((char *) watch - offsetof(pk_connection, watch));
    if (connection->in_turn)
        return;
    connection->in_turn = true;
    if (readable)
        read_once(connection);
    end_turn(connection);
}

static void on_flush(pk_flush *flush)
{
    pk_connection *connection = (pk_connection *) ((char *) flush - offsetof(pk_connection, flush));
    if (connection->in_turn)
        return;
    connection->in_turn = true;
    end_turn(connection);
}

void pk_connection_want_flush(pk_connection *connection)
{
    connection->wants_flush = true;
    /* A blocked socket says itself when it goes on. */
    if (!connection->in_turn && !connection->blocked)
        pk_loop_flush_later(connection->host->loop, &connection->flush);
}

static void output_wanted(pk_http2_exchanges *exchanges)
{
    pk_connection_want_flush(of_exchanges(exchanges));
}

static void on_http1_wanted(pk_http1 *http1)
{
    pk_connection_want_flush(http1->terms.connection);
}

/* ---- Life ---- */

static uint64_t loop_clock(const void *loop)
{
    return pk_loop_now(loop);
}

int pk_connection_new(pk_connection **ret_connection, pk_connection_host *host, int fd,
                      const char *peer, pk_tls *tls_take)
{
    pk_memory *memory = &host->loop->memory;
    pk_connection *connection = pk_memory_get(memory, sizeof *connection);
    if (!connection)
        return PK_ERR_NOMEM;
    *connection = (pk_connection){.host = host, .fd = fd, .flush.flush = on_flush};
    strncpy(connection->address, peer, sizeof connection->address - 1);
    connection->peer.address = connection->address;
    connection->exchanges = (pk_http2_exchanges){.loop = host->loop,
                                                 .peer = &connection->peer,
                                                 .acceptor = host->acceptor,
                                                 .header_bytes = host->header_bytes,
                                                 .budget = host->budget,
                                                 .server_bytes = &host->bytes,
                                                 .output_wanted = output_wanted};
    int r = pk_http2_session_init(&connection->exchanges.session, !host->client, memory,
                                  &host->limits, pk_http2_exchange_size, loop_clock, host->loop);
    if (r < 0) {
        pk_memory_put(memory, connection, sizeof *connection);
        return r;
    }
    pk_output_init(&connection->output, &host->loop->buffers);
    pk_watch_init(&connection->watch, host->loop, fd, on_event);
    pk_watch_set(&connection->watch, true, false);
    connection->undecided = !host->client && (host->http1 || tls_take);
    connection->tls = tls_take;
    if (tls_take)
        begin_securing(connection);
    if (!connection->undecided)
        pk_connection_want_flush(connection); /* our SETTINGS, or a handshake's first message */
    *ret_connection = connection;
    return 0;
}

static void free_connection(pk_connection *connection)
{
    pk_connection_host *host = connection->host;
    pk_loop *loop = host->loop;
    connection->in_turn = true; /* handlers that hear of the loss find no way back in */
    pk_watch_set(&connection->watch, false, false);
    pk_loop_flush_forget(loop, &connection->flush);
    end_securing(connection);
    if (connection->tls)
        pk_tls_end(connection->tls, connection->fd);
    pk_socket_close(connection->fd);
    pk_output_done(&connection->output);
    lose_exchanges(connection);
    if (connection->http1) {
        pk_http1_done(connection->http1);
        pk_memory_put(&loop->memory, connection->http1, sizeof *connection->http1);
    } else {
        pk_http2_session_done(&connection->exchanges.session);
    }
    pk_tls *tls = connection->tls; /* where `why` may lie */
    host->gone(host, connection);  /* may free the host */
    pk_tls_free(tls);
    pk_memory_put(&loop->memory, connection, sizeof *connection);
}

/* Brings watches and counts up to date, or frees the connection. */
static void finish_turn(pk_connection *connection)
{
    if (connection->dead) {
        free_connection(connection);
        return;
    }
    bool full = connection->http1 && !connection->lingering && pk_http1_full(connection->http1);
    pk_watch_set(&connection->watch, !full, connection->blocked && !connection->lingering);
    if (connection->wants_flush && !connection->blocked && !connection->lingering)
        pk_loop_flush_later(connection->host->loop, &connection->flush);
}

void pk_connection_drain(pk_connection *connection)
{
    if (connection->draining || connection->dead)
        return;
    connection->draining = 1;
    if (connection->undecided)
        pk_connection_kill(connection, "the connection was idle");
    else if (connection->http1)
        pk_http1_drain(connection->http1);
    else if (pk_http2_session_drain(&connection->exchanges.session) < 0)
        pk_connection_kill(connection, "out of memory");
    else
        output_wanted(&connection->exchanges);
}

void pk_connection_kill(pk_connection *connection, const char *why)
{
    die(connection, why);
    if (!connection->in_turn)
        pk_loop_flush_later(connection->host->loop, &connection->flush);
}

void pk_connection_free(pk_connection *connection, const char *why)
{
    die(connection, why);
    if (!connection->in_turn)
        free_connection(connection);
}
