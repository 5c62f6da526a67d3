/*
 * The exchange that the handler benchmarks drive: a request that was prepared once, played to a
 * router's acceptor again and again, and a response that is read and counted.
 *
 * It does what a transport does per exchange and no more: events in, operations out, on_closed.
 */
#ifndef PEKOE_BENCH_HANDLER_EXCHANGE_H
#define PEKOE_BENCH_HANDLER_EXCHANGE_H

#include "core/exchange.h"
#include "handlers/router.h"
#include "jmh-like-bench/harness.h"

#define PK_BENCH_FIELDS 12
#define PK_BENCH_BODY 4096 /* bytes of a prepared request's body */
#define PK_BENCH_RESPONSE 65536

struct pk_bench_exchange {
    pk_exchange exchange; /* first: the way back from it */
    pk_acceptor acceptor;
    pk_field fields[PK_BENCH_FIELDS];
    pk_head head;
    uint8_t body[PK_BENCH_BODY];
    size_t body_length;
    size_t chunk; /* bytes of a chunk, where the request is not strict: half a message and one */
    /* The response. */
    uint64_t responses;     /* complete ones */
    uint64_t fields_read;   /* how many, of their heads */
    uint64_t trailers_read; /* each as its length and its first byte, summed */
    unsigned http_status;
    uint8_t response[PK_BENCH_RESPONSE];
    size_t response_length;
    bool finished;
};

/*
 * A request to `path` with `messages` messages (HelloRequest "Alice"), by the parameters protocol
 * and codec of the trial.
 */
void pk_bench_exchange_init(struct pk_bench_exchange *exchange, pk_bench_context *context,
                            pk_router *router, const char *path, unsigned messages);
void pk_bench_exchange_done(struct pk_bench_exchange *exchange);

/*
 * An acceptor in the router's place that finds nothing out: every exchange becomes a call of
 * `method`, in the protocol and with the compressor that the request is known to have.
 */
struct pk_bench_unrouted {
    pk_router *router;
    const pk_method *method;
    const void *impl;
    void *self;
    const pk_protocol *protocol;
    const pk_compressor *compressor;
};

/* Has the exchange accepted by it; the caller has filled in router, method, impl and self. */
void pk_bench_exchange_unroute(struct pk_bench_exchange *exchange,
                               struct pk_bench_unrouted *unrouted);

/* One whole exchange: the body in one chunk, or in chunks. */
void pk_bench_exchange_strict(struct pk_bench_exchange *exchange);
void pk_bench_exchange_nonstrict(struct pk_bench_exchange *exchange);

/*
 * Fails the trial unless the last response holds so many messages, each with that text, and responses
 * ended with the status OK.
 */
void pk_bench_exchange_expect(struct pk_bench_exchange *exchange, pk_bench_context *context,
                              unsigned messages, const char *text);

#endif
