/*
 * Repeated numbers and closed enums of slab decoders, packed or not. Called by generated code, once
 * per record or run of records.
 */
#include "marshalling/decoder.h"

#include <string.h>

static uint8_t *malformed(pk_decoder *decoder, const char *problem)
{
    pk_decoder_fail(decoder, PK_ERR_MALFORMED, problem);
    return NULL;
}

static uint8_t *truncated(pk_decoder *decoder)
{
    pk_decoder_truncated(decoder);
    return NULL;
}

/* ---- Repeated numbers ----------------------------------------------------------------------- */

static size_t element_size_of(pk_number kind)
{
    switch (kind) {
    case PK_NUMBER_INT32:
    case PK_NUMBER_UINT32:
    case PK_NUMBER_SINT32:
    case PK_NUMBER_FIXED32:
        return 4;
    case PK_NUMBER_INT64:
    case PK_NUMBER_SINT64:
    case PK_NUMBER_FIXED64:
        return 8;
    case PK_NUMBER_BOOL:
        break;
    }
    return sizeof(protobuf_c_boolean);
}

PK_INLINE void store_element(pk_number kind, uint8_t *place, uint64_t value)
{
    uint32_t narrow = (uint32_t) value;
    switch (kind) {
    case PK_NUMBER_SINT32: {
        int32_t number = pk_unzigzag32(narrow);
        memcpy(place, &number, sizeof number);
        break;
    }
    case PK_NUMBER_SINT64: {
        int64_t number = pk_unzigzag64(value);
        memcpy(place, &number, sizeof number);
        break;
    }
    case PK_NUMBER_INT64:
    case PK_NUMBER_FIXED64:
        memcpy(place, &value, sizeof value);
        break;
    case PK_NUMBER_BOOL: {
        protobuf_c_boolean number = value != 0;
        memcpy(place, &number, sizeof number);
        break;
    }
    case PK_NUMBER_INT32:
    case PK_NUMBER_UINT32:
    case PK_NUMBER_FIXED32:
        memcpy(place, &narrow, sizeof narrow);
        break;
    }
}

/* Varints end in bytes below 0x80: as many elements as there are such bytes. */
static size_t count_varints(const uint8_t *p, const uint8_t *end)
{
    size_t count = 0;
    for (; end - p >= 8; p += 8) {
        uint64_t stops = ~pk_load64(p) & UINT64_C(0x8080808080808080);
        count += (size_t) (((stops >> 7) * UINT64_C(0x0101010101010101)) >> 56);
    }
    for (; p < end; p++)
        count += *p < 0x80;
    return count;
}

/* `count` varints that are known to be there, into an array with room for them; where they end. */
PK_INLINE uint8_t *read_varints(pk_decoder *decoder, uint8_t *p, pk_number kind, size_t size,
                                uint8_t *next, size_t count)
{
    for (uint8_t *full = next + count * size; next != full; next += size) {
        if (*p < 0x80) {
            store_element(kind, next, *p++);
            continue;
        }
#if PK_WIDE
        uint64_t word = pk_load64(p);
        uint64_t stops = ~word & UINT64_C(0x8080808080808080);
        if (PK_LIKELY(stops != 0)) {
            store_element(kind, next, pk_varint_of_word(word, stops));
            p += (unsigned) __builtin_ctzll(stops) / 8 + 1;
            continue;
        }
#endif
        pk_varint varint = pk_read_varint_long(p);
        if (PK_UNLIKELY(!varint.next)) {
            pk_decoder_bad_varint(decoder);
            return NULL;
        }
        store_element(kind, next, varint.value);
        p = varint.next;
    }
    return p;
}

static uint8_t *decode_packed_varints(pk_decoder *decoder, uint8_t *p, uint8_t *end, pk_number kind,
                                      void **elements, size_t *count)
{
    size_t size = element_size_of(kind);
    size_t more = count_varints(p, end);
    pk_array array;
    if (more == 0)
        return p == end ? p : truncated(decoder);
    if (!pk_decoder_array_room(decoder, &array, elements, *count, more, size))
        return NULL;
    /* The usual kinds have loops of their own. */
    if (kind == PK_NUMBER_INT64)
        p = read_varints(decoder, p, PK_NUMBER_INT64, 8, array.next, more);
    else if (kind == PK_NUMBER_INT32 || kind == PK_NUMBER_UINT32)
        p = read_varints(decoder, p, PK_NUMBER_UINT32, 4, array.next, more);
    else
        p = read_varints(decoder, p, kind, size, array.next, more);
    if (!p)
        return NULL;
    /* The last byte must be the last varint's last. */
    if (p != end)
        return truncated(decoder);
    *count += more;
    return p;
}

static uint8_t *decode_packed_fixed(pk_decoder *decoder, uint8_t *p, size_t length, size_t size,
                                    void **elements, size_t *count)
{
    pk_array array;
    if (length % size != 0)
        return malformed(decoder, "malformed message: a packed field holds a part of an element");
    size_t more = length / size;
    if (more == 0)
        return p;
    if (!pk_decoder_array_room(decoder, &array, elements, *count, more, size))
        return NULL;
#if PK_LITTLE_ENDIAN
    memcpy(array.next, p, length);
#else
    for (size_t i = 0; i < more; i++) {
        if (size == 4)
            store_element(PK_NUMBER_FIXED32, array.next + i * 4, pk_load32(p + i * 4));
        else
            store_element(PK_NUMBER_FIXED64, array.next + i * 8, pk_load64(p + i * 8));
    }
#endif
    *count += more;
    return p + length;
}

/* A member of type T * is read and written as bytes: its own type is the generated code's. */
static void *array_member(const void *member)
{
    void *elements;
    memcpy(&elements, member, sizeof elements);
    return elements;
}

uint8_t *pk_decode_packed(pk_decoder *decoder, uint8_t *p, uint8_t *end, pk_number kind,
                          void *member, size_t *count)
{
    size_t length;
    if (!pk_decode_length(decoder, &p, end, &length))
        return NULL;
    void *elements = array_member(member);
    uint8_t *next;
    if (kind == PK_NUMBER_FIXED32 || kind == PK_NUMBER_FIXED64)
        next = decode_packed_fixed(decoder, p, length, element_size_of(kind), &elements, count);
    else
        next = decode_packed_varints(decoder, p, p + length, kind, &elements, count);
    memcpy(member, &elements, sizeof elements);
    return next;
}

/* One element as it stands on the wire; false after a failure. */
static bool read_element(pk_decoder *decoder, uint8_t **place, uint8_t *end, pk_number kind,
                         uint64_t *value)
{
    uint8_t *p = *place;
    if (kind == PK_NUMBER_FIXED32) {
        *value = pk_load32(p);
        p += 4;
    } else if (kind == PK_NUMBER_FIXED64) {
        *value = pk_load64(p);
        p += 8;
    } else if (!pk_decode_varint(decoder, &p, value)) {
        return false;
    }
    if (p > end) {
        pk_decoder_truncated(decoder);
        return false;
    }
    *place = p;
    return true;
}

uint8_t *pk_decode_unpacked(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t tag,
                            pk_number kind, void *member, size_t *count)
{
    size_t size = element_size_of(kind);
    size_t tag_size = pk_varint_size(tag);
    uint8_t tag_bytes[5];
    uint8_t *first = pk_write_varint_before(tag_bytes + sizeof tag_bytes, tag);
    void *elements = array_member(member);
    /* A scalar before the chain came here may have run past the end. */
    if (p > end)
        return truncated(decoder);
    for (;;) {
        uint64_t value;
        pk_array array;
        if (!read_element(decoder, &p, end, kind, &value) ||
            !pk_decoder_array_room(decoder, &array, &elements, *count, 1, size))
            return NULL;
        store_element(kind, array.next, value);
        (*count)++;
        if ((size_t) (end - p) <= tag_size || memcmp(p, first, tag_size) != 0)
            break;
        p += tag_size;
    }
    memcpy(member, &elements, sizeof elements);
    return p;
}

/* ---- Closed enums --------------------------------------------------------------------------- */

bool pk_enum_lists(const ProtobufCEnumDescriptor *type, int32_t value)
{
    unsigned low = 0;
    unsigned high = type->n_value_ranges;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        const ProtobufCIntRange *range = &type->value_ranges[middle];
        unsigned in_range = range[1].orig_index - range->orig_index;
        if (value < range->start_value)
            high = middle;
        else if ((uint32_t) value - (uint32_t) range->start_value >= in_range)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

bool pk_decode_unlisted(pk_decoder *decoder, ProtobufCMessage *message, uint32_t number, uint8_t *p)
{
    pk_varint varint = pk_read_varint(p);
    if (!varint.next) {
        pk_decoder_bad_varint(decoder);
        return false;
    }
    return pk_decoder_keep_unknown(decoder, message, number << 3 | PK_WIRE_VARINT, p,
                                   (size_t) (varint.next - p));
}

uint8_t *pk_decode_closed_enums(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t tag,
                                const ProtobufCEnumDescriptor *type, ProtobufCMessage *message,
                                void *member, size_t *count)
{
    uint8_t *stop = end;
    bool packed = (tag & 7) == PK_WIRE_LENGTH;
    if (packed) {
        size_t length;
        if (!pk_decode_length(decoder, &p, end, &length))
            return NULL;
        stop = p + length;
    } else if (p >= end) {
        return truncated(decoder);
    }
    void *elements = array_member(member);
    while (p < stop) {
        uint8_t *start = p;
        uint64_t value;
        pk_array array;
        if (!read_element(decoder, &p, stop, PK_NUMBER_INT32, &value))
            return NULL;
        if (!pk_enum_lists(type, (int32_t) value)) {
            if (!pk_decoder_keep_unknown(decoder, message, (tag & ~7u) | PK_WIRE_VARINT, start,
                                         (size_t) (p - start)))
                return NULL;
        } else {
            if (!pk_decoder_array_room(decoder, &array, &elements, *count, 1, sizeof(int32_t)))
                return NULL;
            store_element(PK_NUMBER_INT32, array.next, value);
            (*count)++;
        }
        if (!packed)
            break;
    }
    memcpy(member, &elements, sizeof elements);
    return p;
}
