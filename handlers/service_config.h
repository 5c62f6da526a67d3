/*
 * What a service config says, once it was read: looked up by each call of a channel that has one,
 * and by the channel when it is made. Immutable.
 */
#ifndef PEKOE_HANDLERS_SERVICE_CONFIG_H
#define PEKOE_HANDLERS_SERVICE_CONFIG_H

#include <pekoe/channel.h>
#include <pekoe/service_config.h>

/* One entry of methodConfig. */
typedef struct pk_method_config {
    uint64_t timeout; /* nanoseconds; 0: none */
    bool wait_for_ready;
    size_t request_limit, response_limit; /* bytes of one message; 0: none */
    bool retries, hedges;                 /* at most one of them */
    pk_retry_policy retry;
    pk_hedging_policy hedging;
} pk_method_config;

/* A name: "/service/method", "/service/", or "" for all. */
struct pk_config_name {
    char *path;
    size_t config; /* place in `configs` */
};

struct pk_service_config {
    pk_method_config *configs;
    size_t config_count;
    struct pk_config_name *names;
    size_t name_count;
    pk_retry_throttling throttling; /* max_tokens 0: none */
    const char *load_balancing;     /* static; NULL: not given */
};

/* The config of a path: by its method, else its service, else that for all. NULL: none. */
const pk_method_config *pk_service_config_find(const pk_service_config *config, const char *path);

#endif
