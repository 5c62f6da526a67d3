/*
 * The status of a call: one of gRPC's 17 codes, a message for people, optional rich details.
 * Source: gRPC's doc/statuscodes.md and PROTOCOL-HTTP2.md.
 */
#ifndef PEKOE_STATUS_H
#define PEKOE_STATUS_H

#include <pekoe/base.h>

PK_BEGIN_DECLS

typedef enum pk_code {
    PK_OK = 0,
    PK_CANCELLED = 1,
    PK_UNKNOWN = 2,
    PK_INVALID_ARGUMENT = 3,
    PK_DEADLINE_EXCEEDED = 4,
    PK_NOT_FOUND = 5,
    PK_ALREADY_EXISTS = 6,
    PK_PERMISSION_DENIED = 7,
    PK_RESOURCE_EXHAUSTED = 8,
    PK_FAILED_PRECONDITION = 9,
    PK_ABORTED = 10,
    PK_OUT_OF_RANGE = 11,
    PK_UNIMPLEMENTED = 12,
    PK_INTERNAL = 13,
    PK_UNAVAILABLE = 14,
    PK_DATA_LOSS = 15,
    PK_UNAUTHENTICATED = 16,
} pk_code;

/*
 * A status lives where its owner says: in a call, or static. Whoever keeps one longer copies it.
 * `message` is UTF-8 and need not end in NUL; `details` is a serialized google.rpc.Status for the
 * grpc-status-details-bin trailer, empty for none.
 */
typedef struct pk_status {
    pk_code code;
    pk_slice message;
    pk_slice details;
} pk_status;

/* "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number that is no code. Static. */
PK_API const char *pk_code_name(pk_code code);

/* The code for an errno of a failed connect, read or write (ECONNREFUSED gives UNAVAILABLE). */
PK_API pk_code pk_code_from_errno(int error);

/* The code for an HTTP status where a reply carries no status of its own. */
PK_API pk_code pk_code_from_http(unsigned http_status);

/* The code that a local error turns into when it ends a call. */
PK_API pk_code pk_code_from_error(int error);

PK_END_DECLS

#endif
