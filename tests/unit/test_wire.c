/* The inlined wire primitives of generated code; expected bytes are protobuf's documented ones. */
#include <pekoe/generated_wire.h>

#include <criterion/criterion.h>

#include <math.h>

static const struct {
    uint64_t value;
    const char *bytes;
    unsigned length;
} varints[] = {
    {0, "\x00", 1},
    {1, "\x01", 1},
    {127, "\x7f", 1},
    {128, "\x80\x01", 2},
    {150, "\x96\x01", 2},
    {16383, "\xff\x7f", 2},
    {16384, "\x80\x80\x01", 3},
    {2097151, "\xff\xff\x7f", 3},
    {268435455, "\xff\xff\xff\x7f", 4},
    {268435456, "\x80\x80\x80\x80\x01", 5},
    {UINT32_MAX, "\xff\xff\xff\xff\x0f", 5},
    {UINT64_C(0x7ffffffff), "\xff\xff\xff\xff\x7f", 5},
    {UINT64_C(1) << 35, "\x80\x80\x80\x80\x80\x01", 6},
    {UINT64_C(1) << 42, "\x80\x80\x80\x80\x80\x80\x01", 7},
    {(UINT64_C(1) << 56) - 1, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8},
    {UINT64_C(1) << 56, "\x80\x80\x80\x80\x80\x80\x80\x80\x01", 9},
    {UINT64_C(1) << 63, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10},
    {UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
};

Test(wire, varints_are_read_and_written_at_every_length)
{
    for (size_t i = 0; i < sizeof varints / sizeof varints[0]; i++) {
        uint8_t padded[32];
        uint8_t written[16];
        memset(padded, 0xff, sizeof padded);
        memcpy(padded, varints[i].bytes, varints[i].length);

        pk_varint read = pk_read_varint(padded);
        cr_assert_eq(read.value, varints[i].value, "row %zu", i);
        cr_assert_eq(read.next, padded + varints[i].length, "row %zu", i);
        read = pk_read_varint_long(padded);
        cr_assert_eq(read.value, varints[i].value, "row %zu", i);
        cr_assert_eq(read.next, padded + varints[i].length, "row %zu", i);

        cr_assert_eq(pk_varint_size(varints[i].value), varints[i].length, "row %zu", i);
        uint8_t *start = pk_write_varint_before(written + sizeof written, varints[i].value);
        cr_assert_eq((size_t) (written + sizeof written - start), varints[i].length, "row %zu", i);
        cr_assert_eq(memcmp(start, varints[i].bytes, varints[i].length), 0, "row %zu", i);
    }
}

Test(wire, overlong_varints_are_read_and_bits_above_64_are_cut)
{
    uint8_t overlong[32] = {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    pk_varint read = pk_read_varint(overlong);
    cr_assert_eq(read.value, 1);
    cr_assert_eq(read.next, overlong + 10);

    uint8_t high[32] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    read = pk_read_varint(high);
    cr_assert_eq(read.value, UINT64_MAX);
    cr_assert_eq(read.next, high + 10);
}

Test(wire, a_varint_of_eleven_bytes_is_none)
{
    uint8_t endless[32];
    memset(endless, 0x80, sizeof endless);
    cr_assert_null(pk_read_varint(endless).next);
}

Test(wire, zigzag_interleaves_the_signs)
{
    static const struct {
        int64_t plain;
        uint64_t coded;
    } rows[] = {
        {0, 0}, {-1, 1}, {1, 2}, {-2, 3}, {INT32_MAX, 4294967294u}, {INT32_MIN, 4294967295u},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(pk_zigzag64(rows[i].plain), rows[i].coded);
        cr_assert_eq(pk_unzigzag64(rows[i].coded), rows[i].plain);
        cr_assert_eq(pk_zigzag32((int32_t) rows[i].plain), (uint32_t) rows[i].coded);
        cr_assert_eq(pk_unzigzag32((uint32_t) rows[i].coded), (int32_t) rows[i].plain);
    }
    cr_assert_eq(pk_zigzag64(INT64_MIN), UINT64_MAX);
    cr_assert_eq(pk_unzigzag64(UINT64_MAX), INT64_MIN);
}

Test(wire, fixed_numbers_are_little_endian)
{
    const uint8_t bytes[8] = {0x01, 0x02, 0x03, 0x84, 0x05, 0x06, 0x07, 0x88};
    uint8_t stored[8];
    cr_assert_eq(pk_load16(bytes), 0x0201u);
    cr_assert_eq(pk_load32(bytes), 0x84030201u);
    cr_assert_eq(pk_load64(bytes), UINT64_C(0x8807060584030201));
    pk_store64(stored, UINT64_C(0x8807060584030201));
    cr_assert_eq(memcmp(stored, bytes, 8), 0);
    pk_store32(stored, 0x84030201u);
    cr_assert_eq(memcmp(stored, bytes, 4), 0);

    const uint8_t one_and_a_half[4] = {0x00, 0x00, 0xc0, 0x3f};
    const uint8_t minus_zero[8] = {0, 0, 0, 0, 0, 0, 0, 0x80};
    cr_assert_eq(pk_load_float(one_and_a_half), 1.5f);
    cr_assert(signbit(pk_load_double(minus_zero)));
    cr_assert_eq(pk_double_bits(-0.0), UINT64_C(1) << 63);
    cr_assert_eq(pk_float_bits(1.5f), 0x3fc00000u);
}

Test(wire, text_is_plain_up_to_the_first_byte_that_is_not)
{
    uint8_t text[64];
    for (size_t length = 0; length <= 32; length++) {
        memset(text, 'a', sizeof text);
        memset(text + length, 0, 8);
        /* True may be missed at length 0, where the slow check says so. */
        cr_assert(length == 0 || pk_text_is_plain(text, length), "length %zu", length);
        cr_assert(length == 0 || pk_text_has_no_nul(text, length), "length %zu", length);
        for (size_t at = 0; at < length; at++) {
            text[at] = 0;
            cr_assert_not(pk_text_is_plain(text, length), "NUL at %zu of %zu", at, length);
            cr_assert_not(pk_text_has_no_nul(text, length), "NUL at %zu of %zu", at, length);
            text[at] = 0x80;
            cr_assert_not(pk_text_is_plain(text, length), "0x80 at %zu of %zu", at, length);
            cr_assert(pk_text_has_no_nul(text, length), "0x80 at %zu of %zu", at, length);
            text[at] = 0x7f;
            cr_assert(pk_text_is_plain(text, length), "0x7f at %zu of %zu", at, length);
            text[at] = 'a';
        }
    }
    cr_assert_not(pk_text_is_plain(text, 33));
    cr_assert_not(pk_text_has_no_nul(text, 33));
}
