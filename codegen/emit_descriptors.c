/*
 * x.pb-c.c: protobuf-c's functions and descriptor tables. Called by emit.c. What emit_messages.c
 * says of names and order holds here, too: protoc-gen-c 1.4.1 is the model.
 */
#include "codegen/emit_fields.h"

#include <stdlib.h>
#include <string.h>

static void write_functions(struct gen_printer *out, const struct gen_message *message)
{
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    gen_set(out, "upper", message->c_upper);
    gen_set(out, "base", message->c_base);
    if (message->init_helpers)
        gen_print(out, "void   $lower$__init\n"
                       "                     ($type$         *message)\n"
                       "{\n"
                       "  static const $type$ init_value = $upper$__INIT;\n"
                       "  *message = init_value;\n"
                       "}\n");
    if (!message->pack_helpers)
        return;
    gen_print(out,
              "size_t $lower$__get_packed_size\n"
              "                     (const $type$ *message)\n"
              "{\n"
              "  assert(message->$base$.descriptor == &$lower$__descriptor);\n"
              "  return protobuf_c_message_get_packed_size ((const ProtobufCMessage*)(message));\n"
              "}\n"
              "size_t $lower$__pack\n"
              "                     (const $type$ *message,\n"
              "                      uint8_t       *out)\n"
              "{\n"
              "  assert(message->$base$.descriptor == &$lower$__descriptor);\n"
              "  return protobuf_c_message_pack ((const ProtobufCMessage*)message, out);\n"
              "}\n"
              "size_t $lower$__pack_to_buffer\n"
              "                     (const $type$ *message,\n"
              "                      ProtobufCBuffer *buffer)\n"
              "{\n"
              "  assert(message->$base$.descriptor == &$lower$__descriptor);\n"
              "  return protobuf_c_message_pack_to_buffer ((const ProtobufCMessage*)message, "
              "buffer);\n"
              "}\n");
    gen_print(out, "$type$ *\n"
                   "       $lower$__unpack\n"
                   "                     (ProtobufCAllocator  *allocator,\n"
                   "                      size_t               len,\n"
                   "                      const uint8_t       *data)\n"
                   "{\n"
                   "  return ($type$ *)\n"
                   "     protobuf_c_message_unpack (&$lower$__descriptor,\n"
                   "                                allocator, len, data);\n"
                   "}\n"
                   "void   $lower$__free_unpacked\n"
                   "                     ($type$ *message,\n"
                   "                      ProtobufCAllocator *allocator)\n"
                   "{\n"
                   "  if(!message)\n"
                   "    return;\n"
                   "  assert(message->$base$.descriptor == &$lower$__descriptor);\n"
                   "  protobuf_c_message_free_unpacked ((ProtobufCMessage*)message, allocator);\n"
                   "}\n");
}

struct sorted_value {
    const struct gen_enum_value *value;
    size_t position; /* in the .proto */
    size_t index;    /* among the different numbers */
};

static int compare_values(const void *left, const void *right)
{
    const struct sorted_value *a = left;
    const struct sorted_value *b = right;

    if (a->value->number != b->value->number)
        return a->value->number < b->value->number ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

static int compare_value_names(const void *left, const void *right)
{
    const struct sorted_value *a = left;
    const struct sorted_value *b = right;

    return strcmp(a->value->name, b->value->name);
}

/* Sorted by number; of values with one number, the one that comes first in the .proto. */
static struct sorted_value *sort_values(struct gen_memory *memory,
                                        const struct gen_enum *enumeration, size_t *ret_different)
{
    struct sorted_value *sorted = gen_array(memory, enumeration->n_values, sizeof *sorted);
    size_t different = 0;

    for (size_t i = 0; i < enumeration->n_values; i++)
        sorted[i] = (struct sorted_value){&enumeration->values[i], i, 0};
    qsort(sorted, enumeration->n_values, sizeof *sorted, compare_values);
    for (size_t i = 0; i < enumeration->n_values; i++) {
        if (i == 0 || sorted[i].value->number != sorted[i - 1].value->number)
            different++;
        sorted[i].index = different - 1;
    }
    *ret_different = different;
    return sorted;
}

static void write_value_tables(struct gen_printer *out, const struct gen_enum *enumeration,
                               struct sorted_value *sorted)
{
    bool names = !enumeration->file->code_size;
    size_t ranges = 0;

    gen_print(out, "static const ProtobufCEnumValue $lower$__enum_values_by_number[$different$] "
                   "=\n{\n");
    for (size_t i = 0; i < enumeration->n_values; i++) {
        if (i > 0 && sorted[i].index == sorted[i - 1].index)
            continue;
        gen_set_number(out, "number", sorted[i].value->number);
        if (names)
            gen_print(out, "  { \"$name$\", \"$constant$\", $number$ },\n", "name",
                      sorted[i].value->name, "constant", sorted[i].value->c_name);
        else
            gen_write(out, gen_format(out->memory, "  { NULL, NULL, %ld }, /* CODE_SIZE */\n",
                                      (long) sorted[i].value->number));
    }
    gen_print(out, "};\nstatic const ProtobufCIntRange $lower$__value_ranges[] = {\n");
    for (size_t i = 0; i < enumeration->n_values; i++) {
        long number = sorted[i].value->number;

        if (i > 0 && number <= (long) sorted[i - 1].value->number + 1)
            continue;
        gen_printf(out, "{%ld, %zu},", number, sorted[i].index);
        ranges++;
    }
    gen_print(out, "{0, $different$}\n};\n");
    gen_set_number(out, "ranges", (long long) ranges);
    if (!names)
        return;
    qsort(sorted, enumeration->n_values, sizeof *sorted, compare_value_names);
    gen_print(out, "static const ProtobufCEnumValueIndex $lower$__enum_values_by_name[$count$] =\n"
                   "{\n");
    for (size_t i = 0; i < enumeration->n_values; i++)
        gen_printf(out, "  { \"%s\", %zu },\n", sorted[i].value->name, sorted[i].index);
    gen_write(out, "};\n");
}

static void write_enum(struct gen_printer *out, const struct gen_enum *enumeration)
{
    size_t different;
    struct sorted_value *sorted = sort_values(out->memory, enumeration, &different);

    gen_set(out, "lower", enumeration->c_lower);
    gen_set_number(out, "different", (long long) different);
    gen_set_number(out, "count", (long long) enumeration->n_values);
    write_value_tables(out, enumeration, sorted);
    gen_print(out, "const ProtobufCEnumDescriptor $lower$__descriptor =\n"
                   "{\n"
                   "  PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,\n");
    if (enumeration->file->code_size)
        gen_print(out, "  NULL,NULL,NULL,NULL, /* CODE_SIZE */\n"
                       "  $different$,\n"
                       "  $lower$__enum_values_by_number,\n"
                       "  0, NULL, /* CODE_SIZE */\n");
    else
        gen_print(out,
                  "  \"$full_name$\",\n"
                  "  \"$name$\",\n"
                  "  \"$type$\",\n"
                  "  \"$package$\",\n"
                  "  $different$,\n"
                  "  $lower$__enum_values_by_number,\n"
                  "  $count$,\n"
                  "  $lower$__enum_values_by_name,\n",
                  "full_name", enumeration->full_name, "name", enumeration->name, "type",
                  enumeration->c_type, "package", enumeration->file->package);
    gen_print(out, "  $ranges$,\n"
                   "  $lower$__value_ranges,\n"
                   "  NULL,NULL,NULL,NULL   /* reserved[1234] */\n"
                   "};\n");
}

static void write_defaults(struct gen_printer *out, const struct gen_message *message)
{
    struct gen_memory *memory = out->memory;

    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];
        const struct gen_default *initial = &field->initial;

        if (!initial->present || (field->type != GEN_STRING && field->type != GEN_BYTES))
            continue;
        gen_print(out, "$type$ $name$$ending$[] = \"$text$\";\n", "type",
                  field->is_binary ? "uint8_t" : "char", "name", field->c_default, "ending",
                  field->is_binary ? "_data" : "", "text",
                  gen_escape(memory, initial->data, initial->length));
    }
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];

        if (!field->initial.present || (field->type == GEN_STRING && !field->is_binary))
            continue;
        gen_print(out, "static const $type$ $name$ = $value$;\n", "type", gen_field_type(field),
                  "name", field->c_default, "value", gen_field_default(memory, field));
    }
}

static const char *type_word(const struct gen_field *field)
{
    static const char *const words[] = {
        [GEN_DOUBLE] = "DOUBLE",   [GEN_FLOAT] = "FLOAT",       [GEN_INT64] = "INT64",
        [GEN_UINT64] = "UINT64",   [GEN_INT32] = "INT32",       [GEN_FIXED64] = "FIXED64",
        [GEN_FIXED32] = "FIXED32", [GEN_BOOL] = "BOOL",         [GEN_STRING] = "STRING",
        [GEN_MESSAGE] = "MESSAGE", [GEN_BYTES] = "BYTES",       [GEN_UINT32] = "UINT32",
        [GEN_ENUM] = "ENUM",       [GEN_SFIXED32] = "SFIXED32", [GEN_SFIXED64] = "SFIXED64",
        [GEN_SINT32] = "SINT32",   [GEN_SINT64] = "SINT64",
    };

    return field->is_binary ? "BYTES" : words[field->type];
}

static const char *label_word(const struct gen_field *field)
{
    switch (field->presence) {
    case GEN_REQUIRED:
        return "REQUIRED";
    case GEN_REPEATED:
        return "REPEATED";
    case GEN_IMPLICIT:
        return "NONE";
    case GEN_HAS:
        return "OPTIONAL";
    case GEN_POINTER:
    case GEN_ONEOF:
        break;
    }
    return field->parent->file->proto3 && !field->optional ? "NONE" : "OPTIONAL";
}

/* Where protobuf-c finds whether, or how often, the field is there. */
static void write_quantifier(struct gen_printer *out, const struct gen_field *field)
{
    const char *member = NULL;

    if (field->presence == GEN_ONEOF)
        member = field->oneof->c_case;
    else if (field->presence == GEN_HAS)
        member = field->c_has;
    else if (field->presence == GEN_REPEATED)
        member = field->c_count;
    if (member)
        gen_print(out, "  offsetof($type$, $member$),\n", "member", member);
    else
        gen_write(out, "  0,   /* quantifier_offset */\n");
}

static const char *default_address(struct gen_memory *memory, const struct gen_field *field)
{
    if (field->initial.present)
        return gen_format(memory, "&%s", field->c_default);
    if (field->check_utf8 && !field->optional && !field->is_binary)
        return "&protobuf_c_empty_string";
    return "NULL";
}

static const char *type_address(struct gen_memory *memory, const struct gen_field *field)
{
    if (field->message)
        return gen_format(memory, "&%s__descriptor", field->message->c_lower);
    if (field->enumeration)
        return gen_format(memory, "&%s__descriptor", field->enumeration->c_lower);
    return "NULL";
}

static void write_field(struct gen_printer *out, const struct gen_field *field)
{
    const struct gen_file *file = field->parent->file;
    const char *name = file->oneof_field_names && field->oneof ? field->oneof->name : field->name;

    gen_write(out, "{\n");
    if (file->code_size)
        gen_write(out, "  NULL, /* CODE_SIZE */\n");
    else
        gen_print(out, "  \"$name$\",\n", "name", name);
    gen_set_number(out, "number", field->number);
    gen_print(out,
              "  $number$,\n"
              "  PROTOBUF_C_LABEL_$label$,\n"
              "  PROTOBUF_C_TYPE_$word$,\n",
              "label", label_word(field), "word", type_word(field));
    write_quantifier(out, field);
    gen_print(out,
              "  offsetof($type$, $member$),\n"
              "  $address$,\n"
              "  $default$,\n"
              "  0$packed$$deprecated$$oneof$,             /* flags */\n"
              "  0,NULL,NULL    /* reserved1,reserved2, etc */\n"
              "},\n",
              "member", field->c_name, "address", type_address(out->memory, field), "default",
              default_address(out->memory, field), "packed",
              field->packed ? " | PROTOBUF_C_FIELD_FLAG_PACKED" : "", "deprecated",
              field->deprecated ? " | PROTOBUF_C_FIELD_FLAG_DEPRECATED" : "", "oneof",
              field->oneof ? " | PROTOBUF_C_FIELD_FLAG_ONEOF" : "");
}

/* The fields that protobuf-c's descriptor lists, by number: all but groups. */
struct listed {
    const struct gen_field **fields;
    size_t count;
};

static struct listed list_fields(struct gen_memory *memory, const struct gen_message *message)
{
    struct listed listed = {.fields = gen_array(memory, message->n_fields, sizeof(*listed.fields))};

    for (size_t i = 0; i < message->n_fields; i++) {
        if (message->by_number[i]->type != GEN_GROUP)
            listed.fields[listed.count++] = message->by_number[i];
    }
    return listed;
}

struct name_index {
    const char *name;
    size_t index;
};

static int compare_name_indices(const void *left, const void *right)
{
    return strcmp(((const struct name_index *) left)->name,
                  ((const struct name_index *) right)->name);
}

static void write_name_index(struct gen_printer *out, const struct listed *listed)
{
    struct name_index *sorted = gen_array(out->memory, listed->count, sizeof *sorted);

    for (size_t i = 0; i < listed->count; i++)
        sorted[i] = (struct name_index){listed->fields[i]->name, i};
    qsort(sorted, listed->count, sizeof *sorted, compare_name_indices);
    gen_print(out, "static const unsigned $lower$__field_indices_by_name[] = {\n");
    for (size_t i = 0; i < listed->count; i++)
        gen_printf(out, "  %zu,   /* field[%zu] = %s */\n", sorted[i].index, sorted[i].index,
                   sorted[i].name);
    gen_write(out, "};\n");
}

/* Runs of successive numbers: the first number of each, and the index of its field. */
static void write_ranges(struct gen_printer *out, const struct listed *listed)
{
    size_t ranges = 1;

    for (size_t i = 1; i < listed->count; i++)
        ranges += listed->fields[i]->number != listed->fields[i - 1]->number + 1;
    gen_set_number(out, "ranges", (long long) ranges);
    gen_print(out, "static const ProtobufCIntRange $lower$__number_ranges[$ranges$ + 1] =\n{\n");
    for (size_t i = 0; i < listed->count; i++) {
        if (i == 0 || listed->fields[i]->number != listed->fields[i - 1]->number + 1)
            gen_printf(out, "  { %ld, %zu },\n", (long) listed->fields[i]->number, i);
    }
    gen_printf(out, "  { 0, %zu }\n};\n", listed->count);
}

static void write_tables(struct gen_printer *out, const struct gen_message *message,
                         const struct listed *listed)
{
    gen_set_number(out, "count", (long long) listed->count);
    if (listed->count == 0) {
        gen_set(out, "ranges", "0");
        gen_print(out, "#define $lower$__field_descriptors NULL\n"
                       "#define $lower$__field_indices_by_name NULL\n"
                       "#define $lower$__number_ranges NULL\n");
        return;
    }
    gen_print(out, "static const ProtobufCFieldDescriptor $lower$__field_descriptors[$count$] =\n"
                   "{\n");
    gen_indent(out);
    for (size_t i = 0; i < listed->count; i++)
        write_field(out, listed->fields[i]);
    gen_outdent(out);
    gen_write(out, "};\n");
    if (!message->file->code_size)
        write_name_index(out, listed);
    write_ranges(out, listed);
}

static void write_descriptor(struct gen_printer *out, const struct gen_message *message)
{
    struct listed listed = list_fields(out->memory, message);

    write_defaults(out, message);
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    write_tables(out, message, &listed);
    gen_print(out, "const ProtobufCMessageDescriptor $lower$__descriptor =\n"
                   "{\n"
                   "  PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,\n");
    if (message->file->code_size)
        gen_write(out, "  NULL,NULL,NULL,NULL, /* CODE_SIZE */\n");
    else
        gen_print(out,
                  "  \"$full_name$\",\n"
                  "  \"$short$\",\n"
                  "  \"$type$\",\n"
                  "  \"$package$\",\n",
                  "full_name", message->full_name, "short", message->c_short, "package",
                  message->file->package);
    gen_print(out,
              "  sizeof($type$),\n"
              "  $count$,\n"
              "  $lower$__field_descriptors,\n"
              "  $names$,$remark$\n"
              "  $ranges$,  $lower$__number_ranges,\n"
              "  $init$,$init_remark$\n"
              "  NULL,NULL,NULL    /* reserved[123] */\n"
              "};\n",
              "names",
              message->file->code_size
                  ? "NULL"
                  : gen_format(out->memory, "%s__field_indices_by_name", message->c_lower),
              "remark", message->file->code_size ? " /* CODE_SIZE */" : "", "init",
              message->init_helpers
                  ? gen_format(out->memory, "(ProtobufCMessageInit) %s__init", message->c_lower)
                  : "NULL",
              "init_remark", message->init_helpers ? "" : " /* gen_init_helpers = false */");
}

static void write_message(struct gen_printer *out, const struct gen_message *message)
{
    for (size_t i = 0; i < message->n_messages; i++)
        write_message(out, message->messages[i]);
    for (size_t i = 0; i < message->n_enums; i++)
        write_enum(out, message->enums[i]);
    write_descriptor(out, message);
}

void gen_emit_message_source(struct gen_run *run, const struct gen_file *file,
                             struct gen_printer *out)
{
    (void) run;
    gen_print(out,
              "/* Generated by the protocol buffer compiler.  DO NOT EDIT! */\n"
              "/* Generated from: $file$ */\n"
              "\n"
              "/* Do not generate deprecated warnings for self */\n"
              "#ifndef PROTOBUF_C__NO_DEPRECATED\n"
              "#define PROTOBUF_C__NO_DEPRECATED\n"
              "#endif\n"
              "\n"
              "#include \"$stem$.pb-c.h\"\n",
              "file", file->name, "stem", file->c_stem);
    for (size_t i = 0; i < file->n_all_messages; i++)
        write_functions(out, file->all_messages[i]);
    for (size_t i = 0; i < file->n_messages; i++)
        write_message(out, file->messages[i]);
    for (size_t i = 0; i < file->n_enums; i++)
        write_enum(out, file->enums[i]);
    for (size_t i = 0; i < file->n_services; i++)
        gen_emit_classic_service_source(out, file->services[i]);
}
