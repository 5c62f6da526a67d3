/*
 * The channel over sockets: calls that are opened or wait, the name that is resolved, states. See
 * pekoe/channel.h; handlers see it through core/channel.h. Connections are subchannel.c's, which
 * call goes to which of them balancing.c's, the order of those that wait opening_queue.c's.
 */

#include <pekoe/channel.h>

#include "handlers/service_config.h"
#include "transport/balancing.h"
#include "transport/channel_state.h"
#include "transport/opening_queue.h"
#include "transport/resolver.h"

#include <stdio.h>
#include <string.h>

#define NANOSECONDS_PER_MS UINT64_C(1000000)
#define TICK_MS 1000u
/* Streams of a connection that may be reset before it is left: servers allow 200 in 30 s and more. */
#define RESETS 100u
#define RESETS_PER_SECOND 3u
#define USER_AGENT "grpc-c-pekoe/0.1"

typedef struct socket_channel socket_channel;

struct socket_channel {
    pk_channel base; /* first: the way back from it */
    pk_subchannel_host host;
    pk_balancer balancer;
    char *texts; /* of the target, the authority, the user agent, the name servers; owned */
    size_t texts_size;
    pk_target target;
    const char *servers; /* name servers; in texts; NULL: the system's */
    pk_resolver *resolver;
    pk_timer resolve_timer; /* until the name is to be resolved, or tried again */
    uint64_t resolved_at;   /* when it was last; 0: never */
    uint64_t resolve_interval;
    pk_backoff resolve_backoff;
    pk_opening_queue queue;
    pk_timer tick; /* once a second while it is not idle */
    unsigned idle, idle_ticks;
    char failure[480]; /* of the last attempt, since it was idle or ready; "": none has failed */
};

static socket_channel *of_host(pk_subchannel_host *host)
{
    return (socket_channel *) ((char *) host - offsetof(socket_channel, host));
}

static void begin_connect(socket_channel *channel);

static void do_free(pk_channel *base)
{
    socket_channel *channel = (socket_channel *) base;
    pk_memory *memory = &base->loop->memory;
    pk_channel_done(base);
    pk_timer_stop(base->loop, &channel->tick);
    pk_balancer_clear(&channel->balancer);
    pk_buffer_unref(channel->host.connections.read_buffer);
    pk_tls_target_done(&channel->host.tls);
    pk_memory_put(memory, channel->texts, channel->texts_size);
    pk_memory_put(memory, channel, sizeof *channel);
}

/* ---- Opening ---- */

/* Whether the server has shown that it is whom the call is for (gRFC A81). */
static bool may_be_told(const socket_channel *channel, const pk_subchannel *subchannel,
                        const pk_opening_head *head)
{
    const pk_slice *usual = &channel->base.authority;
    for (size_t i = 0; i < head->count; i++) {
        const pk_slice *name = &head->fields[i].name, *value = &head->fields[i].value;
        if (name->length == 10 && memcmp(name->bytes, ":authority", 10) == 0)
            return (value->length == usual->length &&
                    memcmp(value->bytes, usual->bytes, usual->length) == 0) ||
                   pk_tls_is_named(subchannel->connection->tls, *value);
    }
    return true;
}

/* Opens one on a ready connection. */
static void open_now(socket_channel *channel, pk_subchannel *subchannel, pk_opening *opening)
{
    static const pk_status no_memory = {
        PK_RESOURCE_EXHAUSTED, {(const uint8_t *) "out of memory", 13}, {NULL, 0}};
    static const pk_status misnamed = {
        PK_UNAVAILABLE,
        PK_SLICE("TLS: the server's certificate is not for the call's authority"),
        {NULL, 0}};
    pk_opening_head head;
    if (!opening->head(opening, &head))
        return;
    if (PK_UNLIKELY(channel->host.tls.credentials && !may_be_told(channel, subchannel, &head))) {
        opening->failed(opening, &misnamed);
        return;
    }
    pk_exchange *exchange;
    subchannel->used = true;
    int r = pk_http2_exchange_open(&subchannel->connection->exchanges, head.fields, head.count,
                                   true, opening->events, opening->user, &exchange);
    if (r == 0)
        opening->opened(opening, exchange);
    else if (r == PK_ERR_CLOSED) /* the turn's end sees that the connection retires */
        pk_opening_queue_add(&channel->queue, opening);
    else
        opening->failed(opening, &no_memory);
}

/*
 * Room for a stream appears only in the turn of a connection, and is filled before that is over. So
 * what runs when a call is opened may free the channel: that connection still keeps its memory.
 */
static void open_waiting(socket_channel *channel)
{
    pk_subchannel *subchannel;
    while (channel->queue.first && (subchannel = pk_balancer_pick(&channel->balancer))) {
        pk_opening *opening = channel->queue.first;
        pk_opening_queue_remove(&channel->queue, opening);
        open_now(channel, subchannel, opening);
    }
    if (channel->queue.first)
        pk_balancer_widen(&channel->balancer);
}

/* ---- States ---- */

static void set_failed(socket_channel *channel)
{
    pk_channel_set_state(&channel->base, PK_CHANNEL_TRANSIENT_FAILURE);
    channel->base.references++;
    pk_opening_queue_fail(&channel->queue, false, channel->failure);
    pk_channel_unref(&channel->base);
}

/*
 * What its subchannels are together. While pick_first asks for the name, the addresses of its one are
 * old: it connects when there are others, whatever it was before.
 */
static pk_channel_state state_of(const socket_channel *channel)
{
    pk_channel_state state = pk_balancer_state(&channel->balancer);
    bool asks = channel->resolver && !channel->balancer.round_robin;
    return asks && state != PK_CHANNEL_READY ? PK_CHANNEL_CONNECTING : state;
}

/* Brings the channel's state up to that of its subchannels; without any it is the resolver's. */
static void settle(socket_channel *channel)
{
    if (channel->balancer.busy || channel->base.freed || channel->balancer.count == 0)
        return;
    pk_balancer_settle(&channel->balancer);
    pk_channel_state state = state_of(channel);
    if (state == PK_CHANNEL_TRANSIENT_FAILURE) {
        snprintf(channel->failure, sizeof channel->failure, "%s",
                 pk_balancer_failure(&channel->balancer));
        set_failed(channel);
        return;
    }
    pk_channel_set_state(&channel->base, state);
    if (state == PK_CHANNEL_READY) {
        channel->failure[0] = '\0';
        open_waiting(channel);
    } else if (state == PK_CHANNEL_IDLE && channel->queue.first) {
        begin_connect(channel);
    }
}

/* ---- The name ---- */

static void start_resolver(socket_channel *channel);

static void resolve_after(socket_channel *channel, uint64_t time)
{
    if (pk_timer_start(channel->base.loop, &channel->resolve_timer, time) < 0)
        pk_log(channel->base.loop, PK_LOG_WARNING, "out of memory: the name is not resolved again");
}

/* What there is goes on where there is something; else the channel has failed, for now. */
static void not_resolved(socket_channel *channel, const char *problem)
{
    resolve_after(channel, pk_backoff_pause(&channel->resolve_backoff));
    pk_log(channel->base.loop, PK_LOG_DEBUG, "cannot resolve %s: %s", channel->target.list,
           problem);
    const pk_balancer *balancer = &channel->balancer;
    if (balancer->ready_count > 0 || (balancer->round_robin && balancer->count > 0)) {
        settle(channel);
        return;
    }
    snprintf(channel->failure, sizeof channel->failure, "cannot resolve %s: %s",
             channel->target.list, problem);
    set_failed(channel);
}

static void on_resolved(void *arg, const pk_resolved *result)
{
    socket_channel *channel = arg;
    channel->resolver = NULL; /* it goes by itself */
    channel->resolved_at = pk_loop_now(channel->base.loop);
    if (result->count == 0) {
        not_resolved(channel, result->problem);
    } else if (pk_balancer_update(&channel->balancer, result->addresses, result->count) < 0) {
        not_resolved(channel, "out of memory");
    } else {
        pk_backoff_reset(&channel->resolve_backoff);
        settle(channel);
    }
}

static void start_resolver(socket_channel *channel)
{
    if (channel->resolver)
        return; /* its end is for whoever asks meanwhile, too */
    int r = pk_resolver_start(&channel->resolver, channel->base.loop, channel->target.list,
                              channel->servers, on_resolved, channel);
    if (r < 0)
        not_resolved(channel, pk_error_text(r));
}

/* round_robin: what the name stands for may have changed. At most once in an interval. */
static void resolve_again(socket_channel *channel)
{
    if (!channel->target.name || channel->resolver || channel->resolve_timer.place != 0)
        return;
    uint64_t due = channel->resolved_at + channel->resolve_interval;
    uint64_t now = pk_loop_now(channel->base.loop);
    resolve_after(channel, due > now ? due - now : 0);
}

static void on_resolve_timer(pk_timer *timer)
{
    socket_channel *channel =
        (socket_channel *) ((char *) timer - offsetof(socket_channel, resolve_timer));
    if (channel->target.name && channel->balancer.round_robin && channel->balancer.count > 0)
        start_resolver(channel);
    else
        begin_connect(channel);
}

static void begin_connect(socket_channel *channel)
{
    pk_loop *loop = channel->base.loop;
    if (channel->base.state == PK_CHANNEL_IDLE)
        channel->failure[0] = '\0';
    if (channel->balancer.ready_count == 0)
        pk_channel_set_state(&channel->base, PK_CHANNEL_CONNECTING);
    channel->idle = 0;
    if (channel->tick.place == 0 &&
        pk_timer_start(loop, &channel->tick, TICK_MS * NANOSECONDS_PER_MS) < 0)
        pk_log(loop, PK_LOG_WARNING, "out of memory: time limits are not checked");
    pk_timer_stop(loop, &channel->resolve_timer);
    if (channel->target.name) {
        start_resolver(channel);
        return;
    }
    pk_addresses *addresses = pk_target_addresses(&loop->memory, &channel->target);
    int r = addresses ? pk_balancer_update(&channel->balancer, addresses->items, addresses->count)
                      : PK_ERR_NOMEM;
    pk_addresses_free(&loop->memory, addresses);
    if (r < 0)
        not_resolved(channel, pk_error_text(r));
    else
        settle(channel);
}

/* ---- What subchannels tell ---- */

static void on_changed(pk_subchannel_host *host, pk_subchannel *subchannel)
{
    socket_channel *channel = of_host(host);
    if (channel->base.freed)
        return;
    /* Servers that come and go often do so with their addresses. */
    if (channel->balancer.round_robin &&
        (subchannel->state == PK_CHANNEL_IDLE || subchannel->state == PK_CHANNEL_TRANSIENT_FAILURE))
        resolve_again(channel);
    settle(channel);
}

static void on_rested(pk_subchannel_host *host, pk_subchannel *subchannel)
{
    socket_channel *channel = of_host(host);
    if (subchannel->further) {
        subchannel->leaving = true;
        settle(channel);
    } else if (channel->balancer.round_robin) {
        pk_subchannel_connect(subchannel);
    } else {
        begin_connect(channel);
    }
}

static void on_turned(pk_subchannel_host *host)
{
    socket_channel *channel = of_host(host);
    if (PK_UNLIKELY(channel->queue.first != NULL))
        open_waiting(channel);
}

static void on_added(pk_subchannel_host *host)
{
    of_host(host)->base.references++;
}

static void on_gone(pk_subchannel_host *host)
{
    pk_channel_unref(&of_host(host)->base);
}

/* ---- What takes too long ---- */

static unsigned ticks(uint32_t milliseconds, uint32_t standard)
{
    uint32_t time = milliseconds ? milliseconds : standard;
    return time == UINT32_MAX ? 0 : 1 + (time - 1) / TICK_MS;
}

/* No resolver, no subchannel; connections go on or are to be closed. */
static void stop_all(socket_channel *channel)
{
    pk_timer_stop(channel->base.loop, &channel->resolve_timer);
    channel->resolver = pk_resolver_cancel(channel->resolver);
    pk_balancer_clear(&channel->balancer);
}

static void on_tick(pk_timer *timer)
{
    socket_channel *channel = (socket_channel *) ((char *) timer - offsetof(socket_channel, tick));
    channel->base.references++;
    pk_subchannel_host_tick(&channel->host);
    if (pk_balancer_narrow(&channel->balancer))
        settle(channel);
    bool quiet = !channel->queue.first && pk_subchannel_host_quiet(&channel->host);
    channel->idle = quiet ? channel->idle + 1 : 0;
    if (channel->idle_ticks > 0 && channel->idle > channel->idle_ticks &&
        channel->base.state != PK_CHANNEL_IDLE && !channel->base.freed) {
        stop_all(channel);
        pk_subchannel_host_close(&channel->host, "there was no call");
        pk_channel_set_state(&channel->base, PK_CHANNEL_IDLE);
    }
    bool wanted = channel->host.connection_count > 0 ||
                  (channel->base.state != PK_CHANNEL_IDLE && !channel->base.freed);
    if (wanted && pk_timer_start(channel->base.loop, timer, TICK_MS * NANOSECONDS_PER_MS) < 0)
        pk_log(channel->base.loop, PK_LOG_WARNING, "out of memory: time limits are not checked");
    pk_channel_unref(&channel->base);
}

/* ---- What calls ask ---- */

static void do_open(pk_channel *base, pk_opening *opening)
{
    socket_channel *channel = (socket_channel *) base;
    pk_subchannel *subchannel = channel->queue.first ? NULL : pk_balancer_pick(&channel->balancer);
    channel->idle = 0;
    if (PK_LIKELY(subchannel != NULL)) {
        open_now(channel, subchannel, opening);
        return;
    }
    pk_opening_queue_add(&channel->queue, opening);
    if (base->state == PK_CHANNEL_READY) {
        pk_balancer_widen(&channel->balancer);
    } else if (base->state == PK_CHANNEL_IDLE) {
        begin_connect(channel);
    } else if (base->state == PK_CHANNEL_TRANSIENT_FAILURE && !opening->wait_for_ready) {
        const pk_status why = {PK_UNAVAILABLE,
                               {(const uint8_t *) channel->failure, strlen(channel->failure)},
                               {NULL, 0}};
        pk_opening_queue_remove(&channel->queue, opening);
        opening->failed(opening, &why);
    }
}

static void do_withdraw(pk_channel *base, pk_opening *opening)
{
    pk_opening_queue_remove(&((socket_channel *) base)->queue, opening);
}

static void do_tell_wait(const pk_channel *base, char *ret_text, size_t size)
{
    const socket_channel *channel = (const socket_channel *) base;
    if (base->state == PK_CHANNEL_READY)
        snprintf(ret_text, size, "a stream to %s: all that the server allows are open",
                 channel->target.list);
    else if (channel->failure[0])
        snprintf(ret_text, size, "a connection: %s", channel->failure);
    else
        snprintf(ret_text, size, "a connection to %s", channel->target.list);
}

static void do_close(pk_channel *base)
{
    socket_channel *channel = (socket_channel *) base;
    stop_all(channel);
    pk_timer_stop(base->loop, &channel->tick);
    pk_opening_queue_fail(&channel->queue, true, "the channel was freed");
    pk_subchannel_host_close(&channel->host, "the channel was freed");
}

static void do_connect(pk_channel *base)
{
    if (base->state == PK_CHANNEL_IDLE)
        begin_connect((socket_channel *) base);
}

static void do_reset_backoff(pk_channel *base)
{
    socket_channel *channel = (socket_channel *) base;
    pk_backoff_reset(&channel->resolve_backoff);
    if (base->state == PK_CHANNEL_TRANSIENT_FAILURE && channel->resolve_timer.place != 0 &&
        channel->balancer.ready_count == 0) {
        pk_timer_stop(base->loop, &channel->resolve_timer);
        on_resolve_timer(&channel->resolve_timer);
    }
    pk_balancer_reset_backoff(&channel->balancer);
    settle(channel);
}

static const pk_channel_ops operations = {.open = do_open,
                                          .withdraw = do_withdraw,
                                          .tell_wait = do_tell_wait,
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
    pk_channel *base = &channel->base;
    pk_subchannel_host *host = &channel->host;
    uint64_t pause = or_default(opts->backoff_initial_ms, 1000) * NANOSECONDS_PER_MS;
    base->call_credentials = opts->call_credentials;
    base->receive_limit = opts->receive_limit;
    base->send_limit = opts->send_limit;
    base->retry_policies = opts->retry_policies;
    base->retry_policy_count = opts->retry_policy_count;
    base->hedging_policies = opts->hedging_policies;
    base->hedging_policy_count = opts->hedging_policy_count;
    base->service_config = opts->service_config;
    base->throttling = opts->retry_throttling;
    if (base->throttling.max_tokens <= 0 && base->service_config)
        base->throttling = base->service_config->throttling;
    base->tokens = base->throttling.max_tokens;
    base->call_buffer_bytes = opts->call_buffer_bytes ? opts->call_buffer_bytes : 256u << 10;
    base->buffer_bytes = opts->buffer_bytes ? opts->buffer_bytes : 16u << 20;
    base->compress_min_bytes = opts->compress_min_bytes ? opts->compress_min_bytes : 1024;
    host->attempt_time = or_default(opts->connect_timeout_ms, 20000) * NANOSECONDS_PER_MS;
    host->backoff =
        (pk_backoff){.initial = pause,
                     .max = or_default(opts->backoff_max_ms, 120000) * NANOSECONDS_PER_MS,
                     .next = pause,
                     .random = (uint32_t) pk_loop_now(base->loop) | 1};
    channel->resolve_backoff = host->backoff;
    channel->balancer.most = or_default(opts->connections_per_address, 1);
    channel->balancer.next = pk_backoff_random(&host->backoff);
    channel->resolve_interval = or_default(opts->resolve_interval_ms, 30000) * NANOSECONDS_PER_MS;
    channel->idle_ticks = ticks(opts->idle_timeout_ms, 30 * 60 * 1000);
    pk_connection_host *connections = &host->connections;
    connections->keepalive_ticks = ticks(opts->keepalive_ms, UINT32_MAX);
    connections->answer_ticks = ticks(opts->keepalive_timeout_ms, 20000);
    connections->keepalive_idle = opts->keepalive_idle;
    connections->budget = SIZE_MAX / 2;
    connections->bytes.limit = SIZE_MAX / 2;
    uint32_t window = or_default(opts->connection_window, 8u << 20);
    connections->limits = (pk_http2_limits){
        .max_streams = 0,
        .stream_window = or_default(opts->stream_window, 2u << 20) & INT32_MAX,
        .connection_window = (window < 65535 ? 65535 : window) & INT32_MAX,
        .header_bytes = or_default(opts->header_bytes, 65536),
        .resets = RESETS,
        .resets_per_second = RESETS_PER_SECOND,
        .glitches = 1000,
        .queued_frames = 4096,
        .send_budget = 16u << 20,
    };
}

static pk_slice slice_of(const char *text, size_t length)
{
    return (pk_slice){(const uint8_t *) text, length};
}

/* Copies of the texts, one behind the other. */
static int copy_texts(socket_channel *channel, const char *target, const pk_channel_opts *opts)
{
    pk_target parsed;
    int r = pk_target_parse(target, &parsed);
    if (r < 0)
        return r;
    const char *authority = opts->authority  ? opts->authority
                            : parsed.is_unix ? "localhost"
                                             : parsed.list;
    size_t authority_length =
        authority == parsed.list ? strcspn(authority, ",") : strlen(authority);
    size_t agent_length =
        (opts->user_agent ? strlen(opts->user_agent) + 1 : 0) + strlen(USER_AGENT);
    size_t servers_length = opts->dns_servers ? strlen(opts->dns_servers) + 1 : 0;
    pk_slice name = opts->server_name ? slice_of(opts->server_name, strlen(opts->server_name))
                                      : slice_of(authority, authority_length);
    name = pk_tls_host_of(name);
    channel->texts_size = strlen(parsed.list) + 1 + authority_length + agent_length + 1 +
                          servers_length + name.length + 1;
    channel->texts = pk_memory_get(&channel->base.loop->memory, channel->texts_size);
    if (!channel->texts)
        return PK_ERR_NOMEM;
    char *at = channel->texts;
    strcpy(at, parsed.list);
    channel->target = parsed;
    channel->target.list = at;
    at += strlen(parsed.list) + 1;
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
        at += servers_length;
    }
    memcpy(at, name.bytes, name.length);
    at[name.length] = '\0';
    channel->host.tls.name = at;
    return 0;
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
        .resolve_timer.fire = on_resolve_timer,
        .tick.fire = on_tick,
    };
    pk_subchannel_host_init(&channel->host, loop);
    channel->host.changed = on_changed;
    channel->host.rested = on_rested;
    channel->host.turned = on_turned;
    channel->host.added = on_added;
    channel->host.gone = on_gone;
    if (opts.credentials) {
        channel->base.scheme = (pk_slice) PK_SLICE("https");
        channel->base.secure = true;
        channel->host.tls.credentials = pk_channel_credentials_ref(opts.credentials);
    }
    const char *policy = opts.load_balancing;
    if (!policy && opts.service_config)
        policy = opts.service_config->load_balancing;
    int r = pk_balancer_init(&channel->balancer, &channel->host, policy);
    apply(channel, &opts);
    if (r == 0)
        r = copy_texts(channel, target, &opts);
    if (r < 0) {
        pk_channel_unref(&channel->base);
        return r;
    }
    *ret_channel = &channel->base;
    return 0;
}
