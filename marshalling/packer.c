/*
 * The parts of a packer that generated code does not inline: room, arrays of numbers, unknown
 * fields. Everything is written back to front and ends flush with the packer's end.
 */
#include <pekoe/generated_messages.h>

uint8_t *pk_packer_make_room(pk_packer *packer, uint8_t *at, size_t need)
{
    if (packer->error)
        return NULL;
    uint8_t *moved = packer->grow ? packer->grow(packer, at, need) : NULL;
    if (!moved && !packer->error)
        packer->error = PK_ERR_NOMEM;
    return moved;
}

uint8_t *pk_pack_unknown_fields(pk_packer *packer, uint8_t *at, const ProtobufCMessage *message)
{
    for (unsigned i = message->n_unknown_fields; i-- > 0;) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
        if (field->len > PK_LENGTH_MAX) {
            packer->error = PK_ERR_LIMIT;
            return NULL;
        }
        at = pk_pack_room(packer, at, field->len + 5);
        if (!at)
            return NULL;
        at = pk_pack_bytes(at, field->data, field->len);
        at = pk_pack_tag(at, field->tag << 3 | (uint32_t) field->wire_type);
    }
    return at;
}

static unsigned wire_type_of(pk_number kind)
{
    switch (kind) {
    case PK_NUMBER_FIXED32:
        return PK_WIRE_32;
    case PK_NUMBER_FIXED64:
        return PK_WIRE_64;
    case PK_NUMBER_INT32:
    case PK_NUMBER_UINT32:
    case PK_NUMBER_SINT32:
    case PK_NUMBER_INT64:
    case PK_NUMBER_SINT64:
    case PK_NUMBER_BOOL:
        break;
    }
    return PK_WIRE_VARINT;
}

/* Element `index` as the number that its varint or fixed form holds. */
PK_INLINE uint64_t element(pk_number kind, const void *array, size_t index)
{
    switch (kind) {
    case PK_NUMBER_INT32:
        return (uint64_t) (int64_t) ((const int32_t *) array)[index];
    case PK_NUMBER_UINT32:
    case PK_NUMBER_FIXED32:
        return ((const uint32_t *) array)[index];
    case PK_NUMBER_SINT32:
        return pk_zigzag32(((const int32_t *) array)[index]);
    case PK_NUMBER_INT64:
    case PK_NUMBER_FIXED64:
        return ((const uint64_t *) array)[index];
    case PK_NUMBER_SINT64:
        return pk_zigzag64(((const int64_t *) array)[index]);
    case PK_NUMBER_BOOL:
        return ((const protobuf_c_boolean *) array)[index] != 0;
    }
    return 0;
}

static uint8_t *pack_element(uint8_t *at, unsigned wire_type, uint64_t value)
{
    if (wire_type == PK_WIRE_32)
        return pk_pack_fixed32(at, (uint32_t) value);
    if (wire_type == PK_WIRE_64)
        return pk_pack_fixed64(at, value);
    return pk_pack_varint(at, value);
}

/* Elements of a fixed size lie in memory as on the wire, where bytes have the same order. */
static uint8_t *pack_fixed_elements(pk_packer *packer, uint8_t *at, size_t element_size,
                                    const void *array, size_t count)
{
    if (count > PK_LENGTH_MAX / element_size) {
        packer->error = PK_ERR_LIMIT;
        return NULL;
    }
    at = pk_pack_room(packer, at, count * element_size);
    if (!at)
        return NULL;
#if PK_LITTLE_ENDIAN
    return pk_pack_bytes(at, array, count * element_size);
#else
    for (size_t i = count; i-- > 0;) {
        at = element_size == 4 ? pk_pack_fixed32(at, ((const uint32_t *) array)[i])
                               : pk_pack_fixed64(at, ((const uint64_t *) array)[i]);
    }
    return at;
#endif
}

/* Elements [from, behind), for which there is room. */
PK_INLINE uint8_t *write_varints(uint8_t *at, pk_number kind, const void *array, size_t from,
                                 size_t behind)
{
    while (behind > from)
        at = pk_pack_varint(at, element(kind, array, --behind));
    return at;
}

static uint8_t *pack_varint_elements(pk_packer *packer, uint8_t *at, pk_number kind,
                                     const void *array, size_t count)
{
    while (count > 0) {
        size_t round = count < 64 ? count : 64;
        at = pk_pack_room(packer, at, round * PK_VARINT_MAX);
        if (!at)
            return NULL;
        /* The usual kinds have loops of their own. */
        if (kind == PK_NUMBER_INT64)
            at = write_varints(at, PK_NUMBER_INT64, array, count - round, count);
        else if (kind == PK_NUMBER_INT32)
            at = write_varints(at, PK_NUMBER_INT32, array, count - round, count);
        else
            at = write_varints(at, kind, array, count - round, count);
        count -= round;
    }
    return at;
}

uint8_t *pk_pack_numbers_packed(pk_packer *packer, uint8_t *at, uint32_t number, pk_number kind,
                                const void *array, size_t count)
{
    if (count == 0)
        return at;
    size_t behind = (size_t) (packer->end - at);
    unsigned wire_type = wire_type_of(kind);
    if (wire_type == PK_WIRE_VARINT)
        at = pack_varint_elements(packer, at, kind, array, count);
    else
        at = pack_fixed_elements(packer, at, wire_type == PK_WIRE_32 ? 4 : 8, array, count);
    if (!at)
        return NULL;
    size_t length = (size_t) (packer->end - at) - behind;
    if (length > PK_LENGTH_MAX) {
        packer->error = PK_ERR_LIMIT;
        return NULL;
    }
    at = pk_pack_room(packer, at, 10);
    if (!at)
        return NULL;
    at = pk_pack_varint(at, length);
    return pk_pack_tag(at, number << 3 | PK_WIRE_LENGTH);
}

uint8_t *pk_pack_numbers(pk_packer *packer, uint8_t *at, uint32_t number, pk_number kind,
                         const void *array, size_t count)
{
    unsigned wire_type = wire_type_of(kind);
    for (size_t i = count; i-- > 0;) {
        at = pk_pack_room(packer, at, PK_VARINT_MAX + 5);
        if (!at)
            return NULL;
        at = pack_element(at, wire_type, element(kind, array, i));
        at = pk_pack_tag(at, number << 3 | wire_type);
    }
    return at;
}
