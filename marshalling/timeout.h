/*
 * grpc-timeout: 1 to 8 digits and one unit of H M S m u n. Source: PROTOCOL-HTTP2.md, "Timeout".
 */
#ifndef PEKOE_MARSHALLING_TIMEOUT_H
#define PEKOE_MARSHALLING_TIMEOUT_H

#include <pekoe/base.h>

#define PK_TIMEOUT_LENGTH_MAX 9u /* 8 digits and the unit */

/* Nanoseconds; what does not fit is UINT64_MAX. 0 or PK_ERR_MALFORMED. */
PK_NODISCARD int pk_timeout_parse(pk_slice value, uint64_t *ret_nanoseconds);

/*
 * Writes the value for a timeout, rounded up so that the peer never gives up first: to three digits
 * that count, so at most 1 % more, as gRPC's own core does. Calls with one timeout then say the same
 * although some microseconds have passed, and HPACK has a text that repeats. Longer than 5124096
 * hours is written as that. Returns the number of bytes written.
 */
size_t pk_timeout_print(uint8_t out[PK_TIMEOUT_LENGTH_MAX], uint64_t nanoseconds);

#endif
