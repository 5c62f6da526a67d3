/*
 * Health checking: see pekoe/health.h. An ordinary service on the public interface.
 *
 * What is known of a service is an entry; a call that watches hangs on the entry, also of a service
 * that nobody has set yet. Such an entry goes with the last call that watches it, so a peer cannot
 * fill memory with names.
 */
#include <pekoe/health.h>

#include "core/loop.h"
#include "grpc/health/v1/health.pekoe.h"

#include <assert.h>
#include <string.h>

#define BUCKETS 64u
#define STATUS_NEVER_SENT (-1)

struct entry {
    struct entry *next, **previous; /* in its bucket */
    struct watcher *watchers;
    Grpc__Health__V1__HealthCheckResponse__ServingStatus status;
    bool set; /* by the program; else it is here for those that watch */
    size_t size;
    char name[];
};

/* A call that watches. Its memory goes when the call has ended. */
struct watcher {
    struct watcher *next, **previous; /* of the entry */
    pk_health *health;
    struct entry *entry;
    pk_call *call;
    pk_writer *out;
    pk_promise *changed; /* what it waits for; NULL while it writes */
    int sent;            /* the last status that it was told */
};

struct pk_health {
    pk_loop *loop;
    struct entry *buckets[BUCKETS];
    bool stopped;
};

/* ---- Entries ---- */

static struct entry **bucket_of(pk_health *health, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t) *at) * 16777619u;
    return &health->buckets[hash % BUCKETS];
}

static struct entry *find(pk_health *health, const char *name)
{
    struct entry *entry = *bucket_of(health, name);
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

/* The entry of a service, made at need. NULL without memory. */
static struct entry *require(pk_health *health, const char *name)
{
    struct entry *entry = find(health, name);
    if (entry)
        return entry;
    size_t length = strlen(name) + 1, size = sizeof *entry + length;
    entry = pk_memory_get(&health->loop->memory, size);
    if (!entry)
        return NULL;
    struct entry **bucket = bucket_of(health, name);
    *entry = (struct entry){
        .next = *bucket,
        .previous = bucket,
        .status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN,
        .size = size};
    memcpy(entry->name, name, length);
    if (entry->next)
        entry->next->previous = &entry->next;
    *bucket = entry;
    return entry;
}

static void forget(pk_health *health, struct entry *entry)
{
    *entry->previous = entry->next;
    if (entry->next)
        entry->next->previous = entry->previous;
    pk_memory_put(&health->loop->memory, entry, entry->size);
}

/* Lets the calls that watch look again. */
static void tell(struct entry *entry)
{
    for (struct watcher *watcher = entry->watchers; watcher; watcher = watcher->next) {
        if (watcher->changed)
            (void) pk_promise_done(pk_steal(&watcher->changed), NULL);
    }
}

/* ---- The service ---- */

static pk_future check(void *self, pk_call *call,
                       const Grpc__Health__V1__HealthCheckRequest *request)
{
    const struct entry *entry = find(self, request->service);
    if (!entry || !entry->set)
        return pk_failed(call, PK_NOT_FOUND, "unknown service");
    Grpc__Health__V1__HealthCheckResponse *response =
        grpc_health_v1_health_check_response_new(call);
    response->status = entry->status;
    return grpc_health_v1_health_check_response_done(response);
}

/* Sends what the peer has not been told, then waits. Of changes in between the last one counts. */
static pk_future watch_on(const void *unused, void *arg)
{
    struct watcher *watcher = arg;
    if (watcher->sent != (int) watcher->entry->status) {
        watcher->sent = (int) watcher->entry->status;
        Grpc__Health__V1__HealthCheckResponse response =
            GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        response.status = watcher->entry->status;
        pk_future written = grpc_health_v1_health_check_response_write(watcher->out, &response);
        return pk_then(written, watch_on, watcher);
    }
    if (watcher->health->stopped)
        return pk_failed(watcher->call, PK_UNAVAILABLE, "the server stops");
    watcher->changed = pk_promise_new(pk_call_scope(watcher->call));
    return pk_then(pk_promise_future(watcher->changed), watch_on, watcher);
}

static void stop_watching(void *arg)
{
    struct watcher *watcher = arg;
    pk_health *health = watcher->health;
    if (watcher->changed)
        (void) pk_promise_done(pk_steal(&watcher->changed), NULL);
    *watcher->previous = watcher->next;
    if (watcher->next)
        watcher->next->previous = watcher->previous;
    if (!watcher->entry->set && !watcher->entry->watchers)
        forget(health, watcher->entry);
    pk_memory_put(&health->loop->memory, watcher, sizeof *watcher);
}

static pk_future watch(void *self, pk_call *call,
                       const Grpc__Health__V1__HealthCheckRequest *request, pk_writer *out)
{
    pk_health *health = self;
    pk_memory *memory = &health->loop->memory;
    struct watcher *watcher = pk_memory_get(memory, sizeof *watcher);
    struct entry *entry = watcher ? require(health, request->service) : NULL;
    if (!entry) {
        pk_memory_put(memory, watcher, sizeof *watcher);
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "out of memory");
    }
    *watcher = (struct watcher){.next = entry->watchers,
                                .previous = &entry->watchers,
                                .health = health,
                                .entry = entry,
                                .call = call,
                                .out = out,
                                .sent = STATUS_NEVER_SENT};
    if (watcher->next)
        watcher->next->previous = &watcher->next;
    entry->watchers = watcher;
    if (pk_call_on_end(call, stop_watching, watcher) < 0) {
        stop_watching(watcher);
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "out of memory");
    }
    return watch_on(NULL, watcher);
}

/* ---- What the program says ---- */

int pk_health_set(pk_health *health, const char *service, pk_health_status status)
{
    pk_assert_owner(health->loop);
    if (health->stopped)
        return PK_ERR_STATE;
    struct entry *entry = require(health, service);
    if (!entry)
        return PK_ERR_NOMEM;
    entry->set = true;
    entry->status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus) status;
    tell(entry);
    return 0;
}

void pk_health_stop(pk_health *health)
{
    pk_assert_owner(health->loop);
    health->stopped = true;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct entry *entry = health->buckets[i]; entry; entry = entry->next) {
            if (entry->set)
                entry->status =
                    GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
            tell(entry);
        }
    }
}

int pk_health_route(pk_health *health, pk_router *router)
{
    static const grpc_health_v1_health_impl impl = {.check = check, .watch = watch};
    return grpc_health_v1_health_route(router, &impl, health);
}

int pk_health_new(pk_health **ret_health, pk_loop *loop)
{
    pk_assert_owner(loop);
    pk_health *health = pk_memory_get(&loop->memory, sizeof *health);
    if (!health)
        return PK_ERR_NOMEM;
    *health = (pk_health){.loop = loop};
    int r = pk_health_set(health, "", PK_HEALTH_SERVING);
    if (r < 0) {
        pk_health_free(health);
        return r;
    }
    *ret_health = health;
    return 0;
}

pk_health *pk_health_free(pk_health *health)
{
    if (!health)
        return NULL;
    pk_assert_owner(health->loop);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (health->buckets[i]) {
            assert(!health->buckets[i]->watchers && "health is freed after its calls");
            forget(health, health->buckets[i]);
        }
    }
    pk_memory_put(&health->loop->memory, health, sizeof *health);
    return NULL;
}
