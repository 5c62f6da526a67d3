/* Bump allocation over blocks of the loop's memory: see arena.h. */
#include "core/arena.h"

#include "core/print.h"

#include <stdarg.h>
#include <string.h>

#define FIRST_BLOCK 1024u        /* bytes, header included */
#define LARGEST_STEP (64u << 10) /* blocks double up to this size; larger ones only on demand */

/* Takes a block of at least `size` bytes, header included, and makes it the newest. */
static bool add_block(pk_arena *arena, size_t size)
{
    size = pk_memory_usable(size);
    struct pk_arena_block *block = pk_memory_get(arena->memory, size);
    if (!block)
        return false;
    *block = (struct pk_arena_block){.next = arena->blocks, .size = size};
    arena->blocks = block;
    arena->total += size;
    arena->at = (uint8_t *) block + PK_ARENA_HEADER;
    arena->end = (uint8_t *) block + size;
    return true;
}

/* Where an arena without blocks stands: zero bytes of it are not "out of memory". */
static _Alignas(PK_ARENA_ALIGNMENT) uint8_t nothing[PK_ARENA_ALIGNMENT];

static pk_arena empty_arena(pk_memory *memory)
{
    return (pk_arena){.at = nothing, .end = nothing, .memory = memory};
}

void pk_arena_init(pk_arena *arena, pk_memory *memory, size_t first)
{
    *arena = empty_arena(memory);
    if (first > 0 && first <= SIZE_MAX - PK_ARENA_HEADER)
        (void) add_block(arena, first + PK_ARENA_HEADER); /* the next allocation tries again */
}

static void drop_blocks(pk_arena *arena, struct pk_arena_block *block)
{
    while (block) {
        struct pk_arena_block *next = block->next;
        arena->total -= block->size;
        pk_memory_put(arena->memory, block, block->size);
        block = next;
    }
}

void pk_arena_trim(pk_arena *arena)
{
    drop_blocks(arena, pk_steal(&arena->blocks->next));
}

void pk_arena_done(pk_arena *arena)
{
    drop_blocks(arena, arena->blocks);
    *arena = empty_arena(arena->memory);
}

void *pk_arena_grow(pk_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t needed =
        PK_ARENA_HEADER + ((size + (PK_ARENA_ALIGNMENT - 1)) & ~(size_t) (PK_ARENA_ALIGNMENT - 1));
    size_t step = arena->blocks ? 2 * arena->blocks->size : FIRST_BLOCK;
    if (step > LARGEST_STEP)
        step = LARGEST_STEP;
    if (!add_block(arena, needed > step ? needed : step) && !add_block(arena, needed))
        return NULL;
    uint8_t *piece = arena->at;
    arena->at += needed - PK_ARENA_HEADER;
    return piece;
}

void *pk_arena_get(pk_arena *arena, size_t size)
{
    void *piece = pk_arena_try(arena, size);
    if (PK_LIKELY(piece != NULL))
        return piece;
    arena->exhausted = true;
    return pk_memory_scratch(arena->memory, size);
}

void *pk_arena_zeroed(pk_arena *arena, size_t size)
{
    void *piece = pk_arena_get(arena, size);
    return piece ? memset(piece, 0, size) : NULL;
}

char *pk_arena_copy(pk_arena *arena, const void *bytes, size_t length)
{
    char *copy = pk_arena_get(arena, length + 1);
    if (!copy)
        return NULL;
    if (length > 0)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

char *pk_arena_print_texts(pk_arena *arena, const char *format,
                           struct pk_print_arguments *arguments)
{
    const char *end = pk_print_texts((char *) arena->at, (char *) arena->end, format, arguments);
    return PK_LIKELY(end != NULL) ? pk_arena_try(arena, (size_t) (end - (char *) arena->at) + 1)
                                  : NULL;
}

char *pk_arena_vprintf(pk_arena *arena, const char *format, va_list arguments)
{
    /* Most texts fit into what is left of the block: they are printed there, and then taken. */
    size_t left = (size_t) (arena->end - arena->at);
    int length = pk_print((char *) arena->at, left, format, arguments);
    if (PK_UNLIKELY(length < 0))
        return pk_arena_copy(arena, "", 0);
    char *text = pk_arena_get(arena, (size_t) length + 1);
    if (PK_UNLIKELY((size_t) length >= left) && text)
        pk_print(text, (size_t) length + 1, format, arguments);
    return text;
}

char *pk_arena_printf(pk_arena *arena, const char *format, ...)
{
    char *text;
    PK_ARENA_PRINT(text, arena, format);
    return text;
}
