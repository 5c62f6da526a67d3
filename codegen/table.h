/*
 * A map from names to what bears them. Used by the model for proto names and by names.c for C
 * names. Knows nothing of either.
 */
#ifndef PEKOE_CODEGEN_TABLE_H
#define PEKOE_CODEGEN_TABLE_H

#include "codegen/memory.h"

#include <stdbool.h>

struct gen_table {
    struct gen_memory *memory; /* borrowed */
    struct gen_slot *slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

/* Name and value are borrowed. If the name is taken, nothing changes and its value comes back;
 * otherwise NULL. value is not NULL. */
void *gen_table_add(struct gen_table *table, const char *name, void *value);

/* NULL where nobody bears the name. */
void *gen_table_find(const struct gen_table *table, const char *name);

#endif
