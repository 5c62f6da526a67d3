/*
 * What the allocation-counting library (alloc_count.c, loaded by LD_PRELOAD for -prof gc) tells.
 * The harness finds pk_bench_alloc_counts by name at run time, so it is not linked with it.
 */
#ifndef PEKOE_BENCH_ALLOC_COUNTS_H
#define PEKOE_BENCH_ALLOC_COUNTS_H

#include <stdint.h>

struct pk_bench_alloc_counts {
    uint64_t allocations; /* malloc, calloc, realloc and the aligned ones, that succeeded */
    uint64_t bytes;       /* as asked for; a realloc counts its new size */
    uint64_t releases;    /* free of something, and what realloc moved from */
};

/* Counts since the process began, of all its threads. */
void pk_bench_alloc_counts(struct pk_bench_alloc_counts *ret_counts);

#endif
