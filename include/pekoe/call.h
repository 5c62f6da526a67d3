/*
 * The call: one RPC, on the server's side or the client's.
 *
 * A server's call lives from the request's head until the response has left; whatever is said to
 * be "in the call" (its memory, metadata, messages) lives as long and is never freed by hand. All
 * functions are for the thread of the call's loop.
 */
#ifndef PEKOE_CALL_H
#define PEKOE_CALL_H

#include <pekoe/future.h>
#include <pekoe/loop.h>
#include <pekoe/message.h>
#include <pekoe/metadata.h>

PK_BEGIN_DECLS

typedef struct pk_call pk_call;

/* ---- Memory in the call ---- */

/*
 * Zeroed memory in the call, 16-byte aligned. When memory runs out it is scratch (see below) and
 * the call will end with RESOURCE_EXHAUSTED, so that handlers need no test; only a request above
 * 16 MiB can give NULL. Scratch: zeroed bytes whose contents last until the handler or step that
 * asked returns. None comes back to them: in a call without memory nothing is waited for, and
 * futures that would have to be fail with RESOURCE_EXHAUSTED.
 */
PK_API void *pk_call_alloc(pk_call *call, size_t size);

/* An object in the call with designated initializers: pk_call_new(call, struct session, .in = in). */
#define pk_call_new(call, type, ...)                                  \
    (__extension__({                                                  \
        type *pk_new_ = (type *) pk_call_alloc((call), sizeof(type)); \
        if (pk_new_)                                                  \
            *pk_new_ = (type){__VA_ARGS__};                           \
        pk_new_;                                                      \
    }))

/* A printed string in the call. */
PK_API char *pk_call_printf(pk_call *call, const char *format, ...) PK_PRINTF(2, 3);

/* A copy in the call, with a NUL behind it. */
PK_API char *pk_call_copy(pk_call *call, const void *bytes, size_t length);

/*
 * The call's memory as protobuf-c's allocator; freeing through it does nothing, so
 * protobuf_c_message_free_unpacked on a message of the call is harmless with it.
 */
PK_API ProtobufCAllocator *pk_call_allocator(pk_call *call);

/* ---- Futures of the call ---- */

/* The call's scope: for pk_all, pk_timeout, pk_sleep, pk_promise_new. */
PK_API pk_scope *pk_call_scope(pk_call *call);

/* A failed future; the status is printed into the call. `code` must not be PK_OK. */
PK_API PK_NODISCARD pk_future pk_failed(pk_call *call, pk_code code, const char *format, ...)
    PK_PRINTF(3, 4);

/* The same with all parts of a status, which is copied: rich details travel with it. */
PK_API PK_NODISCARD pk_future pk_failed_status(pk_call *call, const pk_status *status);

/* Runs blocking work on the loop's threads; see pk_offload. */
PK_API PK_NODISCARD pk_future pk_call_offload(pk_call *call, const void *(*work)(void *arg),
                                              void *arg);

/* ---- Ends ---- */

/*
 * Runs fn(arg) once when the call ends, however it ends: answered, failed, cancelled, timed out,
 * connection lost. Several run in the reverse order of being asked for. Memory in the call is still
 * there. PK_ERR_STATE where the call has ended; fn does not run then. PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_call_on_end(pk_call *call, void (*fn)(void *arg), void *arg);

/*
 * Done with NULL as soon as nobody waits for the call any more (cancelled, deadline, connection
 * lost): for work that goes on elsewhere. Fails with CANCELLED where the call ends otherwise.
 */
PK_API PK_NODISCARD pk_future pk_call_cancelled(pk_call *call);

/*
 * Ends the call now with CANCELLED: a server's peer gets that status, a client's server a reset.
 * What is pending in the call resolves with it. Nothing happens to a call that has ended.
 */
PK_API void pk_call_cancel(pk_call *call);

/* ---- What is known of the call ---- */

/* Nanoseconds until the deadline, 0 once it has passed; UINT64_MAX: it has none. */
PK_API uint64_t pk_call_time_left(const pk_call *call);

/* "/demo.Greeter/SayHello"; lives as long as the call. */
PK_API const char *pk_call_method(const pk_call *call);

/* "ipv4:127.0.0.1:50123", "ipv6:[::1]:50123", "unix:"; lives as long as the call. */
PK_API const char *pk_call_peer(const pk_call *call);

PK_API pk_loop *pk_call_loop(pk_call *call);

/* ---- Metadata ---- */

/* What the peer sent with the request (server), or with the response's head (client). */
PK_API const pk_metadata *pk_call_metadata(pk_call *call);

/* Server: to be sent with the response's head; adding after that has gone has no effect. */
PK_API pk_metadata *pk_call_headers(pk_call *call);

/* Server: to be sent with the status, success or failure. */
PK_API pk_metadata *pk_call_trailers(pk_call *call);

/*
 * What pk_call_metadata shows from now on, as a copy that can be added to and removed from: so that
 * an interceptor changes what the handler (client: the program) sees. NULL when memory runs out.
 */
PK_API pk_metadata *pk_call_edit_metadata(pk_call *call);

/* ---- Values ---- */

/*
 * Hangs a value on the call, for whoever knows the key: the address of a variable of whoever defines
 * it. An interceptor tells the handler this way who calls. A second value of a key takes the place of
 * the first. The value is borrowed as long as the call. PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_call_set_value(pk_call *call, const void *key, void *value);

/* The key's value; NULL: none was set. */
PK_API void *pk_call_value(const pk_call *call, const void *key);

/* ---- Compression ---- */

/*
 * Whether the request's message (client: the reply) came compressed; in a stream: the message that
 * was read last.
 */
PK_API bool pk_call_request_compressed(const pk_call *call);

/*
 * Messages from `min_bytes` up are compressed where the peer accepts it; SIZE_MAX: none is, 0: all
 * are. Holds for messages that are sent after it. Default: the server's setting.
 */
PK_API void pk_call_set_compress_min_bytes(pk_call *call, size_t min_bytes);

PK_END_DECLS

#endif
