/*
 * What all kinds of channels have in common: states and those who wait for a change, and the public
 * functions that each kind answers in its own way.
 */
#include "transport/channel_state.h"

#include "core/loop.h"

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

int pk_channel_intercept(pk_channel *channel, pk_client_interceptor *fn, void *self)
{
    pk_assert_owner(channel->loop);
    struct pk_interception *one = pk_memory_get(&channel->loop->memory, sizeof *one);
    if (!one)
        return PK_ERR_NOMEM;
    *one = (struct pk_interception){.fn = fn, .self = self};
    struct pk_interception **place = &channel->interceptions;
    while (*place)
        place = &(*place)->next;
    *place = one;
    return 0;
}

void pk_channel_done(pk_channel *channel)
{
    while (channel->interceptions) {
        struct pk_interception *one = channel->interceptions;
        channel->interceptions = one->next;
        pk_memory_put(&channel->loop->memory, one, sizeof *one);
    }
}

pk_channel *pk_channel_free(pk_channel *channel)
{
    if (!channel)
        return NULL;
    pk_assert_owner(channel->loop);
    channel->freed = true;
    channel->references++;
    channel->ops->close(channel);
    pk_channel_set_state(channel, PK_CHANNEL_SHUTDOWN);
    pk_channel_unref(channel);
    pk_channel_unref(channel);
    return NULL;
}
