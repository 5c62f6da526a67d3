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
#include "codegen/emit_slab_fields.h"

#include <inttypes.h>
#include <string.h>

#define CHAIN_FIELDS_MAX 16u
#define CHAIN_NUMBER_MAX 2047 /* tags of two bytes */

/*
 * Numbers are read without a test of bounds, so that `p` may run past `end`; this many bytes at
 * most before it is compared. The padding of 64 leaves room for the next tag and varint.
 */
#define OVERRUN_MAX 52u

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

/* ---- decode_x -------------------------------------------------------------------------------- */

/* How far a field can take `p` past `end`: numbers only, the rest is compared as it is read. */
static unsigned field_overrun(const struct gen_field *field)
{
    if (field->presence == GEN_REPEATED || field->message || field->type == GEN_STRING ||
        field->type == GEN_BYTES)
        return 0;
    return gen_slab_tag_size(gen_slab_main_tag(field)) + 10;
}

static void write_bounds(struct gen_printer *out)
{
    gen_write(out, "if (PK_UNLIKELY(p > end)) {\n"
                   "    pk_decoder_truncated(decoder);\n"
                   "    return false;\n"
                   "}\n");
}

static void write_chain_field(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    uint32_t tag = gen_slab_main_tag(field);
    unsigned overrun = field_overrun(field);

    if (text->overrun + overrun > OVERRUN_MAX) {
        write_bounds(out);
        text->overrun = 0;
    }
    text->overrun += overrun;
    gen_print(out, "if ($test$) { /* $name$ */\n", "test", gen_slab_tag_test(text, tag), "name",
              field->name);
    gen_indent(out);
    if (gen_slab_is_run(field)) {
        gen_slab_write_run(text, field);
    } else {
        gen_slab_write_step(text, tag);
        if (field->presence == GEN_REPEATED)
            gen_slab_write_numbers(text, field, tag);
        else
            gen_slab_write_singular(text, field);
    }
    gen_outdent(out);
    gen_write(out, "}\n");
}

/* Repeated numbers in the form that their writer was not told to use. */
static void write_chain_other(struct gen_decoder_text *text, const struct gen_field *field)
{
    struct gen_printer *out = text->out;
    uint32_t tag = gen_slab_other_tag(field);

    gen_print(out, "if ($test$) { /* $name$, $form$ */\n", "test", gen_slab_tag_test(text, tag),
              "name", field->name, "form", field->packed ? "not packed" : "packed");
    gen_indent(out);
    gen_slab_write_step(text, tag);
    gen_slab_write_numbers(text, field, tag);
    gen_write(out, "continue;\n");
    gen_outdent(out);
    gen_write(out, "}\n");
}

static void write_chain(struct gen_decoder_text *text)
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
        if (gen_slab_other_tag(message->by_number[i]))
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

static void write_case(struct gen_decoder_text *text, const struct gen_field *field, uint32_t tag)
{
    struct gen_printer *out = text->out;

    gen_printf(out, "case 0x%" PRIx32 ": { /* %s */\n", tag, field->name);
    gen_indent(out);
    if (gen_slab_is_run(field))
        gen_slab_write_run(text, field);
    else if (field->presence == GEN_REPEATED)
        gen_slab_write_numbers(text, field, tag);
    else
        gen_slab_write_singular(text, field);
    gen_write(out, "break;\n");
    gen_outdent(out);
    gen_write(out, "}\n");
}

static void write_switch(struct gen_decoder_text *text)
{
    struct gen_printer *out = text->out;
    const struct gen_message *message = text->message;

    gen_write(out, "while (p < end) {\n");
    gen_indent(out);
    gen_write(out, "uint32_t tag;\n");
    gen_slab_write_fail_unless(out, "pk_decode_next_tag(decoder, &p, end, &tag)");
    if (text->nul)
        gen_write(out, "*nul = 0;\n");
    gen_write(out, "switch (tag) {\n");
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->by_number[i];

        write_case(text, field, gen_slab_main_tag(field));
        if (gen_slab_other_tag(field))
            write_case(text, field, gen_slab_other_tag(field));
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
static void write_entry_end(struct gen_decoder_text *text)
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

static void write_required_end(struct gen_decoder_text *text)
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

/*
 * `parts` are the messages that others hold. One that is none of them is read by its root alone, in
 * line: compilers would see to that, did they not merge functions that look alike before.
 */
static const char *linkage(const struct gen_closure *parts, const struct gen_message *message)
{
    return gen_message_is_small(message) || !gen_closure_has(parts, message) ? "PK_INLINE"
                                                                             : "static";
}

static void write_decode(struct gen_run *run, struct gen_printer *out,
                         const struct gen_closure *parts, const struct gen_message *message)
{
    struct gen_decoder_text text = {
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
              "linkage", linkage(parts, message));
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
    struct gen_closure parts = {.memory = run->memory};

    add_roots(run, file, &roots);
    if (roots.count == 0)
        return;
    for (size_t i = 0; i < roots.count; i++)
        gen_closure_add(&closure, roots.messages[i]);
    for (size_t i = 0; i < closure.count; i++)
        for (size_t j = 0; j < closure.messages[i]->n_fields; j++)
            if (closure.messages[i]->fields[j]->message)
                gen_closure_add_only(&parts, closure.messages[i]->fields[j]->message);
    gen_write(out, "/* --- slab decoders: see <pekoe/generated_messages.h> --- */\n\n");
    for (size_t i = 0; i < closure.count; i++)
        write_start(out, closure.messages[i]);
    for (size_t i = 0; i < closure.count; i++)
        gen_print(out,
                  "$linkage$ bool decode_$lower$(pk_decoder *decoder, $type$ *message, "
                  "uint8_t *p,\n"
                  "                     uint8_t *end);\n",
                  "lower", closure.messages[i]->c_lower, "type", closure.messages[i]->c_type,
                  "linkage", linkage(&parts, closure.messages[i]));
    gen_write(out, "\n");
    for (size_t i = 0; i < closure.count; i++)
        write_decode(run, out, &parts, closure.messages[i]);
    for (size_t i = 0; i < roots.count; i++)
        write_root(run, out, roots.messages[i]);
}
