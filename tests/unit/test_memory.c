/* core/memory.c: classes, kept blocks, the malloc interface, failures. */
#include "core/memory.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>

Test(memory, usable_sizes_have_four_steps_per_doubling_up_to_the_largest_class)
{
    static const struct {
        size_t asked, usable;
    } rows[] = {
        {0, 16},
        {1, 16},
        {16, 16},
        {17, 32},
        {32, 32},
        {33, 48},
        {64, 64},
        {65, 80},
        {80, 80},
        {81, 96},
        {113, 128},
        {129, 160},
        {1000, 1024},
        {1024, 1024},
        {1025, 1280},
        {16385, 20480},
        {(1u << 20) - 1, 1u << 20},
        {1u << 20, 1u << 20},
        {(1u << 20) + 1, (1u << 20) + 1},
        {5u << 20, 5u << 20},
    };
    counting_allocator counts = {0};
    pk_memory memory;
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(pk_memory_usable(rows[i].asked), rows[i].usable, "%zu", rows[i].asked);
        uint8_t *block = pk_memory_get(&memory, rows[i].asked);
        cr_assert_not_null(block);
        cr_assert_eq((uintptr_t) block % 16, 0);
        memset(block, 0xa5, rows[i].usable);
        pk_memory_put(&memory, block, rows[i].asked);
    }
    cr_assert_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
    cr_assert_eq(counts.blocks, 0);
}

/* Each size fits its class, and the class below would be too small. */
Test(memory, every_size_gets_the_smallest_class_that_holds_it)
{
    for (size_t size = 1; size <= PK_MEMORY_LARGEST; size += 1 + size / 100) {
        unsigned class = pk_memory_class(size);
        cr_assert_lt(class, PK_MEMORY_CLASSES);
        cr_assert_geq(pk_memory_class_bytes(class), size);
        cr_assert_eq(pk_memory_class_bytes(class) % 16, 0);
        cr_assert(class == 0 || pk_memory_class_bytes(class - 1) < size, "%zu", size);
    }
    cr_assert_eq(pk_memory_class(PK_MEMORY_LARGEST), PK_MEMORY_CLASSES - 1);
}

Test(memory, a_block_that_came_back_serves_every_size_of_its_class_without_an_allocation)
{
    counting_allocator counts = {0};
    pk_memory memory;
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    void *first = pk_memory_get(&memory, 100);
    pk_memory_put(&memory, first, 100);
    for (size_t size = 97; size <= 112; size++) {
        void *again = pk_memory_get(&memory, size);
        cr_assert_eq(again, first);
        pk_memory_put(&memory, again, size);
    }
    cr_assert_eq(counts.requests, 1);
    cr_assert_eq(memory.kept_bytes, 112);
    pk_memory_done(&memory);
    cr_assert_eq(counts.blocks, 0);
}

Test(memory, what_is_kept_is_bounded_and_given_up_when_the_allocator_fails)
{
    counting_allocator counts = {0};
    pk_memory memory;
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    enum { BLOCKS = 40 };
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        cr_assert_not_null(blocks[i] = pk_memory_get(&memory, 1u << 20));
    for (size_t i = 0; i < BLOCKS; i++)
        pk_memory_put(&memory, blocks[i], 1u << 20);
    cr_assert_eq(memory.kept_bytes, PK_MEMORY_KEPT_MAX);
    cr_assert_eq(counts.blocks, 32);
    /* One failure: what is kept goes, and the second try succeeds. */
    counts.fail_at = counts.requests + 1;
    void *small = pk_memory_get(&memory, 64);
    cr_assert_not_null(small);
    cr_assert_eq(memory.kept_bytes, 0);
    cr_assert_eq(counts.blocks, 1);
    counts.fail_at = counts.requests + 1;
    cr_assert_null(pk_memory_get(&memory, 1024));
    cr_assert_eq(memory.live_blocks, 1);
    pk_memory_put(&memory, small, 64);
    pk_memory_put(&memory, NULL, 64);
    pk_memory_done(&memory);
    cr_assert_eq(counts.blocks, 0);
}

Test(memory, the_malloc_interface_keeps_contents_and_refuses_overflow)
{
    static const size_t sizes[] = {
        0,        1,        15, 16, 17, 47, 48, 49, 1000, 100, 5000, 1u << 20, (1u << 20) - 16,
        3u << 20, 2u << 20, 10};
    pk_memory memory;
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    uint8_t *block = NULL;
    size_t before = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        block = pk_memory_realloc(block, sizes[i], &memory);
        cr_assert_not_null(block);
        size_t kept = before < sizes[i] ? before : sizes[i];
        for (size_t k = 0; k<kept; k += kept> 4096 ? 997 : 1)
            cr_assert_eq(block[k], (uint8_t) (k * 7));
        for (size_t k = 0; k < sizes[i]; k++)
            block[k] = (uint8_t) (k * 7);
        before = sizes[i];
    }
    cr_assert_eq(memory.live_blocks, 1);
    pk_memory_free(block, &memory);
    pk_memory_free(NULL, &memory);
    uint8_t *zeroed = pk_memory_calloc(7, 9, &memory);
    for (size_t k = 0; k < 63; k++)
        cr_assert_eq(zeroed[k], 0);
    pk_memory_free(zeroed, &memory);
    size_t huge = SIZE_MAX;
    cr_assert_null(pk_memory_malloc(huge, &memory));
    cr_assert_null(pk_memory_calloc(huge / 2, 3, &memory));
    cr_assert_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
}

Test(memory, scratch_is_zeroed_each_time_lasts_a_while_and_ends_at_its_bound)
{
    pk_memory memory;
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    uint8_t *first = pk_memory_scratch(&memory, 100);
    memset(first, 1, 100);
    for (size_t lent = 112; lent + 1008 <= PK_MEMORY_SCRATCH; lent += 1008) {
        uint8_t *further = pk_memory_scratch(&memory, 1000);
        cr_assert_eq((uintptr_t) further % 16, 0);
        cr_assert_eq(further[0] | further[999], 0);
        memset(further, 2, 1000);
    }
    for (size_t i = 0; i < 100; i++)
        cr_assert_eq(first[i], 1);
    cr_assert_eq(pk_memory_scratch(&memory, 1000), first);
    for (size_t i = 0; i < 1000; i++)
        cr_assert_eq(first[i], 0);
    cr_assert_not_null(pk_memory_scratch(&memory, PK_MEMORY_SCRATCH));
    cr_assert_not_null(pk_memory_scratch(&memory, PK_MEMORY_SCRATCH - 1));
    cr_assert_null(pk_memory_scratch(&memory, PK_MEMORY_SCRATCH + 1));
    pk_memory_done(&memory);
}
