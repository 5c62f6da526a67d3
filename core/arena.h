/*
 * An arena: memory that is taken piece by piece and given back all at once.
 *
 * A call owns one for its request, reply, metadata and the handler's own state; a reader owns one
 * for the message that it lends out. Blocks come from the loop's pk_memory and return there.
 *
 * Out of memory: pk_arena_get hands out zeroed scratch, marks the arena `exhausted`, and the owner
 * of the arena answers RESOURCE_EXHAUSTED when it next looks. pk_arena_try returns NULL instead.
 */
#ifndef PEKOE_CORE_ARENA_H
#define PEKOE_CORE_ARENA_H

#include "core/memory.h"
#include "core/print.h"

#include <stdarg.h>

#define PK_ARENA_ALIGNMENT 16u

struct pk_arena_block {
    struct pk_arena_block *next;
    size_t size; /* bytes asked of pk_memory, this header included */
};

typedef struct pk_arena {
    uint8_t *at;                   /* next free byte, 16-byte aligned */
    uint8_t *end;                  /* end of the newest block */
    struct pk_arena_block *blocks; /* newest first */
    pk_memory *memory;             /* borrowed: the loop's */
    size_t total;                  /* bytes in all blocks, headers included */
    bool exhausted;                /* an allocation failed since the last reset */
} pk_arena;

/* No block is taken until the first allocation, unless `first` asks for one of that many bytes. */
void pk_arena_init(pk_arena *arena, pk_memory *memory, size_t first);

/*
 * The same, beginning in memory that the owner of the arena has: `length` bytes at `bytes`, 16-byte
 * aligned, borrowed as long as the arena. Not for arenas that are reset.
 */
static inline void pk_arena_init_in(pk_arena *arena, pk_memory *memory, void *bytes, size_t length)
{
    pk_arena started = {
        .at = (uint8_t *) bytes, .end = (uint8_t *) bytes + length, .memory = memory};
    *arena = started;
}

/* Gives back all blocks but the newest. */
void pk_arena_trim(pk_arena *arena);

/* The header of a block keeps what follows it aligned. */
#define PK_ARENA_HEADER                                           \
    ((sizeof(struct pk_arena_block) + (PK_ARENA_ALIGNMENT - 1)) & \
     ~(size_t) (PK_ARENA_ALIGNMENT - 1))

/* Gives everything back except the newest block, which serves the next round. */
static inline void pk_arena_reset(pk_arena *arena)
{
    struct pk_arena_block *newest = arena->blocks;
    arena->exhausted = false;
    if (PK_UNLIKELY(!newest))
        return;
    if (PK_UNLIKELY(newest->next != NULL))
        pk_arena_trim(arena);
    arena->at = (uint8_t *) newest + PK_ARENA_HEADER;
}

/* Gives everything back. The arena may be used again. */
void pk_arena_done(pk_arena *arena);

/* The same for one whose struct goes as well: it must not be used again. */
static inline void pk_arena_end(pk_arena *arena)
{
    if (PK_UNLIKELY(arena->blocks != NULL))
        pk_arena_done(arena);
}

/* The slow path of pk_arena_try: takes a new block. NULL when memory runs out. */
void *pk_arena_grow(pk_arena *arena, size_t size);

/* `size` bytes, 16-byte aligned, contents undefined; NULL when memory runs out. */
static inline void *pk_arena_try(pk_arena *arena, size_t size)
{
    size_t left = (size_t) (arena->end - arena->at);
    if (PK_UNLIKELY(size > left))
        return pk_arena_grow(arena, size);
    uint8_t *piece = arena->at;
    size_t rounded = (size + (PK_ARENA_ALIGNMENT - 1)) & ~(size_t) (PK_ARENA_ALIGNMENT - 1);
    arena->at += rounded < left ? rounded : left;
    return piece;
}

/* The same, never NULL up to PK_MEMORY_SCRATCH bytes: see the head of this file. */
void *pk_arena_get(pk_arena *arena, size_t size);

/* The same, zeroed. */
void *pk_arena_zeroed(pk_arena *arena, size_t size);

/* A copy of `length` bytes followed by a NUL. */
char *pk_arena_copy(pk_arena *arena, const void *bytes, size_t length);

/* A printed string that ends in NUL. */
char *pk_arena_printf(pk_arena *arena, const char *format, ...) PK_PRINTF(2, 3);
char *pk_arena_vprintf(pk_arena *arena, const char *format, va_list arguments) PK_PRINTF(2, 0);

/*
 * Tries text and %s alone, in what is left of the block. NULL: there is something else in the format,
 * or no room. `arguments` are used up, so that no copy of them is made, which would be read back
 * before the processor has them together.
 */
char *pk_arena_print_texts(pk_arena *arena, const char *format,
                           struct pk_print_arguments *arguments);

/* Prints the arguments that follow `format`, the last one named of the function where this stands. */
#define PK_ARENA_PRINT(ret_text, arena, format)                               \
    do {                                                                      \
        struct pk_print_arguments arguments;                                  \
        va_start(arguments.list, format);                                     \
        (ret_text) = pk_arena_print_texts((arena), (format), &arguments);     \
        va_end(arguments.list);                                               \
        if (PK_UNLIKELY(!(ret_text))) {                                       \
            va_start(arguments.list, format);                                 \
            (ret_text) = pk_arena_vprintf((arena), (format), arguments.list); \
            va_end(arguments.list);                                           \
        }                                                                     \
    } while (0)

#endif
