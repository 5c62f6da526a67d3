/*
 * The queue: messages from elsewhere, a bounded number of them, and those that wait to push more.
 *
 * Messages stand in a ring. Who finds it full waits in a list and is let in when the consumer has
 * used one. Memory of the list comes from the loop, since those that push live elsewhere.
 */
#include "core/status.h"
#include "handlers/streaming/source.h"

#define CAPACITY_MAX 65536u

/* One that waits to push. */
struct pusher {
    struct pusher *next;
    const void *message;
    pk_promise *promise; /* our end of it */
};

struct pk_queue {
    pk_source source;
    pk_call *call;
    pk_queue_release *release;
    void *arg;
    struct pk_stream_wait wait; /* the consumer's pending future */
    const void **messages;
    size_t capacity, first, count;
    const void *lent; /* by next; released when the consumer comes back */
    bool lends;       /* the pending future is of next, not of take */
    struct pusher *pushers, **last_pusher;
    const pk_status *failure; /* what the end is, behind all that is queued */
    bool ended;               /* no more is pushed */
    bool closed;              /* no more is asked for */
};

static const pk_status queue_closed = {
    PK_CANCELLED, PK_SLICE("nobody reads the queue any more"), {NULL, 0}};
static const pk_status nothing_pushed = {
    PK_INTERNAL, PK_SLICE("a NULL message was to be pushed"), {NULL, 0}};

static void let_go(pk_queue *queue, const void *message)
{
    if (message && queue->release)
        queue->release(message, queue->arg);
}

/* ---- Pushing ---- */

/* The oldest pusher, taken off the list; its promise is to be settled. */
static struct pusher *next_pusher(pk_queue *queue)
{
    struct pusher *pusher = queue->pushers;
    queue->pushers = pusher->next;
    if (!queue->pushers)
        queue->last_pusher = &queue->pushers;
    return pusher;
}

/* Settles a pusher's future; false where nobody waited for it any more. */
static bool answer_pusher(pk_queue *queue, struct pusher *pusher, const pk_status *failure)
{
    pk_promise *promise = pusher->promise;
    pk_memory_put(&queue->call->loop->memory, pusher, sizeof *pusher);
    int r = failure ? pk_promise_fail_with(promise, failure) : pk_promise_done(promise, NULL);
    return r == 0;
}

static void append(pk_queue *queue, const void *message)
{
    queue->messages[(queue->first + queue->count++) % queue->capacity] = message;
}

/* Lets those in that wait, as far as there is room. */
static void admit(pk_queue *queue)
{
    while (queue->pushers && queue->count < queue->capacity) {
        struct pusher *pusher = next_pusher(queue);
        const void *message = pusher->message;
        if (answer_pusher(queue, pusher, NULL))
            append(queue, message);
    }
}

static void turn_away(pk_queue *queue)
{
    while (queue->pushers)
        (void) answer_pusher(queue, next_pusher(queue), &queue_closed);
}

static void serve_waiting(pk_queue *queue);

int pk_queue_try_push(pk_queue *queue, const void *message)
{
    if (!message)
        return PK_ERR_INVALID;
    if (!queue || queue->ended || queue->closed)
        return PK_ERR_CLOSED;
    if (queue->count == queue->capacity || queue->pushers)
        return PK_ERR_LIMIT;
    append(queue, message);
    serve_waiting(queue);
    return 0;
}

static pk_future wait_to_push(pk_queue *queue, const void *message)
{
    pk_memory *memory = &queue->call->loop->memory;
    struct pusher *pusher = pk_memory_get(memory, sizeof *pusher);
    pk_promise *promise = pusher ? pk_promise_new(&queue->call->scope) : NULL;
    if (!promise) {
        pk_memory_put(memory, pusher, sizeof *pusher);
        return pk_failed_with(&pk_status_no_memory);
    }
    *pusher = (struct pusher){.message = message, .promise = promise};
    *queue->last_pusher = pusher;
    queue->last_pusher = &pusher->next;
    return pk_promise_future(promise);
}

pk_future pk_queue_push(pk_queue *queue, const void *message)
{
    if (!queue)
        return pk_failed_with(&pk_status_no_memory);
    switch (pk_queue_try_push(queue, message)) {
    case 0:
        return pk_done(NULL);
    case PK_ERR_LIMIT:
        return wait_to_push(queue, message);
    case PK_ERR_INVALID:
        return pk_failed_with(&nothing_pushed);
    default:
        return pk_failed_with(&queue_closed);
    }
}

void pk_queue_end(pk_queue *queue, const pk_status *failure)
{
    if (!queue || queue->ended || queue->closed)
        return;
    if (failure) {
        pk_status *copy = pk_arena_try(&queue->call->scope.arena, sizeof *copy);
        if (copy)
            *copy = pk_status_copy(&queue->call->scope.arena, failure);
        queue->failure = copy ? copy : &pk_status_no_memory;
    }
    queue->ended = true;
    turn_away(queue);
    serve_waiting(queue);
}

/* ---- The source ---- */

/* The oldest message, the end, or pending. */
static pk_future pop(pk_queue *queue)
{
    if (queue->count == 0) {
        if (!queue->ended)
            return (pk_future){.state = PK_FUTURE_PENDING};
        return queue->failure ? pk_failed_with(queue->failure) : pk_done(NULL);
    }
    const void *message = queue->messages[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->count--;
    if (PK_UNLIKELY(queue->pushers != NULL))
        admit(queue);
    return pk_done(message);
}

static pk_future queue_take(pk_source *source)
{
    pk_queue *queue = (pk_queue *) source;
    pk_future now = pop(queue);
    if (PK_LIKELY(now.state != PK_FUTURE_PENDING))
        return now;
    queue->lends = false;
    return pk_stream_wait(queue->call, &queue->wait);
}

static pk_future queue_next(pk_source *source)
{
    pk_queue *queue = (pk_queue *) source;
    let_go(queue, pk_steal(&queue->lent));
    pk_future now = pop(queue);
    if (PK_LIKELY(now.state == PK_FUTURE_DONE)) {
        queue->lent = now.pointer;
        return now;
    }
    if (now.state == PK_FUTURE_FAILED)
        return now;
    queue->lends = true;
    return pk_stream_wait(queue->call, &queue->wait);
}

static void serve_waiting(pk_queue *queue)
{
    if (!pk_stream_is_awaited(&queue->wait))
        return;
    pk_future now = pop(queue);
    if (now.state == PK_FUTURE_PENDING)
        return;
    if (now.state == PK_FUTURE_DONE && queue->lends)
        queue->lent = now.pointer;
    pk_stream_settle(&queue->wait, now);
}

static void queue_give_back(pk_source *source, const void *message)
{
    let_go((pk_queue *) source, message);
}

/* What is left is released; a message that was taken is not ours any more. */
static void close_queue(void *arg)
{
    pk_queue *queue = arg;
    queue->closed = true;
    pk_stream_forget(&queue->wait);
    turn_away(queue);
    let_go(queue, pk_steal(&queue->lent));
    while (queue->count > 0) {
        let_go(queue, queue->messages[queue->first]);
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
    }
}

static void queue_cancel(pk_source *source)
{
    close_queue(source);
}

pk_queue *pk_queue_new(pk_call *call, size_t capacity, pk_queue_release *release, void *arg)
{
    if (capacity == 0 || capacity > CAPACITY_MAX)
        return NULL;
    pk_queue *queue = PK_OPERATOR(call, pk_queue);
    const void **messages = pk_arena_try(&call->scope.arena, capacity * sizeof *messages);
    if (!queue || !messages || pk_call_on_end(call, close_queue, queue) < 0)
        return NULL;
    *queue = (pk_queue){.source = {.next = queue_next,
                                   .take = queue_take,
                                   .give_back = queue_give_back,
                                   .cancel = queue_cancel},
                        .call = call,
                        .release = release,
                        .arg = arg,
                        .messages = messages,
                        .capacity = capacity};
    queue->last_pusher = &queue->pushers;
    return queue;
}

pk_source *pk_queue_source(pk_queue *queue)
{
    return queue ? &queue->source : &pk_source_no_memory;
}
