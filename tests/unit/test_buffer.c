/* core/buffer.c: room at both ends, the pool, references, failures. */
#include "core/buffer.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>

static counting_allocator counts;
static pk_memory memory;
static pk_buffer_pool pool;

static void start(void)
{
    counts = (counting_allocator){0};
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    pk_buffer_pool_init(&pool, &memory);
}

static void end(void)
{
    pk_buffer_pool_done(&pool);
    cr_assert_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
    cr_assert_eq(counts.blocks, 0);
}

TestSuite(buffer, .init = start);

Test(buffer, random_prepends_and_appends_give_what_a_plain_array_gives)
{
    enum { MOST = 300000 };
    static uint8_t model[2 * MOST], piece[5000];
    uint32_t random = 7;
    for (unsigned round = 0; round < 60; round++) {
        pk_buffer *buffer = pk_buffer_get(&pool);
        size_t from = MOST, to = MOST;
        if (round % 3 == 1)
            pk_buffer_rewind_for_append(buffer, round % 64);
        for (unsigned step = 0; step < 50; step++) {
            random = random * 1664525u + 1013904223u;
            size_t length = (random >> 16) % (round % 2 ? 5000 : 60);
            memset(piece, (int) (random >> 24), length);
            if (random & 0x8000) {
                cr_assert_eq(pk_buffer_prepend(buffer, piece, length), 0);
                from -= length;
                memcpy(model + from, piece, length);
            } else {
                cr_assert_eq(pk_buffer_append(buffer, piece, length), 0);
                memcpy(model + to, piece, length);
                to += length;
            }
            cr_assert(buffer->start >= buffer->memory);
            cr_assert(buffer->end <= buffer->memory + buffer->capacity);
        }
        cr_assert_eq(pk_buffer_length(buffer), to - from);
        cr_assert_arr_eq(buffer->start, model + from, to - from);
        pk_buffer_unref(buffer);
    }
    end();
}

Test(buffer, an_append_after_a_rewind_keeps_the_room_in_front)
{
    for (size_t reserved = 0; reserved <= 64; reserved++) {
        pk_buffer *buffer = pk_buffer_get(&pool);
        pk_buffer_rewind_for_append(buffer, reserved);
        static const uint8_t body[100000];
        cr_assert_eq(pk_buffer_append(buffer, body, sizeof body), 0);
        uint8_t *memory_before = buffer->memory;
        cr_assert_eq(pk_buffer_room_before(buffer, reserved < 64 ? reserved : 63), 0);
        cr_assert_eq(buffer->memory, memory_before, "%zu", reserved);
        pk_buffer_unref(buffer);
    }
    end();
}

Test(buffer, the_last_reference_gives_it_back_and_large_ones_are_not_kept)
{
    pk_buffer *buffer = pk_buffer_get(&pool);
    cr_assert_eq(pool.lent, 1);
    cr_assert_eq(pk_buffer_ref(buffer), buffer);
    cr_assert_null(pk_buffer_unref(buffer));
    cr_assert_eq(pool.lent, 1);
    cr_assert_null(pk_buffer_unref(buffer));
    cr_assert_null(pk_buffer_unref(NULL));
    cr_assert_eq(pool.lent, 0);
    cr_assert_eq(pk_buffer_get(&pool), buffer);
    cr_assert_eq(pk_buffer_room_after(buffer, PK_BUFFER_KEPT_MAX + 1), 0);
    pk_buffer_unref(buffer);
    cr_assert_eq(pool.kept_bytes, 0);
    cr_assert_null(pool.kept);
    /* Many at once: the pool keeps only so much. */
    enum { MANY = 40 };
    pk_buffer *many[MANY];
    for (size_t i = 0; i < MANY; i++) {
        many[i] = pk_buffer_get(&pool);
        cr_assert_eq(pk_buffer_room_after(many[i], 1u << 20), 0);
    }
    for (size_t i = 0; i < MANY; i++)
        pk_buffer_unref(many[i]);
    cr_assert_leq(pool.kept_bytes, 32u << 20);
    end();
}

Test(buffer, without_memory_it_stays_as_it_was)
{
    counts.fail_at = 1;
    counts.fail_after = true;
    cr_assert_null(pk_buffer_get(&pool));
    counts.fail_at = counts.requests + 2;
    counts.fail_after = false;
    cr_assert_null(pk_buffer_get(&pool));
    counts.fail_at = 0;
    pk_buffer *buffer = pk_buffer_get(&pool);
    cr_assert_eq(pk_buffer_prepend(buffer, "hello", 5), 0);
    counts.fail_at = counts.requests + 1;
    counts.fail_after = true;
    cr_assert_eq(pk_buffer_room_before(buffer, 100000), PK_ERR_NOMEM);
    cr_assert_eq(pk_buffer_room_after(buffer, 100000), PK_ERR_NOMEM);
    cr_assert_eq(pk_buffer_room_before(buffer, SIZE_MAX - 2), PK_ERR_NOMEM);
    cr_assert_eq(pk_buffer_room_after(buffer, SIZE_MAX - 2), PK_ERR_NOMEM);
    cr_assert_eq(pk_buffer_length(buffer), 5);
    cr_assert_arr_eq(buffer->start, "hello", 5);
    pk_buffer_unref(buffer);
    end();
}

#ifndef NDEBUG
static void *give_back(void *buffer)
{
    pk_buffer_unref(buffer);
    return NULL;
}

static void *take_one(void *from)
{
    return pk_buffer_get(from);
}

Test(buffer, one_that_reaches_another_loops_thread_asserts, .signal = SIGABRT)
{
    pthread_t thread;
    pthread_create(&thread, NULL, give_back, pk_buffer_get(&pool));
    pthread_join(thread, NULL);
}

Test(buffer, a_pool_that_another_thread_takes_from_asserts, .signal = SIGABRT)
{
    pthread_t thread;
    pthread_create(&thread, NULL, take_one, &pool);
    pthread_join(thread, NULL);
}
#endif
