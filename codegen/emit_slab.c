/*
 * Slab decoders of x.pekoe.c. Called by emit_pack.c, which writes the rest of that file.
 *
 * Three functions per message of the closure of all roots, in whichever files they are:
 *   start_x        takes a struct from the decoder's memory and gives it its start values
 *   decode_x       reads records up to `end` into it
 *   decode_root_x  what pk_message_type points to, for roots only
 *
 * decode_x is a chain of comparisons in the order of the field numbers, since that is the order
 * in which writers write: each field costs one comparison, and a message in order needs one pass.
 * Messages of many fields, or with high numbers, get a switch. The conventions that the chain
 * stands on (`end` closed by a 0, the byte in `tag`, running past the end) are told in
 * <pekoe/generated_messages.h>; the why is in docs/messages.md.
 */
#include "codegen/emit_slab.h"

#include "codegen/closure.h"
#include "codegen/emit_fields.h"

#include <inttypes.h>
#include <string.h>

#define CHAIN_FIELDS_MAX 16u
#define CHAIN_NUMBER_MAX 2047 /* tags of two bytes */

/*
 * Numbers are read without a test of bounds, so that `p` may run past `end`; this many bytes at
 * most before it is compared. The padding of 64 leaves room for the next tag and varint.
 */
#define OVERRUN_MAX 52u

/* What is known while one decode_x is written. */
struct decoder_text {
    struct gen_run *run;
    struct gen_printer *out;
    const struct gen_message *message;
    bool nul;          /* `nul` exists: a switch notes where text ended */
    bool wide;         /* a switch, not a chain */
    unsigned overrun;  /* bytes that `p` may be past `end` here */
    unsigned required; /* fields with a bit in `seen` */
};

/* ---- Which messages -------------------------------------------------------------------------- */

static bool is_listed(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool is_used_by_service(const struct gen_message *message, const struct gen_file *file)
{
    for (size_t i = 0; i < file->n_services; i++) {
        for (size_t j = 0; j < file->services[i]->n_methods; j++) {
            const struct gen_method *method = file->services[i]->methods[j];

            if (method->input == message || method->output == message)
                return true;
        }
    }
    return false;
}

bool gen_slab_is_on(const struct gen_run *run, const struct gen_message *message,
                    const struct gen_file *file)
{
    const struct gen_parameters *parameters = run->parameters;

    if (message->is_map_entry)
        return false;
    if (gen_message_reaches_group(run->memory, message))
        return true;
    if (is_listed(message->full_name, parameters->slab_excluded, parameters->n_slab_excluded))
        return false;
    if (is_listed(message->full_name, parameters->slab_names, parameters->n_slab_names))
        return true;
    if (message->slab != GEN_UNSET)
        return message->slab == GEN_YES;
    if (parameters->slab == GEN_SLAB_ALL)
        return true;
    return parameters->slab == GEN_SLAB_SERVICES && is_used_by_service(message, file);
}

static const struct gen_message *find_message(const struct gen_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_files; i++) {
        for (size_t j = 0; j < model->files[i]->n_all_messages; j++) {
            if (strcmp(model->files[i]->all_messages[j]->full_name, name) == 0)
                return model->files[i]->all_messages[j];
        }
    }
    return NULL;
}

static void check_names(struct gen_run *run, const char *key, const char *const *names,
                        size_t count)
{
    static const struct gen_place nowhere = {0};

    for (size_t i = 0; i < count; i++) {
        if (!find_message(run->model, names[i]))
            gen_fail(run->report, nowhere, "parameter %s=%s: there is no such message", key,
                     names[i]);
    }
}

void gen_slab_check(struct gen_run *run)
{
    const struct gen_parameters *parameters = run->parameters;

    check_names(run, "slab", parameters->slab_names, parameters->n_slab_names);
    check_names(run, "slab-exclude", parameters->slab_excluded, parameters->n_slab_excluded);
    for (size_t i = 0; i < run->model->n_files; i++) {
        const struct gen_file *file = run->model->files[i];

        for (size_t j = 0; file->generated && j < file->n_all_messages; j++) {
            const struct gen_message *message = file->all_messages[j];
            bool asked =
                message->slab == GEN_YES ||
                is_listed(message->full_name, parameters->slab_names, parameters->n_slab_names);

            if (asked && message->mempool)
                gen_fail(run->report, message->place,
                         "%s: slab and (vtproto.mempool) exclude each other: a piece of a slab "
                         "cannot go back to a pool",
                         message->full_name);
        }
    }
}

/* ---- Tags ------------------------------------------------------------------------------------ */

static unsigned tag_size(uint32_t tag)
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
static const char *tag_test(const struct decoder_text *text, uint32_t tag)
{
    struct gen_memory *memory = text->out->memory;
    unsigned size = tag_size(tag);
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
static uint32_t main_tag(const struct gen_field *field)
{
    return field_tag(field, field->packed ? 2 : gen_field_wire_type(field));
}

/* The other form of a repeated number, packed or not; 0 where there is none. */
static uint32_t other_tag(const struct gen_field *field)
{
    if (!field->packable)
        return 0;
    return field_tag(field, field->packed ? gen_field_wire_type(field) : 2);
}

/* ---- Start values ---------------------------------------------------------------------------- */

/* NULL where the member starts as zero. */
static const char *start_value(struct gen_memory *memory, const struct gen_field *field)
{
    if (field->presence == GEN_REPEATED || field->presence == GEN_ONEOF || field->message)
        return NULL;
    if (gen_field_is_text(field)) {
        if (field->initial.present)
            return field->c_default;
        if (field->presence != GEN_IMPLICIT)
            return NULL;
        return field->parent->file->const_strings ? "protobuf_c_empty_string"
                                                  : "(char *) protobuf_c_empty_string";
    }
    if (field->initial.present) {
        const char *value = gen_field_default(memory, field);

        return field->is_binary ? gen_format(memory, "(ProtobufCBinaryData) %s", value) : value;
    }
    if (field->type == GEN_ENUM && field->enumeration->values[0].number != 0)
        return field->enumeration->values[0].c_name;
    return NULL;
}

static void write_start(struct gen_printer *out, const struct gen_message *message)
{
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    gen_set(out, "base", message->c_base);
    gen_print(out, "PK_INLINE bool start_$lower$(pk_decoder *decoder, $type$ **ret_message)\n"
                   "{\n"
                   "    void *piece;\n"
                   "    if (!pk_decoder_take(decoder, sizeof($type$), &piece))\n"
                   "        return false;\n"
                   "    pk_clear_piece(piece, sizeof($type$));\n"
                   "    $type$ *message = ($type$ *) piece;\n"
                   "    message->$base$.descriptor = &$lower$__descriptor;\n");
    for (size_t i = 0; i < message->n_fields; i++) {
        const char *value = start_value(out->memory, message->fields[i]);

        if (value)
            gen_print(out, "    message->$member$ = $value$;\n", "member",
                      message->fields[i]->c_name, "value", value);
    }
    gen_print(out, "    *ret_message = message;\n"
                   "    return true;\n"
                   "}\n\n");
}

/* ---- Pieces of decode_x ---------------------------------------------------------------------- */

/* Behind a tag that has been compared, before its value. */
static void write_step(const struct decoder_text *text, uint32_t tag)
{
    if (text->nul)
        gen_write(text->out, "*nul = 0;\n");
    gen_printf(text->out, "p += %u;\n", tag_size(tag));
}

/* Behind text, or a message that may end with text: the next record's first byte becomes a NUL. */
static void write_text_end(const struct decoder_text *text)
{
    gen_write(text->out, text->wide ? "nul = p;\n" : "tag = pk_decode_end_text(p);\n");
}

/* Behind any other value. */
static void write_next(const struct decoder_text *text)
{
    if (!text->wide)
        gen_write(text->out, "tag = *p;\n");
}

static void write_fail_unless(struct gen_printer *out, const char *condition)
{
    gen_print(out, "if (!$condition$)\n    return false;\n", "condition", condition);
}

/* Remembers that a required field was there. */
static void write_seen(struct decoder_text *text, const struct gen_field *field)
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
static void write_leave_oneof(struct decoder_text *text, const struct gen_field *field)
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
static void write_presence(struct decoder_text *text, const struct gen_field *field)
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
static void write_assign(struct decoder_text *text, const struct gen_field *field,
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

static void write_number(struct decoder_text *text, const struct gen_field *field)
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
    write_fail_unless(out, "pk_decode_varint(decoder, &p, &value)");
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
static void write_numbers(struct decoder_text *text, const struct gen_field *field, uint32_t tag)
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
static void write_read_text(struct decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;

    if (field->is_binary) {
        gen_write(out, "ProtobufCBinaryData bytes;\n");
        write_fail_unless(out, "pk_decode_bytes(decoder, &p, end, &bytes)");
        if (field->check_utf8)
            write_fail_unless(out, "pk_decode_check_binary(decoder, bytes.data, bytes.len)");
        write_next(text);
        return;
    }
    gen_write(out, "char *text;\n");
    write_fail_unless(out, field->check_utf8 ? "pk_decode_utf8(decoder, &p, end, &text)"
                                             : "pk_decode_text(decoder, &p, end, &text)");
    write_text_end(text);
}

/* Reads the length of a message, or finds the end of a group, into the local `child_end`. */
static void write_child_end(struct decoder_text *text, const struct gen_field *field)
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
    write_fail_unless(out, "pk_decode_length(decoder, &p, end, &length)");
    gen_write(out, "uint8_t *child_end = p + length;\n");
}

/* Decodes [p, child_end) into `child` and goes behind it. */
static void write_decode_child(struct decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    bool deep = gen_message_is_deep(out->memory, field->message);
    bool has_text = gen_message_reaches_text(out->memory, field->message);

    gen_set(out, "child", field->message->c_lower);
    if (deep)
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

static void write_child(struct decoder_text *text, const struct gen_field *field)
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
    write_decode_child(text, field);
}

/* One singular field, behind its tag. */
static void write_singular(struct decoder_text *text, const struct gen_field *field)
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
static void write_element(struct decoder_text *text, const struct gen_field *field, uint32_t tag)
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
    write_decode_child(text, field);
}

/*
 * All elements that follow each other. In a chain the first tag has been compared but not been
 * passed; in a switch it has been passed.
 */
static void write_run(struct decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    uint32_t tag = main_tag(field);
    const char *test = tag_test(text, tag);

    gen_set(out, "member", field->c_name);
    gen_set(out, "count", field->c_count);
    gen_set(out, "element", field->is_binary ? "sizeof(ProtobufCBinaryData)" : "sizeof(void *)");
    gen_print(out,
              "pk_array array = pk_array_of(message->$member$, message->$count$, $element$);\n");
    gen_write(out, text->wide ? "for (;;) {\n" : "do {\n");
    gen_indent(out);
    if (!text->wide)
        write_step(text, tag);
    write_element(text, field, tag);
    if (text->wide) {
        gen_print(out, "if (!($test$))\n    break;\n", "test", test);
        write_step(text, tag);
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
}

static bool is_run(const struct gen_field *field)
{
    return field->presence == GEN_REPEATED && !gen_number_kind(field);
}

/* ---- decode_x -------------------------------------------------------------------------------- */

/* How far a field can take `p` past `end`: numbers only, the rest is compared as it is read. */
static unsigned field_overrun(const struct gen_field *field)
{
    if (field->presence == GEN_REPEATED || field->message || field->type == GEN_STRING ||
        field->type == GEN_BYTES)
        return 0;
    return tag_size(main_tag(field)) + 10;
}

static void write_bounds(struct gen_printer *out)
{
    gen_write(out, "if (PK_UNLIKELY(p > end)) {\n"
                   "    pk_decoder_truncated(decoder);\n"
                   "    return false;\n"
                   "}\n");
}

static void write_chain_field(struct decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    uint32_t tag = main_tag(field);
    unsigned overrun = field_overrun(field);

    if (text->overrun + overrun > OVERRUN_MAX) {
        write_bounds(out);
        text->overrun = 0;
    }
    text->overrun += overrun;
    gen_print(out, "if ($test$) { /* $name$ */\n", "test", tag_test(text, tag), "name",
              field->name);
    gen_indent(out);
    if (is_run(field)) {
        write_run(text, field);
    } else {
        write_step(text, tag);
        if (field->presence == GEN_REPEATED)
            write_numbers(text, field, tag);
        else
            write_singular(text, field);
    }
    gen_outdent(out);
    gen_write(out, "}\n");
}

/* Repeated numbers in the form that their writer was not told to use. */
static void write_chain_other(struct decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    uint32_t tag = other_tag(field);

    gen_print(out, "if ($test$) { /* $name$, $form$ */\n", "test", tag_test(text, tag), "name",
              field->name, "form", field->packed ? "not packed" : "packed");
    gen_indent(out);
    write_step(text, tag);
    write_numbers(text, field, tag);
    gen_write(out, "continue;\n");
    gen_outdent(out);
    gen_write(out, "}\n");
}

static void write_chain(struct decoder_text *text)
{
    struct gen_printer *out = text->out;
    const struct gen_message *message = text->message;

    gen_write(out, "uint8_t tag = *p;\n"
                   "for (;;) {\n");
    gen_indent(out);
    if (message->n_fields > 0)
        gen_write(out, "const uint8_t *const pass = p;\n");
    text->overrun = 0;
    for (size_t i = 0; i < message->n_fields; i++)
        write_chain_field(text, message->by_number[i]);
    gen_write(out, "if (p >= end)\n    break;\n");
    if (message->n_fields > 0)
        gen_write(out, "if (p != pass)\n    continue;\n");
    for (size_t i = 0; i < message->n_fields; i++) {
        if (other_tag(message->by_number[i]))
            write_chain_other(text, message->by_number[i]);
    }
    /* The tag goes back for as long as it is read, and out again: text may end before it. */
    gen_print(out,
              "uint8_t *const record = p;\n"
              "*record = tag;\n"
              "p = pk_decode_other(decoder, &message->$base$, p, end);\n"
              "if (!p)\n"
              "    return false;\n"
              "*record = 0;\n"
              "tag = *p;\n",
              "base", message->c_base);
    gen_outdent(out);
    gen_write(out, "}\n");
}

static void write_case(struct decoder_text *text, const struct gen_field *field, uint32_t tag)
{
    struct gen_printer *out = text->out;

    gen_printf(out, "case 0x%" PRIx32 ": { /* %s */\n", tag, field->name);
    gen_indent(out);
    if (is_run(field))
        write_run(text, field);
    else if (field->presence == GEN_REPEATED)
        write_numbers(text, field, tag);
    else
        write_singular(text, field);
    gen_write(out, "break;\n");
    gen_outdent(out);
    gen_write(out, "}\n");
}

static void write_switch(struct decoder_text *text)
{
    struct gen_printer *out = text->out;
    const struct gen_message *message = text->message;

    gen_write(out, "while (p < end) {\n");
    gen_indent(out);
    gen_write(out, "uint32_t tag;\n");
    write_fail_unless(out, "pk_decode_next_tag(decoder, &p, end, &tag)");
    if (text->nul)
        gen_write(out, "*nul = 0;\n");
    gen_write(out, "switch (tag) {\n");
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->by_number[i];

        write_case(text, field, main_tag(field));
        if (other_tag(field))
            write_case(text, field, other_tag(field));
    }
    gen_print(out,
              "default:\n"
              "    p = pk_decode_unknown(decoder, &message->$base$, tag, p, end);\n"
              "    if (!p)\n"
              "        return false;\n"
              "}\n",
              "base", message->c_base);
    gen_outdent(out);
    gen_write(out, "}\n");
}

/* A message-valued map entry always has its value; a text key or value is never NULL. */
static void write_entry_end(struct decoder_text *text)
{
    struct gen_printer *out = text->out;

    for (size_t i = 0; i < text->message->n_fields; i++) {
        const struct gen_field *field = text->message->fields[i];

        gen_set(out, "member", field->c_name);
        if (field->message)
            gen_print(out,
                      "if (!message->$member$ && !start_$child$(decoder, &message->$member$))\n"
                      "    return false;\n",
                      "child", field->message->c_lower);
        else if (gen_field_is_text(field) && field->presence != GEN_IMPLICIT)
            gen_print(out, "if (!message->$member$)\n"
                           "    message->$member$ = (char *) protobuf_c_empty_string;\n");
    }
}

static void write_required_end(struct decoder_text *text)
{
    for (unsigned word = 0; word * 64 < text->required; word++) {
        unsigned left = text->required - word * 64;
        uint64_t all = left >= 64 ? UINT64_MAX : (UINT64_C(1) << left) - 1;

        gen_printf(text->out,
                   "if (PK_UNLIKELY(seen%u != UINT64_C(0x%" PRIx64 ")) &&\n"
                   "    !pk_decode_lacks(decoder, message, %u, ~seen%u & UINT64_C(0x%" PRIx64
                   ")))\n"
                   "    return false;\n",
                   word, all, word, word, all);
    }
}

static bool is_wide(const struct gen_message *message)
{
    return message->n_fields > CHAIN_FIELDS_MAX ||
           (message->n_fields > 0 &&
            message->by_number[message->n_fields - 1]->number > CHAIN_NUMBER_MAX);
}

static const char *linkage(const struct gen_message *message)
{
    return gen_message_is_small(message) ? "PK_INLINE" : "static";
}

static void write_decode(struct gen_run *run, struct gen_printer *out,
                         const struct gen_message *message)
{
    struct decoder_text text = {
        .run = run,
        .out = out,
        .message = message,
        .nul = is_wide(message) && gen_message_reaches_text(run->memory, message),
        .wide = is_wide(message),
    };

    for (size_t i = 0; i < message->n_fields; i++)
        text.required += message->fields[i]->presence == GEN_REQUIRED;
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    gen_print(out,
              "$linkage$ bool decode_$lower$(pk_decoder *decoder, $type$ *message, uint8_t *p,\n"
              "                     uint8_t *end)\n{\n",
              "linkage", linkage(message));
    gen_indent(out);
    gen_write(out, "const uint8_t behind = pk_decode_close(end);\n");
    if (text.nul)
        gen_write(out, "uint8_t *nul = end;\n");
    for (unsigned word = 0; word * 64 < text.required; word++)
        gen_printf(out, "uint64_t seen%u = 0;\n", word);
    gen_write(out, "\n");
    if (text.wide)
        write_switch(&text);
    else
        write_chain(&text);
    write_bounds(out);
    if (message->is_map_entry)
        write_entry_end(&text);
    write_required_end(&text);
    gen_write(out, "pk_decode_open(end, behind);\n"
                   "return true;\n");
    gen_outdent(out);
    gen_write(out, "}\n\n");
}

/* ---- Roots ----------------------------------------------------------------------------------- */

static const char *const strategies[] = {"PK_RESERVE_GROWTH", "PK_RESERVE_LOOKAHEAD",
                                         "PK_RESERVE_PRESCAN"};

/* The struct and those of the singular messages that it may hold; one of each oneof, no cycles. */
static void write_object_size(struct gen_printer *out, const struct gen_message *message,
                              struct gen_closure *above)
{
    gen_printf(out, "sizeof(%s)", message->c_type);
    if (!gen_closure_add_only(above, message))
        return;
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];

        if (!field->message || field->presence == GEN_REPEATED || field->presence == GEN_ONEOF ||
            gen_closure_has(above, field->message))
            continue;
        gen_write(out, " + ");
        write_object_size(out, field->message, above);
    }
}

/* At most PK_RESERVE_FIELDS_MAX of them, which is 16. */
static bool is_counted(const struct gen_field *field, unsigned before)
{
    return field->presence == GEN_REPEATED && field->type == GEN_MESSAGE && before < 16;
}

static unsigned count_counted(const struct gen_message *message)
{
    unsigned count = 0;

    for (size_t i = 0; i < message->n_fields; i++)
        count += is_counted(message->by_number[i], count);
    return count;
}

const char *gen_slab_plan(struct gen_run *run, const struct gen_message *message)
{
    if (run->parameters->slab_reserve == GEN_GROWTH)
        return "NULL";
    return gen_format(run->memory, "&plan_%s", message->c_lower);
}

static void write_plan(struct gen_run *run, struct gen_printer *out,
                       const struct gen_message *message)
{
    bool prescan = run->parameters->slab_reserve == GEN_PRESCAN;
    unsigned count = prescan ? count_counted(message) : 0;
    unsigned written = 0;

    gen_set(out, "lower", message->c_lower);
    gen_set(out, "type", message->c_type);
    if (count > 0) {
        gen_print(out, "static const pk_reserve_field counted_$lower$[] = {\n");
        gen_indent(out);
        for (size_t i = 0; i < message->n_fields; i++) {
            const struct gen_field *field = message->by_number[i];
            struct gen_closure above = {.memory = run->memory};

            if (!is_counted(field, written))
                continue;
            written++;
            gen_printf(out, "{%" PRId32 ", (uint32_t) (", field->number);
            write_object_size(out, field->message, &above);
            gen_printf(out, "), offsetof(%s, %s)},\n", message->c_type, field->c_name);
        }
        gen_outdent(out);
        gen_write(out, "};\n\n");
    }
    gen_set_number(out, "count", count);
    gen_print(out,
              "static const pk_reserve_plan plan_$lower$ = {$strategy$, $count$, $fields$};\n\n",
              "strategy", strategies[run->parameters->slab_reserve], "fields",
              count > 0 ? gen_format(out->memory, "counted_%s", message->c_lower) : "NULL");
}

static void write_root(struct gen_run *run, struct gen_printer *out,
                       const struct gen_message *message)
{
    if (run->parameters->slab_reserve != GEN_GROWTH)
        write_plan(run, out, message);
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    gen_print(out,
              "static int decode_root_$lower$(pk_decoder *decoder, void **object, uint8_t *bytes,\n"
              "                     size_t length)\n"
              "{\n"
              "    $type$ *message = ($type$ *) *object;\n"
              "    bool decoded = message || start_$lower$(decoder, &message);\n");
    if (run->parameters->slab_reserve == GEN_PRESCAN && count_counted(message) > 0)
        gen_print(out, "    if (decoded && decoder->reserve == PK_RESERVE_PRESCAN)\n"
                       "        pk_decoder_prescan(decoder, &plan_$lower$, message, bytes, bytes + "
                       "length);\n");
    gen_print(out,
              "    decoded = decoded && decode_$lower$(decoder, message, bytes, bytes + length);\n"
              "    bytes[length] = 0; /* ends a text that stands last */\n"
              "    int error = pk_decoder_finish(decoder, decoded);\n"
              "    if (!error)\n"
              "        *object = message;\n"
              "    return error;\n"
              "}\n\n");
}

static void add_roots(const struct gen_run *run, const struct gen_file *file,
                      struct gen_closure *roots)
{
    for (size_t i = 0; i < file->n_all_messages; i++) {
        if (gen_slab_is_on(run, file->all_messages[i], file))
            gen_closure_add_only(roots, file->all_messages[i]);
    }
    for (size_t i = 0; i < file->n_services; i++) {
        for (size_t j = 0; j < file->services[i]->n_methods; j++) {
            const struct gen_method *method = file->services[i]->methods[j];

            if (gen_slab_is_on(run, method->input, file))
                gen_closure_add_only(roots, method->input);
            if (gen_slab_is_on(run, method->output, file))
                gen_closure_add_only(roots, method->output);
        }
    }
}

void gen_emit_slab_source(struct gen_run *run, const struct gen_file *file, struct gen_printer *out)
{
    struct gen_closure roots = {.memory = run->memory};
    struct gen_closure closure = {.memory = run->memory};

    add_roots(run, file, &roots);
    if (roots.count == 0)
        return;
    for (size_t i = 0; i < roots.count; i++)
        gen_closure_add(&closure, roots.messages[i]);
    gen_write(out, "/* --- slab decoders: see <pekoe/generated_messages.h> --- */\n\n");
    for (size_t i = 0; i < closure.count; i++)
        write_start(out, closure.messages[i]);
    for (size_t i = 0; i < closure.count; i++)
        gen_print(out,
                  "$linkage$ bool decode_$lower$(pk_decoder *decoder, $type$ *message, "
                  "uint8_t *p,\n"
                  "                     uint8_t *end);\n",
                  "lower", closure.messages[i]->c_lower, "type", closure.messages[i]->c_type,
                  "linkage", linkage(closure.messages[i]));
    gen_write(out, "\n");
    for (size_t i = 0; i < closure.count; i++)
        write_decode(run, out, closure.messages[i]);
    for (size_t i = 0; i < roots.count; i++)
        write_root(run, out, roots.messages[i]);
}
