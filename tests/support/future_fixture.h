/*
 * What the tests of futures share: a loop that counts its memory, scopes on it, and awaiters that
 * count their calls. One of each per test program; every Criterion test is a fresh process, and the
 * plain runner starts each test anew through start_futures.
 */
#ifndef PEKOE_TESTS_FUTURE_FIXTURE_H
#define PEKOE_TESTS_FUTURE_FIXTURE_H

#include "future/promise.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <string.h>

static counting_allocator counts;
static pk_loop *loop;
static size_t blocks_before; /* live blocks of the loop before the test's own */

/* A call stands for the owner of a scope. */
struct call {
    pk_scope scope;
    bool released;
};

static inline void call_released(pk_scope *scope)
{
    cr_assert_not(((struct call *) scope)->released);
    ((struct call *) scope)->released = true;
    pk_arena_done(&scope->arena);
}

static inline void start_call(struct call *call)
{
    *call = (struct call){.released = false};
    pk_scope_init(&call->scope, &loop->memory, &pk_loop_host, loop, 0);
}

/* Everything that is pending is cancelled and told; then nothing holds the scope any more. */
static inline void end_call(struct call *call)
{
    pk_scope_end(&call->scope, call_released);
    pk_loop_end_turn(loop);
    cr_assert(call->released);
}

static inline void start_futures_with(unsigned offload_threads, pk_log_fn *log)
{
    counts = (counting_allocator){0};
    int r = pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts), .log = log,
                                            .log_level = PK_LOG_WARNING,
                                            .offload_threads = offload_threads));
    cr_assert_eq(r, 0);
    blocks_before = loop->memory.live_blocks;
}

static inline void start_futures(void)
{
    start_futures_with(0, NULL);
}

/* No promise, no step and no arena is left, and the loop gives all of its memory back. */
static inline void end_futures(void)
{
    pk_loop_end_turn(loop);
    pk_arena_done(&loop->scope.arena);
    cr_assert_eq(loop->memory.live_blocks, blocks_before, "%zu blocks are left",
                 loop->memory.live_blocks - blocks_before);
    cr_assert_eq(loop->scope.pins, 0);
    loop = pk_loop_free(loop);
    cr_assert_eq(counts.blocks, 0);
}

/* Runs `body` as a step of the scope would run: with the scope current. */
static inline struct pk_current enter_scope(pk_scope *scope)
{
    struct pk_current outer = pk_current;
    pk_current = (struct pk_current){.scope = scope};
    return outer;
}

static inline void leave_scope(struct pk_current outer)
{
    pk_current = outer;
}

/* The outcome of an awaited future. */
struct outcome {
    unsigned times;
    pk_future_state state;
    const void *value;
    pk_code code;
    char text[80];
};

static inline void note_outcome(pk_future future, void *arg)
{
    struct outcome *outcome = arg;
    outcome->times++;
    outcome->state = (pk_future_state) future.state;
    outcome->value = NULL;
    outcome->code = PK_OK;
    if (future.state == PK_FUTURE_DONE) {
        outcome->value = future.pointer;
        return;
    }
    const pk_status *status = future.pointer;
    outcome->code = status->code;
    size_t length = status->message.length < 79 ? status->message.length : 79;
    if (length > 0)
        memcpy(outcome->text, status->message.bytes, length);
    outcome->text[length] = '\0';
}

#define assert_done(outcome, expected)                                       \
    do {                                                                     \
        cr_assert_eq((outcome).times, 1, "%u times", (outcome).times);       \
        cr_assert_eq((outcome).state, PK_FUTURE_DONE, "%s", (outcome).text); \
        cr_assert_eq((outcome).value, (expected));                           \
    } while (0)

#define assert_failed(outcome, expected)                                                         \
    do {                                                                                         \
        cr_assert_eq((outcome).times, 1, "%u times", (outcome).times);                           \
        cr_assert_eq((outcome).state, PK_FUTURE_FAILED);                                         \
        cr_assert_eq((outcome).code, (expected), "%d %s", (int) (outcome).code, (outcome).text); \
    } while (0)

static const pk_status broken = {.code = PK_DATA_LOSS, .message = {(const uint8_t *) "broken", 6}};

#endif
