/*
 * The access log: one line for each call, as text or JSON.
 *
 * All threads share one file, opened for appending; each gathers lines of its own and writes them
 * whole. A file that was moved away is opened again by name.
 */
#ifndef PEKOE_GATEWAY_ACCESS_LOG_H
#define PEKOE_GATEWAY_ACCESS_LOG_H

#include "gateway/config.h"
#include "gateway/forward.h"

typedef struct gateway_access_log {
    int fd; /* stays the same number when the file is opened again */
} gateway_access_log;

/* `file` as gateway_config.access_log. Negative: PK_ERR_SYSTEM, errno says why. */
PK_NODISCARD int gateway_access_log_open(gateway_access_log *log, const char *file);
PK_NODISCARD int gateway_access_log_reopen(gateway_access_log *log, const char *file);
/* Whether it can be opened; makes no file. 0, or negative as above. */
PK_NODISCARD int gateway_access_log_check(const char *file);

void gateway_access_log_close(gateway_access_log *log);

/* Lines of one thread that were not written yet. */
typedef struct gateway_log_buffer {
    gateway_access_log *log;
    size_t length;
    char bytes[16384];
} gateway_log_buffer;

/* A call that has ended; everything is borrowed. */
typedef struct gateway_log_entry {
    const char *peer, *protocol, *method;
    pk_slice agent; /* what the caller's program calls itself; length 0: it does not */
    pk_slice trace; /* traceparent */
    const gateway_tally *tally;
    uint64_t nanoseconds;
} gateway_log_entry;

void gateway_access_log_add(gateway_log_buffer *buffer, gateway_log_format format,
                            const gateway_log_entry *entry);
void gateway_access_log_flush(gateway_log_buffer *buffer);

#endif
