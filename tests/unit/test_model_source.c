/* codegen/model_source.c: options that arrive as unknown fields, and places. */
#include "codegen/model_source.h"

#include <criterion/criterion.h>

#include <string.h>

typedef Google__Protobuf__MessageOptions options_type;

static struct gen_memory memory;
static options_type *options;

static const ProtobufCMessage *read_options(const char *bytes, size_t length)
{
    options = google__protobuf__message_options__unpack(NULL, length, (const uint8_t *) bytes);
    cr_assert_not_null(options);
    return &options->base;
}

static void finish(void)
{
    google__protobuf__message_options__free_unpacked(options, NULL);
    gen_memory_done(&memory);
}

TestSuite(model_source, .fini = finish);

/* 73563 << 3 is the varint d8 f5 23; 1019 << 3 | 2 is da 3f. */
Test(model_source, the_last_number_wins)
{
    uint64_t value = 7;
    const ProtobufCMessage *base = read_options("\xd8\xf5\x23\x01\xd8\xf5\x23\x00", 8);

    cr_assert(gen_option_number(base, 73563, 0, &value));
    cr_assert_eq(value, 0);
}

Test(model_source, what_is_not_there_leaves_the_output_alone)
{
    uint64_t value = 7;
    const char *text = "old";
    /* The right number with the wrong wire type is not there either. */
    const ProtobufCMessage *base = read_options("\xda\xf5\x23\x01\x01\xda\x3f\x00", 8);

    cr_assert_not(gen_option_number(NULL, 73563, 0, &value));
    cr_assert_not(gen_option_number(base, 73563, 0, &value));
    cr_assert_not(gen_option_number(base, 64103, 0, &value));
    cr_assert_not(gen_option_number(base, 1019, 3, &value));
    cr_assert_not(gen_option_text(base, 1019, 3, &memory, &text));
    cr_assert_eq(value, 7);
    cr_assert_str_eq(text, "old");
}

/* protoc writes `option (x).a = ..; option (x).b = ..;` as two records of x, which merge. */
Test(model_source, records_of_one_option_merge)
{
    uint64_t value;
    const char *text;
    const ProtobufCMessage *base =
        read_options("\xda\x3f\x04\x1a\x02hi\xda\x3f\x02\x08\x01\xda\x3f\x02\x10\x00", 17);

    cr_assert(gen_option_text(base, 1019, 3, &memory, &text));
    cr_assert_str_eq(text, "hi");
    cr_assert(gen_option_number(base, 1019, 1, &value));
    cr_assert_eq(value, 1);
    cr_assert(gen_option_number(base, 1019, 2, &value));
    cr_assert_eq(value, 0);
}

Test(model_source, a_broken_record_inside_ends_the_search)
{
    uint64_t value = 7;
    const ProtobufCMessage *base = read_options("\xda\x3f\x04\x1a\x7f\x08\x01", 7);

    cr_assert_not(gen_option_number(base, 1019, 1, &value));
    cr_assert_eq(value, 7);
}

Test(model_source, places_are_found_by_path_and_count_from_one)
{
    int32_t message_path[] = {4, 0};
    int32_t field_path[] = {4, 0, 2, 1};
    int32_t span[] = {11, 2, 20};
    Google__Protobuf__SourceCodeInfo__Location message =
        GOOGLE__PROTOBUF__SOURCE_CODE_INFO__LOCATION__INIT;
    Google__Protobuf__SourceCodeInfo__Location field =
        GOOGLE__PROTOBUF__SOURCE_CODE_INFO__LOCATION__INIT;
    Google__Protobuf__SourceCodeInfo__Location *locations[] = {&field, &message};
    Google__Protobuf__SourceCodeInfo info = GOOGLE__PROTOBUF__SOURCE_CODE_INFO__INIT;
    Google__Protobuf__FileDescriptorProto file = GOOGLE__PROTOBUF__FILE_DESCRIPTOR_PROTO__INIT;
    struct gen_source source;
    struct gen_path path = {0};
    struct gen_place place;
    struct gen_comment comment;

    message.path = message_path;
    message.n_path = 2;
    field.path = field_path;
    field.n_path = 4;
    field.span = span;
    field.n_span = 3;
    field.leading_comments = (char *) " A comment.\n";
    info.location = locations;
    info.n_location = 2;
    file.name = (char *) "x.proto";
    file.source_code_info = &info;
    gen_source_init(&source, &memory, &file);

    gen_path_push(&memory, &path, 4, 0);
    gen_source_find(&source, &path, &place, &comment);
    cr_assert_str_eq(gen_place_text(&memory, place), "x.proto"); /* it has no span */
    gen_path_push(&memory, &path, 2, 1);
    gen_source_find(&source, &path, &place, &comment);
    cr_assert_str_eq(gen_place_text(&memory, place), "x.proto:12:3");
    cr_assert_str_eq(comment.leading, " A comment.\n");
    gen_path_pop(&path);
    gen_path_push(&memory, &path, 2, 2);
    gen_source_find(&source, &path, &place, &comment);
    cr_assert_eq(place.line, 0);
    cr_assert_null(comment.leading);
}
