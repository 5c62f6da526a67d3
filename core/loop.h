/*
 * The inside of a loop: libev, timers, ready queue, flush list, posts.
 *
 * One turn: libev calls the watchers; each may queue steps (pk_loop_ready) and mark its connection
 * for writing (pk_loop_flush_later). A connection that was read drains and writes itself before its
 * watcher returns; what other events have caused is drained and written by the after-turn hook,
 * before the loop blocks again. The only file besides loop.c that may name libev is this one.
 */
#ifndef PEKOE_CORE_LOOP_H
#define PEKOE_CORE_LOOP_H

#include <pekoe/loop.h>

#include "core/buffer.h"
#include "core/scope.h"

#include <ev.h>

#include <pthread.h>

/*
 * A timer that is started is *fresh* until the turn ends: it is only linked into a list. Most are
 * stopped within their turn (a call that is answered at once meets its deadline), and those cost
 * neither a clock reading nor a place in the heap. The others get their due at the turn's end, from
 * one reading for all.
 */
typedef struct pk_timer {
    uint64_t due; /* nanoseconds of pk_loop_now; while fresh: nanoseconds to wait */
    size_t place; /* in the loop's heap, 1-based; 0: not armed; PK_TIMER_FRESH: see above */
    void (*fire)(struct pk_timer *timer);
    struct pk_timer *next_fresh, **link; /* while fresh: the next, and what points to this one */
} pk_timer;

#define PK_TIMER_FRESH SIZE_MAX

/* A file descriptor that is watched. Embedded; `ev` is libev's part. */
typedef struct pk_watch {
    ev_io ev;
    pk_loop *loop;
    void (*on_event)(struct pk_watch *watch, bool readable, bool writable);
} pk_watch;

/* Something with output to write at the end of the turn. Embedded in a connection. */
typedef struct pk_flush {
    struct pk_flush *next;
    bool queued;
    void (*flush)(struct pk_flush *flush);
} pk_flush;

/* Work that another thread hands to the loop. Embedded in what it finishes. */
typedef struct pk_post {
    struct pk_post *next;
    void (*run)(struct pk_post *post); /* on the loop's thread */
} pk_post;

struct pk_offload_pool;

/* What upper folders keep once per loop; each has its place and is freed with the loop. */
typedef enum pk_loop_part {
    PK_LOOP_MARSHALLING, /* compressor streams */
    PK_LOOP_CALLS,       /* free call objects */
    PK_LOOP_PARTS,       /* how many there are */
} pk_loop_part;

struct pk_loop {
    pk_memory memory;
    pk_buffer_pool buffers;
    pk_scope scope; /* lives as long as the loop */

    struct {
        void *part;
        void (*free)(void *part);
    } parts[PK_LOOP_PARTS];

    bool draining; /* pk_loop_drain is on the stack */
    pk_ready *ready_first;
    pk_ready **ready_last; /* where the next entry is hung */
    pk_flush *flush_first;
    pk_flush **flush_last;

    pk_timer **timers; /* a 4-ary heap by due; place 0 is unused */
    size_t timer_count, timer_capacity;
    pk_timer *fresh_timers;
    size_t fresh_count;
    uint64_t clock_offset; /* nanoseconds that a fake clock has advanced by */
    bool clock_frozen;     /* fake clock: time stands still at clock_offset */

    struct ev_loop *ev;
    bool owns_ev;
    ev_timer ev_timer;     /* armed for the earliest pk_timer, or earlier */
    uint64_t ev_timer_due; /* what it is armed for; 0 when it is not */
    bool ev_timer_idle;    /* armed while there is no pk_timer: it does not keep libev running */
    bool stopping;         /* pk_loop_stop was called */
    bool ending;           /* pk_loop_free has begun: no more off-loading */
    ev_prepare ev_prepare; /* the after-turn hook */
    ev_async ev_async;     /* wakes the loop for posts */

    pthread_t thread;
    pthread_mutex_t post_lock; /* guards the three below */
    pk_post *posts;
    pk_post **posts_last;
    bool closing;
    pk_post *taken_posts; /* the loop's own: taken from `posts`, not run yet */
    pk_post **taken_last;

    struct pk_offload_pool *offload; /* owned by future/offload.c; made at first use */
    void (*offload_free)(struct pk_offload_pool *pool);
    unsigned offload_threads;

    pk_promise *kept; /* what pk_loop_run_until waited for last: its outcome stays readable */
    void (*drop_kept)(pk_promise *promise);

    pk_log_fn *log;
    void *log_context;
    pk_log_level log_level;
    pk_allocator own_allocator; /* of this struct; resize NULL: malloc */

#ifndef NDEBUG
    pk_promise *promises; /* all, for the report at the loop's end; promise.c's */
    void (*report_promises)(pk_loop *loop);
#endif
};

/* How a scope sees a pk_loop. */
extern const pk_scope_host pk_loop_host;

/* ---- Ready queue and flush list ---- */

static inline void pk_loop_ready(pk_loop *loop, pk_ready *entry)
{
    entry->next = NULL;
    *loop->ready_last = entry;
    loop->ready_last = &entry->next;
}

/* The same by way of a scope; where its host is a loop, as nearly always, without asking a table. */
static inline void pk_scope_ready(const pk_scope *scope, pk_ready *entry)
{
    if (PK_LIKELY(scope->host == &pk_loop_host))
        pk_loop_ready(scope->loop, entry);
    else
        scope->host->ready(scope->loop, entry);
}

/* The slow path of pk_loop_drain: there is an entry. */
void pk_loop_run_ready(pk_loop *loop);

/* Runs queued entries, and those they queue, until none is left. Does nothing when re-entered. */
static inline void pk_loop_drain(pk_loop *loop)
{
    if (loop->ready_first && !loop->draining)
        pk_loop_run_ready(loop);
}

/* Has flush->flush called before the loop blocks; once per turn however often it is asked. */
void pk_loop_flush_later(pk_loop *loop, pk_flush *flush);

/* Takes an entry off the flush list: before its owner is freed. */
void pk_loop_flush_forget(pk_loop *loop, pk_flush *flush);

/* Drains and flushes until nothing is left: the after-turn hook, and what tests call. */
void pk_loop_end_turn(pk_loop *loop);

/* Waits for one event or timer, handles it, ends the turn. */
void pk_loop_turn(pk_loop *loop);

/* pk_loop_post without an allocation: the entry belongs to the loop until it runs. */
PK_NODISCARD int pk_loop_post_entry(pk_loop *loop, pk_post *post);

/* ---- Timers ---- */

/*
 * Fires once, `nanoseconds` of real time from now, never earlier; the time may count from the end
 * of this turn. Restarts one that is armed. PK_ERR_NOMEM.
 */
PK_NODISCARD int pk_timer_start(pk_loop *loop, pk_timer *timer, uint64_t nanoseconds);

/* The same, at an absolute time of pk_loop_now. */
PK_NODISCARD int pk_timer_start_at(pk_loop *loop, pk_timer *timer, uint64_t due);

/* When an armed timer fires, by pk_loop_now; fixes that for a fresh one. */
uint64_t pk_timer_due(pk_loop *loop, pk_timer *timer);

/* Does nothing to a timer that is not armed. */
void pk_timer_stop(pk_loop *loop, pk_timer *timer);

/* Fires what is due by pk_loop_now: after a fake clock was moved. */
void pk_loop_fire_timers(pk_loop *loop);

/* Gives all fresh timers their due: before a fake clock is moved. */
void pk_loop_place_timers(pk_loop *loop);

/* ---- File descriptors ---- */

void pk_watch_init(pk_watch *watch, pk_loop *loop, int fd,
                   void (*on_event)(pk_watch *watch, bool readable, bool writable));
/* Changes what is watched; neither stops watching. */
void pk_watch_set(pk_watch *watch, bool readable, bool writable);

/* ---- Log ---- */

void pk_log(pk_loop *loop, pk_log_level level, const char *format, ...) PK_PRINTF(3, 4);

/* Debug builds: the calling thread owns the loop. */
#ifdef NDEBUG
#define pk_assert_owner(loop) ((void) 0)
#else
void pk_assert_owner(const pk_loop *loop);
#endif

#endif
