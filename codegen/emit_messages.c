/*
 * x.pb-c.h: the structs, initialisers and functions of protobuf-c. Called by emit.c.
 *
 * Names, members and their order are those of protoc-gen-c 1.4.1, so that code written for one
 * compiles with the other; so is the order and layout of the text, for those who compare.
 * Different on purpose: proto3 `optional` has presence as in proto2; a group is a pointer member,
 * which protobuf-c's descriptor does not list; start values that C or C++ would refuse or warn of
 * are spelt otherwise; members whose names would not compile have a '_' behind (names.h).
 */
#include "codegen/emit_fields.h"

static void write_typedefs(struct gen_printer *out, struct gen_message *const *messages,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gen_print(out, "typedef struct $type$ $type$;\n", "type", messages[i]->c_type);
        write_typedefs(out, messages[i]->messages, messages[i]->n_messages);
    }
}

static void write_enum(struct gen_printer *out, const struct gen_enum *enumeration)
{
    gen_write_comment(out, enumeration->comment.leading);
    gen_set(out, "type", enumeration->c_type);
    gen_print(out, "typedef enum _$type$ {\n");
    gen_indent(out);
    for (size_t i = 0; i < enumeration->n_values; i++) {
        const struct gen_enum_value *value = &enumeration->values[i];

        gen_write_comment(out, value->comment.leading);
        gen_write_comment(out, value->comment.trailing);
        gen_set_number(out, "number", value->number);
        gen_print(out, "$name$ = $number$$comma$\n", "name", value->c_name, "comma",
                  i + 1 < enumeration->n_values ? "," : "");
    }
    gen_outdent(out);
    gen_print(out, "    PROTOBUF_C__FORCE_ENUM_TO_BE_INT_SIZE($upper$)\n} $type$;\n", "upper",
              enumeration->c_upper);
}

static void write_enums(struct gen_printer *out, struct gen_message *const *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_enums(out, messages[i]->messages, messages[i]->n_messages);
        for (size_t j = 0; j < messages[i]->n_enums; j++)
            write_enum(out, messages[i]->enums[j]);
    }
}

static void write_case(struct gen_printer *out, const struct gen_oneof *oneof)
{
    gen_print(out, "typedef enum {\n  $not_set$ = 0,\n", "not_set", oneof->c_not_set);
    for (size_t i = 0; i < oneof->n_fields; i++) {
        gen_set_number(out, "number", oneof->fields[i]->number);
        gen_print(out, "  $name$ = $number$$comma$\n", "name", oneof->fields[i]->c_constant,
                  "comma", i + 1 < oneof->n_fields ? "," : "");
    }
    gen_print(out, "    PROTOBUF_C__FORCE_ENUM_TO_BE_INT_SIZE($upper$)\n} $type$;\n\n", "upper",
              oneof->c_case_upper, "type", oneof->c_case_type);
}

static void write_members(struct gen_printer *out, const struct gen_field *field)
{
    const char *constant = "";
    bool pointer = field->message || (field->type == GEN_STRING && !field->is_binary);

    if (field->type == GEN_STRING && !field->is_binary && field->parent->file->const_strings)
        constant = "const ";
    gen_write_comment(out, field->comment.leading);
    gen_write_comment(out, field->comment.trailing);
    gen_set(out, "deprecated", field->deprecated ? " PROTOBUF_C__DEPRECATED" : "");
    if (field->presence == GEN_HAS)
        gen_print(out, "protobuf_c_boolean $has$$deprecated$;\n", "has", field->c_has);
    if (field->presence == GEN_REPEATED)
        gen_print(out, "size_t $count$$deprecated$;\n", "count", field->c_count);
    gen_print(out, "$constant$$type$ $pointer$$array$$name$$deprecated$;\n", "constant", constant,
              "type", gen_field_type(field), "pointer", pointer ? "*" : "", "array",
              field->presence == GEN_REPEATED ? "*" : "", "name", field->c_name);
}

static void write_union(struct gen_printer *out, const struct gen_oneof *oneof)
{
    gen_print(out, "$type$ $case$;\nunion {\n", "type", oneof->c_case_type, "case", oneof->c_case);
    gen_indent(out);
    for (size_t i = 0; i < oneof->n_fields; i++)
        write_members(out, oneof->fields[i]);
    gen_outdent(out);
    gen_write(out, "};\n");
}

/* The zero of the union's first member, as both C and C++ take it without a warning. */
static const char *union_initial(struct gen_memory *memory, const struct gen_oneof *oneof)
{
    const struct gen_field *first = oneof->fields[0];

    if (first->is_binary)
        return "{ {0,NULL} }";
    if (first->enumeration)
        return gen_format(memory, "{ (%s) 0 }", first->enumeration->c_type);
    return "{0}";
}

static void write_init(struct gen_printer *out, const struct gen_message *message)
{
    gen_print(out,
              "#define $upper$__INIT \\\n"
              " { PROTOBUF_C_MESSAGE_INIT (&$lower$__descriptor) \\\n    ",
              "upper", message->c_upper, "lower", message->c_lower);
    for (size_t i = 0; i < message->n_fields; i++) {
        if (message->fields[i]->presence != GEN_ONEOF)
            gen_print(out, ", $initial$", "initial",
                      gen_field_initial(out->memory, message->fields[i]));
    }
    for (size_t i = 0; i < message->n_oneofs; i++)
        gen_print(out, ", $not_set$, $initial$", "not_set", message->oneofs[i]->c_not_set,
                  "initial", union_initial(out->memory, message->oneofs[i]));
    gen_write(out, " }\n\n\n");
}

static void write_struct(struct gen_printer *out, const struct gen_message *message)
{
    for (size_t i = 0; i < message->n_oneofs; i++)
        write_case(out, message->oneofs[i]);
    gen_write_comment(out, message->comment.leading);
    gen_print(out, "struct  $type$\n{\n", "type", message->c_type);
    gen_indent(out);
    gen_print(out, "ProtobufCMessage $base$;\n", "base", message->c_base);
    for (size_t i = 0; i < message->n_fields; i++) {
        if (message->fields[i]->presence != GEN_ONEOF)
            write_members(out, message->fields[i]);
    }
    for (size_t i = 0; i < message->n_oneofs; i++)
        write_union(out, message->oneofs[i]);
    gen_outdent(out);
    gen_write(out, "};\n");
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];

        if (!field->initial.present)
            continue;
        if (field->is_binary)
            gen_print(out, "extern uint8_t $name$_data[];\n", "name", field->c_default);
        else if (field->type == GEN_STRING)
            gen_print(out, "extern char $name$[];\n", "name", field->c_default);
    }
    write_init(out, message);
}

static void write_functions(struct gen_printer *out, const struct gen_message *message)
{
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    if (message->init_helpers)
        gen_print(out, "/* $type$ methods */\n"
                       "void   $lower$__init\n"
                       "                     ($type$         *message);\n");
    if (message->pack_helpers)
        gen_print(out, "size_t $lower$__get_packed_size\n"
                       "                     (const $type$   *message);\n"
                       "size_t $lower$__pack\n"
                       "                     (const $type$   *message,\n"
                       "                      uint8_t             *out);\n"
                       "size_t $lower$__pack_to_buffer\n"
                       "                     (const $type$   *message,\n"
                       "                      ProtobufCBuffer     *buffer);\n"
                       "$type$ *\n"
                       "       $lower$__unpack\n"
                       "                     (ProtobufCAllocator  *allocator,\n"
                       "                      size_t               len,\n"
                       "                      const uint8_t       *data);\n"
                       "void   $lower$__free_unpacked\n"
                       "                     ($type$ *message,\n"
                       "                      ProtobufCAllocator *allocator);\n");
}

static void write_closure(struct gen_printer *out, const struct gen_message *message)
{
    gen_print(out,
              "typedef void (*$type$_Closure)\n"
              "                 (const $type$ *message,\n"
              "                  void *closure_data);\n",
              "type", message->c_type);
}

static void write_enum_descriptors(struct gen_printer *out, struct gen_enum *const *enums,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++)
        gen_print(out, "extern const ProtobufCEnumDescriptor    $lower$__descriptor;\n", "lower",
                  enums[i]->c_lower);
}

static void write_descriptors(struct gen_printer *out, struct gen_message *const *messages,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gen_print(out, "extern const ProtobufCMessageDescriptor $lower$__descriptor;\n", "lower",
                  messages[i]->c_lower);
        write_descriptors(out, messages[i]->messages, messages[i]->n_messages);
        write_enum_descriptors(out, messages[i]->enums, messages[i]->n_enums);
    }
}

static void write_opening(struct gen_printer *out, const struct gen_file *file)
{
    gen_set(out, "file", file->name);
    gen_set(out, "guard", file->c_identifier);
    /* protobuf_c_empty_string, which proto3 needs, is there since 1.3.0. */
    gen_set(out, "oldest", file->proto3 ? "1003000" : "1000000");
    gen_print(out, "/* Generated by the protocol buffer compiler.  DO NOT EDIT! */\n"
                   "/* Generated from: $file$ */\n"
                   "\n"
                   "#ifndef PROTOBUF_C_$guard$__INCLUDED\n"
                   "#define PROTOBUF_C_$guard$__INCLUDED\n"
                   "\n"
                   "#include <protobuf-c/protobuf-c.h>\n");
    if (gen_file_needs_math(file))
        gen_write(out, "#include <math.h>\n");
    gen_print(out, "\n"
                   "PROTOBUF_C__BEGIN_DECLS\n"
                   "\n"
                   "#if PROTOBUF_C_VERSION_NUMBER < $oldest$\n"
                   "# error This file needs the headers of a newer libprotobuf-c.\n"
                   "#elif 1004001 < PROTOBUF_C_MIN_COMPILER_VERSION\n"
                   "# error The headers of libprotobuf-c want this file to be generated anew.\n"
                   "#endif\n"
                   "\n");
    for (size_t i = 0; i < file->n_imports; i++) {
        if (!file->imports[i]->no_generate)
            gen_print(out, "#include $header$\n", "header",
                      gen_name_include(out->memory, file, file->imports[i], ".pb-c.h"));
    }
    gen_write(out, "\n");
}

void gen_emit_message_header(struct gen_run *run, const struct gen_file *file,
                             struct gen_printer *out)
{
    (void) run;
    write_opening(out, file);
    write_typedefs(out, file->messages, file->n_messages);
    gen_write(out, "\n\n/* --- enums --- */\n\n");
    write_enums(out, file->messages, file->n_messages);
    for (size_t i = 0; i < file->n_enums; i++)
        write_enum(out, file->enums[i]);
    gen_write(out, "\n/* --- messages --- */\n\n");
    for (size_t i = 0; i < file->n_all_messages; i++)
        write_struct(out, file->all_messages[i]);
    for (size_t i = 0; i < file->n_all_messages; i++)
        write_functions(out, file->all_messages[i]);
    gen_write(out, "/* --- per-message closures --- */\n\n");
    for (size_t i = 0; i < file->n_all_messages; i++)
        write_closure(out, file->all_messages[i]);
    gen_write(out, "\n/* --- services --- */\n\n");
    for (size_t i = 0; i < file->n_services; i++)
        gen_emit_classic_service_header(out, file->services[i]);
    gen_write(out, "\n/* --- descriptors --- */\n\n");
    write_enum_descriptors(out, file->enums, file->n_enums);
    write_descriptors(out, file->messages, file->n_messages);
    for (size_t i = 0; i < file->n_services; i++) {
        if (file->services[i]->protobuf_c)
            gen_print(out, "extern const ProtobufCServiceDescriptor $lower$__descriptor;\n",
                      "lower", file->services[i]->c_lower);
    }
    gen_print(out, "\n"
                   "PROTOBUF_C__END_DECLS\n"
                   "\n\n#endif  /* PROTOBUF_C_$guard$__INCLUDED */\n");
}
