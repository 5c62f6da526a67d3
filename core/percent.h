/*
 * Percent encoding of status messages. Source: gRPC's PROTOCOL-HTTP2.md, "Status-Message": bytes
 * outside of printable ASCII, and '%', become %XX with upper-case digits.
 */
#ifndef PEKOE_CORE_PERCENT_H
#define PEKOE_CORE_PERCENT_H

#include <pekoe/base.h>

/* Bytes of the encoded form; equal to text.length where nothing needs encoding. */
size_t pk_percent_encoded_length(pk_slice text);

/* Writes the encoded form and returns its length. */
size_t pk_percent_encode(uint8_t *out, pk_slice text);

/* Whether decoding would change the text. */
bool pk_percent_present(pk_slice text);

/*
 * Decodes to `out` (text.length bytes at most, may be the text itself) and returns the length. An
 * escape that is broken is kept as it is.
 */
size_t pk_percent_decode(uint8_t *out, pk_slice text);

#endif
