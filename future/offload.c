/*
 * Blocking work on a small pool of threads.
 *
 * The pool is made at the loop's first pk_offload and ends with the loop. A worker sees only its
 * job's function and argument. The job pins its scope from the loop's thread, and unpins it there
 * after the worker has returned, so a deadline may end the call while the worker still reads from
 * the call's arena.
 */
#include "future/promise.h"

#include <assert.h>
#include <signal.h>

static const pk_status loop_ends = {
    .code = PK_CANCELLED,
    .message = {(const uint8_t *) "the loop is being freed", 23},
};

struct job {
    struct job *next;
    pk_post post; /* brings it back to the loop's thread */
    const void *(*work)(void *arg);
    void *arg;
    const void *result;
    pk_scope *scope;     /* pinned */
    pk_promise *promise; /* the producer's reference; NULL once abandoned */
    struct pk_offload_pool *pool;
};

struct pk_offload_pool {
    pk_loop *loop;
    pthread_mutex_t lock; /* guards the four below */
    pthread_cond_t work_there;
    struct job *first;
    struct job **last;
    bool ending;
    unsigned started; /* threads; the loop's thread only */
    pthread_t threads[];
};

static void *run_worker(void *arg)
{
    struct pk_offload_pool *pool = arg;
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        while (!pool->first && !pool->ending)
            pthread_cond_wait(&pool->work_there, &pool->lock);
        struct job *job = pool->first;
        if (job) {
            pool->first = job->next;
            if (!pool->first)
                pool->last = &pool->first;
        }
        pthread_mutex_unlock(&pool->lock);
        if (!job)
            return NULL;
        job->result = job->work(job->arg);
        int r = pk_loop_post_entry(pool->loop, &job->post);
        assert(r == 0); /* the loop closes for posts only after its workers are gone */
        (void) r;
    }
}

/* Workers finish what they were given; the loop runs their posts afterwards. */
static void free_pool(struct pk_offload_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->work_there);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work_there);
    pthread_mutex_destroy(&pool->lock);
    pk_memory *memory = &pool->loop->memory;
    pk_memory_put(memory, pool,
                  sizeof *pool + pool->loop->offload_threads * sizeof pool->threads[0]);
}

static struct pk_offload_pool *pool_of(pk_loop *loop)
{
    if (loop->offload)
        return loop->offload;
    struct pk_offload_pool *pool = pk_memory_get(
        &loop->memory, sizeof *pool + loop->offload_threads * sizeof pool->threads[0]);
    if (!pool)
        return NULL;
    *pool = (struct pk_offload_pool){.loop = loop};
    pool->last = &pool->first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_there, NULL);
    loop->offload = pool;
    loop->offload_free = free_pool;
    return pool;
}

/* The program's signals stay with the program's own threads. */
static bool start_worker(struct pk_offload_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&pool->threads[pool->started], NULL, run_worker, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r == 0;
}

static void come_back(pk_post *post)
{
    struct job *job = (struct job *) ((char *) post - offsetof(struct job, post));
    pk_loop *loop = job->scope->loop;
    if (job->promise)
        (void) pk_promise_done(job->promise, job->result);
    pk_scope_unpin(job->scope);
    ev_unref(loop->ev);
    pk_memory_put(&loop->memory, job, sizeof *job);
}

static void abandon_job(void *arg)
{
    struct job *job = arg;
    job->promise = NULL; /* the worker goes on; its result is dropped */
}

pk_future pk_offload(pk_scope *scope, const void *(*work)(void *arg), void *arg)
{
    pk_loop *loop = scope->loop;
    pk_assert_owner(loop);
    if (loop->ending)
        return pk_failed_with(&loop_ends);
    struct pk_offload_pool *pool = pool_of(loop);
    struct job *job = pool ? pk_memory_get(&loop->memory, sizeof *job) : NULL;
    if (!job)
        return pk_promise_future(NULL);
    *job = (struct job){.post.run = come_back, .work = work, .arg = arg, .scope = scope};
    /* One thread more for each job until all are there: an idle program starts none. */
    if (pool->started < loop->offload_threads && start_worker(pool))
        pool->started++;
    job->promise = pool->started > 0 ? pk_promise_new(scope) : NULL;
    if (!job->promise) {
        pk_memory_put(&loop->memory, job, sizeof *job);
        return pk_promise_future(NULL);
    }
    pk_future future = pk_promise_future(job->promise);
    pk_promise_on_abandon(job->promise, abandon_job, job);
    pk_scope_pin(scope);
    ev_ref(loop->ev); /* the loop waits for the worker */
    pthread_mutex_lock(&pool->lock);
    *pool->last = job;
    pool->last = &job->next;
    pthread_cond_signal(&pool->work_there);
    pthread_mutex_unlock(&pool->lock);
    return future;
}
