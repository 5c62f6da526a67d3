/*
 * What the descriptors say beside the schema itself: where each thing stands in its file, its
 * comments, and the options that protoc could not name (extensions, which arrive as unknown
 * fields). Called by the model only.
 */
#ifndef PEKOE_CODEGEN_MODEL_SOURCE_H
#define PEKOE_CODEGEN_MODEL_SOURCE_H

#include "codegen/model.h"

/*
 * The path to a thing inside its FileDescriptorProto, as SourceCodeInfo.Location.path defines it:
 * field number, index, field number, index, ...
 */
struct gen_path {
    int32_t *steps;
    size_t length;
    size_t capacity;
};

void gen_path_push(struct gen_memory *memory, struct gen_path *path, int32_t field, size_t index);
void gen_path_pop(struct gen_path *path);

/* The locations of one file, sorted by path. */
struct gen_source {
    const char *file;
    Google__Protobuf__SourceCodeInfo__Location **locations;
    size_t n_locations;
};

void gen_source_init(struct gen_source *source, struct gen_memory *memory,
                     const Google__Protobuf__FileDescriptorProto *proto);

/* What is not known stays unknown: line 0, no comments. */
void gen_source_find(const struct gen_source *source, const struct gen_path *path,
                     struct gen_place *ret_place, struct gen_comment *ret_comment);

/*
 * Finds field `number` among the unknown fields of an options message (NULL is an empty one), or,
 * with inner != 0, field `inner` inside the message that field `number` holds; occurrences of the
 * outer field merge. The last occurrence wins. False where there is none of the wanted wire type;
 * outputs are then untouched.
 */
bool gen_option_number(const ProtobufCMessage *options, uint32_t number, uint32_t inner,
                       uint64_t *ret_value);
bool gen_option_text(const ProtobufCMessage *options, uint32_t number, uint32_t inner,
                     struct gen_memory *memory, const char **ret_value);

#endif
