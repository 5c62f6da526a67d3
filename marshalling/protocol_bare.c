/* The bare unary wire: see protocol_bare.h. */
#include "marshalling/protocol_bare.h"

#include "core/status.h"
#include "marshalling/frame.h"
#include "marshalling/protocol_bare_error.h"

#include <string.h>

#define TRAILER_PREFIX "trailer-"
#define MILLISECOND UINT64_C(1000000)

static pk_code connect_code(unsigned http_status)
{
    return pk_code_from_http(http_status);
}

static pk_code triple_code(unsigned http_status)
{
    switch (http_status) {
    case 400:
        return PK_INVALID_ARGUMENT;
    case 408:
        return PK_DEADLINE_EXCEEDED;
    case 412:
        return PK_FAILED_PRECONDITION;
    case 413:
    case 431:
        return PK_RESOURCE_EXHAUSTED;
    default:
        return pk_code_from_http(http_status);
    }
}

const pk_bare_style pk_bare_connect = {
    .name = "connect",
    .timeout_name = PK_SLICE("connect-timeout-ms"),
    .version_name = PK_SLICE("connect-protocol-version"),
    .version = PK_SLICE("1"),
    .http_status = {200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500,
                    401},
    .code = connect_code,
};

const pk_bare_style pk_bare_triple = {
    .name = "triple",
    .timeout_name = PK_SLICE("triple-timeout-ms"),
    .version_name = PK_SLICE("triple-protocol-version"),
    .version = PK_SLICE("0.1.0"),
    .http_status = {200, 408, 500, 400, 408, 404, 409, 403, 429, 412, 409, 400, 404, 500, 503, 500,
                    401},
    .code = triple_code,
};

static pk_field named(pk_slice name, pk_slice value)
{
    return (pk_field){.name = name, .value = value};
}

static pk_slice name_of(const pk_compressor *compressor)
{
    return (pk_slice){(const uint8_t *) compressor->name, strlen(compressor->name)};
}

static size_t count_of(const pk_metadata *metadata)
{
    return metadata ? metadata->count : 0;
}

/* "application/" and the codec's name, in the arena; static for proto. Empty without memory. */
static pk_slice content_type_of(const pk_encoding *encoding)
{
    static const char start[] = "application/";
    if (strcmp(encoding->codec->name, "proto") == 0)
        return PK_SLICE("application/proto");
    size_t length = strlen(encoding->codec->name);
    uint8_t *text = pk_arena_try(encoding->arena, sizeof start - 1 + length);
    if (!text)
        return (pk_slice){NULL, 0};
    memcpy(text, start, sizeof start - 1);
    memcpy(text + sizeof start - 1, encoding->codec->name, length);
    return (pk_slice){text, sizeof start - 1 + length};
}

/* ---- Writing ---- */

/* The application's trailers as headers; NULL where the arena has no memory for a name. */
static pk_field *put_trailers(pk_field *at, const pk_metadata *trailers, pk_arena *arena)
{
    for (size_t i = 0; i < count_of(trailers); i++) {
        pk_slice name = trailers->fields[i].name;
        uint8_t *prefixed = pk_arena_try(arena, sizeof TRAILER_PREFIX - 1 + name.length);
        if (!prefixed)
            return NULL;
        memcpy(prefixed, TRAILER_PREFIX, sizeof TRAILER_PREFIX - 1);
        memcpy(prefixed + sizeof TRAILER_PREFIX - 1, name.bytes, name.length);
        *at++ = named((pk_slice){prefixed, sizeof TRAILER_PREFIX - 1 + name.length},
                      trailers->fields[i].value);
    }
    return at;
}

/* content-type, content-encoding, accept-encoding and the application's; empty without memory. */
static pk_fields reply_fields(const pk_encoding *encoding, pk_slice content_type, bool compressed,
                              const pk_outcome *outcome)
{
    size_t most = 3 + count_of(outcome->headers) + count_of(outcome->trailers);
    pk_field *fields = pk_arena_try(encoding->arena, most * sizeof *fields);
    if (!fields || content_type.length == 0)
        return (pk_fields){NULL, 0};
    pk_field *at = fields;
    *at++ = named(PK_SLICE("content-type"), content_type);
    if (compressed)
        *at++ = named(PK_SLICE("content-encoding"), name_of(encoding->compressor));
    if (encoding->tell_encodings)
        *at++ = named(PK_SLICE("accept-encoding"),
                      (pk_slice){(const uint8_t *) encoding->compressors->names,
                                 encoding->compressors->names_length});
    for (size_t i = 0; i < count_of(outcome->headers); i++)
        *at++ = outcome->headers->fields[i];
    at = put_trailers(at, outcome->trailers, encoding->arena);
    if (!at)
        return (pk_fields){NULL, 0};
    return (pk_fields){fields, (size_t) (at - fields)};
}

/* What can be said without any memory: the HTTP status of an overload. */
static pk_code reply_no_memory(pk_buffer *body, pk_reply *ret_reply)
{
    pk_buffer_unref(body);
    *ret_reply = (pk_reply){.http_status = 429};
    return PK_RESOURCE_EXHAUSTED;
}

static pk_code reply_error(const pk_bare_style *style, const pk_encoding *encoding,
                           const pk_status *status, const pk_outcome *outcome, pk_reply *ret_reply)
{
    unsigned code = (unsigned) status->code <= PK_UNAUTHENTICATED ? (unsigned) status->code
                                                                  : (unsigned) PK_UNKNOWN;
    pk_buffer *body = pk_buffer_get(encoding->marshalling->buffers);
    if (!body)
        return reply_no_memory(NULL, ret_reply);
    pk_buffer_rewind_for_append(body, 0);
    pk_fields fields = reply_fields(encoding, PK_SLICE("application/json"), false, outcome);
    if (!fields.items || pk_bare_error_write(status, body) < 0)
        return reply_no_memory(body, ret_reply);
    *ret_reply = (pk_reply){.http_status = style->http_status[code],
                            .fields = fields.items,
                            .field_count = fields.count,
                            .body = body};
    return (pk_code) code;
}

pk_code pk_bare_reply(const pk_bare_style *style, const pk_encoding *encoding,
                      const pk_outcome *outcome, pk_reply *ret_reply)
{
    static const pk_status no_message = {
        PK_INTERNAL, PK_SLICE("the handler ended without a message"), {NULL, 0}};
    pk_status failure;
    pk_buffer *body = NULL;
    bool compressed;
    if (outcome->status && outcome->status->code != PK_OK)
        return reply_error(style, encoding, outcome->status, outcome, ret_reply);
    if (!outcome->message)
        return reply_error(style, encoding, &no_message, outcome, ret_reply);
    if (pk_marshal(encoding, outcome->type, outcome->message, NULL, (pk_slice){NULL, 0}, &body,
                   &compressed, &failure) < 0)
        return reply_error(style, encoding, &failure, outcome, ret_reply);
    pk_fields fields = reply_fields(encoding, content_type_of(encoding), compressed, outcome);
    if (!fields.items)
        return reply_no_memory(body, ret_reply);
    *ret_reply = (pk_reply){
        .http_status = 200, .fields = fields.items, .field_count = fields.count, .body = body};
    return PK_OK;
}

#define TIMEOUT_DIGITS_MAX 10u
#define TIMEOUT_MAX UINT64_C(9999999999) /* milliseconds: what the digits hold */

/* Milliseconds in decimal, rounded up. */
static pk_slice timeout_value(uint64_t nanoseconds, pk_arena *arena)
{
    uint64_t number = nanoseconds / MILLISECOND + (nanoseconds % MILLISECOND != 0);
    if (number > TIMEOUT_MAX)
        number = TIMEOUT_MAX;
    char *text = pk_arena_printf(arena, "%llu", (unsigned long long) number);
    return arena->exhausted || !text ? (pk_slice){NULL, 0}
                                     : (pk_slice){(const uint8_t *) text, strlen(text)};
}

int pk_bare_request(const pk_bare_style *style, const pk_encoding *encoding,
                    const pk_request_target *target, const pk_message_type *type,
                    const void *message, const pk_metadata *headers, pk_fields *ret_head,
                    pk_buffer **ret_body, pk_status *ret_status)
{
    pk_buffer *body = NULL;
    bool compressed;
    int r = pk_marshal(encoding, type, message, NULL, (pk_slice){NULL, 0}, &body, &compressed,
                       ret_status);
    if (r < 0)
        return r;
    pk_slice content_type = content_type_of(encoding), timeout = {NULL, 0};
    if (target->timeout != UINT64_MAX)
        timeout = timeout_value(target->timeout, encoding->arena);
    pk_field *fields = pk_arena_try(encoding->arena, (10 + count_of(headers)) * sizeof *fields);
    if (!fields || content_type.length == 0 ||
        (target->timeout != UINT64_MAX && timeout.length == 0)) {
        pk_buffer_unref(body);
        *ret_status = PK_STATUS(PK_RESOURCE_EXHAUSTED, "out of memory while encoding a message");
        return PK_ERR_NOMEM;
    }
    pk_field *at = fields;
    *at++ = named(PK_SLICE(":method"), PK_SLICE("POST"));
    *at++ = named(PK_SLICE(":scheme"), target->scheme);
    *at++ = named(PK_SLICE(":path"), target->path);
    *at++ = named(PK_SLICE(":authority"), target->authority);
    *at++ = named(PK_SLICE("content-type"), content_type);
    *at++ = named(style->version_name, style->version);
    if (target->user_agent.length > 0)
        *at++ = named(PK_SLICE("user-agent"), target->user_agent);
    if (timeout.length > 0)
        *at++ = named(style->timeout_name, timeout);
    if (compressed)
        *at++ = named(PK_SLICE("content-encoding"), name_of(encoding->compressor));
    if (encoding->compressors && encoding->compressors->count > 0)
        *at++ = named(PK_SLICE("accept-encoding"),
                      (pk_slice){(const uint8_t *) encoding->compressors->names,
                                 encoding->compressors->names_length});
    for (size_t i = 0; i < count_of(headers); i++)
        *at++ = headers->fields[i];
    *ret_head = (pk_fields){fields, (size_t) (at - fields)};
    *ret_body = body;
    return 0;
}

/* ---- Reading ---- */

int pk_bare_timeout(pk_slice value, uint64_t *ret_nanoseconds)
{
    uint64_t number = 0;
    if (value.length < 1 || value.length > TIMEOUT_DIGITS_MAX)
        return PK_ERR_MALFORMED;
    for (size_t i = 0; i < value.length; i++) {
        unsigned digit = (unsigned) value.bytes[i] - '0';
        if (digit > 9)
            return PK_ERR_MALFORMED;
        number = number * 10 + digit;
    }
    *ret_nanoseconds = number * MILLISECOND; /* 10 digits fit */
    return 0;
}

int pk_bare_negotiate(const pk_compressor_set *set, const pk_head *head, pk_arena *arena,
                      const pk_compressor **ret_incoming, pk_status *ret_status)
{
    pk_slice name = pk_head_value(head, PK_FIELD_CONTENT_ENCODING);
    const pk_compressor *incoming = NULL;
    bool is_identity =
        name.length == 0 || (name.length == 8 && memcmp(name.bytes, "identity", name.length) == 0);
    if (!is_identity && !(incoming = pk_compressor_set_find(set, name))) {
        *ret_status = pk_status_print(
            arena, PK_UNIMPLEMENTED, "content-encoding \"%.*s\" is not supported; supported are %s",
            name.length < 100 ? (int) name.length : 100, (const char *) name.bytes, set->names);
        return PK_ERR_UNSUPPORTED;
    }
    *ret_incoming = incoming;
    return 0;
}

void pk_bare_reader_init(pk_bare_reader *reader, pk_marshalling *marshalling, pk_arena *arena,
                         const pk_compressor *incoming, size_t limit)
{
    *reader = (pk_bare_reader){
        .marshalling = marshalling, .arena = arena, .incoming = incoming, .limit = limit};
}

void pk_bare_reader_done(pk_bare_reader *reader)
{
    reader->gathered = pk_buffer_unref(reader->gathered);
    reader->holder = pk_buffer_unref(reader->holder);
    reader->plain = pk_buffer_unref(reader->plain);
    reader->chunk = (pk_slice){NULL, 0};
}

static int fail(pk_bare_reader *reader, int error, pk_status status)
{
    reader->error = error;
    reader->status = status;
    return error;
}

static int fail_no_memory(pk_bare_reader *reader)
{
    return fail(reader, PK_ERR_NOMEM,
                PK_STATUS(PK_RESOURCE_EXHAUSTED, "out of memory while receiving a message"));
}

static size_t length_so_far(const pk_bare_reader *reader)
{
    return reader->gathered ? pk_buffer_length(reader->gathered) : reader->chunk.length;
}

/* Starts to gather: what lay in the first chunk goes in front. */
static int gather_chunk(pk_bare_reader *reader)
{
    reader->gathered = pk_buffer_get(reader->marshalling->buffers);
    if (!reader->gathered)
        return PK_ERR_NOMEM;
    pk_buffer_rewind_for_append(reader->gathered, 0);
    int r = pk_buffer_append(reader->gathered, reader->chunk.bytes, reader->chunk.length);
    reader->chunk = (pk_slice){NULL, 0};
    reader->holder = pk_buffer_unref(reader->holder);
    return r;
}

int pk_bare_reader_feed(pk_bare_reader *reader, const uint8_t *bytes, size_t length,
                        pk_buffer *holder)
{
    if (reader->error)
        return reader->error;
    if (length > reader->limit - length_so_far(reader))
        return fail(reader, PK_ERR_LIMIT,
                    pk_status_print(reader->arena, PK_RESOURCE_EXHAUSTED,
                                    "received message of %zu bytes or more is above the limit of "
                                    "%zu bytes",
                                    length_so_far(reader) + length, reader->limit));
    if (length == 0)
        return 0;
    if (holder && length_so_far(reader) == 0 && !reader->gathered) {
        reader->chunk = (pk_slice){bytes, length};
        reader->holder = pk_buffer_ref(holder);
        return 0;
    }
    if ((!reader->gathered && gather_chunk(reader) < 0) ||
        pk_buffer_append(reader->gathered, bytes, length) < 0)
        return fail_no_memory(reader);
    return 0;
}

int pk_bare_reader_end(pk_bare_reader *reader, pk_slice *ret_message)
{
    if (reader->error)
        return reader->error;
    pk_slice body = reader->chunk;
    if (reader->gathered)
        body = (pk_slice){reader->gathered->start, pk_buffer_length(reader->gathered)};
    if (reader->incoming && body.length > 0) {
        pk_buffer *plain = pk_buffer_get(reader->marshalling->buffers);
        if (!plain)
            return fail_no_memory(reader);
        reader->plain = plain;
        pk_buffer_rewind_for_append(plain, 0);
        int r = pk_decompress(&reader->marshalling->compressors, reader->incoming, body,
                              reader->limit, plain);
        if (r == PK_ERR_NOMEM)
            return fail_no_memory(reader);
        if (r == PK_ERR_LIMIT)
            return fail(reader, r,
                        pk_status_print(reader->arena, PK_RESOURCE_EXHAUSTED,
                                        "received message of %zu compressed bytes is above the "
                                        "limit of %zu bytes when decompressed",
                                        body.length, reader->limit));
        if (r < 0)
            return fail(reader, r,
                        pk_status_print(reader->arena, PK_INVALID_ARGUMENT,
                                        "the body is not valid %s", reader->incoming->name));
        body = (pk_slice){plain->start, pk_buffer_length(plain)};
    }
    *ret_message = body;
    return 0;
}

/* Three digits; 0 where there are none. */
static unsigned http_status_of(const pk_head *head)
{
    pk_slice value = pk_head_value(head, PK_FIELD_STATUS);
    unsigned status = 0;
    for (size_t i = 0; value.length == 3 && i < 3; i++) {
        unsigned digit = (unsigned) value.bytes[i] - '0';
        if (digit > 9)
            return 0;
        status = status * 10 + digit;
    }
    return status;
}

void pk_bare_response_status(const pk_bare_style *style, const pk_head *head, pk_slice body,
                             pk_arena *arena, pk_status *ret_status)
{
    unsigned http_status = http_status_of(head);
    if (http_status == 200)
        *ret_status = (pk_status){PK_OK, {NULL, 0}, {NULL, 0}};
    else if (!pk_bare_error_read(body, arena, ret_status))
        *ret_status = pk_status_print(arena, style->code(http_status),
                                      "the server answered with HTTP status %u", http_status);
}

bool pk_bare_response_fields(const pk_head *head, pk_arena *arena, pk_fields *ret_headers,
                             pk_fields *ret_trailers)
{
    pk_field *headers = pk_arena_try(arena, (head->count + 1) * sizeof *headers);
    pk_field *trailers = pk_arena_try(arena, (head->count + 1) * sizeof *trailers);
    if (!headers || !trailers)
        return false;
    size_t header_count = 0, trailer_count = 0;
    const size_t prefix = sizeof TRAILER_PREFIX - 1;
    for (size_t i = 0; i < head->count; i++) {
        pk_field field = head->fields[i];
        if (field.name.length > prefix && memcmp(field.name.bytes, TRAILER_PREFIX, prefix) == 0) {
            field.name.bytes += prefix;
            field.name.length -= prefix;
            field.known = PK_FIELD_OTHER;
            trailers[trailer_count++] = field;
        } else {
            headers[header_count++] = field;
        }
    }
    *ret_headers = (pk_fields){headers, header_count};
    *ret_trailers = (pk_fields){trailers, trailer_count};
    return true;
}
