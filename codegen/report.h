/*
 * The user's errors: they are collected, and leave the plugin as the error text of its response,
 * one per line, in the form file:line:col: text. Called by the model, the names, the parameters
 * and the emitters. Whoever reports goes on as long as it can, so that one run shows them all.
 */
#ifndef PEKOE_CODEGEN_REPORT_H
#define PEKOE_CODEGEN_REPORT_H

#include "codegen/memory.h"

/* Where something stands in a .proto file. Line and column count from 1; 0 = not known. */
struct gen_place {
    const char *file; /* name as protoc knows it; NULL = none */
    int line;
    int column;
};

struct gen_report {
    struct gen_memory *memory; /* borrowed */
    struct gen_text text;
    unsigned count;
};

/* At most this many errors are worth reading; the rest is counted. */
#define GEN_REPORT_LIMIT 50u

void gen_fail(struct gen_report *report, struct gen_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "x.proto:12:3", "x.proto" or "", as much as is known. */
const char *gen_place_text(struct gen_memory *memory, struct gen_place place);

void gen_report_done(struct gen_report *report);

#endif
