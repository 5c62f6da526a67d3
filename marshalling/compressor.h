/*
 * Compressors by name, their states kept per loop, and one message through them.
 *
 * A pk_compressor_set says which compressors a server or channel knows, in its order of preference;
 * it does not change once it serves and is shared by all loops. A pk_compressor_pool belongs to one
 * loop: a message is compressed in one go, so one state per compressor and direction is enough.
 */
#ifndef PEKOE_MARSHALLING_COMPRESSOR_H
#define PEKOE_MARSHALLING_COMPRESSOR_H

#include <pekoe/compressor.h>

#include "core/buffer.h"

#define PK_COMPRESSORS_MAX 8u

typedef struct pk_compressor_set {
    const pk_compressor *items[PK_COMPRESSORS_MAX]; /* the most wanted first */
    size_t count;
    char names[256]; /* "identity,gzip,deflate": the value of grpc-accept-encoding */
    size_t names_length;
} pk_compressor_set;

/* identity, gzip, deflate. */
extern const pk_compressor_set pk_compressor_set_default;

/* A set that knows identity only. */
void pk_compressor_set_init(pk_compressor_set *set);

/*
 * Adds a compressor behind those that are there. PK_ERR_INVALID for a name that is no token or is
 * "identity", PK_ERR_EXISTS for one that is taken, PK_ERR_LIMIT when the set is full.
 */
PK_NODISCARD int pk_compressor_set_add(pk_compressor_set *set, const pk_compressor *compressor);

/* The compressor of that name, compared without case; NULL when it is not in the set. */
const pk_compressor *pk_compressor_set_find(const pk_compressor_set *set, pk_slice name);

struct pk_compressor_slot {
    const pk_compressor *compressor;
    void *compress_state;
    void *decompress_state;
};

typedef struct pk_compressor_pool {
    pk_allocator allocator; /* the loop's memory behind pk_allocator */
    struct pk_compressor_slot slots[PK_COMPRESSORS_MAX];
} pk_compressor_pool;

void pk_compressor_pool_init(pk_compressor_pool *pool, pk_memory *memory);
void pk_compressor_pool_done(pk_compressor_pool *pool);

/*
 * Appends the compressed (the plain) form of `bytes` to `ret_output`, at most `limit` bytes of it.
 * PK_ERR_LIMIT where it would be more: nothing beyond the limit was kept. PK_ERR_MALFORMED for a
 * piece that cannot be decompressed; PK_ERR_NOMEM. After an error the buffer's contents are what
 * had been written so far.
 */
PK_NODISCARD int pk_compress(pk_compressor_pool *pool, const pk_compressor *compressor,
                             pk_slice bytes, size_t limit, pk_buffer *ret_output);
PK_NODISCARD int pk_decompress(pk_compressor_pool *pool, const pk_compressor *compressor,
                               pk_slice bytes, size_t limit, pk_buffer *ret_output);

#endif
