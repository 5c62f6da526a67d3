/*
 * The client's side of a unary call: the message is encoded, the channel asked for an exchange; the
 * reply comes as reply.c says.
 */
#include "core/status.h"
#include "handlers/client_chain.h"
#include "handlers/reply.h"

static const pk_exchange_events events = {
    .on_head = pk_client_on_head,
    .on_data = pk_reply_data,
    .on_end = pk_reply_end,
    .on_cancelled = pk_client_on_cancelled,
    .on_closed = pk_client_on_closed,
};

static const pk_client_style style = {
    .events = &events,
    .body_kind = PK_BODY_RESPONSE | PK_BODY_ONE,
    .ended = pk_reply_settle,
};

static pk_future start(pk_client_call *client, const void *request)
{
    pk_client_send_only(client, request);
    pk_future future = pk_reply_future(client);
    pk_client_start(client);
    return future;
}

static __attribute__((noinline, cold)) pk_future ask_first(pk_client_call *client,
                                                           const void *request)
{
    return pk_client_chain_new(client, request) ? pk_client_chain_reply(client)
                                                : start(client, request);
}

pk_future pk_call_unary(pk_channel *channel, const pk_method *method, const void *request,
                        const pk_call_opts *opts)
{
    pk_client_call *client = pk_client_call_new(channel, method, &style, opts);
    if (PK_UNLIKELY(!client))
        return pk_promise_future(NULL);
    if (PK_UNLIKELY(channel->interceptions != NULL))
        return ask_first(client, request);
    return start(client, request);
}

pk_future pk_call_generic(pk_channel *channel, const char *path, pk_slice request,
                          const pk_call_opts *opts)
{
    static const pk_method any = {.path = "a generic call"};
    pk_client_call *client = pk_client_call_new(channel, &any, &style, opts);
    if (!client)
        return pk_promise_future(NULL);
    pk_client_set_path(client, PK_UNARY, path);
    return channel->interceptions ? ask_first(client, &request) : start(client, &request);
}
