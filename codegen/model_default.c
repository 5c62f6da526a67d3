/*
 * Default values, which descriptors hold as text. See model_build.h.
 */
#include "codegen/model_build.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_integer(struct gen_default *initial, const char *text, int64_t low, int64_t high)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    initial->integer = value;
    return end != text && *end == '\0' && errno == 0 && value >= low && value <= high;
}

static bool read_natural(struct gen_default *initial, const char *text, uint64_t high)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    initial->natural = value;
    return text[0] != '-' && end != text && *end == '\0' && errno == 0 && value <= high;
}

/* protoc writes "inf", "-inf", "nan" or decimal digits; the locale is "C". */
static bool read_real(struct gen_default *initial, const char *text, bool single)
{
    char *end;

    initial->real = single ? (double) strtof(text, &end) : strtod(text, &end);
    return end != text && *end == '\0';
}

static bool read_enum(struct gen_default *initial, const struct gen_enum *enumeration,
                      const char *text)
{
    for (size_t i = 0; i < enumeration->n_values; i++) {
        if (strcmp(enumeration->values[i].name, text) == 0) {
            initial->value = &enumeration->values[i];
            return true;
        }
    }
    return false;
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* One escape behind its backslash; *at moves past it. -1 where there is none such. */
static int read_escape(const char **at)
{
    static const char letters[] = "abfnrtv\\?'\"";
    static const char meanings[] = "\a\b\f\n\r\t\v\\?'\"";
    const char *text = *at;
    const char *letter;
    int value = 0;
    int length = 0;

    if (text[0] >= '0' && text[0] <= '7') {
        while (length < 3 && text[length] >= '0' && text[length] <= '7')
            value = value * 8 + (text[length++] - '0');
        *at = text + length;
        return value <= 255 ? value : -1;
    }
    if (text[0] == 'x' || text[0] == 'X') {
        for (length = 1; length < 3 && hex_digit(text[length]) >= 0; length++)
            value = value * 16 + hex_digit(text[length]);
        *at = text + length;
        return length > 1 ? value : -1;
    }
    letter = text[0] != '\0' ? strchr(letters, text[0]) : NULL;
    *at = text + 1;
    return letter ? (unsigned char) meanings[letter - letters] : -1;
}

/* Bytes are escaped as in a C string; a string stands there as it is. */
static bool read_bytes(struct gen_memory *memory, struct gen_default *initial, const char *text)
{
    uint8_t *data = gen_alloc(memory, strlen(text) + 1);

    initial->data = data;
    while (*text) {
        int value = (unsigned char) *text++;

        if (value == '\\')
            value = read_escape(&text);
        if (value < 0)
            return false;
        data[initial->length++] = (uint8_t) value;
    }
    return true;
}

static bool read_default(struct gen_memory *memory, struct gen_field *field, const char *text)
{
    struct gen_default *initial = &field->initial;

    switch (field->type) {
    case GEN_INT32:
    case GEN_SINT32:
    case GEN_SFIXED32:
        return read_integer(initial, text, INT32_MIN, INT32_MAX);
    case GEN_INT64:
    case GEN_SINT64:
    case GEN_SFIXED64:
        return read_integer(initial, text, INT64_MIN, INT64_MAX);
    case GEN_UINT32:
    case GEN_FIXED32:
        return read_natural(initial, text, UINT32_MAX);
    case GEN_UINT64:
    case GEN_FIXED64:
        return read_natural(initial, text, UINT64_MAX);
    case GEN_FLOAT:
    case GEN_DOUBLE:
        return read_real(initial, text, field->type == GEN_FLOAT);
    case GEN_BOOL:
        initial->natural = strcmp(text, "true") == 0;
        return initial->natural || strcmp(text, "false") == 0;
    case GEN_STRING:
        initial->data = (const uint8_t *) gen_strdup(memory, text);
        initial->length = strlen(text);
        return true;
    case GEN_BYTES:
        return read_bytes(memory, initial, text);
    case GEN_ENUM:
        return read_enum(initial, field->enumeration, text);
    case GEN_MESSAGE:
    case GEN_GROUP:
        break;
    }
    return false;
}

void gen_default_read(struct gen_report *report, struct gen_field *field, const char *text)
{
    if (!text)
        return;
    field->initial.present = true;
    if (field->presence == GEN_REPEATED || !read_default(report->memory, field, text))
        gen_fail(report, field->place, "field \"%s\" cannot have the default \"%s\"",
                 field->full_name, text);
}
