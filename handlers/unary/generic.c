/*
 * The generic handler: unary calls of any path as raw bytes, for proxies and tools.
 *
 * It is a method row like a generated one, without a path and without types: the router then takes
 * it for every path that no service has, and the message is a pk_slice both ways.
 */
#include "handlers/call.h"
#include "handlers/router.h"

#include <string.h>

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
    router->raw = NULL;
    router->fallback =
        (struct pk_route){.method = handler ? &generic_method : NULL, .impl = router, .self = self};
    pk_wrapping_put_fallback(router);
}

pk_future pk_call_decode(pk_call *call, const pk_message_type *type, pk_slice bytes)
{
    const void *message;
    pk_status status;
    if (pk_unmarshal(&pk_codec_proto, NULL, type, bytes, &call->scope.arena, &message, &status) < 0)
        return pk_failed_status(call, &status);
    return pk_done(message);
}

pk_future pk_call_encode(pk_call *call, const pk_message_type *type, const void *message)
{
    pk_buffer *buffer;
    if (!message)
        return pk_failed(call, PK_INTERNAL, "there is no message to encode");
    if (pk_marshal_to_pool(&call->loop->buffers, &pk_codec_proto, type, message,
                           (pk_slice){NULL, 0}, &buffer) < 0)
        return pk_failed(call, PK_INTERNAL, "%s cannot be encoded", type->name);
    /* The buffer goes back at once: the bytes live as long as the call. */
    pk_slice *bytes = pk_call_alloc(call, sizeof *bytes);
    bytes->length = pk_buffer_length(buffer);
    bytes->bytes = pk_arena_get(&call->scope.arena, bytes->length);
    if (bytes->bytes)
        memcpy((uint8_t *) (uintptr_t) bytes->bytes, buffer->start, bytes->length);
    pk_buffer_unref(buffer);
    return bytes->bytes ? pk_done(bytes) : pk_failed_with(&pk_status_no_memory);
}
