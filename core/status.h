/*
 * Statuses made from printed text, for the library's own failures.
 *
 * Without memory the code stays and the message is empty: a failure is never lost.
 */
#ifndef PEKOE_CORE_STATUS_H
#define PEKOE_CORE_STATUS_H

#include <pekoe/status.h>

#include "core/arena.h"

#include <stdarg.h>

/* A status with a printed message in the arena and no details. */
pk_status pk_status_print(pk_arena *arena, pk_code code, const char *format, ...) PK_PRINTF(3, 4);
pk_status pk_status_print_list(pk_arena *arena, pk_code code, const char *format, va_list list)
    PK_PRINTF(3, 0);

/* A status with a static message. */
#define PK_STATUS(code, literal) ((pk_status){(code), PK_SLICE(literal), {NULL, 0}})

/* A copy of a status and its texts in the arena. */
pk_status pk_status_copy(pk_arena *arena, const pk_status *status);

#endif
