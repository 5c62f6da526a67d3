/* Running the rest of a call: see chain.h. */
#include "handlers/chain.h"

#include "core/status.h"

struct pk_chain *pk_chain_new(pk_call *call, size_t size, const struct pk_interception *entries,
                              size_t count)
{
    struct pk_chain *chain =
        pk_arena_try(&call->scope.arena, size + count * sizeof(struct pk_next));
    if (PK_UNLIKELY(!chain))
        return NULL;
    chain->call = call;
    chain->entries = entries;
    chain->count = count;
    chain->nexts = (struct pk_next *) (void *) ((char *) chain + size);
    for (size_t i = 0; i < count; i++)
        chain->nexts[i] = (struct pk_next){.chain = chain, .used = false};
    return chain;
}

const void *pk_next_request(const pk_next *next)
{
    return next->chain->request;
}

/* Why the rest cannot be run; NULL: it can. */
static const pk_status *obstacle(const pk_next *next)
{
    static const pk_status twice = {
        PK_INTERNAL, PK_SLICE("an interceptor has run the rest of its call twice"), {NULL, 0}};
    const pk_call *call = next->chain->call;
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return call->scope.cancelled ? call->scope.cancelled : &call->end_status;
    if (PK_UNLIKELY(call->scope.arena.exhausted)) /* what it is asked with may be scratch */
        return &pk_status_no_memory;
    return PK_UNLIKELY(next->used) ? &twice : NULL;
}

pk_future pk_next_run(pk_next *next)
{
    const pk_status *why = obstacle(next);
    if (PK_UNLIKELY(why != NULL))
        return pk_failed_with(why);
    next->used = true;
    struct pk_chain *chain = next->chain;
    size_t following = (size_t) (next - chain->nexts) + 1;
    if (following == chain->count)
        return chain->last(chain);
    const struct pk_interception *entry = &chain->entries[following];
    return entry->fn(entry->self, chain->call, &chain->nexts[following]);
}

pk_future pk_next_run_with(pk_next *next, const void *request)
{
    static const pk_status wrong = {
        PK_INTERNAL, PK_SLICE("an interceptor has given another type of request"), {NULL, 0}};
    struct pk_chain *chain = next->chain;
    if (!chain->request || !pk_chain_fits(chain->call->method->request, request))
        return pk_failed_with(&wrong);
    if (!obstacle(next))
        chain->request = request;
    return pk_next_run(next);
}
