/* core/arena.c: bump allocation, blocks, out of memory, texts. */
#include "core/arena.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>

static counting_allocator counts;
static pk_memory memory;

static void start(void)
{
    counts = (counting_allocator){0};
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
}

static void end(void)
{
    cr_assert_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
    cr_assert_eq(counts.blocks, 0);
}

TestSuite(arena, .init = start);

Test(arena, pieces_are_aligned_and_do_not_overlap)
{
    pk_arena arena;
    pk_arena_init(&arena, &memory, 0);
    enum { PIECES = 2000 };
    static uint8_t *pieces[PIECES];
    static size_t sizes[PIECES];
    uint32_t random = 1;
    for (size_t i = 0; i < PIECES; i++) {
        random = random * 1664525u + 1013904223u;
        sizes[i] = i % 500 == 499 ? (1u << 20) + 7 + (random >> 20) : random >> 23;
        pieces[i] = pk_arena_try(&arena, sizes[i]);
        cr_assert_not_null(pieces[i]);
        cr_assert_eq((uintptr_t) pieces[i] % PK_ARENA_ALIGNMENT, 0);
        memset(pieces[i], (int) (i & 0xff), sizes[i]);
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t k = 0; k<sizes[i]; k += sizes[i]> 4096 ? 1021 : 1)
            cr_assert_eq(pieces[i][k], i & 0xff);
    }
    size_t total = 0;
    for (struct pk_arena_block *block = arena.blocks; block; block = block->next)
        total += block->size;
    cr_assert_eq(arena.total, total);
    pk_arena_done(&arena);
    cr_assert_eq(arena.total, 0);
    end();
}

Test(arena, no_bytes_are_not_out_of_memory)
{
    pk_arena arena;
    pk_arena_init(&arena, &memory, 0);
    cr_assert_not_null(pk_arena_try(&arena, 0));
    cr_assert_not_null(pk_arena_get(&arena, 0));
    cr_assert_not_null(pk_arena_zeroed(&arena, 0));
    cr_assert_not(arena.exhausted);
    cr_assert_eq(counts.requests, 0);
    pk_arena_reset(&arena);
    cr_assert_not_null(pk_arena_try(&arena, 0));
    pk_arena_done(&arena);
    cr_assert_not_null(pk_arena_try(&arena, 0));
    pk_arena_done(&arena);
    end();
}

Test(arena, a_round_after_a_reset_is_served_from_the_block_that_was_kept)
{
    pk_arena arena;
    pk_arena_init(&arena, &memory, 3000);
    cr_assert_eq(counts.requests, 1);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 3; i++)
            memset(pk_arena_try(&arena, 1000), 1, 1000);
        pk_arena_reset(&arena);
    }
    cr_assert_eq(counts.requests, 1);
    cr_assert_eq(arena.total, 3072);
    /* What is given back is kept by the memory: the next arena takes it from there. */
    pk_arena_done(&arena);
    pk_arena_init(&arena, &memory, 3000);
    cr_assert_eq(counts.requests, 1);
    pk_arena_done(&arena);
    end();
}

Test(arena, without_memory_get_lends_zeroed_scratch_and_says_so)
{
    pk_arena arena;
    pk_arena_init(&arena, &memory, 0);
    counts.fail_at = 1;
    counts.fail_after = true;
    cr_assert_null(pk_arena_try(&arena, 10));
    cr_assert_not(arena.exhausted);
    uint8_t *scratch = pk_arena_get(&arena, 5000);
    cr_assert_not_null(scratch);
    cr_assert(arena.exhausted);
    for (size_t i = 0; i < 5000; i++)
        cr_assert_eq(scratch[i], 0);
    memset(scratch, 1, 5000);
    cr_assert_eq(((uint8_t *) pk_arena_zeroed(&arena, 5000))[4999], 0);
    cr_assert_str_eq(pk_arena_copy(&arena, "abc", 3), "abc");
    cr_assert_str_eq(pk_arena_printf(&arena, "%d", 42), "42");
    cr_assert_null(pk_arena_get(&arena, PK_MEMORY_SCRATCH + 1));
    cr_assert_null(pk_arena_try(&arena, SIZE_MAX));
    cr_assert_null(pk_arena_try(&arena, SIZE_MAX - 8));
    counts.fail_at = 0;
    pk_arena_reset(&arena);
    cr_assert_not(arena.exhausted);
    cr_assert_not_null(pk_arena_get(&arena, 5000));
    cr_assert_not(arena.exhausted);
    /* A first block that could not be had is no failure yet. */
    pk_arena second;
    counts.fail_at = counts.requests + 1;
    pk_arena_init(&second, &memory, 100000);
    cr_assert_not(second.exhausted);
    cr_assert_not_null(pk_arena_get(&second, 10));
    pk_arena_done(&second);
    pk_arena_done(&arena);
    end();
}

Test(arena, texts_of_every_length_around_the_end_of_a_block_are_whole)
{
    char expected[1200];
    for (int length = 0; length<1100; length += length> 900 && length < 1060 ? 1 : 37) {
        pk_arena arena;
        pk_arena_init(&arena, &memory, 0);
        (void) pk_arena_try(&arena, 16);
        memset(expected, 'x', (size_t) length);
        expected[length] = '\0';
        char *text = pk_arena_printf(&arena, "%s", expected);
        cr_assert_str_eq(text, expected);
        char *copy = pk_arena_copy(&arena, expected, (size_t) length);
        cr_assert_str_eq(copy, expected);
        cr_assert_str_eq(text, expected);
        pk_arena_done(&arena);
    }
    end();
}
