/*
 * A list of addresses in one block of memory, and the targets of channels that come down to one or
 * to a name.
 *
 * Used by the channel and its subchannels; resolves nothing and opens nothing.
 */
#ifndef PEKOE_TRANSPORT_ADDRESSES_H
#define PEKOE_TRANSPORT_ADDRESSES_H

#include <pekoe/base.h>

#include "core/memory.h"

typedef struct pk_addresses {
    size_t count;
    size_t size; /* of the block */
    const char *items[];
} pk_addresses;

/* A copy of the list and its texts. NULL without memory. */
pk_addresses *pk_addresses_new(pk_memory *memory, const char *const *items, size_t count);

/* Takes NULL; returns NULL. */
pk_addresses *pk_addresses_free(pk_memory *memory, pk_addresses *addresses);

/* What pk_channel_new was given. */
typedef struct pk_target {
    const char
        *list; /* addresses with commas between them, or one name; within the target's text */
    bool name; /* it is "name:port", to be resolved */
    bool is_unix;
} pk_target;

/* 0, or PK_ERR_INVALID for a text that is no target. */
PK_NODISCARD int pk_target_parse(const char *text, pk_target *ret_target);

/* The addresses of a target that is no name. NULL without memory. */
pk_addresses *pk_target_addresses(pk_memory *memory, const pk_target *target);

#endif
