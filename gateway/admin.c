/* /metrics and /healthz: see admin.h. */
#include "gateway/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(pk_slice text, const char *other)
{
    return text.length == strlen(other) && memcmp(text.bytes, other, text.length) == 0;
}

static void answer(pk_http *http, unsigned status, const char *text)
{
    (void) !pk_http_add_field(http, "cache-control", "no-store");
    (void) !pk_http_reply(http, status, "text/plain; charset=utf-8", text, strlen(text));
}

static void serve_metrics(gateway_metrics *metrics, pk_http *http)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (to)
        gateway_metrics_print(metrics, to);
    if (!to || fclose(to) != 0)
        answer(http, 503, "out of memory\n");
    else
        (void) !pk_http_reply(http, 200, "text/plain; version=0.0.4; charset=utf-8", text, length);
    free(text);
}

void gateway_admin_serve(gateway_metrics *metrics, bool draining, pk_http *http)
{
    pk_slice method = pk_http_method(http), target = pk_http_target(http);
    const uint8_t *query = memchr(target.bytes, '?', target.length);
    if (query)
        target.length = (size_t) (query - target.bytes);
    if (!is(method, "GET") && !is(method, "HEAD")) {
        (void) !pk_http_add_field(http, "allow", "GET, HEAD");
        answer(http, 405, "method not allowed\n");
    } else if (is(target, "/metrics")) {
        serve_metrics(metrics, http);
    } else if (is(target, "/healthz")) {
        answer(http, draining ? 503 : 200, draining ? "draining\n" : "ok\n");
    } else {
        answer(http, 404, "not found\n");
    }
}
