/*
 * The clock of tests: frozen, and advanced by hand (pekoe/testing.h). Called by tests only; the
 * loop itself looks at clock_frozen where it reads the clock and where it arms libev's timer.
 */
#include <pekoe/testing.h>

#include "core/loop.h"

#include <assert.h>

void pk_test_clock_freeze(pk_loop *loop)
{
    pk_assert_owner(loop);
    if (loop->clock_frozen)
        return;
    loop->clock_offset = pk_loop_now(loop);
    loop->clock_frozen = true;
}

void pk_test_clock_advance(pk_loop *loop, uint64_t milliseconds)
{
    pk_assert_owner(loop);
    assert(loop->clock_frozen && !loop->draining);
    uint64_t nanoseconds, target;
    if (__builtin_mul_overflow(milliseconds, 1000000u, &nanoseconds) ||
        __builtin_add_overflow(loop->clock_offset, nanoseconds, &target))
        target = UINT64_MAX;
    for (;;) {
        pk_loop_end_turn(loop);
        pk_loop_place_timers(loop);
        if (loop->timer_count == 0 || loop->timers[1]->due > target)
            break;
        if (loop->timers[1]->due > loop->clock_offset)
            loop->clock_offset = loop->timers[1]->due;
        pk_loop_fire_timers(loop);
    }
    loop->clock_offset = target;
}
