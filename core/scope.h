/*
 * A scope: an arena and the list of what is pending in it. Calls, readers and the loop own one.
 *
 * Futures and promises hang on a scope and know nothing of calls. Cancelling a scope is the one way
 * in which work ends early: each pending entry is settled with a status, and its queued steps run
 * with that status. The scope sees its loop through a table of two functions, so that it can be
 * tested without one.
 */
#ifndef PEKOE_CORE_SCOPE_H
#define PEKOE_CORE_SCOPE_H

#include <pekoe/future.h>

#include "core/arena.h"

/* One entry of the loop's ready queue; embedded in what it runs. */
typedef struct pk_ready {
    struct pk_ready *next;
    void (*run)(struct pk_ready *ready);
    pk_scope *scope; /* becomes current while it runs */
} pk_ready;

typedef struct pk_scope_host {
    /* Appends to the ready queue, which is drained in order before the turn's write. */
    void (*ready)(void *loop, pk_ready *entry);
    /* The loop's memory, for what must outlive the scope's arena. */
    pk_memory *(*memory)(void *loop);
} pk_scope_host;

/* What is pending in a scope; embedded in a promise. */
typedef struct pk_pending {
    struct pk_pending *next, *previous; /* in the scope's ring */
    void (*cancel)(struct pk_pending *pending, const pk_status *status);
} pk_pending;

struct pk_scope {
    pk_arena arena;
    pk_pending pending; /* head of the ring */
    const pk_scope_host *host;
    void *loop;                 /* what the host's functions take: a pk_loop */
    const pk_status *cancelled; /* set once the scope was cancelled; new promises fail with it */
    bool lasting;               /* the loop's own: its steps need no bridge (see promise.h) */
    bool completed; /* set before its end where that is no cancel; see pk_promise.token */
    unsigned pins;  /* who still needs the memory: live promises, worker threads */
    void (*on_released)(pk_scope *scope); /* runs once, when no pin is left; see release and end */
    const char *label; /* for reports: the method of the call; static; NULL for none */
};

/* What runs right now on this thread. */
struct pk_current {
    pk_scope *scope; /* borrowed; NULL outside of any loop */
    uint32_t depth;  /* nested inline steps, each PK_INLINE_STEP: its top bit says "too deep" */
};
extern __thread struct pk_current pk_current __attribute__((tls_model("initial-exec")));

#define PK_INLINE_DEPTH_MAX 32u
#define PK_INLINE_STEP ((1u << 31) / (PK_INLINE_DEPTH_MAX + 1) + 1)

/* Whether so many inline steps are nested that no further one may be. */
static inline bool pk_too_deep(void)
{
    return pk_current.depth + PK_INLINE_STEP >= 1u << 31;
}

void pk_scope_init(pk_scope *scope, pk_memory *memory, const pk_scope_host *host, void *loop,
                   size_t first_block);

/* The same over an arena that is there already: scope->arena. */
void pk_scope_start(pk_scope *scope, const pk_scope_host *host, void *loop);

static inline void pk_scope_add(pk_scope *scope, pk_pending *pending)
{
    pending->previous = scope->pending.previous;
    pending->next = &scope->pending;
    pending->previous->next = pending;
    scope->pending.previous = pending;
}

/* Does nothing to what is in no ring. */
static inline void pk_scope_remove(pk_pending *pending)
{
    pending->previous->next = pending->next;
    pending->next->previous = pending->previous;
    pending->next = pending->previous = pending;
}

/*
 * Settles all that is pending with `status` (borrowed until the scope has ended). What becomes
 * pending afterwards fails with it at once. A second call does nothing.
 */
void pk_scope_cancel(pk_scope *scope, const pk_status *status);

static inline void pk_scope_pin(pk_scope *scope)
{
    scope->pins++;
}
void pk_scope_unpin(pk_scope *scope);

/*
 * The owner is through with the scope: on_released runs as soon as no pin is left, perhaps before
 * this returns. It gives the arena back with pk_arena_done; nothing may touch the scope after it.
 */
void pk_scope_release(pk_scope *scope, void (*on_released)(pk_scope *scope));

/* The same, after cancelling what is left (status CANCELLED). */
void pk_scope_end(pk_scope *scope, void (*on_released)(pk_scope *scope));

#endif
