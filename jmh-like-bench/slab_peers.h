/*
 * The other engines of SlabBenchmark: C++ protobuf and upb, where they are installed. Each is opened
 * for one message type and 64 payloads.
 */
#ifndef PEKOE_BENCH_SLAB_PEERS_H
#define PEKOE_BENCH_SLAB_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pk_bench_peer;

struct pk_bench_peer_kind {
    const char *name;
    /* `count` payloads are parsed for pack; they are borrowed. NULL after a failure. */
    struct pk_bench_peer *(*open)(const char *message_name, const uint8_t *const *payloads,
                                  const size_t *lengths, size_t count);
    void (*close)(struct pk_bench_peer *peer);
    /* Decodes and releases. */
    bool (*decode)(struct pk_bench_peer *peer, const uint8_t *bytes, size_t length);
    /* Packs message `index` into the peer's own memory. */
    const uint8_t *(*pack)(struct pk_bench_peer *peer, size_t index, size_t *ret_length);
};

extern const struct pk_bench_peer_kind pk_bench_cpp;        /* a new message each time */
extern const struct pk_bench_peer_kind pk_bench_cpp_reused; /* one message, cleared */
extern const struct pk_bench_peer_kind pk_bench_cpp_arena;  /* an arena with a block that is kept */
extern const struct pk_bench_peer_kind pk_bench_upb;        /* an arena with a block that is kept */

#ifdef __cplusplus
}
#endif

#endif
