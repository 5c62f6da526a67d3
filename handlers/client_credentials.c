/*
 * Credentials of calls: asked before a call is sent for the first time, the channel's, then the
 * call's own. See pk_call_credentials in pekoe/channel.h. Called by client_start.c.
 */
#include "handlers/client_chain.h"

#include <string.h>

/* Codes that a server may have meant by itself must not come from here (gRFC A54). */
#define RESERVED                                                            \
    (PK_CODE_BIT(PK_INVALID_ARGUMENT) | PK_CODE_BIT(PK_NOT_FOUND) |         \
     PK_CODE_BIT(PK_ALREADY_EXISTS) | PK_CODE_BIT(PK_FAILED_PRECONDITION) | \
     PK_CODE_BIT(PK_ABORTED) | PK_CODE_BIT(PK_OUT_OF_RANGE) | PK_CODE_BIT(PK_DATA_LOSS))

static void ask(pk_client_call *client);

/* "https://example.org/package.Service", in the call; the port of https is left out. */
static const char *audience_of(pk_client_call *client)
{
    pk_slice scheme = client->channel->scheme, authority = client->authority;
    const char *path = client->call.path, *method = strrchr(path, '/');
    size_t length = authority.length;
    if (length > 4 && memcmp(authority.bytes + length - 4, ":443", 4) == 0)
        length -= 4;
    return pk_arena_printf(&client->call.scope.arena, "%.*s://%.*s%.*s", (int) scheme.length,
                           (const char *) scheme.bytes, (int) length,
                           (const char *) authority.bytes,
                           (int) (method && method > path ? method - path : 0), path);
}

static void fail(pk_client_call *client, const pk_status *why)
{
    pk_status status = *why;
    if (RESERVED & PK_CODE_BIT(why->code))
        status.code = PK_INTERNAL;
    pk_client_end(client, &status);
}

/* Whether the call is still to be sent: it may have ended while it waited. */
static bool is_wanted(const pk_client_call *client)
{
    return pk_call_is_open(&client->call) &&
           (!client->chain || client->chain->state != PK_CLIENT_CHAIN_OVER);
}

static void answered(pk_future outcome, void *arg)
{
    pk_client_call *client = arg;
    pk_client_wake(client);
    if (outcome.state == PK_FUTURE_FAILED && is_wanted(client))
        fail(client, outcome.pointer);
    ask(client);
}

static pk_future ask_one(pk_client_call *client, const pk_call_credentials *credentials)
{
    static const pk_status exposed = {
        PK_UNAUTHENTICATED,
        PK_SLICE("call credentials are not sent without TLS, unless they are marked without_tls"),
        {NULL, 0}};
    if (!client->channel->secure && !credentials->without_tls)
        return pk_failed_with(&exposed);
    struct pk_current outer = pk_call_enter(&client->call);
    pk_future outcome = credentials->add(credentials->self, &client->call, audience_of(client));
    pk_call_leave(outer);
    return outcome;
}

static void ask(pk_client_call *client)
{
    pk_call *call = &client->call;
    pk_channel *channel = client->channel;
    while (client->credentials_left > 0 && is_wanted(client)) {
        const pk_call_credentials *credentials =
            --client->credentials_left == 1 ? channel->call_credentials : client->credentials;
        if (!credentials)
            continue;
        pk_future outcome = ask_one(client, credentials);
        if (outcome.state == PK_FUTURE_PENDING) {
            if (is_wanted(client) && channel->freed)
                pk_client_start(client); /* it ends */
            else if (is_wanted(client))
                pk_client_rest(client);
            pk_await(&call->scope, outcome, answered, client);
            return;
        }
        if (outcome.state == PK_FUTURE_FAILED)
            fail(client, outcome.pointer);
    }
    if (is_wanted(client))
        pk_client_start(client);
    pk_scope_unpin(&call->scope);
    pk_channel_unref(channel);
}

void pk_client_ask_credentials(pk_client_call *client)
{
    client->channel->references++; /* until all were asked */
    pk_scope_pin(&client->call.scope);
    ask(client);
}
