/*
 * Bare unary bodies: the message is the HTTP body, its compression is the content-encoding, trailers
 * are headers with a prefix, an error is an HTTP status with a JSON body. Triple and Connect send
 * unary calls so; they differ in names and in the map from codes to HTTP, which a pk_bare_style
 * holds.
 *
 * The encoder and decoder of that wire, without a row in the protocol table: nothing serves it yet.
 * Sources: connectrpc.com/docs/protocol, "Unary-Request" and "Unary-Response"; dubbo-go's triple
 * protocol, which is Connect's first version with other names.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_BARE_H
#define PEKOE_MARSHALLING_PROTOCOL_BARE_H

#include "marshalling/protocol.h"

typedef struct pk_bare_style {
    const char *name;
    pk_slice timeout_name;                 /* of the header: "connect-timeout-ms" */
    pk_slice version_name;                 /* "connect-protocol-version" */
    pk_slice version;                      /* "1" */
    uint16_t http_status[17];              /* of each code */
    pk_code (*code)(unsigned http_status); /* of a response without a JSON body */
} pk_bare_style;

extern const pk_bare_style pk_bare_connect;
extern const pk_bare_style pk_bare_triple;

/*
 * A whole response, for done and failed calls alike; always fills *ret_reply, whose body the caller
 * owns, and returns the code that it carries. As pk_protocol.reply_unary.
 */
pk_code pk_bare_reply(const pk_bare_style *style, const pk_encoding *encoding,
                      const pk_outcome *outcome, pk_reply *ret_reply);

/*
 * A request: the fields of its head, pseudo fields first, and its body, which is NULL for an empty
 * message. target->timeout is written in milliseconds. Errors as pk_marshal.
 */
PK_NODISCARD int pk_bare_request(const pk_bare_style *style, const pk_encoding *encoding,
                                 const pk_request_target *target, const pk_message_type *type,
                                 const void *message, const pk_metadata *headers,
                                 pk_fields *ret_head, pk_buffer **ret_body, pk_status *ret_status);

/* 1 to 10 digits, milliseconds. 0 and nanoseconds, or PK_ERR_MALFORMED. */
PK_NODISCARD int pk_bare_timeout(pk_slice value, uint64_t *ret_nanoseconds);

/*
 * The compressor that a content-encoding names among those of the set. 0 with NULL for identity or
 * none, PK_ERR_UNSUPPORTED with *ret_status UNIMPLEMENTED for one that is not known.
 */
PK_NODISCARD int pk_bare_negotiate(const pk_compressor_set *set, const pk_head *head,
                                   pk_arena *arena, const pk_compressor **ret_incoming,
                                   pk_status *ret_status);

/* A body that is one message, put together from its chunks. */
typedef struct pk_bare_reader {
    pk_marshalling *marshalling;
    pk_arena *arena;
    const pk_compressor *incoming;
    size_t limit;
    pk_buffer *gathered; /* the body so far; NULL: nothing came, or all of it lies in `chunk` */
    pk_slice chunk;      /* the only chunk so far, kept by a reference to its holder */
    pk_buffer *holder;
    pk_buffer *plain;
    int error;
    pk_status status;
} pk_bare_reader;

void pk_bare_reader_init(pk_bare_reader *reader, pk_marshalling *marshalling, pk_arena *arena,
                         const pk_compressor *incoming, size_t limit);
void pk_bare_reader_done(pk_bare_reader *reader);

/* Checks the body's length so far against the limit and keeps the bytes. 0, or see `status`. */
PK_NODISCARD int pk_bare_reader_feed(pk_bare_reader *reader, const uint8_t *bytes, size_t length,
                                     pk_buffer *holder);

/*
 * The body has ended: *ret_message is it, decompressed, readable until the reader is done. Without
 * a byte it is an empty message, whatever the compression. 0, or see `status`.
 */
PK_NODISCARD int pk_bare_reader_end(pk_bare_reader *reader, pk_slice *ret_message);

/*
 * How a response ended, by its head and its whole body: OK for HTTP 200, else from the JSON body,
 * or from the HTTP status where that is none.
 */
void pk_bare_response_status(const pk_bare_style *style, const pk_head *head, pk_slice body,
                             pk_arena *arena, pk_status *ret_status);

/*
 * A response's fields apart: those of its head without the prefix of trailers, and the trailers
 * without it. Arrays in the arena; false where it has no memory.
 */
bool pk_bare_response_fields(const pk_head *head, pk_arena *arena, pk_fields *ret_headers,
                             pk_fields *ret_trailers);

#endif
