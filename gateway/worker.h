/*
 * One thread of the gateway: its loop, its listeners, its setup.
 *
 * Threads share the configuration, the metrics and the log's file, nothing else. The main thread
 * starts workers and tells them what to do; each does it on its own loop.
 */
#ifndef PEKOE_GATEWAY_WORKER_H
#define PEKOE_GATEWAY_WORKER_H

#include "gateway/access_log.h"
#include "gateway/metrics.h"

typedef struct gateway_worker gateway_worker;

/* What all workers share; outlives them. */
typedef struct gateway_shared {
    gateway_metrics *metrics;
    gateway_access_log log;
} gateway_shared;

/*
 * Starts a thread that listens as the configuration says, and waits until it does. Worker 0 has
 * the addresses of which there is one only (Unix sockets, admin, files) besides; the others listen
 * where it has bound. NULL, and *ret_error filled.
 */
PK_NODISCARD gateway_worker *gateway_worker_start(unsigned number, const gateway_worker *first,
                                                  gateway_config *config, gateway_shared *shared,
                                                  gateway_error *ret_error);

/* Prints where it listens, a line for each address. */
void gateway_worker_print_addresses(const gateway_worker *worker, FILE *to);

/*
 * Has it use another configuration for calls that come from then on. False where it has ended, or
 * without memory.
 */
PK_NODISCARD bool gateway_worker_reload(gateway_worker *worker, gateway_config *config);

/* Has it end once its calls have, at the latest after that time. False as above. */
PK_NODISCARD bool gateway_worker_stop(gateway_worker *worker, uint64_t drain_ms);

/* Whether it has ended. */
bool gateway_worker_has_ended(const gateway_worker *worker);

/* Waits for its end and frees it. Takes NULL; returns NULL. */
gateway_worker *gateway_worker_join(gateway_worker *worker);

#endif
