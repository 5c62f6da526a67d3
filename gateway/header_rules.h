/*
 * Which fields of a request go on to the upstream, and which of its response come back.
 *
 * What belongs to one hop (connection, te, grpc-timeout and so on) never gets here: see
 * pk_metadata_forward. The rules here are about what browsers add on their own, and about what the
 * gateway says itself.
 */
#ifndef PEKOE_GATEWAY_HEADER_RULES_H
#define PEKOE_GATEWAY_HEADER_RULES_H

#include <pekoe/base.h>

/* Lower-case names, ended by NULL; either list may be NULL. */
typedef struct gateway_header_rules {
    const char *const *forward; /* go on although they are a browser's */
    const char *const *drop;    /* do not go on */
} gateway_header_rules;

/* `from_page`: the call came over gRPC-Web. `name` is lower case. */
bool gateway_request_header_goes_on(const gateway_header_rules *rules, pk_slice name,
                                    bool from_page);

bool gateway_response_header_goes_on(const gateway_header_rules *rules, pk_slice name);

#endif
