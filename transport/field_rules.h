/*
 * What HTTP fields must look like (RFC 9113 section 8, RFC 9110 section 5).
 *
 * The HTTP/2 session checks each field that comes in by these rules, since its library's own checks
 * are switched off. Pure functions; they keep nothing.
 */
#ifndef PEKOE_TRANSPORT_FIELD_RULES_H
#define PEKOE_TRANSPORT_FIELD_RULES_H

#include "core/exchange.h"

/* A lower-case token that is not empty. */
bool pk_field_name_valid(pk_slice name);

/* No control characters but tab, no blank at either end. */
bool pk_field_value_valid(pk_slice value);

/*
 * Whether a regular field may stand in an HTTP/2 message: valid name and value, nothing that
 * concerns one connection only, TE only with "trailers".
 */
bool pk_field_allowed(const pk_field *field);

/* Whether a whole request (response) head has the pseudo-headers that it must have. */
bool pk_field_request_complete(const pk_head *head);
bool pk_field_response_complete(const pk_head *head);

/* The value of content-length; -1 where it is no number or too large. */
int64_t pk_field_content_length(pk_slice value);

/* The value of :status; 0 where it is not three digits. */
unsigned pk_field_status(pk_slice value);

#endif
