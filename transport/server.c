/* Servers: listeners, the list of connections, limits, the graceful stop. See pekoe/server.h. */
#include "transport/server.h"

#include "handlers/router.h"

#include <string.h>
#include <unistd.h>

#define ACCEPTS_PER_EVENT 64 /* then the loop's other work has its turn */
#define SEND_BUDGET_SHARE 8  /* an eighth of a connection's bytes may lie in streams that wait */
#define QUEUED_FRAMES 4096u  /* that may wait for a peer which does not read */
#define NANOSECONDS_PER_MS UINT64_C(1000000)

/* One pk_server_stop. */
struct pk_stop {
    struct pk_stop *next;
    pk_promise *promise;
};

/* ---- Options ---- */

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value ? value : standard;
}

static unsigned ticks(uint32_t milliseconds, uint32_t standard)
{
    uint32_t time = or_default(milliseconds, standard);
    return time == PK_NEVER ? 0 : 1 + (time - 1) / PK_SERVER_TICK_MS;
}

static void apply(pk_server *server, const pk_server_opts *opts)
{
    pk_connection_host *host = &server->host;
    server->reuse_port = opts->reuse_port;
    server->backlog = opts->backlog > 0 ? opts->backlog : 511;
    server->max_connections = or_default(opts->max_connections, 65536);
    host->http1 = !opts->http2_only;
    host->securing_max = or_default(opts->max_handshakes, 1024);
    host->header_bytes = or_default(opts->header_bytes, 8192);
    host->budget = opts->connection_bytes ? opts->connection_bytes : 16u << 20;
    host->bytes.limit = opts->server_bytes ? opts->server_bytes : 256u << 20;
    host->bytes.share = host->bytes.limit;
    host->idle_ticks = ticks(opts->idle_timeout_ms, 30 * 60 * 1000);
    host->header_ticks = ticks(opts->header_timeout_ms, 10 * 1000);
    host->body_ticks = ticks(opts->body_timeout_ms, PK_NEVER);
    host->stall_ticks = ticks(opts->stall_timeout_ms, 5 * 60 * 1000);
    host->limits = (pk_http2_limits){
        .max_streams = or_default(opts->max_streams, 256),
        .stream_window = or_default(opts->stream_window, 2u << 20),
        .connection_window = or_default(opts->connection_window, 8u << 20),
        .header_bytes = or_default(opts->header_bytes_max, 65536),
        .resets = or_default(opts->resets, 1000),
        .resets_per_second = or_default(opts->resets_per_second, 33),
        .glitches = or_default(opts->pings, 1000),
        .queued_frames = QUEUED_FRAMES,
        .send_budget = host->budget / SEND_BUDGET_SHARE,
    };
    if (host->limits.stream_window > INT32_MAX)
        host->limits.stream_window = INT32_MAX;
    if (host->limits.connection_window > INT32_MAX)
        host->limits.connection_window = INT32_MAX;
    if (host->limits.connection_window < 65535)
        host->limits.connection_window = 65535; /* the protocol's own start, it cannot shrink */
    if (host->limits.header_bytes < host->header_bytes)
        host->limits.header_bytes = (uint32_t) host->header_bytes;
}

/* ---- Connections ---- */

/* The last quarter of the bytes is kept in equal parts, one for each connection. */
static void settle_share(pk_server *server)
{
    pk_byte_budget *bytes = &server->host.bytes;
    size_t kept = bytes->limit - pk_byte_budget_most(bytes), count = server->connection_count;
    bytes->share = count > 1 ? kept / count : bytes->limit;
}

static void resume_listeners(pk_server *server)
{
    for (pk_listener *listener = server->listeners; listener; listener = listener->next) {
        if (listener->paused && server->connection_count < server->max_connections) {
            listener->paused = false;
            pk_watch_set(&listener->watch, true, false);
        }
    }
}

static void settle_stops(pk_server *server)
{
    pk_loop *loop = server->host.loop;
    struct pk_stop *stop = pk_steal(&server->stops);
    while (stop) {
        struct pk_stop *next = stop->next;
        pk_promise *promise = stop->promise;
        pk_memory_put(&loop->memory, stop, sizeof *stop);
        pk_promise_done(promise, NULL);
        stop = next;
    }
}

static void free_server(pk_server *server)
{
    pk_loop *loop = server->host.loop;
    pk_timer_stop(loop, &server->tick);
    pk_timer_stop(loop, &server->drain);
    pk_buffer_unref(server->host.read_buffer);
    settle_stops(server);
    pk_router_free(server->router);
    pk_memory_put(&loop->memory, server, sizeof *server);
}

/* The connection leaves the ring. */
static void step_over(struct pk_server_walk *walk, const pk_connection *connection)
{
    if (walk->next == connection)
        walk->next = connection == walk->last ? NULL : connection->next;
    if (walk->last == connection)
        walk->last = connection->previous;
}

static void connection_gone(pk_connection_host *host, pk_connection *connection)
{
    pk_server *server = (pk_server *) ((char *) host - offsetof(pk_server, host));
    for (struct pk_server_walk *walk = server->walks; walk; walk = walk->outer)
        step_over(walk, connection);
    if (server->connections == connection)
        server->connections = connection->next == connection ? NULL : connection->next;
    connection->next->previous = connection->previous;
    connection->previous->next = connection->next;
    server->connection_count--;
    settle_share(server);
    resume_listeners(server);
    if (server->connection_count > 0)
        return;
    pk_timer_stop(host->loop, &server->tick);
    if (server->freed) {
        free_server(server);
    } else if (server->stopping) {
        pk_timer_stop(host->loop, &server->drain);
        settle_stops(server);
    }
}

static void add_connection(pk_server *server, pk_connection *connection)
{
    if (server->connections) {
        connection->next = server->connections;
        connection->previous = server->connections->previous;
        connection->next->previous = connection->previous->next = connection;
    } else {
        server->connections = connection->next = connection->previous = connection;
    }
    server->connection_count++;
    settle_share(server);
}

int pk_server_adopt(pk_server *server, int fd, const char *peer,
                    const pk_server_credentials *credentials)
{
    pk_connection *connection;
    pk_tls *tls = NULL;
    if (server->stopping)
        return PK_ERR_STATE;
    int r = pk_socket_prepare(fd);
    if (r == 0 && server->tick.place == 0)
        r = pk_timer_start(server->host.loop, &server->tick,
                           PK_SERVER_TICK_MS * NANOSECONDS_PER_MS);
    if (r == 0 && credentials)
        r = pk_tls_accept(&tls, server->host.loop, credentials, server->host.http1);
    if (r == 0)
        r = pk_connection_new(&connection, &server->host, fd, peer, tls);
    if (r < 0) {
        pk_tls_free(tls);
        return r;
    }
    add_connection(server, connection);
    return 0;
}

/* Runs `visit` on each connection; it may free any of them: a handler may free the server. */
static void for_each(pk_server *server, void (*visit)(pk_connection *connection))
{
    pk_connection *first = server->connections;
    struct pk_server_walk walk = {server->walks, first, first ? first->previous : NULL};
    server->walks = &walk;
    while (walk.next) {
        pk_connection *connection = walk.next;
        walk.next = connection == walk.last ? NULL : connection->next;
        visit(connection);
    }
    server->walks = walk.outer;
}

static size_t smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

/*
 * Peers that take nothing must not have everybody else's calls refused: where most of the server's
 * bytes are taken, streams that stand still go from connections that hold more than the average, and
 * then such connections where hardly anything moves.
 */
static void make_room(pk_server *server)
{
    pk_byte_budget *bytes = &server->host.bytes;
    size_t used = bytes->used, most = pk_byte_budget_most(bytes), count = server->connection_count;
    size_t average = count > 0 ? used / count : 0;
    pk_connection *connection = server->connections;
    for (; count > 0; count--, connection = connection->next) {
        size_t burden = pk_connection_burden(connection);
        if (used > most && pk_connection_waiting(connection) > average)
            used -= smaller(pk_connection_shed(connection, average), used);
        if (used > most && burden > average) {
            pk_connection_kill(connection, "the peer takes too little while memory is short");
            used -= smaller(burden, used);
        }
    }
}

static void on_tick(pk_timer *timer)
{
    pk_server *server = (pk_server *) ((char *) timer - offsetof(pk_server, tick));
    make_room(server);
    for_each(server, pk_connection_tick);
    resume_listeners(server);
    bool paused = false;
    for (const pk_listener *listener = server->listeners; listener; listener = listener->next)
        paused |= listener->paused;
    if ((server->connection_count > 0 || paused) &&
        pk_timer_start(server->host.loop, timer, PK_SERVER_TICK_MS * NANOSECONDS_PER_MS) < 0)
        pk_log(server->host.loop, PK_LOG_WARNING, "out of memory: time limits are not checked");
}

/* ---- Listening ---- */

static void on_listener(pk_watch *watch, bool readable, bool writable)
{
    pk_listener *listener = (pk_listener *) ((char *) watch - offsetof(pk_listener, watch));
    pk_server *server = listener->server;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        char peer[PK_ADDRESS_TEXT];
        int fd, r = PK_ERR_LIMIT;
        if (server->connection_count < server->max_connections)
            r = pk_socket_accept(listener->fd, &fd, peer);
        if (r == PK_ERR_TOO_LATE)
            return;
        if (r < 0) {
            /* It stays readable: do not spin, look again at the next tick. */
            pk_log(server->host.loop, PK_LOG_WARNING, "%s: cannot accept: %s", listener->bound,
                   pk_error_text(r));
            listener->paused = true;
            pk_watch_set(watch, false, false);
            if (server->tick.place == 0 &&
                pk_timer_start(server->host.loop, &server->tick,
                               PK_SERVER_TICK_MS * NANOSECONDS_PER_MS) < 0) {
                listener->paused = false;
                pk_watch_set(watch, true, false);
            }
            return;
        }
        if (pk_server_adopt(server, fd, peer, listener->credentials) < 0)
            pk_socket_close(fd);
    }
}

static int open_listener(pk_server *server, const char *address, pk_server_credentials *credentials,
                         const char **ret_bound)
{
    pk_loop *loop = server->host.loop;
    pk_assert_owner(loop);
    if (server->stopping)
        return PK_ERR_STATE;
    pk_listener *listener = pk_memory_get(&loop->memory, sizeof *listener);
    if (!listener)
        return PK_ERR_NOMEM;
    *listener = (pk_listener){.server = server, .next = server->listeners};
    int r = pk_socket_listen(address, server->reuse_port, server->backlog, &listener->fd,
                             listener->bound);
    if (r < 0) {
        pk_memory_put(&loop->memory, listener, sizeof *listener);
        return r;
    }
    if (credentials)
        listener->credentials = pk_server_credentials_ref(credentials);
    server->listeners = listener;
    pk_watch_init(&listener->watch, loop, listener->fd, on_listener);
    pk_watch_set(&listener->watch, true, false);
    if (ret_bound)
        *ret_bound = listener->bound;
    return 0;
}

int pk_server_listen(pk_server *server, const char *address, const char **ret_bound)
{
    return open_listener(server, address, NULL, ret_bound);
}

int pk_server_listen_tls(pk_server *server, const char *address, pk_server_credentials *credentials,
                         const char **ret_bound)
{
    return open_listener(server, address, credentials, ret_bound);
}

int pk_server_set_credentials(pk_server *server, const char *bound,
                              pk_server_credentials *credentials)
{
    int r = PK_ERR_INVALID;
    pk_assert_owner(server->host.loop);
    for (pk_listener *listener = server->listeners; listener; listener = listener->next) {
        if (!listener->credentials || (bound && strcmp(bound, listener->bound) != 0))
            continue;
        pk_server_credentials *old = listener->credentials;
        listener->credentials = pk_server_credentials_ref(credentials);
        pk_server_credentials_unref(old);
        r = 0;
    }
    return r;
}

static void close_listeners(pk_server *server)
{
    for (pk_listener *listener = server->listeners; listener; listener = listener->next) {
        if (listener->fd < 0)
            continue;
        pk_watch_set(&listener->watch, false, false);
        pk_socket_close(listener->fd);
        listener->fd = -1;
        listener->paused = false;
        if (strncmp(listener->bound, "unix:", 5) == 0)
            unlink(listener->bound + 5);
    }
}

/* ---- Life ---- */

static void kill_one(pk_connection *connection)
{
    pk_connection_kill(connection, "the server stops");
}

static void free_one(pk_connection *connection)
{
    pk_connection_free(connection, "the server is freed");
}

static void on_drain_over(pk_timer *timer)
{
    pk_server *server = (pk_server *) ((char *) timer - offsetof(pk_server, drain));
    for_each(server, kill_one);
}

int pk_server_new(pk_server **ret_server, pk_loop *loop, const pk_server_opts *opts_in)
{
    pk_assert_owner(loop);
    /* A caller of another version has a shorter or longer struct. */
    pk_server_opts opts = {.size = sizeof opts};
    if (opts_in)
        memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    pk_server *server = pk_memory_get(&loop->memory, sizeof *server);
    if (!server)
        return PK_ERR_NOMEM;
    *server = (pk_server){.host = {.loop = loop, .gone = connection_gone},
                          .tick.fire = on_tick,
                          .drain.fire = on_drain_over};
    int r = pk_router_new(&server->router, loop, opts.calls);
    if (r < 0) {
        pk_memory_put(&loop->memory, server, sizeof *server);
        return r;
    }
    server->acceptor = pk_router_acceptor(server->router);
    server->host.acceptor = &server->acceptor;
    apply(server, &opts);
    *ret_server = server;
    return 0;
}

pk_router *pk_server_router(pk_server *server)
{
    return server->router;
}

void pk_server_set_acceptor(pk_server *server, const pk_acceptor *acceptor)
{
    server->acceptor = *acceptor;
}

pk_future pk_server_stop(pk_server *server, uint64_t drain_ms)
{
    pk_loop *loop = server->host.loop;
    pk_assert_owner(loop);
    bool first = !server->stopping;
    server->stopping = true;
    close_listeners(server);
    if (first)
        for_each(server, pk_connection_drain);
    if (server->connection_count == 0)
        return pk_done(NULL);

    struct pk_stop *stop = pk_memory_get(&loop->memory, sizeof *stop);
    pk_promise *promise = stop ? pk_promise_new(pk_loop_scope(loop)) : NULL;
    uint64_t due;
    if (__builtin_mul_overflow(drain_ms, NANOSECONDS_PER_MS, &due) ||
        __builtin_add_overflow(due, pk_loop_now(loop), &due))
        due = UINT64_MAX;
    bool sooner = server->drain.place == 0 || due < server->drain.due;
    /* Without memory there is no waiting. */
    if (!promise || (sooner && pk_timer_start_at(loop, &server->drain, due) < 0))
        for_each(server, kill_one);
    if (!promise) {
        if (stop)
            pk_memory_put(&loop->memory, stop, sizeof *stop);
        return pk_promise_future(NULL);
    }
    *stop = (struct pk_stop){.next = server->stops, .promise = promise};
    server->stops = stop;
    return pk_promise_future(promise);
}

pk_server *pk_server_free(pk_server *server)
{
    if (!server)
        return NULL;
    pk_loop *loop = server->host.loop;
    pk_assert_owner(loop);
    server->stopping = true;
    close_listeners(server);
    while (server->listeners) {
        pk_listener *listener = server->listeners;
        server->listeners = listener->next;
        pk_server_credentials_unref(listener->credentials);
        pk_memory_put(&loop->memory, listener, sizeof *listener);
    }
    for_each(server, free_one);
    if (server->connection_count == 0)
        free_server(server);
    else
        server->freed = true; /* this is a handler of the connection that is left */
    return NULL;
}
