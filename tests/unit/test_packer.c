/* The parts of packers that are not generated: room, arrays of numbers, unknown fields. */
#include <pekoe/generated_messages.h>

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static unsigned grown;

/* A block of exactly what was asked for, so that writing before it is seen. */
static uint8_t *grow(pk_packer *packer, uint8_t *at, size_t need)
{
    size_t kept = (size_t) (packer->end - at);
    uint8_t *block = malloc(kept + need);
    if (!block)
        return NULL;
    if (kept > 0)
        memcpy(block + need, at, kept);
    free(packer->owner);
    packer->owner = packer->start = block;
    packer->end = block + kept + need;
    grown++;
    return block + need;
}

static uint8_t *refuse(pk_packer *packer, uint8_t *at, size_t need)
{
    (void) packer;
    (void) at;
    (void) need;
    return NULL;
}

static void expect(const pk_packer *packer, const uint8_t *at, const char *bytes, size_t length)
{
    cr_assert_not_null(at);
    cr_assert_eq((size_t) (packer->end - at), length);
    cr_assert_eq(memcmp(at, bytes, length), 0);
}

static const int32_t int32s[] = {0, 1, -1, 300};
static const uint32_t uint32s[] = {1, UINT32_MAX};
static const int32_t sint32s[] = {-1, 1};
static const int64_t int64s[] = {-1};
static const int64_t sint64s[] = {INT64_MIN};
static const uint64_t fixed64s[] = {2};
static const protobuf_c_boolean bools[] = {0, 1, 77};

static const struct {
    pk_number kind;
    const void *array;
    size_t count;
    const char *packed;
    size_t packed_length;
    const char *unpacked;
    size_t unpacked_length;
} rows[] = {
    {PK_NUMBER_INT32, int32s, 4, "\x0a\x0e\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xac\x02",
     16, "\x08\x00\x08\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\xac\x02", 18},
    {PK_NUMBER_UINT32, uint32s, 2, "\x0a\x06\x01\xff\xff\xff\xff\x0f", 8,
     "\x08\x01\x08\xff\xff\xff\xff\x0f", 8},
    {PK_NUMBER_SINT32, sint32s, 2, "\x0a\x02\x01\x02", 4, "\x08\x01\x08\x02", 4},
    {PK_NUMBER_INT64, int64s, 1, "\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12,
     "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
    {PK_NUMBER_SINT64, sint64s, 1, "\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12,
     "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
    {PK_NUMBER_FIXED32, uint32s, 1, "\x0a\x04\x01\x00\x00\x00", 6, "\x0d\x01\x00\x00\x00", 5},
    {PK_NUMBER_FIXED64, fixed64s, 1, "\x0a\x08\x02\x00\x00\x00\x00\x00\x00\x00", 10,
     "\x09\x02\x00\x00\x00\x00\x00\x00\x00", 9},
    {PK_NUMBER_BOOL, bools, 3, "\x0a\x03\x00\x01\x01", 5, "\x08\x00\x08\x01\x08\x01", 6},
    {PK_NUMBER_BOOL, bools, 0, "", 0, "", 0},
};

Test(packer, numbers_are_packed_and_not_packed)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pk_packer packer = {NULL, NULL, grow, NULL, 0};
        uint8_t *at = pk_pack_numbers_packed(&packer, packer.end, 1, rows[i].kind, rows[i].array,
                                             rows[i].count);
        if (rows[i].count > 0)
            expect(&packer, at, rows[i].packed, rows[i].packed_length);
        free(packer.owner);

        packer = (pk_packer){NULL, NULL, grow, NULL, 0};
        at = pk_pack_numbers(&packer, packer.end, 1, rows[i].kind, rows[i].array, rows[i].count);
        if (rows[i].count > 0)
            expect(&packer, at, rows[i].unpacked, rows[i].unpacked_length);
        free(packer.owner);
    }
}

Test(packer, long_arrays_are_written_in_rounds)
{
    int32_t *array = calloc(1000, sizeof *array);
    pk_packer packer = {NULL, NULL, grow, NULL, 0};
    cr_assert_not_null(array);
    for (int i = 0; i < 1000; i++)
        array[i] = i % 100;
    grown = 0;
    uint8_t *at = pk_pack_numbers_packed(&packer, packer.end, 2, PK_NUMBER_INT32, array, 1000);
    cr_assert_not_null(at);
    cr_assert_gt(grown, 1u);
    cr_assert_eq((size_t) (packer.end - at), 1003u);
    cr_assert_eq(memcmp(at, "\x12\xe8\x07\x00\x01\x02", 6), 0);
    free(packer.owner);
    free(array);
}

Test(packer, bytes_of_every_length_are_copied)
{
    uint8_t from[64], to[128];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t) (i + 1);
    for (size_t length = 0; length <= sizeof from; length++) {
        memset(to, 0, sizeof to);
        uint8_t *at = pk_pack_bytes(to + 100, from, length);
        cr_assert_eq(at, to + 100 - length);
        cr_assert_eq(memcmp(at, from, length), 0, "length %zu", length);
        cr_assert(at[-1] == 0 && to[100] == 0, "length %zu", length);
    }
}

Test(packer, unknown_fields_keep_their_order_and_form)
{
    uint8_t varint[] = {0x05}, text[] = {0x02, 'h', 'i'}, group[] = {0x08, 0x01, 0x1c};
    ProtobufCMessageUnknownField fields[] = {
        {1, PROTOBUF_C_WIRE_TYPE_VARINT, sizeof varint, varint},
        {5000, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, sizeof text, text},
        {3, (ProtobufCWireType) PK_WIRE_GROUP, sizeof group, group},
    };
    ProtobufCMessage message = {NULL, 3, fields};
    pk_packer packer = {NULL, NULL, grow, NULL, 0};
    uint8_t *at = pk_pack_unknown_fields(&packer, packer.end, &message);
    expect(&packer, at, "\x08\x05\xc2\xb8\x02\x02hi\x1b\x08\x01\x1c", 12);
    free(packer.owner);
}

Test(packer, a_failure_to_grow_is_kept)
{
    uint8_t little[4];
    pk_packer packer = {little, little + sizeof little, refuse, NULL, 0};
    cr_assert_null(pk_pack_numbers_packed(&packer, packer.end, 1, PK_NUMBER_INT32, int32s, 4));
    cr_assert_eq(packer.error, PK_ERR_NOMEM);
    cr_assert_null(pk_packer_make_room(&packer, packer.end, 1));
}
