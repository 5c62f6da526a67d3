/* core/scope.c: the ring of what is pending, cancelling, pins, the end. Without a loop. */
#include "core/scope.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

static pk_memory memory;

static void no_queue(void *loop, pk_ready *entry)
{
    cr_assert_fail("a scope queues nothing by itself");
}

static pk_memory *the_memory(void *loop)
{
    return &memory;
}

static const pk_scope_host host = {.ready = no_queue, .memory = the_memory};
static const pk_status why = {.code = PK_ABORTED};

enum { ENTRIES = 10 };
static pk_scope scope;
static pk_pending entries[ENTRIES];
static unsigned order[ENTRIES], cancelled, released;
static void (*also)(void);

static void cancel_entry(pk_pending *pending, const pk_status *status)
{
    cr_assert_eq(status, &why);
    cr_assert_eq(scope.cancelled, &why);
    order[cancelled++] = (unsigned) (pending - entries);
    if (also)
        also();
}

static void count_release(pk_scope *which)
{
    released++;
    pk_arena_done(&which->arena);
}

static void start(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    cancelled = released = 0;
    also = NULL;
    pk_scope_init(&scope, &memory, &host, NULL, 100);
    for (size_t i = 0; i < ENTRIES; i++) {
        entries[i].cancel = cancel_entry;
        pk_scope_add(&scope, &entries[i]);
    }
}

TestSuite(scope, .init = start);

static void end(void)
{
    cr_assert_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
}

Test(scope, a_cancel_reaches_each_entry_once_in_the_order_they_came)
{
    pk_scope_remove(&entries[3]);
    pk_scope_remove(&entries[3]);
    pk_scope_cancel(&scope, &why);
    cr_assert_eq(cancelled, ENTRIES - 1);
    for (unsigned i = 0; i < cancelled; i++)
        cr_assert_eq(order[i], i < 3 ? i : i + 1);
    static const pk_status other = {.code = PK_INTERNAL};
    pk_scope_cancel(&scope, &other);
    cr_assert_eq(scope.cancelled, &why);
    cr_assert_eq(cancelled, ENTRIES - 1);
    pk_scope_release(&scope, count_release);
    cr_assert_eq(released, 1);
    end();
}

static void remove_neighbours(void)
{
    pk_scope_remove(&entries[5]);
    pk_scope_remove(&entries[6]);
    pk_scope_cancel(&scope, &why);
}

Test(scope, an_entry_that_is_cancelled_may_take_others_off)
{
    also = remove_neighbours;
    pk_scope_cancel(&scope, &why);
    cr_assert_eq(cancelled, ENTRIES - 2);
    pk_scope_release(&scope, count_release);
    end();
}

Test(scope, it_is_released_once_when_the_last_pin_goes)
{
    for (size_t i = 0; i < ENTRIES; i++)
        pk_scope_remove(&entries[i]);
    pk_scope_pin(&scope);
    pk_scope_pin(&scope);
    cr_assert_not_null(pk_arena_try(&scope.arena, 5000));
    pk_scope_end(&scope, count_release);
    cr_assert_eq(released, 0);
    cr_assert_eq(scope.cancelled->code, PK_CANCELLED);
    pk_scope_unpin(&scope);
    cr_assert_eq(released, 0);
    pk_scope_unpin(&scope);
    cr_assert_eq(released, 1);
    end();
}
