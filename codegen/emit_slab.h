/*
 * Which messages get a slab decoder, and how the decoders of a file are named. Between emit_pack.c,
 * which writes the message types, and emit_slab.c.
 */
#ifndef PEKOE_CODEGEN_EMIT_SLAB_H
#define PEKOE_CODEGEN_EMIT_SLAB_H

#include "codegen/emit.h"

/*
 * Whether the message is a root: the file's output holds decode_root_x for it. `file` is the one
 * that is being written; a foreign message counts where a method of that file takes or returns it.
 */
bool gen_slab_is_on(const struct gen_run *run, const struct gen_message *message,
                    const struct gen_file *file);

/* Whether calls decode the root on the body's own buffer; never where gen_slab_is_on says no. */
bool gen_zero_copy_is_on(const struct gen_run *run, const struct gen_message *message,
                         const struct gen_file *file);

/* The address of the root's pk_reserve_plan as a C expression, or "NULL". */
const char *gen_slab_plan(struct gen_run *run, const struct gen_message *message);

/* The decoders of all roots of the file and of what they reach. */
void gen_emit_slab_source(struct gen_run *run, const struct gen_file *file,
                          struct gen_printer *out);

/* PK_NUMBER_... for an array of the field's elements, NULL where they are no numbers. */
const char *gen_number_kind(const struct gen_field *field);

#endif
