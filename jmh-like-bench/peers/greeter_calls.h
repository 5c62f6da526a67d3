/*
 * Calls of the greeter with pekoe's client, so many at once over one channel: what unary-client and
 * pekoe.LoopbackBenchmark play. Stubs, futures and options are used as a program uses them: each call
 * has a deadline, and each reply is looked at.
 */
#ifndef PEKOE_BENCH_GREETER_CALLS_H
#define PEKOE_BENCH_GREETER_CALLS_H

#include <pekoe/pekoe.h>

#define GREETER_MESSAGES 10u /* of a stream */

struct greeter_calls;

/* One of the calls at once. */
struct greeter_call {
    struct greeter_calls *calls;
    pk_reader *in;     /* of a stream of replies, else NULL */
    pk_writer *out;    /* of a stream of requests, else NULL */
    unsigned messages; /* written */
    unsigned replies;  /* that say what they should */
};

/* Makes a call. Its future is done once the call has ended well, whatever the replies say. */
typedef pk_future greeter_rpc(struct greeter_call *call);

/* SayHello: right with one reply. */
greeter_rpc greeter_say_hello;
/* Right with GREETER_MESSAGES replies, with one that tells so many requests, and with as many of each. */
greeter_rpc greeter_it_keeps_replying;
greeter_rpc greeter_it_keeps_talking;
greeter_rpc greeter_stream_hellos;

struct greeter_calls {
    pk_loop *loop;       /* borrowed */
    pk_channel *channel; /* borrowed */
    greeter_rpc *rpc;
    unsigned replies; /* that a call has when it goes right */
    unsigned at_once;
    struct greeter_call *at_once_calls;
    uint64_t left, going;
    uint64_t right; /* calls that ended well and had the right replies, of all runs */
};

/* False where there is no memory. */
bool greeter_calls_init(struct greeter_calls *calls, pk_loop *loop, pk_channel *channel,
                        greeter_rpc *rpc, unsigned at_once);
void greeter_calls_done(struct greeter_calls *calls);

/* Runs the loop until so many calls have ended. */
void greeter_calls_run(struct greeter_calls *calls, uint64_t count);

#endif
