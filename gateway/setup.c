/* Channels and rules of one configuration: see setup.h. */
#include "gateway/setup.h"

#include <stdlib.h>
#include <string.h>

#define USER_AGENT "pekoe-gateway"
#define STREAM_WINDOW 65536u /* bytes that a caller who does not read leaves with us, per call */

/* ---- Routes ---- */

static void route_done(gateway_route *route)
{
    for (size_t i = 0; i < route->channel_count; i++)
        pk_channel_free(route->channels[i]);
    free(route->channels);
    free(route->prefix);
}

static const char *open_channels(gateway_route *route, const gateway_upstream_rule *rule,
                                 pk_loop *loop, const gateway_config *config)
{
    const gateway_list *targets = &rule->targets;
    const pk_channel_opts *opts =
        PK_CHANNEL_OPTS(.user_agent = USER_AGENT, .load_balancing = "round_robin",
                        .receive_limit = config->message_limit, .stream_window = STREAM_WINDOW,
                        .connections_per_address = config->upstream_connections,
                        .credentials = rule->tls ? config->upstream_credentials : NULL,
                        .server_name = rule->tls ? config->upstream_name : NULL);
    route->channels = calloc(targets->count, sizeof *route->channels);
    if (!route->channels)
        return "out of memory";
    for (size_t i = 0; i < targets->count; i++) {
        int r = pk_channel_new(&route->channels[i], loop, targets->items[i], opts);
        if (r < 0)
            return r == PK_ERR_NOMEM ? "out of memory" : "an upstream's target is none";
        route->channel_count++;
    }
    return NULL;
}

static const char *open_route(gateway_route *route, const char *text, pk_loop *loop,
                              const gateway_config *config, gateway_metrics *metrics)
{
    gateway_upstream_rule rule;
    const char *wrong = gateway_parse_upstream(text, &rule);
    if (wrong)
        return wrong;
    *route = (gateway_route){.prefix = pk_steal(&rule.prefix)};
    route->prefix_length = strlen(route->prefix);
    route->metrics = gateway_metrics_route(metrics, route->prefix);
    wrong = open_channels(route, &rule, loop, config);
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
    if (route->channel_count == 1)
        return route->channels[0];
    pk_channel *second = NULL;
    for (size_t i = 0; i < route->channel_count; i++) {
        size_t place = (route->next + i) % route->channel_count;
        pk_channel *channel = route->channels[place];
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
    return second ? second : route->channels[route->next % route->channel_count];
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

static const char *fill(gateway_setup *setup, gateway_config *config, pk_loop *loop,
                        gateway_metrics *metrics)
{
    const gateway_list *upstreams = &config->upstreams;
    setup->routes = calloc(upstreams->count, sizeof *setup->routes);
    if (!setup->routes)
        return "out of memory";
    for (size_t i = 0; i < upstreams->count; i++) {
        gateway_route *route = &setup->routes[setup->route_count++];
        const char *wrong = open_route(route, upstreams->items[i], loop, config, metrics);
        if (wrong)
            return wrong;
    }
    qsort(setup->routes, setup->route_count, sizeof *setup->routes, compare_routes);
    return NULL;
}

gateway_setup *gateway_setup_new(gateway_config *config, pk_loop *loop, gateway_metrics *metrics,
                                 const char **ret_wrong)
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
    const char *wrong = fill(setup, config, loop, metrics);
    if (!wrong)
        return setup;
    gateway_setup_free(setup);
    *ret_wrong = wrong;
    return NULL;
}
