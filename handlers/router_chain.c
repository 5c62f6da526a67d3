/*
 * A server's interceptors. A method that has some becomes a row of its own, whose handler asks them
 * and then the real one: a method that has none is served as if there were no such thing.
 *
 * Rows are made when something is registered, never changed, and kept as long as the router, since
 * calls that go on may stand on them.
 */
#include "core/status.h"
#include "handlers/chain.h"
#include "handlers/router.h"

#include <string.h>

struct pk_wrapping {
    pk_method method;         /* first: what routes and calls have */
    struct pk_wrapping *next; /* in the router's list of all, or while several are being made */
    struct pk_route inside;   /* the route that it stands for */
    size_t own;               /* so many of them are the router's own; the others came by concat */
    size_t count;
    struct pk_interception entries[];
};

/* One call in it. */
struct wrapped_call {
    struct pk_chain chain;
    const struct pk_wrapping *wrapping;
    pk_reader *in;
    pk_writer *out;
};

/* ---- Calls ---- */

static pk_future invoke_inside(struct pk_chain *chain)
{
    const struct wrapped_call *wrapped = (const struct wrapped_call *) chain;
    const struct pk_route *inside = &wrapped->wrapping->inside;
    return inside->method->invoke(inside->impl, inside->self, chain->call, chain->request,
                                  wrapped->in, wrapped->out);
}

static pk_future invoke_wrapped(const void *impl, void *self, pk_call *call, const void *request,
                                pk_reader *in, pk_writer *out)
{
    const struct pk_wrapping *wrapping = impl;
    struct wrapped_call *wrapped = (struct wrapped_call *) pk_chain_new(
        call, sizeof *wrapped, wrapping->entries, wrapping->count);
    if (PK_UNLIKELY(!wrapped))
        return pk_failed_with(&pk_status_no_memory);
    wrapped->chain.request = request;
    wrapped->chain.last = invoke_inside;
    wrapped->wrapping = wrapping;
    wrapped->in = in;
    wrapped->out = out;
    return pk_chain_begin(&wrapped->chain);
}

/* ---- Rows ---- */

static size_t size_of(size_t count)
{
    return sizeof(struct pk_wrapping) + count * sizeof(struct pk_interception);
}

const struct pk_wrapping *pk_wrapping_of(const struct pk_route *route)
{
    return route->method && route->method->invoke == invoke_wrapped ? route->impl : NULL;
}

/*
 * One for a route: the router's own interceptors, `added` (may be NULL) behind them, and those that
 * `from` (may be NULL) has behind the first `skipped`.
 */
static struct pk_wrapping *make(const pk_router *router, const struct pk_interception *added,
                                const struct pk_wrapping *from, size_t skipped)
{
    size_t own = router->interception_count, all = own + (added ? 1 : 0);
    size_t inherited = from ? from->count - skipped : 0;
    struct pk_wrapping *wrapping = pk_memory_get(&router->loop->memory, size_of(all + inherited));
    if (!wrapping)
        return NULL;
    *wrapping = (struct pk_wrapping){.own = all, .count = all + inherited};
    if (own > 0)
        memcpy(wrapping->entries, router->interceptions, own * sizeof *wrapping->entries);
    if (added)
        wrapping->entries[own] = *added;
    if (inherited > 0)
        memcpy(wrapping->entries + all, from->entries + skipped,
               inherited * sizeof *wrapping->entries);
    return wrapping;
}

static void free_list(pk_router *router, struct pk_wrapping *list)
{
    while (list) {
        struct pk_wrapping *next = list->next;
        pk_memory_put(&router->loop->memory, list, size_of(list->count));
        list = next;
    }
}

/* Calls of the route go through the wrapping from now on. */
static void put_around(struct pk_route *route, struct pk_wrapping *wrapping)
{
    const struct pk_wrapping *old = pk_wrapping_of(route);
    wrapping->inside = old ? old->inside : *route;
    wrapping->method = *wrapping->inside.method;
    wrapping->method.invoke = invoke_wrapped;
    route->method = &wrapping->method;
    route->impl = wrapping;
    route->self = NULL;
}

bool pk_wrapping_is_needed(const pk_router *router, const struct pk_wrapping *from)
{
    return from || router->interception_count > 0;
}

int pk_wrapping_make(pk_router *router, const struct pk_wrapping *from, size_t count,
                     struct pk_wrapping **list)
{
    for (size_t i = 0; pk_wrapping_is_needed(router, from) && i < count; i++) {
        struct pk_wrapping *wrapping = make(router, NULL, from, 0);
        if (!wrapping) {
            free_list(router, pk_steal(list));
            return PK_ERR_NOMEM;
        }
        wrapping->next = *list;
        *list = wrapping;
    }
    return 0;
}

void pk_wrapping_put(pk_router *router, struct pk_route *route, struct pk_wrapping **list)
{
    struct pk_wrapping *wrapping = *list;
    *list = wrapping->next;
    wrapping->next = router->wrappings;
    router->wrappings = wrapping;
    put_around(route, wrapping);
}

void pk_wrapping_put_fallback(pk_router *router)
{
    if (router->fallback_wrapping && router->fallback.method)
        put_around(&router->fallback, router->fallback_wrapping);
}

void pk_wrapping_free_all(pk_router *router)
{
    free_list(router, router->wrappings);
    pk_memory_put(&router->loop->memory, router->interceptions,
                  router->interception_count * sizeof *router->interceptions);
}

/* ---- Registration ---- */

/* Wrappings for all routes and the fallback, the fallback's first. False without memory. */
static bool make_all(pk_router *router, const struct pk_interception *added,
                     struct pk_wrapping **ret_list)
{
    struct pk_wrapping *list = make(router, added, NULL, 0), *last = list;
    for (size_t i = 0; last && i < router->route_capacity; i++) {
        const struct pk_route *route = &router->routes[i];
        if (!route->method)
            continue;
        const struct pk_wrapping *old = pk_wrapping_of(route);
        last->next = make(router, added, old, old ? old->own : 0);
        last = last->next;
    }
    if (!last)
        free_list(router, list);
    *ret_list = list;
    return last != NULL;
}

int pk_router_intercept(pk_router *router, pk_interceptor *fn, void *self)
{
    pk_assert_owner(router->loop);
    pk_memory *memory = &router->loop->memory;
    const struct pk_interception added = {fn, self};
    size_t count = router->interception_count;
    struct pk_interception *own = pk_memory_get(memory, (count + 1) * sizeof *own);
    struct pk_wrapping *list;
    if (!own || !make_all(router, &added, &list)) {
        pk_memory_put(memory, own, (count + 1) * sizeof *own);
        return PK_ERR_NOMEM;
    }
    if (count > 0)
        memcpy(own, router->interceptions, count * sizeof *own);
    own[count] = added;
    pk_memory_put(memory, router->interceptions, count * sizeof *own);
    router->interceptions = own;
    router->interception_count = count + 1;
    router->fallback_wrapping = list;
    struct pk_wrapping *rest = list->next;
    list->next = router->wrappings;
    router->wrappings = list;
    pk_wrapping_put_fallback(router);
    for (size_t i = 0; i < router->route_capacity; i++) {
        if (router->routes[i].method)
            pk_wrapping_put(router, &router->routes[i], &rest);
    }
    return 0;
}
