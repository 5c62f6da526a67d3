/*
 * The protocols: how calls are laid out in HTTP requests and responses.
 *
 * One const pk_protocol per variant, found by content-type. Handlers encode and decode through its
 * functions and name none of a protocol's details; docs/protocols.md shows how one is added.
 *
 * Server: pk_protocol_for -> pk_negotiate -> pk_body_reader_* -> reply_unary, or head, message...,
 * end. Client: request_head, message... -> pk_body_reader_* -> response_head, response_end.
 *
 * Fields that these functions return are static or in encoding->arena. A server's functions that
 * run out of memory answer with a static RESOURCE_EXHAUSTED instead.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_H
#define PEKOE_MARSHALLING_PROTOCOL_H

#include "core/exchange.h"
#include "core/metadata.h"
#include "marshalling/marshal.h"
#include "marshalling/negotiation.h"
#include "marshalling/protocol_body.h"
#include "marshalling/timeout.h"

/* Families of protocols, as bits of a mask: what a server has switched on. */
#define PK_PROTOCOLS_GRPC 1u
#define PK_PROTOCOLS_GRPC_WEB 2u

/* What a unary call ended with. */
typedef struct pk_outcome {
    const pk_message_type *type;
    const void *message; /* not looked at unless the status is OK */
    /*
     * What the codec writes of the message, where that is there already: borrowed, for encoders that
     * lay nothing behind a message. NULL: it is not.
     */
    pk_buffer *packed;
    const pk_status *status;     /* NULL: OK */
    const pk_metadata *headers;  /* NULL: none */
    const pk_metadata *trailers; /* NULL: none */
    unsigned http_status;        /* of a failed call, from pk_body_reader; 0: 200 */
} pk_outcome;

/* How a streamed response ends. */
typedef struct pk_protocol_end {
    pk_buffer *body; /* last bytes of the body, owned by the caller; NULL: none */
    const pk_field *trailers;
    size_t trailer_count;
} pk_protocol_end;

/* Where a client's request goes. */
typedef struct pk_request_target {
    pk_slice scheme;    /* "http" */
    pk_slice authority; /* "example.org:443" */
    pk_slice path;      /* "/demo.Greeter/SayHello" */
    pk_slice user_agent;
    uint64_t timeout; /* nanoseconds left; UINT64_MAX: none */
} pk_request_target;

/* Fields in the arena, or static; items NULL where memory ran out. */
typedef struct pk_fields {
    const pk_field *items;
    size_t count;
} pk_fields;

struct pk_protocol {
    const char *name;              /* for people: "grpc" */
    unsigned family;               /* one of PK_PROTOCOLS_* */
    pk_slice content_type;         /* of requests that it sends, and of replies */
    bool text;                     /* the body is base64 */
    bool trailers_in_body;         /* else they are HTTP trailers */
    const pk_protocol *other_form; /* base64 for binary and binary for base64; NULL: none */
    /* Static: content-type, and behind it the status of a reply for which there is no memory. */
    const pk_field *head_fields;

    /* ---- Server ---- */

    /*
     * The strict encoder: a whole response, for done and failed calls alike. Always fills
     * *ret_reply, whose body the caller owns, and returns the code that it carries: where the
     * message cannot be encoded, or is NULL beside OK, that is INTERNAL, and so on.
     */
    pk_code (*reply_unary)(const pk_protocol *self, const pk_encoding *encoding,
                           const pk_outcome *outcome, pk_reply *ret_reply);

    /* A whole response without messages; the status may be OK. message and type are not used. */
    pk_code (*reply_status)(const pk_protocol *self, const pk_encoding *encoding,
                            const pk_outcome *outcome, pk_reply *ret_reply);

    /* The fields of a streamed response's head (HTTP status 200). */
    pk_fields (*head)(const pk_protocol *self, const pk_encoding *encoding,
                      const pk_metadata *headers);

    /* One message, ready to be written, on either side. Errors as pk_marshal. */
    int (*message)(const pk_protocol *self, const pk_encoding *encoding,
                   const pk_message_type *type, const void *message, pk_buffer **ret_buffer,
                   pk_status *ret_status);

    /*
     * Frames as protocol_frames.h has them, ready to be written, on either side: the buffer that
     * they are all contents of is replaced. PK_ERR_NOMEM with *ret_status: it is given back. NULL:
     * they are written as they are.
     */
    int (*frames)(const pk_protocol *self, const pk_encoding *encoding, pk_buffer **frames,
                  pk_status *ret_status);

    /* The end of a streamed response. */
    void (*end)(const pk_protocol *self, const pk_encoding *encoding, const pk_status *status,
                const pk_metadata *trailers, pk_protocol_end *ret_end);

    /* ---- Client ---- */

    /* The fields of a request's head, pseudo fields first. encoding->compressor is announced. */
    pk_fields (*request_head)(const pk_protocol *self, const pk_encoding *encoding,
                              const pk_request_target *target, const pk_metadata *headers);

    /*
     * Looks at a response's head. True: *ret_status is how the call ends (trailers-only; not HTTP
     * 200; a content-type that is not the protocol's), and the body means nothing. False: messages
     * follow.
     */
    bool (*response_head)(const pk_protocol *self, const pk_head *head, bool ended, pk_arena *arena,
                          pk_status *ret_status);

    /*
     * How the call ended, after a head that did not tell. `trailers`: the HTTP trailers, NULL where
     * there were none; `reader` has read the body to its end.
     */
    void (*response_end)(const pk_protocol *self, const pk_head *head, const pk_head *trailers,
                         const pk_body_reader *reader, pk_arena *arena, pk_status *ret_status);
};

/*
 * The protocol of a request's content-type among the families in `enabled` (PK_PROTOCOLS_GRPC is
 * always on): compared without case, parameters ignored, "+proto" or none. NULL: answer 415.
 */
const pk_protocol *pk_protocol_for(pk_slice content_type, unsigned enabled);

/*
 * The protocol of the reply: that of the request, unless the request's accept header asks for its
 * other form (base64 or binary).
 */
const pk_protocol *pk_protocol_of_reply(const pk_protocol *protocol, pk_slice accept);

/*
 * Client side: the protocol that a response's content-type names, in whichever form of the family
 * the server chose; the body is read with it. NULL where it is of another family.
 */
const pk_protocol *pk_protocol_of_response(const pk_protocol *protocol, const pk_head *head);

/* A reply for content-types that nobody speaks: 415 with a short text, which needs the pool. */
void pk_protocol_reply_unsupported(pk_marshalling *marshalling, pk_reply *ret_reply);

/* The same for a protocol that ends in trailers where the transport has none: 505. */
void pk_protocol_reply_no_trailers(pk_marshalling *marshalling, pk_reply *ret_reply);

/* RESOURCE_EXHAUSTED made of static parts only: for calls that have no memory to say more. */
void pk_protocol_reply_no_memory(const pk_protocol *protocol, pk_reply *ret_reply);

/* Every variant: what the table is made of, and what a client chooses from. */
extern const pk_protocol pk_protocol_grpc;
extern const pk_protocol pk_protocol_grpc_proto;
extern const pk_protocol pk_protocol_grpc_web;
extern const pk_protocol pk_protocol_grpc_web_proto;
extern const pk_protocol pk_protocol_grpc_web_text;
extern const pk_protocol pk_protocol_grpc_web_text_proto;

#endif
