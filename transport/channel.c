/*
 * The channel over sockets: one connection to one of the target's addresses, the queue of calls
 * that wait for it, back-off, states. See pekoe/channel.h; handlers see it through core/channel.h.
 *
 * A connection counts as ready once the server's SETTINGS have come, so that no call meets a limit
 * that is not known yet. One that the server asks to leave (GOAWAY) retires: its calls go on, new
 * ones go to the next connection.
 */

#include <pekoe/channel.h>

#include "transport/channel_state.h"
#include "transport/connection.h"
#include "transport/resolver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NANOSECONDS_PER_MS UINT64_C(1000000)
#define TICK_MS 1000u
#define USER_AGENT "grpc-c-pekoe/0.1"

typedef struct socket_channel socket_channel;

struct socket_channel {
    pk_channel base; /* first: the way back from it */
    pk_connection_host host;
    char *texts; /* target, authority, user agent; owned */
    size_t texts_size;
    const char *name;    /* "host:port" that is resolved for each attempt; NULL: a list */
    const char *servers; /* name servers; in texts; NULL: the system's */
    pk_resolver *resolver;
    char *resolved; /* what `addresses` points into, of a name */
    size_t resolved_size;
    const char **addresses;
    size_t address_count;
    size_t address;            /* the one that is tried */
    pk_opening *queue;         /* ring of calls that wait; NULL: none */
    pk_connection *connection; /* new calls go there, or will once it is ready; NULL: none */
    size_t connection_count;
    pk_connection *connections; /* ring of all, retired ones included */
    int fd;                     /* of an attempt that waits for the peer; -1: none */
    char peer[PK_ADDRESS_TEXT];
    pk_watch watch;
    pk_timer tick;  /* once a second while there is a connection */
    pk_timer timer; /* an attempt's time, or a pause's */
    uint64_t attempt_time, backoff_initial, backoff_max; /* nanoseconds */
    uint64_t backoff;                                    /* the next pause */
    uint32_t random;
    char failure[160]; /* of the last attempt */
};

static socket_channel *of_host(pk_connection_host *host)
{
    return (socket_channel *) ((char *) host - offsetof(socket_channel, host));
}

static void try_address(socket_channel *channel);

static void do_free(pk_channel *base)
{
    socket_channel *channel = (socket_channel *) base;
    pk_memory *memory = &base->loop->memory;
    pk_channel_done(base);
    pk_buffer_unref(channel->host.read_buffer);
    pk_memory_put(memory, channel->addresses, channel->address_count * sizeof *channel->addresses);
    pk_memory_put(memory, channel->resolved, channel->resolved_size);
    pk_memory_put(memory, channel->texts, channel->texts_size);
    pk_memory_put(memory, channel, sizeof *channel);
}

/* ---- The queue ---- */

static void enqueue(socket_channel *channel, pk_opening *opening)
{
    opening->waiting = true;
    if (!channel->queue) {
        channel->queue = opening->next = opening->previous = opening;
        return;
    }
    opening->next = channel->queue;
    opening->previous = channel->queue->previous;
    opening->next->previous = opening->previous->next = opening;
}

static void dequeue(socket_channel *channel, pk_opening *opening)
{
    opening->waiting = false;
    if (channel->queue == opening)
        channel->queue = opening->next == opening ? NULL : opening->next;
    opening->next->previous = opening->previous;
    opening->previous->next = opening->next;
}

/* Opens one on the ready connection. */
static void open_now(socket_channel *channel, pk_opening *opening)
{
    static const pk_status no_memory = {
        PK_RESOURCE_EXHAUSTED, {(const uint8_t *) "out of memory", 13}, {NULL, 0}};
    pk_opening_head head;
    if (!opening->head(opening, &head))
        return;
    pk_exchange *exchange;
    int r = pk_http2_exchange_open(&channel->connection->exchanges, head.fields, head.count, true,
                                   opening->events, opening->user, &exchange);
    if (r == 0)
        opening->opened(opening, exchange);
    else if (r == PK_ERR_CLOSED)
        enqueue(channel, opening); /* the turn's end sees that the connection retires */
    else
        opening->failed(opening, &no_memory);
}

static bool has_room(const socket_channel *channel)
{
    return channel->connection && channel->base.state == PK_CHANNEL_READY &&
           !channel->connection->dead &&
           pk_http2_room_for_streams(&channel->connection->exchanges.session) > 0;
}

static void open_waiting(socket_channel *channel)
{
    while (channel->queue && has_room(channel)) {
        pk_opening *opening = channel->queue;
        dequeue(channel, opening);
        open_now(channel, opening);
    }
}

/* Fails those that wait: all, or those that do not wait for ready. */
static void fail_waiting(socket_channel *channel, bool all, const char *text)
{
    const pk_status why = {PK_UNAVAILABLE, {(const uint8_t *) text, strlen(text)}, {NULL, 0}};
    pk_opening *keep = NULL;
    while (channel->queue && channel->queue != keep) {
        pk_opening *opening = channel->queue;
        if (!all && opening->wait_for_ready) {
            if (!keep)
                keep = opening;
            channel->queue = opening->next;
            continue;
        }
        dequeue(channel, opening);
        opening->failed(opening, &why);
    }
}

/* ---- What takes too long ---- */

static unsigned ticks(uint32_t milliseconds, uint32_t standard)
{
    uint32_t time = milliseconds ? milliseconds : standard;
    return time == UINT32_MAX ? 0 : 1 + (time - 1) / TICK_MS;
}

static void on_tick(pk_timer *timer)
{
    socket_channel *channel = (socket_channel *) ((char *) timer - offsetof(socket_channel, tick));
    size_t left = channel->connection_count;
    channel->base.references++;
    for (pk_connection *one = channel->connections; left > 0; left--) {
        pk_connection *next = one->next;
        pk_connection_tick(one);
        one = next;
    }
    if (channel->connection_count > 0 &&
        pk_timer_start(channel->base.loop, timer, TICK_MS * NANOSECONDS_PER_MS) < 0)
        pk_log(channel->base.loop, PK_LOG_WARNING, "out of memory: time limits are not checked");
    pk_channel_unref(&channel->base);
}

/* ---- Connecting ---- */

static uint64_t jitter(socket_channel *channel, uint64_t time)
{
    /* xorshift32; 80 % to 120 % */
    channel->random ^= channel->random << 13;
    channel->random ^= channel->random >> 17;
    channel->random ^= channel->random << 5;
    return time / 10 * 8 + (uint64_t) ((double) time * 0.4 * (channel->random / 4294967296.0));
}

static void stop_attempt(socket_channel *channel)
{
    pk_timer_stop(channel->base.loop, &channel->timer);
    channel->resolver = pk_resolver_cancel(channel->resolver);
    if (channel->fd < 0)
        return;
    pk_watch_set(&channel->watch, false, false);
    pk_socket_close(channel->fd);
    channel->fd = -1;
}

/* All addresses have failed: pause, and tell those that do not wait. */
static void begin_pause(socket_channel *channel)
{
    pk_loop *loop = channel->base.loop;
    pk_channel_set_state(&channel->base, PK_CHANNEL_TRANSIENT_FAILURE);
    uint64_t pause = jitter(channel, channel->backoff);
    channel->backoff = channel->backoff + channel->backoff / 10 * 6;
    if (channel->backoff > channel->backoff_max)
        channel->backoff = channel->backoff_max;
    if (pk_timer_start(loop, &channel->timer, pause) < 0)
        pk_log(loop, PK_LOG_WARNING, "out of memory: no further attempt to connect");
    channel->base.references++;
    fail_waiting(channel, false, channel->failure);
    pk_channel_unref(&channel->base);
}

static void attempt_failed(socket_channel *channel, const char *address, const char *reason)
{
    stop_attempt(channel);
    snprintf(channel->failure, sizeof channel->failure, "cannot connect to %s: %s", address,
             reason);
    pk_log(channel->base.loop, PK_LOG_DEBUG, "%s", channel->failure);
    if (++channel->address < channel->address_count)
        try_address(channel);
    else
        begin_pause(channel);
}

/* Addresses of a name, in memory of the channel's own; the old ones go. False without memory. */
static bool keep_resolved(socket_channel *channel, const pk_resolved *result)
{
    pk_memory *memory = &channel->base.loop->memory;
    size_t size = 0;
    for (size_t i = 0; i < result->count; i++)
        size += strlen(result->addresses[i]) + 1;
    const char **addresses = pk_memory_get(memory, result->count * sizeof *addresses);
    char *at = pk_memory_get(memory, size);
    if (!addresses || !at) {
        pk_memory_put(memory, addresses, result->count * sizeof *addresses);
        pk_memory_put(memory, at, size);
        return false;
    }
    pk_memory_put(memory, channel->addresses, channel->address_count * sizeof *addresses);
    pk_memory_put(memory, channel->resolved, channel->resolved_size);
    channel->addresses = addresses;
    channel->address_count = result->count;
    channel->resolved = at;
    channel->resolved_size = size;
    for (size_t i = 0; i < result->count; i++) {
        addresses[i] = at;
        at = stpcpy(at, result->addresses[i]) + 1;
    }
    return true;
}

static void on_resolved(void *arg, const pk_resolved *result)
{
    socket_channel *channel = arg;
    channel->resolver = NULL; /* it goes by itself */
    if (result->count > 0 && keep_resolved(channel, result)) {
        try_address(channel);
        return;
    }
    snprintf(channel->failure, sizeof channel->failure, "cannot resolve %s: %s", channel->name,
             result->count > 0 ? "out of memory" : result->problem);
    begin_pause(channel);
}

static void begin_connect(socket_channel *channel)
{
    channel->address = 0;
    pk_channel_set_state(&channel->base, PK_CHANNEL_CONNECTING);
    if (!channel->name) {
        try_address(channel);
        return;
    }
    int r = pk_resolver_start(&channel->resolver, channel->base.loop, channel->name,
                              channel->servers, on_resolved, channel);
    if (r == 0)
        return;
    snprintf(channel->failure, sizeof channel->failure, "cannot resolve %s: %s", channel->name,
             pk_error_text(r));
    begin_pause(channel);
}

/* The socket is connected: its session begins, and is ready with the server's SETTINGS. */
static void add_connection(socket_channel *channel)
{
    pk_connection *connection;
    int fd = channel->fd;
    pk_watch_set(&channel->watch, false, false);
    channel->fd = -1;
    int r = pk_socket_prepare(fd);
    if (r == 0 && channel->tick.place == 0)
        r = pk_timer_start(channel->base.loop, &channel->tick, TICK_MS * NANOSECONDS_PER_MS);
    if (r == 0)
        r = pk_connection_new(&connection, &channel->host, fd, channel->peer);
    if (r < 0) {
        pk_socket_close(fd);
        attempt_failed(channel, channel->addresses[channel->address], pk_error_text(r));
        return;
    }
    if (channel->connections) {
        connection->next = channel->connections;
        connection->previous = channel->connections->previous;
        connection->next->previous = connection->previous->next = connection;
    } else {
        channel->connections = connection->next = connection->previous = connection;
    }
    channel->base.references++;
    channel->connection_count++;
    channel->connection = connection;
}

static void on_connected(pk_watch *watch, bool readable, bool writable)
{
    socket_channel *channel = (socket_channel *) ((char *) watch - offsetof(socket_channel, watch));
    int error = pk_socket_connected(channel->fd);
    if (error == 0)
        add_connection(channel);
    else
        attempt_failed(channel, channel->addresses[channel->address], strerror(error));
}

static void try_address(socket_channel *channel)
{
    pk_loop *loop = channel->base.loop;
    const char *address = channel->addresses[channel->address];
    int r = pk_socket_connect(address, &channel->fd, channel->peer);
    if (r < 0) {
        channel->fd = -1;
        attempt_failed(channel, address,
                       r == PK_ERR_SYSTEM ? strerror(errno) : "the name has no address");
        return;
    }
    pk_watch_init(&channel->watch, loop, channel->fd, on_connected);
    pk_watch_set(&channel->watch, false, true);
    if (pk_timer_start(loop, &channel->timer, channel->attempt_time) < 0)
        attempt_failed(channel, address, "out of memory");
}

/* An attempt takes too long, or a pause is over. */
static void on_timer(pk_timer *timer)
{
    socket_channel *channel = (socket_channel *) ((char *) timer - offsetof(socket_channel, timer));
    if (channel->base.state == PK_CHANNEL_TRANSIENT_FAILURE) {
        begin_connect(channel);
    } else if (channel->connection) {
        pk_connection *slow = channel->connection;
        channel->connection = NULL;
        pk_connection_kill(slow, "no SETTINGS came in time");
        attempt_failed(channel, channel->addresses[channel->address], "no SETTINGS came in time");
    } else {
        attempt_failed(channel, channel->addresses[channel->address], "no answer in time");
    }
}

/* ---- What connections tell ---- */

/* New calls need another connection. */
static void lose_connection(socket_channel *channel)
{
    channel->connection = NULL;
    if (channel->base.freed)
        return;
    pk_channel_set_state(&channel->base, PK_CHANNEL_IDLE);
    if (channel->queue)
        begin_connect(channel);
}

static void turned(pk_connection_host *host, pk_connection *connection)
{
    socket_channel *channel = of_host(host);
    const pk_http2_session *session = &connection->exchanges.session;
    if (connection != channel->connection || connection->dead)
        return;
    if (channel->base.state == PK_CHANNEL_CONNECTING && session->greeted) {
        pk_timer_stop(host->loop, &channel->timer);
        channel->backoff = channel->backoff_initial;
        pk_channel_set_state(&channel->base, PK_CHANNEL_READY);
    }
    if (session->peer_goes_away) {
        bool was_ready = channel->base.state == PK_CHANNEL_READY;
        channel->connection = NULL;
        if (session->peer_error == PK_HTTP2_ENHANCE_YOUR_CALM &&
            host->keepalive_ticks < UINT32_MAX / 4)
            host->keepalive_ticks *= 2;
        if (was_ready)
            lose_connection(channel);
        else
            attempt_failed(channel, connection->peer, "the server goes away");
        return;
    }
    open_waiting(channel);
}

static void connection_gone(pk_connection_host *host, pk_connection *connection)
{
    socket_channel *channel = of_host(host);
    if (channel->connections == connection)
        channel->connections = connection->next == connection ? NULL : connection->next;
    connection->next->previous = connection->previous;
    connection->previous->next = connection->next;
    if (--channel->connection_count == 0)
        pk_timer_stop(host->loop, &channel->tick);
    if (channel->connection == connection) {
        bool was_ready = channel->base.state == PK_CHANNEL_READY;
        channel->connection = NULL;
        if (was_ready)
            lose_connection(channel);
        else if (!channel->base.freed)
            attempt_failed(channel, connection->peer, connection->why);
    }
    pk_channel_unref(&channel->base);
}

/* ---- What calls ask ---- */

static void do_open(pk_channel *base, pk_opening *opening)
{
    socket_channel *channel = (socket_channel *) base;
    if (PK_LIKELY(!channel->queue && has_room(channel))) {
        open_now(channel, opening);
        return;
    }
    enqueue(channel, opening);
    if (channel->base.state == PK_CHANNEL_IDLE) {
        begin_connect(channel);
    } else if (channel->base.state == PK_CHANNEL_TRANSIENT_FAILURE && !opening->wait_for_ready) {
        const pk_status why = {PK_UNAVAILABLE,
                               {(const uint8_t *) channel->failure, strlen(channel->failure)},
                               {NULL, 0}};
        dequeue(channel, opening);
        opening->failed(opening, &why);
    }
}

static void do_withdraw(pk_channel *base, pk_opening *opening)
{
    dequeue((socket_channel *) base, opening);
}

static void do_close(pk_channel *base)
{
    socket_channel *channel = (socket_channel *) base;
    stop_attempt(channel);
    fail_waiting(channel, true, "the channel was freed");
    channel->connection = NULL;
    pk_connection *connection = channel->connections;
    for (size_t left = channel->connection_count; left > 0; left--) {
        pk_connection *next = connection->next;
        pk_connection_free(connection, "the channel was freed");
        connection = next;
    }
}

static void do_connect(pk_channel *base)
{
    if (base->state == PK_CHANNEL_IDLE)
        begin_connect((socket_channel *) base);
}

static void do_reset_backoff(pk_channel *base)
{
    socket_channel *channel = (socket_channel *) base;
    channel->backoff = channel->backoff_initial;
    if (base->state == PK_CHANNEL_TRANSIENT_FAILURE) {
        pk_timer_stop(base->loop, &channel->timer);
        begin_connect(channel);
    }
}

static const pk_channel_ops operations = {.open = do_open,
                                          .withdraw = do_withdraw,
                                          .connect = do_connect,
                                          .reset_backoff = do_reset_backoff,
                                          .close = do_close,
                                          .free = do_free};

/* ---- Making one ---- */

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value ? value : standard;
}

static void apply(socket_channel *channel, const pk_channel_opts *opts)
{
    channel->base.receive_limit = opts->receive_limit;
    channel->base.send_limit = opts->send_limit;
    channel->base.retry_policies = opts->retry_policies;
    channel->base.retry_policy_count = opts->retry_policy_count;
    channel->base.throttling = opts->retry_throttling;
    channel->base.tokens = opts->retry_throttling.max_tokens;
    channel->base.compress_min_bytes = opts->compress_min_bytes ? opts->compress_min_bytes : 1024;
    channel->attempt_time = or_default(opts->connect_timeout_ms, 20000) * NANOSECONDS_PER_MS;
    channel->backoff_initial = or_default(opts->backoff_initial_ms, 1000) * NANOSECONDS_PER_MS;
    channel->backoff_max = or_default(opts->backoff_max_ms, 120000) * NANOSECONDS_PER_MS;
    channel->backoff = channel->backoff_initial;
    pk_connection_host *host = &channel->host;
    host->keepalive_ticks = ticks(opts->keepalive_ms, UINT32_MAX);
    host->answer_ticks = ticks(opts->keepalive_timeout_ms, 20000);
    host->keepalive_idle = opts->keepalive_idle;
    host->idle_ticks = ticks(opts->idle_timeout_ms, 30 * 60 * 1000);
    host->budget = SIZE_MAX / 2;
    host->bytes.limit = SIZE_MAX / 2;
    uint32_t window = or_default(opts->connection_window, 8u << 20);
    host->limits = (pk_http2_limits){
        .max_streams = 0,
        .stream_window = or_default(opts->stream_window, 2u << 20) & INT32_MAX,
        .connection_window = (window < 65535 ? 65535 : window) & INT32_MAX,
        .header_bytes = or_default(opts->header_bytes, 65536),
        .resets = 1000,
        .resets_per_second = 33,
        .glitches = 1000,
        .queued_frames = 4096,
        .send_budget = 16u << 20,
    };
}

/* Where the addresses begin behind the scheme; NULL: it is none that is known. */
static const char *addresses_of(const char *target)
{
    if (strncmp(target, "unix:", 5) == 0)
        return target;
    if (strncmp(target, "dns:///", 7) == 0)
        return strchr(target, ',') ? NULL : target + 7;
    if (strncmp(target, "ipv4:", 5) == 0 || strncmp(target, "ipv6:", 5) == 0)
        return target + 5;
    return strstr(target, "://") || strchr(target, ',') ? NULL : target;
}

/* Cuts the copied list at its commas. 0 or PK_ERR_*. */
static int split_addresses(socket_channel *channel, char *list)
{
    size_t count = 1;
    for (const char *at = list; *at; at++)
        count += *at == ',';
    channel->addresses =
        pk_memory_get(&channel->base.loop->memory, count * sizeof *channel->addresses);
    if (!channel->addresses)
        return PK_ERR_NOMEM;
    channel->address_count = count;
    memset(channel->addresses, 0, count * sizeof *channel->addresses);
    for (size_t i = 0; i < count; i++) {
        channel->addresses[i] = list;
        list += strcspn(list, ",");
        *list++ = '\0';
        if (!pk_socket_address_valid(channel->addresses[i]))
            return PK_ERR_INVALID;
    }
    return 0;
}

/* Copies of the texts, one behind the other. */
static int copy_texts(socket_channel *channel, const char *target, const pk_channel_opts *opts)
{
    const char *list = addresses_of(target);
    if (!list)
        return PK_ERR_INVALID;
    bool is_unix = strncmp(list, "unix:", 5) == 0;
    size_t first = strcspn(list, ",");
    const char *authority = opts->authority ? opts->authority : is_unix ? "localhost" : list;
    size_t authority_length = opts->authority || is_unix ? strlen(authority) : first;
    size_t agent_length =
        (opts->user_agent ? strlen(opts->user_agent) + 1 : 0) + strlen(USER_AGENT);
    size_t servers_length = opts->dns_servers ? strlen(opts->dns_servers) + 1 : 0;
    channel->texts_size = strlen(list) + 1 + authority_length + agent_length + 1 + servers_length;
    channel->texts = pk_memory_get(&channel->base.loop->memory, channel->texts_size);
    if (!channel->texts)
        return PK_ERR_NOMEM;
    char *at = channel->texts;
    strcpy(at, list);
    at += strlen(list) + 1;
    memcpy(at, authority, authority_length);
    channel->base.authority = (pk_slice){(const uint8_t *) at, authority_length};
    at += authority_length;
    snprintf(at, agent_length + 1, "%s%s" USER_AGENT, opts->user_agent ? opts->user_agent : "",
             opts->user_agent ? " " : "");
    channel->base.user_agent = (pk_slice){(const uint8_t *) at, agent_length};
    at += agent_length + 1;
    if (opts->dns_servers) {
        strcpy(at, opts->dns_servers);
        channel->servers = at;
    }
    int r = split_addresses(channel, channel->texts);
    if (r == 0 && channel->address_count == 1 && !pk_socket_address_numeric(channel->texts))
        channel->name = channel->texts;
    return r;
}

int pk_channel_new(pk_channel **ret_channel, pk_loop *loop, const char *target,
                   const pk_channel_opts *opts_in)
{
    pk_assert_owner(loop);
    pk_channel_opts opts = {.size = sizeof opts};
    if (opts_in)
        memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    socket_channel *channel = pk_memory_get(&loop->memory, sizeof *channel);
    if (!channel)
        return PK_ERR_NOMEM;
    *channel = (socket_channel){
        .base = {.ops = &operations,
                 .loop = loop,
                 .scheme = PK_SLICE("http"),
                 .state = PK_CHANNEL_IDLE,
                 .references = 1},
        .host = {.loop = loop, .client = true, .turned = turned, .gone = connection_gone},
        .fd = -1,
        .timer.fire = on_timer,
        .tick.fire = on_tick,
        .random = (uint32_t) pk_loop_now(loop) | 1,
    };
    apply(channel, &opts);
    int r = copy_texts(channel, target, &opts);
    if (r < 0) {
        pk_channel_unref(&channel->base);
        return r;
    }
    *ret_channel = &channel->base;
    return 0;
}
