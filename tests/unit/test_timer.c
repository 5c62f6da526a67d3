/* core/timer.c, and how core/loop.c arms libev's timer for it. */
#include <pekoe/testing.h>

#include "tests/support/future_fixture.h"

#include <time.h>

TestSuite(timer, .init = start_futures, .timeout = 60);

#define MILLISECOND 1000000u

struct alarm {
    pk_timer timer;
    uint64_t fired; /* when */
    unsigned times;
};

static uint64_t last_due;

static void ring(pk_timer *timer)
{
    struct alarm *alarm = (struct alarm *) timer;
    alarm->times++;
    alarm->fired = pk_loop_now(loop);
    cr_assert_geq(alarm->fired, timer->due);
    cr_assert_geq(timer->due, last_due);
    last_due = timer->due;
}

Test(timer, timers_of_random_times_fire_in_order_once_and_stopped_ones_never)
{
    enum { COUNT = 5000 };
    static struct alarm alarms[COUNT];
    static uint64_t wanted[COUNT];
    pk_test_clock_freeze(loop);
    uint64_t begun = pk_loop_now(loop);
    uint32_t random = 3;
    for (unsigned round = 0; round < 4; round++) {
        last_due = 0;
        begun = pk_loop_now(loop);
        for (unsigned i = 0; i < COUNT; i++) {
            random = random * 1664525u + 1013904223u;
            alarms[i] = (struct alarm){.timer.fire = ring};
            uint64_t after = (random >> 12) * (uint64_t) 100;
            wanted[i] = begun + after;
            cr_assert_eq(i % 3 == 0 ? pk_timer_start_at(loop, &alarms[i].timer, wanted[i])
                                    : pk_timer_start(loop, &alarms[i].timer, after),
                         0);
            if (i % 5 == 0)
                cr_assert_eq(pk_timer_due(loop, &alarms[i].timer), wanted[i]);
        }
        if (round % 2)
            pk_loop_end_turn(loop), pk_loop_place_timers(loop);
        for (unsigned i = 0; i < COUNT; i++) {
            if (i % 7 == 0) {
                pk_timer_stop(loop, &alarms[i].timer);
                pk_timer_stop(loop, &alarms[i].timer);
                wanted[i] = 0;
            } else if (i % 11 == 0) {
                wanted[i] = begun + i;
                cr_assert_eq(pk_timer_start(loop, &alarms[i].timer, i), 0);
            }
        }
        pk_test_clock_advance(loop, 1000);
        for (unsigned i = 0; i < COUNT; i++) {
            cr_assert_eq(alarms[i].times, wanted[i] != 0);
            cr_assert_eq(alarms[i].fired, wanted[i]);
        }
        cr_assert_eq(loop->timer_count + loop->fresh_count, 0);
    }
    struct alarm far = {.timer.fire = ring};
    cr_assert_eq(pk_timer_start(loop, &far.timer, UINT64_MAX), 0);
    cr_assert_eq(pk_timer_due(loop, &far.timer), UINT64_MAX);
    pk_timer_stop(loop, &far.timer);
    loop = pk_loop_free(loop);
}

Test(timer, real_timers_never_fire_early)
{
    last_due = 0;
    static const unsigned after[] = {0, 1, 3, 7, 20, 21, 21, 40};
    enum { COUNT = sizeof after / sizeof after[0] };
    struct alarm alarms[COUNT];
    uint64_t begun = pk_loop_now(loop);
    for (unsigned i = COUNT; i-- > 0;) {
        alarms[i] = (struct alarm){.timer.fire = ring};
        cr_assert_eq(pk_timer_start(loop, &alarms[i].timer, after[i] * MILLISECOND), 0);
    }
    pk_loop_run(loop);
    for (unsigned i = 0; i < COUNT; i++) {
        cr_assert_eq(alarms[i].times, 1);
        cr_assert_geq(alarms[i].fired - begun, after[i] * MILLISECOND);
    }
    end_futures();
}

static unsigned libev_starts, clock_readings;

/* Counts what the loop does for a deadline: its own clock, and libev's timer. */
int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
void __real_ev_timer_start(struct ev_loop *ev, ev_timer *timer);
void __real_ev_timer_stop(struct ev_loop *ev, ev_timer *timer);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
void __wrap_ev_timer_start(struct ev_loop *ev, ev_timer *timer);
void __wrap_ev_timer_stop(struct ev_loop *ev, ev_timer *timer);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    clock_readings++;
    return __real_clock_gettime(clock, ret_time);
}

void __wrap_ev_timer_start(struct ev_loop *ev, ev_timer *timer)
{
    libev_starts++;
    __real_ev_timer_start(ev, timer);
}

void __wrap_ev_timer_stop(struct ev_loop *ev, ev_timer *timer)
{
    libev_starts++;
    __real_ev_timer_stop(ev, timer);
}

Test(timer, a_deadline_that_is_met_in_its_turn_reads_no_clock_and_calls_no_libev)
{
    struct alarm alarms[100];
    for (unsigned round = 0; round < 100; round++) {
        clock_readings = libev_starts = 0;
        for (unsigned i = 0; i < 100; i++) {
            alarms[i] = (struct alarm){.timer.fire = ring};
            cr_assert_eq(pk_timer_start(loop, &alarms[i].timer, 1000 * MILLISECOND), 0);
        }
        for (unsigned i = 0; i < 100; i++)
            pk_timer_stop(loop, &alarms[i].timer);
        cr_assert_eq(clock_readings, 0);
        cr_assert_eq(libev_starts, 0);
    }
    end_futures();
}

static void do_nothing(void *arg)
{
}

Test(timer, deadlines_that_outlive_their_turn_cost_one_clock_reading_per_turn)
{
    enum { CALLS = 100, TURNS = 1000 };
    static struct alarm alarms[CALLS];
    memset(alarms, 0, sizeof alarms);
    unsigned starts = 0, readings = 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        /* In each turn a few calls end, and as many begin. */
        for (unsigned i = 0; i < 10; i++) {
            struct alarm *alarm = &alarms[(turn * 10 + i) % CALLS];
            pk_timer_stop(loop, &alarm->timer);
            alarm->timer.fire = ring;
            cr_assert_eq(pk_timer_start(loop, &alarm->timer, 60000 * (uint64_t) MILLISECOND), 0);
        }
        cr_assert_eq(pk_loop_post(loop, do_nothing, NULL), 0);
        clock_readings = libev_starts = 0;
        pk_loop_turn(loop);
        starts += libev_starts;
        readings += clock_readings;
    }
    cr_assert_leq(starts, 4, "%u", starts);
#ifdef NDEBUG
    cr_assert_leq(readings, TURNS + 10, "%u", readings);
#endif
    (void) readings;
    for (unsigned i = 0; i < CALLS; i++)
        pk_timer_stop(loop, &alarms[i].timer);
    end_futures();
}

Test(timer, an_idle_libev_timer_keeps_no_loop_alive)
{
    uint64_t begun = pk_loop_now(loop);
    for (unsigned round = 0; round < 20; round++) {
        struct alarm alarm = {.timer.fire = ring}, soon = {.timer.fire = ring};
        cr_assert_eq(pk_timer_start(loop, &alarm.timer, 60000 * (uint64_t) MILLISECOND), 0);
        cr_assert_eq(pk_timer_start(loop, &soon.timer, round % 3 * MILLISECOND), 0);
        cr_assert_eq(pk_loop_post(loop, do_nothing, NULL), 0);
        pk_loop_turn(loop);
        pk_timer_stop(loop, &alarm.timer);
        if (round % 2)
            pk_timer_stop(loop, &soon.timer);
        pk_loop_run(loop);
        pk_timer_stop(loop, &soon.timer);
    }
    cr_assert_lt(pk_loop_now(loop) - begun, 20000 * (uint64_t) MILLISECOND);
    /* And the books with libev are right: a real timer still keeps it running until it fires. */
    struct alarm alarm = {.timer.fire = ring};
    cr_assert_eq(pk_timer_start(loop, &alarm.timer, 20 * MILLISECOND), 0);
    last_due = 0;
    pk_loop_run(loop);
    cr_assert_eq(alarm.times, 1);
    end_futures();
}

Test(timer, one_without_a_place_in_the_heap_is_refused)
{
    static struct alarm alarms[100];
    counts.fail_after = true;
    counts.fail_at = counts.requests + 1;
    unsigned started = 0;
    while (pk_timer_start(loop, &alarms[started].timer, 1) == 0)
        started++;
    cr_assert_eq(started, 63);
    for (unsigned i = 0; i < started; i++)
        pk_timer_stop(loop, &alarms[i].timer);
    counts.fail_at = 0;
    end_futures();
}
