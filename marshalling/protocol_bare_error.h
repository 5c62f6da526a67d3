/*
 * A status as the JSON body of a failed bare unary call, and back:
 *
 *     {"code": "not_found", "message": "...", "details": [{"type": "...", "value": "..."}]}
 *
 * For protocol_bare.c. Source: connectrpc.com/docs/protocol, "Error-Message".
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_BARE_ERROR_H
#define PEKOE_MARSHALLING_PROTOCOL_BARE_ERROR_H

#include "core/arena.h"
#include "core/buffer.h"
#include "core/status.h"

/* Appends the JSON. PK_ERR_NOMEM. Details that are no google.rpc.Status are left out. */
PK_NODISCARD int pk_bare_error_write(const pk_status *status, pk_buffer *buffer);

/*
 * Reads the JSON; unknown members are passed over, details become a google.rpc.Status. False for
 * anything that is not an object with a known code; *ret_status is untouched then.
 */
bool pk_bare_error_read(pk_slice json, pk_arena *arena, pk_status *ret_status);

#endif
