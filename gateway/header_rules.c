/* Which fields go on: see header_rules.h. docs/gateway.md has the lists in words. */
#include "gateway/header_rules.h"

#include <string.h>

static bool is(pk_slice name, const char *other)
{
    size_t length = strlen(other);
    return name.length == length && memcmp(name.bytes, other, length) == 0;
}

static bool begins(pk_slice name, const char *prefix)
{
    size_t length = strlen(prefix);
    return name.length >= length && memcmp(name.bytes, prefix, length) == 0;
}

static bool is_listed(const char *const *list, pk_slice name)
{
    for (; list && *list; list++)
        if (is(name, *list))
            return true;
    return false;
}

/* What a browser adds to a request that its page did not ask for. */
static bool is_browsers(pk_slice name)
{
    static const char *const names[] = {
        "accept",
        "accept-language",
        "cache-control",
        "cookie",
        "dnt",
        "origin",
        "pragma",
        "priority",
        "referer",
        "save-data",
        "x-grpc-web",
        "x-accept-content-transfer-encoding",
        "content-transfer-encoding",
        "x-accept-response-streaming",
        "upgrade-insecure-requests",
        NULL,
    };
    return is_listed(names, name) || begins(name, "sec-") ||
           begins(name, "access-control-request-");
}

bool gateway_request_header_goes_on(const gateway_header_rules *rules, pk_slice name,
                                    bool from_page)
{
    if (is_listed(rules->drop, name))
        return false;
    /* The connection to the upstream has its own. */
    if (is(name, "user-agent"))
        return false;
    return !from_page || !is_browsers(name) || is_listed(rules->forward, name);
}

bool gateway_response_header_goes_on(const gateway_header_rules *rules, pk_slice name)
{
    static const char *const names[] = {"alt-svc", "date", "server", "strict-transport-security",
                                        "vary",    "via",  NULL};
    if (is_listed(rules->drop, name))
        return false;
    /* Which page may read what is the gateway's to say. */
    if (is_listed(names, name) || begins(name, "access-control-"))
        return false;
    return !is(name, "set-cookie") || is_listed(rules->forward, (pk_slice) PK_SLICE("cookie"));
}
