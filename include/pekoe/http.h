/*
 * Plain HTTP requests beside calls: for health checks, metrics, a page with its files.
 *
 * Not a web server: a handler sees method, target and fields of a request that is no call, and
 * answers at once, with a whole body or with one that is read while it leaves. The request's own body
 * is not read.
 */
#ifndef PEKOE_HTTP_H
#define PEKOE_HTTP_H

#include <pekoe/service.h>

PK_BEGIN_DECLS

/* One request and its answer; it and all slices that it gives last until the handler returns. */
typedef struct pk_http pk_http;

/*
 * Takes the requests that are neither POST nor a preflight that pk_router_set_cors answers, over
 * both HTTP versions. One that returns without pk_http_reply has answered with 404. NULL: they get
 * 405.
 */
typedef void pk_http_handler(void *self, pk_http *http);
PK_API void pk_router_set_http(pk_router *router, pk_http_handler *handler, void *self);

PK_API pk_slice pk_http_method(const pk_http *http); /* "GET" */
PK_API pk_slice pk_http_target(const pk_http *http); /* "/index.html?x=1", as it came */

/* The first value of a field, named in lower case; {NULL, 0}: there is none. */
PK_API pk_slice pk_http_field(const pk_http *http, const char *name);

/*
 * Adds a field to the answer; before pk_http_reply. Copied. PK_ERR_INVALID for what cannot stand in
 * one and for fields that frame the answer (content-length, transfer-encoding, connection, ...),
 * PK_ERR_LIMIT above 16 fields, PK_ERR_STATE, PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_http_add_field(pk_http *http, const char *name, const char *value);

/*
 * Answers; `content_type` may be NULL, the body is copied. Answers to HEAD, and those with 204 or
 * 304, are sent without it. PK_ERR_STATE where it was answered before; PK_ERR_INVALID, and no answer
 * yet, for a status that is not 200 to 999 and a content type that cannot stand in a field. Without
 * memory it is answered with 503: PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_http_reply(pk_http *http, unsigned status, const char *content_type,
                                      const void *body, size_t length);

/*
 * The body of an answer, to be read piece by piece: the next one when the last has left as far as the
 * connection takes it, so that a client that does not read has a few pieces made and no more. Its
 * functions are called on the loop's thread, which they hold up while they run.
 */
typedef struct pk_http_body {
    /* Fills in at least one byte and at most `room`: how many. 0 or less: no more can be read. */
    ptrdiff_t (*read)(void *self, void *bytes, size_t room);
    /* Nothing more is read: all was, or the answer is given up. Called once; may be NULL. */
    void (*close)(void *self);
    void *self;
} pk_http_body;

/*
 * Answers with a body of exactly `length` bytes, which `content-length` tells. `body` is copied and
 * closed in any case, later than this returns where its client reads slowly. Where a piece cannot be
 * read the answer breaks off (500 before the first one, then HTTP/1.1 ends the connection and HTTP/2
 * resets the stream): no client takes it for whole. Answers to HEAD, 204 and 304 read none. Otherwise as
 * pk_http_reply.
 */
PK_API PK_NODISCARD int pk_http_reply_body(pk_http *http, unsigned status, const char *content_type,
                                           uint64_t length, const pk_http_body *body);

PK_END_DECLS

#endif
