/* Gathered output against a plain string of the same bytes. */
#include "transport/output.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static pk_memory memory;
static pk_buffer_pool pool;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_buffer_pool_init(&pool, &memory);
}

static void tear_down(void)
{
    cr_assert_eq(pool.lent, 0);
    pk_buffer_pool_done(&pool);
    cr_assert_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
}

TestSuite(output, .init = set_up, .fini = tear_down);

/* The same sequence of pseudo-random numbers each time. */
static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Writes up to `limit` bytes as a socket would, checks them, and advances. */
static size_t write_some(pk_output *output, const uint8_t *expected, size_t limit)
{
    struct iovec pieces[3];
    int count = pk_output_gather(output, pieces, 3);
    size_t written = 0;
    for (int i = 0; i < count && written < limit; i++) {
        size_t part = pieces[i].iov_len < limit - written ? pieces[i].iov_len : limit - written;
        cr_assert_arr_eq(pieces[i].iov_base, expected + written, part);
        written += part;
    }
    pk_output_advance(output, written);
    return written;
}

Test(output, keeps_bytes_in_order_however_they_are_appended_and_written)
{
    enum { TOTAL = 3 << 20 };
    uint8_t *all = malloc(TOTAL);
    cr_assert_not_null(all);
    uint32_t state = 1;
    for (size_t i = 0; i < TOTAL; i++)
        all[i] = (uint8_t) next(&state);
    pk_output output;
    pk_output_init(&output, &pool);
    size_t appended = 0, written = 0;
    while (written < TOTAL) {
        size_t part = next(&state) % (next(&state) % 4 == 0 ? 30000 : 300);
        part = part < TOTAL - appended ? part : TOTAL - appended;
        if (next(&state) % 2 && part > 0) {
            pk_buffer *holder = pk_buffer_get(&pool);
            cr_assert_not_null(holder);
            pk_buffer_rewind_for_append(holder, 0);
            cr_assert_eq(pk_buffer_append(holder, all + appended, part), 0);
            cr_assert_eq(pk_output_refer(&output, holder->start, part, holder), 0);
            pk_buffer_unref(holder);
        } else {
            cr_assert_eq(pk_output_copy(&output, all + appended, part), 0);
        }
        appended += part;
        cr_assert_eq(output.bytes, appended - written);
        if (next(&state) % 3 == 0 || appended == TOTAL)
            written += write_some(&output, all + written, next(&state) % 50000);
    }
    cr_assert_eq(output.bytes, 0);
    cr_assert_eq(pool.lent, 0, "an empty output holds no buffer");
    pk_output_done(&output);
    free(all);
}

Test(output, drops_what_has_not_left)
{
    pk_output output;
    pk_output_init(&output, &pool);
    for (int i = 0; i < 100; i++) {
        pk_buffer *holder = pk_buffer_get(&pool);
        cr_assert_not_null(holder);
        pk_buffer_rewind_for_append(holder, 0);
        cr_assert_eq(pk_buffer_room_after(holder, 5000), 0);
        memset(holder->end, 'x', 5000);
        holder->end += 5000;
        cr_assert_eq(pk_output_refer(&output, holder->start, 5000, holder), 0);
        cr_assert_eq(pk_output_copy(&output, (const uint8_t *) "head", 4), 0);
        pk_buffer_unref(holder);
    }
    pk_output_advance(&output, 12345);
    pk_output_done(&output);
}

Test(output, copies_join_into_one_piece)
{
    pk_output output;
    struct iovec pieces[4];
    pk_output_init(&output, &pool);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(pk_output_copy(&output, (const uint8_t *) "0123456789", 10), 0);
    cr_assert_eq(pk_output_gather(&output, pieces, 4), 1);
    cr_assert_eq(pieces[0].iov_len, 10000);
    pk_output_done(&output);
}
