/* Bodies into messages: see protocol_body.h. */
#include "marshalling/protocol_body.h"

#include "core/status.h"
#include "marshalling/protocol.h"
#include "marshalling/protocol_flags.h"

#include <string.h>
#include <strings.h>

/* Whether trailers may come as a frame of this body. */
static bool takes_trailers(const pk_body_reader *reader)
{
    return reader->protocol->trailers_in_body && (reader->kind & PK_BODY_RESPONSE);
}

void pk_body_reader_init(pk_body_reader *reader, const pk_protocol *protocol,
                         pk_marshalling *marshalling, pk_arena *arena,
                         const pk_compressor *incoming, size_t limit, unsigned kind)
{
    reader->protocol = protocol;
    reader->marshalling = marshalling;
    reader->arena = arena;
    reader->incoming = incoming;
    reader->limit = limit;
    reader->kind = kind | (protocol->text ? PK_BODY_TEXT : 0);
    reader->http_status = 0;
    reader->error = 0;
    reader->messages = 0;
    reader->plain = NULL;
    reader->text = NULL;
    reader->base64 = (pk_base64_stream){0};
    reader->trailers.fields = NULL;
    reader->trailers.count = 0;
    unsigned allowed = incoming ? PK_FRAME_COMPRESSED : 0;
    if (PK_UNLIKELY(takes_trailers(reader)))
        allowed |= PK_FRAME_TRAILERS;
    pk_frame_reader_init(&reader->frames, marshalling->buffers, limit, (uint8_t) allowed);
}

void pk_body_reader_set_incoming(pk_body_reader *reader, const pk_compressor *incoming)
{
    reader->incoming = incoming;
    if (incoming)
        reader->frames.allowed |= PK_FRAME_COMPRESSED;
    else
        reader->frames.allowed &= (uint8_t) ~PK_FRAME_COMPRESSED;
}

void pk_body_reader_set_raw(pk_body_reader *reader, const pk_head *head)
{
    static const char identity[] = "identity";
    pk_slice named = pk_head_value(head, PK_FIELD_GRPC_ENCODING);
    bool is_identity = named.length == sizeof identity - 1 &&
                       strncasecmp((const char *) named.bytes, identity, named.length) == 0;
    reader->kind |= PK_BODY_RAW;
    if (named.length > 0 && !is_identity)
        reader->frames.allowed |= PK_FRAME_COMPRESSED;
}

void pk_body_reader_let_go(pk_body_reader *reader)
{
    pk_frame_reader_done(&reader->frames);
    reader->plain = pk_buffer_unref(reader->plain);
    reader->text = pk_buffer_unref(reader->text);
}

static int fail(pk_body_reader *reader, int error, pk_status status)
{
    reader->error = error;
    reader->kind |= PK_BODY_FAILED;
    reader->status = status;
    return error;
}

static int fail_no_memory(pk_body_reader *reader)
{
    return fail(reader, PK_ERR_NOMEM,
                PK_STATUS(PK_RESOURCE_EXHAUSTED, "out of memory while receiving a message"));
}

static int fail_second_message(pk_body_reader *reader)
{
    return fail(reader, PK_ERR_MALFORMED,
                PK_STATUS(PK_UNIMPLEMENTED, "more than one message came where one was due"));
}

/* Puts what the frame reader found wrong into words. */
static int fail_frame(pk_body_reader *reader, int error)
{
    unsigned flags = pk_frame_reader_flags(&reader->frames);
    if (error == PK_ERR_NOMEM)
        return fail_no_memory(reader);
    if (error == PK_ERR_LIMIT && reader->frames.limit != reader->limit)
        return fail_second_message(reader);
    if (error == PK_ERR_LIMIT)
        return fail(reader, error,
                    pk_status_print(reader->arena, PK_RESOURCE_EXHAUSTED,
                                    "received message of %lu bytes is above the limit of %zu bytes",
                                    (unsigned long) pk_frame_reader_length(&reader->frames),
                                    reader->limit));
    if (flags == PK_FRAME_COMPRESSED)
        return fail(reader, error,
                    PK_STATUS(PK_INTERNAL, "a message has its compressed flag set, but no "
                                           "compression was named in grpc-encoding"));
    return fail(reader, error,
                pk_status_print(reader->arena, PK_INTERNAL,
                                "a message has flags 0x%02x, which are not known", flags));
}

/* ---- Base64 ---- */

/* Decodes the chunk into a buffer of our own, which becomes the frames' chunk. */
static int feed_text(pk_body_reader *reader, const uint8_t *bytes, size_t length)
{
    reader->text = pk_buffer_unref(reader->text);
    pk_buffer *decoded = pk_buffer_get(reader->marshalling->buffers);
    if (!decoded)
        return fail_no_memory(reader);
    reader->text = decoded;
    pk_buffer_rewind_for_append(decoded, 0);
    if (pk_buffer_room_after(decoded, pk_base64_decoded_max(length)) < 0)
        return fail_no_memory(reader);
    decoded->end += pk_base64_stream_decode(&reader->base64, decoded->end, bytes, length);
    return pk_frame_reader_feed(&reader->frames, decoded->start, pk_buffer_length(decoded),
                                decoded);
}

static int fail_text(pk_body_reader *reader)
{
    reader->http_status = 400;
    return fail(reader, PK_ERR_MALFORMED, PK_STATUS(PK_INTERNAL, "the body is not valid base64"));
}

int pk_body_reader_feed(pk_body_reader *reader, const uint8_t *bytes, size_t length,
                        pk_buffer *holder)
{
    if (reader->error)
        return reader->error;
    if (PK_UNLIKELY(reader->kind & PK_BODY_TEXT)) {
        /* What is left of the last chunk lies in `text`, which goes now: it must be used up. */
        if (pk_frame_reader_left(&reader->frames) > 0)
            return PK_ERR_STATE;
        return feed_text(reader, bytes, length);
    }
    return pk_frame_reader_feed(&reader->frames, bytes, length, holder);
}

/* ---- Messages ---- */

/* The payload without its compression, in a buffer of our own. */
static int decompress(pk_body_reader *reader, pk_slice payload, pk_slice *ret_plain)
{
    pk_buffer *plain = pk_buffer_get(reader->marshalling->buffers);
    if (!plain)
        return fail_no_memory(reader);
    reader->plain = plain;
    pk_buffer_rewind_for_append(plain, 0);
    int r = pk_decompress(&reader->marshalling->compressors, reader->incoming, payload,
                          reader->limit, plain);
    if (r == PK_ERR_LIMIT)
        return fail(reader, r,
                    pk_status_print(reader->arena, PK_RESOURCE_EXHAUSTED,
                                    "received message of %zu compressed bytes is above the limit "
                                    "of %zu bytes when decompressed",
                                    payload.length, reader->limit));
    if (r == PK_ERR_NOMEM || (r == 0 && pk_buffer_room_after(plain, PK_FRAME_PADDING) < 0))
        return fail_no_memory(reader);
    if (r < 0)
        return fail(reader, r,
                    pk_status_print(reader->arena, PK_INTERNAL, "a message is not valid %s",
                                    reader->incoming->name));
    *ret_plain = (pk_slice){plain->start, pk_buffer_length(plain)};
    return 0;
}

/* One line of a trailer frame into a field; false where it has no colon. */
static bool read_trailer(pk_arena *arena, const uint8_t *line, size_t length, pk_field *ret_field)
{
    const uint8_t *colon = length > 0 ? memchr(line, ':', length) : NULL;
    if (!colon || colon == line)
        return false;
    size_t name_length = (size_t) (colon - line);
    uint8_t *name = (uint8_t *) pk_arena_copy(arena, line, length);
    if (!name || arena->exhausted)
        return false;
    pk_slice value = {name + name_length + 1, length - name_length - 1};
    while (value.length > 0 && (value.bytes[0] == ' ' || value.bytes[0] == '\t')) {
        value.bytes++;
        value.length--;
    }
    while (value.length > 0 &&
           (value.bytes[value.length - 1] == ' ' || value.bytes[value.length - 1] == '\t'))
        value.length--;
    while (name_length > 0 && (name[name_length - 1] == ' ' || name[name_length - 1] == '\t'))
        name_length--;
    for (size_t i = 0; i < name_length; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] |= 0x20;
    *ret_field = (pk_field){.name = {name, name_length}, .value = value};
    ret_field->known = (uint8_t) pk_field_lookup(ret_field->name);
    return name_length > 0;
}

/* An HTTP/1 header block, LF or CRLF between its lines, into fields in the arena. */
static int read_trailers(pk_body_reader *reader, pk_slice block)
{
    size_t most = 1;
    for (size_t i = 0; i < block.length; i++)
        most += block.bytes[i] == '\n';
    if (most > UINT16_MAX)
        return fail(reader, PK_ERR_LIMIT,
                    PK_STATUS(PK_RESOURCE_EXHAUSTED, "the response has too many trailers"));
    pk_field *fields = pk_arena_try(reader->arena, most * sizeof *fields);
    if (!fields)
        return fail_no_memory(reader);
    pk_head trailers = {.fields = fields};
    while (block.length > 0) {
        const uint8_t *newline = memchr(block.bytes, '\n', block.length);
        size_t line = newline ? (size_t) (newline - block.bytes) : block.length;
        size_t used = newline ? line + 1 : line;
        if (line > 0 && block.bytes[line - 1] == '\r')
            line--;
        pk_field *field = &fields[trailers.count];
        if (read_trailer(reader->arena, block.bytes, line, field)) {
            trailers.count++;
            if (field->known && trailers.first[field->known] == 0)
                trailers.first[field->known] = (uint16_t) trailers.count;
        }
        block.bytes += used;
        block.length -= used;
    }
    if (reader->arena->exhausted)
        return fail_no_memory(reader);
    reader->trailers = trailers;
    return 0;
}

/* What a frame is that is compressed, or no message. 1: a message; 0: go on; or negative. */
static __attribute__((noinline)) int take_flagged(pk_body_reader *reader, const pk_frame *frame,
                                                  pk_body_message *ret_message)
{
    bool is_message = !(frame->flags & PK_FRAME_TRAILERS);
    bool is_compressed = frame->flags & PK_FRAME_COMPRESSED;
    pk_body_message message = {frame->payload, frame->holder, frame->gathered, false};
    if (is_compressed && is_message && (reader->kind & PK_BODY_RAW)) {
        message.compressed = true;
    } else if (is_compressed && PK_UNLIKELY(!reader->incoming)) {
        return fail(
            reader, PK_ERR_MALFORMED,
            PK_STATUS(PK_INTERNAL, "the trailers are compressed in a way that is not known"));
    } else if (is_compressed) {
        int r = decompress(reader, frame->payload, &message.bytes);
        if (r < 0)
            return r;
        message.holder = reader->plain;
        message.owned = message.compressed = true;
    }
    if (PK_LIKELY(is_message)) {
        *ret_message = message;
        return 1;
    }
    int r = read_trailers(reader, message.bytes);
    reader->plain = pk_buffer_unref(reader->plain);
    if (r == 0)
        reader->kind |= PK_BODY_OVER;
    return r;
}

/* A frame behind one that should have been the last. */
static int fail_behind_the_end(pk_body_reader *reader, const pk_frame *frame)
{
    if (reader->kind & PK_BODY_OVER)
        return fail(reader, PK_ERR_MALFORMED,
                    PK_STATUS(PK_INTERNAL, "the body goes on behind its trailers"));
    return frame->flags & PK_FRAME_TRAILERS ? 0 : fail_second_message(reader);
}

int pk_body_reader_next(pk_body_reader *reader, pk_body_message *ret_message)
{
    if (PK_UNLIKELY(reader->error))
        return reader->error;
    if (PK_UNLIKELY(reader->plain != NULL))
        reader->plain = pk_buffer_unref(reader->plain);
    for (;;) {
        pk_frame frame;
        int r = pk_frame_reader_next(&reader->frames, &frame);
        if (PK_UNLIKELY(r < 0))
            return fail_frame(reader, r);
        if (r == 0)
            return PK_UNLIKELY(reader->base64.malformed) ? fail_text(reader) : 0;
        if (PK_UNLIKELY((reader->kind & PK_BODY_OVER) ||
                        ((reader->kind & PK_BODY_ONE) && reader->messages > 0))) {
            r = fail_behind_the_end(reader, &frame);
            if (r < 0)
                return r;
        }
        if (PK_LIKELY(frame.flags == 0))
            *ret_message = (pk_body_message){frame.payload, frame.holder, frame.gathered, false};
        else if ((r = take_flagged(reader, &frame, ret_message)) < 0)
            return r;
        if (PK_LIKELY(r > 0)) {
            pk_body_reader_count_message(reader);
            return 1;
        }
    }
}

int pk_body_reader_keep(pk_body_reader *reader)
{
    if (reader->error)
        return reader->error;
    /* The text's buffer belongs to the reader, and only a feed replaces it. */
    if (reader->kind & PK_BODY_TEXT)
        return 0;
    return pk_frame_reader_keep(&reader->frames) < 0 ? fail_no_memory(reader) : 0;
}

int pk_body_reader_end(pk_body_reader *reader)
{
    if (reader->error)
        return reader->error;
    if (PK_UNLIKELY((reader->kind & PK_BODY_TEXT) && !pk_base64_stream_complete(&reader->base64)))
        return fail_text(reader);
    if (PK_UNLIKELY(pk_frame_reader_inside(&reader->frames)))
        return fail(reader, PK_ERR_MALFORMED,
                    PK_STATUS(PK_INTERNAL, "the body ends inside a message"));
    /* A response without a message has a status that says why, which the caller looks at first. */
    if (PK_UNLIKELY((reader->kind & PK_BODY_ONE) && reader->messages == 0))
        return fail(reader, PK_ERR_MALFORMED,
                    PK_STATUS(PK_UNIMPLEMENTED, "no message came where one was due"));
    return 0;
}
