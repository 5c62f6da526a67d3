/*
 * The interceptors around one call, in their order, and what they wrap: the same on both sides. The
 * server's side embeds a chain in router_chain.c, the client's in client_chain.c.
 */
#ifndef PEKOE_HANDLERS_CHAIN_H
#define PEKOE_HANDLERS_CHAIN_H

#include <pekoe/interceptor.h>

#include "core/interception.h"
#include "handlers/call.h"

struct pk_chain;

struct pk_next {
    struct pk_chain *chain;
    bool used;
};

struct pk_chain {
    pk_call *call;
    const void *request; /* as it stands: the last pk_next_run_with has changed it */
    const struct pk_interception *entries;
    size_t count;
    struct pk_next *nexts;                     /* one behind each entry, in the call */
    pk_future (*last)(struct pk_chain *chain); /* what they wrap */
};

/* Memory in the call for `size` bytes that begin with a chain of so many. NULL without. */
struct pk_chain *pk_chain_new(pk_call *call, size_t size, const struct pk_interception *entries,
                              size_t count);

/* Asks the outermost. */
static inline pk_future pk_chain_begin(struct pk_chain *chain)
{
    return chain->entries[0].fn(chain->entries[0].self, chain->call, &chain->nexts[0]);
}

/* Whether a message may stand where one of that type is expected. */
static inline bool pk_chain_fits(const pk_message_type *type, const void *message)
{
    return message &&
           (!type || ((const ProtobufCMessage *) message)->descriptor == type->descriptor);
}

#endif
