/*
 * The library behind -prof gc: stands before the C library's allocator and counts.
 *
 * It is loaded into a fork only when the profiler is asked for, so that all other runs have the
 * allocator untouched. glibc only: the real functions are reached by their __libc_ names.
 */
#include "jmh-like-bench/alloc_counts.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static _Atomic uint64_t allocations;
static _Atomic uint64_t bytes;
static _Atomic uint64_t releases;

EXPORT void pk_bench_alloc_counts(struct pk_bench_alloc_counts *ret_counts)
{
    ret_counts->allocations = atomic_load(&allocations);
    ret_counts->bytes = atomic_load(&bytes);
    ret_counts->releases = atomic_load(&releases);
}

static void *counted(void *block, size_t size)
{
    if (block) {
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
    }
    return block;
}

EXPORT void *malloc(size_t size)
{
    return counted(__libc_malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    return counted(__libc_calloc(count, size), count * size);
}

EXPORT void *realloc(void *block, size_t size)
{
    void *moved = __libc_realloc(block, size);
    if (block && (moved || size == 0))
        atomic_fetch_add_explicit(&releases, 1, memory_order_relaxed);
    return counted(moved, size);
}

EXPORT void free(void *block)
{
    if (block)
        atomic_fetch_add_explicit(&releases, 1, memory_order_relaxed);
    __libc_free(block);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return counted(__libc_memalign(alignment, size), size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return counted(__libc_memalign(alignment, size), size);
}

EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
        return EINVAL;
    void *block = counted(__libc_memalign(alignment, size), size);
    if (!block)
        return ENOMEM;
    *ret_block = block;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    return counted(__libc_memalign((size_t) sysconf(_SC_PAGESIZE), size), size);
}
