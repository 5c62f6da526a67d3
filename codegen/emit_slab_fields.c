/*
 * Reading one field: see emit_slab_fields.h. Each function writes C statements that stand behind a
 * tag and leave `p` behind the value; `decoder`, `message`, `p`, `end` and, in a chain, `tag` are in
 * scope there.
 */
#include "codegen/emit_slab_fields.h"

#include "codegen/closure.h"
#include "codegen/emit_fields.h"
#include "codegen/emit_slab.h"

#include <inttypes.h>

/* ---- Tags ------------------------------------------------------------------------------------ */

unsigned gen_slab_tag_size(uint32_t tag)
{
    unsigned size = 1;

    for (; tag >= 0x80; tag >>= 7)
        size++;
    return size;
}

/* The tag's bytes as a little-endian number. */
static uint64_t tag_pattern(uint32_t tag)
{
    uint64_t pattern = 0;
    unsigned shift = 0;

    for (; tag >= 0x80; tag >>= 7, shift += 8)
        pattern |= (uint64_t) ((tag & 0x7f) | 0x80) << shift;
    return pattern | (uint64_t) tag << shift;
}

/* Whether the record at `p` has the tag; in a chain its first byte is in `tag`. */
const char *gen_slab_tag_test(const struct gen_decoder_text *text, uint32_t tag)
{
    struct gen_memory *memory = text->out->memory;
    unsigned size = gen_slab_tag_size(tag);
    uint64_t pattern = tag_pattern(tag);

    if (!text->wide) {
        if (size == 1)
            return gen_format(memory, "tag == 0x%02" PRIx64, pattern);
        return gen_format(memory, "tag == 0x%02" PRIx64 " && p[1] == 0x%02" PRIx64, pattern & 0xff,
                          pattern >> 8);
    }
    switch (size) {
    case 1:
        return gen_format(memory, "*p == 0x%02" PRIx64, pattern);
    case 2:
        return gen_format(memory, "pk_load16(p) == 0x%04" PRIx64, pattern);
    case 4:
        return gen_format(memory, "pk_load32(p) == 0x%08" PRIx64, pattern);
    default:
        return gen_format(memory, "(pk_load64(p) & 0x%" PRIx64 ") == 0x%" PRIx64,
                          (UINT64_C(1) << (8 * size)) - 1, pattern);
    }
}

static uint32_t field_tag(const struct gen_field *field, unsigned wire_type)
{
    return (uint32_t) field->number << 3 | wire_type;
}

/* The tag under which writers write the field. */
uint32_t gen_slab_main_tag(const struct gen_field *field)
{
    return field_tag(field, field->packed ? 2 : gen_field_wire_type(field));
}

/* The other form of a repeated number, packed or not; 0 where there is none. */
uint32_t gen_slab_other_tag(const struct gen_field *field)
{
    if (!field->packable)
        return 0;
    return field_tag(field, field->packed ? gen_field_wire_type(field) : 2);
}

/* ---- Pieces of decode_x ---------------------------------------------------------------------- */

/* Behind a tag that has been compared, before its value. */
void gen_slab_write_step(const struct gen_decoder_text *text, uint32_t tag)
{
    if (text->nul)
        gen_write(text->out, "*nul = 0;\n");
    gen_printf(text->out, "p += %u;\n", gen_slab_tag_size(tag));
}

/* Behind text, or a message that may end with text: the next record's first byte becomes a NUL. */
static void write_text_end(const struct gen_decoder_text *text)
{
    gen_write(text->out, text->wide ? "nul = p;\n" : "tag = pk_decode_end_text(p);\n");
}

/* Behind any other value. */
static void write_next(const struct gen_decoder_text *text)
{
    if (!text->wide)
        gen_write(text->out, "tag = *p;\n");
}

void gen_slab_write_fail_unless(struct gen_printer *out, const char *condition)
{
    gen_print(out, "if (!$condition$)\n    return false;\n", "condition", condition);
}

/* Remembers that a required field was there. */
static void write_seen(struct gen_decoder_text *text, const struct gen_field *field)
{
    unsigned bit = 0;

    if (field->presence != GEN_REQUIRED)
        return;
    for (size_t i = 0; text->message->fields[i] != field; i++)
        bit += text->message->fields[i]->presence == GEN_REQUIRED;
    gen_printf(text->out, "seen%u |= UINT64_C(1) << %u;\n", bit / 64, bit % 64);
}

/* The member of the oneof with the largest C type: clearing it clears the union. */
static const struct gen_field *largest_member(const struct gen_oneof *oneof)
{
    const struct gen_field *largest = oneof->fields[0];
    unsigned size = 0;

    for (size_t i = 0; i < oneof->n_fields; i++) {
        const struct gen_field *field = oneof->fields[i];
        unsigned own =
            field->is_binary                              ? 16
            : field->message || field->type == GEN_STRING ? 8
            : gen_field_wire_type(field) == 1             ? 8
            : field->type == GEN_INT64 || field->type == GEN_UINT64 || field->type == GEN_SINT64
                ? 8
                : 4;

        if (own > size) {
            largest = field;
            size = own;
        }
    }
    return largest;
}

/* Before a member of a oneof is set: what the old one lacked is forgotten, its bytes cleared. */
static void write_leave_oneof(struct gen_decoder_text *text, const struct gen_field *field)
{
    const struct gen_oneof *oneof = field->oneof;
    const struct gen_field *largest = largest_member(oneof);

    for (size_t i = 0; i < oneof->n_fields; i++) {
        const struct gen_field *other = oneof->fields[i];

        if (other == field || !other->message ||
            !gen_message_reaches_required(text->out->memory, other->message))
            continue;
        gen_print(text->out,
                  "if (message->$case$ == $constant$ &&\n"
                  "    !pk_decode_replaced(decoder, message->$member$))\n"
                  "    return false;\n",
                  "case", oneof->c_case, "constant", other->c_constant, "member", other->c_name);
    }
    if (largest != field)
        gen_print(text->out, "message->$member$ = $zero$;\n", "member", largest->c_name, "zero",
                  largest->is_binary ? "(ProtobufCBinaryData) {0, NULL}"
                  : largest->message || largest->type == GEN_STRING
                      ? "NULL"
                      : gen_format(text->out->memory, "(%s) 0", gen_field_type(largest)));
}

/* After the value of a singular field is in its member. */
static void write_presence(struct gen_decoder_text *text, const struct gen_field *field)
{
    if (field->presence == GEN_HAS)
        gen_print(text->out, "message->$has$ = 1;\n", "has", field->c_has);
    else if (field->presence == GEN_ONEOF)
        gen_print(text->out, "message->$case$ = $constant$;\n", "case", field->oneof->c_case,
                  "constant", field->c_constant);
    write_seen(text, field);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* `value` (uint64_t) as the member's type. */
static const char *from_varint(const struct gen_field *field)
{
    switch (field->type) {
    case GEN_INT32:
        return "(int32_t) value";
    case GEN_INT64:
        return "(int64_t) value";
    case GEN_UINT32:
        return "(uint32_t) value";
    case GEN_SINT32:
        return "pk_unzigzag32((uint32_t) value)";
    case GEN_SINT64:
        return "pk_unzigzag64(value)";
    case GEN_BOOL:
        return "value != 0";
    case GEN_ENUM:
        return "($enum$) (int32_t) value";
    case GEN_UINT64:
    case GEN_DOUBLE:
    case GEN_FLOAT:
    case GEN_FIXED64:
    case GEN_FIXED32:
    case GEN_STRING:
    case GEN_GROUP:
    case GEN_MESSAGE:
    case GEN_BYTES:
    case GEN_SFIXED32:
    case GEN_SFIXED64:
        break;
    }
    return "value";
}

static const char *from_fixed(const struct gen_field *field)
{
    switch (field->type) {
    case GEN_DOUBLE:
        return "pk_load_double(p)";
    case GEN_FLOAT:
        return "pk_load_float(p)";
    case GEN_FIXED64:
        return "pk_load64(p)";
    case GEN_SFIXED64:
        return "(int64_t) pk_load64(p)";
    case GEN_FIXED32:
        return "pk_load32(p)";
    case GEN_SFIXED32:
        return "(int32_t) pk_load32(p)";
    case GEN_INT32:
    case GEN_INT64:
    case GEN_UINT32:
    case GEN_UINT64:
    case GEN_SINT32:
    case GEN_SINT64:
    case GEN_BOOL:
    case GEN_ENUM:
    case GEN_STRING:
    case GEN_GROUP:
    case GEN_MESSAGE:
    case GEN_BYTES:
        break;
    }
    return NULL;
}

/* Whether `value` is listed by the closed enum, as a C expression. */
static const char *listed_test(struct gen_memory *memory, const struct gen_enum *enumeration)
{
    int32_t least = enumeration->values[0].number;
    int32_t most = least;
    size_t distinct = 0;

    for (size_t i = 0; i < enumeration->n_values; i++) {
        int32_t number = enumeration->values[i].number;
        bool seen = false;

        for (size_t j = 0; j < i; j++)
            seen |= enumeration->values[j].number == number;
        distinct += !seen;
        least = number < least ? number : least;
        most = number > most ? number : most;
    }
    if ((int64_t) most - least + 1 == (int64_t) distinct)
        return gen_format(memory, "(uint32_t) value - %" PRIu32 "u <= %" PRIu32 "u",
                          (uint32_t) least, (uint32_t) most - (uint32_t) least);
    return gen_format(memory, "pk_enum_lists(&%s__descriptor, (int32_t) value)",
                      enumeration->c_lower);
}

/* The member takes `expression`, with $enum$ in it. */
static void write_assign(struct gen_decoder_text *text, const struct gen_field *field,
                         const char *expression)
{
    struct gen_printer *out = text->out;

    if (field->presence == GEN_ONEOF)
        write_leave_oneof(text, field);
    gen_print(out, "message->$member$ = ", "member", field->c_name);
    gen_print(out, expression, "enum", field->enumeration ? field->enumeration->c_type : "");
    gen_write(out, ";\n");
    write_presence(text, field);
}

static void write_number(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    unsigned wire_type = gen_field_wire_type(field);

    if (wire_type != 0) {
        write_assign(text, field, from_fixed(field));
        gen_print(out, "p += $size$;\n", "size", wire_type == 1 ? "8" : "4");
        write_next(text);
        return;
    }
    if (field->enumeration && field->enumeration->closed) {
        gen_set(out, "start", "uint8_t *value_start = p;\n");
        gen_print(out, "$start$");
    }
    gen_write(out, "uint64_t value;\n");
    gen_slab_write_fail_unless(out, "pk_decode_varint(decoder, &p, &value)");
    write_next(text);
    if (!field->enumeration || !field->enumeration->closed) {
        write_assign(text, field, from_varint(field));
        return;
    }
    gen_print(out, "if ($listed$) {\n", "listed", listed_test(out->memory, field->enumeration));
    gen_indent(out);
    write_assign(text, field, from_varint(field));
    gen_outdent(out);
    gen_set_number(out, "number", field->number);
    gen_print(out,
              "} else if (!pk_decode_unlisted(decoder, &message->$base$, $number$, value_start)) "
              "{\n"
              "    return false;\n"
              "}\n",
              "base", text->message->c_base);
}

/* A record of a repeated number, behind its tag. */
void gen_slab_write_numbers(struct gen_decoder_text *text, const struct gen_field *field,
                            uint32_t tag)
{
    struct gen_printer *out = text->out;

    gen_set(out, "tag", gen_format(out->memory, "0x%" PRIx32, tag));
    gen_set(out, "member", field->c_name);
    gen_set(out, "count", field->c_count);
    if (field->enumeration && field->enumeration->closed)
        gen_print(out,
                  "p = pk_decode_closed_enums(decoder, p, end, $tag$, &$enum$__descriptor,\n"
                  "                           &message->$base$, &message->$member$,\n"
                  "                           &message->$count$);\n",
                  "enum", field->enumeration->c_lower, "base", text->message->c_base);
    else if ((tag & 7) == 2)
        gen_print(out,
                  "p = pk_decode_packed(decoder, p, end, $kind$, &message->$member$,\n"
                  "                     &message->$count$);\n",
                  "kind", gen_number_kind(field));
    else
        gen_print(out,
                  "p = pk_decode_unpacked(decoder, p, end, $tag$, $kind$,\n"
                  "                       &message->$member$, &message->$count$);\n",
                  "kind", gen_number_kind(field));
    gen_write(out, "if (!p)\n    return false;\n");
    write_next(text);
}

/* ---- Text, bytes, messages ------------------------------------------------------------------- */

/* Reads into the local `text` or `bytes`. */
static void write_read_text(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;

    if (field->is_binary) {
        gen_write(out, "ProtobufCBinaryData bytes;\n");
        gen_slab_write_fail_unless(out, "pk_decode_bytes(decoder, &p, end, &bytes)");
        if (field->check_utf8)
            gen_slab_write_fail_unless(out,
                                       "pk_decode_check_binary(decoder, bytes.data, bytes.len)");
        write_next(text);
        return;
    }
    gen_write(out, "char *text;\n");
    gen_slab_write_fail_unless(out, field->check_utf8 ? "pk_decode_utf8(decoder, &p, end, &text)"
                                                      : "pk_decode_text(decoder, &p, end, &text)");
    write_text_end(text);
}

/* Reads the length of a message, or finds the end of a group, into the local `child_end`. */
static void write_child_end(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;

    if (field->type == GEN_GROUP) {
        gen_set_number(out, "number", field->number);
        gen_print(out,
                  "uint8_t *next;\n"
                  "uint8_t *child_end = pk_decode_group_end(decoder, p, end, $number$, &next);\n"
                  "if (!child_end)\n"
                  "    return false;\n");
        return;
    }
    gen_write(out, "size_t length;\n");
    gen_slab_write_fail_unless(out, "pk_decode_length(decoder, &p, end, &length)");
    gen_write(out, "uint8_t *child_end = p + length;\n");
}

/*
 * Decodes [p, child_end) into `child` and goes behind it. `entered`: the level below has been
 * entered, as it is once for all elements of a run.
 */
static void write_decode_child(struct gen_decoder_text *text, const struct gen_field *field,
                               bool entered)
{
    struct gen_printer *out = text->out;
    bool has_text = gen_message_reaches_text(out->memory, field->message);

    gen_set(out, "child", field->message->c_lower);
    if (!entered && gen_message_is_deep(out->memory, field->message))
        gen_print(out, "if (!pk_decode_enter(decoder) ||\n"
                       "    !decode_$child$(decoder, child, p, child_end))\n"
                       "    return false;\n"
                       "pk_decode_leave(decoder);\n");
    else
        gen_print(out, "if (!decode_$child$(decoder, child, p, child_end))\n"
                       "    return false;\n");
    if (field->type == GEN_GROUP) {
        /* The end tag has been read: the last text in the group can have its NUL at once. */
        if (has_text)
            gen_write(out, "*child_end = 0;\n");
        gen_write(out, "p = next;\n");
        write_next(text);
        return;
    }
    gen_write(out, "p = child_end;\n");
    if (has_text)
        write_text_end(text);
    else
        write_next(text);
}

static void write_child(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    bool required = gen_message_reaches_required(out->memory, field->message);

    write_child_end(text, field);
    gen_set(out, "child", field->message->c_lower);
    gen_set(out, "child_type", field->message->c_type);
    gen_set(out, "member", field->c_name);
    if (field->presence == GEN_ONEOF) {
        gen_print(out, "$child_type$ *child;\n");
        gen_print(out,
                  "if (message->$case$ == $constant$) {\n"
                  "    child = message->$member$;\n",
                  "case", field->oneof->c_case, "constant", field->c_constant);
        if (required)
            gen_write(out, "    if (!pk_decode_again(decoder, child))\n"
                           "        return false;\n");
        gen_write(out, "} else {\n");
        gen_indent(out);
        gen_print(out, "if (!start_$child$(decoder, &child))\n"
                       "    return false;\n");
        write_leave_oneof(text, field);
        gen_print(out, "message->$member$ = child;\n");
        write_presence(text, field);
        gen_outdent(out);
        gen_write(out, "}\n");
    } else {
        gen_print(out, "$child_type$ *child = message->$member$;\n"
                       "if (!child) {\n"
                       "    if (!start_$child$(decoder, &child))\n"
                       "        return false;\n"
                       "    message->$member$ = child;\n");
        if (required)
            gen_write(out, "} else if (!pk_decode_again(decoder, child)) {\n"
                           "    return false;\n");
        gen_write(out, "}\n");
        write_seen(text, field);
    }
    write_decode_child(text, field, false);
}

/* One singular field, behind its tag. */
void gen_slab_write_singular(struct gen_decoder_text *text, const struct gen_field *field)
{
    if (field->message) {
        write_child(text, field);
    } else if (field->type == GEN_STRING || field->type == GEN_BYTES) {
        write_read_text(text, field);
        write_assign(text, field, field->is_binary ? "bytes" : "text");
    } else {
        write_number(text, field);
    }
}

/* One element of a repeated field that is no number, behind its tag; `array` is open. */
static void write_element(struct gen_decoder_text *text, const struct gen_field *field,
                          uint32_t tag)
{
    struct gen_printer *out = text->out;

    gen_set(out, "member", field->c_name);
    gen_set(out, "element", field->is_binary ? "sizeof(ProtobufCBinaryData)" : "sizeof(void *)");
    gen_set(out, "tag", gen_format(out->memory, "0x%" PRIx32, tag));
    gen_print(out, "if (!pk_array_room(decoder, &array, &message->$member$, $element$, $tag$, p, "
                   "end))\n"
                   "    return false;\n");
    if (!field->message) {
        write_read_text(text, field);
        gen_write(out, field->is_binary ? "pk_array_add_bytes(&array, bytes);\n"
                                        : "pk_array_add_pointer(&array, text);\n");
        return;
    }
    write_child_end(text, field);
    gen_print(out,
              "$type$ *child;\n"
              "if (!start_$child$(decoder, &child))\n"
              "    return false;\n"
              "pk_array_add_pointer(&array, child);\n",
              "type", field->message->c_type, "child", field->message->c_lower);
    write_decode_child(text, field, true);
}

/*
 * All elements that follow each other. In a chain the first tag has been compared but not been
 * passed; in a switch it has been passed.
 */
void gen_slab_write_run(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    uint32_t tag = gen_slab_main_tag(field);
    const char *test = gen_slab_tag_test(text, tag);
    bool deep = field->message && gen_message_is_deep(out->memory, field->message);

    if (deep)
        gen_slab_write_fail_unless(out, "pk_decode_enter(decoder)");
    gen_set(out, "member", field->c_name);
    gen_set(out, "count", field->c_count);
    gen_set(out, "element", field->is_binary ? "sizeof(ProtobufCBinaryData)" : "sizeof(void *)");
    gen_print(out,
              "pk_array array = pk_array_of(message->$member$, message->$count$, $element$);\n");
    gen_write(out, text->wide ? "for (;;) {\n" : "do {\n");
    gen_indent(out);
    if (!text->wide)
        gen_slab_write_step(text, tag);
    write_element(text, field, tag);
    if (text->wide) {
        gen_print(out, "if (!($test$))\n    break;\n", "test", test);
        gen_slab_write_step(text, tag);
    }
    gen_outdent(out);
    if (text->wide)
        gen_write(out, "}\n");
    else
        gen_print(out, "} while ($test$);\n", "test", test);
    gen_set(out, "member", field->c_name);
    gen_set(out, "count", field->c_count);
    gen_set(out, "element", field->is_binary ? "sizeof(ProtobufCBinaryData)" : "sizeof(void *)");
    gen_print(out, "message->$count$ = pk_array_count(array, message->$member$, $element$);\n");
    if (deep)
        gen_write(out, "pk_decode_leave(decoder);\n");
}

bool gen_slab_is_run(const struct gen_field *field)
{
    return field->presence == GEN_REPEATED && !gen_number_kind(field);
}
