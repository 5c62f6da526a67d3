/*
 * The one reply of the client's styles that get one, and the future that it settles. Unary and
 * client-streaming calls share it, as request.h is shared on the server's side.
 */
#ifndef PEKOE_HANDLERS_REPLY_H
#define PEKOE_HANDLERS_REPLY_H

#include "handlers/client_call.h"

/* Gives the call a future, which is returned. When nobody waits for it any more the call ends. */
PK_NODISCARD pk_future pk_reply_future(pk_client_call *client);

/* Nobody waits for the reply of the call `arg` any more. */
void pk_reply_not_wanted(void *arg);

/* on_data and on_end of the style's events, and the style's `ended`. */
void pk_reply_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder);
void pk_reply_end(pk_exchange *exchange, const pk_head *trailers);
void pk_reply_settle(pk_client_call *client);

#endif
