/* Heads, trailers and messageless replies of the gRPC family: see protocol_fields.h. */
#include "marshalling/protocol_fields.h"

#include <string.h>

static pk_field named(pk_slice name, pk_slice value)
{
    return (pk_field){.name = name, .value = value};
}

static size_t metadata_count(const pk_metadata *metadata)
{
    return metadata ? metadata->count : 0;
}

/* Copies the application's fields; returns where the next one goes. */
static pk_field *put_metadata(pk_field *at, const pk_metadata *metadata)
{
    size_t count = metadata_count(metadata);
    if (count > 0)
        memcpy(at, metadata->fields, count * sizeof *at);
    return at + count;
}

static pk_slice names_of(const pk_compressor_set *set)
{
    return (pk_slice){(const uint8_t *) set->names, set->names_length};
}

static pk_slice name_of(const pk_compressor *compressor)
{
    return (pk_slice){(const uint8_t *) compressor->name, strlen(compressor->name)};
}

pk_fields pk_protocol_make_head_fields(const pk_protocol *self, const pk_encoding *encoding,
                                       bool compressed, const pk_metadata *headers)
{
    size_t more = metadata_count(headers);
    pk_field *fields = pk_arena_try(encoding->arena, (3 + more) * sizeof *fields);
    if (!fields)
        return (pk_fields){NULL, 0};
    pk_field *at = fields;
    *at++ = self->head_fields[0];
    if (compressed)
        *at++ = named(PK_SLICE("grpc-encoding"), name_of(encoding->compressor));
    if (encoding->tell_encodings)
        *at++ = named(PK_SLICE("grpc-accept-encoding"), names_of(encoding->compressors));
    at = put_metadata(at, headers);
    return (pk_fields){fields, (size_t) (at - fields)};
}

pk_fields pk_protocol_make_trailer_fields(const pk_encoding *encoding, const pk_status *status,
                                          const pk_metadata *trailers)
{
    size_t more = metadata_count(trailers);
    bool is_ok = !status || status->code == PK_OK;
    if (more == 0 && is_ok && (!status || status->details.length == 0))
        return (pk_fields){&pk_status_field_ok, 1};
    pk_field *fields =
        pk_arena_try(encoding->arena, (PK_STATUS_FIELDS_MAX + more) * sizeof *fields);
    if (!fields)
        return (pk_fields){NULL, 0};
    size_t count = 1;
    if (status)
        count = pk_status_write_fields(status, encoding->arena, fields);
    else
        fields[0] = pk_status_field_ok;
    put_metadata(fields + count, trailers);
    return (pk_fields){fields, count + more};
}

pk_code pk_protocol_reply_status(const pk_protocol *self, const pk_encoding *encoding,
                                 const pk_outcome *outcome, pk_reply *ret_reply)
{
    static const pk_status ok = {PK_OK, {NULL, 0}, {NULL, 0}};
    const pk_status *status = outcome->status ? outcome->status : &ok;
    size_t most = 2 + PK_STATUS_FIELDS_MAX + metadata_count(outcome->headers) +
                  metadata_count(outcome->trailers);
    pk_field *fields = pk_arena_try(encoding->arena, most * sizeof *fields);
    if (!fields) {
        pk_protocol_reply_no_memory(self, ret_reply);
        return PK_RESOURCE_EXHAUSTED;
    }
    pk_field *at = fields;
    *at++ = self->head_fields[0];
    at += pk_status_write_fields(status, encoding->arena, at);
    if (encoding->tell_encodings)
        *at++ = named(PK_SLICE("grpc-accept-encoding"), names_of(encoding->compressors));
    at = put_metadata(at, outcome->headers);
    at = put_metadata(at, outcome->trailers);
    *ret_reply = (pk_reply){
        .http_status = outcome->http_status ? outcome->http_status : 200,
        .fields = fields,
        .field_count = (size_t) (at - fields),
    };
    return status->code;
}

pk_fields pk_protocol_head(const pk_protocol *self, const pk_encoding *encoding,
                           const pk_metadata *headers)
{
    return pk_protocol_head_fields(self, encoding, encoding->compressor != NULL, headers);
}

int pk_protocol_message(const pk_protocol *self, const pk_encoding *encoding,
                        const pk_message_type *type, const void *message, pk_buffer **ret_buffer,
                        pk_status *ret_status)
{
    bool compressed;
    return pk_marshal(encoding, type, message, &pk_protocol_envelope, (pk_slice){NULL, 0},
                      ret_buffer, &compressed, ret_status);
}

const pk_status *pk_protocol_refusal(const pk_outcome *outcome)
{
    static const pk_status no_message = {
        PK_INTERNAL, PK_SLICE("the handler ended without a message"), {NULL, 0}};
    if (PK_UNLIKELY(outcome->status && outcome->status->code != PK_OK))
        return outcome->status;
    return outcome->message ? NULL : &no_message;
}

/* ---- Client ---- */

#define REQUEST_FIELDS 9u /* of every protocol, without `own` and the application's */

pk_fields pk_protocol_request_head(const pk_protocol *self, const pk_encoding *encoding,
                                   const pk_request_target *target, const pk_metadata *headers,
                                   const pk_field *own, size_t own_count)
{
    size_t most = REQUEST_FIELDS + own_count + metadata_count(headers);
    pk_field *fields = pk_arena_try(encoding->arena, most * sizeof *fields);
    if (!fields)
        return (pk_fields){NULL, 0};
    pk_field *at = fields;
    *at++ = named(PK_SLICE(":method"), PK_SLICE("POST"));
    *at++ = named(PK_SLICE(":scheme"), target->scheme);
    *at++ = named(PK_SLICE(":path"), target->path);
    *at++ = named(PK_SLICE(":authority"), target->authority);
    memcpy(at, own, own_count * sizeof *at);
    at += own_count;
    *at++ = named(PK_SLICE("content-type"), self->content_type);
    if (target->user_agent.length > 0)
        *at++ = named(PK_SLICE("user-agent"), target->user_agent);
    if (target->timeout != UINT64_MAX) {
        uint8_t *text = pk_arena_try(encoding->arena, PK_TIMEOUT_LENGTH_MAX);
        if (!text)
            return (pk_fields){NULL, 0};
        size_t length = pk_timeout_print(text, target->timeout);
        *at++ = named(PK_SLICE("grpc-timeout"), (pk_slice){text, length});
    }
    if (encoding->compressor)
        *at++ = named(PK_SLICE("grpc-encoding"), name_of(encoding->compressor));
    if (encoding->compressors && encoding->compressors->count > 0)
        *at++ = named(PK_SLICE("grpc-accept-encoding"), names_of(encoding->compressors));
    at = put_metadata(at, headers);
    return (pk_fields){fields, (size_t) (at - fields)};
}

/* Three digits; 0 where there are none. */
static unsigned http_status_of(const pk_head *head)
{
    pk_slice value = pk_head_value(head, PK_FIELD_STATUS);
    unsigned status = 0;
    if (value.length != 3)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        unsigned digit = (unsigned) value.bytes[i] - '0';
        if (digit > 9)
            return 0;
        status = status * 10 + digit;
    }
    return status;
}

bool pk_protocol_response_head(const pk_protocol *self, const pk_head *head, bool ended,
                               pk_arena *arena, pk_status *ret_status)
{
    unsigned http_status = http_status_of(head);
    pk_slice content_type = pk_head_value(head, PK_FIELD_CONTENT_TYPE);
    bool is_ours = pk_protocol_of_response(self, head) != NULL;
    if ((ended || http_status != 200) &&
        pk_status_read_fields(head->fields, head->count, arena, ret_status))
        return true;
    if (http_status == 200 && is_ours && !ended)
        return false;
    pk_code code = pk_code_from_http(http_status);
    if (http_status != 200)
        *ret_status =
            pk_status_print(arena, code, "the server answered with HTTP status %u", http_status);
    else if (!is_ours)
        *ret_status = pk_status_print(arena, code, "the server answered with content-type \"%.*s\"",
                                      content_type.length < 100 ? (int) content_type.length : 100,
                                      content_type.bytes ? (const char *) content_type.bytes : "");
    else
        *ret_status = PK_STATUS(PK_UNKNOWN, "the response has ended without a status");
    return true;
}

void pk_protocol_response_end(const pk_protocol *self, const pk_head *head, const pk_head *trailers,
                              const pk_body_reader *reader, pk_arena *arena, pk_status *ret_status)
{
    if (self->trailers_in_body && (reader->kind & PK_BODY_OVER) &&
        pk_status_read_fields(reader->trailers.fields, reader->trailers.count, arena, ret_status))
        return;
    if (trailers && pk_status_read_fields(trailers->fields, trailers->count, arena, ret_status))
        return;
    if (pk_status_read_fields(head->fields, head->count, arena, ret_status))
        return;
    *ret_status = PK_STATUS(PK_UNKNOWN, "the response has ended without a status");
}
