/*
 * Which compressor a request was written with, and which one its reply may use.
 *
 * Source: gRPC's compression.md. The lists are parsed leniently: white space, empty items, any
 * order, names without case; what is not known in an accept list is skipped.
 */
#ifndef PEKOE_MARSHALLING_NEGOTIATION_H
#define PEKOE_MARSHALLING_NEGOTIATION_H

#include <pekoe/status.h>

#include "core/exchange.h"
#include "marshalling/marshal.h"

typedef struct pk_negotiation {
    const pk_compressor *incoming; /* what a compressed message means; NULL: none may be */
    const pk_compressor *outgoing; /* the set's most wanted that the peer accepts; NULL: identity */
} pk_negotiation;

/*
 * Server side, from a request's head. 0, or PK_ERR_UNSUPPORTED for a grpc-encoding that the set
 * does not have: *ret_status is UNIMPLEMENTED (text in the arena) and the reply must name what is
 * known (pk_encoding.tell_encodings).
 */
PK_NODISCARD int pk_negotiate(pk_marshalling *marshalling, const pk_compressor_set *set,
                              const pk_head *head, pk_arena *arena, pk_negotiation *ret_negotiation,
                              pk_status *ret_status);

/* The set's most wanted compressor that an accept list names; NULL: none. */
const pk_compressor *pk_negotiate_accepted(const pk_compressor_set *set, pk_slice accepted);

/*
 * Client side, from a response's head: what a compressed message means. 0 or PK_ERR_UNSUPPORTED
 * with *ret_status INTERNAL.
 */
PK_NODISCARD int pk_negotiate_response(const pk_compressor_set *set, const pk_head *head,
                                       pk_arena *arena, const pk_compressor **ret_incoming,
                                       pk_status *ret_status);

#endif
