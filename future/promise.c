/* Promises: their life, settling, running of steps, forwarding, cancelling. See promise.h. */
#include "future/promise.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

const pk_status pk_status_no_memory = {
    .code = PK_RESOURCE_EXHAUSTED,
    .message = {(const uint8_t *) "out of memory", 13},
};

/* What a future hears when its consumer has given up on it. */
static const pk_status not_wanted = {
    .code = PK_CANCELLED,
    .message = {(const uint8_t *) "nobody waits for the outcome any more", 37},
};

static const pk_status own_future = {
    .code = PK_INTERNAL,
    .message = {(const uint8_t *) "a step returned the future that it belongs to", 45},
};

static void cancel_pending(pk_pending *pending, const pk_status *status);
static void run_ready(pk_ready *ready);

/* ---- The list of all promises, in debug builds: for the reports at the loop's end ---- */

#ifndef NDEBUG
static __thread uint32_t next_generation;

static void report_left(pk_loop *loop)
{
    while (loop->promises) {
        pk_promise *promise = loop->promises;
        pk_log(loop, PK_LOG_WARNING,
               promise->consumer
                   ? "a future was dropped: neither used, returned nor detached (%s)"
                   : "a promise was neither completed nor abandoned by its producer (%s)",
               promise->label ? promise->label : "outside of any call");
        loop->promises = promise->all_next;
        pk_memory_put(promise->memory, promise, sizeof *promise);
    }
}

static void track(pk_promise *promise)
{
    promise->all_place = NULL;
    promise->label = promise->scope->label;
    if (promise->scope->host != &pk_loop_host)
        return;
    pk_loop *loop = promise->scope->loop;
    loop->report_promises = report_left;
    promise->all_place = &loop->promises;
    promise->all_next = loop->promises;
    if (loop->promises)
        loop->promises->all_place = &promise->all_next;
    loop->promises = promise;
}

static void untrack(pk_promise *promise)
{
    if (!promise->all_place)
        return;
    *promise->all_place = promise->all_next;
    if (promise->all_next)
        promise->all_next->all_place = promise->all_place;
}
#else
static inline void track(pk_promise *promise)
{
}

static inline void untrack(pk_promise *promise)
{
}
#endif

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
    track(promise);
    return promise;
}

void pk_promise_free(pk_promise *promise)
{
    assert(!promise->steps && !promise->pinned && !promise->held);
    untrack(promise);
    pk_memory_put(promise->memory, promise, sizeof *promise);
}

static void unpin(pk_promise *promise)
{
    if (!promise->pinned)
        return;
    promise->pinned = false;
    pk_scope_unpin(promise->scope);
}

/*
 * Through: no step is left and no consumer will come. What it kept of other scopes goes, and so
 * does its hold on its own scope, although the producer may still have a reference. A loop, since
 * what is held may hold others without bound.
 */
static void let_go(pk_promise *promise)
{
    pk_promise *held = pk_steal(&promise->held);
    pk_promise **last = promise->last_held;
    promise->last_held = &promise->held;
    while (held) {
        pk_promise *source = held;
        source->consumer = false;
        if (source->state == PK_PROMISE_SETTLED) {
            if (source->held) {
                *last = pk_steal(&source->held);
                last = source->last_held;
            }
            unpin(source);
        }
        held = source->next_held;
        pk_promise_unref(source);
    }
    unpin(promise);
}

void pk_promise_consumed(pk_promise *promise)
{
    assert(promise->consumer);
    promise->consumer = false;
    if (promise->state == PK_PROMISE_SETTLED)
        let_go(promise);
    pk_promise_unref(promise);
}

/* Whether one that is held pins this scope already. Looks at a few: most chains know two scopes. */
static bool holds_scope(const pk_promise *promise, const pk_scope *scope)
{
    unsigned looked_at = 0;
    for (const pk_promise *held = promise->held; held && looked_at < 16; held = held->next_held) {
        if (held->scope == scope)
            return true;
        looked_at++;
    }
    return false;
}

static void hold_one(pk_promise *promise, pk_promise *source)
{
    if (source->scope == promise->scope || holds_scope(promise, source->scope)) {
        pk_promise_consumed(source);
        return;
    }
    source->next_held = NULL;
    *promise->last_held = source;
    promise->last_held = &source->next_held;
}

void pk_promise_take_held(pk_promise *promise, pk_promise *source)
{
    if (!source->held)
        return;
    /* The list that moves may be long (it is kept whole); what was there is short. */
    pk_promise *before = promise->held;
    promise->held = pk_steal(&source->held);
    promise->last_held = source->last_held;
    source->last_held = &source->held;
    while (before) {
        pk_promise *next = before->next_held;
        hold_one(promise, before);
        before = next;
    }
}

void pk_promise_hold(pk_promise *promise, pk_promise *source)
{
    pk_promise_take_held(promise, source);
    hold_one(promise, source);
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

bool pk_promise_renew(pk_promise *promise)
{
    if (PK_UNLIKELY(promise->references != 1 || promise->state != PK_PROMISE_SETTLED))
        return false;
    assert(!promise->steps && !promise->pinned && !promise->consumer && !promise->token);
    promise->state = PK_PROMISE_OPEN;
    promise->references = 2;
    promise->consumer = promise->pinned = true;
    promise->unwanted = false;
    pk_scope_pin(promise->scope);
    enter(promise);
    return true;
}

/* Every use gives the future a new number: a debug build sees one that is used again. */
static inline void renew_generation(pk_promise *promise)
{
#ifndef NDEBUG
    promise->generation = ++next_generation;
#endif
}

pk_future pk_promise_future(pk_promise *promise)
{
    if (!promise)
        return pk_failed_with(&pk_status_no_memory);
    renew_generation(promise);
    return (pk_future){PK_FUTURE_PENDING, promise->generation, promise};
}

pk_promise *pk_promise_use(pk_future future)
{
    pk_promise *promise = (pk_promise *) (uintptr_t) future.pointer;
    assert(promise->generation == future.generation && "a future was used twice");
    renew_generation(promise);
    return promise;
}

/* ---- Settling ---- */

/* Takes the outcome and goes to the ready queue, in the ring still: a cancel may come before. */
static void settle(pk_promise *promise, pk_future outcome)
{
    assert(promise->scope->host != &pk_loop_host || (pk_assert_owner(promise->scope->loop), true));
    promise->outcome = outcome;
    promise->state = PK_PROMISE_QUEUED;
    promise->references++;
    pk_scope_ready(promise->scope, &promise->ready);
}

/* The producer, if there is one, is told and let go; a bridge lets go of what it stands for. */
static void give_up(pk_promise *promise, pk_future outcome)
{
    if (promise->state == PK_PROMISE_QUEUED) {
        promise->outcome = outcome;
        return;
    }
    void (*abandon)(void *arg) = promise->abandon;
    promise->abandon = NULL;
    pk_promise *source = pk_steal(&promise->source);
    settle(promise, outcome);
    if (source)
        pk_promise_consumed(source); /* its bridge step finds that it is not waited for */
    if (abandon) {
        abandon(promise->abandon_arg);
        pk_promise_unref(promise);
    }
}

/* The scope gives up. */
static void cancel_pending(pk_pending *pending, const pk_status *status)
{
    pk_promise *promise = (pk_promise *) ((char *) pending - offsetof(pk_promise, pending));
    bool awaited = promise->token && !promise->scope->completed && pk_promise_waits(promise);
    give_up(promise, awaited ? pk_done(NULL) : pk_failed_with(status));
}

pk_promise *pk_promise_settled_new(pk_scope *scope, pk_future outcome,
                                   const struct pk_hung_step *step)
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

/* The promise that waits for this one; NULL where there is none, or it waits no longer. */
static pk_promise *waiting_for(pk_promise *promise)
{
    if (!promise->steps)
        return NULL;
    struct pk_hung_step *last =
        (struct pk_hung_step *) ((char *) promise->last_step - offsetof(struct pk_hung_step, next));
    if (last->kind != PK_STEP_BRIDGE)
        return NULL;
    pk_promise *bridge = last->arg;
    return bridge->source == promise ? bridge : NULL;
}

/* `source_status` is for what it stands for. */
static void cancel_with(pk_promise *promise, const pk_status *status,
                        const pk_status *source_status)
{
    /* What it stands for goes first. A loop, since bridges may be stacked without bound. */
    pk_promise *next = promise;
    while (next->state == PK_PROMISE_FORWARDED)
        next = next->source;
    while (next && next != promise) {
        pk_promise *outer = waiting_for(next);
        next->unwanted = true;
        if (next->state != PK_PROMISE_RUNNING) {
            pk_scope_remove(&next->pending);
            give_up(next, pk_failed_with(source_status));
        }
        next = outer;
    }
    if (pk_promise_waits(promise)) {
        pk_scope_remove(&promise->pending);
        give_up(promise, pk_failed_with(status));
    }
}

void pk_promise_cancel(pk_promise *promise, const pk_status *status)
{
    cancel_with(promise, status, &not_wanted);
}

void pk_promise_end(pk_promise *promise, const pk_status *status)
{
    cancel_with(promise, status, status);
}

void pk_promise_drop(pk_future future, const pk_status *status)
{
    if (future.state != PK_FUTURE_PENDING)
        return;
    pk_promise *promise = pk_promise_use(future);
    promise->unwanted = true;
    pk_promise_cancel(promise, status);
    pk_promise_consumed(promise);
}

/* ---- Steps ---- */

static inline struct pk_hung_step take_step(pk_promise *promise)
{
    struct pk_hung_step *first = promise->steps, step = *first;
    promise->steps = first->next;
    if (!promise->steps)
        promise->last_step = &promise->steps;
    pk_memory_put(promise->memory, first, sizeof *first);
    return step;
}

/* A source has its outcome. The bridge may have been resolved meanwhile; the step's reference goes. */
static void bridge_arrived(pk_promise *bridge, pk_promise *source, pk_future outcome)
{
    if (bridge->source == source) {
        bridge->source = NULL;
        pk_promise_hold(bridge, source);
        settle(bridge, outcome);
    }
    pk_promise_unref(bridge);
}

/*
 * Makes `bridge` wait for `source`, whose consumer's reference it takes. False: no memory, then
 * the source was cancelled and let go.
 */
static bool wait_for(pk_promise *bridge, pk_promise *source)
{
    struct pk_hung_step step = {.kind = PK_STEP_BRIDGE, .arg = bridge};
    if (!pk_promise_hang(source, &step)) {
        source->unwanted = true;
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
        source->unwanted = true;
        pk_promise_cancel(source, &pk_status_no_memory);
        pk_promise_consumed(source);
        return NULL;
    }
    if (source->state == PK_PROMISE_SETTLED) {
        pk_future outcome = source->outcome;
        pk_promise_hold(bridge, source);
        settle(bridge, outcome);
    } else if (!wait_for(bridge, source)) {
        bridge->state = PK_PROMISE_SETTLED;
        pk_promise_consumed(bridge);
        return NULL;
    }
    enter(bridge);
    return bridge;
}

/* The steps that are left go behind those of `target`. */
static inline void move_steps(pk_promise *promise, pk_promise *target)
{
    if (!promise->steps)
        return;
    *target->last_step = promise->steps;
    target->last_step = promise->last_step;
    promise->steps = NULL;
    promise->last_step = &promise->steps;
}

/*
 * A step returned the pending future of `target`. In the same scope, and with this promise's own
 * future used up, the steps left over move there and this promise is through. Otherwise it waits.
 */
static void forward(pk_promise *promise, pk_promise *target)
{
    if (promise->unwanted) {
        target->unwanted = true;
        pk_promise_cancel(target, &not_wanted);
    }
    pk_promise *bridge = waiting_for(promise);
    if (target->scope != promise->scope || (promise->consumer && !bridge)) {
        if (!wait_for(promise, target))
            settle(promise, pk_failed_with(&pk_status_no_memory));
        enter(promise);
        return;
    }
    move_steps(promise, target);
    pk_promise_take_held(target, promise);
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

/* The same, where nothing but steps and references has to change: a stream that is read on. */
static inline bool forward_plainly(pk_promise *promise, pk_promise *target)
{
    if (PK_UNLIKELY(promise->unwanted || promise->consumer || promise->held ||
                    target->state != PK_PROMISE_OPEN || target->scope != promise->scope))
        return false;
    move_steps(promise, target);
    target->consumer = false;
    target->references--;
    promise->state = PK_PROMISE_SETTLED;
    unpin(promise);
    return true;
}

static void run_ready(pk_ready *ready)
{
    pk_promise *promise = (pk_promise *) ((char *) ready - offsetof(pk_promise, ready));
    pk_scope_remove(&promise->pending);
    promise->state = PK_PROMISE_RUNNING;
    pk_future outcome = promise->outcome;
    while (promise->steps) {
        struct pk_hung_step step = take_step(promise);
        if (step.kind == PK_STEP_BRIDGE) {
            bridge_arrived(step.arg, promise, outcome);
            continue;
        }
        outcome = PK_LIKELY(step.kind == PK_STEP_THEN && outcome.state == PK_FUTURE_DONE)
                      ? step.fn.then(outcome.pointer, step.arg)
                      : pk_step_apply(&step, outcome);
        if (outcome.state != PK_FUTURE_PENDING)
            continue;
        pk_promise *target = pk_promise_use(outcome);
        if (PK_UNLIKELY(target == promise)) {
            assert(promise != target && "a step returned the future that it belongs to");
            promise->consumer = false;
            promise->references--; /* the consumer's; the queue's is left */
            outcome = pk_failed_with(&own_future);
        } else if (target->state != PK_PROMISE_SETTLED) {
            if (PK_UNLIKELY(!forward_plainly(promise, target)))
                forward(promise, target);
            pk_promise_unref(promise);
            return;
        } else {
            /* It settled while its future was kept. */
            outcome = target->outcome;
            pk_promise_hold(promise, target);
        }
    }
    promise->outcome = outcome;
    promise->state = PK_PROMISE_SETTLED;
    if (!promise->consumer)
        let_go(promise);
    pk_promise_unref(promise);
}
