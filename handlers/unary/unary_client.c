/*
 * The client's side of a unary call: the message is encoded, the channel asked for an exchange; the
 * reply comes as reply.c says.
 */
#include "handlers/reply.h"

pk_future pk_call_unary(pk_channel *channel, const pk_method *method, const void *request,
                        const pk_call_opts *opts)
{
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
    pk_client_call *client = pk_client_call_new(channel, method, &style, opts);
    if (PK_UNLIKELY(!client))
        return pk_promise_future(NULL);
    pk_client_send_only(client, request);
    pk_future future = pk_reply_future(client);
    pk_client_start(client);
    return future;
}
