/*
 * Futures: a value that is there, a failure, or a promise that will settle later.
 *
 * A pk_future is 16 bytes and travels by value in two registers. Where the value is already there,
 * pk_then calls the continuation at once, on the same stack, without an allocation; where it is
 * not, the continuation is kept in the promise and runs later on the loop's stack. Rules:
 *
 * - A future is used exactly once: returned, or given to one of the functions below.
 * - Nothing after a pk_then may depend on whether its step already ran. Handlers and steps say
 *   `return pk_then(...)`.
 * - Inline steps nest at most 32 deep; beyond that a step goes to the loop's ready queue, which is
 *   drained in order before the turn's write. A chain of any length runs in constant stack.
 * - Values are borrowed pointers. What they point to (in the call, static, the program's own) must
 *   live until the chain has consumed them.
 * - When memory runs out, a failed future with RESOURCE_EXHAUSTED comes back; so it does from a
 *   step on a pending future in a call whose memory has run out before.
 */
#ifndef PEKOE_FUTURE_H
#define PEKOE_FUTURE_H

#include <pekoe/status.h>

PK_BEGIN_DECLS

typedef struct pk_scope pk_scope;
typedef struct pk_promise pk_promise;

typedef enum pk_future_state {
    PK_FUTURE_DONE = 0,
    PK_FUTURE_FAILED = 1,
    PK_FUTURE_PENDING = 2,
} pk_future_state;

typedef struct pk_future {
    uint32_t state;      /* pk_future_state */
    uint32_t generation; /* of the promise, where pending: debug builds see a second use */
    const void *pointer; /* the value, the pk_status, or the pk_promise */
} pk_future;

typedef pk_future pk_step(const void *value, void *arg);
typedef pk_future pk_recovery(const pk_status *status, void *arg);

/* A future that is done. `value` is borrowed; NULL is a value too. */
PK_NODISCARD static inline pk_future pk_done(const void *value)
{
    pk_future future = {PK_FUTURE_DONE, 0, value};
    return future;
}

/* A failed future; `status` is borrowed as a value is. Its code must not be PK_OK. */
PK_NODISCARD static inline pk_future pk_failed_with(const pk_status *status)
{
    pk_future future = {PK_FUTURE_FAILED, 0, status};
    return future;
}

/* A failed future whose status is printed into the scope's arena. */
PK_API PK_NODISCARD pk_future pk_scope_failed(pk_scope *scope, pk_code code, const char *format,
                                              ...) PK_PRINTF(3, 4);

/* step(value) once the future is done; a failure passes by. */
PK_API PK_NODISCARD pk_future pk_then(pk_future future, pk_step *step, void *arg);

/* recovery(status) once the future has failed; a value passes by. */
PK_API PK_NODISCARD pk_future pk_recover(pk_future future, pk_recovery *recovery, void *arg);

/* cleanup(arg) once the future has settled, either way; the outcome passes by unchanged. */
PK_API PK_NODISCARD pk_future pk_finally(pk_future future, void (*cleanup)(void *arg), void *arg);

/* Lets the future go on alone; its value is dropped, its failure logged at debug level. */
PK_API void pk_detach(pk_future future);

/* ---- Promises ---------------------------------------------------------------------------- */

/*
 * A promise is the producer's end of a pending future. It holds one reference for the producer,
 * which pk_promise_done or pk_promise_fail consumes, also when they come too late. NULL when memory
 * runs out or the scope has ended: every function here takes NULL.
 */
PK_API PK_NODISCARD pk_promise *pk_promise_new(pk_scope *scope);

/* The future of a promise; asked for once. For NULL: failed with RESOURCE_EXHAUSTED. */
PK_API PK_NODISCARD pk_future pk_promise_future(pk_promise *promise);

/*
 * Settles the promise; its steps run on the loop's stack before the turn's write. 0, or
 * PK_ERR_TOO_LATE where it was settled before or its scope has ended. On the loop's thread only.
 */
PK_API int pk_promise_done(pk_promise *promise, const void *value);
PK_API int pk_promise_fail(pk_promise *promise, pk_code code, const char *format, ...)
    PK_PRINTF(3, 4);
PK_API int pk_promise_fail_with(pk_promise *promise, const pk_status *status);

/*
 * Runs abandon(arg) if the promise is settled by somebody else (its scope was cancelled, a
 * combinator gave up on it) before the producer came: the place to stop the work. The producer's
 * reference is consumed by that call. At most one per promise.
 */
PK_API void pk_promise_on_abandon(pk_promise *promise, void (*abandon)(void *arg), void *arg);

/* ---- Combinators ------------------------------------------------------------------------- */

/*
 * Done with an array of all values (in the scope, in the order given) when all are done. Fails with
 * the first failure; the others are cancelled first. `futures` is read before it returns.
 */
PK_API PK_NODISCARD pk_future pk_all(pk_scope *scope, const pk_future *futures, size_t count);

/*
 * Done with the first value; the others are cancelled first. Fails with the last failure when all
 * have failed, with INVALID_ARGUMENT for count 0.
 */
PK_API PK_NODISCARD pk_future pk_any(pk_scope *scope, const pk_future *futures, size_t count);

/* The future, or DEADLINE_EXCEEDED if it has not settled `milliseconds` from now. */
PK_API PK_NODISCARD pk_future pk_timeout(pk_scope *scope, pk_future future, uint64_t milliseconds);

/* Done with NULL, `milliseconds` of real time from now, never earlier. */
PK_API PK_NODISCARD pk_future pk_sleep(pk_scope *scope, uint64_t milliseconds);

/*
 * Runs work(arg) on the loop's small thread pool and is done with what it returned. The scope's
 * memory, and so everything "in the call", stays until the worker has returned, also when the
 * call ends meanwhile; the future is then cancelled at once and the result is dropped.
 */
PK_API PK_NODISCARD pk_future pk_offload(pk_scope *scope, const void *(*work)(void *arg),
                                         void *arg);

PK_END_DECLS

#endif
