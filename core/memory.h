/*
 * The loop's memory: the allocator, and the blocks that are kept for arenas.
 *
 * A pk_memory belongs to one loop and is used on its thread only. Everything that pekoe allocates
 * for a call, a stream or a connection comes from here, so that the steady state is served from
 * kept blocks and calls no malloc. nghttp2 and zlib are handed the same functions.
 */
#ifndef PEKOE_CORE_MEMORY_H
#define PEKOE_CORE_MEMORY_H

#include <pekoe/base.h>

#include <assert.h>

/* A kept block is nobody's: under AddressSanitizer a touch of one is an error. */
#if defined(__SANITIZE_ADDRESS__)
#define PK_MEMORY_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PK_MEMORY_POISONS 1
#endif
#endif
#ifdef PK_MEMORY_POISONS
#include <sanitizer/asan_interface.h>
#define PK_MEMORY_FORBID(block, bytes) __asan_poison_memory_region(block, bytes)
#define PK_MEMORY_ALLOW(block, bytes) __asan_unpoison_memory_region(block, bytes)
#else
#define PK_MEMORY_FORBID(block, bytes) ((void) 0)
#define PK_MEMORY_ALLOW(block, bytes) ((void) 0)
#endif

/*
 * Sizes are rounded up to multiples of 16 up to 64, then to four steps per doubling, which wastes
 * at most a fifth. What is freed is kept per class up to these bounds.
 */
#define PK_MEMORY_CLASSES 60           /* 16 bytes to 1 MiB */
#define PK_MEMORY_LARGEST (16u << 16)  /* 1 MiB: above it the allocator is called directly */
#define PK_MEMORY_KEPT_MAX (32u << 20) /* bytes that all classes together may keep */
#define PK_MEMORY_SCRATCH (16u << 20)  /* bytes of scratch for allocations that failed */

struct pk_memory_free {
    struct pk_memory_free *next;
};

typedef struct pk_memory {
    struct pk_memory_free *kept[PK_MEMORY_CLASSES];
    size_t kept_bytes;
    size_t live_blocks; /* handed out and not given back: a test sees leaks here */
    pk_allocator allocator;
    uint8_t *scratch; /* see pk_memory_scratch */
    size_t scratch_used;
} pk_memory;

/* `allocator` NULL means realloc and free. Fails with PK_ERR_NOMEM. */
PK_NODISCARD int pk_memory_init(pk_memory *memory, const pk_allocator *allocator);

/* Gives every kept block back to the allocator. All that was handed out must be back. */
void pk_memory_done(pk_memory *memory);

/* The class of a size up to PK_MEMORY_LARGEST. */
PK_INLINE unsigned pk_memory_class(size_t size)
{
    unsigned long below = size > 0 ? size - 1 : 0;
    if (below < 64)
        return (unsigned) (below >> 4);
    unsigned top = (unsigned) (8 * sizeof below) - 1 - (unsigned) __builtin_clzl(below);
    return 4 * (top - 5) + (unsigned) (below >> (top - 2) & 3);
}

/* Bytes of a block of a class. */
PK_INLINE size_t pk_memory_class_bytes(unsigned class)
{
    return class < 4 ? (size_t) 16 * (class + 1) : (size_t) (5 + class % 4) << (class / 4 + 3);
}

/* The slow paths of the two functions below: nothing is kept; too large, or too much is kept. */
void *pk_memory_allocate(pk_memory *memory, size_t size);
void pk_memory_release(pk_memory *memory, void *block);

/*
 * At least `size` bytes, 16-byte aligned, contents undefined; NULL when memory runs out. Always
 * inlined: of a constant size nothing of the class's computation is left.
 */
PK_INLINE void *pk_memory_get(pk_memory *memory, size_t size)
{
    if (PK_UNLIKELY(size > PK_MEMORY_LARGEST))
        return pk_memory_allocate(memory, size);
    unsigned class = pk_memory_class(size);
    struct pk_memory_free *block = memory->kept[class];
    size_t bytes = pk_memory_class_bytes(class);
    if (PK_UNLIKELY(!block))
        return pk_memory_allocate(memory, bytes);
    PK_MEMORY_ALLOW(block, bytes);
    memory->kept[class] = block->next;
    memory->kept_bytes -= bytes;
    memory->live_blocks++;
    return block;
}

/* Gives back a block of pk_memory_get; `size` is the size that was asked for then. NULL: nothing. */
PK_INLINE void pk_memory_put(pk_memory *memory, void *block, size_t size)
{
    if (PK_UNLIKELY(!block))
        return;
    assert(memory->live_blocks > 0);
    memory->live_blocks--;
    if (PK_UNLIKELY(size > PK_MEMORY_LARGEST)) {
        pk_memory_release(memory, block);
        return;
    }
    unsigned class = pk_memory_class(size);
    size_t bytes = pk_memory_class_bytes(class);
    if (PK_UNLIKELY(memory->kept_bytes + bytes > PK_MEMORY_KEPT_MAX)) {
        pk_memory_release(memory, block);
        return;
    }
    struct pk_memory_free *kept = (struct pk_memory_free *) block;
    kept->next = memory->kept[class];
    memory->kept[class] = kept;
    memory->kept_bytes += bytes;
    PK_MEMORY_FORBID(kept, bytes);
}

/* The usable size of a block that was asked for with `size`. */
size_t pk_memory_usable(size_t size);

/*
 * Zeroed bytes, 16-byte aligned, for a caller that cannot handle failure. They are lent anew once
 * PK_MEMORY_SCRATCH bytes have been lent after them: what a handler keeps in them lasts until it
 * returns, and not longer. NULL only above PK_MEMORY_SCRATCH.
 */
void *pk_memory_scratch(pk_memory *memory, size_t size);

/* The same memory behind the interfaces of malloc, calloc, realloc and free (for nghttp2, zlib). */
void *pk_memory_malloc(size_t size, void *memory);
void *pk_memory_calloc(size_t count, size_t size, void *memory);
void *pk_memory_realloc(void *block, size_t size, void *memory);
void pk_memory_free(void *block, void *memory);

#endif
