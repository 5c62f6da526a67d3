/*
 * What the descriptors of a router's services declare: files, symbols of every kind, extensions.
 *
 * The reflection service builds one when it is first asked and again when services were added. The
 * descriptors are those that generated code carries, so they are trusted.
 */
#ifndef PEKOE_SERVICES_REFLECTION_INDEX_H
#define PEKOE_SERVICES_REFLECTION_INDEX_H

#include <pekoe/generated.h>

#include "core/arena.h"

/* A file, and the files that it imports. */
typedef struct pk_described_file {
    const pk_file *file;
    const struct pk_described_file **imports;
    size_t import_count;
    size_t place; /* in the index */
} pk_described_file;

typedef struct pk_described_symbol {
    const char *name; /* full, without a leading dot */
    const pk_described_file *file;
    bool message;
} pk_described_symbol;

typedef struct pk_described_extension {
    const char *extendee; /* full name of the message that is extended */
    int32_t number;
    const pk_described_file *file;
} pk_described_extension;

typedef struct pk_reflection_index {
    pk_arena arena; /* all that follows lives in there */
    pk_described_file *files;
    size_t file_count;
    pk_described_symbol *symbols; /* by name */
    size_t symbol_count;
    pk_described_extension *extensions; /* by extendee, then by number */
    size_t extension_count;
    size_t service_count; /* of the router, when this was built */
} pk_reflection_index;

/* Empty. */
void pk_reflection_index_init(pk_reflection_index *index, pk_memory *memory);
void pk_reflection_index_done(pk_reflection_index *index);

/* Describes the router's services. PK_ERR_NOMEM, or PK_ERR_MALFORMED for a broken descriptor. */
PK_NODISCARD int pk_reflection_index_build(pk_reflection_index *index, const pk_router *router);

/* NULL where there is none. */
const pk_described_file *pk_reflection_file(const pk_reflection_index *index, const char *name);
const pk_described_symbol *pk_reflection_symbol(const pk_reflection_index *index, const char *name);

/*
 * The extensions of a message: *ret_count of them, from the one returned on. Whether the message
 * itself is known is another question.
 */
const pk_described_extension *pk_reflection_extensions(const pk_reflection_index *index,
                                                       const char *extendee, size_t *ret_count);

#endif
