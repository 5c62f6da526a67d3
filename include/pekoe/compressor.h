/*
 * Compressors: how a program adds one of its own beside gzip and deflate.
 *
 * A compressor turns one message into one self-contained piece of bytes and back. pekoe keeps one
 * state for each direction per loop and reuses it for every message, so a state must be fit for the
 * next message after every outcome, failures included.
 */
#ifndef PEKOE_COMPRESSOR_H
#define PEKOE_COMPRESSOR_H

#include <pekoe/base.h>

PK_BEGIN_DECLS

/* Where the bytes go: a pooled buffer behind a limit. */
typedef struct pk_compressor_output pk_compressor_output;

/*
 * Room for more output: *ret_room bytes, at least 1, that may be written. NULL when the limit is
 * reached or memory has run out; the compressor then gives up with pk_compressor_output_error.
 */
PK_API uint8_t *pk_compressor_output_room(pk_compressor_output *output, size_t *ret_room);

/* Keeps the first `length` bytes of the room as output. */
PK_API void pk_compressor_output_add(pk_compressor_output *output, size_t length);

/* Why there was no room: PK_ERR_LIMIT or PK_ERR_NOMEM. */
PK_API int pk_compressor_output_error(const pk_compressor_output *output);

/*
 * A compressor is const and may be shared by all loops; its states belong to one loop each. Memory
 * of a state comes from `allocator`, which lives as long as the state.
 */
typedef struct pk_compressor {
    const char *name; /* of grpc-encoding: lower case, no comma, no space */

    /* NULL when memory runs out. */
    void *(*compress_state_new)(const pk_allocator *allocator);
    void (*compress_state_free)(void *state);
    void *(*decompress_state_new)(const pk_allocator *allocator);
    void (*decompress_state_free)(void *state);

    /* The whole message becomes output. 0, or PK_ERR_LIMIT or PK_ERR_NOMEM of the output. */
    int (*compress)(void *state, pk_slice message, pk_compressor_output *output);

    /*
     * The reverse. PK_ERR_MALFORMED for everything but exactly one complete piece: bytes cut off,
     * bytes behind the end, a wrong checksum; PK_ERR_LIMIT and PK_ERR_NOMEM as above.
     */
    int (*decompress)(void *state, pk_slice piece, pk_compressor_output *output);
} pk_compressor;

/* gzip (RFC 1952) and deflate in the zlib form (RFC 1950), both over zlib. */
PK_API extern const pk_compressor pk_compressor_gzip;
PK_API extern const pk_compressor pk_compressor_deflate;

PK_END_DECLS

#endif
