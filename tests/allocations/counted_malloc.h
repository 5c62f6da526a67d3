/*
 * The C library's malloc, counted: for programs of one file, which define it by including this.
 * Their shared libraries find what is interposed (-fvisibility=default, export_dynamic).
 */
#ifndef PEKOE_TESTS_COUNTED_MALLOC_H
#define PEKOE_TESTS_COUNTED_MALLOC_H

#include <stdatomic.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_ulong allocations; /* malloc, calloc, realloc, aligned ones, and free */

static void count(void)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size)
{
    count();
    return __libc_realloc(block, size);
}

void free(void *block)
{
    if (block)
        count();
    __libc_free(block);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
    count();
    *ret_block = __libc_memalign(alignment, size);
    return *ret_block ? 0 : 12; /* ENOMEM */
}

#endif
