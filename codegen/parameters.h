/*
 * What the user wrote behind --pekoe_out= or --pekoe_opt=: key=value pairs joined by commas.
 * Read by run.c before the model is built; every emitter may look at the result.
 */
#ifndef PEKOE_CODEGEN_PARAMETERS_H
#define PEKOE_CODEGEN_PARAMETERS_H

#include "codegen/report.h"

#include <stdbool.h>

struct gen_parameters {
    /*
     * messages=all (default) or none: whether x.pb-c.[ch] are written. With none, the structs are
     * those of protoc-gen-c, and names are spelt as protoc-gen-c spells them.
     */
    bool messages;

    /*
     * Which messages get a slab decoder: slab=services (default; those that a method takes or
     * returns), all, opt-in (those with `option (pekoe.slab) = true`), or the full name of one
     * message, which adds it and may be given several times. slab-exclude= takes full names away.
     * A message that has a group always gets one: protobuf-c cannot decode it.
     */
    enum gen_slab_choice { GEN_SLAB_SERVICES, GEN_SLAB_ALL, GEN_SLAB_OPT_IN } slab;
    const char **slab_names;
    size_t n_slab_names;
    const char **slab_excluded;
    size_t n_slab_excluded;

    /*
     * slab-zero-copy=services (those that a method takes or returns, as far as they have a slab
     * decoder), or the full name of one message that has one; may be given several times. None by
     * default.
     */
    bool zero_copy_services;
    const char **zero_copy_names;
    size_t n_zero_copy_names;

    /* slab-reserve=growth (default), lookahead or prescan: see pk_reserve. */
    enum gen_slab_reserve { GEN_GROWTH, GEN_LOOKAHEAD, GEN_PRESCAN } slab_reserve;
};

/*
 * Fills ret_parameters with the defaults, then with what text says (NULL or "" says nothing).
 * A key that does not exist, or a value that the key does not know, is reported with the list of
 * those that there are.
 */
void gen_parameters_read(struct gen_parameters *ret_parameters, const char *text,
                         struct gen_report *report);

#endif
