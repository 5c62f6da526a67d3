/* Services, the path table, and the checks of a request's head: see router.h. */
#include "handlers/router.h"

#include "core/slice.h"
#include "core/status.h"
#include "handlers/call.h"
#include "handlers/cors.h"
#include "handlers/http.h"

#include <assert.h>
#include <string.h>

/* ---- The path table ---- */

/*
 * Three looks, since the table is asked once per call: the length, the last eight bytes (the method)
 * and eight in the middle (the service), mixed by one multiplication. Paths that agree in all of
 * them share a chain; which paths there are is the program's choice and no peer's.
 */
PK_INLINE uint32_t hash_path(const uint8_t *bytes, size_t length)
{
    uint64_t middle = 0, last = 0;
    if (PK_UNLIKELY(length < 8)) {
        for (size_t i = 0; i < length; i++)
            last = last << 8 | bytes[i];
    } else {
        memcpy(&middle, bytes + length / 2 - 4, 8);
        memcpy(&last, bytes + length - 8, 8);
    }
    uint64_t mixed = (last ^ (middle << 29 | middle >> 35) ^ length) * 0x9E3779B97F4A7C15u;
    return (uint32_t) (mixed >> 32);
}

/* The path's place: taken by its method, or free. */
PK_INLINE struct pk_route *place_of(struct pk_route *routes, size_t capacity, const uint8_t *path,
                                    size_t length, uint32_t hash)
{
    size_t place = hash & (capacity - 1);
    for (;;) {
        struct pk_route *route = &routes[place];
        const pk_method *method = route->method;
        if (!method || (route->hash == hash && method->path_length == length &&
                        pk_same_bytes(method->path, path, length)))
            return route;
        place = (place + 1) & (capacity - 1);
    }
}

PK_INLINE const struct pk_route *find_in_line(const pk_router *router, pk_slice path)
{
    if (router->route_count == 0)
        return NULL;
    const struct pk_route *route = place_of(router->routes, router->route_capacity, path.bytes,
                                            path.length, hash_path(path.bytes, path.length));
    return route->method ? route : NULL;
}

static const struct pk_route *find(const pk_router *router, pk_slice path)
{
    return find_in_line(router, path);
}

/* Room for `more` routes at a load of one half. */
static int grow_routes(pk_router *router, size_t more)
{
    size_t capacity = router->route_capacity ? router->route_capacity : 16;
    while (capacity < 2 * (router->route_count + more))
        capacity *= 2;
    if (capacity == router->route_capacity)
        return 0;
    pk_memory *memory = &router->loop->memory;
    struct pk_route *routes = pk_memory_get(memory, capacity * sizeof *routes);
    if (!routes)
        return PK_ERR_NOMEM;
    memset(routes, 0, capacity * sizeof *routes);
    for (size_t i = 0; i < router->route_capacity; i++) {
        const struct pk_route *old = &router->routes[i];
        if (old->method)
            *place_of(routes, capacity, (const uint8_t *) old->method->path,
                      old->method->path_length, old->hash) = *old;
    }
    pk_memory_put(memory, router->routes, router->route_capacity * sizeof *routes);
    router->routes = routes;
    router->route_capacity = capacity;
    return 0;
}

/* Room for `more` services. */
static int grow_services(pk_router *router, size_t more)
{
    size_t capacity = router->service_capacity ? router->service_capacity : 4;
    while (capacity < router->service_count + more)
        capacity *= 2;
    if (capacity == router->service_capacity)
        return 0;
    pk_memory *memory = &router->loop->memory;
    struct pk_registration *services = pk_memory_get(memory, capacity * sizeof *services);
    if (!services)
        return PK_ERR_NOMEM;
    if (router->service_count > 0)
        memcpy(services, router->services, router->service_count * sizeof *services);
    pk_memory_put(memory, router->services, router->service_capacity * sizeof *services);
    router->services = services;
    router->service_capacity = capacity;
    return 0;
}

/* Puts a service where there is room for it. The wrappings that pk_wrapping_make made come first. */
static void put_service(pk_router *router, const struct pk_registration *added,
                        const struct pk_wrapping *around, struct pk_wrapping **wrappings)
{
    const pk_service *service = added->service;
    bool wrapped = pk_wrapping_is_needed(router, around);
    for (size_t i = 0; i < service->method_count; i++) {
        const pk_method *method = &service->methods[i];
        const uint8_t *path = (const uint8_t *) method->path;
        uint32_t hash = hash_path(path, method->path_length);
        struct pk_route *route =
            place_of(router->routes, router->route_capacity, path, method->path_length, hash);
        *route = (struct pk_route){method, hash, 0, added->impl, added->self};
        if (wrapped)
            pk_wrapping_put(router, route, wrappings);
        router->route_count++;
    }
    router->services[router->service_count++] = *added;
}

static const struct pk_route *route_of_method(const pk_router *router, const pk_method *method)
{
    return find(router, (pk_slice){(const uint8_t *) method->path, method->path_length});
}

int pk_router_add(pk_router *router, const pk_service *service, const void *impl, void *self)
{
    pk_assert_owner(router->loop);
    for (size_t i = 0; i < service->method_count; i++) {
        if (route_of_method(router, &service->methods[i]))
            return PK_ERR_EXISTS;
    }
    struct pk_wrapping *wrappings = NULL;
    int r = grow_routes(router, service->method_count);
    if (r == 0)
        r = grow_services(router, 1);
    if (r == 0)
        r = pk_wrapping_make(router, NULL, service->method_count, &wrappings);
    if (r == 0)
        put_service(router, &(struct pk_registration){service, impl, self}, NULL, &wrappings);
    return r;
}

/* What stands around the methods of a service: the same around each. */
static const struct pk_wrapping *wrapping_around(const pk_router *router, const pk_service *service)
{
    if (service->method_count == 0)
        return NULL;
    return pk_wrapping_of(route_of_method(router, &service->methods[0]));
}

int pk_router_concat(pk_router *router, const pk_router *other)
{
    pk_assert_owner(router->loop);
    for (size_t i = 0; i < other->route_capacity; i++) {
        const pk_method *method = other->routes[i].method;
        if (method && route_of_method(router, method))
            return PK_ERR_EXISTS;
    }
    /* All or nothing: everything that needs memory comes first. */
    struct pk_wrapping *wrappings = NULL;
    int r = grow_routes(router, other->route_count);
    if (r == 0)
        r = grow_services(router, other->service_count);
    for (size_t i = other->service_count; r == 0 && i > 0; i--) {
        const pk_service *service = other->services[i - 1].service;
        r = pk_wrapping_make(router, wrapping_around(other, service), service->method_count,
                             &wrappings);
    }
    for (size_t i = 0; r == 0 && i < other->service_count; i++) {
        const struct pk_registration *added = &other->services[i];
        put_service(router, added, wrapping_around(other, added->service), &wrappings);
    }
    return r;
}

const pk_service *pk_router_service(const pk_router *router, size_t index)
{
    return index < router->service_count ? router->services[index].service : NULL;
}

/* ---- Life ---- */

static void free_marshalling(void *part)
{
    pk_marshalling *marshalling = part;
    pk_memory *memory = marshalling->memory;
    pk_marshalling_done(marshalling);
    pk_memory_put(memory, marshalling, sizeof *marshalling);
}

pk_marshalling *pk_loop_marshalling(pk_loop *loop)
{
    if (!loop->parts[PK_LOOP_MARSHALLING].part) {
        pk_marshalling *marshalling = pk_memory_get(&loop->memory, sizeof *marshalling);
        if (!marshalling)
            return NULL;
        pk_marshalling_init(marshalling, &loop->memory, &loop->buffers);
        loop->parts[PK_LOOP_MARSHALLING].part = marshalling;
        loop->parts[PK_LOOP_MARSHALLING].free = free_marshalling;
    }
    return loop->parts[PK_LOOP_MARSHALLING].part;
}

int pk_router_new(pk_router **ret_router, pk_loop *loop, const pk_router_opts *opts_in)
{
    pk_router_opts opts = {.size = sizeof opts};
    if (opts_in)
        memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    pk_marshalling *marshalling = pk_loop_marshalling(loop);
    pk_router *router = marshalling ? pk_memory_get(&loop->memory, sizeof *router) : NULL;
    if (!router)
        return PK_ERR_NOMEM;
    *router = (pk_router){
        .loop = loop,
        .protocols = PK_PROTOCOLS_GRPC | (opts.grpc_web ? PK_PROTOCOLS_GRPC_WEB : 0),
        .receive_limit = opts.receive_limit ? opts.receive_limit : PK_RECEIVE_LIMIT_DEFAULT,
        .encoding = {.marshalling = marshalling,
                     .codec = &pk_codec_proto,
                     .compressors = &pk_compressor_set_default,
                     .compress_min_bytes = opts.compress_all ? 0
                                           : opts.compress_min_bytes
                                               ? opts.compress_min_bytes
                                               : PK_COMPRESS_MIN_BYTES_DEFAULT,
                     .send_limit = opts.send_limit},
    };
    *ret_router = router;
    return 0;
}

/* ---- Compression ---- */

int pk_router_set_compressors(pk_router *router, const pk_compressor *const *compressors,
                              size_t count)
{
    pk_assert_owner(router->loop);
    pk_compressor_set set;
    pk_compressor_set_init(&set);
    for (size_t i = 0; i < count; i++) {
        int r = pk_compressor_set_add(&set, compressors[i]);
        if (r < 0)
            return r;
    }
    router->compressors = set;
    router->encoding.compressors = &router->compressors;
    pk_marshalling_forget(router->encoding.marshalling, &router->compressors);
    return 0;
}

int pk_router_set_compress_min_bytes(pk_router *router, const char *path, size_t min_bytes)
{
    pk_assert_owner(router->loop);
    struct pk_route *route = (struct pk_route *) (uintptr_t) find(
        router, (pk_slice){(const uint8_t *) path, strlen(path)});
    if (!route)
        return PK_ERR_INVALID;
    route->compress_from = min_bytes < UINT32_MAX - 1 ? (uint32_t) min_bytes + 1 : UINT32_MAX;
    return 0;
}

static void release_router(pk_router *router)
{
    pk_marshalling_forget(router->encoding.marshalling, &router->compressors);
    pk_memory *memory = &router->loop->memory;
    pk_cors_free(router->cors, memory);
    pk_wrapping_free_all(router);
    pk_memory_put(memory, router->routes, router->route_capacity * sizeof *router->routes);
    pk_memory_put(memory, router->services, router->service_capacity * sizeof *router->services);
    pk_memory_put(memory, router, sizeof *router);
}

pk_router *pk_router_free(pk_router *router)
{
    if (!router)
        return NULL;
    pk_assert_owner(router->loop);
    router->freed = true;
    if (router->open_calls == 0)
        release_router(router);
    return NULL;
}

void pk_router_call_gone(pk_router *router)
{
    assert(router->open_calls > 0);
    if (--router->open_calls == 0 && router->freed)
        release_router(router);
}

int pk_router_set_cors(pk_router *router, const pk_cors_opts *opts)
{
    pk_assert_owner(router->loop);
    pk_memory *memory = &router->loop->memory;
    pk_cors *cors = NULL;
    int r = opts ? pk_cors_new(&cors, memory, opts) : 0;
    if (r < 0)
        return r;
    pk_cors_free(router->cors, memory);
    router->cors = cors;
    return 0;
}

void pk_router_set_error_handler(pk_router *router, pk_error_handler *handler, void *self)
{
    router->error_handler = handler;
    router->error_self = self;
}

void pk_router_set_http(pk_router *router, pk_http_handler *handler, void *self)
{
    router->http = handler;
    router->http_self = self;
}

/* ---- Heads ---- */

static void nothing_to_close(pk_exchange *exchange)
{
}

/* Answers an exchange for which there is no call. */
static void answer_bare(pk_exchange *exchange, const pk_reply *reply)
{
    static const pk_exchange_events no_events = {.on_closed = nothing_to_close};
    exchange->events = &no_events;
    exchange->ops->reply_strict(exchange, reply);
}

/* Refuses a head; `protocol` is what its content-type names, NULL where that was not looked at. */
static __attribute__((noinline)) void refuse_head(pk_router *router, pk_exchange *exchange,
                                                  const pk_head *head, bool is_post,
                                                  const pk_protocol *protocol)
{
    static const pk_field allow_post = {PK_SLICE("allow"), PK_SLICE("POST"), 0, false};
    pk_reply reply = {.http_status = 405, .fields = &allow_post, .field_count = 1};
    if (protocol) {
        pk_protocol_reply_no_trailers(router->encoding.marshalling, &reply);
    } else if (is_post) {
        pk_protocol_reply_unsupported(router->encoding.marshalling, &reply);
    } else if (router->cors && pk_cors_answer_preflight(router->cors, exchange, head)) {
        return;
    } else if (router->http) {
        pk_http_serve(router->http, router->http_self, exchange, head);
        return;
    }
    answer_bare(exchange, &reply);
}

/* The protocol of a request, or NULL after it was answered. */
PK_INLINE const pk_protocol *protocol_of(pk_router *router, pk_exchange *exchange,
                                         const pk_head *head)
{
    const pk_protocol *protocol = NULL;
    pk_slice verb = pk_head_value(head, PK_FIELD_METHOD);
    bool is_post = verb.length == 4 && memcmp(verb.bytes, "POST", 4) == 0;
    if (PK_LIKELY(is_post)) {
        protocol = pk_protocol_for(pk_head_value(head, PK_FIELD_CONTENT_TYPE), router->protocols);
        if (PK_LIKELY(protocol && (protocol->trailers_in_body || !exchange->no_trailers)))
            return protocol;
    }
    refuse_head(router, exchange, head, is_post, protocol);
    return NULL;
}

/* There is no memory for a call. */
static __attribute__((noinline)) pk_call *answer_no_memory(pk_exchange *exchange,
                                                           const pk_protocol *protocol)
{
    pk_reply reply;
    pk_protocol_reply_no_memory(protocol, &reply);
    answer_bare(exchange, &reply);
    return NULL;
}

/* A page asks: it may want the other form, and its browser may want to know who may read this. */
static __attribute__((noinline)) void open_for_page(pk_router *router, pk_call *call,
                                                    const pk_head *head)
{
    call->reply_protocol =
        pk_protocol_of_reply(call->protocol, pk_head_value(head, PK_FIELD_ACCEPT));
    if (router->cors)
        pk_cors_mark(router->cors, call, head);
}

/* Opens the call of an exchange, answering where there is none to be had: then NULL. */
PK_INLINE pk_call *open_call(pk_router *router, pk_exchange *exchange, const pk_head *head)
{
    static const pk_exchange_events only_the_end = {.on_cancelled = pk_call_on_cancelled,
                                                    .on_closed = pk_call_on_closed};
    const pk_protocol *protocol = protocol_of(router, exchange, head);
    if (PK_UNLIKELY(!protocol))
        return NULL;
    pk_call *call =
        pk_call_open(router, exchange, head, protocol, &router->encoding, router->receive_limit);
    if (PK_UNLIKELY(!call))
        return answer_no_memory(exchange, protocol);
    router->open_calls++;
    exchange->events = &only_the_end;
    exchange->user = call;
    if (PK_UNLIKELY(protocol->trailers_in_body))
        open_for_page(router, call, head);
    return call;
}

static __attribute__((noinline)) bool refuse_encoding(pk_call *call, const pk_status *status)
{
    call->encoding.tell_encodings = true;
    pk_call_answer_status(call, status);
    return false;
}

/* What the head says of encodings. False: the call was answered. */
static inline bool settle_compression(pk_router *router, pk_call *call, const pk_head *head)
{
    pk_negotiation negotiation;
    pk_status status;
    if (PK_UNLIKELY(pk_negotiate(router->encoding.marshalling, router->encoding.compressors, head,
                                 &call->scope.arena, &negotiation, &status) < 0))
        return refuse_encoding(call, &status);
    call->encoding.compressor = negotiation.outgoing;
    if (PK_UNLIKELY(negotiation.incoming != NULL)) {
        pk_body_reader_set_incoming(&call->body, negotiation.incoming);
        /* A client that compresses learns what else it may use. */
        call->encoding.tell_encodings = true;
    }
    return true;
}

static __attribute__((noinline)) bool refuse_timeout(pk_call *call, pk_slice timeout)
{
    int shown = timeout.length < 100 ? (int) timeout.length : 100;
    pk_status status =
        pk_status_print(&call->scope.arena, PK_INTERNAL, "malformed grpc-timeout \"%.*s\"", shown,
                        (const char *) timeout.bytes);
    pk_call_answer_status(call, &status);
    return false;
}

/* And of time. */
static inline bool settle_deadline(pk_call *call, const pk_head *head)
{
    pk_slice timeout = pk_head_value(head, PK_FIELD_GRPC_TIMEOUT);
    if (!timeout.bytes)
        return true;
    uint64_t nanoseconds;
    if (PK_UNLIKELY(pk_timeout_parse(timeout, &nanoseconds) < 0))
        return refuse_timeout(call, timeout);
    if (PK_UNLIKELY(!pk_call_set_deadline(call, nanoseconds))) {
        pk_call_answer_status(call, &pk_status_no_memory);
        return false;
    }
    return true;
}

static __attribute__((noinline)) void answer_unknown(pk_call *call, pk_slice path)
{
    int shown = path.length < 256 ? (int) path.length : 256;
    pk_status status = pk_status_print(&call->scope.arena, PK_UNIMPLEMENTED, "no method %.*s here",
                                       shown, (const char *) path.bytes);
    pk_call_answer_status(call, &status);
}

/* The route of a path; the fallback's where no service has it; NULL where there is none. */
PK_INLINE const struct pk_route *route_of(const pk_router *router, pk_slice path)
{
    const struct pk_route *route = find_in_line(router, path);
    return PK_LIKELY(route != NULL) || !router->fallback.method ? route : &router->fallback;
}

static void accept_exchange(void *self, pk_exchange *exchange, const pk_head *head, bool ended)
{
    pk_router *router = self;
    pk_call *call = open_call(router, exchange, head);
    if (PK_UNLIKELY(!call))
        return;
    pk_slice path = pk_head_value(head, PK_FIELD_PATH);
    const struct pk_route *route = route_of(router, path);
    if (PK_UNLIKELY(!route)) {
        answer_unknown(call, path);
        return;
    }
    call->method = route->method;
    call->scope.label = route->method->path;
    call->impl = route->impl;
    call->self = route->self;
    call->path = route->method->path;
    if (PK_UNLIKELY(route->compress_from != 0))
        call->encoding.compress_min_bytes = route->compress_from - 1;
    if (PK_UNLIKELY(route == &router->fallback)) { /* it takes bytes as they are */
        call->encoding.codec = &pk_codec_bytes;
        if (router->raw)
            pk_body_reader_set_raw(&call->body, head);
    }
    if (PK_LIKELY(!(call->body.kind & PK_BODY_RAW)) &&
        PK_UNLIKELY(!settle_compression(router, call, head)))
        return;
    if (PK_LIKELY(settle_deadline(call, head)))
        route->method->serve(call, ended);
}

static void refuse_exchange(void *self, pk_exchange *exchange, const pk_head *head, bool ended,
                            const pk_status *why)
{
    pk_call *call = open_call(self, exchange, head);
    if (call)
        pk_call_answer_status(call, why);
}

pk_acceptor pk_router_acceptor(pk_router *router)
{
    return (pk_acceptor){.accept = accept_exchange, .refuse = refuse_exchange, .self = router};
}
