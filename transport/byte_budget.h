/* Bytes that wait, counted against a limit: one per connection, one per server above it. */
#ifndef PEKOE_TRANSPORT_BYTE_BUDGET_H
#define PEKOE_TRANSPORT_BYTE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#define PK_SLOW_SHARE 16 /* of the bytes that wait; moving less in a tick is hardly any */

typedef struct pk_byte_budget {
    size_t used;
    size_t limit;
    size_t share; /* who holds more than this has to be content with most of the limit */
} pk_byte_budget;

/* What those get who hold more than their share; the rest is for the others. */
static inline size_t pk_byte_budget_most(const pk_byte_budget *budget)
{
    return budget->limit / 4 * 3;
}

/* Whether it is too much that one holder now has `now` bytes, of which `counted` are in `used`. */
static inline bool pk_byte_budget_over(const pk_byte_budget *budget, size_t counted, size_t now)
{
    size_t limit = now > budget->share ? pk_byte_budget_most(budget) : budget->limit;
    return budget->used - counted + now > limit;
}

#endif
