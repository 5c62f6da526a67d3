/*
 * One HTTP/1.1 request as text, for comparing what was read in pieces, or by another parser.
 *
 * The text has the request line, each field as "name: value" with the name in lower case,
 * an empty line, the body, and, behind a chunked one, the trailers.
 */
#ifndef PEKOE_TESTS_HTTP1_READING_H
#define PEKOE_TESTS_HTTP1_READING_H

#include "transport/http1_parser.h"

enum reading_end { READING_INCOMPLETE, READING_COMPLETE, READING_REFUSED };

struct reading {
    char *text; /* ends in NUL; may hold others */
    size_t length, capacity;
    enum reading_end end;
    size_t eaten;
    unsigned status; /* where it was refused */
    const char *why;
    bool close, expects_continue;
};

/* Appends to the text. */
void reading_put(struct reading *reading, const void *bytes, size_t length);

/* Reads one request from a fresh parser, in pieces of `piece` bytes. */
void reading_of(struct reading *reading, const uint8_t *bytes, size_t length, size_t piece,
                size_t header_bytes);

/* The same in two pieces, cut at `cut`. */
void reading_of_halves(struct reading *reading, const uint8_t *bytes, size_t length, size_t cut,
                       size_t header_bytes);

void reading_done(struct reading *reading);

#endif
