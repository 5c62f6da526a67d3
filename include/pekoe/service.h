/*
 * Services and how they are put together.
 *
 * A router holds services and finds the method of a call by its path. A server has one
 * (pk_server_router); tests drive one without a socket (testing.h). Routers compose: concat adds
 * all that another holds, and a generic handler takes what no service answers.
 */
#ifndef PEKOE_SERVICE_H
#define PEKOE_SERVICE_H

#include <pekoe/call.h>
#include <pekoe/compressor.h>
#include <pekoe/interceptor.h>

PK_BEGIN_DECLS

typedef struct pk_method pk_method;   /* see generated.h */
typedef struct pk_service pk_service; /* see generated.h */
typedef struct pk_reader pk_reader;   /* see stream.h */
typedef struct pk_writer pk_writer;   /* see stream.h */
typedef struct pk_router pk_router;

/* Limits and settings of the calls that a router takes. */
typedef struct pk_router_opts {
    size_t size;               /* set by PK_ROUTER_OPTS */
    size_t receive_limit;      /* bytes of one message, decompressed; 0: 4 MiB */
    size_t send_limit;         /* bytes of one message as sent; 0: none */
    size_t compress_min_bytes; /* see pk_call_set_compress_min_bytes; 0: 1,024 */
    bool compress_all;         /* compress_min_bytes is 0 in earnest */
    bool grpc_web;             /* serve gRPC-Web and gRPC-Web-Text too */
} pk_router_opts;

#define PK_ROUTER_OPTS(...) (&(pk_router_opts){.size = sizeof(pk_router_opts), ##__VA_ARGS__})

/* A router for calls on that loop. `opts` may be NULL. PK_ERR_NOMEM. */
PK_API PK_NODISCARD int pk_router_new(pk_router **ret_router, pk_loop *loop,
                                      const pk_router_opts *opts);

/*
 * Frees the router; calls that still end (a worker thread returns, the last bytes leave) may do so
 * after it. Nothing may hand it new ones. Takes NULL; returns NULL.
 */
PK_API pk_router *pk_router_free(pk_router *router);

/* The router of a server (server.h); it lives as long as the server. */
typedef struct pk_server pk_server;
PK_API pk_router *pk_server_router(pk_server *server);

/*
 * Adds a service. `impl` is the service's generated impl table and `self` what its functions are
 * given; both are borrowed as long as the router. PK_ERR_EXISTS where one of its paths is taken,
 * PK_ERR_NOMEM; then nothing was added.
 */
PK_API PK_NODISCARD int pk_router_add(pk_router *router, const pk_service *service,
                                      const void *impl, void *self);

/*
 * Adds all services of another router, which may be freed afterwards; its interceptors stay around
 * them, inside this router's. Errors as pk_router_add: all of them are added, or none.
 */
PK_API PK_NODISCARD int pk_router_concat(pk_router *router, const pk_router *other);

/* The services in the order in which they were added, counted from 0; NULL behind the last. */
PK_API const pk_service *pk_router_service(const pk_router *router, size_t index);

/*
 * Handles a unary call of any path that no service has, as raw bytes: `request` is the message as
 * it came, decompressed, and the value of the future is a pk_slice * (in the call, or living
 * until the call has ended) that is sent as it is. Without one such calls get UNIMPLEMENTED.
 */
typedef pk_future pk_generic_handler(void *self, pk_call *call, pk_slice request);
PK_API void pk_router_set_generic(pk_router *router, pk_generic_handler *handler, void *self);

/*
 * For generic handlers that look into messages: the message of those bytes, in the call; and the
 * bytes of a message, as the pk_slice * (in the call) that a generic handler returns. Both are done
 * or failed at once: INTERNAL for what cannot be decoded or encoded, RESOURCE_EXHAUSTED.
 */
PK_API PK_NODISCARD pk_future pk_call_decode(pk_call *call, const pk_message_type *type,
                                             pk_slice bytes);
PK_API PK_NODISCARD pk_future pk_call_encode(pk_call *call, const pk_message_type *type,
                                             const void *message);

/*
 * Has an interceptor asked (interceptor.h) for each call of the router's services, those added later
 * included, and of its generic handler: from now on, inside this router's other interceptors (the
 * first is the outermost) and around those of routers that were concat'ed. So one for some services
 * goes to a router of their own. Calls that pekoe refuses itself (unknown path, unreadable message)
 * do not get there. `self` is borrowed as long as the router. PK_ERR_NOMEM; then nothing has changed.
 */
PK_API PK_NODISCARD int pk_router_intercept(pk_router *router, pk_interceptor *fn, void *self);

/*
 * Maps a failure of the application before it is sent, as an error handler in one place: returns
 * the status to send instead (in the call or static), or `status` itself. It is not asked about
 * failures that pekoe itself reports (limits, framing, deadline, cancel).
 */
typedef const pk_status *pk_error_handler(void *self, pk_call *call, const pk_status *status);
PK_API void pk_router_set_error_handler(pk_router *router, pk_error_handler *handler, void *self);

/* Which web pages of other origins may call over gRPC-Web (the Fetch standard, "CORS protocol"). */
typedef struct pk_cors_opts {
    size_t size; /* set by PK_CORS_OPTS */
    /* Exact origins ("https://shop.example:8443"), ended by NULL; "*": every page. May be NULL. */
    const char *const *origins;
    /* Asked about an origin that is not in the list; may be NULL. The slice lasts for the call. */
    bool (*allow)(void *self, pk_slice origin);
    void *self;
    bool credentials; /* pages may send cookies and the like */
    /* Fields of replies that pages may read, besides gRPC's own three; ended by NULL. May be NULL. */
    const char *const *exposed;
    uint32_t max_age_s; /* a browser may keep the answer so long; 0: 2 hours */
} pk_cors_opts;

#define PK_CORS_OPTS(...) (&(pk_cors_opts){.size = sizeof(pk_cors_opts), ##__VA_ARGS__})

/*
 * Answers preflights and marks the replies of gRPC-Web calls by these rules from now on. A page
 * that is not allowed gets 403 for its preflight. What the options point to is borrowed until the
 * router is gone or has other rules; NULL: none. Not marked are answers to requests that are no
 * calls (405, 415). PK_ERR_INVALID (an empty name, or one with white space, a comma or bytes outside
 * US-ASCII), PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_router_set_cors(pk_router *router, const pk_cors_opts *opts);

/*
 * The compressors that calls may use instead of gzip and deflate, the most wanted first; `count` 0:
 * none. They are borrowed as long as the loop. To be called before calls come. PK_ERR_INVALID for
 * one that breaks pk_compressor's rules, PK_ERR_EXISTS for a name that comes twice, PK_ERR_LIMIT
 * for more than 8; then nothing has changed.
 */
PK_API PK_NODISCARD int
pk_router_set_compressors(pk_router *router, const pk_compressor *const *compressors, size_t count);

/*
 * The smallest message that replies of one method compress, instead of the router's
 * compress_min_bytes; SIZE_MAX: none is, 0: all are. `path` is "/package.Service/Method".
 * PK_ERR_INVALID where no service has it.
 */
PK_API PK_NODISCARD int pk_router_set_compress_min_bytes(pk_router *router, const char *path,
                                                         size_t min_bytes);

PK_END_DECLS

#endif
