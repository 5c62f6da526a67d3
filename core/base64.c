/* Base64, whole values and streams: see base64.h. */
#include "core/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define BAD 0x80u /* any bit that no value has */

/* The value of each character of the alphabet, BAD for all others. */
static const uint8_t values[256] = {
#define B BAD
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* 00 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* 10 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  62, B,  B,  B,  63, /* 20 */
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, B,  B,  B,  B,  B,  B,  /* 30 */
    B,  0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, /* 40 */
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, B,  B,  B,  B,  B,  /* 50 */
    B,  26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, /* 60 */
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, B,  B,  B,  B,  B,  /* 70 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* 80 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* 90 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* a0 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* b0 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* c0 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* d0 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* e0 */
    B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  B,  /* f0 */
#undef B
};

size_t pk_base64_encode(uint8_t *out, const uint8_t *bytes, size_t length, bool padded)
{
    uint8_t *at = out;
    size_t i = 0;
    for (; length - i >= 3; i += 3) {
        uint32_t group = (uint32_t) bytes[i] << 16 | (uint32_t) bytes[i + 1] << 8 | bytes[i + 2];
        at[0] = (uint8_t) alphabet[group >> 18];
        at[1] = (uint8_t) alphabet[group >> 12 & 63];
        at[2] = (uint8_t) alphabet[group >> 6 & 63];
        at[3] = (uint8_t) alphabet[group & 63];
        at += 4;
    }
    size_t rest = length - i;
    if (rest > 0) {
        uint32_t group = (uint32_t) bytes[i] << 16 | (rest > 1 ? (uint32_t) bytes[i + 1] << 8 : 0);
        *at++ = (uint8_t) alphabet[group >> 18];
        *at++ = (uint8_t) alphabet[group >> 12 & 63];
        if (rest > 1)
            *at++ = (uint8_t) alphabet[group >> 6 & 63];
        if (padded) {
            *at++ = '=';
            if (rest == 1)
                *at++ = '=';
        }
    }
    return (size_t) (at - out);
}

/* Decodes whole groups up to the first character that is none; returns how many characters. */
static size_t decode_groups(uint8_t *out, const uint8_t *text, size_t length)
{
    size_t i = 0;
    for (; length - i >= 4; i += 4, out += 3) {
        uint32_t a = values[text[i]], b = values[text[i + 1]];
        uint32_t c = values[text[i + 2]], d = values[text[i + 3]];
        if ((a | b | c | d) & BAD)
            break;
        uint32_t group = a << 18 | b << 12 | c << 6 | d;
        out[0] = (uint8_t) (group >> 16);
        out[1] = (uint8_t) (group >> 8);
        out[2] = (uint8_t) group;
    }
    return i;
}

/*
 * Writes the bytes of a group of `held` (2 or 3) characters and returns how many; 0 where bits are
 * set behind the last byte.
 */
static size_t decode_short_group(uint8_t *out, uint32_t bits, unsigned held)
{
    if (held == 2) {
        out[0] = (uint8_t) (bits >> 4);
        return bits & 15 ? 0 : 1;
    }
    out[0] = (uint8_t) (bits >> 10);
    out[1] = (uint8_t) (bits >> 2);
    return bits & 3 ? 0 : 2;
}

int pk_base64_decode(uint8_t *out, pk_slice text, size_t *ret_length)
{
    size_t length = text.length;
    if (length % 4 == 0 && length > 0 && text.bytes[length - 1] == '=')
        length -= text.bytes[length - 2] == '=' ? 2 : 1;
    size_t whole = decode_groups(out, text.bytes, length);
    size_t rest = length - whole, written = whole / 4 * 3;
    if (rest > 3 || rest == 1)
        return PK_ERR_MALFORMED;
    if (rest > 0) {
        uint32_t bits = 0, seen = 0;
        for (size_t i = whole; i < length; i++) {
            uint32_t value = values[text.bytes[i]];
            seen |= value;
            bits = bits << 6 | (value & 63);
        }
        size_t more = seen & BAD ? 0 : decode_short_group(out + written, bits, (unsigned) rest);
        if (more == 0)
            return PK_ERR_MALFORMED;
        written += more;
    }
    *ret_length = written;
    return 0;
}

/* Takes one character into the stream's group; returns the number of bytes that came out. */
static size_t take_character(pk_base64_stream *stream, uint8_t *out, uint8_t character)
{
    if (character == '=') {
        /* '=' stands for the third and fourth character only. */
        stream->padding++;
        if (stream->held < 2) {
            stream->malformed = true;
            return 0;
        }
        if (stream->held + stream->padding < 4)
            return 0;
        size_t written = decode_short_group(out, stream->bits, stream->held);
        stream->malformed = written == 0;
        stream->bits = 0;
        stream->held = stream->padding = 0;
        return written;
    }
    uint32_t value = values[character];
    if (value & BAD || stream->padding > 0) {
        stream->malformed = true;
        return 0;
    }
    stream->bits = stream->bits << 6 | value;
    if (++stream->held < 4)
        return 0;
    out[0] = (uint8_t) (stream->bits >> 16);
    out[1] = (uint8_t) (stream->bits >> 8);
    out[2] = (uint8_t) stream->bits;
    stream->bits = 0;
    stream->held = 0;
    return 3;
}

size_t pk_base64_stream_decode(pk_base64_stream *stream, uint8_t *out, const uint8_t *text,
                               size_t length)
{
    uint8_t *at = out;
    size_t i = 0;
    while (i < length && !stream->malformed) {
        if (stream->held == 0 && stream->padding == 0) {
            size_t whole = decode_groups(at, text + i, length - i);
            at += whole / 4 * 3;
            i += whole;
            if (i == length)
                break;
        }
        at += take_character(stream, at, text[i++]);
    }
    return (size_t) (at - out);
}
