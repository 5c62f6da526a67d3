/*
 * The loop: one thread's event loop, memory, timers and ready queue.
 *
 * A pk_loop wraps the program's own libev loop or makes one. Everything that hangs on a loop
 * (servers, channels, calls, futures) is used on its thread only; debug builds assert that. The one
 * exception is pk_loop_post. pekoe starts no thread unless pk_offload is used.
 */
#ifndef PEKOE_LOOP_H
#define PEKOE_LOOP_H

#include <pekoe/future.h>
#include <pekoe/status.h>

struct ev_loop;

PK_BEGIN_DECLS

typedef struct pk_loop pk_loop;

typedef enum pk_log_level { PK_LOG_DEBUG, PK_LOG_INFO, PK_LOG_WARNING, PK_LOG_ERROR } pk_log_level;

/* Receives one line without a newline; `text` is borrowed until it returns. Any thread of pekoe. */
typedef void pk_log_fn(void *context, pk_log_level level, const char *text);

typedef struct pk_loop_opts {
    size_t size;                   /* set by PK_LOOP_OPTS */
    struct ev_loop *ev;            /* borrowed for the life of the pk_loop; NULL makes one */
    const pk_allocator *allocator; /* copied; NULL is realloc and free */
    pk_log_fn *log;                /* NULL drops every line */
    void *log_context;
    pk_log_level log_level;   /* lines below it are not made */
    unsigned offload_threads; /* for pk_offload; started at its first use; 0 means 4 */
} pk_loop_opts;

#define PK_LOOP_OPTS(...) (&(pk_loop_opts){.size = sizeof(pk_loop_opts), ##__VA_ARGS__})

/*
 * Makes the loop of the calling thread. `opts` may be NULL. Fails with PK_ERR_NOMEM or
 * PK_ERR_SYSTEM; *ret_loop is untouched then.
 */
PK_API PK_NODISCARD int pk_loop_new(pk_loop **ret_loop, const pk_loop_opts *opts);

/* Frees a loop on which nothing hangs any more. Takes NULL; returns NULL. */
PK_API pk_loop *pk_loop_free(pk_loop *loop);

/* The libev loop underneath, for the program's own watchers. */
PK_API struct ev_loop *pk_loop_ev(pk_loop *loop);

/* Runs until pk_loop_stop, or until nothing is left to wait for. */
PK_API void pk_loop_run(pk_loop *loop);

/* Makes the innermost pk_loop_run return after the current turn. */
PK_API void pk_loop_stop(pk_loop *loop);

/*
 * Runs the loop until `future` has settled, and consumes it: the plain way for small programs.
 * Returns the status of the future, PK_OK where it is done; the status and a value stay valid until
 * the call behind them is unref'd, or this is called again. `ret_value` may be NULL.
 */
PK_API pk_status pk_loop_run_until(pk_loop *loop, pk_future future, const void **ret_value);

/*
 * Runs fn(arg) on the loop's thread in one of its next turns. May be called from any thread, and
 * is the only function that may. Posts of one thread keep their order. Fails with PK_ERR_NOMEM, or
 * PK_ERR_CLOSED after pk_loop_free has begun; nothing runs then.
 */
PK_API PK_NODISCARD int pk_loop_post(pk_loop *loop, void (*fn)(void *arg), void *arg);

/* Nanoseconds of the monotonic clock that deadlines on this loop count in; never cached. */
PK_API uint64_t pk_loop_now(const pk_loop *loop);

/* The scope that lives as long as the loop: for futures outside of any call. */
PK_API pk_scope *pk_loop_scope(pk_loop *loop);

PK_END_DECLS

#endif
