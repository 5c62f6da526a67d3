/*
 * map_parallel: several futures of fn at a time, results in the order of the messages.
 *
 * A ring of slots, oldest first. A slot holds a message from the moment it was taken until its
 * result was used. Slots are filled when the consumer asks and when something arrives while it
 * waits, never beyond the ring: that is the bound.
 */
#include "core/status.h"
#include "handlers/streaming/source.h"

#define PARALLELISM_MAX 1024u

enum slot_state {
    SLOT_RUNNING,
    SLOT_DONE,
    SLOT_FAILED,
};

struct parallel;

struct slot {
    struct parallel *parallel;
    const void *message;
    const void *outcome; /* the result, or the status */
    enum slot_state state;
};

struct parallel {
    pk_source source;
    struct pk_call_release release;
    pk_call *call;
    pk_source *from;
    pk_step *fn;
    void *arg;
    struct pk_stream_wait wait; /* the consumer's pending future */
    struct slot *slots;
    size_t capacity, first, count;
    bool lent;                /* the first slot's result is with the consumer */
    bool pulling;             /* a message is waited for */
    bool ended;               /* no message will come */
    const pk_status *failure; /* of the source before, after what came from it */
};

static void message_came(pk_future taken, void *arg);

static struct slot *slot_at(struct parallel *p, size_t place)
{
    return &p->slots[(p->first + place) % p->capacity];
}

static void drop_first(struct parallel *p)
{
    pk_source_give_back(p->from, slot_at(p, 0)->message);
    p->first = (p->first + 1) % p->capacity;
    p->count--;
}

/* ---- Towards the consumer ---- */

/* What the consumer gets right now; pending: nothing. */
static pk_future result_now(struct parallel *p)
{
    if (p->count == 0) {
        if (!p->ended)
            return (pk_future){.state = PK_FUTURE_PENDING};
        return p->failure ? pk_failed_with(p->failure) : pk_done(NULL);
    }
    const struct slot *first = slot_at(p, 0);
    if (first->state == SLOT_DONE)
        return pk_done(first->outcome);
    if (first->state == SLOT_FAILED)
        return pk_failed_with(first->outcome);
    return (pk_future){.state = PK_FUTURE_PENDING};
}

/* Settles the consumer's future, if it waits and there is something. */
static void serve_waiting(struct parallel *p)
{
    if (!pk_stream_is_awaited(&p->wait))
        return;
    pk_future now = result_now(p);
    if (now.state == PK_FUTURE_PENDING)
        return;
    p->lent = p->count > 0 && now.state == PK_FUTURE_DONE;
    pk_stream_settle(&p->wait, now);
}

/* ---- Towards the source ---- */

static void slot_settled(pk_future outcome, void *arg)
{
    struct slot *slot = arg;
    slot->state = outcome.state == PK_FUTURE_DONE && outcome.pointer ? SLOT_DONE : SLOT_FAILED;
    slot->outcome = outcome.pointer;
    static const pk_status nothing = {PK_INTERNAL, PK_SLICE("a mapped message is NULL"), {NULL, 0}};
    if (!outcome.pointer)
        slot->outcome = &nothing;
}

static void slot_settled_later(pk_future outcome, void *arg)
{
    struct slot *slot = arg;
    slot_settled(outcome, slot);
    serve_waiting(slot->parallel);
}

static void start(struct parallel *p, const void *message)
{
    struct slot *slot = slot_at(p, p->count++);
    *slot = (struct slot){.parallel = p, .message = message, .state = SLOT_RUNNING};
    pk_future mapped = p->fn(message, p->arg);
    if (PK_LIKELY(mapped.state != PK_FUTURE_PENDING))
        slot_settled(mapped, slot);
    else
        pk_await(&p->call->scope, mapped, slot_settled_later, slot);
}

/* A taken message, the end, or a failure of the source. */
static void arrived(struct parallel *p, pk_future taken)
{
    if (PK_UNLIKELY(p->ended)) { /* cancelled meanwhile */
        if (taken.state == PK_FUTURE_DONE)
            pk_source_give_back(p->from, taken.pointer);
    } else if (taken.state == PK_FUTURE_DONE && taken.pointer) {
        start(p, taken.pointer);
    } else {
        p->ended = true;
        p->failure = taken.state == PK_FUTURE_FAILED ? taken.pointer : NULL;
    }
}

/* Takes messages while there are slots and nothing has failed. */
static void fill(struct parallel *p)
{
    while (p->count < p->capacity && !p->ended && !p->pulling) {
        if (p->count > 0 && slot_at(p, 0)->state == SLOT_FAILED)
            return;
        pk_future taken = p->from->take(p->from);
        if (PK_UNLIKELY(taken.state == PK_FUTURE_PENDING)) {
            p->pulling = true;
            pk_await(&p->call->scope, taken, message_came, p);
            return;
        }
        arrived(p, taken);
    }
}

static void message_came(pk_future taken, void *arg)
{
    struct parallel *p = arg;
    p->pulling = false;
    arrived(p, taken);
    if (pk_stream_is_awaited(&p->wait))
        fill(p);
    serve_waiting(p);
}

/* ---- The source ---- */

static pk_future parallel_next(pk_source *source)
{
    struct parallel *p = (struct parallel *) source;
    if (p->lent) {
        p->lent = false;
        drop_first(p);
    }
    fill(p);
    pk_future now = result_now(p);
    if (PK_LIKELY(now.state != PK_FUTURE_PENDING)) {
        p->lent = p->count > 0 && now.state == PK_FUTURE_DONE;
        return now;
    }
    return pk_stream_wait(p->call, &p->wait);
}

/* What runs goes on, and what it works on stays as long as the call. */
static void parallel_cancel(pk_source *source)
{
    struct parallel *p = (struct parallel *) source;
    p->ended = true;
    pk_source_cancel(p->from);
}

/* Workers that were off-loaded may have used the messages until now. */
static void give_all_back(struct pk_call_release *release)
{
    struct parallel *p =
        (struct parallel *) ((char *) release - offsetof(struct parallel, release));
    while (p->count > 0)
        drop_first(p);
}

static void forget_wait(void *arg)
{
    pk_stream_forget(&((struct parallel *) arg)->wait);
}

static pk_future refuse(pk_source *source)
{
    static const pk_status refusal = {
        PK_INTERNAL,
        PK_SLICE("pk_source_map_parallel: wrong parallelism, or the source only lends"),
        {NULL, 0}};
    return pk_failed_with(&refusal);
}

pk_source *pk_source_map_parallel(pk_call *call, pk_source *from, pk_step *fn, void *arg,
                                  size_t parallelism)
{
    static pk_source refused = {.next = refuse, .take = refuse};
    if (!from->take || parallelism == 0 || parallelism > PARALLELISM_MAX)
        return &refused;
    struct parallel *p = PK_OPERATOR(call, struct parallel);
    struct slot *slots = pk_arena_try(&call->scope.arena, parallelism * sizeof *slots);
    if (!p || !slots || pk_call_on_end(call, forget_wait, p) < 0)
        return &pk_source_no_memory;
    *p = (struct parallel){.source = {.next = parallel_next, .cancel = parallel_cancel},
                           .release = {.fn = give_all_back},
                           .call = call,
                           .from = from,
                           .fn = fn,
                           .arg = arg,
                           .slots = slots,
                           .capacity = parallelism};
    pk_call_on_release(call, &p->release);
    return &p->source;
}
