/*
 * What protobuf-c does with generated messages where the plugin goes beyond protoc-gen-c: presence
 * in proto3, groups, start values. Expected bytes are python3-protobuf's for the same messages.
 */
#include "groups.pb-c.h"
#include "hard_defaults.pb-c.h"
#include "names_fields.pb-c.h"
#include "optional3.pb-c.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <string.h>

typedef Optional__Three__Presence presence;

static const presence empty = OPTIONAL__THREE__PRESENCE__INIT;

static void check_bytes(const presence *message, const char *expected, size_t length)
{
    uint8_t bytes[64];
    presence *back;

    cr_assert_eq(optional__three__presence__get_packed_size(message), length);
    cr_assert_eq(optional__three__presence__pack(message, bytes), length);
    cr_assert_arr_eq(bytes, expected, length);
    back = optional__three__presence__unpack(NULL, length, bytes);
    cr_assert_not_null(back);
    cr_assert_eq(optional__three__presence__get_packed_size(back), length);
    cr_assert_eq(back->has_number, message->has_number);
    cr_assert_eq(back->has_data, message->has_data);
    cr_assert_eq(back->has_open, message->has_open);
    cr_assert_eq(!back->text, !message->text);
    optional__three__presence__free_unpacked(back, NULL);
}

Test(generated, a_proto3_optional_is_on_the_wire_where_it_is_present)
{
    presence message = empty;

    check_bytes(&message, "", 0);
    message.number = 5; /* without the flag it is not there */
    check_bytes(&message, "", 0);
    message.number = 0;
    message.has_number = 1;
    check_bytes(&message, "\x08\x00", 2);
    message.has_data = 1;
    message.text = (char *) "";
    message.has_open = 1;
    check_bytes(&message, "\x08\x00\x12\x00\x1a\x00\x20\x00", 8);
    message.plain = 0; /* implicit presence: zero is absence */
    message.choice_case = OPTIONAL__THREE__PRESENCE__CHOICE_LEFT;
    check_bytes(&message, "\x08\x00\x12\x00\x1a\x00\x20\x00\x48\x00", 10);
}

Test(generated, a_new_message_has_nothing_optional)
{
    presence message;

    memset(&message, 0xff, sizeof message);
    optional__three__presence__init(&message);
    cr_assert_not(message.has_number || message.has_data || message.has_open || message.has_flag ||
                  message.has_real || message.has_after);
    cr_assert_null(message.text);
    cr_assert_null(message.child);
    cr_assert_eq(message.choice_case, OPTIONAL__THREE__PRESENCE__CHOICE__NOT_SET);
    cr_assert_str_eq(message.plain_text, "");
}

Test(generated, start_values_are_those_of_the_proto)
{
    const Hard__Defaults__Hard message = HARD__DEFAULTS__HARD__INIT;

    cr_assert_eq(message.smallest, INT64_MIN);
    cr_assert(isinf(message.infinite) && message.infinite > 0);
    cr_assert(isinf(message.below) && message.below < 0);
    cr_assert(isnan(message.nothing));
    cr_assert(isinf(message.f_infinite) && isnan(message.f_nothing));
    cr_assert_eq(message.tenth, 0.1f);
    cr_assert_eq(message.precise, 1.2345679f);
    cr_assert_eq(message.third, 1.0 / 3);
    cr_assert_eq(message.tiny, 4.9406564584124654e-324);
    cr_assert_eq(message.f_max, FLT_MAX);
    cr_assert_eq(message.million, 16777216.0f); /* 16777217 is no float */
    cr_assert_arr_eq(message.trigraph, "what\?\?/", 8);
    cr_assert_str_eq(message.accents, "h\xc3\xa9 1");
}

Test(generated, the_zero_of_a_oneof_is_all_zero)
{
    static const Hard__Defaults__Braces message = HARD__DEFAULTS__BRACES__INIT;

    cr_assert_eq(message.one_case, 0);
    cr_assert_eq(message.raw.len, 0);
    cr_assert_null(message.raw.data);
    cr_assert_eq(message.two_case, 0);
    cr_assert_eq((int) message.kind, 0);
    cr_assert_null(message.text);
}

/* The members are there for pekoe's own decoder and packer; protobuf-c does not see them. */
Test(generated, a_group_is_a_member_that_the_descriptor_does_not_list)
{
    Groups__Search message = GROUPS__SEARCH__INIT;
    Groups__Search__Result result = GROUPS__SEARCH__RESULT__INIT;
    Groups__Search__Result *results[] = {&result};
    const ProtobufCMessageDescriptor *type = &groups__search__descriptor;

    cr_assert_null(message.must);
    cr_assert_eq(message.n_result, 0);
    cr_assert_eq(message.one_case, GROUPS__SEARCH__ONE__NOT_SET);
    cr_assert_eq(type->n_fields, 2);
    cr_assert_null(protobuf_c_message_descriptor_get_field_by_name(type, "result"));
    cr_assert_not_null(protobuf_c_message_descriptor_get_field(type, 4));
    cr_assert_not_null(protobuf_c_message_descriptor_get_field(type, 6));
    cr_assert_eq(groups__only_groups__descriptor.n_fields, 0);
    message.has_page = 1;
    message.page = 3;
    message.n_result = 1;
    message.result = results;
    cr_assert_eq(groups__search__get_packed_size(&message), 2);
}

Test(generated, moved_members_keep_their_proto_name_in_the_descriptor)
{
    const ProtobufCMessageDescriptor *type = &names__fields__own__descriptor;
    const ProtobufCFieldDescriptor *field;

    field = protobuf_c_message_descriptor_get_field_by_name(type, "n_items");
    cr_assert_not_null(field);
    cr_assert_eq(field->offset, offsetof(Names__Fields__Own, n_items_));
    field = protobuf_c_message_descriptor_get_field_by_name(type, "base");
    cr_assert_not_null(field);
    cr_assert_eq(field->offset, offsetof(Names__Fields__Own, base_));
}
