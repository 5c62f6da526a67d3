/*
 * The seam between transports and handlers: one HTTP request and its response.
 *
 * A transport (HTTP/2, HTTP/1.1, the in-process kit, the gateway's upstream side) makes exchanges
 * and fills `ops`; whoever handles one fills `events`. Nothing here knows gRPC. A transport calls
 * events only from its dispatch phase, never from inside a protocol library's callback; a handler
 * may call any operation from inside any event.
 *
 * Life of a server's exchange: accept (the head is there) -> on_data*, on_end (the request's body
 * and end) -> reply_strict, or start, write*, finish -> on_closed. on_cancelled may come at any
 * time before on_closed, after it no operation has any effect. on_closed is always the last event
 * and comes exactly once; when it returns, the exchange and every slice that came with it are gone.
 * What the handler passed to reply_strict, start and finish must stay readable until then.
 */
#ifndef PEKOE_CORE_EXCHANGE_H
#define PEKOE_CORE_EXCHANGE_H

#include <pekoe/loop.h>

#include "core/buffer.h"

/* Field names that pekoe looks at; all others are PK_FIELD_OTHER. Order: see field.c's table. */
typedef enum pk_field_name {
    PK_FIELD_OTHER,
    PK_FIELD_METHOD,    /* :method */
    PK_FIELD_PATH,      /* :path */
    PK_FIELD_SCHEME,    /* :scheme */
    PK_FIELD_AUTHORITY, /* :authority, or host of HTTP/1.1 */
    PK_FIELD_STATUS,    /* :status */
    PK_FIELD_CONTENT_TYPE,
    PK_FIELD_CONTENT_LENGTH,
    PK_FIELD_CONTENT_ENCODING,
    PK_FIELD_ACCEPT,
    PK_FIELD_ACCEPT_ENCODING,
    PK_FIELD_TE,
    PK_FIELD_USER_AGENT,
    PK_FIELD_ORIGIN,
    PK_FIELD_GRPC_TIMEOUT,
    PK_FIELD_GRPC_ENCODING,
    PK_FIELD_GRPC_ACCEPT_ENCODING,
    PK_FIELD_NAMES, /* how many there are */
} pk_field_name;

/* One header or trailer field. Names are lower case. */
typedef struct pk_field {
    pk_slice name;
    pk_slice value;
    uint8_t known;  /* pk_field_name; fields that are sent may leave it 0 */
    bool sensitive; /* never indexed by HPACK */
} pk_field;

/* The fields of a request's or response's head, or of trailers. */
typedef struct pk_head {
    const pk_field *fields;
    size_t count;
    uint16_t first[PK_FIELD_NAMES]; /* place of the first such field, 1-based; 0: absent */
    uint32_t repeated;              /* bit of each known name that comes more than once */
} pk_head;

/* Which known name this is. */
pk_field_name pk_field_lookup(pk_slice name);

/* The first value of a known field; {NULL, 0} when it is absent. */
static inline pk_slice pk_head_value(const pk_head *head, pk_field_name name)
{
    uint16_t place = head->first[name];
    return place ? head->fields[place - 1].value : (pk_slice){NULL, 0};
}

/* A whole response at once. */
typedef struct pk_reply {
    unsigned http_status;
    const pk_field *fields; /* without :status */
    size_t field_count;
    pk_buffer *body;          /* the reference passes to the transport; NULL for none */
    const pk_field *trailers; /* count 0: the body, or the head, ends the stream */
    size_t trailer_count;
} pk_reply;

/* Why a stream ends early; the HTTP/2 transport maps it to an error code. */
typedef enum pk_reset {
    PK_RESET_NONE,     /* NO_ERROR: the response is complete, the rest of the request unwanted */
    PK_RESET_CANCEL,   /* CANCEL */
    PK_RESET_INTERNAL, /* INTERNAL_ERROR */
    PK_RESET_REFUSED,  /* REFUSED_STREAM */
    PK_RESET_CALM,     /* ENHANCE_YOUR_CALM */
} pk_reset;

typedef struct pk_exchange pk_exchange;

/* Who is at the other end of a connection. */
typedef struct pk_peer {
    const char *address;           /* "ipv4:127.0.0.1:5000", "unix:", ... */
    const struct pk_tls_info *tls; /* NULL: the connection is plain */
} pk_peer;

/* What the handler hears. A NULL member is not called, except on_closed, which must be there. */
typedef struct pk_exchange_events {
    /* Client side: the response's head. `ended`: it is all there is (trailers-only). */
    void (*on_head)(pk_exchange *exchange, const pk_head *head, bool ended);
    /*
     * Body bytes, readable until it returns. `holder`, where not NULL, is the buffer that they lie
     * in: a reference keeps them readable longer. Flow control credit comes back only by consume.
     */
    void (*on_data)(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder);
    /* The peer has ended its side; `trailers` is NULL where there were none. */
    void (*on_end)(pk_exchange *exchange, const pk_head *trailers);
    /* There is room to write again after write returned none. */
    void (*on_room)(pk_exchange *exchange);
    /* The peer reset the stream, or the connection is lost. `why` is borrowed until it returns. */
    void (*on_cancelled)(pk_exchange *exchange, const pk_status *why);
    void (*on_closed)(pk_exchange *exchange);
} pk_exchange_events;

/* What the transport does. consume and hold concern the request, the others the response. */
typedef struct pk_exchange_ops {
    /* Gives back flow control credit for `length` body bytes. */
    void (*consume)(pk_exchange *exchange, size_t length);
    /* Server: the whole response. Ends the handler's side. */
    void (*reply_strict)(pk_exchange *exchange, const pk_reply *reply);
    /*
     * Server: the response's head; the body follows by write. Who tells a content-length (`known`)
     * writes as much, or resets: HTTP/1.1 lays no chunks around it.
     */
    void (*start)(pk_exchange *exchange, unsigned http_status, const pk_field *fields,
                  size_t count);
    /*
     * Queues the buffer's bytes (the reference passes). Returns true while there is room for more;
     * after false on_room will come, or the end of an exchange that takes no more.
     */
    bool (*write)(pk_exchange *exchange, pk_buffer *body_take);
    /* Ends the handler's side: after all bytes written, with these trailers. */
    void (*finish)(pk_exchange *exchange, const pk_field *trailers, size_t count);
    /* Ends both sides now; what was not sent is dropped. */
    void (*reset)(pk_exchange *exchange, pk_reset why);
    /*
     * Says how many body bytes the handler keeps now beyond those not yet consumed: a message that
     * is being gathered. The figure replaces the last one and counts against the byte budgets of
     * the connection and the server until on_closed.
     */
    void (*hold)(pk_exchange *exchange, size_t bytes);
} pk_exchange_ops;

struct pk_exchange {
    const pk_exchange_ops *ops;
    const pk_exchange_events *events; /* set by the handler in accept */
    void *user;                       /* the handler's */
    pk_loop *loop;
    /* Client, set before on_cancelled: the peer has not looked at the request, it may be sent again. */
    bool unprocessed;
    bool unsent;         /* likewise: it has not even left */
    bool no_trailers;    /* the response can carry none: they are dropped, HTTP/1.1 */
    const pk_peer *peer; /* lives as long as the exchange */
};

/*
 * Takes a server's new exchange. It installs `events` and `user`, or answers with reply_strict
 * (then it still installs events with on_closed). `head` lives as long as the exchange. `ended`: no
 * body follows, and on_end will not come.
 */
typedef struct pk_acceptor {
    void (*accept)(void *self, pk_exchange *exchange, const pk_head *head, bool ended);
    /*
     * Takes one that a limit of the transport turns away (header size, byte budget): as accept, but
     * it is only answered, with `why`, which is borrowed until it returns. NULL: the transport
     * answers with a bare 503, or 431 for the header size.
     */
    void (*refuse)(void *self, pk_exchange *exchange, const pk_head *head, bool ended,
                   const pk_status *why);
    void *self;
} pk_acceptor;

#endif
