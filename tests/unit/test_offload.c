/* future/offload.c: work on other threads, deadlines meanwhile, the end of the loop. */
#include "tests/support/future_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

TestSuite(offload, .init = start_futures, .timeout = 60);

/* A gate that work waits at, so that a test decides when a worker returns. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static unsigned at_gate;

static void set_gate(bool open)
{
    pthread_mutex_lock(&gate_lock);
    gate_open = open;
    at_gate = open ? at_gate : 0;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

static void wait_for_worker(void)
{
    pthread_mutex_lock(&gate_lock);
    while (at_gate == 0)
        pthread_cond_wait(&gate_changed, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

static const void *sum_behind_gate(void *arg)
{
    unsigned *numbers = arg;
    pthread_mutex_lock(&gate_lock);
    at_gate++;
    pthread_cond_broadcast(&gate_changed);
    while (!gate_open)
        pthread_cond_wait(&gate_changed, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
    numbers[100] = 0;
    for (unsigned i = 0; i < 100; i++)
        numbers[100] += numbers[i];
    return &numbers[100];
}

static unsigned *numbers_in(pk_scope *scope)
{
    unsigned *numbers = pk_arena_try(&scope->arena, 101 * sizeof *numbers);
    for (unsigned i = 0; i < 100; i++)
        numbers[i] = i;
    return numbers;
}

static atomic_uint works;

static const void *count_work(void *arg)
{
    atomic_fetch_add(&works, 1);
    return arg;
}

Test(offload, many_jobs_come_back_each_with_its_own_result)
{
    enum { JOBS = 2000 };
    static struct outcome outcomes[JOBS];
    static char values[JOBS];
    struct call call;
    start_call(&call);
    memset(outcomes, 0, sizeof outcomes);
    atomic_store(&works, 0);
    for (unsigned i = 0; i < JOBS; i++)
        pk_await(&call.scope, pk_offload(&call.scope, count_work, &values[i]), note_outcome,
                 &outcomes[i]);
    pk_loop_run(loop); /* the jobs keep it running */
    cr_assert_eq(atomic_load(&works), JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        assert_done(outcomes[i], &values[i]);
    end_call(&call);
    loop = pk_loop_free(loop);
    cr_assert_eq(counts.blocks, 0);
}

Test(offload, a_deadline_leaves_the_arena_until_the_worker_has_returned)
{
    for (unsigned way = 0; way < 3; way++) {
        set_gate(false);
        struct call call;
        start_call(&call);
        unsigned *numbers = numbers_in(&call.scope);
        struct outcome outcome = {0};
        struct pk_current outer = enter_scope(&call.scope);
        pk_future future = pk_offload(&call.scope, sum_behind_gate, numbers);
        if (way == 1)
            future = pk_timeout(&call.scope, future, 5);
        pk_await(&call.scope, future, note_outcome, &outcome);
        leave_scope(outer);
        wait_for_worker();
        if (way == 1) {
            while (outcome.times == 0)
                pk_loop_turn(loop);
            assert_failed(outcome, PK_DEADLINE_EXCEEDED);
        }
        if (way < 2) {
            pk_scope_end(&call.scope, call_released);
            pk_loop_end_turn(loop);
            cr_assert_eq(outcome.times, 1);
            if (way == 0)
                assert_failed(outcome, PK_CANCELLED);
            cr_assert_not(call.released);
        }
        set_gate(true);
        while (way < 2 ? !call.released : outcome.times == 0)
            pk_loop_turn(loop);
        cr_assert_eq(outcome.times, 1);
        if (way == 2) {
            assert_done(outcome, &numbers[100]);
            cr_assert_eq(numbers[100], 4950);
            end_call(&call);
        }
    }
    loop = pk_loop_free(loop);
    cr_assert_eq(counts.blocks, 0);
}

Test(offload, a_loop_that_is_freed_waits_for_its_workers_and_settles_their_futures)
{
    static unsigned numbers[101];
    for (unsigned way = 0; way < 2; way++) {
        pk_loop_free(loop);
        start_futures_with(1, NULL);
        set_gate(false);
        struct call call;
        start_call(&call);
        struct outcome outcomes[3] = {{0}};
        pk_scope *scope = way == 0 ? &loop->scope : &call.scope;
        for (unsigned i = 0; i < 3; i++)
            pk_await(scope, pk_offload(scope, sum_behind_gate, numbers), note_outcome,
                     &outcomes[i]);
        wait_for_worker();
        pk_scope_end(&call.scope, call_released);
        cr_assert_eq(call.released, way == 0);
        set_gate(true);
        loop = pk_loop_free(loop);
        cr_assert(call.released);
        for (unsigned i = 0; i < 3; i++) {
            if (way == 0)
                assert_done(outcomes[i], &numbers[100]);
            else
                assert_failed(outcomes[i], PK_CANCELLED);
        }
        cr_assert_eq(counts.blocks, 0);
    }
}

static pk_future offload_again(const void *value, void *arg)
{
    return pk_offload(&loop->scope, count_work, arg);
}

static pk_future offload_after_all(const pk_status *status, void *arg)
{
    return pk_offload(&loop->scope, count_work, arg);
}

Test(offload, work_started_while_the_loop_is_freed_fails_at_once)
{
    static char value;
    struct outcome outcomes[2] = {{0}};
    atomic_store(&works, 0);
    pk_await(&loop->scope,
             pk_then(pk_offload(&loop->scope, count_work, &value), offload_again, &value),
             note_outcome, &outcomes[0]);
    pk_await(&loop->scope, pk_recover(pk_sleep(&loop->scope, 100000), offload_after_all, &value),
             note_outcome, &outcomes[1]);
    loop = pk_loop_free(loop);
    assert_failed(outcomes[0], PK_CANCELLED);
    assert_failed(outcomes[1], PK_CANCELLED);
    cr_assert_eq(atomic_load(&works), 1);
    cr_assert_eq(counts.blocks, 0);
}

static const void *blocks_signals(void *arg)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    *(bool *) arg = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
    return arg;
}

Test(offload, workers_take_no_signals_of_the_program)
{
    bool blocked = false;
    pk_status status =
        pk_loop_run_until(loop, pk_offload(&loop->scope, blocks_signals, &blocked), NULL);
    cr_assert_eq(status.code, PK_OK);
    cr_assert(blocked);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    cr_assert_eq(sigismember(&mask, SIGINT), 0);
    loop = pk_loop_free(loop);
}
