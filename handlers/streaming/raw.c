/*
 * Raw calls on the server's side, and what both sides say of their encodings: see <pekoe/raw.h>.
 *
 * The handler's method row has neither path nor types: the router takes it for every path that no
 * service has, and the streams hand their bytes on as they are.
 */
#include "handlers/client_call.h"
#include "handlers/router.h"
#include "handlers/streaming/stream.h"

#include <string.h>

static pk_future invoke_raw(const void *impl, void *self, pk_call *call, const void *request,
                            pk_reader *in, pk_writer *out)
{
    return ((const pk_router *) impl)->raw(self, call, in, out);
}

static const pk_method raw_method = {
    .invoke = invoke_raw, .serve = pk_serve_streaming, .style = PK_BIDI_STREAMING};

void pk_router_set_raw(pk_router *router, pk_raw_handler *handler, void *self)
{
    router->raw = handler;
    router->generic = NULL;
    router->fallback =
        (struct pk_route){.method = handler ? &raw_method : NULL, .impl = router, .self = self};
    pk_wrapping_put_fallback(router);
}

const char *pk_call_protocol(const pk_call *call)
{
    return call->protocol->name;
}

/* ---- Encodings ---- */

static bool is_printable(pk_slice value)
{
    for (size_t i = 0; i < value.length; i++)
        if (value.bytes[i] < 0x20 || value.bytes[i] > 0x7e)
            return false;
    return true;
}

static int add(pk_metadata *headers, pk_slice name, pk_slice value)
{
    if (value.length == 0)
        return 0;
    const char *copy = pk_arena_copy(headers->arena, value.bytes, value.length);
    return pk_metadata_add_slice(headers, name, (pk_slice){(const uint8_t *) copy, value.length});
}

int pk_stream_add_encodings(pk_metadata *headers, const pk_encodings *encodings)
{
    if (!is_printable(encodings->message) || !is_printable(encodings->accepted))
        return PK_ERR_INVALID;
    int r = add(headers, PK_SLICE("grpc-encoding"), encodings->message);
    return r < 0 ? r : add(headers, PK_SLICE("grpc-accept-encoding"), encodings->accepted);
}

int pk_call_set_encodings(pk_call *call, const pk_encodings *encodings)
{
    if (call->client || !pk_call_is_open(call))
        return PK_ERR_STATE;
    return pk_stream_add_encodings(&call->headers, encodings);
}

static pk_slice value_of(const pk_metadata *metadata, pk_field_name name)
{
    for (size_t i = 0; i < metadata->count; i++)
        if (metadata->fields[i].known == name)
            return metadata->fields[i].value;
    return (pk_slice){NULL, 0};
}

pk_encodings pk_call_received_encodings(pk_call *call)
{
    const pk_metadata *head = &call->metadata;
    if (call->client && !call->client->headed)
        head = &call->client->received_trailers;
    return (pk_encodings){value_of(head, PK_FIELD_GRPC_ENCODING),
                          value_of(head, PK_FIELD_GRPC_ACCEPT_ENCODING)};
}
