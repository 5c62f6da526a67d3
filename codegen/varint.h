/* Numbers as they stand in serialized descriptors. */
#ifndef PEKOE_CODEGEN_VARINT_H
#define PEKOE_CODEGEN_VARINT_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a varint of at most 10 bytes at *at; false where the bytes end too early. */
static inline bool gen_read_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;

        if (shift < 64)
            value |= (uint64_t) (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

#endif
