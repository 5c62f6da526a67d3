/* The table of protocols, and the choice among them: see protocol.h. */
#include "marshalling/protocol.h"

#include "core/slice.h"

#include <string.h>

#define CONTENT_TYPE_MAX 64u /* longer than any in the table */

/* One row per variant, at the length of its content-type: no two have the same. */
#define ROW(type, symbol) [sizeof(type) - 1] = &(symbol)
static const pk_protocol *const table[CONTENT_TYPE_MAX] = {
    ROW("application/grpc", pk_protocol_grpc),
    ROW("application/grpc+proto", pk_protocol_grpc_proto),
    ROW("application/grpc-web", pk_protocol_grpc_web),
    ROW("application/grpc-web+proto", pk_protocol_grpc_web_proto),
    ROW("application/grpc-web-text", pk_protocol_grpc_web_text),
    ROW("application/grpc-web-text+proto", pk_protocol_grpc_web_text_proto),
};

static inline const pk_protocol *find_exact(const uint8_t *bytes, size_t length)
{
    const pk_protocol *row = length < CONTENT_TYPE_MAX ? table[length] : NULL;
    return row && pk_same_bytes(row->content_type.bytes, bytes, length) ? row : NULL;
}

static inline const pk_protocol *if_enabled(const pk_protocol *found, unsigned enabled)
{
    return found && (found->family & (enabled | PK_PROTOCOLS_GRPC)) ? found : NULL;
}

/* By the type alone, in lower case, without blanks and parameters. */
static __attribute__((noinline)) const pk_protocol *find_lenient(pk_slice content_type,
                                                                 unsigned enabled)
{
    uint8_t lowered[CONTENT_TYPE_MAX];
    size_t length = 0, i = 0;
    while (i < content_type.length &&
           (content_type.bytes[i] == ' ' || content_type.bytes[i] == '\t'))
        i++;
    for (; i < content_type.length && content_type.bytes[i] != ';'; i++) {
        if (length == sizeof lowered)
            return NULL;
        uint8_t c = content_type.bytes[i];
        lowered[length++] = c >= 'A' && c <= 'Z' ? (uint8_t) (c | 0x20) : c;
    }
    while (length > 0 && (lowered[length - 1] == ' ' || lowered[length - 1] == '\t'))
        length--;
    return if_enabled(find_exact(lowered, length), enabled);
}

const pk_protocol *pk_protocol_for(pk_slice content_type, unsigned enabled)
{
    const pk_protocol *found = find_exact(content_type.bytes, content_type.length);
    return PK_LIKELY(found != NULL) ? if_enabled(found, enabled)
                                    : find_lenient(content_type, enabled);
}

const pk_protocol *pk_protocol_of_response(const pk_protocol *protocol, const pk_head *head)
{
    const pk_protocol *found =
        pk_protocol_for(pk_head_value(head, PK_FIELD_CONTENT_TYPE), protocol->family);
    return found && found->family == protocol->family ? found : NULL;
}

/* The first item of an accept list that names a form of the family, without its parameters. */
const pk_protocol *pk_protocol_of_reply(const pk_protocol *protocol, pk_slice accept)
{
    if (PK_LIKELY(!protocol->other_form))
        return protocol;
    while (accept.length > 0) {
        const uint8_t *comma = memchr(accept.bytes, ',', accept.length);
        size_t length = comma ? (size_t) (comma - accept.bytes) : accept.length;
        const pk_protocol *found =
            pk_protocol_for((pk_slice){accept.bytes, length}, protocol->family);
        if (found && found->family == protocol->family)
            return found->text == protocol->text ? protocol : protocol->other_form;
        size_t used = comma ? length + 1 : length;
        accept.bytes += used;
        accept.length -= used;
    }
    return protocol;
}

/* A short text of `length` bytes for people. */
static void reply_text(pk_marshalling *marshalling, unsigned status, const char *text,
                       size_t length, pk_reply *ret_reply)
{
    static const pk_field fields[] = {
        {.name = PK_SLICE("content-type"), .value = PK_SLICE("text/plain; charset=utf-8")}};
    pk_buffer *body = pk_buffer_get(marshalling->buffers);
    if (body && pk_buffer_prepend(body, text, length) < 0)
        body = pk_buffer_unref(body);
    *ret_reply =
        (pk_reply){.http_status = status, .fields = fields, .field_count = 1, .body = body};
}

void pk_protocol_reply_unsupported(pk_marshalling *marshalling, pk_reply *ret_reply)
{
    static const char text[] = "This server speaks gRPC: content-type application/grpc\n";
    reply_text(marshalling, 415, text, sizeof text - 1, ret_reply);
}

void pk_protocol_reply_no_trailers(pk_marshalling *marshalling, pk_reply *ret_reply)
{
    static const char text[] = "gRPC needs HTTP/2; over HTTP/1.1 there is gRPC-Web\n";
    reply_text(marshalling, 505, text, sizeof text - 1, ret_reply);
}

void pk_protocol_reply_no_memory(const pk_protocol *protocol, pk_reply *ret_reply)
{
    *ret_reply = (pk_reply){.http_status = 200, .fields = protocol->head_fields, .field_count = 2};
}
