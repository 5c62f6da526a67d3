/* Bytes of messages that hold each other: for tests of the depth limit. */
#ifndef PEKOE_TESTS_SUPPORT_NESTED_H
#define PEKOE_TESTS_SUPPORT_NESTED_H

#include <pekoe/generated_wire.h>

#include <stdlib.h>
#include <string.h>

/*
 * `levels` messages below the root, each the first byte `tag` and the next one; innermost empty.
 * To be freed.
 */
static inline uint8_t *nested_messages(uint8_t tag, size_t levels, size_t *ret_length)
{
    size_t room = levels * 6 + 1;
    uint8_t *bytes = malloc(room);
    if (!bytes)
        abort();
    uint8_t *at = bytes + room;
    for (size_t i = 0; i < levels; i++) {
        at = pk_write_varint_before(at, (size_t) (bytes + room - at));
        *--at = tag;
    }
    *ret_length = (size_t) (bytes + room - at);
    memmove(bytes, at, *ret_length);
    return bytes;
}

#endif
