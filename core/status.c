/*
 * Names of status codes and local errors, and the only maps between statuses and other numbers.
 */
#include "core/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

const char *pk_code_name(pk_code code)
{
    unsigned number = (unsigned) code;
    return code_names[number < sizeof code_names / sizeof *code_names ? number : PK_UNKNOWN];
}

const char *pk_error_text(int error)
{
    switch (error) {
    case 0:
        return "no error";
    case PK_ERR_NOMEM:
        return "out of memory";
    case PK_ERR_INVALID:
        return "invalid argument";
    case PK_ERR_STATE:
        return "not allowed in this state";
    case PK_ERR_LIMIT:
        return "a limit would be passed";
    case PK_ERR_MALFORMED:
        return "malformed input";
    case PK_ERR_CLOSED:
        return "closed by the other side";
    case PK_ERR_SYSTEM:
        return "a system call failed";
    case PK_ERR_UNSUPPORTED:
        return "not supported here";
    case PK_ERR_EXISTS:
        return "exists already";
    case PK_ERR_TOO_LATE:
        return "settled before";
    default:
        return "unknown error";
    }
}

/*
 * gRPC's library-made codes only: a socket file that is missing or closed to us means a server that
 * cannot be reached, and a client may retry that.
 */
pk_code pk_code_from_errno(int error)
{
    switch (error) {
    case 0:
        return PK_OK;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ESHUTDOWN:
    case ETIMEDOUT:
    case ENETDOWN:
    case ENETUNREACH:
    case ENETRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EADDRINUSE:
    case EAGAIN:
    case EINTR:
    case ENOENT:
    case EACCES:
    case EPERM:
        return PK_UNAVAILABLE;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
        return PK_RESOURCE_EXHAUSTED;
    case ECANCELED:
        return PK_CANCELLED;
    case EINVAL:
    case EBADF:
    case EFAULT:
    case ENOTSOCK:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return PK_INTERNAL;
    default:
        return PK_UNKNOWN;
    }
}

/* Source: gRPC's http-grpc-status-mapping.md. */
pk_code pk_code_from_http(unsigned http_status)
{
    switch (http_status) {
    case 400:
        return PK_INTERNAL;
    case 401:
        return PK_UNAUTHENTICATED;
    case 403:
        return PK_PERMISSION_DENIED;
    case 404:
        return PK_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return PK_UNAVAILABLE;
    default:
        return PK_UNKNOWN;
    }
}

pk_code pk_code_from_error(int error)
{
    switch (error) {
    case 0:
        return PK_OK;
    case PK_ERR_NOMEM:
    case PK_ERR_LIMIT:
        return PK_RESOURCE_EXHAUSTED;
    case PK_ERR_INVALID:
    case PK_ERR_STATE:
    case PK_ERR_MALFORMED:
    case PK_ERR_EXISTS:
        return PK_INTERNAL;
    case PK_ERR_CLOSED:
    case PK_ERR_SYSTEM:
        return PK_UNAVAILABLE;
    case PK_ERR_UNSUPPORTED:
        return PK_UNIMPLEMENTED;
    case PK_ERR_TOO_LATE:
        return PK_CANCELLED;
    default:
        return PK_UNKNOWN;
    }
}

pk_status pk_status_print_list(pk_arena *arena, pk_code code, const char *format, va_list list)
{
    char text[512]; /* longer ones are printed twice */
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(text, sizeof text, format, list);
    pk_status status = {code, {NULL, 0}, {NULL, 0}};
    if (length > 0) {
        size_t size = (size_t) length + 1;
        char *kept = pk_arena_try(arena, size);
        if (kept && size <= sizeof text)
            memcpy(kept, text, size);
        else if (kept)
            vsnprintf(kept, size, format, again);
        if (kept)
            status.message = (pk_slice){(const uint8_t *) kept, size - 1};
    }
    va_end(again);
    return status;
}

pk_status pk_status_print(pk_arena *arena, pk_code code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pk_status status = pk_status_print_list(arena, code, format, list);
    va_end(list);
    return status;
}

static pk_slice copy_slice(pk_arena *arena, pk_slice slice)
{
    uint8_t *copy = slice.length > 0 ? pk_arena_try(arena, slice.length) : NULL;
    if (!copy)
        return (pk_slice){NULL, 0};
    memcpy(copy, slice.bytes, slice.length);
    return (pk_slice){copy, slice.length};
}

pk_status pk_status_copy(pk_arena *arena, const pk_status *status)
{
    return (pk_status){status->code, copy_slice(arena, status->message),
                       copy_slice(arena, status->details)};
}
