/* Bytes that wait, counted against a limit: one per connection, one per server above it. */
#ifndef PEKOE_TRANSPORT_BYTE_BUDGET_H
#define PEKOE_TRANSPORT_BYTE_BUDGET_H

#include <stddef.h>

typedef struct pk_byte_budget {
    size_t used;
    size_t limit;
} pk_byte_budget;

#endif
