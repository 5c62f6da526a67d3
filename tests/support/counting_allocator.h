/*
 * An allocator for tests: counts what it is asked for, and refuses the n-th request.
 *
 * For the tests of what lives on a pk_memory: no allocation in steady state, memory bounds, each
 * allocation failed in turn. Blocks come from malloc, so sanitizers watch them.
 */
#ifndef PEKOE_TESTS_COUNTING_ALLOCATOR_H
#define PEKOE_TESTS_COUNTING_ALLOCATOR_H

#include <pekoe/base.h>

#include <stdlib.h>
#include <string.h>

typedef struct counting_allocator {
    size_t requests;  /* that asked for memory */
    size_t blocks;    /* alive */
    size_t bytes;     /* alive */
    size_t peak;      /* the most bytes that were alive at once */
    size_t fail_at;   /* the request that is refused, 1-based; 0: none */
    size_t fail_more; /* and so many that follow it; SIZE_MAX: all */
    bool fail_after;  /* the same as SIZE_MAX */
    size_t largest;   /* requests above it are refused; 0: none */
} counting_allocator;

struct counted_block {
    _Alignas(16) size_t size;
};

static inline void *counting_resize(void *context, void *block, size_t size)
{
    counting_allocator *counts = context;
    struct counted_block *old = block ? (struct counted_block *) block - 1 : NULL;
    size_t old_size = old ? old->size : 0;
    if (size == 0) {
        counts->bytes -= old_size;
        counts->blocks -= old != NULL;
        free(old);
        return NULL;
    }
    counts->requests++;
    if (counts->largest && size > counts->largest)
        return NULL;
    if (counts->fail_at && counts->requests >= counts->fail_at &&
        (counts->fail_after || counts->requests - counts->fail_at <= counts->fail_more))
        return NULL;
    struct counted_block *fresh = realloc(old, sizeof *fresh + size);
    if (!fresh)
        return NULL;
    fresh->size = size;
    counts->blocks += old == NULL;
    counts->bytes += size - old_size;
    if (counts->bytes > counts->peak)
        counts->peak = counts->bytes;
    return fresh + 1;
}

#define COUNTING_ALLOCATOR(counts) (&(pk_allocator){counting_resize, (counts)})

#endif
