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

void pk_decoder_long_length(pk_decoder *decoder)
{
    pk_decoder_fail(decoder, PK_ERR_MALFORMED, "malformed message: a length takes over 5 bytes");
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

/*
 * Most arrays of messages within messages hold an element or two; one that outgrows that is on its
 * way to many, and takes a larger step once.
 */
#define FIRST_CAPACITY 2u
#define SECOND_CAPACITY 8u

static size_t next_capacity(size_t count)
{
    if (count < FIRST_CAPACITY)
        return FIRST_CAPACITY;
    return count < SECOND_CAPACITY / 2 ? SECOND_CAPACITY : count * 2;
}

pk_array pk_decoder_new_array(pk_decoder *decoder, const void *elements, size_t used,
                              size_t capacity, size_t element_size)
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
        if (!length.next || length.next > end || length.next - p > PK_LENGTH_BYTES_MAX ||
            length.value > (size_t) (end - length.next))
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
    size_t capacity = next_capacity(count);
    if (decoder->reserve == PK_RESERVE_LOOKAHEAD && (tag & 7) == PK_WIRE_LENGTH) {
        /* Never less than doubling once there is an array: short runs must not copy it each time. */
        size_t run = count_run(tag, p, end);
        if (count == 0 || count + run > capacity)
            capacity = count + run;
    }
    return pk_decoder_new_array(decoder, elements, used, capacity, element_size);
}

/* Room for `more` further elements behind `count`; sets *elements. */
bool pk_decoder_array_room(pk_decoder *decoder, pk_array *array, void **elements, size_t count,
                           size_t more, size_t element_size)
{
    *array = pk_array_of(*elements, count, element_size);
    if (more <= (size_t) (array->full - array->next) / element_size)
        return true;
    size_t capacity = count + more;
    /* A packed record says how many there are; whatever comes piece by piece may go on. */
    if ((count > 0 || more == 1) && capacity < next_capacity(count))
        capacity = next_capacity(count);
    size_t used = count * element_size;
    *array = pk_decoder_new_array(decoder, *elements, used, capacity, element_size);
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
    if (!tag.next || tag.next - p > PK_TAG_BYTES_MAX) {
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

bool pk_decoder_keep_unknown(pk_decoder *decoder, ProtobufCMessage *message, uint32_t tag,
                             uint8_t *data, size_t length)
{
    pk_array array;
    void *fields = message->unknown_fields;
    if (!pk_decoder_array_room(decoder, &array, &fields, message->n_unknown_fields, 1,
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
    if (!next || !pk_decoder_keep_unknown(decoder, message, tag, p, (size_t) (next - p)))
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

/* ---- The end -------------------------------------------------------------------------------- */

int pk_decoder_judge(pk_decoder *decoder, bool decoded)
{
    if (decoded && PK_UNLIKELY(decoder->required != NULL))
        decoded = pk_required_judge(decoder);
    if (decoded)
        return 0;
    return decoder->error ? decoder->error : PK_ERR_MALFORMED;
}
