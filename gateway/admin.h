/*
 * The admin address: /metrics and /healthz.
 */
#ifndef PEKOE_GATEWAY_ADMIN_H
#define PEKOE_GATEWAY_ADMIN_H

#include <pekoe/http.h>

#include "gateway/metrics.h"

/* `draining`: the gateway ends; health checks are to send no more callers. */
void gateway_admin_serve(gateway_metrics *metrics, bool draining, pk_http *http);

#endif
