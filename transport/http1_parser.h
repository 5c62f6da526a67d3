/*
 * A parser of HTTP/1.1 requests (RFC 9112), strict and incremental.
 *
 * The owner of a connection feeds it bytes in pieces of any size and asks for one event after the
 * other; it calls nobody back. It keeps the head that is being read, never a byte of a body. What
 * two parsers could understand differently is refused, for that is how requests are smuggled;
 * docs/http1.md has the list. It knows no socket and writes nothing.
 */
#ifndef PEKOE_TRANSPORT_HTTP1_PARSER_H
#define PEKOE_TRANSPORT_HTTP1_PARSER_H

#include "core/arena.h"
#include "core/exchange.h"

#define PK_HTTP1_LINE_BYTES 8192u       /* of a request line, of a method and its target */
#define PK_HTTP1_EXTENSION_BYTES 256u   /* of the extensions of one chunk */
#define PK_HTTP1_EXTENSIONS_BYTES 8192u /* and of all chunks of a body */

typedef enum pk_http1_event {
    PK_HTTP1_MORE, /* all that was fed is eaten, and nothing is complete */
    PK_HTTP1_HEAD, /* `head` and what stands beside it are set; `ended`: no body follows */
    PK_HTTP1_DATA, /* `data`, a piece of the body, lies in what was fed */
    PK_HTTP1_END,  /* the body has ended; `trailers` is set. Not after a head that `ended` */
} pk_http1_event;

typedef enum pk_http1_state {
    PK_HTTP1_AT_REQUEST_LINE,
    PK_HTTP1_AT_FIELD,
    PK_HTTP1_IN_BODY,       /* of `left` more bytes */
    PK_HTTP1_AT_CHUNK_SIZE, /* hexadecimal digits */
    PK_HTTP1_AT_EXTENSION,  /* behind them, up to the line's CR */
    PK_HTTP1_AT_CHUNK_LF,   /* of the size's line */
    PK_HTTP1_IN_CHUNK,      /* `left` more bytes of it */
    PK_HTTP1_AT_DATA_CR,    /* behind a chunk's data */
    PK_HTTP1_AT_DATA_LF,
    PK_HTTP1_AT_TRAILER,
    PK_HTTP1_COMPLETE, /* nothing is eaten before pk_http1_parser_next_request */
    PK_HTTP1_REFUSED,  /* for good: where a next request would begin is not known */
} pk_http1_state;

typedef struct pk_http1_parser {
    pk_memory *memory;   /* borrowed: the loop's */
    pk_arena arena;      /* the head's and the trailers' text and fields */
    size_t header_bytes; /* names + values + 32 each above it are refused with 431 */
    pk_http1_state state;
    bool blank_line_seen; /* one is allowed in front of a request */

    /* The line that is being read, as far as it came in earlier pieces. */
    uint8_t *line;
    size_t line_length, line_capacity;

    /* Fields of the head or of the trailers, as they come. */
    pk_field *fields;
    size_t field_count, field_capacity;
    size_t field_bytes;

    uint64_t left;    /* bytes of the body or of the chunk */
    unsigned digits;  /* of the chunk's size */
    size_t extension; /* bytes of this chunk's extensions */
    size_t extensions;

    /* ---- What the head says ---- */

    /* Pseudo fields :method, :path, :scheme, then the rest; `host` has become :authority. */
    pk_head head;
    size_t head_bytes;       /* names + values + 32 each */
    unsigned minor;          /* of the version: 0 or 1 */
    bool ended;              /* there is no body */
    bool chunked;            /* else the body is `content_length` bytes long */
    uint64_t content_length; /* 0 where it is absent */
    bool close;              /* the client wants no other request after this one */
    bool expects_continue;   /* the client waits for "100 Continue" before it sends the body */

    pk_slice data;
    pk_head trailers;

    /* ---- Why it refuses ---- */

    unsigned status; /* of HTTP, to be answered; 0: nothing is refused */
    const char *why; /* static */

    /* Scratch of the head that is being read. */
    unsigned hosts, lengths, codings;
} pk_http1_parser;

void pk_http1_parser_init(pk_http1_parser *parser, pk_memory *memory, size_t header_bytes);
void pk_http1_parser_done(pk_http1_parser *parser);

/*
 * Eats from *at up to `end` and stops at the next event; `*at` is moved. Head and trailers live
 * until pk_http1_parser_next_request. PK_ERR_MALFORMED: `status` and `why` say what is wrong, and
 * every later call says the same. PK_ERR_NOMEM. *ret_event is untouched then.
 */
PK_NODISCARD int pk_http1_parser_next(pk_http1_parser *parser, const uint8_t **at,
                                      const uint8_t *end, pk_http1_event *ret_event);

/* Forgets a request that is complete and waits for the next one. */
void pk_http1_parser_next_request(pk_http1_parser *parser);

/* Whether a head has begun and is not complete. */
bool pk_http1_parser_in_head(const pk_http1_parser *parser);

#endif
