/*
 * Comparing bytes that are short and nearly always the same: what heads and paths are compared with
 * once or more per call. memcmp wants a call for that.
 */
#ifndef PEKOE_CORE_SLICE_H
#define PEKOE_CORE_SLICE_H

#include <pekoe/base.h>

#include <string.h>

/* Words, the last of them overlapping the one before it; below eight bytes byte by byte. */
PK_INLINE bool pk_same_bytes(const void *a, const void *b, size_t length)
{
    const uint8_t *left = (const uint8_t *) a, *right = (const uint8_t *) b;
    uint64_t x, y;
    if (PK_UNLIKELY(length < sizeof x)) {
        for (size_t i = 0; i < length; i++)
            if (left[i] != right[i])
                return false;
        return true;
    }
    for (size_t i = 0; i + sizeof x < length; i += sizeof x) {
        memcpy(&x, left + i, sizeof x);
        memcpy(&y, right + i, sizeof y);
        if (x != y)
            return false;
    }
    memcpy(&x, left + length - sizeof x, sizeof x);
    memcpy(&y, right + length - sizeof y, sizeof y);
    return x == y;
}

PK_INLINE bool pk_slice_is(pk_slice slice, const void *bytes, size_t length)
{
    return slice.length == length && pk_same_bytes(slice.bytes, bytes, length);
}

#endif
