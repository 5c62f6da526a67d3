/*
 * One connection to one of some addresses: see subchannel.h.
 *
 * A connection counts as ready once the server's SETTINGS have come, so that no call meets a limit
 * that is not known yet. One that the server asks to leave (GOAWAY), or will soon for its many
 * cancelled calls, retires: its calls go on, and the subchannel is idle. Whatever tells the host of a change is the last thing that its function
 * does, since the subchannel may be gone afterwards.
 */
#include "transport/subchannel.h"

#include "core/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void try_address(pk_subchannel *subchannel);

/* The last call of its caller. */
static void change_state(pk_subchannel *subchannel, pk_channel_state next)
{
    subchannel->state = next;
    if (next == PK_CHANNEL_TRANSIENT_FAILURE)
        subchannel->failing = true;
    else if (next == PK_CHANNEL_READY)
        subchannel->failing = false;
    subchannel->host->changed(subchannel->host, subchannel);
}

/* ---- Attempts ---- */

static void stop_attempt(pk_subchannel *subchannel)
{
    pk_timer_stop(subchannel->host->connections.loop, &subchannel->timer);
    if (subchannel->fd < 0)
        return;
    pk_watch_set(&subchannel->watch, false, false);
    pk_socket_close(subchannel->fd);
    subchannel->fd = -1;
}

static void begin_pause(pk_subchannel *subchannel)
{
    pk_loop *loop = subchannel->host->connections.loop;
    if (pk_timer_start(loop, &subchannel->timer, pk_backoff_pause(&subchannel->backoff)) < 0)
        pk_log(loop, PK_LOG_WARNING, "out of memory: no further attempt to connect");
    change_state(subchannel, PK_CHANNEL_TRANSIENT_FAILURE);
}

/* The next address, or a pause after the last. */
static void attempt_failed(pk_subchannel *subchannel, const char *address, const char *reason)
{
    stop_attempt(subchannel);
    snprintf(subchannel->failure, sizeof subchannel->failure, "cannot connect to %s: %s", address,
             reason);
    pk_log(subchannel->host->connections.loop, PK_LOG_DEBUG, "%s", subchannel->failure);
    if (++subchannel->address < subchannel->addresses->count)
        try_address(subchannel);
    else
        begin_pause(subchannel);
}

/* The socket is connected: its session begins, and is ready with the server's SETTINGS. */
static void add_connection(pk_subchannel *subchannel)
{
    pk_subchannel_host *host = subchannel->host;
    pk_connection *connection;
    pk_tls *tls = NULL;
    int fd = subchannel->fd;
    pk_watch_set(&subchannel->watch, false, false);
    subchannel->fd = -1;
    int r = pk_socket_prepare(fd);
    if (r == 0 && host->tls.credentials)
        r = pk_tls_connect(&tls, host->connections.loop, &host->tls);
    if (r == 0)
        r = pk_connection_new(&connection, &host->connections, fd, subchannel->peer, tls);
    if (r < 0) {
        pk_tls_free(tls);
        pk_socket_close(fd);
        attempt_failed(subchannel, pk_subchannel_address(subchannel), pk_error_text(r));
        return;
    }
    if (host->ring) {
        connection->next = host->ring;
        connection->previous = host->ring->previous;
        connection->next->previous = connection->previous->next = connection;
    } else {
        host->ring = connection->next = connection->previous = connection;
    }
    host->connection_count++;
    connection->user = subchannel;
    subchannel->connection = connection;
    host->added(host);
}

static void on_connected(pk_watch *watch, bool readable, bool writable)
{
    pk_subchannel *subchannel = (pk_subchannel *) ((char *) watch - offsetof(pk_subchannel, watch));
    int error = pk_socket_connected(subchannel->fd);
    if (error == 0)
        add_connection(subchannel);
    else
        attempt_failed(subchannel, pk_subchannel_address(subchannel), strerror(error));
}

static void try_address(pk_subchannel *subchannel)
{
    pk_loop *loop = subchannel->host->connections.loop;
    const char *address = pk_subchannel_address(subchannel);
    int r = pk_socket_connect(address, &subchannel->fd, subchannel->peer);
    if (r < 0) {
        subchannel->fd = -1;
        attempt_failed(subchannel, address,
                       r == PK_ERR_SYSTEM ? strerror(errno) : "the name has no address");
        return;
    }
    pk_watch_init(&subchannel->watch, loop, subchannel->fd, on_connected);
    pk_watch_set(&subchannel->watch, false, true);
    if (pk_timer_start(loop, &subchannel->timer, subchannel->host->attempt_time) < 0)
        attempt_failed(subchannel, address, "out of memory");
}

/* The subchannel has nothing more to do with its connection. */
static pk_connection *let_go(pk_subchannel *subchannel)
{
    pk_connection *connection = subchannel->connection;
    subchannel->connection = NULL;
    if (connection)
        connection->user = NULL;
    return connection;
}

/* An attempt takes too long, or a pause is over. */
static void on_timer(pk_timer *timer)
{
    pk_subchannel *subchannel = (pk_subchannel *) ((char *) timer - offsetof(pk_subchannel, timer));
    pk_connection *slow;
    if (subchannel->state == PK_CHANNEL_TRANSIENT_FAILURE) {
        subchannel->host->rested(subchannel->host, subchannel);
        return;
    }
    slow = let_go(subchannel);
    const char *why = !slow            ? "no answer in time"
                      : slow->securing ? "the TLS handshake takes too long"
                                       : "no SETTINGS came in time";
    if (slow)
        pk_connection_kill(slow, why);
    attempt_failed(subchannel, pk_subchannel_address(subchannel), why);
}

/* ---- What connections tell ---- */

/* The connection takes no new calls any more: it has ended, or retires. */
static void lose_connection(pk_subchannel *subchannel, const char *why)
{
    const pk_subchannel_host *host = subchannel->host;
    bool was_ready = subchannel->state == PK_CHANNEL_READY;
    let_go(subchannel);
    if (was_ready && host->reconnects && !subchannel->used &&
        pk_loop_now(host->connections.loop) - subchannel->since < host->backoff.initial) {
        subchannel->address = subchannel->addresses->count - 1;
        was_ready = false;
    }
    if (was_ready)
        change_state(subchannel, PK_CHANNEL_IDLE);
    else
        attempt_failed(subchannel, pk_subchannel_address(subchannel), why);
}

static void on_turned(pk_connection_host *connections, pk_connection *connection)
{
    pk_subchannel_host *host = (pk_subchannel_host *) connections;
    pk_subchannel *subchannel = connection->user;
    const pk_http2_session *session = &connection->exchanges.session;
    if (!subchannel || connection->dead)
        return;
    bool greeted = subchannel->state == PK_CHANNEL_CONNECTING && session->greeted;
    if (greeted) {
        pk_timer_stop(connections->loop, &subchannel->timer);
        pk_backoff_reset(&subchannel->backoff);
        subchannel->since = pk_loop_now(connections->loop);
        subchannel->used = false;
    }
    if (session->peer_goes_away) {
        if (session->peer_error == PK_HTTP2_ENHANCE_YOUR_CALM &&
            connections->keepalive_ticks < UINT32_MAX / 4)
            connections->keepalive_ticks *= 2;
        if (greeted)
            subchannel->state = PK_CHANNEL_READY; /* it was, within this turn */
        lose_connection(subchannel, "the server goes away");
    } else if (greeted) {
        change_state(subchannel, PK_CHANNEL_READY);
    } else if (session->worn_out) {
        pk_connection_drain(connection);
        lose_connection(subchannel, "too many calls were cancelled on the connection");
    } else if (subchannel->state == PK_CHANNEL_READY) {
        host->turned(host);
    }
}

static void on_gone(pk_connection_host *connections, pk_connection *connection)
{
    pk_subchannel_host *host = (pk_subchannel_host *) connections;
    pk_subchannel *subchannel = connection->user;
    if (host->ring == connection)
        host->ring = connection->next == connection ? NULL : connection->next;
    connection->next->previous = connection->previous;
    connection->previous->next = connection->next;
    host->connection_count--;
    if (subchannel)
        lose_connection(subchannel, connection->why);
    host->gone(host);
}

/* ---- Hosts ---- */

void pk_subchannel_host_init(pk_subchannel_host *host, pk_loop *loop)
{
    *host = (pk_subchannel_host){
        .connections = {.loop = loop, .client = true, .turned = on_turned, .gone = on_gone}};
}

void pk_subchannel_host_tick(pk_subchannel_host *host)
{
    pk_connection *connection = host->ring;
    for (size_t left = host->connection_count; left > 0; left--) {
        pk_connection *next = connection->next;
        pk_connection_tick(connection);
        connection = next;
    }
}

bool pk_subchannel_host_quiet(const pk_subchannel_host *host)
{
    const pk_connection *connection = host->ring;
    for (size_t left = host->connection_count; left > 0; left--, connection = connection->next) {
        if (connection->exchanges.session.stream_count > 0)
            return false;
    }
    return true;
}

void pk_subchannel_host_close(pk_subchannel_host *host, const char *why)
{
    pk_connection *connection = host->ring;
    for (size_t left = host->connection_count; left > 0; left--) {
        pk_connection *next = connection->next;
        pk_connection_free(connection, why);
        connection = next;
    }
}

/* ---- Subchannels ---- */

pk_subchannel *pk_subchannel_new(pk_subchannel_host *host, pk_addresses *addresses_take)
{
    pk_subchannel *subchannel = pk_memory_get(&host->connections.loop->memory, sizeof *subchannel);
    if (!subchannel)
        return NULL;
    *subchannel = (pk_subchannel){.host = host,
                                  .state = PK_CHANNEL_IDLE,
                                  .addresses = addresses_take,
                                  .fd = -1,
                                  .timer.fire = on_timer,
                                  .backoff = host->backoff};
    /* Each pauses in its own way, though all began at once. */
    subchannel->backoff.random ^= pk_backoff_random(&host->backoff) >> 1;
    subchannel->backoff.random |= 1;
    return subchannel;
}

pk_subchannel *pk_subchannel_free(pk_subchannel *subchannel)
{
    if (!subchannel)
        return NULL;
    pk_memory *memory = &subchannel->host->connections.loop->memory;
    pk_connection *connection = let_go(subchannel);
    stop_attempt(subchannel);
    if (connection && subchannel->state == PK_CHANNEL_READY)
        pk_connection_drain(connection);
    else if (connection)
        pk_connection_kill(connection, "the address is no longer wanted");
    pk_addresses_free(memory, subchannel->addresses);
    pk_memory_put(memory, subchannel, sizeof *subchannel);
    return NULL;
}

void pk_subchannel_set_addresses(pk_subchannel *subchannel, pk_addresses *addresses_take)
{
    pk_addresses_free(&subchannel->host->connections.loop->memory, subchannel->addresses);
    subchannel->addresses = addresses_take;
    subchannel->address = 0;
}

void pk_subchannel_connect(pk_subchannel *subchannel)
{
    if (subchannel->state != PK_CHANNEL_IDLE && subchannel->state != PK_CHANNEL_TRANSIENT_FAILURE)
        return;
    pk_timer_stop(subchannel->host->connections.loop, &subchannel->timer);
    subchannel->address = 0;
    subchannel->state = PK_CHANNEL_CONNECTING;
    try_address(subchannel);
}

void pk_subchannel_reset_backoff(pk_subchannel *subchannel)
{
    pk_backoff_reset(&subchannel->backoff);
    if (subchannel->state != PK_CHANNEL_TRANSIENT_FAILURE || subchannel->timer.place == 0)
        return;
    pk_timer_stop(subchannel->host->connections.loop, &subchannel->timer);
    subchannel->host->rested(subchannel->host, subchannel);
}
