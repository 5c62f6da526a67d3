/*
 * Packers and message types of x.pekoe.c. Called by emit.c.
 *
 * For every message of the file, and every foreign one that a field of theirs leads to, a static
 * function that writes the message back to front: unknown fields, then the fields from the highest
 * number down, so that the bytes stand in ascending order. Before each field there is room for the
 * fixed parts of all fields that are still to come (tags, lengths, numbers); only text, bytes and
 * nested messages ask for more.
 *
 * The output is that of protobuf_c_message_pack, but for -0.0 in proto3 (written: it is not the
 * default) and a member of a oneof that points to protobuf_c_empty_string (written: it is set).
 */
#include "codegen/closure.h"
#include "codegen/emit_fields.h"
#include "codegen/emit_slab.h"

#include <inttypes.h>

#define VARINT_MAX 10u
#define LENGTH_MAX_BYTES 5u

/* ---- Tags ------------------------------------------------------------------------------------ */

static uint32_t tag_of(const struct gen_field *field, unsigned wire_type)
{
    return (uint32_t) field->number << 3 | wire_type;
}

static unsigned tag_bytes(uint32_t tag, uint8_t bytes[5])
{
    unsigned count = 0;

    for (; tag >= 0x80; tag >>= 7)
        bytes[count++] = (uint8_t) (tag | 0x80);
    bytes[count++] = (uint8_t) tag;
    return count;
}

static void write_tag(struct gen_printer *out, uint32_t tag)
{
    uint8_t bytes[5];

    for (unsigned i = tag_bytes(tag, bytes); i-- > 0;)
        gen_printf(out, "at = pk_pack_byte(at, 0x%02x);\n", bytes[i]);
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Bytes that the field takes for certain at most: all of a number, tag and length of the rest. */
static size_t fixed_part(const struct gen_field *field)
{
    uint8_t bytes[5];
    size_t tag = tag_bytes(tag_of(field, 0), bytes);

    if (field->presence == GEN_REPEATED)
        return 0;
    switch (gen_field_wire_type(field)) {
    case 0:
        return tag + VARINT_MAX;
    case 1:
        return tag + 8;
    case 5:
        return tag + 4;
    case 3:
        return 2 * tag;
    default:
        return tag + LENGTH_MAX_BYTES;
    }
}

/* The fixed parts of all fields with lower numbers: what is written after by_number[index]. */
static size_t fixed_below(const struct gen_message *message, size_t index)
{
    size_t size = 0;

    for (size_t i = 0; i < index; i++)
        size += fixed_part(message->by_number[i]);
    return size;
}

static void write_room(struct gen_printer *out, const char *variable, size_t fixed)
{
    if (!variable && fixed == 0)
        return;
    if (!variable)
        gen_printf(out, "at = pk_pack_room(packer, at, %zu);\n", fixed);
    else if (fixed == 0)
        gen_printf(out, "at = pk_pack_room(packer, at, %s);\n", variable);
    else
        gen_printf(out, "at = pk_pack_room(packer, at, %s + %zu);\n", variable, fixed);
    gen_write(out, "if (!at)\n    return NULL;\n");
}

/* ---- One value ------------------------------------------------------------------------------- */

/* The number in `value` as its wire form. */
static void write_number(struct gen_printer *out, const struct gen_field *field, const char *value)
{
    const char *form = "";

    switch (field->type) {
    case GEN_DOUBLE:
        form = "pk_pack_fixed64(at, pk_double_bits($value$))";
        break;
    case GEN_FLOAT:
        form = "pk_pack_fixed32(at, pk_float_bits($value$))";
        break;
    case GEN_FIXED64:
        form = "pk_pack_fixed64(at, $value$)";
        break;
    case GEN_SFIXED64:
        form = "pk_pack_fixed64(at, (uint64_t) $value$)";
        break;
    case GEN_FIXED32:
        form = "pk_pack_fixed32(at, $value$)";
        break;
    case GEN_SFIXED32:
        form = "pk_pack_fixed32(at, (uint32_t) $value$)";
        break;
    case GEN_INT32:
    case GEN_ENUM:
        form = "pk_pack_varint(at, (uint64_t) (int64_t) $value$)";
        break;
    case GEN_INT64:
        form = "pk_pack_varint(at, (uint64_t) $value$)";
        break;
    case GEN_UINT32:
    case GEN_UINT64:
        form = "pk_pack_varint(at, $value$)";
        break;
    case GEN_SINT32:
        form = "pk_pack_varint(at, pk_zigzag32($value$))";
        break;
    case GEN_SINT64:
        form = "pk_pack_varint(at, pk_zigzag64($value$))";
        break;
    case GEN_BOOL:
        form = "pk_pack_byte(at, $value$ != 0)";
        break;
    case GEN_STRING:
    case GEN_GROUP:
    case GEN_MESSAGE:
    case GEN_BYTES:
        break;
    }
    gen_write(out, "at = ");
    gen_print(out, form, "value", value);
    gen_write(out, ";\n");
    write_tag(out, tag_of(field, gen_field_wire_type(field)));
}

static void write_text(struct gen_printer *out, const struct gen_field *field, const char *value,
                       size_t fixed)
{
    gen_print(out, "size_t length = $value$ ? strlen($value$) : 0;\n", "value", value);
    write_room(out, "length", fixed);
    gen_print(out,
              "at = pk_pack_bytes(at, $value$, length);\n"
              "at = pk_pack_varint(at, length);\n",
              "value", value);
    write_tag(out, tag_of(field, 2));
}

static void write_binary(struct gen_printer *out, const struct gen_field *field, const char *value,
                         size_t fixed)
{
    write_room(out, gen_format(out->memory, "%s.len", value), fixed);
    gen_print(out,
              "at = pk_pack_bytes(at, $value$.data, $value$.len);\n"
              "at = pk_pack_varint(at, $value$.len);\n",
              "value", value);
    write_tag(out, tag_of(field, 2));
}

/* `value` may be NULL where the field is required or an element: an empty message stands for it. */
static void write_message(struct gen_printer *out, const struct gen_field *field, const char *value,
                          bool may_be_null, size_t fixed)
{
    bool group = field->type == GEN_GROUP;

    gen_set(out, "value", value);
    gen_set(out, "child", field->message->c_lower);
    if (group)
        write_tag(out, tag_of(field, 4));
    else
        gen_write(out, "size_t behind = (size_t) (packer->end - at);\n");
    if (may_be_null) {
        gen_print(out, "if ($value$)\n    at = pack_$child$($value$, packer, at);\n"
                       "if (!at)\n    return NULL;\n");
    } else {
        gen_print(out, "at = pack_$child$($value$, packer, at);\n"
                       "if (!at)\n    return NULL;\n");
    }
    write_room(out, NULL, fixed);
    if (group) {
        write_tag(out, tag_of(field, 3));
    } else {
        gen_write(out, "at = pk_pack_varint(at, (size_t) (packer->end - at) - behind);\n");
        write_tag(out, tag_of(field, 2));
    }
}

static void write_value(struct gen_printer *out, const struct gen_field *field, const char *value,
                        bool may_be_null, size_t fixed)
{
    if (field->message)
        write_message(out, field, value, may_be_null, fixed);
    else if (field->is_binary)
        write_binary(out, field, value, fixed);
    else if (field->type == GEN_STRING)
        write_text(out, field, value, fixed);
    else
        write_number(out, field, value);
}

/* ---- One field ------------------------------------------------------------------------------- */

/* What must hold for the field to be written; NULL for always. */
static const char *presence_test(struct gen_memory *memory, const struct gen_field *field)
{
    const char *member = gen_format(memory, "message->%s", field->c_name);
    bool pointer = field->message || gen_field_is_text(field);

    switch (field->presence) {
    case GEN_HAS:
        return gen_format(memory, "message->%s", field->c_has);
    case GEN_POINTER:
        if (gen_field_is_text(field) && field->initial.present)
            return gen_format(memory, "%s && %s != %s", member, member, field->c_default);
        return member;
    case GEN_IMPLICIT:
        if (field->is_binary)
            return gen_format(memory, "%s.len > 0", member);
        if (gen_field_is_text(field))
            return gen_format(memory, "%s && %s[0]", member, member);
        if (field->type == GEN_FLOAT)
            return gen_format(memory, "pk_float_bits(%s) != 0", member);
        if (field->type == GEN_DOUBLE)
            return gen_format(memory, "pk_double_bits(%s) != 0", member);
        return pointer ? member : gen_format(memory, "%s != 0", member);
    case GEN_ONEOF:
        if (pointer)
            return gen_format(memory, "message->%s == %s && %s", field->oneof->c_case,
                              field->c_constant, member);
        return gen_format(memory, "message->%s == %s", field->oneof->c_case, field->c_constant);
    case GEN_REQUIRED:
    case GEN_REPEATED:
        break;
    }
    return NULL;
}

const char *gen_number_kind(const struct gen_field *field)
{
    switch (field->type) {
    case GEN_INT32:
    case GEN_ENUM:
        return "PK_NUMBER_INT32";
    case GEN_UINT32:
        return "PK_NUMBER_UINT32";
    case GEN_SINT32:
        return "PK_NUMBER_SINT32";
    case GEN_INT64:
    case GEN_UINT64:
        return "PK_NUMBER_INT64";
    case GEN_SINT64:
        return "PK_NUMBER_SINT64";
    case GEN_FLOAT:
    case GEN_FIXED32:
    case GEN_SFIXED32:
        return "PK_NUMBER_FIXED32";
    case GEN_DOUBLE:
    case GEN_FIXED64:
    case GEN_SFIXED64:
        return "PK_NUMBER_FIXED64";
    case GEN_BOOL:
        return "PK_NUMBER_BOOL";
    case GEN_STRING:
    case GEN_GROUP:
    case GEN_MESSAGE:
    case GEN_BYTES:
        break;
    }
    return NULL;
}

static void write_repeated(struct gen_printer *out, const struct gen_field *field, size_t fixed)
{
    const char *kind = gen_number_kind(field);
    uint8_t bytes[5];

    gen_set(out, "count", field->c_count);
    gen_set(out, "member", field->c_name);
    if (kind) {
        gen_print(out, "if (message->$count$ > 0) {\n");
        gen_indent(out);
        gen_set_number(out, "number", field->number);
        gen_print(out,
                  "at = pk_pack_numbers$packed$(packer, at, $number$, $kind$, message->$member$,\n"
                  "                     message->$count$);\n"
                  "if (!at)\n    return NULL;\n",
                  "packed", field->packed ? "_packed" : "", "kind", kind);
        write_room(out, NULL, fixed);
        gen_outdent(out);
        gen_write(out, "}\n");
        return;
    }
    gen_print(out, "for (size_t i = message->$count$; i-- > 0;) {\n");
    gen_indent(out);
    size_t own = 2 * tag_bytes(tag_of(field, 0), bytes) + LENGTH_MAX_BYTES;
    if (field->type == GEN_GROUP)
        write_room(out, NULL, own);
    write_value(out, field, gen_format(out->memory, "message->%s[i]", field->c_name), true,
                fixed + own);
    gen_outdent(out);
    gen_write(out, "}\n");
}

static void write_field(struct gen_printer *out, const struct gen_message *message, size_t index)
{
    const struct gen_field *field = message->by_number[index];
    size_t fixed = fixed_below(message, index);
    const char *test;

    if (field->presence == GEN_REPEATED) {
        write_repeated(out, field, fixed);
        return;
    }
    test = presence_test(out->memory, field);
    if (test)
        gen_print(out, "if ($test$) {\n", "test", test);
    else
        gen_write(out, "{\n");
    gen_indent(out);
    write_value(out, field, gen_format(out->memory, "message->%s", field->c_name),
                field->presence == GEN_REQUIRED, fixed + fixed_part(field));
    gen_outdent(out);
    gen_write(out, "}\n");
}

/* ---- One message ----------------------------------------------------------------------------- */

static const char *linkage(const struct gen_message *message)
{
    return gen_message_is_small(message) ? "PK_INLINE" : "static";
}

static void write_packer(struct gen_printer *out, const struct gen_message *message)
{
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    gen_set(out, "base", message->c_base);
    gen_print(out,
              "$linkage$ uint8_t *pack_$lower$(const void *object, pk_packer *packer, "
              "uint8_t *at)\n{\n",
              "linkage", linkage(message));
    gen_indent(out);
    gen_print(out, "const $type$ *message = (const $type$ *) object;\n"
                   "\n"
                   "if (message->$base$.n_unknown_fields > 0) {\n"
                   "    at = pk_pack_unknown_fields(packer, at, &message->$base$);\n"
                   "    if (!at)\n"
                   "        return NULL;\n"
                   "}\n");
    write_room(out, NULL, fixed_below(message, message->n_fields));
    for (size_t i = message->n_fields; i-- > 0;)
        write_field(out, message, i);
    gen_write(out, "return at;\n");
    gen_outdent(out);
    gen_write(out, "}\n\n");
}

static const char *type_flags(const struct gen_run *run, const struct gen_message *message,
                              const struct gen_file *file)
{
    if (gen_zero_copy_is_on(run, message, file))
        return message->file->proto3 ? "PK_MESSAGE_UTF8 | PK_MESSAGE_ZERO_COPY"
                                     : "PK_MESSAGE_ZERO_COPY";
    return message->file->proto3 ? "PK_MESSAGE_UTF8" : "0";
}

static void write_type(struct gen_run *run, struct gen_printer *out,
                       const struct gen_message *message, const struct gen_file *file)
{
    bool slab = gen_slab_is_on(run, message, file);

    gen_set(out, "lower", message->c_lower);
    gen_print(out,
              "$static$const pk_message_type $table$ = {\n"
              "    \"$name$\", &$lower$__descriptor, sizeof($type$), $flags$,\n"
              "    pack_$lower$, $decode$, $reserve$,\n"
              "};\n\n",
              "static", message->file == file ? "" : "static ", "table",
              gen_type_table(out->memory, message, file), "name", message->full_name, "type",
              message->c_type, "flags", type_flags(run, message, file), "decode",
              slab ? gen_format(out->memory, "decode_root_%s", message->c_lower) : "NULL",
              "reserve", slab ? gen_slab_plan(run, message) : "NULL");
}

const char *gen_type_table(struct gen_memory *memory, const struct gen_message *message,
                           const struct gen_file *file)
{
    return gen_format(memory, "%s%s_type", message->file == file ? "" : "foreign_",
                      message->c_pekoe);
}

/* Foreign messages that a method of the file takes or returns: their tables are static here. */
static struct gen_closure foreign_tables(struct gen_run *run, const struct gen_file *file)
{
    struct gen_closure tables = {.memory = run->memory};

    for (size_t i = 0; i < file->n_services; i++) {
        for (size_t j = 0; j < file->services[i]->n_methods; j++) {
            const struct gen_method *method = file->services[i]->methods[j];

            if (method->input->file != file)
                gen_closure_add_only(&tables, method->input);
            if (method->output->file != file)
                gen_closure_add_only(&tables, method->output);
        }
    }
    return tables;
}

void gen_emit_pack_source(struct gen_run *run, const struct gen_file *file, struct gen_printer *out)
{
    struct gen_closure closure = {.memory = run->memory};
    struct gen_closure tables = foreign_tables(run, file);

    for (size_t i = 0; i < file->n_all_messages; i++)
        gen_closure_add(&closure, file->all_messages[i]);
    for (size_t i = 0; i < tables.count; i++)
        gen_closure_add(&closure, tables.messages[i]);
    if (closure.count == 0)
        return;
    gen_write(out,
              "#if PK_GENERATED_ABI != 1\n"
              "#error \"generated for another version of pekoe: run protoc again\"\n"
              "#endif\n"
              "\n"
              "/* --- packers: each writes its message so that it ends before `at` --- */\n\n");
    for (size_t i = 0; i < closure.count; i++)
        gen_print(out,
                  "$linkage$ uint8_t *pack_$lower$(const void *object, pk_packer *packer, "
                  "uint8_t *at);\n",
                  "lower", closure.messages[i]->c_lower, "linkage", linkage(closure.messages[i]));
    gen_write(out, "\n");
    for (size_t i = 0; i < closure.count; i++)
        write_packer(out, closure.messages[i]);
    gen_emit_slab_source(run, file, out);
    gen_write(out, "/* --- types --- */\n\n");
    for (size_t i = 0; i < file->n_all_messages; i++) {
        if (!file->all_messages[i]->is_map_entry)
            write_type(run, out, file->all_messages[i], file);
    }
    for (size_t i = 0; i < tables.count; i++)
        write_type(run, out, tables.messages[i], file);
}
