/*
 * A status as header or trailer fields, and back: grpc-status, grpc-message and
 * grpc-status-details-bin. Source: PROTOCOL-HTTP2.md, "Responses". For the protocol files only.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_STATUS_H
#define PEKOE_MARSHALLING_PROTOCOL_STATUS_H

#include "core/exchange.h"
#include "core/status.h"

#define PK_STATUS_FIELDS_MAX 3u

/* grpc-status: 0 alone. */
extern const pk_field pk_status_field_ok;

/* What a static reply says when there was no memory for a better one. */
extern const pk_field pk_status_field_no_memory;

/*
 * Writes the fields of a status to `out` (PK_STATUS_FIELDS_MAX of them) and returns how many. Texts
 * go to the arena; those for which it has no memory are left out. A code that is none is UNKNOWN.
 */
size_t pk_status_write_fields(const pk_status *status, pk_arena *arena, pk_field *out);

/*
 * The status among received fields, its texts decoded into the arena or borrowed from the fields.
 * False where there is none. One that cannot be read is UNKNOWN and says so.
 */
bool pk_status_read_fields(const pk_field *fields, size_t count, pk_arena *arena,
                           pk_status *ret_status);

#endif
