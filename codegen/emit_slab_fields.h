/*
 * What reads one field in a slab decoder's function: the pieces that emit_slab.c puts together to a
 * chain of comparisons or a switch.
 */
#ifndef PEKOE_CODEGEN_EMIT_SLAB_FIELDS_H
#define PEKOE_CODEGEN_EMIT_SLAB_FIELDS_H

#include "codegen/emit.h"

/* What is known while one decode_x is written. */
struct gen_decoder_text {
    struct gen_run *run;
    struct gen_printer *out;
    const struct gen_message *message;
    bool nul;          /* `nul` exists: a switch notes where text ended */
    bool wide;         /* a switch, not a chain */
    unsigned overrun;  /* bytes that `p` may be past `end` here */
    unsigned required; /* fields with a bit in `seen` */
};

/* The tag under which writers write the field. */
uint32_t gen_slab_main_tag(const struct gen_field *field);

/* The other form of a repeated number, packed or not; 0 where there is none. */
uint32_t gen_slab_other_tag(const struct gen_field *field);

unsigned gen_slab_tag_size(uint32_t tag);

/* Whether the record at `p` has the tag, as a C expression; in a chain its first byte is `tag`. */
const char *gen_slab_tag_test(const struct gen_decoder_text *text, uint32_t tag);

/* Goes behind a tag that has been compared. */
void gen_slab_write_step(const struct gen_decoder_text *text, uint32_t tag);

void gen_slab_write_fail_unless(struct gen_printer *out, const char *condition);

/* One singular field, behind its tag. */
void gen_slab_write_singular(struct gen_decoder_text *text, const struct gen_field *field);

/* A record of a repeated number, behind its tag. */
void gen_slab_write_numbers(struct gen_decoder_text *text, const struct gen_field *field,
                            uint32_t tag);

/*
 * All elements that follow each other, of a repeated field that is no number (gen_slab_is_run). In
 * a chain the first tag has been compared but not been passed; in a switch it has been passed.
 */
bool gen_slab_is_run(const struct gen_field *field);
void gen_slab_write_run(struct gen_decoder_text *text, const struct gen_field *field);

#endif
