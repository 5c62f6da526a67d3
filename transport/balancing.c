/* Subchannels by policy: see balancing.h. */
#include "transport/balancing.h"

#include "core/loop.h"

#include <string.h>

#define FURTHER_IDLE_TICKS 30u /* a further connection goes after as many without a call */

static pk_memory *memory_of(const pk_balancer *balancer)
{
    return &balancer->host->connections.loop->memory;
}

int pk_balancer_init(pk_balancer *balancer, pk_subchannel_host *host, const char *policy)
{
    bool round_robin = policy && strcmp(policy, "round_robin") == 0;
    *balancer = (pk_balancer){.host = host, .round_robin = round_robin, .most = 1};
    host->reconnects = round_robin;
    return !policy || round_robin || strcmp(policy, "pick_first") == 0 ? 0 : PK_ERR_INVALID;
}

void pk_balancer_clear(pk_balancer *balancer)
{
    pk_memory *memory = memory_of(balancer);
    for (size_t i = 0; i < balancer->count; i++)
        pk_subchannel_free(balancer->all[i]);
    pk_memory_put(memory, balancer->all, balancer->capacity * sizeof(pk_subchannel *));
    pk_memory_put(memory, balancer->ready, balancer->capacity * sizeof(pk_subchannel *));
    balancer->all = balancer->ready = NULL;
    balancer->count = balancer->ready_count = balancer->first_count = balancer->capacity = 0;
}

/* Room for this many subchannels. */
static int reserve(pk_balancer *balancer, size_t capacity)
{
    pk_memory *memory = memory_of(balancer);
    size_t old = balancer->capacity * sizeof(pk_subchannel *);
    size_t size = capacity * sizeof(pk_subchannel *);
    if (size <= old)
        return 0;
    pk_subchannel **all = pk_memory_get(memory, size);
    pk_subchannel **ready = pk_memory_get(memory, size);
    if (!all || !ready) {
        pk_memory_put(memory, all, size);
        pk_memory_put(memory, ready, size);
        return PK_ERR_NOMEM;
    }
    if (old > 0) {
        memcpy(all, balancer->all, balancer->count * sizeof *all);
        memcpy(ready, balancer->ready, balancer->ready_count * sizeof *ready);
    }
    pk_memory_put(memory, balancer->all, old);
    pk_memory_put(memory, balancer->ready, old);
    balancer->all = all;
    balancer->ready = ready;
    balancer->capacity = capacity;
    return 0;
}

/* One more subchannel, for these addresses; NULL without memory. */
static pk_subchannel *add(pk_balancer *balancer, const char *const *addresses, size_t count)
{
    pk_memory *memory = memory_of(balancer);
    pk_addresses *copy = pk_addresses_new(memory, addresses, count);
    pk_subchannel *one = copy ? pk_subchannel_new(balancer->host, copy) : NULL;
    if (one)
        balancer->all[balancer->count++] = one;
    else
        pk_addresses_free(memory, copy);
    return one;
}

static int update_only(pk_balancer *balancer, const char *const *addresses, size_t count)
{
    if (balancer->count == 0) {
        int r = reserve(balancer, 1);
        if (r < 0)
            return r;
        if (!add(balancer, addresses, count))
            return PK_ERR_NOMEM;
    } else if (!balancer->all[0]->connection) {
        pk_addresses *copy = pk_addresses_new(memory_of(balancer), addresses, count);
        if (!copy)
            return PK_ERR_NOMEM;
        pk_subchannel_set_addresses(balancer->all[0], copy);
    }
    pk_subchannel_connect(balancer->all[0]);
    return 0;
}

static pk_subchannel *find(const pk_balancer *balancer, const char *address)
{
    for (size_t i = 0; i < balancer->count; i++) {
        pk_subchannel *one = balancer->all[i];
        if (!one->further && strcmp(one->addresses->items[0], address) == 0)
            return one;
    }
    return NULL;
}

static int update_each(pk_balancer *balancer, const char *const *addresses, size_t count)
{
    int r = reserve(balancer, balancer->count + count);
    if (r < 0)
        return r;
    for (size_t i = 0; i < balancer->count; i++)
        balancer->all[i]->found = false;
    for (size_t i = 0; i < count && r == 0; i++) {
        pk_subchannel *one = find(balancer, addresses[i]);
        if (!one)
            one = add(balancer, &addresses[i], 1);
        if (one)
            one->found = true;
        else
            r = PK_ERR_NOMEM;
    }
    for (size_t i = 0; i < balancer->count && r == 0; i++) {
        pk_subchannel *one = balancer->all[i];
        const pk_subchannel *first = one->further ? find(balancer, one->addresses->items[0]) : one;
        one->leaving = !first || !first->found;
    }
    return r;
}

int pk_balancer_update(pk_balancer *balancer, const char *const *addresses, size_t count)
{
    balancer->busy = true;
    int r = balancer->round_robin ? update_each(balancer, addresses, count)
                                  : update_only(balancer, addresses, count);
    balancer->busy = false;
    return r;
}

/* Whether those that stay can do without those that leave: one is ready, or all have failed. */
static bool leaving_may_go(const pk_balancer *balancer)
{
    bool all_failed = true;
    for (size_t i = 0; i < balancer->count; i++) {
        const pk_subchannel *one = balancer->all[i];
        if (!one->leaving && one->state == PK_CHANNEL_READY)
            return true;
        all_failed = all_failed && (one->leaving || one->further || one->failing);
    }
    return all_failed;
}

/* Appends those that are ready to their list: the further ones, or the others. */
static void add_ready(pk_balancer *balancer, bool further)
{
    for (size_t i = 0; i < balancer->count; i++) {
        pk_subchannel *one = balancer->all[i];
        if (one->state == PK_CHANNEL_READY && one->further == further)
            balancer->ready[balancer->ready_count++] = one;
    }
}

void pk_balancer_settle(pk_balancer *balancer)
{
    balancer->busy = true;
    for (size_t i = 0; balancer->round_robin && i < balancer->count; i++) {
        pk_subchannel *one = balancer->all[i];
        if (one->state == PK_CHANNEL_IDLE && !one->leaving && !one->further)
            pk_subchannel_connect(one);
    }
    bool may_go = leaving_may_go(balancer);
    size_t kept = 0;
    for (size_t i = 0; i < balancer->count; i++) {
        pk_subchannel *one = balancer->all[i];
        bool leaves = one->leaving && (may_go || one->state != PK_CHANNEL_READY);
        if (leaves || (one->further && one->state == PK_CHANNEL_IDLE))
            pk_subchannel_free(one);
        else
            balancer->all[kept++] = one;
    }
    balancer->count = kept;
    balancer->ready_count = 0;
    add_ready(balancer, false);
    balancer->first_count = balancer->ready_count;
    add_ready(balancer, true);
    balancer->busy = false;
}

/* How many subchannels are for the address of this one. */
static size_t count_beside(const pk_balancer *balancer, const pk_subchannel *one)
{
    const char *address = pk_subchannel_address(one);
    size_t count = 1;
    for (size_t i = 0; i < balancer->count; i++) {
        const pk_subchannel *other = balancer->all[i];
        if (other->further && strcmp(other->addresses->items[0], address) == 0)
            count++;
    }
    return count;
}

/* One that has lost its connection, and was not asked to connect while further ones go on. */
static pk_subchannel *find_idle(const pk_balancer *balancer)
{
    for (size_t i = 0; i < balancer->count; i++) {
        pk_subchannel *one = balancer->all[i];
        if (one->state == PK_CHANNEL_IDLE && !one->further && !one->leaving)
            return one;
    }
    return NULL;
}

/*
 * A new one for the address with the fewest. NULL: each has as many as it may have, one is on its
 * way or has just failed, or there is no memory.
 */
static pk_subchannel *add_further(pk_balancer *balancer)
{
    const pk_subchannel *beside = NULL;
    size_t fewest = balancer->most;
    for (size_t i = 0; i < balancer->count; i++) {
        const pk_subchannel *one = balancer->all[i];
        bool ready = one->state == PK_CHANNEL_READY;
        if (one->further && !ready)
            return NULL;
        if (one->further || one->leaving || !ready)
            continue;
        size_t count = count_beside(balancer, one);
        if (count < fewest) {
            fewest = count;
            beside = one;
        }
    }
    if (!beside || reserve(balancer, balancer->count + 1) < 0)
        return NULL;
    const char *address = pk_subchannel_address(beside);
    pk_subchannel *further = add(balancer, &address, 1);
    if (further)
        further->further = true;
    return further;
}

void pk_balancer_widen(pk_balancer *balancer)
{
    if (PK_LIKELY(balancer->most <= 1))
        return;
    pk_subchannel *one = find_idle(balancer);
    if (!one)
        one = add_further(balancer);
    if (!one)
        return;
    balancer->busy = true;
    pk_subchannel_connect(one);
    balancer->busy = false;
}

bool pk_balancer_narrow(pk_balancer *balancer)
{
    bool some = false;
    for (size_t i = balancer->first_count; i < balancer->ready_count; i++) {
        pk_subchannel *one = balancer->ready[i];
        if (one->connection && one->connection->idle > FURTHER_IDLE_TICKS)
            some = one->leaving = true;
    }
    return some;
}

pk_channel_state pk_balancer_state(const pk_balancer *balancer)
{
    if (balancer->ready_count > 0)
        return PK_CHANNEL_READY;
    if (!balancer->round_robin)
        return balancer->count > 0 ? balancer->all[0]->state : PK_CHANNEL_IDLE;
    for (size_t i = 0; i < balancer->count; i++) {
        if (!balancer->all[i]->failing && !balancer->all[i]->further)
            return PK_CHANNEL_CONNECTING;
    }
    return PK_CHANNEL_TRANSIENT_FAILURE;
}

const char *pk_balancer_failure(const pk_balancer *balancer)
{
    for (size_t i = balancer->count; i > 0; i--) {
        if (balancer->all[i - 1]->failure[0])
            return balancer->all[i - 1]->failure;
    }
    return "there is no address";
}

void pk_balancer_reset_backoff(pk_balancer *balancer)
{
    balancer->busy = true;
    for (size_t i = 0; i < balancer->count; i++)
        pk_subchannel_reset_backoff(balancer->all[i]);
    balancer->busy = false;
}
