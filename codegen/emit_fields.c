/*
 * How one field looks in C: see emit_fields.h.
 */
#include "codegen/emit_fields.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gen_field_type(const struct gen_field *field)
{
    switch (field->type) {
    case GEN_INT32:
    case GEN_SINT32:
    case GEN_SFIXED32:
        return "int32_t";
    case GEN_INT64:
    case GEN_SINT64:
    case GEN_SFIXED64:
        return "int64_t";
    case GEN_UINT32:
    case GEN_FIXED32:
        return "uint32_t";
    case GEN_UINT64:
    case GEN_FIXED64:
        return "uint64_t";
    case GEN_FLOAT:
        return "float";
    case GEN_DOUBLE:
        return "double";
    case GEN_BOOL:
        return "protobuf_c_boolean";
    case GEN_ENUM:
        return field->enumeration->c_type;
    case GEN_STRING:
    case GEN_BYTES:
        return field->is_binary ? "ProtobufCBinaryData" : "char";
    case GEN_MESSAGE:
    case GEN_GROUP:
        return field->message->c_type;
    }
    abort();
}

/*
 * The fewest digits, at least as many as protoc-gen-c always writes, that read back as the same
 * value. A float gets an f where the digits alone would be a double of another value.
 */
static const char *real_text(struct gen_memory *memory, double value, bool single)
{
    int digits = single ? FLT_DIG : DBL_DIG;
    const char *text;

    if (isnan(value))
        return "NAN";
    if (isinf(value))
        return value > 0 ? "INFINITY" : "-INFINITY";
    for (;; digits++) {
        text = gen_format(memory, "%.*g", digits, value);
        if (single ? (double) strtof(text, NULL) == value : strtod(text, NULL) == value)
            break;
    }
    if (!single || strtod(text, NULL) == value)
        return text;
    return gen_format(memory, strpbrk(text, ".e") ? "%sf" : "%s.0f", text);
}

const char *gen_field_default(struct gen_memory *memory, const struct gen_field *field)
{
    const struct gen_default *initial = &field->initial;

    switch (field->type) {
    case GEN_INT32:
    case GEN_SINT32:
    case GEN_SFIXED32:
        return gen_format(memory, "%" PRId64, initial->integer);
    case GEN_INT64:
    case GEN_SINT64:
    case GEN_SFIXED64:
        /* There is no literal for the smallest one. */
        if (initial->integer == INT64_MIN)
            return gen_format(memory, "(%" PRId64 "ll - 1)", initial->integer + 1);
        return gen_format(memory, "%" PRId64 "ll", initial->integer);
    case GEN_UINT32:
    case GEN_FIXED32:
        return gen_format(memory, "%" PRIu64 "u", initial->natural);
    case GEN_UINT64:
    case GEN_FIXED64:
        return gen_format(memory, "%" PRIu64 "ull", initial->natural);
    case GEN_FLOAT:
    case GEN_DOUBLE:
        return real_text(memory, initial->real, field->type == GEN_FLOAT);
    case GEN_BOOL:
        return initial->natural ? "1" : "0";
    case GEN_ENUM:
        return initial->value->c_name;
    case GEN_STRING:
    case GEN_BYTES:
        if (field->is_binary)
            return gen_format(memory, "{ %zu, %s_data }", initial->length, field->c_default);
        return field->c_default;
    case GEN_MESSAGE:
    case GEN_GROUP:
        break;
    }
    abort();
}

static const char *string_initial(const struct gen_field *field)
{
    if (field->initial.present)
        return field->c_default;
    if (field->presence != GEN_IMPLICIT)
        return "NULL";
    return field->parent->file->const_strings ? "(const char *)protobuf_c_empty_string"
                                              : "(char *)protobuf_c_empty_string";
}

const char *gen_field_initial(struct gen_memory *memory, const struct gen_field *field)
{
    const char *value = "0";

    if (field->presence == GEN_REPEATED)
        return "0,NULL";
    if (field->message)
        return "NULL";
    if (field->type == GEN_STRING && !field->is_binary)
        return string_initial(field);
    if (field->initial.present)
        value = gen_field_default(memory, field);
    else if (field->is_binary)
        value = "{0,NULL}";
    else if (field->type == GEN_ENUM)
        value = field->enumeration->values[0].c_name;
    return field->presence == GEN_HAS ? gen_format(memory, "0, %s", value) : value;
}

static bool message_needs_math(const struct gen_message *message)
{
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];

        if (field->initial.present && (field->type == GEN_FLOAT || field->type == GEN_DOUBLE) &&
            !isfinite(field->initial.real))
            return true;
    }
    return false;
}

bool gen_file_needs_math(const struct gen_file *file)
{
    for (size_t i = 0; i < file->n_all_messages; i++) {
        if (message_needs_math(file->all_messages[i]))
            return true;
    }
    return false;
}

const char *gen_escape(struct gen_memory *memory, const uint8_t *data, size_t length)
{
    static const char letters[] = "\n\r\t\"'\\";
    static const char escapes[] = "nrt\"'\\";
    /* Four characters at most for each byte. */
    char *text = gen_array(memory, length + 1, 4);
    char *at = text;

    for (size_t i = 0; i < length; i++) {
        const char *letter = data[i] ? strchr(letters, data[i]) : NULL;

        if (letter) {
            *at++ = '\\';
            *at++ = escapes[letter - letters];
        } else if (data[i] == '?' && i > 0 && data[i - 1] == '?') {
            *at++ = '\\'; /* never a trigraph */
            *at++ = '?';
        } else if (data[i] < 0x20 || data[i] >= 0x7f) {
            at += snprintf(at, 5, "\\%03o", data[i]);
        } else {
            *at++ = (char) data[i];
        }
    }
    return text;
}

/* Keeps the line from opening or closing a C comment. */
static void defuse(char *line)
{
    char *at;

    while ((at = strstr(line, "/*")))
        at[0] = ' ';
    while ((at = strstr(line, "*/")))
        at[1] = ' ';
}

void gen_write_comment(struct gen_printer *out, const char *comment)
{
    char *left;
    char *line;

    if (!comment || comment[0] == '\0')
        return;
    left = gen_strdup(out->memory, comment);
    gen_write(out, "/*\n");
    while ((line = strsep(&left, "\r\n"))) {
        if (line[0] == '\0')
            continue;
        defuse(line);
        gen_print(out, " *$gap$$line$\n", "gap", line[0] == '/' ? " " : "", "line", line);
    }
    gen_write(out, " */\n");
}
