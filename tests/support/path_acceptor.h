/*
 * An acceptor for tests of the transports: the path says how a request is answered.
 *
 *   /echo         gathers the body, answers with it and a trailer once the request has ended
 *   /none         waits for the end, answers with head and trailers and no body
 *   /only         answers with a head that ends the stream
 *   /bytes/N      waits for the end, answers with N bytes and a trailer
 *   /stream/N/S   starts at once, writes N pieces of S bytes as there is room, then trailers
 *   /each/N/S     the same, but writes a piece each time that path_acceptor_answer is called
 *   /early        answers at the head and reads nothing of the body
 *   /refuse       resets the stream at the head
 *   /stuck        keeps the body without ever giving credit, never answers
 *   /pull/N       gives credit for the first N bytes only, answers at the end with the count
 *   /later        answers when path_acceptor_answer is called
 *   /cancel       resets all others of the connection from inside its own on_end, then answers
 * Any other path gets a 404 without a body.
 */
#ifndef PEKOE_TESTS_PATH_ACCEPTOR_H
#define PEKOE_TESTS_PATH_ACCEPTOR_H

#include "core/exchange.h"

struct path_call;

/* What has happened so far. */
struct path_acceptor {
    pk_acceptor acceptor; /* to be given to the transport */
    unsigned accepted, refused, ended, trailers, cancelled, closed;
    unsigned events_after_end; /* events that came after on_closed or in a wrong order */
    size_t bytes;              /* of request bodies */
    char scheme[8];            /* that the last request's head names */
    bool careful;              /* a buffer that is not to be had resets the call */
    bool bounded;              /* numbers in paths count modulo 1,000 */
    size_t written;            /* by /stream, buffers handed over */
    struct path_call *calls;   /* those that are open, newest first */
};

void path_acceptor_init(struct path_acceptor *acceptor);

/* Answers every open /later, goes on with every open /each. */
void path_acceptor_answer(struct path_acceptor *acceptor);

#endif
