/* Percent encoding of status messages: see percent.h. */
#include "core/percent.h"

#include <string.h>

static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte <= 0x7e && byte != '%';
}

size_t pk_percent_encoded_length(pk_slice text)
{
    size_t length = text.length;
    for (size_t i = 0; i < text.length; i++)
        length += is_plain(text.bytes[i]) ? 0 : 2;
    return length;
}

size_t pk_percent_encode(uint8_t *out, pk_slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    uint8_t *at = out;
    for (size_t i = 0; i < text.length; i++) {
        uint8_t byte = text.bytes[i];
        if (is_plain(byte)) {
            *at++ = byte;
            continue;
        }
        *at++ = '%';
        *at++ = (uint8_t) digits[byte >> 4];
        *at++ = (uint8_t) digits[byte & 15];
    }
    return (size_t) (at - out);
}

static int digit_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    uint8_t lower = digit | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool pk_percent_present(pk_slice text)
{
    return text.length > 0 && memchr(text.bytes, '%', text.length) != NULL;
}

size_t pk_percent_decode(uint8_t *out, pk_slice text)
{
    uint8_t *at = out;
    for (size_t i = 0; i < text.length; i++) {
        uint8_t byte = text.bytes[i];
        if (byte == '%' && text.length - i > 2) {
            int high = digit_value(text.bytes[i + 1]);
            int low = digit_value(text.bytes[i + 2]);
            if (high >= 0 && low >= 0) {
                byte = (uint8_t) (high << 4 | low);
                i += 2;
            }
        }
        *at++ = byte;
    }
    return (size_t) (at - out);
}
