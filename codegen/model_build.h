/*
 * What the two halves of building a model share: model.c declares everything there is, then
 * model_resolve.c fills in what refers to something else. Private to them.
 */
#ifndef PEKOE_CODEGEN_MODEL_BUILD_H
#define PEKOE_CODEGEN_MODEL_BUILD_H

#include "codegen/model.h"
#include "codegen/model_source.h"
#include "codegen/table.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;
typedef Google__Protobuf__EnumDescriptorProto enum_proto;
typedef Google__Protobuf__ServiceDescriptorProto service_proto;

/* What a proto name may stand for. */
struct gen_symbol {
    struct gen_message *message; /* or */
    struct gen_enum *enumeration;
    struct gen_place place;
};

struct gen_builder {
    struct gen_memory *memory;
    struct gen_report *report;
    struct gen_model *model;
    struct gen_table symbols; /* full name -> struct gen_symbol */
    struct gen_table files;   /* name -> struct gen_file */
    /* of the file at hand */
    struct gen_file *file;
    struct gen_source source;
    struct gen_path path;
};

/* True where the name is an identifier; otherwise reports it, `what` says of what. */
bool gen_check_name(struct gen_builder *builder, struct gen_place place, const char *name,
                    const char *what);
/* "a.b" and "c" to "a.b.c"; scope may be "". */
const char *gen_join_name(struct gen_memory *memory, const char *scope, const char *name);

/* Where the thing at builder->path stands, and what is written beside it. */
void gen_locate(struct gen_builder *builder, struct gen_place *ret_place,
                struct gen_comment *ret_comment);

/* model_resolve.c. All fields, extensions, oneofs and services of one file. */
void gen_resolve_message(struct gen_builder *builder, struct gen_message *message,
                         const message_proto *proto);
void gen_resolve_extensions(struct gen_builder *builder, const char *scope, int32_t path_field,
                            field_proto **protos, size_t count);
void gen_resolve_services(struct gen_builder *builder);
/* After all files were resolved: map entries, and defaults that name enum values. */
void gen_resolve_rest(struct gen_builder *builder, struct gen_message *message,
                      const message_proto *proto);

/* model_default.c. text is FieldDescriptorProto.default_value; NULL = none. */
void gen_default_read(struct gen_report *report, struct gen_field *field, const char *text);

#endif
