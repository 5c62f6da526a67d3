/*
 * Cross-origin requests of web pages (the Fetch standard, "CORS protocol"): preflights are answered
 * here, and replies of calls say which page may read them.
 *
 * The router asks; whoever has no rules set pays one comparison per call. Knows no protocol.
 */
#ifndef PEKOE_HANDLERS_CORS_H
#define PEKOE_HANDLERS_CORS_H

#include <pekoe/service.h>

#include "core/exchange.h"

typedef struct pk_cors pk_cors;

/* PK_ERR_NOMEM, PK_ERR_INVALID (see pk_router_set_cors); *ret_cors is untouched then. */
PK_NODISCARD int pk_cors_new(pk_cors **ret_cors, pk_memory *memory, const pk_cors_opts *opts);
pk_cors *pk_cors_free(pk_cors *cors, pk_memory *memory);

/* Answers a preflight, which is an OPTIONS that asks for a method. False: it is none. */
bool pk_cors_answer_preflight(const pk_cors *cors, pk_exchange *exchange, const pk_head *head);

/* Adds to the headers of a call's reply what its page needs. */
void pk_cors_mark(const pk_cors *cors, pk_call *call, const pk_head *head);

#endif
