/*
 * One HTTP/2 session: frames, HPACK, streams and flow control, for either role, without a socket.
 *
 * This interface is all that pekoe knows of its HTTP/2 library; only http2_session*.c see nghttp2. The caller feeds bytes, then reads the batch of events that they gave, then
 * submits, then takes output. Nothing here calls the application, and no function of this header
 * is called from inside a callback of the library, so that the library is never re-entered.
 *
 * Streams are embedded at the head of the caller's own object, whose size the caller names. A
 * stream's object lives from its first event (or pk_http2_open) until pk_http2_release, which the
 * caller owes it after PK_HTTP2_CLOSED or once the connection is lost.
 *
 * Errors: PK_ERR_NOMEM leaves the session fit only for pk_http2_session_done.
 */
#ifndef PEKOE_TRANSPORT_HTTP2_SESSION_H
#define PEKOE_TRANSPORT_HTTP2_SESSION_H

#include "core/exchange.h"
#include "transport/output.h"

#define PK_HTTP2_FIELDS_INLINE 11u /* fields of a head that need no memory of their own */
#define PK_HTTP2_QUEUE_HIGH 65536u /* bytes queued on a stream at which its writer has to wait */
#define PK_HTTP2_QUEUE_LOW 32768u  /* and at which it may go on */

typedef struct pk_http2_session pk_http2_session;
typedef struct pk_http2_stream pk_http2_stream;
typedef struct pk_http2_known_head pk_http2_known_head;

/* Error codes of RFC 9113 section 7. */
typedef enum pk_http2_error {
    PK_HTTP2_NO_ERROR = 0,
    PK_HTTP2_PROTOCOL_ERROR = 1,
    PK_HTTP2_INTERNAL_ERROR = 2,
    PK_HTTP2_REFUSED_STREAM = 7,
    PK_HTTP2_CANCEL = 8,
    PK_HTTP2_ENHANCE_YOUR_CALM = 11,
    PK_HTTP2_INADEQUATE_SECURITY = 12,
} pk_http2_error;

/* What both sides are told, and what the peer may do. */
typedef struct pk_http2_limits {
    uint32_t max_streams;       /* that the peer may have open at once */
    uint32_t stream_window;     /* bytes of body in flight towards us, per stream */
    uint32_t connection_window; /* and for all streams together; at least 65,535 */
    uint32_t header_bytes;      /* of a field block (RFC 9113 section 6.5.2's count): above it the
                                   stream is reset and its fields are not kept */
    uint32_t resets;            /* server: RST_STREAM frames that may come in a burst; as many
                                   streams may be reset by us for errors of the peer. Client: that
                                   leave in a burst before the session is worn out */
    uint32_t resets_per_second; /* and from then on */
    uint32_t glitches;          /* frames without use (PING, SETTINGS, PRIORITY, empty DATA) that
                                   may come within 10 s and without a reply in between */
    uint32_t queued_frames;     /* that may wait for a peer which does not read */
    size_t send_budget;         /* queued bytes, all streams, above which each keeps to one write */
} pk_http2_limits;

/* The fields of one block, in the order they came. */
typedef struct pk_http2_fields {
    pk_head head;      /* what the application sees; points into the storage */
    pk_field *storage; /* `capacity` fields, followed by two holders for each */
    size_t capacity;
    size_t bytes; /* names + values + 32 each */
} pk_http2_fields;

struct pk_http2_stream {
    pk_http2_session *session;
    pk_http2_stream *next, *previous; /* in the session's ring */
    int32_t id;
    uint32_t moved; /* for the owner: body bytes that came or left since it looked last */

    /* Client, until the request's head is handed to the library. */
    pk_http2_stream *next_waiting; /* for a place among those that the peer allows */

    /* From the peer. */
    bool head_seen;       /* PK_HTTP2_HEAD was collected */
    bool malformed;       /* the message breaks a rule: reset once the block has ended */
    bool too_large;       /* it exceeds header_bytes: likewise */
    bool regular_seen;    /* a field that is no pseudo-header came */
    bool head_ended;      /* END_STREAM came with the head: there is no body */
    bool remote_ended;    /* END_STREAM came */
    bool closed;          /* PK_HTTP2_CLOSED was collected: the library has forgotten the stream */
    bool dead;            /* reset by us: what still comes is dropped */
    unsigned quiet_ticks; /* for the owner: ticks without a byte of the body */
    uint32_t error;       /* the code it was closed with */
    size_t uncredited;    /* body bytes whose credit is still out */
    int64_t body_left;    /* of content-length; -1: not given */
    pk_http2_fields head;
    pk_http2_fields trailers;
    pk_http2_known_head *known; /* where `head` is one that streams share */

    /* To the peer. */
    bool head_sent;        /* submitted */
    bool head_left;        /* it is in the output; before that the peer knows nothing of it */
    bool body_attached;    /* the library pulls from `queue` */
    bool deferred;         /* it found the queue empty and waits to be told */
    bool finishing;        /* the end was submitted: `last` follows the queue */
    bool last_submitted;   /* to the library, or they follow the DATA frame that it sends next */
    bool local_ended;      /* END_STREAM is in the output */
    bool wants_room;       /* the writer waits for PK_HTTP2_ROOM */
    bool waiting;          /* client: for a place */
    bool shed;             /* `dead` for want of memory, and not for an error of the peer */
    unsigned status;       /* of a response */
    const pk_field *first; /* the head's fields, without :status */
    size_t first_count;
    pk_buffer *queue, **queue_end;
    size_t queued;        /* bytes in it */
    const pk_field *last; /* trailers */
    size_t last_count;

    pk_field fields_inline[PK_HTTP2_FIELDS_INLINE];
    void *holders_inline[2 * PK_HTTP2_FIELDS_INLINE];
};

typedef enum pk_http2_event_kind {
    PK_HTTP2_HEAD,   /* stream->head is complete; remote_ended: nothing follows */
    PK_HTTP2_DATA,   /* bytes of the body, which lie in what was fed */
    PK_HTTP2_END,    /* the peer has ended its side; stream->trailers where there were any */
    PK_HTTP2_ROOM,   /* a queue that was full has drained */
    PK_HTTP2_CLOSED, /* the stream is over, see `error` and `local_ended`; its last event */
} pk_http2_event_kind;

typedef struct pk_http2_event {
    pk_http2_stream *stream;
    const uint8_t *bytes;
    uint32_t length;
    pk_http2_event_kind kind;
} pk_http2_event;

/*
 * A field that was looked at before: its name was looked up and both texts were found valid. Peers
 * repeat most fields at the same place of a block, and HPACK then hands over the very same texts.
 * References are held, so that no other text can come to stand where these do.
 */
#define PK_HTTP2_SEEN_HEAD 16u   /* places of a head */
#define PK_HTTP2_SEEN_FIELDS 20u /* and of trailers behind them */

typedef struct pk_http2_seen_field {
    void *name_text, *value_text; /* of the library; NULL: the place is free */
    pk_field field;
} pk_http2_seen_field;

/* A block of a request that came before, and the head that it made. */
#define PK_HTTP2_KNOWN 4u

typedef struct pk_http2_known_block {
    pk_http2_known_head *head; /* NULL: the place is free */
    uint64_t hash;             /* of the block */
    uint64_t table_changes;    /* of the peer, when it came */
} pk_http2_known_block;

/* A block that was sent, to be sent again as it was. */
#define PK_HTTP2_SENT_TEXTS 184u
#define PK_HTTP2_SENT_BLOCK 56u

typedef struct pk_http2_sent_block {
    uint64_t table_changes; /* of the session, when it was encoded */
    uint16_t status;
    uint8_t count;                      /* of its fields */
    uint8_t length;                     /* of the block; 0: there is none */
    uint8_t block[PK_HTTP2_SENT_BLOCK]; /* as it was encoded */
    uint8_t texts[PK_HTTP2_SENT_TEXTS]; /* of each field both lengths, name and value */
} pk_http2_sent_block;

struct pk_http2_session {
    void *engine;      /* the library's session */
    void *encoder;     /* the library's, of field blocks that go out */
    pk_memory *memory; /* borrowed */
    pk_http2_limits limits;
    size_t stream_size;    /* of the object that a stream is the head of */
    pk_http2_stream *last; /* the one looked up last */
    pk_http2_stream *ring; /* any stream; NULL: there is none */
    size_t stream_count;
    pk_http2_stream *waiting, **waiting_end; /* client: streams that wait for a place, in order */
    size_t open_count;                       /* streams that the library knows of */
    pk_output *output;                       /* while output is taken */
    size_t output_limit;
    bool output_full;       /* it reached the limit */
    bool frame_put;         /* what the library has just packed is in the output already */
    uint64_t table_changes; /* how often the encoder's table has changed */
    size_t queued;          /* bytes in all streams' queues */
    size_t credit;          /* connection credit that came free inside the library's callbacks */
    bool server;
    bool greeted;    /* the peer's first SETTINGS came */
    bool block_open; /* a field block has begun and not ended */
    bool draining;   /* server: the first of two GOAWAYs was sent; client: its only one is to be */
    bool gone_away;  /* the last one was */
    bool peer_goes_away;
    int32_t peer_last;   /* the last stream that it serves then */
    uint32_t peer_error; /* the reason that it gave */
    uint32_t pings_out;  /* PINGs of ours that have no answer yet */
    int failed;          /* PK_ERR_* that the session cannot live on with, or 0 */
    uint32_t glitch_count;
    uint64_t glitch_since; /* clock of the first one counted */
    uint32_t resets_left;  /* that we may still send, see pk_http2_limits */
    uint64_t resets_since; /* clock of the last time that some were added */
    bool worn_out;         /* client: so many were sent that the peer may soon end the session */
    uint64_t (*clock)(const void *context);
    const void *clock_context;

    pk_http2_seen_field seen[PK_HTTP2_SEEN_FIELDS]; /* by their places */

    pk_http2_sent_block sent_head, sent_trailers;

    /* Server: what is known of the bytes that come in, see http2_session_known.c. */
    pk_http2_known_block known[PK_HTTP2_KNOWN];
    uint64_t came[PK_HTTP2_KNOWN]; /* hashes of blocks that came once */
    unsigned known_next, came_next;
    uint64_t peer_table_changes;   /* how often the table of the peer may have changed */
    pk_http2_known_head *arriving; /* of the request that the library is being fed */
    const uint8_t *learning;       /* the block of the one that is to become known */
    size_t learning_length;
    uint64_t learning_hash;
    size_t frame_left;         /* bytes of a frame, or of the preface, that are still to come */
    uint8_t frame_head[9];     /* of a frame whose head is not whole yet */
    uint8_t frame_head_length; /* bytes of it */
    int32_t newest;            /* the highest stream that a head came for */

    pk_http2_event *events; /* the batch; memory is held only while there are any */
    size_t event_count, event_capacity;
    size_t rooms; /* PK_HTTP2_ROOM among them */
};

/*
 * Opens a session and queues its SETTINGS. `clock` gives nanoseconds. PK_ERR_NOMEM: nothing was
 * opened.
 */
PK_NODISCARD int pk_http2_session_init(pk_http2_session *session, bool server, pk_memory *memory,
                                       const pk_http2_limits *limits, size_t stream_size,
                                       uint64_t (*clock)(const void *context),
                                       const void *clock_context);

/* Every stream must have been released. */
void pk_http2_session_done(pk_http2_session *session);

/*
 * Eats all the bytes and appends what they meant to the batch. 0; PK_ERR_MALFORMED: the peer does
 * not speak HTTP/2 or broke a limit of the connection, which cannot go on; PK_ERR_NOMEM.
 */
PK_NODISCARD int pk_http2_session_feed(pk_http2_session *session, const uint8_t *bytes,
                                       size_t length);

/* Empties the batch, after its events were handled. */
void pk_http2_session_clear(pk_http2_session *session);

/*
 * Appends frames to `output` until it holds `limit` bytes or none is left; may append ROOM and
 * CLOSED events to the batch. 1: more is left; 0: not now; PK_ERR_NOMEM.
 */
PK_NODISCARD int pk_http2_session_take(pk_http2_session *session, pk_output *output, size_t limit);

/* Whether the session takes nothing more from the peer: an error has ended it. */
bool pk_http2_session_deaf(const pk_http2_session *session);

/* Whether the session has nothing left to read or to send: the connection may be closed. */
bool pk_http2_session_over(const pk_http2_session *session);

/*
 * Server: asks the peer to open no more streams, and a round trip later tells it the last one
 * served. Client: opens no more streams, and says so once all that were opened have left; the session
 * is over with the last of them.
 */
PK_NODISCARD int pk_http2_session_drain(pk_http2_session *session);

/* Tells it at once: streams up to the last one seen are served, no other. */
PK_NODISCARD int pk_http2_session_go_away(pk_http2_session *session);

/* Sends a PING; `pings_out` falls back to 0 when it is answered. */
PK_NODISCARD int pk_http2_session_ping(pk_http2_session *session);

/* Ends the session with an error; all streams are lost. */
PK_NODISCARD int pk_http2_session_terminate(pk_http2_session *session, pk_http2_error error);

/*
 * Client: opens a stream with a request's head, as soon as the peer allows one more. Pseudo-headers
 * stand first in `fields`, which must stay readable until the stream is closed. `body`:
 * pk_http2_write and finish follow. PK_ERR_CLOSED: the session takes no more streams; those that
 * wait when the peer goes away are closed with PK_HTTP2_REFUSED_STREAM.
 */
PK_NODISCARD int pk_http2_open(pk_http2_session *session, const pk_field *fields, size_t count,
                               bool body, pk_http2_stream **ret_stream);

/*
 * Client: how many more streams the peer lets us open now; 0 once it goes away.
 */
size_t pk_http2_room_for_streams(const pk_http2_session *session);

/*
 * Server: the response's head. `fields` must stay readable until the stream is closed.
 * `ended`: neither body nor trailers follow.
 */
PK_NODISCARD int pk_http2_respond(pk_http2_stream *stream, unsigned status, const pk_field *fields,
                                  size_t count, bool ended);

/* Queues bytes of the body; the reference passes, also on failure. */
PK_NODISCARD int pk_http2_write(pk_http2_stream *stream, pk_buffer *body_take);

/* Whether the queue is full: then ROOM comes when it has drained. */
bool pk_http2_full(pk_http2_stream *stream);

/* Ends our side, after the queue; `trailers` must stay readable until the stream is closed. */
PK_NODISCARD int pk_http2_finish(pk_http2_stream *stream, const pk_field *trailers, size_t count);

/*
 * Gives the peer back `length` bytes of window, no more than are out. A server's peer gets them back
 * for the stream and the connection. A client's has those of the connection as soon as they have
 * come: a response that is not read holds up itself and no other, and is bounded by its own window.
 */
PK_NODISCARD int pk_http2_credit(pk_http2_stream *stream, size_t length);

/* Whether what is queued waits for the stream's own window, which the peer keeps shut. */
bool pk_http2_shut_out(const pk_http2_stream *stream);

/* Ends both sides; what was queued is dropped. CLOSED follows once the peer is told. */
PK_NODISCARD int pk_http2_reset(pk_http2_stream *stream, pk_http2_error error);

/* Drops what is queued on a stream that is closed: its buffers may go to another one then. */
void pk_http2_drop_queue(pk_http2_stream *stream);

/* Frees the stream's object. */
void pk_http2_release(pk_http2_stream *stream);

#endif
