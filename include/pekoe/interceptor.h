/*
 * Interceptors: functions around a call, on the server's side and the client's.
 *
 * An interceptor is given the call and the rest of it, `next`: the interceptors behind it and at last
 * the handler (server) or the sending of the call (client). It runs the rest now, later or never,
 * and what its future settles with is how the call ends:
 *
 *     static pk_future authenticate(void *self, pk_call *call, pk_next *next)
 *     {
 *         if (!is_known(pk_metadata_get(pk_call_metadata(call), "authorization")))
 *             return pk_failed(call, PK_UNAUTHENTICATED, "who are you?");
 *         return pk_next_run(next);
 *     }
 *
 * The first that was registered is the outermost: it is asked first and sees the end last. Register
 * with pk_router_intercept (service.h; a server's router, or one that is concat'ed into it) and
 * pk_channel_intercept (channel.h). An interceptor sees calls of all four styles, raw ones included;
 * a call is one call to it however often the channel tries it. docs/interceptors.md is the guide.
 */
#ifndef PEKOE_INTERCEPTOR_H
#define PEKOE_INTERCEPTOR_H

#include <pekoe/call.h>
#include <pekoe/message.h>

PK_BEGIN_DECLS

/* The rest of a call, for one interceptor; in the call. */
typedef struct pk_next pk_next;

/*
 * Asked once for each call, with the call's scope current. Server: where the handler would be asked,
 * which is when the one request is complete, or at the head where requests are a stream. Client:
 * inside the stub, before anything is sent; not for a call that cannot be made (its options are
 * wrong, its deadline has passed).
 *
 * The value of its future is the reply; NULL for styles whose replies are a stream. A failure is the
 * status that the peer (client: the program) gets. While it is pending the deadline and cancels hold:
 * they settle what is pending in it with their status, and the end of the call does not wait for it.
 */
typedef pk_future pk_interceptor(void *self, pk_call *call, pk_next *next);

/*
 * Runs the rest, at most once. The future is done with what the next interceptor's, or the handler's,
 * is done with; on a client with the reply, or with NULL once the program has read all replies of a
 * stream and its status was OK. It fails with INTERNAL the second time, with the call's status where
 * that has ended. On a client it may be dropped (pk_timeout): what was sent is cancelled then, and
 * the interceptor can still answer.
 */
PK_API PK_NODISCARD pk_future pk_next_run(pk_next *next);

/*
 * The same with another request of the same type, which lives until the call has ended. INTERNAL
 * where it is of another type, or where the requests are a stream.
 */
PK_API PK_NODISCARD pk_future pk_next_run_with(pk_next *next, const void *request);

/*
 * The one request of the call (a const pk_slice * where it is raw); NULL where requests are a stream.
 * Server: in the call. Client: borrowed until the interceptor or step that asked returns.
 */
PK_API const void *pk_next_request(const pk_next *next);

/* ---- Messages of streams ---- */

/* What the call's messages are; NULL: raw bytes, each a pk_slice (of raw.h's calls: a pk_raw_message). */
PK_API const pk_message_type *pk_call_request_type(const pk_call *call);
PK_API const pk_message_type *pk_call_reply_type(const pk_call *call);

/*
 * Sees one message of a stream, and returns, done at once, the message that goes on in its place: the
 * same or another of its type. One that was read may be changed as well (it is private to the call),
 * and another one must live as long as the call. Of those that are written, another one is read
 * before the next message comes. A failure is what the write fails with; one of a read ends the call
 * with that status. INTERNAL for a future that is pending or without a message.
 */
typedef pk_future pk_message_filter(void *self, pk_call *call, const void *message);

/*
 * Has the filter see each message that is read from the wire (is written) from now on. Where several
 * interceptors ask, messages pass in the order in which interceptors stand around the handler or
 * program: a server's outermost sees what is read first and what is written last, a client's the
 * other way round. Nothing happens where that side of the call is no stream: see pk_next_request and
 * the value of pk_next_run. PK_ERR_NOMEM; PK_ERR_STATE where the call has ended.
 */
PK_API PK_NODISCARD int pk_call_filter_reads(pk_call *call, pk_message_filter *filter, void *self);
PK_API PK_NODISCARD int pk_call_filter_writes(pk_call *call, pk_message_filter *filter, void *self);

PK_END_DECLS

#endif
