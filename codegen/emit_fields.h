/*
 * How one field looks in C: its members in the struct, its start value, its default. Shared by
 * the two emitters of protobuf-c's code (emit_messages.c and emit_descriptors.c) and of use to
 * others.
 */
#ifndef PEKOE_CODEGEN_EMIT_FIELDS_H
#define PEKOE_CODEGEN_EMIT_FIELDS_H

#include "codegen/emit.h"

/* The C type of one element without a '*': "int32_t", "char", "ProtobufCBinaryData", "Demo__X". */
const char *gen_field_type(const struct gen_field *field);

/* What INIT puts into the field's members, as in "0, 5" or "0,NULL". Not for members of a oneof. */
const char *gen_field_initial(struct gen_memory *memory, const struct gen_field *field);

/* The default value as a C expression; for a string the name of its variable. */
const char *gen_field_default(struct gen_memory *memory, const struct gen_field *field);

/* Whether some default in the file is infinite or NaN, for which C wants <math.h>. */
bool gen_file_needs_math(const struct gen_file *file);

/* Bytes as the inside of a C string literal. */
const char *gen_escape(struct gen_memory *memory, const uint8_t *data, size_t length);

/* A comment of the .proto as a C comment; NULL writes nothing. */
void gen_write_comment(struct gen_printer *out, const char *comment);

/* protobuf-c's code for a service, as protoc-gen-c writes it (emit_classic_service.c). */
void gen_emit_classic_service_header(struct gen_printer *out, const struct gen_service *service);
void gen_emit_classic_service_source(struct gen_printer *out, const struct gen_service *service);

#endif
