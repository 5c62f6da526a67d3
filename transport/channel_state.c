/*
 * What all kinds of channels have in common: states and those who wait for a change, and the public
 * functions that each kind answers in its own way.
 */
#include "transport/channel_state.h"

#include "core/loop.h"

#include <string.h>

/* One pk_channel_changed. */
struct pk_channel_waiter {
    struct pk_channel_waiter *next;
    pk_promise *promise;
    pk_channel_state seen;
};

void pk_channel_set_state(pk_channel *channel, pk_channel_state next)
{
    if (channel->state == next)
        return;
    channel->state = next;
    struct pk_channel_waiter **place = &channel->waiters;
    while (*place) {
        struct pk_channel_waiter *waiter = *place;
        if (waiter->seen == next) {
            place = &waiter->next;
            continue;
        }
        *place = waiter->next;
        (void) pk_promise_done(waiter->promise, NULL);
        pk_memory_put(&channel->loop->memory, waiter, sizeof *waiter);
    }
}

pk_channel_state pk_channel_get_state(const pk_channel *channel)
{
    return channel->state;
}

pk_future pk_channel_changed(pk_channel *channel, pk_channel_state seen)
{
    pk_loop *loop = channel->loop;
    pk_assert_owner(loop);
    if (channel->state != seen)
        return pk_done(NULL);
    struct pk_channel_waiter *waiter = pk_memory_get(&loop->memory, sizeof *waiter);
    pk_promise *promise = waiter ? pk_promise_new(pk_loop_scope(loop)) : NULL;
    if (!promise) {
        pk_memory_put(&loop->memory, waiter, sizeof *waiter);
        return pk_promise_future(NULL);
    }
    *waiter = (struct pk_channel_waiter){channel->waiters, promise, seen};
    channel->waiters = waiter;
    return pk_promise_future(promise);
}

void pk_channel_connect(pk_channel *channel)
{
    pk_assert_owner(channel->loop);
    if (channel->ops->connect && !channel->freed)
        channel->ops->connect(channel);
}

void pk_channel_reset_backoff(pk_channel *channel)
{
    pk_assert_owner(channel->loop);
    if (channel->ops->reset_backoff && !channel->freed)
        channel->ops->reset_backoff(channel);
}

static size_t size_of(size_t count)
{
    return sizeof(struct pk_channel_interceptions) + count * sizeof(struct pk_interception);
}

int pk_channel_intercept(pk_channel *channel, pk_interceptor *fn, void *self)
{
    pk_assert_owner(channel->loop);
    pk_memory *memory = &channel->loop->memory;
    struct pk_channel_interceptions *old = channel->interceptions;
    size_t count = old ? old->count : 0;
    struct pk_channel_interceptions *all = pk_memory_get(memory, size_of(count + 1));
    if (!all)
        return PK_ERR_NOMEM;
    if (old)
        memcpy(all->entries, old->entries, count * sizeof *all->entries);
    all->entries[count] = (struct pk_interception){fn, self};
    all->count = count + 1;
    channel->interceptions = all;
    if (old)
        pk_memory_put(memory, old, size_of(count));
    return 0;
}

void pk_channel_done(pk_channel *channel)
{
    struct pk_channel_interceptions *all = pk_steal(&channel->interceptions);
    if (all)
        pk_memory_put(&channel->loop->memory, all, size_of(all->count));
}

pk_channel *pk_channel_free(pk_channel *channel)
{
    static const pk_status freed = {PK_UNAVAILABLE, PK_SLICE("the channel was freed"), {NULL, 0}};
    if (!channel)
        return NULL;
    pk_assert_owner(channel->loop);
    channel->freed = true;
    channel->references++;
    channel->ops->close(channel);
    while (channel->resting)
        channel->resting->failed(channel->resting, &freed);
    pk_channel_set_state(channel, PK_CHANNEL_SHUTDOWN);
    pk_channel_unref(channel);
    pk_channel_unref(channel);
    return NULL;
}
