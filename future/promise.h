/*
 * The inside of a promise: what a pending future points to.
 *
 * A promise keeps the steps hung on its future as a list. When it settles it goes to the loop's
 * ready queue and runs them in turn; a step that returns another pending future hands the steps
 * left over to that one's promise and this one is gone, so that a long stream leaves no promise
 * behind per message.
 *
 * References: one for the producer (pk_promise_new's caller), one for the consumer (whoever holds
 * the future), one while it is queued. A future used at its end (awaited, bridged) has a *last*
 * step, which is always the tail of the list.
 *
 * Steps run in the scope they were hung up in. A future of another scope is therefore *bridged*: a
 * promise in the current scope stands for it, so that cancelling that scope resolves it, and no
 * step outlives its scope. Futures used in the loop's own scope need no bridge: it never ends.
 */
#ifndef PEKOE_FUTURE_PROMISE_H
#define PEKOE_FUTURE_PROMISE_H

#include "core/loop.h"

#include <assert.h>

/* Receives the outcome of an awaited future: done or failed, never pending. */
typedef void pk_awaiter(pk_future outcome, void *arg);

typedef enum pk_step_kind {
    PK_STEP_THEN,
    PK_STEP_RECOVER,
    PK_STEP_FINALLY,
    PK_STEP_AWAIT,  /* last: hands the outcome to an awaiter */
    PK_STEP_BRIDGE, /* last: settles the promise `arg` */
} pk_step_kind;

struct pk_hung_step {
    struct pk_hung_step *next;
    pk_step_kind kind;
    union {
        pk_step *then;
        pk_recovery *recover;
        void (*finally)(void *arg);
        pk_awaiter *await;
    } fn;
    void *arg;
};

typedef enum pk_promise_state {
    PK_PROMISE_OPEN,      /* waits for the producer */
    PK_PROMISE_FORWARDED, /* waits for `source`, whose last step settles this promise */
    PK_PROMISE_QUEUED,    /* settled, in the ready queue */
    PK_PROMISE_RUNNING,   /* its steps run */
    PK_PROMISE_SETTLED,   /* no step is left and none will come but from the consumer */
} pk_promise_state;

struct pk_promise {
    pk_pending pending; /* in the scope's ring while open, forwarded or queued */
    pk_ready ready;
    pk_scope *scope;
    pk_memory *memory; /* where this struct and its steps come from; outlives the scope */
    struct pk_hung_step *steps;
    struct pk_hung_step **last_step; /* where the next one is hung */
    pk_future outcome;               /* once settled */
    struct pk_promise *source;       /* while forwarded; this holds its consumer's reference */
    struct pk_promise *held;         /* settled ones of other scopes, one for each scope, whose
                                        values this one's steps may see; kept until it is through */
    struct pk_promise **last_held;
    struct pk_promise *next_held; /* in the list of the promise that holds this one */
    void (*abandon)(void *arg);   /* see pk_promise_on_abandon */
    void *abandon_arg;
    uint32_t generation;
    uint16_t references;
    uint8_t state; /* pk_promise_state */
    bool consumer; /* somebody holds the future, or a bridge holds this for its consumer */
    bool pinned;   /* holds a pin of its scope */
    bool unwanted; /* a combinator gave up on its outcome: what its steps start is cancelled too */
    bool token;    /* waits for its scope to be cancelled: done then, failed where that completes */
#ifndef NDEBUG
    struct pk_promise *all_next;   /* in the loop's list of all promises */
    struct pk_promise **all_place; /* what points to this one there; NULL: not in the list */
    const char *label;             /* its scope's */
#endif
};

/*
 * Calls awaiter(outcome, arg) once: now where the future has settled, else later on the loop's
 * stack, with CANCELLED or the scope's status at the latest when `scope` is cancelled. Consumes it.
 */
void pk_await(pk_scope *scope, pk_future future, pk_awaiter *awaiter, void *arg);

/*
 * The pending future again, as a promise of `scope`: it can be cancelled alone. The caller gets its
 * future by pk_promise_future, and borrows the pointer until then or takes a reference. NULL when
 * memory ran out; the future is cancelled then.
 */
pk_promise *pk_bridge(pk_scope *scope, pk_future future);

/*
 * Resolves a promise from the consumer's side with `status`. What it stands for is resolved first,
 * with CANCELLED, and so is what the steps of that start later on.
 */
void pk_promise_cancel(pk_promise *promise, const pk_status *status);

/* The same where it is the end of a call: what it stands for hears of `status` too. */
void pk_promise_end(pk_promise *promise, const pk_status *status);

/* Cancels and consumes a future that nobody will look at; what is not pending is dropped. */
void pk_promise_drop(pk_future future, const pk_status *status);

/*
 * `promise` keeps what `source`, whose consumer's reference it takes, has kept, and its scope where
 * that is another one: the outcome of `source` stays readable until `promise` is through.
 */
void pk_promise_hold(pk_promise *promise, pk_promise *source);

/* The same for what `source` keeps, while somebody else goes on holding `source`. */
void pk_promise_take_held(pk_promise *promise, pk_promise *source);

/*
 * Makes a promise of pk_promise_new that is through, and of which the caller has the one reference,
 * a new one, as if it had been dropped and made again. False: it is not so, and nothing has changed.
 */
PK_NODISCARD bool pk_promise_renew(pk_promise *promise);

/* Another reference; pk_promise_unref drops one. */
static inline pk_promise *pk_promise_ref(pk_promise *promise)
{
    promise->references++;
    return promise;
}

void pk_promise_free(pk_promise *promise); /* nobody has a reference */

static inline void pk_promise_unref(pk_promise *promise)
{
    assert(promise->references > 0);
    if (--promise->references == 0)
        pk_promise_free(promise);
}

/* Whether the outcome is still unknown. */
static inline bool pk_promise_waits(const pk_promise *promise)
{
    return promise->state == PK_PROMISE_OPEN || promise->state == PK_PROMISE_FORWARDED;
}

/* ---- For future.c ---- */

/* The promise of a pending future, which is thereby used; debug builds see a second use. */
pk_promise *pk_promise_use(pk_future future);

/* The future was used at its end: no further step will be hung. Drops the consumer's reference. */
void pk_promise_consumed(pk_promise *promise);

/* Adds a step; false without memory. */
PK_NODISCARD static inline bool pk_promise_hang(pk_promise *promise,
                                                const struct pk_hung_step *step)
{
    struct pk_hung_step *hung = pk_memory_get(promise->memory, sizeof *hung);
    if (PK_UNLIKELY(!hung))
        return false;
    /* By its members: a copy of the whole would be read before the processor has it together. */
    hung->next = NULL;
    hung->kind = step->kind;
    hung->fn = step->fn;
    hung->arg = step->arg;
    *promise->last_step = hung;
    promise->last_step = &hung->next;
    return true;
}

/* Hangs a clean-up before all later steps of a promise that still has its future. */
PK_NODISCARD static inline bool pk_promise_finally(pk_promise *promise, void (*cleanup)(void *arg),
                                                   void *arg)
{
    const struct pk_hung_step step = {.kind = PK_STEP_FINALLY, .fn.finally = cleanup, .arg = arg};
    return pk_promise_hang(promise, &step);
}

/* A promise that is settled already and has one step, in the ready queue; NULL without memory. */
pk_promise *pk_promise_settled_new(pk_scope *scope, pk_future outcome,
                                   const struct pk_hung_step *step);

/*
 * A promise of `scope` that stands for `source`, whose consumer it becomes; `source` may have
 * settled. NULL: see pk_bridge.
 */
pk_promise *pk_bridge_to(pk_scope *scope, pk_promise *source);

/* What a step makes of an outcome; a bridge step is run_ready's own. */
static inline pk_future pk_step_apply(const struct pk_hung_step *step, pk_future outcome)
{
    switch (step->kind) {
    case PK_STEP_THEN:
        return outcome.state == PK_FUTURE_DONE ? step->fn.then(outcome.pointer, step->arg)
                                               : outcome;
    case PK_STEP_RECOVER:
        return outcome.state == PK_FUTURE_FAILED ? step->fn.recover(outcome.pointer, step->arg)
                                                 : outcome;
    case PK_STEP_FINALLY:
        step->fn.finally(step->arg);
        return outcome;
    case PK_STEP_AWAIT:
        step->fn.await(outcome, step->arg);
        return outcome;
    case PK_STEP_BRIDGE:
        break;
    }
    __builtin_unreachable();
}

/* RESOURCE_EXHAUSTED, static: what comes back when memory runs out. */
extern const pk_status pk_status_no_memory;

#endif
