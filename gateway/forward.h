/*
 * The heart of the gateway: one call that came in, passed on to an upstream and back.
 *
 * Messages are neither decoded nor taken apart: what is there at once goes on as one piece. Reading waits for writing on both ways, so that a slow side holds the
 * other back; the end of either side ends the other; what is left of the deadline goes along.
 */
#ifndef PEKOE_GATEWAY_FORWARD_H
#define PEKOE_GATEWAY_FORWARD_H

#include <pekoe/pekoe.h>

#include "gateway/header_rules.h"

typedef struct gateway_forward_rules {
    gateway_header_rules headers;
    uint64_t timeout_ms;   /* no call goes on for longer; 0: its own deadline holds alone */
    bool tell_peer;        /* add the caller's address to x-forwarded-for */
    bool expose;           /* name the upstream's fields in access-control-expose-headers */
    const char *authority; /* what upstreams are told that they are; NULL: their address */
} gateway_forward_rules;

/* What has passed, and how the call ended; counted while it goes on. */
typedef struct gateway_tally {
    uint64_t received_messages, received_bytes; /* from the caller; bytes of messages */
    uint64_t sent_messages, sent_bytes;         /* to the caller */
    pk_code code;                               /* PK_UNKNOWN while it goes on */
} gateway_tally;

/*
 * Passes a raw call (pk_raw_handler) on to the channel; the future is what the handler returns.
 * `rules` and `tally` live as long as the call.
 */
PK_NODISCARD pk_future gateway_forward(const gateway_forward_rules *rules, pk_channel *channel,
                                       pk_call *call, pk_reader *in, pk_writer *out,
                                       gateway_tally *tally);

#endif
