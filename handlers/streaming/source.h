/*
 * The inside of operators: what their files share.
 *
 * An operator is a struct in the call whose first member is its pk_source. Those that wait for
 * several things at once (map_parallel, merge, queue) keep what came and settle a promise of their
 * own; the others just pass futures on.
 */
#ifndef PEKOE_HANDLERS_STREAMING_SOURCE_H
#define PEKOE_HANDLERS_STREAMING_SOURCE_H

#include <pekoe/operators.h>

#include "handlers/streaming/stream.h"

/* Fails with RESOURCE_EXHAUSTED: what an operator gives without memory. */
extern pk_source pk_source_no_memory;

/* An operator in the call; NULL without memory. */
#define PK_OPERATOR(call, type) ((type *) pk_arena_try(&(call)->scope.arena, sizeof(type)))

static inline void pk_source_cancel(pk_source *source)
{
    if (source->cancel)
        source->cancel(source);
}

static inline void pk_source_give_back(pk_source *source, const void *message)
{
    if (message && source->give_back)
        source->give_back(source, message);
}

#endif
