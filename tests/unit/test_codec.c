/* marshalling/codec.c: each codec's entry points agree, and say what is wrong with a message. */
#include "marshalling/codec.h"
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

static marshalling_fixture fixture;

static void set_up(void)
{
    fixture_init(&fixture);
}

static void tear_down(void)
{
    cr_assert_eq(fixture_done(&fixture), 0);
}

Test(codec, every_entry_point_writes_the_same_bytes_around_what_is_there, .init = set_up,
     .fini = tear_down)
{
    static uint8_t bytes[3000];
    static const size_t lengths[] = {0, 1, 127, 128, 511, 512, 513, 3000};
    memset(bytes, 'x', sizeof bytes);
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        const pk_codec *codec = i % 2 ? &pk_codec_bytes : &pk_codec_proto;
        Google__Protobuf__BytesValue value = bytes_value(bytes, lengths[i / 2]);
        pk_slice raw = {bytes, lengths[i / 2]};
        const void *message = i % 2 ? (const void *) &raw : (const void *) &value;
        uint8_t *marshalled = NULL;
        size_t length = SIZE_MAX;
        cr_assert_eq(codec->marshal(codec, bytes_value_type(), message, &fixture.memory,
                                    &marshalled, &length),
                     0);
        pk_buffer *buffer = pk_buffer_get(&fixture.pool);
        cr_assert_eq(pk_buffer_prepend(buffer, "tail", 4), 0);
        cr_assert_eq(codec->prepend(codec, bytes_value_type(), message, buffer), 0);
        cr_assert_eq(pk_buffer_length(buffer), length + 4);
        cr_expect_eq(memcmp(buffer->start, length ? marshalled : bytes, length), 0);
        cr_expect_eq(memcmp(buffer->end - 4, "tail", 4), 0);
        if (codec->append) {
            pk_buffer_rewind_for_append(buffer, 5);
            cr_assert_eq(pk_buffer_append(buffer, "head", 4), 0);
            cr_assert_eq(codec->append(codec, bytes_value_type(), message, buffer), 0);
            cr_assert_eq(pk_buffer_length(buffer), length + 4);
            cr_expect_eq(memcmp(buffer->start, "head", 4), 0);
            cr_expect_eq(memcmp(buffer->start + 4, length ? marshalled : bytes, length), 0);
        }
        const void *back = NULL;
        const char *reason = NULL;
        cr_assert_eq(codec->decode(codec, bytes_value_type(), (pk_slice){marshalled, length},
                                   &fixture.arena, &back, &reason),
                     0);
        if (i % 2)
            cr_expect_eq(((const pk_slice *) back)->length, lengths[i / 2]);
        else
            cr_expect_eq(((const Google__Protobuf__BytesValue *) back)->value.len, lengths[i / 2]);
        pk_memory_put(&fixture.memory, marshalled, length);
        pk_buffer_unref(buffer);
    }
}

Test(codec, a_message_of_another_type_changes_nothing, .init = set_up, .fini = tear_down)
{
    Google__Protobuf__StringValue other = GOOGLE__PROTOBUF__STRING_VALUE__INIT;
    uint8_t *bytes = NULL;
    size_t length = 7;
    pk_buffer *buffer = pk_buffer_get(&fixture.pool);
    cr_assert_eq(pk_buffer_prepend(buffer, "tail", 4), 0);
    cr_expect_eq(pk_codec_proto.prepend(&pk_codec_proto, bytes_value_type(), &other, buffer),
                 PK_ERR_INVALID);
    cr_expect_eq(pk_buffer_length(buffer), 4);
    cr_expect_eq(pk_codec_proto.marshal(&pk_codec_proto, bytes_value_type(), &other,
                                        &fixture.memory, &bytes, &length),
                 PK_ERR_INVALID);
    cr_expect_null(bytes);
    cr_expect_eq(length, 7);
    pk_buffer_unref(buffer);
}

Test(codec, bytes_that_are_no_message_give_a_reason, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = {{"\x0a", 1},
               {"\x0a\x05z", 3},
               {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
               {"\x07", 1},
               {"\x00", 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const void *message = NULL;
        const char *reason = NULL;
        cr_expect_eq(
            pk_codec_proto.decode(&pk_codec_proto, bytes_value_type(),
                                  (pk_slice){(const uint8_t *) bad[i].bytes, bad[i].length},
                                  &fixture.arena, &message, &reason),
            PK_ERR_MALFORMED, "row %zu", i);
        cr_expect_null(message);
        cr_expect(reason && *reason);
    }
}

Test(codec, nesting_ends_at_a_limit_and_not_in_the_stack, .init = set_up, .fini = tear_down)
{
    static uint8_t deep[4096];
    const void *message = NULL;
    const char *reason = NULL;
    pk_status status;
    /* Unknown groups nest too: field 15 starts one, 4,096 times. */
    memset(deep, 0x7b, sizeof deep);
    cr_expect_lt(pk_codec_proto.decode(&pk_codec_proto, bytes_value_type(),
                                       (pk_slice){deep, sizeof deep}, &fixture.arena, &message,
                                       &reason),
                 0);
    cr_expect_lt(pk_unmarshal(&pk_codec_proto, NULL, bytes_value_type(),
                              (pk_slice){deep, sizeof deep}, &fixture.arena, &message, &status),
                 0);
    cr_expect(status.code == PK_INTERNAL || status.code == PK_RESOURCE_EXHAUSTED);
}

Test(codec, each_allocation_may_fail)
{
    static uint8_t bytes[3000];
    for (size_t way = 0; way < 4; way++) {
        const pk_codec *codec = way % 2 ? &pk_codec_bytes : &pk_codec_proto;
        bool finished = false;
        for (size_t fail_at = 1; !finished; fail_at++) {
            fixture_init(&fixture);
            fixture.counts.fail_at = fail_at;
            Google__Protobuf__BytesValue value = bytes_value(bytes, sizeof bytes);
            pk_slice raw = {bytes, sizeof bytes};
            uint8_t *marshalled = NULL;
            size_t length = 0;
            const void *message = NULL;
            const char *reason = NULL;
            int r = way / 2 ? codec->decode(codec, bytes_value_type(), PK_SLICE("\x0a\x01z"),
                                            &fixture.arena, &message, &reason)
                            : codec->marshal(codec, bytes_value_type(),
                                             way % 2 ? (const void *) &raw : (const void *) &value,
                                             &fixture.memory, &marshalled, &length);
            cr_expect(r == 0 || r == PK_ERR_NOMEM);
            finished = fixture.counts.requests < fail_at;
            if (finished)
                cr_expect_eq(r, 0);
            pk_memory_put(&fixture.memory, marshalled, length);
            cr_assert_eq(fixture_done(&fixture), 0);
            cr_assert_lt(fail_at, 50);
        }
    }
}
