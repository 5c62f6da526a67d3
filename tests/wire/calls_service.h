/*
 * The service of calls.proto, on a real server, for tests that speak HTTP/2 to it in bytes.
 *
 * Each question says how it wants to be answered (see calls.proto). Calls that wait do so at a
 * place, until another call or the test releases it.
 */
#ifndef PEKOE_TESTS_WIRE_CALLS_SERVICE_H
#define PEKOE_TESTS_WIRE_CALLS_SERVICE_H

#include "../support/counting_allocator.h"
#include "../support/wire_peer.h"
#include "calls.pekoe.h"

#define ASK "/wire.Calls/Ask"
#define ASK_GUARDED "/wire.Calls/AskGuarded"
#define PLACES 8u

/* Where a call waits. Two more than there are, so that each has two behind it. */
struct place {
    pk_call *call; /* NULL: nobody waits here */
    pk_promise *first, *second;
    unsigned ends; /* calls of this place that have ended */
};
extern struct place places[PLACES + 2];

/* Completes the call that waits at a place. */
void release_place(struct place *place);

/* The server; its allocations are counted. Peers join it by wire_join(&peer, &wire). */
extern struct wire wire;
extern counting_allocator counts;

void open_server(void);
/* Frees it and checks that nothing is left. */
void close_server(void);

/* A message behind its prefix; with `compressed` through gzip. */
void put_message(struct bytes *to, const ProtobufCMessage *message, bool compressed);

/* A whole request with a deadline and metadata, which come back as trailers. */
void put_call(struct wire *peer, uint32_t stream, const char *path, const ProtobufCMessage *message,
              bool compressed);

/* The smallest one. */
void put_question(struct wire *peer, uint32_t stream, Wire__Question__Way way, uint32_t place);

#endif
