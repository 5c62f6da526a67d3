/*
 * The inside of metadata: an array of fields, borrowed from a head or grown in an arena.
 *
 * A call makes one over its request's head without looking at a single field; keys are compared and
 * binary values decoded only when the application asks. What is to be sent is kept in the form in
 * which it is sent, so that an encoder copies the fields as they stand.
 */
#ifndef PEKOE_CORE_METADATA_H
#define PEKOE_CORE_METADATA_H

#include <pekoe/metadata.h>

#include "core/arena.h"
#include "core/exchange.h"

struct pk_metadata {
    const pk_field *fields; /* to be sent: names and values are in the arena */
    size_t count;
    size_t capacity; /* of the array in the arena; 0: nothing was added yet */
    bool received;   /* fields are borrowed and may not be added to */
    pk_arena *arena; /* decoded and added values */
};

/* Metadata over received fields, which must stay as long as it. */
static inline pk_metadata pk_metadata_over(const pk_field *fields, size_t count, pk_arena *arena)
{
    pk_metadata metadata = {fields, count, 0, true, arena};
    return metadata;
}

/* Empty metadata to be sent. */
static inline void pk_metadata_init(pk_metadata *metadata, pk_arena *arena)
{
    *metadata = (pk_metadata){NULL, 0, 0, false, arena};
}

/* Adds a value that need not end in NUL; `copied` false: both slices live as long as the arena. */
PK_NODISCARD int pk_metadata_add_slice(pk_metadata *metadata, pk_slice key, pk_slice value);

/*
 * What is shown of received metadata, as metadata that may be changed; the fields' text stays
 * borrowed. Nothing happens to what may be changed already. False without memory.
 */
PK_NODISCARD bool pk_metadata_unlock(pk_metadata *metadata);

/* Bytes that the fields take as peers count them: name, value and 32 for each (RFC 9113, 6.5.2). */
size_t pk_metadata_wire_size(const pk_field *fields, size_t count);

#endif
