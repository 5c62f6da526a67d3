/*
 * Streams of messages: the reader and the writer of a streaming call.
 *
 * Both belong to one call, are used on its loop's thread, and live until the call has ended (a
 * client's: until they are unref'd). At most one read and one write may be pending at a time.
 */
#ifndef PEKOE_STREAM_H
#define PEKOE_STREAM_H

#include <pekoe/call.h>

PK_BEGIN_DECLS

typedef struct pk_reader pk_reader;
typedef struct pk_writer pk_writer;

/*
 * The next message, or NULL once the peer has ended its side (to a client: with OK; any other status
 * fails the read, after all messages before it). Borrowed until the next read: a
 * continuation uses or copies it. Done at once where a message is there. Fails with the status of
 * the call when that ends, with INTERNAL while another read is pending. Bytes that are no message,
 * or a message over the limit, end the call. The flow control window opens as messages are read, so
 * a reader that stops holds the peer back.
 */
PK_API PK_NODISCARD pk_future pk_reader_read(pk_reader *reader);

/*
 * The same, with memory of its own: the message stays after further reads, as long as the call. For
 * pipelines that hold several messages at once. pk_reader_give_back frees it earlier.
 */
PK_API PK_NODISCARD pk_future pk_reader_take(pk_reader *reader);

/*
 * Memory beside a message of pk_reader_take, as long as that stays. Otherwise as pk_call_alloc.
 */
PK_API void *pk_reader_alloc_with(pk_reader *reader, const void *message, size_t size);

/* Frees what a message of pk_reader_take lives in; NULL is allowed. */
PK_API void pk_reader_give_back(pk_reader *reader, const void *message);

/*
 * Reads to the end: fn(message, arg) for each message, the next read once its future is done. Done
 * with NULL at the end of the stream; fails as soon as a read or fn's future fails.
 */
PK_API PK_NODISCARD pk_future pk_reader_each(pk_reader *reader, pk_step *fn, void *arg);

/*
 * Memory that lives as long as the message of the last pk_reader_read, until the next read: for what
 * is made of a message and sent at once, so that a long stream does not fill the call. Otherwise as
 * pk_call_alloc and pk_call_printf.
 */
PK_API void *pk_reader_alloc(pk_reader *reader, size_t size);
PK_API char *pk_reader_printf(pk_reader *reader, const char *format, ...) PK_PRINTF(2, 3);

/*
 * Sends a message, which is encoded before this returns and may be changed or freed afterwards.
 * Done while there is room, else pending until there is again: a handler that waits for it keeps
 * memory bounded. Fails with INTERNAL for a NULL message, one that cannot be encoded, or while
 * another write is pending; with the status of the call when that ends. The first one sends the
 * response's head.
 */
PK_API PK_NODISCARD pk_future pk_writer_write(pk_writer *writer, const void *message);

/*
 * Server: sends the response's head (pk_call_headers) now, before any message. PK_ERR_STATE where
 * it has gone or the call has ended.
 */
PK_API PK_NODISCARD int pk_writer_send_headers(pk_writer *writer);

/*
 * Whether messages written from now on may be compressed, where the peer accepts it; for
 * compressed and plain messages in one stream. Default: as pk_call_set_compress_min_bytes says.
 */
PK_API void pk_writer_set_compression(pk_writer *writer, bool compressed);

/* ---- Client ---- */

/* Ends the program's side: nothing more will be written. The server sees the end of its stream. */
PK_API void pk_writer_end(pk_writer *writer);

/*
 * Gives back what a stub returned: a reader, after which the call is cancelled if it goes on; a
 * writer, likewise unless pk_writer_end was called. The last of them takes the call's memory along,
 * once no step hung on the call is left. Not owed where the call has a parent. Takes NULL; returns
 * NULL.
 */
PK_API pk_reader *pk_reader_unref(pk_reader *reader);
PK_API pk_writer *pk_writer_unref(pk_writer *writer);

/* The call of a reader or writer. */
PK_API pk_call *pk_reader_call(pk_reader *reader);
PK_API pk_call *pk_writer_call(pk_writer *writer);

PK_END_DECLS

#endif
