/* Bytes of requests and replies: see wire_bytes.h. */
#include "jmh-like-bench/wire_bytes.h"

#include <zlib.h>

#include <string.h>

size_t pk_bench_gzip(const uint8_t *bytes, size_t length, uint8_t *out, size_t room)
{
    z_stream stream = {.next_in = (Bytef *) (uintptr_t) bytes,
                       .avail_in = (uInt) length,
                       .next_out = out,
                       .avail_out = (uInt) room};
    if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    int result = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return result == Z_STREAM_END ? stream.total_out : 0;
}

size_t pk_bench_gunzip(const uint8_t *bytes, size_t length, uint8_t *out, size_t room)
{
    z_stream stream = {.next_in = (Bytef *) (uintptr_t) bytes,
                       .avail_in = (uInt) length,
                       .next_out = out,
                       .avail_out = (uInt) room};
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
        return 0;
    int result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return result == Z_STREAM_END ? stream.total_out : 0;
}

size_t pk_bench_encode_base64(const uint8_t *bytes, size_t length, uint8_t *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t group = (uint32_t) bytes[i] << 16 | (left > 1 ? (uint32_t) bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        out[at++] = (uint8_t) digits[group >> 18];
        out[at++] = (uint8_t) digits[group >> 12 & 63];
        out[at++] = left > 1 ? (uint8_t) digits[group >> 6 & 63] : '=';
        out[at++] = left > 2 ? (uint8_t) digits[group & 63] : '=';
    }
    return at;
}

size_t pk_bench_decode_base64(const uint8_t *text, size_t length, uint8_t *out)
{
    size_t at = 0;
    for (size_t i = 0; i + 4 <= length; i += 4) {
        uint32_t group = 0;
        unsigned padding = 0;
        for (unsigned j = 0; j < 4; j++) {
            uint8_t c = text[i + j];
            uint32_t digit = c >= 'a'   ? (uint32_t) (c - 'a' + 26)
                             : c >= 'A' ? (uint32_t) (c - 'A')
                             : c == '+' ? 62
                             : c == '/' ? 63
                                        : (uint32_t) (c - '0' + 52);
            if (c == '=') {
                digit = 0;
                padding++;
            }
            group = group << 6 | digit;
        }
        for (unsigned j = 0; j < 3 - padding; j++)
            out[at++] = (uint8_t) (group >> (16 - 8 * j));
    }
    return at;
}

size_t pk_bench_frame(const uint8_t *message, size_t length, bool compressed, uint8_t *out,
                      size_t room)
{
    if (compressed)
        length = pk_bench_gzip(message, length, out + 5, room - 5);
    else
        memcpy(out + 5, message, length);
    out[0] = compressed;
    for (unsigned i = 0; i < 4; i++)
        out[1 + i] = (uint8_t) (length >> (24 - 8 * i));
    return 5 + length;
}
