/*
 * A map from names to what bears them: see table.h. Open addressing; nothing is ever removed.
 */
#include "codegen/table.h"

#include <stdint.h>
#include <string.h>

struct gen_slot {
    const char *name; /* NULL = free */
    void *value;
};

static uint64_t hash(const char *name)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a */

    for (; *name; name++)
        sum = (sum ^ (unsigned char) *name) * 1099511628211u;
    return sum;
}

static struct gen_slot *find_slot(const struct gen_table *table, const char *name)
{
    size_t at = (size_t) hash(name) & (table->capacity - 1);

    while (table->slots[at].name && strcmp(table->slots[at].name, name) != 0)
        at = (at + 1) & (table->capacity - 1);
    return &table->slots[at];
}

static void grow(struct gen_table *table)
{
    struct gen_table bigger = *table;

    bigger.capacity = table->capacity ? table->capacity * 2 : 64;
    bigger.slots = gen_array(table->memory, bigger.capacity, sizeof(struct gen_slot));
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].name)
            *find_slot(&bigger, table->slots[i].name) = table->slots[i];
    }
    *table = bigger;
}

void *gen_table_add(struct gen_table *table, const char *name, void *value)
{
    struct gen_slot *slot;

    if (table->count * 2 >= table->capacity)
        grow(table);
    slot = find_slot(table, name);
    if (slot->name)
        return slot->value;
    *slot = (struct gen_slot){name, value};
    table->count++;
    return NULL;
}

void *gen_table_find(const struct gen_table *table, const char *name)
{
    return table->capacity ? find_slot(table, name)->value : NULL;
}
