/*
 * Writes generated text: see printer.h.
 */
#include "codegen/printer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gen_value {
    struct gen_value *next;
    const char *name;
    const char *value;
};

void gen_printer_init(struct gen_printer *out, struct gen_memory *memory, unsigned step)
{
    *out = (struct gen_printer){.memory = memory, .step = step};
}

void gen_printer_done(struct gen_printer *out)
{
    gen_text_done(&out->text);
}

void gen_indent(struct gen_printer *out)
{
    out->level++;
}

void gen_outdent(struct gen_printer *out)
{
    if (out->level == 0)
        abort();
    out->level--;
}

void gen_set(struct gen_printer *out, const char *name, const char *value)
{
    struct gen_value *entry;

    for (entry = out->values; entry; entry = entry->next) {
        if (strcmp(entry->name, name) == 0)
            break;
    }
    if (!entry) {
        entry = gen_new(out->memory, struct gen_value);
        entry->name = gen_strdup(out->memory, name);
        entry->next = out->values;
        out->values = entry;
    }
    entry->value = gen_strdup(out->memory, value);
}

void gen_set_number(struct gen_printer *out, const char *name, long long value)
{
    gen_set(out, name, gen_format(out->memory, "%lld", value));
}

static void write_indented(struct gen_printer *out, const char *text, size_t length)
{
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        size_t line = newline ? (size_t) (newline - text) : length;

        if (line > 0 && !out->mid_line) {
            for (unsigned i = 0; i < out->level * out->step; i++)
                gen_text_append(&out->text, " ", 1);
        }
        if (newline)
            line++;
        gen_text_append(&out->text, text, line);
        out->mid_line = !newline;
        text += line;
        length -= line;
    }
}

void gen_write(struct gen_printer *out, const char *text)
{
    write_indented(out, text, strlen(text));
}

void gen_printf(struct gen_printer *out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    gen_write(out, gen_vformat(out->memory, format, arguments));
    va_end(arguments);
}

static bool same_name(const char *name, const char *wanted, size_t length)
{
    return strncmp(name, wanted, length) == 0 && name[length] == '\0';
}

static const char *find_value(const struct gen_printer *out, const char *name, size_t length,
                              va_list pairs)
{
    va_list left;
    const char *pair_name;

    va_copy(left, pairs);
    while ((pair_name = va_arg(left, const char *))) {
        const char *value = va_arg(left, const char *);

        if (same_name(pair_name, name, length)) {
            va_end(left);
            return value;
        }
    }
    va_end(left);
    for (const struct gen_value *entry = out->values; entry; entry = entry->next) {
        if (same_name(entry->name, name, length))
            return entry->value;
    }
    fprintf(stderr, "protoc-gen-pekoe: no value for $%.*s$\n", (int) length, name);
    abort();
}

void gen_print_pairs(struct gen_printer *out, const char *template, ...)
{
    va_list pairs;

    va_start(pairs, template);
    for (;;) {
        const char *dollar = strchr(template, '$');
        const char *end;

        if (!dollar)
            break;
        write_indented(out, template, (size_t) (dollar - template));
        end = strchr(dollar + 1, '$');
        if (!end) {
            fprintf(stderr, "protoc-gen-pekoe: odd dollar sign in \"%s\"\n", template);
            abort();
        }
        if (end == dollar + 1)
            write_indented(out, "$", 1);
        else
            gen_write(out, find_value(out, dollar + 1, (size_t) (end - dollar - 1), pairs));
        template = end + 1;
    }
    gen_write(out, template);
    va_end(pairs);
}
