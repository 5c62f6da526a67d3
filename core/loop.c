/* The loop on libev: turns, posts, life: see loop.h. Its timers are in timer.c. */
#include "core/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NANOSECONDS 1000000000u

/* Later opts structs may be longer; an older caller's is shorter. Both are read up to `size`. */
static pk_loop_opts read_opts(const pk_loop_opts *opts)
{
    pk_loop_opts copy = {.size = sizeof copy};
    if (opts)
        memcpy(&copy, opts, opts->size < sizeof copy ? opts->size : sizeof copy);
    return copy;
}

/* ---- The scope's view of the loop ---- */

static void host_ready(void *loop, pk_ready *entry)
{
    pk_loop_ready(loop, entry);
}

static pk_memory *host_memory(void *loop)
{
    return &((pk_loop *) loop)->memory;
}

const pk_scope_host pk_loop_host = {.ready = host_ready, .memory = host_memory};

/* ---- Turns ---- */

void pk_loop_run_ready(pk_loop *loop)
{
    loop->draining = true;
    struct pk_current outer = pk_current;
    do {
        pk_ready *entry = loop->ready_first;
        loop->ready_first = entry->next;
        if (!loop->ready_first)
            loop->ready_last = &loop->ready_first;
        pk_current = (struct pk_current){.scope = entry->scope};
        entry->run(entry);
    } while (loop->ready_first);
    pk_current = outer;
    loop->draining = false;
}

void pk_loop_flush_later(pk_loop *loop, pk_flush *flush)
{
    if (flush->queued)
        return;
    flush->queued = true;
    flush->next = NULL;
    *loop->flush_last = flush;
    loop->flush_last = &flush->next;
}

void pk_loop_flush_forget(pk_loop *loop, pk_flush *flush)
{
    if (!flush->queued)
        return;
    flush->queued = false;
    for (pk_flush **place = &loop->flush_first; *place; place = &(*place)->next) {
        if (*place == flush) {
            *place = flush->next;
            if (loop->flush_last == &flush->next)
                loop->flush_last = place;
            return;
        }
    }
}

/* Drains and writes until both lists are empty: a write may end calls, whose steps may write. */
void pk_loop_end_turn(pk_loop *loop)
{
    if (loop->draining)
        return; /* the turn that is on the stack goes on */
    do {
        pk_loop_drain(loop);
        while (loop->flush_first) {
            pk_flush *flush = loop->flush_first;
            loop->flush_first = flush->next;
            if (!loop->flush_first)
                loop->flush_last = &loop->flush_first;
            flush->queued = false;
            flush->flush(flush);
        }
    } while (loop->ready_first);
}

/* ---- The clock, and the libev timer ---- */

static uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * NANOSECONDS + (uint64_t) now.tv_nsec;
}

uint64_t pk_loop_now(const pk_loop *loop)
{
    return loop->clock_frozen ? loop->clock_offset : clock_now();
}

/* libev's count of what keeps it running: an idle timer is not in it while it is armed. */
static void set_idle(pk_loop *loop, bool idle)
{
    if (loop->ev_timer_idle == idle)
        return;
    loop->ev_timer_idle = idle;
    if (idle)
        ev_unref(loop->ev);
    else
        ev_ref(loop->ev);
}

static void disarm(pk_loop *loop)
{
    if (!loop->ev_timer_due)
        return;
    set_idle(loop, false);
    ev_timer_stop(loop->ev, &loop->ev_timer);
    loop->ev_timer_due = 0;
}

/*
 * Before libev blocks: points its timer at the earliest due. It is left alone where it would fire
 * too early (then it finds nothing due and is set again) or where no timer is left (then it idles),
 * which is cheaper than moving it for each call's deadline.
 */
static void arm(pk_loop *loop)
{
    pk_loop_place_timers(loop);
    bool wanted = loop->timer_count > 0 && !loop->clock_frozen;
    if (wanted && (!loop->ev_timer_due || loop->timers[1]->due < loop->ev_timer_due)) {
        disarm(loop);
        uint64_t due = loop->timers[1]->due, now = clock_now();
        ev_now_update(loop->ev); /* libev counts from its cached time */
        ev_timer_set(&loop->ev_timer, due > now ? (double) (due - now) / NANOSECONDS : 0., 0.);
        ev_timer_start(loop->ev, &loop->ev_timer);
        loop->ev_timer_due = due > 0 ? due : 1;
    } else if (loop->ev_timer_due) {
        set_idle(loop, !wanted);
    }
}

/* ---- What libev calls ---- */

#ifndef NDEBUG
#define BLOCKED_TOO_LONG (100u * 1000000u) /* nanoseconds */

static uint64_t callback_entered(void)
{
    return clock_now();
}

static void callback_left(pk_loop *loop, uint64_t entered)
{
    uint64_t took = clock_now() - entered;
    if (took >= BLOCKED_TOO_LONG)
        pk_log(loop, PK_LOG_WARNING, "a handler blocked the loop for %u ms",
               (unsigned) (took / 1000000u));
}
#else
static inline uint64_t callback_entered(void)
{
    return 0;
}

static inline void callback_left(pk_loop *loop, uint64_t entered)
{
}
#endif

/* Everything that was caused leaves, and what was started is armed. */
static void end_turn_and_arm(pk_loop *loop)
{
    pk_loop_end_turn(loop);
    arm(loop);
}

static void on_ev_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
    pk_loop *loop = watcher->data;
    uint64_t entered = callback_entered();
    set_idle(loop, false); /* libev has stopped it, and counted that */
    loop->ev_timer_due = 0;
    pk_loop_fire_timers(loop);
    /* Here, not only before libev blocks: without other watchers it would not come to that. */
    end_turn_and_arm(loop);
    callback_left(loop, entered);
}

/* ---- File descriptors ---- */

static void on_ev_io(struct ev_loop *ev, ev_io *watcher, int events)
{
    pk_watch *watch = watcher->data;
    pk_loop *loop = watch->loop;
    uint64_t entered = callback_entered();
    watch->on_event(watch, (events & EV_READ) != 0, (events & EV_WRITE) != 0);
    callback_left(loop, entered);
}

void pk_watch_init(pk_watch *watch, pk_loop *loop, int fd,
                   void (*on_event)(pk_watch *watch, bool readable, bool writable))
{
    watch->loop = loop;
    watch->on_event = on_event;
    ev_io_init(&watch->ev, on_ev_io, fd, 0);
    watch->ev.data = watch;
}

void pk_watch_set(pk_watch *watch, bool readable, bool writable)
{
    int events = (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0);
    if ((watch->ev.events & (EV_READ | EV_WRITE)) == events)
        return;
    ev_io_stop(watch->loop->ev, &watch->ev);
    ev_io_set(&watch->ev, watch->ev.fd, events);
    if (events)
        ev_io_start(watch->loop->ev, &watch->ev);
}

/* ---- Posts from other threads ---- */

struct plain_post { /* pk_loop_post's own; malloc'd, since any thread makes it */
    pk_post post;
    void (*fn)(void *arg);
    void *arg;
};

static void run_plain_post(pk_post *post)
{
    struct plain_post plain = *(struct plain_post *) post;
    free(post);
    plain.fn(plain.arg);
}

int pk_loop_post_entry(pk_loop *loop, pk_post *post)
{
    post->next = NULL;
    pthread_mutex_lock(&loop->post_lock);
    int r = loop->closing ? PK_ERR_CLOSED : 0;
    if (r == 0) {
        *loop->posts_last = post;
        loop->posts_last = &post->next;
        ev_async_send(loop->ev, &loop->ev_async);
    }
    pthread_mutex_unlock(&loop->post_lock);
    return r;
}

int pk_loop_post(pk_loop *loop, void (*fn)(void *arg), void *arg)
{
    struct plain_post *plain = malloc(sizeof *plain);
    if (!plain)
        return PK_ERR_NOMEM;
    *plain = (struct plain_post){.post.run = run_plain_post, .fn = fn, .arg = arg};
    int r = pk_loop_post_entry(loop, &plain->post);
    if (r < 0)
        free(plain);
    return r;
}

/* A post that runs the loop itself goes on with those behind it, and they keep their order. */
static void run_posts(pk_loop *loop)
{
    pthread_mutex_lock(&loop->post_lock);
    if (loop->posts) {
        *loop->taken_last = loop->posts;
        loop->taken_last = loop->posts_last;
        loop->posts = NULL;
        loop->posts_last = &loop->posts;
    }
    pthread_mutex_unlock(&loop->post_lock);
    while (loop->taken_posts) {
        pk_post *post = loop->taken_posts;
        loop->taken_posts = post->next;
        if (!loop->taken_posts)
            loop->taken_last = &loop->taken_posts;
        post->run(post);
    }
}

static void on_prepare(struct ev_loop *ev, ev_prepare *watcher, int events)
{
    pk_loop *loop = watcher->data;
    uint64_t entered = callback_entered();
    if (loop->taken_posts)
        run_posts(loop); /* one of them runs the loop, and may wait for those behind it */
    end_turn_and_arm(loop);
    callback_left(loop, entered);
}

static void on_ev_async(struct ev_loop *ev, ev_async *watcher, int events)
{
    pk_loop *loop = watcher->data;
    uint64_t entered = callback_entered();
    run_posts(loop);
    end_turn_and_arm(loop);
    callback_left(loop, entered);
}

/* ---- Life of a loop ---- */

static void start_watchers(pk_loop *loop)
{
    ev_init(&loop->ev_timer, on_ev_timer);
    ev_prepare_init(&loop->ev_prepare, on_prepare);
    ev_set_priority(&loop->ev_prepare, EV_MINPRI); /* after the program's own */
    ev_async_init(&loop->ev_async, on_ev_async);
    loop->ev_timer.data = loop->ev_prepare.data = loop->ev_async.data = loop;
    ev_async_start(loop->ev, &loop->ev_async);
    ev_prepare_start(loop->ev, &loop->ev_prepare);
    /* Neither keeps the program's ev_run going. */
    ev_unref(loop->ev);
    ev_unref(loop->ev);
}

int pk_loop_new(pk_loop **ret_loop, const pk_loop_opts *opts_in)
{
    pk_loop_opts opts = read_opts(opts_in);
    pk_allocator none = {0};
    const pk_allocator *allocator = opts.allocator;
    pk_loop *loop = allocator ? allocator->resize(allocator->context, NULL, sizeof *loop)
                              : malloc(sizeof *loop);
    if (!loop)
        return PK_ERR_NOMEM;
    *loop = (pk_loop){.log = opts.log,
                      .log_context = opts.log_context,
                      .log_level = opts.log_level,
                      .offload_threads = opts.offload_threads ? opts.offload_threads : 4,
                      .timer_capacity = 64,
                      .thread = pthread_self(),
                      .own_allocator = allocator ? *allocator : none};
    loop->ready_last = &loop->ready_first;
    loop->flush_last = &loop->flush_first;
    loop->posts_last = &loop->posts;
    loop->taken_last = &loop->taken_posts;
    pthread_mutex_init(&loop->post_lock, NULL);
    int r = pk_memory_init(&loop->memory, allocator);
    if (r == 0) {
        loop->timers = pk_memory_get(&loop->memory, loop->timer_capacity * sizeof *loop->timers);
        loop->ev = opts.ev ? opts.ev : ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
        loop->owns_ev = !opts.ev;
        r = !loop->timers ? PK_ERR_NOMEM : !loop->ev ? PK_ERR_SYSTEM : 0;
    }
    if (r < 0) {
        if (loop->owns_ev && loop->ev)
            ev_loop_destroy(loop->ev);
        if (loop->memory.scratch) {
            pk_memory_put(&loop->memory, loop->timers, loop->timer_capacity * sizeof *loop->timers);
            pk_memory_done(&loop->memory);
        }
        pthread_mutex_destroy(&loop->post_lock);
        if (allocator)
            allocator->resize(allocator->context, loop, 0);
        else
            free(loop);
        return r;
    }
    pk_buffer_pool_init(&loop->buffers, &loop->memory);
    pk_scope_init(&loop->scope, &loop->memory, &pk_loop_host, loop, 0);
    loop->scope.lasting = true;
    start_watchers(loop);
    pk_current = (struct pk_current){.scope = &loop->scope};
    *ret_loop = loop;
    return 0;
}

static void loop_scope_released(pk_scope *scope)
{
    pk_arena_done(&scope->arena);
}

/* Debug builds say what the program has forgotten. */
static void report_left(pk_loop *loop)
{
#ifndef NDEBUG
    if (loop->report_promises)
        loop->report_promises(loop);
    if (loop->timer_count + loop->fresh_count > 0)
        pk_log(loop, PK_LOG_WARNING, "a loop was freed with %zu timers running",
               loop->timer_count + loop->fresh_count);
#endif
}

pk_loop *pk_loop_free(pk_loop *loop)
{
    if (!loop)
        return NULL;
    pk_assert_owner(loop);
    assert(!loop->draining && "a loop was freed by one of its own steps");
    loop->ending = true;
    if (loop->kept)
        loop->drop_kept(pk_steal(&loop->kept));
    /* Workers may still hold arguments: wait for them, then their results are told. */
    if (loop->offload_free)
        loop->offload_free(loop->offload);
    run_posts(loop);
    pk_loop_end_turn(loop);
    pthread_mutex_lock(&loop->post_lock);
    loop->closing = true;
    pthread_mutex_unlock(&loop->post_lock);
    run_posts(loop);
    pk_scope_end(&loop->scope, loop_scope_released);
    pk_loop_end_turn(loop);
    if (pk_current.scope == &loop->scope)
        pk_current = (struct pk_current){0};
    report_left(loop);
    /* A program that forgot a future has the loop's scope pinned for ever. */
    pk_arena_done(&loop->scope.arena);
    disarm(loop);
    ev_ref(loop->ev);
    ev_ref(loop->ev);
    ev_prepare_stop(loop->ev, &loop->ev_prepare);
    ev_async_stop(loop->ev, &loop->ev_async);
    if (loop->owns_ev)
        ev_loop_destroy(loop->ev);
    for (size_t i = 0; i < PK_LOOP_PARTS; i++) {
        if (loop->parts[i].part)
            loop->parts[i].free(loop->parts[i].part);
    }
    pk_buffer_pool_done(&loop->buffers);
    pk_memory_put(&loop->memory, loop->timers, loop->timer_capacity * sizeof *loop->timers);
    pk_memory_done(&loop->memory);
    pthread_mutex_destroy(&loop->post_lock);
    pk_allocator allocator = loop->own_allocator;
    if (allocator.resize)
        allocator.resize(allocator.context, loop, 0);
    else
        free(loop);
    return NULL;
}

struct ev_loop *pk_loop_ev(pk_loop *loop)
{
    return loop->ev;
}

pk_scope *pk_loop_scope(pk_loop *loop)
{
    return &loop->scope;
}

void pk_loop_run(pk_loop *loop)
{
    pk_assert_owner(loop);
    assert(!loop->draining && "a step runs the loop: it must return a future instead");
    loop->stopping = false;
    bool more;
    do {
        int active = ev_run(loop->ev, 0);
        /* The last events may have caused steps, and those may wait for something again. */
        more = active == 0 && (loop->ready_first || loop->flush_first || loop->fresh_timers ||
                               (loop->timer_count > 0 && !loop->clock_frozen));
        end_turn_and_arm(loop);
    } while (more && !loop->stopping);
    loop->stopping = false;
}

void pk_loop_turn(pk_loop *loop)
{
    ev_run(loop->ev, EVRUN_ONCE);
    pk_loop_end_turn(loop);
}

void pk_loop_stop(pk_loop *loop)
{
    loop->stopping = true;
    ev_break(loop->ev, EVBREAK_ONE);
}

/* ---- Log and checks ---- */

void pk_log(pk_loop *loop, pk_log_level level, const char *format, ...)
{
    if (!loop->log || level < loop->log_level)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    loop->log(loop->log_context, level, text);
}

#ifndef NDEBUG
void pk_assert_owner(const pk_loop *loop)
{
    assert(pthread_equal(loop->thread, pthread_self()) && "used outside of the loop's thread");
}
#endif
