/* The filters of raw streams, which go through no codec: see filter.c. */
#ifndef PEKOE_HANDLERS_FILTER_H
#define PEKOE_HANDLERS_FILTER_H

#include "handlers/call.h"

/* Whether it has filters of what is read (of what is written). */
bool pk_filter_sees_raw(const pk_call *call, bool read);

/*
 * Has the call's filters see a pk_raw_message, which *message then is, or is what they put in its
 * place. PK_ERR_LIMIT with *ret_status, which lives as long as the call, where one refuses it.
 */
PK_NODISCARD int pk_filter_raw(pk_call *call, bool read, const void **message,
                               pk_status *ret_status);

#endif
