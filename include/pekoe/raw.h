/*
 * Raw calls: of any path and any style, messages as the bytes that travel. For proxies and tools
 * that pass calls on without knowing their messages.
 *
 * Nothing is decoded, compressed or decompressed: a message comes with the flag of its prefix and is
 * sent with the flag that it is given, and the names of the encodings, which the two ends agree on,
 * are handed over by the program. Limits count the bytes that travel.
 */
#ifndef PEKOE_RAW_H
#define PEKOE_RAW_H

#include <pekoe/channel.h>
#include <pekoe/service.h>
#include <pekoe/stream.h>

PK_BEGIN_DECLS

/* What readers of raw calls give, and what their writers are given. */
typedef struct pk_raw_message {
    pk_slice bytes;
    bool compressed; /* as the call's encoding says; one has to be named then */
} pk_raw_message;

/* Bytes in front of a message: 1 where it is compressed and else 0; its length in four, big-endian. */
#define PK_RAW_FRAME_PREFIX 5u

/* A run of messages in the form in which they travel: frames, one behind the other. */
typedef struct pk_raw_frames {
    pk_slice bytes;
    size_t count;             /* of messages, at least 1 */
    bool compressed;          /* all of them are; else none is */
    struct pk_buffer *buffer; /* pekoe's own; NULL where a program makes frames */
} pk_raw_frames;

/* What a head says of compression; length 0: the field is not there. */
typedef struct pk_encodings {
    pk_slice message;  /* grpc-encoding: how this side's flagged messages are compressed */
    pk_slice accepted; /* grpc-accept-encoding: what this side understands */
} pk_encodings;

/* ---- Server ---- */

/*
 * Handles calls of any path that no service has, of whatever style: `in` reads the request's
 * messages (const pk_raw_message *), `out` writes the reply's. The future ends the call: done with
 * NULL for OK, failed for any other status. A status before the first write (or
 * pk_writer_send_headers) is sent without a body. Replaces what pk_router_set_generic has set. NULL:
 * such calls get UNIMPLEMENTED.
 */
typedef pk_future pk_raw_handler(void *self, pk_call *call, pk_reader *in, pk_writer *out);
PK_API void pk_router_set_raw(pk_router *router, pk_raw_handler *handler, void *self);

/*
 * Names the encodings of a raw call's response; before its head is sent. Copied. PK_ERR_STATE where
 * the call has ended, PK_ERR_INVALID for what cannot stand in a field, PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_call_set_encodings(pk_call *call, const pk_encodings *encodings);

/* ---- Client ---- */

/*
 * Starts a raw call: "/package.Service/Method". Messages are pk_raw_message both ways; a call with
 * one request is written and ended like any other. `encodings` may be NULL: identity, and nothing
 * else is accepted. opts->compression is not looked at. Otherwise as pk_call_bidi_streaming.
 */
PK_API PK_NODISCARD pk_reader *pk_call_raw(pk_channel *channel, const char *path,
                                           const pk_encodings *encodings, pk_writer **ret_out,
                                           const pk_call_opts *opts);

/*
 * Waits for the head of a client call's response: done with its pk_metadata * once it has come and
 * messages or a status follow; done with NULL where the call ends without one: its status is then
 * all there is (trailers-only). Never fails but for want of memory. One may be pending at a time.
 */
PK_API PK_NODISCARD pk_future pk_call_received_head(pk_call *call);

/* ---- Both ---- */

/*
 * Reads all messages that are there, at least one, as const pk_raw_frames *: for who passes them on
 * and would only put back what pk_reader_read takes out. It waits for no second message, gives at
 * most 16 KiB at once (a longer message comes alone), and where the flags change the next read goes
 * on. Limits hold for each message: those before one that is refused are given first. Otherwise as
 * pk_reader_read, with which it may take turns. INTERNAL where the call is not raw.
 */
PK_API PK_NODISCARD pk_future pk_reader_read_frames(pk_reader *reader);

/* pk_reader_each with frames. */
PK_API PK_NODISCARD pk_future pk_reader_each_frames(pk_reader *reader, pk_step *fn, void *arg);

/*
 * Sends messages in the form of frames, those of a reader without copying them once more. Limits hold
 * for each. Otherwise as pk_writer_write. INTERNAL where the call is not raw, or where the frames
 * are not what their count and `compressed` say: nothing is sent then.
 *
 *     static pk_future pass_on(const void *frames, void *out)
 *     {
 *         return pk_writer_write_frames(out, frames);
 *     }
 *     ...
 *     return pk_reader_each_frames(in, pass_on, out);
 */
PK_API PK_NODISCARD pk_future pk_writer_write_frames(pk_writer *writer,
                                                     const pk_raw_frames *frames);

/*
 * What the peer's head named: the request's (server) or the response's (client; after its end also
 * that of a response without messages). Slices live as long as pk_call_metadata's.
 */
PK_API pk_encodings pk_call_received_encodings(pk_call *call);

/*
 * How the call came: "grpc", "grpc-web" or "grpc-web-text"; a client's is "grpc". Static.
 */
PK_API const char *pk_call_protocol(const pk_call *call);

PK_END_DECLS

#endif
