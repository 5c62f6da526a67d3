/*
 * The push side of a stream: each message is encoded at once and handed down. The future is done
 * while the exchange has room; after that it waits for on_room, and whoever waits with it keeps
 * memory bounded.
 */
#include "core/status.h"
#include "handlers/client_call.h"
#include "handlers/filter.h"
#include "handlers/streaming/stream.h"

void pk_writer_open(pk_writer *writer, pk_call *call, const pk_message_type *type)
{
    writer->call = call;
    writer->type = type;
    writer->wait = (struct pk_stream_wait){NULL, NULL};
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

pk_future pk_writer_write(pk_writer *writer, const void *message)
{
    pk_call *call = writer->call;
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return pk_stream_ended(call);
    if (PK_UNLIKELY(shut(call) != NULL))
        return pk_failed_with(shut(call));
    if (PK_UNLIKELY(!message))
        return refuse_null(writer);
    if (PK_UNLIKELY(pk_stream_waits(&writer->wait)))
        return refuse_second(writer);
    pk_buffer *buffer;
    pk_status status;
    if (PK_UNLIKELY(encode(writer, message, &buffer, &status) < 0))
        return refuse(writer, &status);
    pk_writer_start(writer);
    /* A message made in scratch memory, or a head that could not be made, is not sent. */
    if (PK_UNLIKELY(!writer->started || call->scope.arena.exhausted)) {
        pk_buffer_unref(buffer);
        return pk_failed_with(&pk_status_no_memory);
    }
    bool room = call->client ? pk_client_write(call->client, buffer)
                             : call->exchange->ops->write(call->exchange, buffer);
    if (PK_LIKELY(room))
        return pk_done(NULL);
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return pk_stream_ended(call);
    return pk_stream_wait(call, &writer->wait);
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
