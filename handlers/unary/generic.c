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
    if (PK_UNLIKELY(pk_unmarshal_in_line(&pk_codec_proto, NULL, type, bytes, &call->scope.arena,
                                         &message, &status) < 0))
        return pk_failed_status(call, &status);
    return pk_done(message);
}

/* No reply, or not the first: the buffer goes back at once, lest a call hold many. */
static __attribute__((noinline)) pk_future copy_encoded(pk_call *call, pk_buffer *buffer_take)
{
    pk_slice *bytes = pk_arena_try(&call->scope.arena, sizeof *bytes);
    uint8_t *copy = pk_arena_try(&call->scope.arena, pk_buffer_length(buffer_take));
    if (bytes && copy) {
        *bytes = (pk_slice){copy, pk_buffer_length(buffer_take)};
        memcpy(copy, buffer_take->start, bytes->length);
    }
    pk_buffer_unref(buffer_take);
    return bytes && copy ? pk_done(bytes) : pk_failed_with(&pk_status_no_memory);
}

pk_future pk_call_encode(pk_call *call, const pk_message_type *type, const void *message)
{
    pk_buffer *buffer;
    if (PK_UNLIKELY(!message))
        return pk_failed(call, PK_INTERNAL, "there is no message to encode");
    if (PK_UNLIKELY(pk_marshal_to_pool(&call->loop->buffers, &pk_codec_proto, type, message,
                                       (pk_slice){NULL, 0}, &buffer) < 0))
        return pk_failed(call, PK_INTERNAL, "%s cannot be encoded", type->name);
    if (PK_UNLIKELY(call->encoding.codec != &pk_codec_bytes || call->client || call->kept))
        return copy_encoded(call, buffer);
    /*
     * Most likely it is the reply, which needs no other copy then: see unary.c's answer. Its prefix
     * has room now, lest the bytes move when that is written, and be gone where they were.
     */
    if (PK_UNLIKELY(pk_buffer_room_before(buffer, PK_FRAME_PREFIX) < 0))
        return copy_encoded(call, buffer);
    call->kept = buffer;
    call->packed = (pk_slice){buffer->start, pk_buffer_length(buffer)};
    return pk_done(&call->packed);
}
