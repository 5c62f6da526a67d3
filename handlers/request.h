/*
 * The request of the styles that take one message: gathered, decoded, and only when the peer has
 * ended its side is the handler asked. Unary and server-streaming calls share it.
 */
#ifndef PEKOE_HANDLERS_REQUEST_H
#define PEKOE_HANDLERS_REQUEST_H

#include "handlers/call.h"

/*
 * Takes the call's one message, then calls dispatch(call) with it in call->request. The style has
 * installed its events, which name the two functions below.
 */
void pk_request_gather(pk_call *call, bool ended, void (*dispatch)(pk_call *call));

/* on_data and on_end of the style's events. */
void pk_request_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder);
void pk_request_end(pk_exchange *exchange, const pk_head *trailers);

#endif
