/*
 * The generic handler: unary calls of any path as raw bytes, for proxies and tools.
 *
 * It is a method row like a generated one, without a path and without types: the router then takes
 * it for every path that no service has, and the message is a pk_slice both ways.
 */
#include "handlers/call.h"
#include "handlers/router.h"

static pk_future invoke_generic(const void *impl, void *self, pk_call *call, const void *request,
                                pk_reader *in, pk_writer *out)
{
    const pk_slice *bytes = request;
    return ((const pk_router *) impl)->generic(self, call, *bytes);
}

static const pk_method generic_method = {.invoke = invoke_generic, .serve = pk_serve_unary};

void pk_router_set_generic(pk_router *router, pk_generic_handler *handler, void *self)
{
    router->generic = handler;
    router->fallback =
        (struct pk_route){.method = handler ? &generic_method : NULL, .impl = router, .self = self};
}
