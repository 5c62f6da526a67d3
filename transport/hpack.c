/* What a field block does to HPACK's table: see hpack.h. */
#include "transport/hpack.h"

#define INTEGER_BYTES 5u /* after its prefix, of integers that anybody means */

/* Skips an integer whose prefix has these bits (RFC 7541 section 5.1); 0 where it is not whole. */
static size_t skip_integer(const uint8_t *at, size_t left, uint8_t prefix, size_t *ret_value)
{
    size_t value = at[0] & prefix;
    if (value < prefix) {
        *ret_value = value;
        return 1;
    }
    for (size_t i = 1; i < left && i <= INTEGER_BYTES; i++) {
        value += (size_t) (at[i] & 0x7f) << (7 * (i - 1));
        if (!(at[i] & 0x80)) {
            *ret_value = value;
            return i + 1;
        }
    }
    return 0;
}

/* Skips a string literal (section 5.2); 0 where it is not whole. */
static size_t skip_string(const uint8_t *at, size_t left)
{
    size_t length;
    if (left == 0)
        return 0;
    size_t skipped = skip_integer(at, left, 0x7f, &length);
    return skipped > 0 && length <= left - skipped ? skipped + length : 0;
}

bool pk_hpack_block_inert(const uint8_t *block, size_t length)
{
    const uint8_t *at = block, *end = block + length;
    while (at < end) {
        size_t index, skipped;
        if (PK_LIKELY(*at & 0x80)) { /* indexed, section 6.1 */
            skipped = skip_integer(at, (size_t) (end - at), 0x7f, &index);
            if (skipped == 0)
                return false;
            at += skipped;
            continue;
        }
        if (*at & 0x60)
            return false; /* added to the table, section 6.2.1, or its size changes, section 6.3 */
        skipped = skip_integer(at, (size_t) (end - at), 0x0f, &index);
        if (skipped == 0)
            return false;
        at += skipped;
        for (unsigned texts = index == 0 ? 2 : 1; texts > 0; texts--) {
            skipped = skip_string(at, (size_t) (end - at));
            if (skipped == 0)
                return false;
            at += skipped;
        }
    }
    return true;
}
