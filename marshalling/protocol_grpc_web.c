/*
 * gRPC-Web, binary and text: the same messages, with the trailers as the last frame of the body; in
 * the text form the body is base64, in padded pieces of whole frames. A call that fails before
 * its first message has its status in the HTTP headers and no body at all.
 * Source: PROTOCOL-WEB.md.
 */
#include "core/base64.h"
#include "marshalling/frame.h"
#include "marshalling/protocol_fields.h"
#include "marshalling/protocol_flags.h"

#include <string.h>

/* The trailer frame of a call that went well, and its base64: 0x80, length 15, one line. */
#define OK_FRAME "\x80\0\0\0\x0fgrpc-status:0\r\n"
#define OK_FRAME_TEXT "gAAAAA9ncnBjLXN0YXR1czowDQo="

static const pk_slice nothing = {NULL, 0};

/* The trailers as a frame in the arena, or static; nothing where memory ran out. */
static pk_slice trailer_frame(const pk_encoding *encoding, const pk_status *status,
                              const pk_metadata *trailers)
{
    pk_fields fields = pk_protocol_trailer_fields(encoding, status, trailers);
    if (fields.items == &pk_status_field_ok)
        return PK_SLICE(OK_FRAME);
    if (!fields.items)
        return nothing;
    size_t length = 0;
    for (size_t i = 0; i < fields.count; i++)
        length += fields.items[i].name.length + fields.items[i].value.length + 3;
    uint8_t *frame =
        length < UINT32_MAX ? pk_arena_try(encoding->arena, PK_FRAME_PREFIX + length) : NULL;
    if (!frame)
        return nothing;
    pk_frame_write_prefix(frame, PK_FRAME_TRAILERS, (uint32_t) length);
    uint8_t *at = frame + PK_FRAME_PREFIX;
    for (size_t i = 0; i < fields.count; i++) {
        const pk_field *field = &fields.items[i];
        at = (uint8_t *) memcpy(at, field->name.bytes, field->name.length) + field->name.length;
        *at++ = ':';
        if (field->value.length > 0)
            memcpy(at, field->value.bytes, field->value.length);
        at += field->value.length;
        *at++ = '\r';
        *at++ = '\n';
    }
    return (pk_slice){frame, PK_FRAME_PREFIX + length};
}

/* Appends bytes to a buffer as one padded piece of base64. */
static int append_text(pk_buffer *buffer, pk_slice bytes)
{
    size_t length = pk_base64_encoded_length(bytes.length, true);
    int r = pk_buffer_room_after(buffer, length);
    if (r < 0)
        return r;
    buffer->end += pk_base64_encode(buffer->end, bytes.bytes, bytes.length, true);
    return 0;
}

/*
 * Replaces a buffer with a frame (NULL: none) by one with its base64, followed by that of `tail`.
 * The buffer is given back in any case.
 */
static int to_text(const pk_encoding *encoding, pk_buffer **buffer, pk_slice tail)
{
    pk_buffer *binary = *buffer;
    pk_slice frame = binary ? (pk_slice){binary->start, pk_buffer_length(binary)} : nothing;
    pk_buffer *text = pk_buffer_get(encoding->marshalling->buffers);
    int r = text ? 0 : PK_ERR_NOMEM;
    if (text) {
        pk_buffer_rewind_for_append(text, 0);
        r = append_text(text, frame);
        if (r == 0 && tail.length > 0)
            r = tail.bytes == PK_SLICE(OK_FRAME).bytes
                    ? pk_buffer_append(text, OK_FRAME_TEXT, sizeof OK_FRAME_TEXT - 1)
                    : append_text(text, tail);
    }
    if (r < 0)
        text = pk_buffer_unref(text);
    pk_buffer_unref(binary);
    *buffer = text;
    return r;
}

static pk_code reply_unary(const pk_protocol *self, const pk_encoding *encoding,
                           const pk_outcome *outcome, pk_reply *ret_reply)
{
    const pk_status *refusal = pk_protocol_refusal(outcome);
    pk_status failure;
    bool compressed;
    pk_buffer *body = NULL;
    pk_slice tail = nothing;
    if (PK_LIKELY(!refusal)) {
        tail = trailer_frame(encoding, outcome->status, outcome->trailers);
        if (tail.length == 0)
            goto no_memory;
        if (pk_marshal(encoding, outcome->type, outcome->message, &pk_protocol_envelope,
                       self->text ? nothing : tail, &body, &compressed, &failure) < 0)
            refusal = &failure;
    }
    if (PK_UNLIKELY(refusal)) {
        pk_outcome refused = *outcome;
        refused.status = refusal;
        return pk_protocol_reply_status(self, encoding, &refused, ret_reply);
    }
    if (self->text && to_text(encoding, &body, tail) < 0)
        goto no_memory;
    pk_fields head = pk_protocol_head_fields(self, encoding, compressed, outcome->headers);
    if (PK_UNLIKELY(!head.items))
        goto no_memory;
    *ret_reply = (pk_reply){
        .http_status = 200,
        .fields = head.items,
        .field_count = head.count,
        .body = body,
    };
    return PK_OK;

no_memory:
    pk_buffer_unref(body);
    pk_protocol_reply_no_memory(self, ret_reply);
    return PK_RESOURCE_EXHAUSTED;
}

/* However many they are: one padded piece. */
static int text_frames(const pk_protocol *self, const pk_encoding *encoding, pk_buffer **frames,
                       pk_status *ret_status)
{
    int r = to_text(encoding, frames, nothing);
    if (r < 0)
        *ret_status = PK_STATUS(PK_RESOURCE_EXHAUSTED, "out of memory while encoding a message");
    return r;
}

static int text_message(const pk_protocol *self, const pk_encoding *encoding,
                        const pk_message_type *type, const void *message, pk_buffer **ret_buffer,
                        pk_status *ret_status)
{
    pk_buffer *buffer = NULL;
    int r = pk_protocol_message(self, encoding, type, message, &buffer, ret_status);
    if (r == 0 && buffer)
        r = text_frames(self, encoding, &buffer, ret_status);
    if (r == 0)
        *ret_buffer = buffer;
    return r;
}

/* Without memory for the trailers the body just ends, which the peer takes for a failed call. */
static void end(const pk_protocol *self, const pk_encoding *encoding, const pk_status *status,
                const pk_metadata *trailers, pk_protocol_end *ret_end)
{
    *ret_end = (pk_protocol_end){NULL, NULL, 0};
    pk_slice frame = trailer_frame(encoding, status, trailers);
    pk_buffer *body = frame.length > 0 ? pk_buffer_get(encoding->marshalling->buffers) : NULL;
    if (!body)
        return;
    pk_buffer_rewind_for_append(body, 0);
    int r =
        self->text ? append_text(body, frame) : pk_buffer_append(body, frame.bytes, frame.length);
    ret_end->body = r < 0 ? pk_buffer_unref(body) : body;
}

static pk_fields request_head(const pk_protocol *self, const pk_encoding *encoding,
                              const pk_request_target *target, const pk_metadata *headers)
{
    const pk_field own[] = {
        {.name = PK_SLICE("accept"), .value = self->content_type},
        {.name = PK_SLICE("x-grpc-web"), .value = PK_SLICE("1")},
    };
    return pk_protocol_request_head(self, encoding, target, headers, own, sizeof own / sizeof *own);
}

#define VARIANT(symbol, type, is_text, other, message_function, frames_function) \
    static const pk_field symbol##_fields[] = {                                  \
        {.name = PK_SLICE("content-type"), .value = PK_SLICE(type)},             \
        {.name = PK_SLICE("grpc-status"), .value = PK_SLICE("8")}};              \
    const pk_protocol symbol = {                                                 \
        .name = is_text ? "grpc-web-text" : "grpc-web",                          \
        .family = PK_PROTOCOLS_GRPC_WEB,                                         \
        .content_type = PK_SLICE(type),                                          \
        .text = is_text,                                                         \
        .trailers_in_body = true,                                                \
        .other_form = &other,                                                    \
        .head_fields = symbol##_fields,                                          \
        .reply_unary = reply_unary,                                              \
        .reply_status = pk_protocol_reply_status,                                \
        .head = pk_protocol_head,                                                \
        .message = message_function,                                             \
        .frames = frames_function,                                               \
        .end = end,                                                              \
        .request_head = request_head,                                            \
        .response_head = pk_protocol_response_head,                              \
        .response_end = pk_protocol_response_end,                                \
    }

VARIANT(pk_protocol_grpc_web, "application/grpc-web", false, pk_protocol_grpc_web_text,
        pk_protocol_message, NULL);
VARIANT(pk_protocol_grpc_web_proto, "application/grpc-web+proto", false,
        pk_protocol_grpc_web_text_proto, pk_protocol_message, NULL);
VARIANT(pk_protocol_grpc_web_text, "application/grpc-web-text", true, pk_protocol_grpc_web,
        text_message, text_frames);
VARIANT(pk_protocol_grpc_web_text_proto, "application/grpc-web-text+proto", true,
        pk_protocol_grpc_web_proto, text_message, text_frames);
