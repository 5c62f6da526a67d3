/*
 * HTTP/2 in bytes, for tests: a writer of frames and a reader of what a server sent.
 *
 * The writer knows the layout of frames and literal HPACK fields and nothing else, so that it can
 * write what no library would. The reader keeps every frame in order; field blocks are decoded by
 * libnghttp2's inflater, the one part that is not written here.
 */
#ifndef PEKOE_TESTS_HTTP2_BYTES_H
#define PEKOE_TESTS_HTTP2_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8, WITH_PRIORITY = 32 };
enum { SETTINGS_HEADER_TABLE_SIZE = 1, SETTINGS_MAX_STREAMS = 3, SETTINGS_WINDOW = 4 };

/* Bytes that grow. */
struct bytes {
    uint8_t *at;
    size_t length, capacity;
};

void bytes_free(struct bytes *bytes);
void put(struct bytes *to, const void *bytes, size_t length);

void put_frame(struct bytes *to, unsigned type, unsigned flags, uint32_t stream,
               const void *payload, size_t length);
/* The connection preface without SETTINGS. */
void put_preface(struct bytes *to);
/* One setting; value UINT32_MAX: an empty frame. */
void put_setting(struct bytes *to, unsigned name, uint32_t value);
/* A literal field without indexing; any length. */
void put_field(struct bytes *block, const char *name, const char *value);
/* HEADERS of a POST to the path; `extra` is a list of names and values that ends in NULL. */
void put_request(struct bytes *to, uint32_t stream, bool ended, const char *path,
                 const char *const *extra);
void put_data(struct bytes *to, uint32_t stream, bool ended, const void *data, size_t length);
void put_filler(struct bytes *to, uint32_t stream, bool ended, size_t length);
void put_window(struct bytes *to, uint32_t stream, uint32_t increment);
void put_reset(struct bytes *to, uint32_t stream, uint32_t error);
void put_ping(struct bytes *to, bool ack, uint64_t mark);

/* A frame that came. */
struct frame {
    unsigned type, flags;
    uint32_t stream;
    size_t length;
    uint32_t number;  /* error code, window increment; last stream of GOAWAY */
    uint32_t error;   /* GOAWAY's */
    char *fields;     /* "name: value\n"... where a field block ends */
    uint8_t *payload; /* `length` bytes */
};

struct reader {
    struct bytes rest;  /* not yet a whole frame */
    struct bytes block; /* not yet a whole field block */
    struct frame *frames;
    size_t count, capacity;
    void *inflater;
    size_t data_bytes;
};

void reader_init(struct reader *reader);
void reader_done(struct reader *reader);
/* False: the bytes are no HTTP/2. */
bool reader_feed(struct reader *reader, const uint8_t *bytes, size_t length);

/* The place of the first such frame at or behind `from`; SIZE_MAX: none. */
size_t find_frame(const struct reader *reader, size_t from, unsigned type, uint32_t stream);
/* :status of the stream's head; 0 where none came. */
unsigned status_of(const struct reader *reader, uint32_t stream);
/* Bytes of DATA on a stream. */
size_t body_of(const struct reader *reader, uint32_t stream);
/* Whether END_STREAM came, and a field that its last HEADERS held ("grpc-status: 0"). */
bool ended(const struct reader *reader, uint32_t stream);
bool last_has(const struct reader *reader, uint32_t stream, const char *field);
/* The code that the stream was reset with; -1 where it was not. */
long reset_of(const struct reader *reader, uint32_t stream);

#endif
