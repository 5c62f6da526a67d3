/* Promises: their life, settling, running of steps, forwarding, cancelling. See promise.h. */
#include "future/promise.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

const pk_status pk_status_no_memory = {
    .code = PK_RESOURCE_EXHAUSTED,
    .message = {(const uint8_t *) "out of memory", 13},
};

static __thread uint32_t next_generation;

static void cancel_pending(pk_pending *pending, const pk_status *status);
static void run_ready(pk_ready *ready);

/* ---- Life ---- */

/* In `scope` with its future still held, neither in the ring nor in the queue; NULL: no memory. */
static pk_promise *make(pk_scope *scope, pk_promise_state state, uint16_t references)
{
    pk_memory *memory = scope->host->memory(scope->loop);
    pk_promise *promise = pk_memory_get(memory, sizeof *promise);
    if (!promise)
        return NULL;
    *promise = (pk_promise){.pending.cancel = cancel_pending,
                            .ready = {.run = run_ready, .scope = scope},
                            .scope = scope,
                            .memory = memory,
                            .references = references,
                            .state = (uint8_t) state,
                            .consumer = true,
                            .pinned = true};
    promise->pending.next = promise->pending.previous = &promise->pending;
    promise->last_step = &promise->steps;
    promise->last_held = &promise->held;
    pk_scope_pin(scope);
    return promise;
}

pk_promise *pk_promise_ref(pk_promise *promise)
{
    promise->references++;
    return promise;
}

/*
 * Through: no step is left and no consumer will come. What other scopes kept for its values goes,
 * and so does its hold on its own scope, although the producer may still have a reference.
 */
static void let_go(pk_promise *promise)
{
    while (promise->held) {
        pk_promise *source = promise->held;
        promise->held = source->next_held;
        pk_promise_consumed(source);
    }
    promise->last_held = &promise->held;
    if (promise->pinned) {
        promise->pinned = false;
        pk_scope_unpin(promise->scope);
    }
}

void pk_promise_unref(pk_promise *promise)
{
    assert(promise->references > 0);
    if (--promise->references > 0)
        return;
    assert(!promise->steps && !promise->pinned);
    pk_memory_put(promise->memory, promise, sizeof *promise);
}

void pk_promise_consumed(pk_promise *promise)
{
    assert(promise->consumer);
    promise->consumer = false;
    if (promise->state == PK_PROMISE_SETTLED)
        let_go(promise);
    pk_promise_unref(promise);
}

/* Enters the ring of its scope; in one that was cancelled it is cancelled at once. */
static void enter(pk_promise *promise)
{
    if (promise->scope->cancelled)
        cancel_pending(&promise->pending, promise->scope->cancelled);
    else
        pk_scope_add(promise->scope, &promise->pending);
}

pk_promise *pk_promise_new(pk_scope *scope)
{
    pk_promise *promise = make(scope, PK_PROMISE_OPEN, 2);
    if (!promise)
        return NULL;
    enter(promise);
    return promise;
}

pk_future pk_promise_future(pk_promise *promise)
{
    if (!promise)
        return pk_failed_with(&pk_status_no_memory);
    promise->generation = ++next_generation;
    return (pk_future){PK_FUTURE_PENDING, promise->generation, promise};
}

pk_promise *pk_promise_use(pk_future future)
{
    pk_promise *promise = (pk_promise *) (uintptr_t) future.pointer;
    assert(promise->generation == future.generation && "a future was used twice");
    promise->generation = ++next_generation;
    return promise;
}

/* ---- Settling ---- */

/* Takes the outcome and goes to the ready queue, in the ring still: a cancel may come before. */
static void settle(pk_promise *promise, pk_future outcome)
{
    promise->outcome = outcome;
    promise->state = PK_PROMISE_QUEUED;
    promise->references++;
    promise->scope->host->ready(promise->scope->loop, &promise->ready);
}

/* The scope or a combinator gives up: the producer, if there is one, is told and let go. */
static void cancel_pending(pk_pending *pending, const pk_status *status)
{
    pk_promise *promise = (pk_promise *) ((char *) pending - offsetof(pk_promise, pending));
    if (promise->state == PK_PROMISE_QUEUED) {
        promise->outcome = pk_failed_with(status);
        return;
    }
    if (promise->token) {
        settle(promise, pk_done(NULL));
        return;
    }
    void (*abandon)(void *arg) = promise->abandon;
    promise->abandon = NULL;
    settle(promise, pk_failed_with(status));
    if (abandon) {
        abandon(promise->abandon_arg);
        pk_promise_unref(promise);
    }
}

pk_promise *pk_promise_settled_new(pk_scope *scope, pk_future outcome, struct pk_hung_step step)
{
    pk_promise *promise = make(scope, PK_PROMISE_OPEN, 1);
    if (!promise)
        return NULL;
    if (!pk_promise_hang(promise, step)) {
        promise->state = PK_PROMISE_SETTLED;
        pk_promise_consumed(promise);
        return NULL;
    }
    settle(promise, outcome);
    pk_scope_add(scope, &promise->pending);
    return promise;
}

static int complete(pk_promise *promise, pk_future outcome)
{
    if (!promise)
        return PK_ERR_TOO_LATE;
    int r = PK_ERR_TOO_LATE;
    if (promise->state == PK_PROMISE_OPEN) {
        promise->abandon = NULL;
        settle(promise, outcome);
        r = 0;
    }
    pk_promise_unref(promise);
    return r;
}

int pk_promise_done(pk_promise *promise, const void *value)
{
    return complete(promise, pk_done(value));
}

int pk_promise_fail_with(pk_promise *promise, const pk_status *status)
{
    return complete(promise, pk_failed_with(status));
}

PK_PRINTF(3, 0)
static const pk_status *print_status(pk_scope *scope, pk_code code, const char *format,
                                     va_list arguments)
{
    assert(code != PK_OK);
    pk_status *status = pk_arena_try(&scope->arena, sizeof *status);
    const char *text = status ? pk_arena_vprintf(&scope->arena, format, arguments) : NULL;
    if (!text)
        return &pk_status_no_memory;
    *status = (pk_status){.code = code, .message = {(const uint8_t *) text, strlen(text)}};
    return status;
}

int pk_promise_fail(pk_promise *promise, pk_code code, const char *format, ...)
{
    if (!promise)
        return PK_ERR_TOO_LATE;
    /* Where it is too late its scope may be gone: nothing is printed. */
    const pk_status *status = &pk_status_no_memory;
    if (promise->state == PK_PROMISE_OPEN) {
        va_list arguments;
        va_start(arguments, format);
        status = print_status(promise->scope, code, format, arguments);
        va_end(arguments);
    }
    return complete(promise, pk_failed_with(status));
}

pk_future pk_scope_failed(pk_scope *scope, pk_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const pk_status *status = print_status(scope, code, format, arguments);
    va_end(arguments);
    return pk_failed_with(status);
}

void pk_promise_on_abandon(pk_promise *promise, void (*abandon)(void *arg), void *arg)
{
    if (!promise)
        return;
    assert(!promise->abandon);
    if (promise->state != PK_PROMISE_OPEN) {
        abandon(arg);
        pk_promise_unref(promise);
        return;
    }
    promise->abandon = abandon;
    promise->abandon_arg = arg;
}

/* The promise that this one's last step settles; NULL where it is no bridge step. */
static pk_promise *bridge_of(pk_promise *promise)
{
    if (!promise->steps)
        return NULL;
    struct pk_hung_step *last =
        (struct pk_hung_step *) ((char *) promise->last_step - offsetof(struct pk_hung_step, next));
    return last->kind == PK_STEP_BRIDGE ? last->arg : NULL;
}

void pk_promise_cancel(pk_promise *promise, const pk_status *status)
{
    /* What it stands for goes first. A loop, since bridges may be stacked without bound. */
    pk_promise *innermost = promise;
    while (innermost->state == PK_PROMISE_FORWARDED)
        innermost = innermost->source;
    for (pk_promise *next = innermost; next; next = bridge_of(next)) {
        if (pk_promise_waits(next)) {
            pk_scope_remove(&next->pending);
            cancel_pending(&next->pending, status);
        }
        if (next == promise)
            break;
    }
}

/* ---- Steps ---- */

bool pk_promise_hang(pk_promise *promise, struct pk_hung_step step)
{
    struct pk_hung_step *hung = pk_memory_get(promise->memory, sizeof *hung);
    if (!hung)
        return false;
    *hung = step;
    hung->next = NULL;
    *promise->last_step = hung;
    promise->last_step = &hung->next;
    return true;
}

bool pk_promise_finally(pk_promise *promise, void (*cleanup)(void *arg), void *arg)
{
    struct pk_hung_step step = {.kind = PK_STEP_FINALLY, .fn.finally = cleanup, .arg = arg};
    return pk_promise_hang(promise, step);
}

static struct pk_hung_step take_step(pk_promise *promise)
{
    struct pk_hung_step *first = promise->steps, step = *first;
    promise->steps = first->next;
    if (!promise->steps)
        promise->last_step = &promise->steps;
    pk_memory_put(promise->memory, first, sizeof *first);
    return step;
}

/*
 * The source of a bridge has its outcome. A source of another scope is kept, since the value may
 * lie in there; one of the same scope is not needed any more. The bridge step's reference goes.
 */
static void bridge_arrived(pk_promise *bridge, pk_future outcome)
{
    pk_promise *source = pk_steal(&bridge->source);
    if (source->scope == bridge->scope) {
        pk_promise_consumed(source);
    } else {
        source->next_held = NULL;
        *bridge->last_held = source;
        bridge->last_held = &source->next_held;
    }
    if (bridge->state == PK_PROMISE_FORWARDED)
        settle(bridge, outcome);
    else if (bridge->state == PK_PROMISE_SETTLED && !bridge->consumer)
        let_go(bridge);
    pk_promise_unref(bridge);
}

pk_future pk_step_apply(struct pk_hung_step step, pk_future outcome)
{
    switch (step.kind) {
    case PK_STEP_THEN:
        return outcome.state == PK_FUTURE_DONE ? step.fn.then(outcome.pointer, step.arg) : outcome;
    case PK_STEP_RECOVER:
        return outcome.state == PK_FUTURE_FAILED ? step.fn.recover(outcome.pointer, step.arg)
                                                 : outcome;
    case PK_STEP_FINALLY:
        step.fn.finally(step.arg);
        return outcome;
    case PK_STEP_AWAIT:
        step.fn.await(outcome, step.arg);
        return outcome;
    case PK_STEP_BRIDGE:
        bridge_arrived(step.arg, outcome);
        return outcome;
    }
    __builtin_unreachable();
}

/*
 * Makes `bridge` wait for `source`, whose consumer's reference it takes. False: no memory, then
 * the source was cancelled and let go.
 */
static bool wait_for(pk_promise *bridge, pk_promise *source)
{
    struct pk_hung_step step = {.kind = PK_STEP_BRIDGE, .arg = bridge};
    if (!pk_promise_hang(source, step)) {
        pk_promise_cancel(source, &pk_status_no_memory);
        pk_promise_consumed(source);
        return false;
    }
    bridge->references++; /* the bridge step's */
    bridge->state = PK_PROMISE_FORWARDED;
    bridge->source = source;
    return true;
}

pk_promise *pk_bridge_to(pk_scope *scope, pk_promise *source)
{
    pk_promise *bridge = make(scope, PK_PROMISE_OPEN, 1);
    if (!bridge) {
        pk_promise_cancel(source, &pk_status_no_memory);
        pk_promise_consumed(source);
        return NULL;
    }
    bridge->pending.next = bridge->pending.previous = &bridge->pending;
    if (!wait_for(bridge, source)) {
        bridge->state = PK_PROMISE_SETTLED;
        pk_promise_consumed(bridge);
        return NULL;
    }
    enter(bridge);
    return bridge;
}

/*
 * A step returned the pending future of `target`. In the same scope, and with this promise's own
 * future used up, the steps left over move there and this promise is through. Otherwise it waits.
 */
static void forward(pk_promise *promise, pk_promise *target)
{
    pk_promise *bridge = bridge_of(promise);
    if (target->scope != promise->scope || (promise->consumer && !bridge)) {
        if (wait_for(promise, target))
            enter(promise);
        else
            settle(promise, pk_failed_with(&pk_status_no_memory));
        return;
    }
    if (promise->steps) {
        *target->last_step = promise->steps;
        target->last_step = promise->last_step;
        promise->steps = NULL;
        promise->last_step = &promise->steps;
    }
    if (promise->held) {
        *target->last_held = promise->held;
        target->last_held = promise->last_held;
        promise->held = NULL;
    }
    promise->state = PK_PROMISE_SETTLED;
    if (bridge) {
        /* The bridge holds the target's future instead of this one's. */
        bridge->source = target;
        pk_promise_consumed(promise);
    } else {
        pk_promise_consumed(target); /* the steps that moved there need no future */
        let_go(promise);
    }
}

static void run_ready(pk_ready *ready)
{
    pk_promise *promise = (pk_promise *) ((char *) ready - offsetof(pk_promise, ready));
    pk_scope_remove(&promise->pending);
    promise->state = PK_PROMISE_RUNNING;
    pk_future outcome = promise->outcome;
    while (promise->steps) {
        outcome = pk_step_apply(take_step(promise), outcome);
        if (outcome.state != PK_FUTURE_PENDING)
            continue;
        pk_promise *target = pk_promise_use(outcome);
        if (target->state != PK_PROMISE_SETTLED) {
            forward(promise, target);
            pk_promise_unref(promise);
            return;
        }
        /* It settled while its future was kept. */
        outcome = target->outcome;
        pk_promise_consumed(target);
    }
    promise->outcome = outcome;
    promise->state = PK_PROMISE_SETTLED;
    if (!promise->consumer)
        let_go(promise);
    pk_promise_unref(promise);
}
