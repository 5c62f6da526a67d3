/*
 * Parsers of HTTP/1.1 that nobody here wrote, their result in the form of http1_reading.h.
 *
 * Each reads one request and stops behind it. Fields that concern the connection are left out, as
 * pekoe's parser leaves them out.
 */
#ifndef PEKOE_TESTS_HTTP1_ORACLE_H
#define PEKOE_TESTS_HTTP1_ORACLE_H

#include "http1_reading.h"

/* `why` is the name of the error. */
typedef void oracle(struct reading *reading, const uint8_t *bytes, size_t length);

oracle oracle_http_parser; /* Debian's libhttp-parser */
oracle oracle_llhttp;      /* Debian's node-llhttp */

/* ---- For the oracles: they tell the parts of a request as they come ---- */

struct oracle_parts {
    struct reading *reading;
    struct reading target, name, value, fields;
    bool in_value;
};

/* Gathers a piece of a field's name, or of its value. */
void oracle_field(struct oracle_parts *parts, const char *at, size_t length);
void oracle_value(struct oracle_parts *parts, const char *at, size_t length);

/* The head is complete; the fields that follow are trailers. */
void oracle_head(struct oracle_parts *parts, const char *method, unsigned minor);
void oracle_end(struct oracle_parts *parts);

void oracle_parts_done(struct oracle_parts *parts);

#endif
