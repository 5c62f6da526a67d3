/* Upstreams and rules of one configuration: see setup.h. */
#include "gateway/setup.h"

#include <stdlib.h>
#include <string.h>

#define USER_AGENT "pekoe-gateway"
#define STREAM_WINDOW 65536u /* bytes that a caller who does not read leaves with us, per call */

/* What the routes of a setup are made from. */
struct making {
    const gateway_config *config;
    const gateway_setup *before; /* NULL: there is none */
    pk_loop *loop;
    gateway_metrics *metrics;
};

/* ---- Upstreams ---- */

static void leave_upstream(gateway_upstream *upstream)
{
    if (--upstream->users > 0)
        return;
    pk_channel_free(upstream->channel);
    free(upstream->target);
    free(upstream);
}

static const gateway_route *find_route(const gateway_setup *setup, const char *prefix)
{
    for (size_t i = 0; i < setup->route_count; i++)
        if (strcmp(setup->routes[i].prefix, prefix) == 0)
            return &setup->routes[i];
    return NULL;
}

/* The upstream so far, where nothing about it has changed. With TLS a certificate may have. */
static gateway_upstream *find_unchanged(const struct making *making, const char *prefix,
                                        const char *target, bool tls)
{
    const gateway_config *config = making->config;
    const gateway_config *before = making->before ? making->before->config : NULL;
    if (!before || tls || before->message_limit != config->message_limit ||
        before->upstream_connections != config->upstream_connections)
        return NULL;
    const gateway_route *route = find_route(making->before, prefix);
    for (size_t i = 0; route && i < route->upstream_count; i++) {
        gateway_upstream *upstream = route->upstreams[i];
        if (!upstream->tls && strcmp(upstream->target, target) == 0)
            return upstream;
    }
    return NULL;
}

/* With one user; NULL, and *ret_wrong. */
static gateway_upstream *open_upstream(const struct making *making, const char *target, bool tls,
                                       const char **ret_wrong)
{
    const gateway_config *config = making->config;
    const pk_channel_opts *opts =
        PK_CHANNEL_OPTS(.user_agent = USER_AGENT, .load_balancing = "round_robin",
                        .receive_limit = config->message_limit, .stream_window = STREAM_WINDOW,
                        .connections_per_address = config->upstream_connections,
                        .credentials = tls ? config->upstream_credentials : NULL,
                        .server_name = tls ? config->upstream_name : NULL);
    gateway_upstream *upstream = calloc(1, sizeof *upstream);
    char *copy = strdup(target);
    int r = upstream && copy ? pk_channel_new(&upstream->channel, making->loop, target, opts)
                             : PK_ERR_NOMEM;
    if (r < 0) {
        free(copy);
        free(upstream);
        *ret_wrong = r == PK_ERR_NOMEM ? "out of memory" : "an upstream's target is none";
        return NULL;
    }
    upstream->users = 1;
    upstream->target = copy;
    upstream->tls = tls;
    return upstream;
}

/* ---- Routes ---- */

static void route_done(gateway_route *route)
{
    for (size_t i = 0; i < route->upstream_count; i++)
        leave_upstream(route->upstreams[i]);
    free(route->upstreams);
    free(route->prefix);
}

static const char *add_upstreams(gateway_route *route, const gateway_upstream_rule *rule,
                                 const struct making *making)
{
    const gateway_list *targets = &rule->targets;
    route->upstreams = calloc(targets->count, sizeof(gateway_upstream *));
    if (!route->upstreams)
        return "out of memory";
    for (size_t i = 0; i < targets->count; i++) {
        const char *wrong = NULL, *target = targets->items[i];
        gateway_upstream *upstream = find_unchanged(making, route->prefix, target, rule->tls);
        if (upstream)
            upstream->users++;
        else
            upstream = open_upstream(making, target, rule->tls, &wrong);
        if (!upstream)
            return wrong;
        route->upstreams[route->upstream_count++] = upstream;
    }
    return NULL;
}

static const char *open_route(gateway_route *route, const char *text, const struct making *making)
{
    gateway_upstream_rule rule;
    const char *wrong = gateway_parse_upstream(text, &rule);
    if (wrong)
        return wrong;
    *route = (gateway_route){.prefix = pk_steal(&rule.prefix)};
    route->prefix_length = strlen(route->prefix);
    route->metrics = gateway_metrics_route(making->metrics, route->prefix);
    wrong = add_upstreams(route, &rule, making);
    gateway_upstream_rule_done(&rule);
    return wrong;
}

static int compare_routes(const void *a, const void *b)
{
    size_t one = ((const gateway_route *) a)->prefix_length;
    size_t other = ((const gateway_route *) b)->prefix_length;
    return one < other ? 1 : one > other ? -1 : 0;
}

gateway_route *gateway_setup_route(gateway_setup *setup, const char *path)
{
    for (size_t i = 0; i < setup->route_count; i++)
        if (strncmp(path, setup->routes[i].prefix, setup->routes[i].prefix_length) == 0)
            return &setup->routes[i];
    return NULL;
}

pk_channel *gateway_route_channel(gateway_route *route)
{
    if (route->upstream_count == 1)
        return route->upstreams[0]->channel;
    pk_channel *second = NULL;
    for (size_t i = 0; i < route->upstream_count; i++) {
        size_t place = (route->next + i) % route->upstream_count;
        pk_channel *channel = route->upstreams[place]->channel;
        pk_channel_state state = pk_channel_get_state(channel);
        if (state == PK_CHANNEL_IDLE)
            pk_channel_connect(channel);
        if (state == PK_CHANNEL_READY) {
            route->next = place + 1;
            return channel;
        }
        if (state != PK_CHANNEL_TRANSIENT_FAILURE && !second)
            second = channel;
    }
    route->next++;
    return second ? second : route->upstreams[route->next % route->upstream_count]->channel;
}

/* ---- Life ---- */

void gateway_setup_free(gateway_setup *setup)
{
    if (!setup)
        return;
    for (size_t i = 0; i < setup->route_count; i++)
        route_done(&setup->routes[i]);
    free(setup->routes);
    gateway_config_unref(setup->config);
    free(setup);
}

static const char *fill(gateway_setup *setup, const struct making *making)
{
    const gateway_list *upstreams = &making->config->upstreams;
    setup->routes = calloc(upstreams->count, sizeof *setup->routes);
    if (!setup->routes)
        return "out of memory";
    for (size_t i = 0; i < upstreams->count; i++) {
        gateway_route *route = &setup->routes[setup->route_count++];
        const char *wrong = open_route(route, upstreams->items[i], making);
        if (wrong)
            return wrong;
    }
    qsort(setup->routes, setup->route_count, sizeof *setup->routes, compare_routes);
    if (!find_route(setup, "/"))
        setup->strays = gateway_metrics_route(making->metrics, GATEWAY_NO_ROUTE);
    return NULL;
}

gateway_setup *gateway_setup_new(gateway_config *config, const gateway_setup *before, pk_loop *loop,
                                 gateway_metrics *metrics, const char **ret_wrong)
{
    gateway_setup *setup = calloc(1, sizeof *setup);
    if (!setup) {
        *ret_wrong = "out of memory";
        return NULL;
    }
    setup->users = 1;
    setup->config = gateway_config_ref(config);
    setup->rules = (gateway_forward_rules){
        .headers = {.forward = (const char *const *) config->forward_headers.items,
                    .drop = (const char *const *) config->drop_headers.items},
        .timeout_ms = config->timeout_ms,
        .tell_peer = config->forwarded_for,
        .expose = config->cors_origins.count > 0,
        .authority = config->authority,
    };
    const struct making making = {config, before, loop, metrics};
    const char *wrong = fill(setup, &making);
    if (!wrong)
        return setup;
    gateway_setup_free(setup);
    *ret_wrong = wrong;
    return NULL;
}
