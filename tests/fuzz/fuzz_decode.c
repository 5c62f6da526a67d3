/*
 * Slab decoders against libprotobuf-c, and against themselves.
 *
 * The first byte of the input chooses a type and a strategy of reservation, the rest is the
 * message. What the decoder takes must survive packing and decoding again, and the second packing
 * must give the same bytes. Where the input is plain, verdict and contents must be protobuf-c's.
 *
 * What is not plain is where protobuf-c differs on purpose or by fault (docs/messages.md has the
 * list): a record that is unknown, of another wire type or behind an overlong tag; a number with bits
 * above the 64th, which protobuf-c takes for true in a bool; a singular field or a oneof that comes
 * twice; a map entry without key or value; text that is not UTF-8 or holds a NUL; an enum number that
 * is not listed; groups.
 */
#include "kinds2.pekoe.h"
#include "kinds3.pekoe.h"
#include "marshalling/decoder.h"
#include "marshalling/guard.h"
#include "marshalling/message.h"
#include "marshalling/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static const pk_message_type *const types[] = {
    &kinds3_everything_type,   &kinds2_everything_type, &kinds3_scalars_type, &kinds3_repeated_type,
    &kinds3_few_repeated_type, &kinds3_maps_type,       &kinds3_choice_type,  &kinds3_tree_type,
    &kinds3_high_numbers_type, &kinds2_enums_type,      &kinds2_groups_type,  &kinds2_required_type,
    &kinds2_defaults_type,     &kinds3_small_type,      &kinds3_forest_type,  &kinds2_inner_type,
};

#define TYPES (sizeof types / sizeof types[0])

static void demand(bool holds)
{
    if (!holds)
        abort();
}

/* ---- What is plain -------------------------------------------------------------------------- */

/* Neither longer than it need be nor with bits that are cut. */
static bool plain_varint(const uint8_t **place, const uint8_t *end, uint64_t *value)
{
    uint64_t read = 0;
    for (unsigned i = 0; i < PK_VARINT_MAX && *place < end; i++) {
        uint8_t byte = *(*place)++;
        read |= (uint64_t) (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *value = read;
            return i == 0 || (byte != 0 && (i < 9 || byte == 1));
        }
    }
    return false;
}

/* Elements that have been written with more bytes than need be are no difference. */
static bool plain_packed(unsigned element, const uint8_t *p, const uint8_t *end)
{
    unsigned size = 0;
    for (; element == PK_WIRE_VARINT && p < end; p++) {
        if (++size == 10 && *p > 1)
            return false;
        if (*p < 0x80)
            size = 0;
    }
    return true;
}

static unsigned wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PK_WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PK_WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PK_WIRE_LENGTH;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        break;
    }
    return PK_WIRE_VARINT;
}

static bool is_plain(const ProtobufCMessageDescriptor *type, const uint8_t *p, const uint8_t *end);

static bool plain_value(const ProtobufCFieldDescriptor *field, unsigned wire_type,
                        const uint8_t **place, const uint8_t *end)
{
    uint64_t value;
    unsigned expected = wire_type_of(field->type);
    bool packed = field->label == PROTOBUF_C_LABEL_REPEATED && expected != PK_WIRE_LENGTH &&
                  wire_type == PK_WIRE_LENGTH;
    if (packed && field->type == PROTOBUF_C_TYPE_ENUM)
        return false;
    if (wire_type != expected && !packed)
        return false;
    if (wire_type == PK_WIRE_32 || wire_type == PK_WIRE_64) {
        ptrdiff_t size = wire_type == PK_WIRE_32 ? 4 : 8;
        if (end - *place < size)
            return false;
        *place += size;
        return true;
    }
    if (!plain_varint(place, end, &value))
        return false;
    if (wire_type == PK_WIRE_VARINT)
        return field->type != PROTOBUF_C_TYPE_ENUM ||
               (value == (uint64_t) (int64_t) (int32_t) value &&
                pk_enum_lists(field->descriptor, (int32_t) value));
    if (value > (size_t) (end - *place))
        return false;
    const uint8_t *inside = *place;
    *place += value;
    if (packed)
        return plain_packed(expected, inside, *place);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return is_plain(field->descriptor, inside, *place);
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return pk_utf8_check(inside, (size_t) value) == PK_TEXT_OK;
    return true;
}

static bool is_plain(const ProtobufCMessageDescriptor *type, const uint8_t *p, const uint8_t *end)
{
    bool seen[64] = {false};
    unsigned oneofs[8] = {0};
    unsigned oneof_count = 0;
    while (p < end) {
        uint64_t tag;
        unsigned index = 0;
        if (!plain_varint(&p, end, &tag))
            return false;
        while (index < type->n_fields && type->fields[index].id != tag >> 3)
            index++;
        if (index == type->n_fields || index >= 64)
            return false;
        const ProtobufCFieldDescriptor *field = &type->fields[index];
        if (field->label != PROTOBUF_C_LABEL_REPEATED && seen[index])
            return false;
        seen[index] = true;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            for (unsigned i = 0; i < oneof_count; i++) {
                if (oneofs[i] == field->quantifier_offset)
                    return false;
            }
            if (oneof_count == 8)
                return false;
            oneofs[oneof_count++] = field->quantifier_offset;
        }
        if (!plain_value(field, tag & 7, &p, end))
            return false;
    }
    size_t name = strlen(type->short_name);
    bool entry = name > 5 && strcmp(type->short_name + name - 5, "Entry") == 0;
    return !entry || (seen[0] && seen[1]);
}

/* ---- The comparison ------------------------------------------------------------------------- */

static pk_buffer *pack(const pk_message_type *type, const void *message, pk_buffer_pool *pool)
{
    pk_buffer *packed = pk_buffer_get(pool);
    demand(packed != NULL);
    pk_buffer_rewind_for_prepend(packed);
    demand(pk_message_pack(type, message, packed) == 0);
    return packed;
}

static bool same(const pk_buffer *left, const pk_buffer *right)
{
    return pk_buffer_length(left) == pk_buffer_length(right) &&
           memcmp(left->start, right->start, pk_buffer_length(left)) == 0;
}

static void round_trip(const pk_message_type *type, pk_arena *arena, const pk_buffer *packed,
                       pk_buffer_pool *pool)
{
    void *message;
    const char *problem;
    const struct pk_decode_limits wide = {SIZE_MAX / 2, 0};
    demand(pk_message_decode(type, arena, &wide, packed->start, pk_buffer_length(packed), &message,
                             &problem) == 0);
    pk_buffer *again = pack(type, message, pool);
    demand(same(packed, again));
    pk_buffer_unref(again);
}

static void compare(const pk_message_type *type, pk_arena *arena, pk_buffer_pool *pool, int error,
                    const void *message, const uint8_t *bytes, size_t length)
{
    pk_message_type other = *type;
    void *theirs;
    const char *problem;
    other.pack = NULL;
    int their_error =
        pk_guarded_unpack(type, arena, SIZE_MAX / 2, 100, bytes, length, &theirs, &problem);
    demand((error == 0) == (their_error == 0));
    if (error)
        return;
    pk_buffer *left = pack(&other, message, pool);
    pk_buffer *right = pack(&other, theirs, pool);
    demand(same(left, right));
    pk_buffer_unref(left);
    pk_buffer_unref(right);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    pk_memory memory;
    pk_arena arena;
    pk_buffer_pool pool;
    if (length == 0)
        return 0;
    pk_message_type type = *types[input[0] % TYPES];
    pk_reserve_plan plan = *type.reserve;
    plan.strategy = (pk_reserve) (input[0] / TYPES % 3);
    type.reserve = &plan;
    input++;
    length--;
    demand(pk_memory_init(&memory, NULL) == 0);
    pk_arena_init(&arena, &memory, 0);
    pk_buffer_pool_init(&pool, &memory);

    /* In a block of exactly the documented size, so that a sanitizer sees what is read beyond. */
    uint8_t *room = malloc(length + PK_DECODE_PADDING);
    void *message = NULL;
    const char *problem = NULL;
    demand(room != NULL);
    memcpy(room, input, length);
    memset(room + length, 0xa5, PK_DECODE_PADDING);
    int error = pk_message_decode_in_place(&type, &arena, NULL, room, length, &message, &problem);
    demand(error == 0 || problem != NULL);
    if (!error) {
        pk_buffer *packed = pack(&type, message, &pool);
        round_trip(&type, &arena, packed, &pool);
        pk_buffer_unref(packed);
    }
    if (error != PK_ERR_LIMIT && is_plain(type.descriptor, input, input + length))
        compare(&type, &arena, &pool, error, message, input, length);

    free(room);
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
