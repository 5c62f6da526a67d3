/* Size classes over the program's allocator: see memory.h. */
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In front of a block that is given back without its size (pk_memory_free). 16 bytes on any ABI. */
struct sized_block {
    _Alignas(16) size_t size;
};

static void *resize_with_realloc(void *context, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, size);
}

size_t pk_memory_usable(size_t size)
{
    return size > PK_MEMORY_LARGEST ? size : pk_memory_class_bytes(pk_memory_class(size));
}

int pk_memory_init(pk_memory *memory, const pk_allocator *allocator)
{
    *memory = (pk_memory){.allocator = {resize_with_realloc, NULL}};
    if (allocator)
        memory->allocator = *allocator;
    /* Address space only: a page costs memory when an allocation has failed and it is touched. */
    void *scratch = mmap(NULL, PK_MEMORY_SCRATCH, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (scratch == MAP_FAILED)
        return PK_ERR_NOMEM;
    memory->scratch = scratch;
    return 0;
}

static void drop_kept(pk_memory *memory)
{
    for (unsigned i = 0; i < PK_MEMORY_CLASSES; i++) {
        while (memory->kept[i]) {
            struct pk_memory_free *block = memory->kept[i];
            PK_MEMORY_ALLOW(block, pk_memory_class_bytes(i));
            memory->kept[i] = block->next;
            memory->allocator.resize(memory->allocator.context, block, 0);
        }
    }
    memory->kept_bytes = 0;
}

void pk_memory_done(pk_memory *memory)
{
    drop_kept(memory);
    munmap(memory->scratch, PK_MEMORY_SCRATCH);
    memory->scratch = NULL;
}

void *pk_memory_allocate(pk_memory *memory, size_t bytes)
{
    void *block = memory->allocator.resize(memory->allocator.context, NULL, bytes);
    if (!block && memory->kept_bytes > 0) {
        /* What is kept in other classes may be what is missing. */
        drop_kept(memory);
        block = memory->allocator.resize(memory->allocator.context, NULL, bytes);
    }
    if (block)
        memory->live_blocks++;
    return block;
}

void pk_memory_release(pk_memory *memory, void *block)
{
    memory->allocator.resize(memory->allocator.context, block, 0);
}

void *pk_memory_scratch(pk_memory *memory, size_t size)
{
    if (size > PK_MEMORY_SCRATCH)
        return NULL;
    if (size > PK_MEMORY_SCRATCH - memory->scratch_used)
        memory->scratch_used = 0;
    uint8_t *piece = memory->scratch + memory->scratch_used;
    memory->scratch_used += (size + 15) & ~(size_t) 15;
    return memset(piece, 0, size);
}

void *pk_memory_malloc(size_t size, void *memory)
{
    if (size > SIZE_MAX - sizeof(struct sized_block))
        return NULL;
    struct sized_block *block = pk_memory_get(memory, sizeof *block + size);
    if (!block)
        return NULL;
    block->size = size;
    return block + 1;
}

void *pk_memory_calloc(size_t count, size_t size, void *memory)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *block = pk_memory_malloc(bytes, memory);
    return block ? memset(block, 0, bytes) : NULL;
}

void *pk_memory_realloc(void *block, size_t size, void *memory)
{
    if (!block)
        return pk_memory_malloc(size, memory);
    struct sized_block *old = (struct sized_block *) block - 1;
    if (size <= pk_memory_usable(sizeof *old + old->size) - sizeof *old) {
        /* The class must stay the one that the recorded size gives. */
        if (pk_memory_usable(sizeof *old + size) == pk_memory_usable(sizeof *old + old->size)) {
            old->size = size;
            return block;
        }
    }
    void *fresh = pk_memory_malloc(size, memory);
    if (!fresh)
        return NULL;
    memcpy(fresh, block, old->size < size ? old->size : size);
    pk_memory_free(block, memory);
    return fresh;
}

void pk_memory_free(void *block, void *memory)
{
    if (!block)
        return;
    struct sized_block *sized = (struct sized_block *) block - 1;
    pk_memory_put(memory, sized, sizeof *sized + sized->size);
}
