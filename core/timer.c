/*
 * Timers: a list of those that were started in this turn, and a 4-ary heap by due of the others. See
 * loop.h. It knows no libev: loop.c arms libev's one timer for the earliest of these.
 */
#include "core/loop.h"

#include <assert.h>
#include <string.h>

/* ---- The heap ---- */

static void heap_set(pk_loop *loop, size_t place, pk_timer *timer)
{
    loop->timers[place] = timer;
    timer->place = place;
}

static void heap_up(pk_loop *loop, size_t place, pk_timer *timer)
{
    while (place > 1) {
        size_t parent = (place + 2) / 4;
        if (loop->timers[parent]->due <= timer->due)
            break;
        heap_set(loop, place, loop->timers[parent]);
        place = parent;
    }
    heap_set(loop, place, timer);
}

static void heap_down(pk_loop *loop, size_t place, pk_timer *timer)
{
    for (;;) {
        size_t first = 4 * place - 2, least = 0;
        for (size_t child = first; child < first + 4 && child <= loop->timer_count; child++) {
            if (!least || loop->timers[child]->due < loop->timers[least]->due)
                least = child;
        }
        if (!least || timer->due <= loop->timers[least]->due)
            break;
        heap_set(loop, place, loop->timers[least]);
        place = least;
    }
    heap_set(loop, place, timer);
}

/* ---- Starting, stopping, firing ---- */

static void unlink_fresh(pk_loop *loop, pk_timer *timer)
{
    *timer->link = timer->next_fresh;
    if (timer->next_fresh)
        timer->next_fresh->link = timer->link;
    loop->fresh_count--;
}

static void place_timer(pk_loop *loop, pk_timer *timer, uint64_t now)
{
    unlink_fresh(loop, timer);
    if (__builtin_add_overflow(now, timer->due, &timer->due))
        timer->due = UINT64_MAX;
    heap_up(loop, ++loop->timer_count, timer);
}

void pk_loop_place_timers(pk_loop *loop)
{
    if (!loop->fresh_timers)
        return;
    uint64_t now = pk_loop_now(loop);
    while (loop->fresh_timers)
        place_timer(loop, loop->fresh_timers, now);
}

uint64_t pk_timer_due(pk_loop *loop, pk_timer *timer)
{
    assert(timer->place > 0);
    if (timer->place == PK_TIMER_FRESH)
        place_timer(loop, timer, pk_loop_now(loop));
    return timer->due;
}

/* Room in the heap for one more, fresh ones included: placing never fails. */
static int reserve_timer(pk_loop *loop)
{
    if (PK_LIKELY(loop->timer_count + loop->fresh_count + 1 < loop->timer_capacity))
        return 0;
    size_t capacity = 2 * loop->timer_capacity;
    pk_timer **timers = pk_memory_get(&loop->memory, capacity * sizeof *timers);
    if (!timers)
        return PK_ERR_NOMEM;
    memcpy(timers, loop->timers, loop->timer_capacity * sizeof *timers);
    pk_memory_put(&loop->memory, loop->timers, loop->timer_capacity * sizeof *timers);
    loop->timers = timers;
    loop->timer_capacity = capacity;
    return 0;
}

int pk_timer_start(pk_loop *loop, pk_timer *timer, uint64_t nanoseconds)
{
    pk_timer_stop(loop, timer);
    int r = reserve_timer(loop);
    if (r < 0)
        return r;
    timer->due = nanoseconds;
    timer->place = PK_TIMER_FRESH;
    timer->next_fresh = loop->fresh_timers;
    timer->link = &loop->fresh_timers;
    if (timer->next_fresh)
        timer->next_fresh->link = &timer->next_fresh;
    loop->fresh_timers = timer;
    loop->fresh_count++;
    return 0;
}

int pk_timer_start_at(pk_loop *loop, pk_timer *timer, uint64_t due)
{
    pk_timer_stop(loop, timer);
    int r = reserve_timer(loop);
    if (r < 0)
        return r;
    timer->due = due;
    heap_up(loop, ++loop->timer_count, timer);
    return 0;
}

static void take_out(pk_loop *loop, pk_timer *timer)
{
    size_t place = timer->place;
    timer->place = 0;
    pk_timer *last = loop->timers[loop->timer_count--];
    if (last == timer)
        return;
    if (place > 1 && loop->timers[(place + 2) / 4]->due > last->due)
        heap_up(loop, place, last);
    else
        heap_down(loop, place, last);
}

void pk_timer_stop(pk_loop *loop, pk_timer *timer)
{
    if (timer->place == PK_TIMER_FRESH) {
        unlink_fresh(loop, timer);
        timer->place = 0;
    } else if (timer->place > 0) {
        take_out(loop, timer);
    }
}

void pk_loop_fire_timers(pk_loop *loop)
{
    uint64_t now = pk_loop_now(loop);
    while (loop->timer_count > 0 && loop->timers[1]->due <= now) {
        pk_timer *timer = loop->timers[1];
        take_out(loop, timer);
        timer->fire(timer);
    }
}
