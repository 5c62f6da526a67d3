/*
 * Futures: the inline continuation, the hung-up one, forwarding and bridging.
 *
 * pk_then on a done future is the fast path that all of pekoe is built around: a depth test and the
 * call of the step. Everything else here and in promise.c serves the pending case.
 */
#include "future/promise.h"

#include <assert.h>

static pk_future no_memory(void)
{
    return pk_failed_with(&pk_status_no_memory);
}

#define then_step(step, arg_) \
    ((const struct pk_hung_step){.kind = PK_STEP_THEN, .fn.then = (step), .arg = (arg_)})
#define recover_step(step, arg_) \
    ((const struct pk_hung_step){.kind = PK_STEP_RECOVER, .fn.recover = (step), .arg = (arg_)})

/* The same as a settled promise would do it, at once. */
static pk_future apply_now(pk_future outcome, const struct pk_hung_step *step)
{
    pk_current.depth += PK_INLINE_STEP;
    pk_future next = pk_step_apply(step, outcome);
    pk_current.depth -= PK_INLINE_STEP;
    return next;
}

/* The inline depth is used up: the step goes to the ready queue. */
static __attribute__((noinline)) pk_future defer(pk_future outcome, const struct pk_hung_step *step)
{
    pk_scope *scope = pk_current.scope;
    if (!scope)
        return apply_now(outcome, step); /* outside of any loop there is no queue */
    pk_promise *promise = pk_promise_settled_new(scope, outcome, step);
    return promise ? pk_promise_future(promise) : no_memory();
}

/*
 * Hangs a step on a pending future. False: there was no memory, or its scope has run out of it
 * before, the step will not run and the future was cancelled.
 */
static __attribute__((noinline)) bool hang(pk_future future, const struct pk_hung_step *step,
                                           pk_future *ret_next)
{
    pk_promise *promise = pk_promise_use(future);
    pk_scope *scope = pk_current.scope;
    bool settled = promise->state == PK_PROMISE_SETTLED; /* while its future was kept */
    if (settled && scope == promise->scope && !promise->held && !pk_too_deep()) {
        *ret_next = apply_now(promise->outcome, step);
        pk_promise_consumed(promise);
        return true;
    }
    if (!scope || scope->lasting)
        scope = promise->scope;
    if (PK_UNLIKELY(scope->arena.exhausted && !scope->lasting)) {
        pk_promise_drop(pk_promise_future(promise), &pk_status_no_memory);
        return false; /* the step would come back to scratch */
    }
    if (settled || scope != promise->scope) {
        promise = pk_bridge_to(scope, promise);
        if (!promise)
            return false;
    }
    if (!pk_promise_hang(promise, step)) {
        pk_promise_drop(pk_promise_future(promise), &pk_status_no_memory);
        return false;
    }
    *ret_next = pk_promise_future(promise);
    return true;
}

static __attribute__((noinline)) pk_future hang_or_fail(pk_future future,
                                                        const struct pk_hung_step *step)
{
    pk_future next;
    return hang(future, step, &next) ? next : no_memory();
}

/* What pk_then does with a pending future that is not of the current scope, or has settled. */
static __attribute__((noinline)) pk_future then_elsewhere(pk_future future, pk_step *step,
                                                          void *arg)
{
    return hang_or_fail(future, &then_step(step, arg));
}

static __attribute__((noinline)) pk_future then_deferred(pk_future future, pk_step *step, void *arg)
{
    pk_current.depth -= PK_INLINE_STEP;
    return defer(future, &then_step(step, arg));
}

/* Everything but the fast path, out of its way: it needs no stack frame then. */
static __attribute__((noinline)) pk_future then_slowly(pk_future future, pk_step *step, void *arg)
{
    if (future.state == PK_FUTURE_FAILED)
        return future;
    if (PK_UNLIKELY(future.state == PK_FUTURE_DONE))
        return then_deferred(future, step, arg);
    const pk_promise *pending = future.pointer;
    const pk_scope *scope = pk_current.scope;
    if (PK_UNLIKELY(pending->scope != scope || !pk_promise_waits(pending) ||
                    scope->arena.exhausted))
        return then_elsewhere(future, step, arg);
    pk_promise *promise = pk_promise_use(future);
    if (PK_LIKELY(pk_promise_hang(promise, &then_step(step, arg))))
        return pk_promise_future(promise);
    pk_promise_drop(pk_promise_future(promise), &pk_status_no_memory);
    return no_memory();
}

/* 13 instructions beyond the step's own where the value is there: docs/futures.md. */
pk_future pk_then(pk_future future, pk_step *step, void *arg)
{
    if (PK_UNLIKELY(future.state != PK_FUTURE_DONE))
        return then_slowly(future, step, arg);
    pk_current.depth += PK_INLINE_STEP;
    if (PK_UNLIKELY((int32_t) pk_current.depth < 0))
        return then_slowly(future, step, arg);
    pk_future next = step(future.pointer, arg);
    pk_current.depth -= PK_INLINE_STEP;
    return next;
}

pk_future pk_recover(pk_future future, pk_recovery *recovery, void *arg)
{
    if (PK_LIKELY(future.state == PK_FUTURE_DONE))
        return future;
    if (PK_UNLIKELY(future.state == PK_FUTURE_PENDING))
        return hang_or_fail(future, &recover_step(recovery, arg));
    if (PK_UNLIKELY(pk_too_deep()))
        return defer(future, &recover_step(recovery, arg));
    pk_current.depth += PK_INLINE_STEP;
    pk_future next = recovery(future.pointer, arg);
    pk_current.depth -= PK_INLINE_STEP;
    return next;
}

pk_future pk_finally(pk_future future, void (*cleanup)(void *arg), void *arg)
{
    if (future.state != PK_FUTURE_PENDING) {
        cleanup(arg);
        return future;
    }
    const struct pk_hung_step step = {.kind = PK_STEP_FINALLY, .fn.finally = cleanup, .arg = arg};
    pk_future next;
    if (hang(future, &step, &next))
        return next;
    cleanup(arg); /* it could not be hung up, and must run */
    return no_memory();
}

pk_promise *pk_bridge(pk_scope *scope, pk_future future)
{
    return pk_bridge_to(scope, pk_promise_use(future));
}

void pk_await(pk_scope *scope, pk_future future, pk_awaiter *awaiter, void *arg)
{
    if (PK_LIKELY(future.state != PK_FUTURE_PENDING)) {
        awaiter(future, arg);
        return;
    }
    pk_promise *promise = pk_promise_use(future);
    if (promise->state == PK_PROMISE_SETTLED) {
        awaiter(promise->outcome, arg);
        pk_promise_consumed(promise);
        return;
    }
    if (promise->scope != scope) {
        promise = pk_bridge_to(scope, promise);
        if (!promise) {
            awaiter(no_memory(), arg);
            return;
        }
    }
    struct pk_hung_step step = {.kind = PK_STEP_AWAIT, .fn.await = awaiter, .arg = arg};
    bool hung = pk_promise_hang(promise, &step);
    if (hung) {
        pk_promise_consumed(promise);
        return;
    }
    pk_promise_drop(pk_promise_future(promise), &pk_status_no_memory);
    awaiter(no_memory(), arg);
}

static void log_dropped(pk_future outcome, void *arg)
{
    if (outcome.state != PK_FUTURE_FAILED)
        return;
    const pk_status *status = outcome.pointer;
    pk_log(arg, PK_LOG_DEBUG, "a detached future failed: %s: %.*s", pk_code_name(status->code),
           (int) status->message.length, (const char *) status->message.bytes);
}

void pk_detach(pk_future future)
{
    if (future.state == PK_FUTURE_PENDING) {
        pk_scope *scope = ((const pk_promise *) future.pointer)->scope;
        pk_await(scope, future, log_dropped, scope->loop);
    } else if (pk_current.scope) {
        log_dropped(future, pk_current.scope->loop);
    }
}
