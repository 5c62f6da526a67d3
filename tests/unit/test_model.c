/*
 * codegen/model*.c: from descriptors to the checked tree. Good input is tested through the
 * plugin's output (tests/golden); here stands what protoc would never send, and what the tree
 * says of presence.
 */
#include "codegen/model.h"

#include <criterion/criterion.h>

#include <string.h>

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;

/* A request with x.proto: package p; message M { int32 f = 1; } enum E { A = 0; } */
static struct {
    Google__Protobuf__Compiler__CodeGeneratorRequest request;
    Google__Protobuf__FileDescriptorProto file;
    message_proto message;
    field_proto field;
    field_proto second;
    Google__Protobuf__EnumDescriptorProto enumeration;
    Google__Protobuf__EnumValueDescriptorProto value;
    Google__Protobuf__OneofDescriptorProto oneof;
    Google__Protobuf__ServiceDescriptorProto service;
    Google__Protobuf__MethodDescriptorProto method;
    Google__Protobuf__MessageOptions options;
    /* what the arrays point to */
    char *names[2];
    Google__Protobuf__FileDescriptorProto *files[2];
    message_proto *messages[2];
    field_proto *fields[2];
    Google__Protobuf__EnumDescriptorProto *enums[1];
    Google__Protobuf__EnumValueDescriptorProto *values[1];
    Google__Protobuf__OneofDescriptorProto *oneofs[1];
    Google__Protobuf__ServiceDescriptorProto *services[1];
    Google__Protobuf__MethodDescriptorProto *methods[2];
} x;

static struct gen_memory memory;
static struct gen_report report;

static void set_up(void)
{
    memset(&x, 0, sizeof x);
    google__protobuf__compiler__code_generator_request__init(&x.request);
    google__protobuf__file_descriptor_proto__init(&x.file);
    google__protobuf__descriptor_proto__init(&x.message);
    google__protobuf__field_descriptor_proto__init(&x.field);
    google__protobuf__field_descriptor_proto__init(&x.second);
    google__protobuf__enum_descriptor_proto__init(&x.enumeration);
    google__protobuf__enum_value_descriptor_proto__init(&x.value);
    google__protobuf__oneof_descriptor_proto__init(&x.oneof);
    google__protobuf__service_descriptor_proto__init(&x.service);
    google__protobuf__method_descriptor_proto__init(&x.method);
    google__protobuf__message_options__init(&x.options);
    x.names[0] = x.names[1] = (char *) "x.proto";
    x.files[0] = x.files[1] = &x.file;
    x.messages[0] = x.messages[1] = &x.message;
    x.fields[0] = &x.field;
    x.fields[1] = &x.second;
    x.enums[0] = &x.enumeration;
    x.values[0] = &x.value;
    x.oneofs[0] = &x.oneof;
    x.services[0] = &x.service;
    x.methods[0] = x.methods[1] = &x.method;
    x.request.file_to_generate = x.names;
    x.request.n_file_to_generate = 1;
    x.request.proto_file = x.files;
    x.request.n_proto_file = 1;
    x.file.name = x.names[0];
    x.file.package = (char *) "p";
    x.file.message_type = x.messages;
    x.file.n_message_type = 1;
    x.file.enum_type = x.enums;
    x.file.n_enum_type = 1;
    x.message.name = (char *) "M";
    x.message.field = x.fields;
    x.message.n_field = 1;
    x.message.oneof_decl = x.oneofs;
    x.oneof.name = (char *) "o";
    x.field.name = (char *) "f";
    x.second.name = (char *) "g";
    x.field.number = 1;
    x.second.number = 2;
    x.field.type = x.second.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_INT32;
    x.field.label = x.second.label =
        GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_OPTIONAL;
    x.enumeration.name = (char *) "E";
    x.enumeration.value = x.values;
    x.enumeration.n_value = 1;
    x.value.name = (char *) "A";
    x.file.service = x.services;
    x.service.name = (char *) "S";
    x.service.method = x.methods;
    x.service.n_method = 1;
    x.method.name = (char *) "Do";
    x.method.input_type = x.method.output_type = (char *) ".p.M";
}

static struct gen_model *build(void)
{
    static struct gen_parameters parameters = {.messages = true};

    report = (struct gen_report){.memory = &memory};
    return gen_model_new(&x.request, &parameters, &report);
}

static void finish(void)
{
    gen_report_done(&report);
    gen_memory_done(&memory);
}

TestSuite(model, .init = set_up, .fini = finish);

Test(model, the_plain_request_gives_a_tree)
{
    struct gen_model *model;

    x.file.n_service = 1;
    model = build();
    cr_assert_eq(report.count, 0, "%s", report.text.data);
    cr_assert(model->files[0]->generated);
    cr_assert_str_eq(model->files[0]->messages[0]->fields[0]->full_name, "p.M.f");
    cr_assert_eq(model->files[0]->services[0]->methods[0]->input, model->files[0]->messages[0]);
    cr_assert_str_eq(model->files[0]->services[0]->methods[0]->path, "/p.S/Do");
}

static void type_gone(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE;
    x.field.type_name = (char *) ".p.Gone";
}

static void type_missing(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE;
}

static void type_relative(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE;
    x.field.type_name = (char *) "p.M";
}

static void type_is_enum(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE;
    x.field.type_name = (char *) ".p.E";
}

static void enum_is_message(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_ENUM;
    x.field.type_name = (char *) ".p.M";
}

static void type_unknown(void)
{
    x.field.type = (Google__Protobuf__FieldDescriptorProto__Type) 19;
}

static void type_negative(void)
{
    x.field.type = (Google__Protobuf__FieldDescriptorProto__Type) -1;
}

static void label_unknown(void)
{
    x.field.label = (Google__Protobuf__FieldDescriptorProto__Label) 4;
}

static void required_in_proto3(void)
{
    x.file.syntax = (char *) "proto3";
    x.field.label = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REQUIRED;
}

static void editions(void)
{
    x.file.syntax = (char *) "editions";
}

static void number_zero(void)
{
    x.field.number = 0;
}

static void number_huge(void)
{
    x.field.number = 1 << 29;
}

static void number_twice(void)
{
    x.message.n_field = 2;
    x.second.number = 1;
}

static void name_missing(void)
{
    x.field.name = NULL;
}

static void name_is_code(void)
{
    x.field.name = (char *) "f; int g";
}

static void package_is_code(void)
{
    x.file.package = (char *) "p..q";
}

static void file_name_ends_comment(void)
{
    x.file.name = x.names[0] = (char *) "x*/.proto";
}

static void oneof_beyond(void)
{
    x.field.has_oneof_index = 1;
    x.field.oneof_index = 3;
}

static void oneof_negative(void)
{
    x.field.has_oneof_index = 1;
    x.field.oneof_index = -1;
}

static void oneof_repeated(void)
{
    x.message.n_oneof_decl = 1;
    x.field.has_oneof_index = 1;
    x.field.label = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED;
}

static void oneof_empty(void)
{
    x.message.n_oneof_decl = 1;
}

static void enum_empty(void)
{
    x.enumeration.n_value = 0;
}

static void message_twice(void)
{
    x.file.n_message_type = 2;
}

static void file_twice(void)
{
    x.request.n_proto_file = 2;
    x.file.n_message_type = 0;
    x.file.n_enum_type = 0;
}

static void file_not_sent(void)
{
    x.names[1] = (char *) "y.proto";
    x.request.n_file_to_generate = 2;
}

static void imports_itself(void)
{
    x.file.dependency = x.names;
    x.file.n_dependency = 1;
}

static void map_without_entry(void)
{
    x.message.options = &x.options;
    x.options.has_map_entry = x.options.map_entry = 1;
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE;
    x.field.type_name = (char *) ".p.M";
    x.field.label = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED;
}

static void default_not_a_number(void)
{
    x.field.default_value = (char *) "7x";
}

static void default_too_big(void)
{
    x.field.default_value = (char *) "2147483648";
}

static void default_of_repeated(void)
{
    x.field.label = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED;
    x.field.default_value = (char *) "7";
}

static void default_enum_gone(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_ENUM;
    x.field.type_name = (char *) ".p.E";
    x.field.default_value = (char *) "B";
}

static void default_bad_escape(void)
{
    x.field.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BYTES;
    x.field.default_value = (char *) "a\\";
}

static void method_type_gone(void)
{
    x.file.n_service = 1;
    x.method.output_type = NULL;
}

static void method_twice(void)
{
    x.file.n_service = 1;
    x.service.n_method = 2;
}

Test(model, what_protoc_never_sends_is_reported)
{
    static const struct {
        void (*change)(void);
        const char *text;
    } rows[] = {
        {type_gone, "x.proto: \"p.M.f\" refers to \".p.Gone\", which is no message"},
        {type_missing, "refers to \"\", which is no message"},
        {type_relative, "refers to \"p.M\", which is no message"},
        {type_is_enum, "refers to \".p.E\", which is no message"},
        {enum_is_message, "refers to \".p.M\", which is no enum"},
        {type_unknown, "no known type"},
        {type_negative, "no known type"},
        {label_unknown, "no known label"},
        {required_in_proto3, "is required, in proto3"},
        {editions, "syntax \"editions\" is not supported"},
        {number_zero, "has the number 0"},
        {number_huge, "has the number 536870912"},
        {number_twice, "\"p.M.g\" and \"p.M.f\" have the same number 1"},
        {name_missing, "\"\" is no name for a field"},
        {name_is_code, "\"f; int g\" is no name for a field"},
        {package_is_code, "\"\" is no name for a package"},
        {file_name_ends_comment, "\"x*/.proto\" is no name for a file"},
        {oneof_beyond, "is in a oneof that does not exist"},
        {oneof_negative, "is in a oneof that does not exist"},
        {oneof_repeated, "so it cannot be required or repeated"},
        {oneof_empty, "oneof \"p.M.o\" has no field"},
        {enum_empty, "enum \"p.E\" has no value"},
        {message_twice, "\"p.M\" is defined twice"},
        {file_twice, "was sent twice"},
        {file_not_sent, "y.proto: was asked for, but protoc did not send it"},
        {imports_itself, "imports \"x.proto\", which protoc did not send before it"},
        {map_without_entry, "is no proper map"},
        {default_not_a_number, "cannot have the default \"7x\""},
        {default_too_big, "cannot have the default \"2147483648\""},
        {default_of_repeated, "cannot have the default \"7\""},
        {default_enum_gone, "cannot have the default \"B\""},
        {default_bad_escape, "cannot have the default \"a\\\""},
        {method_type_gone, "\"p.S.Do\" refers to \"\", which is no message"},
        {method_twice, "\"p.S.Do\" is defined twice"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_up();
        rows[i].change();
        build();
        cr_assert_neq(report.count, 0, "row %zu: %s", i, rows[i].text);
        cr_assert_not_null(strstr(report.text.data, rows[i].text), "row %zu: %s", i,
                           report.text.data);
        gen_report_done(&report);
    }
}

Test(model, presence_says_how_absence_looks)
{
    enum { INT32 = 5, STRING = 9, MESSAGE = 11, BYTES = 12, ENUM = 14 };
    enum { OPTIONAL = 1, REQUIRED = 2, REPEATED = 3 };
    static const struct {
        const char *syntax;
        int type, label, optional;
        enum gen_presence presence;
    } rows[] = {
        {"proto2", INT32, OPTIONAL, 0, GEN_HAS},
        {"proto2", STRING, OPTIONAL, 0, GEN_POINTER},
        {"proto2", BYTES, OPTIONAL, 0, GEN_HAS},
        {"proto2", MESSAGE, OPTIONAL, 0, GEN_POINTER},
        {"proto2", ENUM, REQUIRED, 0, GEN_REQUIRED},
        {"proto2", MESSAGE, REQUIRED, 0, GEN_REQUIRED},
        {"proto2", STRING, REPEATED, 0, GEN_REPEATED},
        {"proto3", INT32, OPTIONAL, 0, GEN_IMPLICIT},
        {"proto3", STRING, OPTIONAL, 0, GEN_IMPLICIT},
        {"proto3", BYTES, OPTIONAL, 0, GEN_IMPLICIT},
        {"proto3", MESSAGE, OPTIONAL, 0, GEN_POINTER},
        {"proto3", INT32, OPTIONAL, 1, GEN_HAS},
        {"proto3", STRING, OPTIONAL, 1, GEN_POINTER},
        {"proto3", BYTES, OPTIONAL, 1, GEN_HAS},
        {"proto3", MESSAGE, OPTIONAL, 1, GEN_POINTER},
        {"proto3", ENUM, OPTIONAL, 1, GEN_HAS},
        {"proto3", ENUM, REPEATED, 0, GEN_REPEATED},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct gen_message *message;

        set_up();
        x.file.syntax = (char *) rows[i].syntax;
        x.field.type = (Google__Protobuf__FieldDescriptorProto__Type) rows[i].type;
        x.field.label = (Google__Protobuf__FieldDescriptorProto__Label) rows[i].label;
        if (rows[i].type == MESSAGE)
            x.field.type_name = (char *) ".p.M";
        if (rows[i].type == ENUM)
            x.field.type_name = (char *) ".p.E";
        if (rows[i].optional) {
            /* As protoc sends it: in a oneof of its own. */
            x.message.n_oneof_decl = 1;
            x.field.has_oneof_index = x.field.has_proto3_optional = x.field.proto3_optional = 1;
        }
        message = build()->files[0]->messages[0];
        cr_assert_eq(report.count, 0, "row %zu: %s", i, report.text.data);
        cr_assert_eq(message->fields[0]->presence, rows[i].presence, "row %zu", i);
        cr_assert_null(message->fields[0]->oneof, "row %zu", i);
        cr_assert_eq(message->n_oneofs, 0, "row %zu", i);
    }
}
