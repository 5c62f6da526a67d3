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
};

/*
 * Fills ret_parameters with the defaults, then with what text says (NULL or "" says nothing).
 * A key that does not exist, or a value that the key does not know, is reported with the list of
 * those that there are.
 */
void gen_parameters_read(struct gen_parameters *ret_parameters, const char *text,
                         struct gen_report *report);

#endif
