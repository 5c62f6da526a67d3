/*
 * The router's way to a handler of plain HTTP: see <pekoe/http.h>.
 */
#ifndef PEKOE_HANDLERS_HTTP_H
#define PEKOE_HANDLERS_HTTP_H

#include <pekoe/http.h>

#include "core/exchange.h"

/* Has the handler answer the exchange. */
void pk_http_serve(pk_http_handler *handler, void *self, pk_exchange *exchange,
                   const pk_head *head);

#endif
