/*
 * gRPC's service config as JSON: what calls of which methods are given by default, when they are
 * tried again, and how they are spread over servers. Sources: gRPC's service_config.md, gRFC A2
 * (names, default config), gRFC A6 (retries, hedging, throttling).
 *
 * A channel takes one by pk_channel_opts.service_config. The C structures of pekoe/channel.h say the
 * same without JSON; configs in DNS are not looked for.
 */
#ifndef PEKOE_SERVICE_CONFIG_H
#define PEKOE_SERVICE_CONFIG_H

#include <pekoe/base.h>

PK_BEGIN_DECLS

typedef struct pk_service_config pk_service_config;

/*
 * Reads a config. Known fields are checked as the gRFCs say; others are passed over. It never
 * changes, so that channels on several threads may share it. PK_ERR_INVALID: `ret_problem` (NULL:
 * not wanted) gets what is wrong, beginning with the field, as in
 * "methodConfig[0].retryPolicy.maxAttempts: must be at least 2". PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_service_config_new(pk_service_config **ret_config, const char *json,
                                              char *ret_problem, size_t problem_size);

/* After the channels that use it. Takes NULL; returns NULL. */
PK_API pk_service_config *pk_service_config_free(pk_service_config *config);

PK_END_DECLS

#endif
