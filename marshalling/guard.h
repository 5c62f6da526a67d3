/*
 * libprotobuf-c's unpack behind guards, for types without a slab decoder.
 *
 * protobuf-c recurses without a limit, asks for memory without a limit and does not look at UTF-8.
 * Here the input is walked first, against the descriptors, and memory comes from the arena, charged
 * to a budget. Its other faults remain; docs/messages.md lists them.
 */
#ifndef PEKOE_MARSHALLING_GUARD_H
#define PEKOE_MARSHALLING_GUARD_H

#include <pekoe/message.h>

#include "core/arena.h"

/* As pk_message_decode; the result's memory is the arena's and is not to be freed. */
PK_NODISCARD int pk_guarded_unpack(const pk_message_type *type, pk_arena *arena, size_t budget,
                                   unsigned depth, const uint8_t *bytes, size_t length,
                                   void **ret_message, const char **ret_problem);

#endif
