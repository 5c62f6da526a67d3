/*
 * The push side of a stream: each message is encoded at once and handed down. The future is done
 * while the exchange has room; after that it waits for on_room, and whoever waits with it keeps
 * memory bounded.
 */
#include "core/status.h"
#include "handlers/client_call.h"
#include "handlers/filter.h"
#include "handlers/streaming/stream.h"
#include "marshalling/protocol_frames.h"

void pk_writer_open(pk_writer *writer, pk_call *call, const pk_message_type *type)
{
    writer->call = call;
    writer->type = type;
    writer->wait = (struct pk_stream_wait){NULL, NULL, NULL};
    writer->started = false;
    writer->plain = false;
}

pk_call *pk_writer_call(pk_writer *writer)
{
    return writer->call;
}

void pk_writer_start(pk_writer *writer)
{
    if (PK_LIKELY(writer->started))
        return;
    pk_call *call = writer->call;
    const pk_protocol *protocol = call->reply_protocol;
    pk_fields head = protocol->head(protocol, &call->encoding, &call->headers);
    if (PK_UNLIKELY(!head.items))
        return;
    writer->started = true;
    call->exchange->ops->start(call->exchange, 200, head.items, head.count);
}

int pk_writer_send_headers(pk_writer *writer)
{
    if (!pk_call_is_open(writer->call) || writer->started)
        return PK_ERR_STATE;
    pk_writer_start(writer);
    return writer->started ? 0 : PK_ERR_NOMEM;
}

void pk_writer_set_compression(pk_writer *writer, bool compressed)
{
    writer->plain = !compressed;
}

/* The message as it goes onto the stream. Errors as pk_protocol.message. */
static int encode(pk_writer *writer, const void *message, pk_buffer **ret_buffer,
                  pk_status *ret_status)
{
    pk_call *call = writer->call;
    const pk_protocol *protocol = call->reply_protocol;
    pk_encoding *encoding = &call->encoding;
    const pk_compressor *compressor = encoding->compressor;
    if (PK_UNLIKELY(writer->plain))
        encoding->compressor = NULL;
    if (PK_UNLIKELY(!writer->type)) {
        if (pk_filter_raw(call, false, &message, ret_status) < 0)
            return PK_ERR_INVALID;
        const pk_raw_message *raw = message;
        encoding->precompressed = raw->compressed;
        message = &raw->bytes;
    }
    int r = protocol->message(protocol, encoding, writer->type, message, ret_buffer, ret_status);
    encoding->compressor = compressor;
    return r;
}

/* What a write says that finds something wrong with itself. */
static pk_future refuse(pk_writer *writer, const pk_status *status)
{
    return pk_failed_status(writer->call, status);
}

static __attribute__((noinline)) pk_future refuse_null(pk_writer *writer)
{
    pk_status status = PK_STATUS(PK_INTERNAL, "a NULL message was to be written");
    return refuse(writer, &status);
}

static __attribute__((noinline)) pk_future refuse_second(pk_writer *writer)
{
    pk_status status = PK_STATUS(PK_INTERNAL, "a write is asked for while another one is pending");
    return refuse(writer, &status);
}

/* Why a client's writer takes no more, as a status; NULL: it does. */
static const pk_status *shut(const pk_call *call)
{
    static const pk_status half_closed = {
        PK_INTERNAL, PK_SLICE("a write is asked for after the end of the stream"), {NULL, 0}};
    if (!call->client || !(call->client->over || call->client->half_closed))
        return NULL;
    return call->client->over ? &call->end_status : &half_closed;
}

/* Whether a write may be asked for now; else *ret_refusal is what it says. */
static inline bool may_write(pk_writer *writer, const void *message, pk_future *ret_refusal)
{
    pk_call *call = writer->call;
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        *ret_refusal = pk_stream_ended(call);
    else if (PK_UNLIKELY(shut(call) != NULL))
        *ret_refusal = pk_failed_with(shut(call));
    else if (PK_UNLIKELY(!message))
        *ret_refusal = refuse_null(writer);
    else if (PK_UNLIKELY(pk_stream_waits(&writer->wait)))
        *ret_refusal = refuse_second(writer);
    else
        return true;
    return false;
}

/* Hands down what was encoded. 1: there is room for more. 0: not now. PK_ERR_NOMEM: it is dropped. */
static inline int put(pk_writer *writer, pk_buffer *buffer)
{
    pk_call *call = writer->call;
    pk_writer_start(writer);
    /* A message made in scratch memory, or a head that could not be made, is not sent. */
    if (PK_UNLIKELY(!writer->started || call->scope.arena.exhausted)) {
        pk_buffer_unref(buffer);
        return PK_ERR_NOMEM;
    }
    return call->client ? pk_client_write(call->client, buffer)
                        : call->exchange->ops->write(call->exchange, buffer);
}

/* What a write says after that. */
static inline pk_future written(pk_writer *writer, int room)
{
    if (PK_LIKELY(room > 0))
        return pk_done(NULL);
    if (PK_UNLIKELY(room < 0))
        return pk_failed_with(&pk_status_no_memory);
    if (PK_UNLIKELY(!pk_call_is_open(writer->call)))
        return pk_stream_ended(writer->call);
    return pk_stream_wait(writer->call, &writer->wait);
}

pk_future pk_writer_write(pk_writer *writer, const void *message)
{
    pk_future refusal;
    if (PK_UNLIKELY(!may_write(writer, message, &refusal)))
        return refusal;
    pk_buffer *buffer;
    pk_status status;
    if (PK_UNLIKELY(encode(writer, message, &buffer, &status) < 0))
        return refuse(writer, &status);
    return written(writer, put(writer, buffer));
}

/* ---- Frames ---- */

/*
 * Whether they lie in a buffer of this loop as their reader has lent them. Written twice, it is in a
 * transport's hands from the first time on.
 */
static bool are_as_lent(const pk_call *call, const pk_raw_frames *frames)
{
    const pk_buffer *buffer = frames->buffer;
    return buffer && buffer->references == 1 &&
           buffer->pool == call->encoding.marshalling->buffers &&
           buffer->start == frames->bytes.bytes && pk_buffer_length(buffer) == frames->bytes.length;
}

/* The frames as they go onto the stream; a reader's are taken over. Errors as pk_frames_check. */
static int lay_out(pk_call *call, const pk_raw_frames *frames, pk_buffer **ret_buffer,
                   pk_status *ret_status)
{
    const pk_protocol *protocol = call->reply_protocol;
    const pk_encoding *encoding = &call->encoding;
    bool lent = are_as_lent(call, frames);
    pk_buffer *buffer = frames->buffer;
    int r = 0;
    if (PK_UNLIKELY(!lent || encoding->send_limit)) /* what is lent has been checked when read */
        r = pk_frames_check(encoding, frames->bytes, frames->count, frames->compressed, ret_status);
    if (PK_UNLIKELY(r < 0))
        return r;
    if (PK_LIKELY(lent)) {
        pk_buffer_ref(buffer);
    } else if (pk_frames_copy(encoding->marshalling->buffers, frames->bytes, &buffer) < 0) {
        *ret_status = pk_status_no_memory;
        return PK_ERR_NOMEM;
    }
    if (protocol->frames)
        r = protocol->frames(protocol, encoding, &buffer, ret_status);
    if (PK_UNLIKELY(r < 0))
        return r;
    *ret_buffer = buffer;
    return 0;
}

/* Each message past the interceptors that look at it, and as if it were written alone. */
static pk_future write_each(pk_writer *writer, const pk_raw_frames *frames)
{
    pk_slice left = frames->bytes;
    pk_raw_message message = {.compressed = frames->compressed};
    int room = 1;
    pk_status status;
    if (pk_frames_check(&writer->call->encoding, left, frames->count, frames->compressed, &status) <
        0)
        return refuse(writer, &status);
    while (room >= 0 && pk_call_is_open(writer->call) && pk_frames_cut(&left, &message.bytes)) {
        pk_buffer *buffer;
        if (encode(writer, &message, &buffer, &status) < 0)
            return refuse(writer, &status);
        room = put(writer, buffer);
    }
    return written(writer, room);
}

pk_future pk_writer_write_frames(pk_writer *writer, const pk_raw_frames *frames)
{
    static const pk_status not_raw = {
        PK_INTERNAL, PK_SLICE("frames are written to a call that is not raw"), {NULL, 0}};
    pk_call *call = writer->call;
    pk_future refusal;
    pk_status status;
    pk_buffer *buffer;
    if (PK_UNLIKELY(!may_write(writer, frames, &refusal)))
        return refusal;
    if (PK_UNLIKELY(writer->type != NULL))
        return refuse(writer, &not_raw);
    if (PK_UNLIKELY(pk_filter_sees_raw(call, false)))
        return write_each(writer, frames);
    if (PK_UNLIKELY(lay_out(call, frames, &buffer, &status) < 0))
        return refuse(writer, &status);
    return written(writer, put(writer, buffer));
}

void pk_writer_room(pk_writer *writer)
{
    if (pk_stream_is_awaited(&writer->wait))
        pk_stream_settle(&writer->wait, pk_done(NULL));
}

void pk_writer_close(pk_writer *writer)
{
    pk_stream_forget(&writer->wait);
}
