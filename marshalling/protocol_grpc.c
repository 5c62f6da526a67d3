/*
 * gRPC over HTTP/2: status and metadata in HTTP trailers, messages as they are.
 * Source: PROTOCOL-HTTP2.md.
 */
#include "marshalling/protocol_fields.h"

/* The one message of a reply, as pk_marshal; in the buffer that it was packed in, where it was. */
PK_INLINE int marshal(const pk_encoding *encoding, const pk_outcome *outcome, pk_buffer **ret_body,
                      bool *ret_compressed, pk_status *ret_failure)
{
    const pk_slice no_tail = {NULL, 0};
    if (PK_UNLIKELY(outcome->packed != NULL))
        return pk_marshal_finish(encoding, pk_buffer_ref(outcome->packed), &pk_protocol_envelope,
                                 no_tail, ret_body, ret_compressed, ret_failure);
    return pk_marshal_in_line(encoding, outcome->type, outcome->message, &pk_protocol_envelope,
                              no_tail, ret_body, ret_compressed, ret_failure);
}

static pk_code reply_unary(const pk_protocol *self, const pk_encoding *encoding,
                           const pk_outcome *outcome, pk_reply *ret_reply)
{
    const pk_status *refusal = pk_protocol_refusal(outcome);
    pk_status failure;
    bool compressed = false;
    pk_buffer *body = NULL;
    if (PK_LIKELY(!refusal) && marshal(encoding, outcome, &body, &compressed, &failure) < 0)
        refusal = &failure;
    if (PK_UNLIKELY(refusal)) {
        pk_outcome refused = *outcome;
        refused.status = refusal;
        return pk_protocol_reply_status(self, encoding, &refused, ret_reply);
    }
    pk_fields head = pk_protocol_head_fields(self, encoding, compressed, outcome->headers);
    pk_fields trailers = pk_protocol_trailer_fields(encoding, outcome->status, outcome->trailers);
    if (PK_UNLIKELY(!head.items || !trailers.items)) {
        pk_buffer_unref(body);
        pk_protocol_reply_no_memory(self, ret_reply);
        return PK_RESOURCE_EXHAUSTED;
    }
    *ret_reply = (pk_reply){
        .http_status = 200,
        .fields = head.items,
        .field_count = head.count,
        .body = body,
        .trailers = trailers.items,
        .trailer_count = trailers.count,
    };
    return PK_OK;
}

static void end(const pk_protocol *self, const pk_encoding *encoding, const pk_status *status,
                const pk_metadata *trailers, pk_protocol_end *ret_end)
{
    pk_fields fields = pk_protocol_trailer_fields(encoding, status, trailers);
    if (!fields.items)
        fields = (pk_fields){&pk_status_field_no_memory, 1};
    *ret_end = (pk_protocol_end){NULL, fields.items, fields.count};
}

static pk_fields request_head(const pk_protocol *self, const pk_encoding *encoding,
                              const pk_request_target *target, const pk_metadata *headers)
{
    static const pk_field own[] = {{.name = PK_SLICE("te"), .value = PK_SLICE("trailers")}};
    return pk_protocol_request_head(self, encoding, target, headers, own, 1);
}

#define NO_MEMORY                                               \
    {                                                           \
        .name = PK_SLICE("grpc-status"), .value = PK_SLICE("8") \
    }

#define VARIANT(symbol, type)                                                    \
    static const pk_field symbol##_fields[] = {                                  \
        {.name = PK_SLICE("content-type"), .value = PK_SLICE(type)}, NO_MEMORY}; \
    const pk_protocol symbol = {                                                 \
        .name = "grpc",                                                          \
        .family = PK_PROTOCOLS_GRPC,                                             \
        .content_type = PK_SLICE(type),                                          \
        .head_fields = symbol##_fields,                                          \
        .reply_unary = reply_unary,                                              \
        .reply_status = pk_protocol_reply_status,                                \
        .head = pk_protocol_head,                                                \
        .message = pk_protocol_message,                                          \
        .end = end,                                                              \
        .request_head = request_head,                                            \
        .response_head = pk_protocol_response_head,                              \
        .response_end = pk_protocol_response_end,                                \
    }

VARIANT(pk_protocol_grpc, "application/grpc");
VARIANT(pk_protocol_grpc_proto, "application/grpc+proto");
