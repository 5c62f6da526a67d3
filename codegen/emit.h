/*
 * What is written, and by whom. run.c calls gen_emit_file once for each file that protoc asked
 * for; it opens each output file in turn and calls the emitters that write its parts, in the
 * order of the table in emit.c.
 *
 * To add an emitter: declare its functions here, put them into that table, add the source to
 * codegen/meson.build. Each one writes its part of one output file to `out` and returns; what it
 * cannot generate it reports with gen_fail(run->report, place, ...). It may look at anything in
 * the model. Output must not depend on anything but the request: no time, no address, no order of
 * a hash table.
 */
#ifndef PEKOE_CODEGEN_EMIT_H
#define PEKOE_CODEGEN_EMIT_H

#include "codegen/model.h"
#include "codegen/names.h"
#include "codegen/printer.h"

struct gen_run {
    struct gen_memory *memory;
    const struct gen_model *model;
    const struct gen_parameters *parameters;
    struct gen_report *report;
    Google__Protobuf__Compiler__CodeGeneratorResponse *response; /* files are added here */
};

/* A part of one output file. */
typedef void gen_emitter(struct gen_run *run, const struct gen_file *file, struct gen_printer *out);

/* Adds all outputs of the file to run->response. */
void gen_emit_file(struct gen_run *run, const struct gen_file *file);

/* emit_messages.c: the structs, initialisers and functions of protobuf-c (x.pb-c.h). */
gen_emitter gen_emit_message_header;
/* emit_descriptors.c: functions and descriptor tables (x.pb-c.c). */
gen_emitter gen_emit_message_source;

/* emit_pekoe.c: what stands around the parts of x.pekoe.h and x.pekoe.c. */
gen_emitter gen_emit_pekoe_header_opening;
gen_emitter gen_emit_pekoe_header_closing;
gen_emitter gen_emit_pekoe_source_opening;
/* emit_types.c: typed functions, and the declarations of pk_message_type tables. */
gen_emitter gen_emit_types_header;
/* emit_pack.c: packers, slab decoders (emit_slab.c) and pk_message_type tables. */
gen_emitter gen_emit_pack_source;
/* emit_service.c: impl tables, method rows, file descriptors. */
gen_emitter gen_emit_service_header;
gen_emitter gen_emit_service_source;

/*
 * The message's pk_message_type, as the output of `file` names it. A foreign message that a method
 * takes or returns has a static one of its own there, since the other file's output may be of
 * another run, with other parameters.
 */
const char *gen_type_table(struct gen_memory *memory, const struct gen_message *message,
                           const struct gen_file *file);

/* Reports parameters and options about slabs that cannot be; called once before emitting. */
void gen_slab_check(struct gen_run *run);

#endif
