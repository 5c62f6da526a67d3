/*
 * Base64 with the standard alphabet (RFC 4648, section 4): whole values, and a stream of pieces.
 *
 * Used for binary metadata (written unpadded, read padded or not) and for bodies in text form,
 * which are cut anywhere and may carry padding in their middle. Strict: no white space, no
 * characters of the url-safe alphabet, no stray bits behind the last byte.
 */
#ifndef PEKOE_CORE_BASE64_H
#define PEKOE_CORE_BASE64_H

#include <pekoe/base.h>

/* Characters for `length` bytes. */
static inline size_t pk_base64_encoded_length(size_t length, bool padded)
{
    return padded ? (length + 2) / 3 * 4 : length / 3 * 4 + (length % 3 * 4 + 2) / 3;
}

/* At most so many bytes come out of `length` characters. */
static inline size_t pk_base64_decoded_max(size_t length)
{
    return length / 4 * 3 + 3;
}

/* Writes the characters and returns how many: pk_base64_encoded_length. */
size_t pk_base64_encode(uint8_t *out, const uint8_t *bytes, size_t length, bool padded);

/*
 * Decodes one value, padded or not, to `out` (pk_base64_decoded_max bytes). 0, or
 * PK_ERR_MALFORMED; `out` is then undefined.
 */
PK_NODISCARD int pk_base64_decode(uint8_t *out, pk_slice text, size_t *ret_length);

/* What is left over between pieces. All zero is the start. */
typedef struct pk_base64_stream {
    uint32_t bits;   /* of the characters held back */
    uint8_t held;    /* characters of the group that are there, 0 to 3 */
    uint8_t padding; /* '=' of the group that are there */
    bool malformed;
} pk_base64_stream;

/*
 * Decodes a piece; groups of four may lie across pieces, and a padded group may be followed by
 * more. Returns the number of bytes written to `out` (pk_base64_decoded_max(length) at most); on a
 * wrong character the stream becomes `malformed` and gives nothing more.
 */
size_t pk_base64_stream_decode(pk_base64_stream *stream, uint8_t *out, const uint8_t *text,
                               size_t length);

/* Whether all that came was whole groups. */
static inline bool pk_base64_stream_complete(const pk_base64_stream *stream)
{
    return !stream->malformed && stream->held == 0 && stream->padding == 0;
}

#endif
