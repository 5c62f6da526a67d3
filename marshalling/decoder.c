/*
 * The parts of a slab decoder that generated code does not inline: memory, arrays, unknown fields,
 * the slow forms of tags and text. Called by generated code and by marshalling/message.c.
 *
 * Nothing here trusts a length or a count from the wire: lengths are compared with what is left
 * before anything is added to them, arrays grow with what has really been read, and every piece of
 * memory is charged to the decoder's budget.
 */
#include "marshalling/decoder.h"

#include "marshalling/utf8.h"

#include <string.h>

/* ---- Failures ------------------------------------------------------------------------------- */

bool pk_decoder_fail(pk_decoder *decoder, int error, const char *problem)
{
    if (!decoder->error) {
        decoder->error = error;
        decoder->problem = problem;
    }
    return false;
}

void pk_decoder_truncated(pk_decoder *decoder)
{
    pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                    "malformed message: a field runs past the end of its message");
}

void pk_decoder_bad_varint(pk_decoder *decoder)
{
    pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                    "malformed message: a varint has no end within 10 bytes");
}

void pk_decoder_too_deep(pk_decoder *decoder)
{
    pk_decoder_fail(decoder, PK_ERR_MALFORMED, "malformed message: messages are nested too deep");
}

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

/* ---- Memory --------------------------------------------------------------------------------- */

size_t pk_decode_budget(size_t payload, size_t most)
{
    const size_t base = 64u << 10;
    if (most <= base || payload >= (most - base) / 64u)
        return most;
    return base + payload * 64u;
}

void pk_decoder_init(pk_decoder *decoder, pk_arena *arena, size_t budget, unsigned depth,
                     size_t payload)
{
    size_t left = (size_t) (arena->end - arena->at);
    size_t within = left < budget ? left : budget;
    decoder->at = arena->at;
    decoder->limit = arena->at ? arena->at + within : NULL;
    decoder->depth = (int) depth;
    decoder->error = 0;
    decoder->problem = NULL;
    decoder->flags = 0;
    decoder->arena = arena;
    decoder->budget = budget - within;
    decoder->payload = payload;
    decoder->reserve = PK_RESERVE_GROWTH;
    decoder->required = NULL;
}

void pk_decoder_done(pk_decoder *decoder)
{
    pk_arena *arena = decoder->arena;
    arena->at = decoder->at;
}

void *pk_decoder_grow(pk_decoder *decoder, size_t size)
{
    if (decoder->error)
        return NULL;
    pk_arena *arena = decoder->arena;
    size_t rounded = (size + (PK_ARENA_ALIGNMENT - 1)) & ~(size_t) (PK_ARENA_ALIGNMENT - 1);
    /* What is left of the old block was charged and is not used. */
    decoder->budget += (size_t) (decoder->limit - decoder->at);
    decoder->limit = decoder->at;
    if (rounded < size || rounded > decoder->budget) {
        pk_decoder_fail(decoder, PK_ERR_LIMIT,
                        "message needs more memory than its decode budget allows");
        return NULL;
    }
    arena->at = decoder->at;
    uint8_t *piece = pk_arena_grow(arena, rounded);
    if (!piece) {
        pk_decoder_fail(decoder, PK_ERR_NOMEM, "out of memory");
        return NULL;
    }
    size_t block = (size_t) (arena->end - piece);
    size_t within = block < decoder->budget ? block : decoder->budget;
    decoder->at = piece + rounded;
    decoder->limit = piece + within;
    decoder->budget -= within;
    return piece;
}

/* ---- Arrays --------------------------------------------------------------------------------- */

#define FIRST_CAPACITY 4u

static pk_array new_array(pk_decoder *decoder, const void *elements, size_t used, size_t capacity,
                          size_t element_size)
{
    pk_array array = {NULL, NULL};
    size_t size;
    void *block;
    if (__builtin_mul_overflow(capacity, element_size, &size) ||
        __builtin_add_overflow(size, PK_ARRAY_HEADER, &size) || size > SIZE_MAX / 2) {
        pk_decoder_fail(decoder, PK_ERR_LIMIT, "array is too large");
        return array;
    }
    if (!pk_decoder_take(decoder, size, &block))
        return array;
    memcpy(block, &capacity, sizeof capacity);
    uint8_t *first = (uint8_t *) block + PK_ARRAY_HEADER;
    if (used > 0)
        memcpy(first, elements, used);
    array.next = first + used;
    array.full = first + capacity * element_size;
    return array;
}

/*
 * Records with `tag`, short form, that follow each other: `p` stands behind the first one's tag.
 * Stops at whatever is not one of them. Each step moves `p` forward within the input, and the
 * result is at most half of the bytes that were looked at.
 */
static size_t count_run(uint32_t tag, uint8_t *p, uint8_t *end)
{
    size_t count = 0;
    size_t tag_size = pk_varint_size(tag);
    while (p < end) {
        count++;
        pk_varint length = pk_read_varint(p);
        if (!length.next || length.next > end || length.value > (size_t) (end - length.next))
            break;
        p = length.next + length.value;
        if ((size_t) (end - p) <= tag_size)
            break;
        uint8_t expected[5];
        uint8_t *first = pk_write_varint_before(expected + sizeof expected, tag);
        if (memcmp(p, first, tag_size) != 0)
            break;
        p += tag_size;
    }
    return count;
}

pk_array pk_array_grow(pk_decoder *decoder, const void *elements, size_t used, size_t element_size,
                       uint32_t tag, uint8_t *p, uint8_t *end)
{
    size_t count = used / element_size;
    size_t capacity = count < FIRST_CAPACITY / 2 ? FIRST_CAPACITY : count * 2;
    if (decoder->reserve == PK_RESERVE_LOOKAHEAD && (tag & 7) == PK_WIRE_LENGTH) {
        /* Never less than doubling once there is an array: short runs must not copy it each time. */
        size_t run = count_run(tag, p, end);
        if (count == 0 || count + run > capacity)
            capacity = count + run;
    }
    return new_array(decoder, elements, used, capacity, element_size);
}

/* Room for `more` further elements behind `count`; sets *elements. */
static bool array_room(pk_decoder *decoder, pk_array *array, void **elements, size_t count,
                       size_t more, size_t element_size)
{
    *array = pk_array_of(*elements, count, element_size);
    if (more <= (size_t) (array->full - array->next) / element_size)
        return true;
    size_t capacity = count + more;
    if (count > 0 && capacity < count * 2)
        capacity = count * 2;
    if (more == 1 && capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    size_t used = count * element_size;
    *array = new_array(decoder, *elements, used, capacity, element_size);
    if (!array->next)
        return false;
    *elements = array->next - used;
    return true;
}

/* ---- Text ----------------------------------------------------------------------------------- */

bool pk_decode_check_utf8(pk_decoder *decoder, const uint8_t *text, size_t length)
{
    switch (pk_utf8_check(text, length)) {
    case PK_TEXT_OK:
        return true;
    case PK_TEXT_NUL:
        break;
    case PK_TEXT_BAD:
        return pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                               "malformed message: a string is not valid UTF-8");
    }
    return pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                           "a string holds a NUL byte, which a C string cannot");
}

bool pk_decode_check_binary(pk_decoder *decoder, const uint8_t *text, size_t length)
{
    return pk_utf8_check(text, length) != PK_TEXT_BAD ||
           pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                           "malformed message: a string is not valid UTF-8");
}

bool pk_decode_check_nul(pk_decoder *decoder, const uint8_t *text, size_t length)
{
    if (memchr(text, 0, length) == NULL)
        return true;
    return pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                           "a string holds a NUL byte, which a C string cannot");
}

/* ---- Tags and unknown fields ---------------------------------------------------------------- */

pk_varint pk_decode_tag(pk_decoder *decoder, uint8_t *p, uint8_t *end)
{
    pk_varint tag = pk_read_varint(p);
    if (!tag.next || tag.next - p > 5) {
        pk_decoder_fail(decoder, PK_ERR_MALFORMED, "malformed message: a tag is too long");
        tag.next = NULL;
    } else if (tag.next > end) {
        pk_decoder_truncated(decoder);
        tag.next = NULL;
    } else {
        tag.value &= UINT32_MAX;
        if (tag.value >> 3 == 0) {
            pk_decoder_fail(decoder, PK_ERR_MALFORMED, "malformed message: field number 0");
            tag.next = NULL;
        }
    }
    return tag;
}

static uint8_t *skip_group(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t number,
                           uint8_t **ret_end_tag);

/* Where the value behind a tag ends; NULL after a failure. */
static uint8_t *skip_value(pk_decoder *decoder, uint32_t tag, uint8_t *p, uint8_t *end)
{
    size_t length;
    switch (tag & 7) {
    case PK_WIRE_VARINT: {
        pk_varint varint = pk_read_varint(p);
        if (!varint.next) {
            pk_decoder_bad_varint(decoder);
            return NULL;
        }
        return varint.next <= end ? varint.next : truncated(decoder);
    }
    case PK_WIRE_64:
        return end - p >= 8 ? p + 8 : truncated(decoder);
    case PK_WIRE_LENGTH:
        return pk_decode_length(decoder, &p, end, &length) ? p + length : NULL;
    case PK_WIRE_GROUP: {
        uint8_t *end_tag;
        return skip_group(decoder, p, end, tag >> 3, &end_tag);
    }
    case PK_WIRE_32:
        return end - p >= 4 ? p + 4 : truncated(decoder);
    case PK_WIRE_GROUP_END:
        return malformed(decoder, "malformed message: a group ends that did not begin");
    default:
        return malformed(decoder, "malformed message: a wire type that does not exist");
    }
}

/* What follows the group's end tag; recursion is bounded by the decoder's depth. */
static uint8_t *skip_group(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t number,
                           uint8_t **ret_end_tag)
{
    if (!pk_decode_enter(decoder))
        return NULL;
    while (p < end) {
        pk_varint tag = pk_decode_tag(decoder, p, end);
        if (!tag.next)
            return NULL;
        if (tag.value == (number << 3 | PK_WIRE_GROUP_END)) {
            *ret_end_tag = p;
            pk_decode_leave(decoder);
            return tag.next;
        }
        p = skip_value(decoder, (uint32_t) tag.value, tag.next, end);
        if (!p)
            return NULL;
    }
    return truncated(decoder);
}

uint8_t *pk_decode_group_end(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t number,
                             uint8_t **ret_next)
{
    uint8_t *end_tag;
    uint8_t *next = skip_group(decoder, p, end, number, &end_tag);
    if (!next)
        return NULL;
    *ret_next = next;
    return end_tag;
}

static bool keep_unknown(pk_decoder *decoder, ProtobufCMessage *message, uint32_t tag,
                         uint8_t *data, size_t length)
{
    pk_array array;
    void *fields = message->unknown_fields;
    if (!array_room(decoder, &array, &fields, message->n_unknown_fields, 1,
                    sizeof(ProtobufCMessageUnknownField)))
        return false;
    ProtobufCMessageUnknownField *field = (ProtobufCMessageUnknownField *) (void *) array.next;
    field->tag = tag >> 3;
    /* protobuf-c's enum has no name for groups; it packs the number as it stands. */
    field->wire_type = (ProtobufCWireType) (tag & 7);
    field->len = length;
    field->data = data;
    message->unknown_fields = fields;
    message->n_unknown_fields++;
    return true;
}

uint8_t *pk_decode_unknown(pk_decoder *decoder, ProtobufCMessage *message, uint32_t tag, uint8_t *p,
                           uint8_t *end)
{
    uint8_t *next = skip_value(decoder, tag, p, end);
    if (!next || !keep_unknown(decoder, message, tag, p, (size_t) (next - p)))
        return NULL;
    return next;
}

uint8_t *pk_decode_other(pk_decoder *decoder, ProtobufCMessage *message, uint8_t *p, uint8_t *end)
{
    pk_varint tag = pk_decode_tag(decoder, p, end);
    if (!tag.next)
        return NULL;
    uint8_t *shortest = tag.next - pk_varint_size(tag.value);
    if (shortest > p) {
        pk_write_varint_before(tag.next, tag.value);
        return shortest;
    }
    return pk_decode_unknown(decoder, message, (uint32_t) tag.value, tag.next, end);
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
        pk_varint varint = pk_read_varint(p);
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
    if (!array_room(decoder, &array, elements, *count, more, size))
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
    if (!array_room(decoder, &array, elements, *count, more, size))
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
            !array_room(decoder, &array, &elements, *count, 1, size))
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
    return keep_unknown(decoder, message, number << 3 | PK_WIRE_VARINT, p,
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
            if (!keep_unknown(decoder, message, (tag & ~7u) | PK_WIRE_VARINT, start,
                              (size_t) (p - start)))
                return NULL;
        } else {
            if (!array_room(decoder, &array, &elements, *count, 1, sizeof(int32_t)))
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

/* ---- Reservation before the first record ---------------------------------------------------- */

#define PRESCAN_BYTES_MIN 256u  /* shorter payloads are not counted */
#define PRESCAN_ELEMENTS_MIN 4u /* fewer elements are left to growth */
#define PRESCAN_BYTES_FACTOR 8u /* bytes reserved per byte of payload, at most */

/*
 * Counts the records of the plan's fields on the root's level, length-delimited ones only. Stops at
 * groups and at whatever does not look right: the decoder will say what it is.
 */
static void count_records(const pk_reserve_plan *plan, uint8_t *p, uint8_t *end, uint32_t *counts)
{
    while (p < end) {
        pk_varint tag = pk_read_varint(p);
        if (!tag.next || tag.next > end)
            return;
        p = tag.next;
        pk_varint value;
        switch (tag.value & 7) {
        case PK_WIRE_VARINT:
            value = pk_read_varint(p);
            if (!value.next || value.next > end)
                return;
            p = value.next;
            break;
        case PK_WIRE_64:
        case PK_WIRE_32: {
            ptrdiff_t size = (tag.value & 7) == PK_WIRE_64 ? 8 : 4;
            if (end - p < size)
                return;
            p += size;
            break;
        }
        case PK_WIRE_LENGTH:
            value = pk_read_varint(p);
            if (!value.next || value.next > end || value.value > (size_t) (end - value.next))
                return;
            p = value.next + value.value;
            for (unsigned i = 0; i < plan->field_count; i++) {
                if (plan->fields[i].number == tag.value >> 3)
                    counts[i]++;
            }
            break;
        default:
            return;
        }
    }
}

void pk_decoder_prescan(pk_decoder *decoder, const pk_reserve_plan *plan, void *message, uint8_t *p,
                        uint8_t *end)
{
    uint32_t counts[PK_RESERVE_FIELDS_MAX] = {0};
    size_t payload = (size_t) (end - p);
    if (payload < PRESCAN_BYTES_MIN || plan->field_count > PK_RESERVE_FIELDS_MAX)
        return;
    count_records(plan, p, end, counts);
    uint64_t elements = 0;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < plan->field_count; i++) {
        elements += counts[i];
        bytes += (uint64_t) counts[i] * (plan->fields[i].object_size + sizeof(void *));
    }
    if (elements < PRESCAN_ELEMENTS_MIN)
        return;
    if (bytes > (uint64_t) payload * PRESCAN_BYTES_FACTOR)
        bytes = (uint64_t) payload * PRESCAN_BYTES_FACTOR;
    /* One block for all of it: taken, and at once given back to the decoder. */
    if (bytes > (size_t) (decoder->limit - decoder->at) && bytes < decoder->budget) {
        uint8_t *piece = pk_decoder_grow(decoder, (size_t) bytes);
        if (!piece)
            return;
        decoder->at = piece;
    }
    for (unsigned i = 0; i < plan->field_count; i++) {
        uint8_t *member = (uint8_t *) message + plan->fields[i].offset;
        if (counts[i] == 0 || array_member(member))
            continue;
        pk_array array = new_array(decoder, NULL, 0, counts[i], sizeof(void *));
        if (!array.next)
            return;
        memcpy(member, &array.next, sizeof array.next);
    }
}

/* ---- The end -------------------------------------------------------------------------------- */

int pk_decoder_finish(pk_decoder *decoder, bool decoded)
{
    if (decoded && PK_UNLIKELY(decoder->required != NULL))
        decoded = pk_required_judge(decoder);
    if (decoded)
        return 0;
    return decoder->error ? decoder->error : PK_ERR_MALFORMED;
}
