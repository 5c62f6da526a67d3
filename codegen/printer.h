/*
 * Writes generated text: lines with $variables$, indented. Called by every emitter; knows
 * nothing of protobuf or C.
 *
 *   gen_set(out, "type", message->c_type);               stays until set again
 *   gen_print(out, "struct $type$\n{\n");
 *   gen_indent(out);
 *   gen_print(out, "$kind$ $member$;\n", "kind", "int32_t", "member", field->c_member);
 *   gen_outdent(out);
 *   gen_print(out, "};\n");
 *
 * The values given with a print hold for that print only and win over those of gen_set. `$$` is
 * a dollar sign. Values are copied into the output as they are: a dollar sign in a value is a
 * dollar sign. Indentation is written before the first character of a line, never on an empty
 * one, also inside values of several lines.
 *
 * A variable that nobody set is a fault of the emitter: the process is ended by abort.
 */
#ifndef PEKOE_CODEGEN_PRINTER_H
#define PEKOE_CODEGEN_PRINTER_H

#include "codegen/memory.h"

#include <stdbool.h>

struct gen_printer {
    struct gen_memory *memory; /* borrowed; holds the values of gen_set */
    struct gen_text text;      /* what was written */
    struct gen_value *values;  /* of gen_set */
    unsigned step;             /* spaces per level */
    unsigned level;
    bool mid_line;
};

void gen_printer_init(struct gen_printer *out, struct gen_memory *memory, unsigned step);
void gen_printer_done(struct gen_printer *out);

void gen_indent(struct gen_printer *out);
void gen_outdent(struct gen_printer *out);

/* Both are copied. */
void gen_set(struct gen_printer *out, const char *name, const char *value);
void gen_set_number(struct gen_printer *out, const char *name, long long value);

/* After the template come pairs of strings, name and value. */
#define gen_print(...) gen_print_pairs(__VA_ARGS__, (const char *) NULL)
void gen_print_pairs(struct gen_printer *out, const char *template, ...) __attribute__((sentinel));

/* As printf, without variables. */
void gen_printf(struct gen_printer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As it is, no variables, but indented. */
void gen_write(struct gen_printer *out, const char *text);

#endif
