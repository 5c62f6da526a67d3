/*
 * SlabBenchmark: one message decoded, or packed, per operation; 64 different ones in turn.
 *
 * Engines of decode: `slab` refills a private buffer and decodes in place, `slab-copying` is what
 * calls use, `slab-lookahead` and `slab-prescan` are the other strategies of reservation; all with
 * UTF-8 check, budget and depth limit, in an arena that keeps its blocks. `protobuf-c` is
 * libprotobuf-c with malloc, `protobuf-c-arena` the same with a bump allocator.
 * `refill` is the copy that `slab` makes beside decoding: what is to be subtracted from it. `cpp`,
 * `cpp-reused` and `cpp-arena` are C++ protobuf, `upb` is upb, both from Debian's packages where they
 * are installed.
 * What a decode takes from the arena is reported as `memory`, in bytes per operation.
 */
#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/slab_payloads.h"
#include "jmh-like-bench/slab_peers.h"
#include "marshalling/decoder.h"
#include "marshalling/message.h"

#include <stdlib.h>
#include <string.h>

struct state {
    struct pk_bench_payloads payloads;
    pk_memory memory;
    pk_arena arena;
    pk_buffer_pool pool;
    pk_buffer *packed;
    uint8_t *private_copy;
    bool (*decode)(struct state *state, size_t index);
    bool (*pack)(struct state *state, size_t index);
    size_t turn;
    size_t failures;
    size_t taken; /* bytes of the arena, last decode */
    pk_reserve reserve;
    const struct pk_bench_peer_kind *peer_kind;
    struct pk_bench_peer *peer;
};

/* ---- Engines -------------------------------------------------------------------------------- */

static bool decode_slab(struct state *state, size_t index)
{
    const pk_message_type *type = state->payloads.type;
    size_t length = state->payloads.lengths[index];
    void *message = NULL;
    pk_decoder decoder;
    memcpy(state->private_copy, state->payloads.bytes[index], length);
    pk_arena_reset(&state->arena);
    pk_decoder_init(&decoder, &state->arena, pk_decode_budget(length, PK_DECODE_BUDGET_DEFAULT),
                    PK_DECODE_DEPTH_DEFAULT);
    decoder.reserve = state->reserve;
    int error = type->decode(&decoder, &message, state->private_copy, length);
    pk_decoder_done(&decoder);
    pk_bench_keep(message);
    return !error;
}

static bool refill(struct state *state, size_t index)
{
    memcpy(state->private_copy, state->payloads.bytes[index], state->payloads.lengths[index]);
    pk_bench_keep(state->private_copy);
    return true;
}

static bool decode_copying(struct state *state, size_t index)
{
    void *message;
    const char *problem;
    pk_arena_reset(&state->arena);
    int error =
        pk_message_decode(state->payloads.type, &state->arena, NULL, state->payloads.bytes[index],
                          state->payloads.lengths[index], &message, &problem);
    pk_bench_keep(message);
    return !error;
}

static bool decode_protobuf_c(struct state *state, size_t index)
{
    ProtobufCMessage *message =
        protobuf_c_message_unpack(state->payloads.type->descriptor, NULL,
                                  state->payloads.lengths[index], state->payloads.bytes[index]);
    pk_bench_keep(message);
    protobuf_c_message_free_unpacked(message, NULL);
    return message != NULL;
}

static void *bump(void *arena, size_t size)
{
    return pk_arena_try(arena, size);
}

static void keep(void *arena, void *piece)
{
    (void) arena;
    (void) piece;
}

static bool decode_protobuf_c_arena(struct state *state, size_t index)
{
    ProtobufCAllocator allocator = {bump, keep, &state->arena};
    pk_arena_reset(&state->arena);
    ProtobufCMessage *message =
        protobuf_c_message_unpack(state->payloads.type->descriptor, &allocator,
                                  state->payloads.lengths[index], state->payloads.bytes[index]);
    pk_bench_keep(message);
    return message != NULL;
}

static bool pack_reverse(struct state *state, size_t index)
{
    pk_buffer_rewind_for_prepend(state->packed);
    int error =
        pk_message_pack(state->payloads.type, state->payloads.messages[index], state->packed);
    pk_bench_keep(state->packed->start);
    return !error;
}

static bool pack_protobuf_c(struct state *state, size_t index)
{
    const ProtobufCMessage *message = state->payloads.messages[index];
    size_t size = protobuf_c_message_get_packed_size(message);
    pk_buffer_rewind_for_append(state->packed, 0);
    if (pk_buffer_room_after(state->packed, size))
        return false;
    state->packed->end += protobuf_c_message_pack(message, state->packed->start);
    pk_bench_keep(state->packed->start);
    return true;
}

#if defined(PK_BENCH_CPP) || defined(PK_BENCH_UPB)
static bool decode_peer(struct state *state, size_t index)
{
    return state->peer_kind->decode(state->peer, state->payloads.bytes[index],
                                    state->payloads.lengths[index]);
}

static bool pack_peer(struct state *state, size_t index)
{
    size_t length;
    const uint8_t *packed = state->peer_kind->pack(state->peer, index, &length);
    pk_bench_keep(packed);
    return packed != NULL;
}
#endif

static const struct engine {
    const char *name;
    bool (*decode)(struct state *state, size_t index);
    bool (*pack)(struct state *state, size_t index);
    pk_reserve reserve;
    const struct pk_bench_peer_kind *peer;
} engines[] = {
    {"slab", decode_slab, pack_reverse, PK_RESERVE_GROWTH, NULL},
    {"slab-lookahead", decode_slab, NULL, PK_RESERVE_LOOKAHEAD, NULL},
    {"slab-prescan", decode_slab, NULL, PK_RESERVE_PRESCAN, NULL},
    {"slab-copying", decode_copying, NULL, PK_RESERVE_GROWTH, NULL},
    {"refill", refill, NULL, PK_RESERVE_GROWTH, NULL},
    {"protobuf-c", decode_protobuf_c, pack_protobuf_c, PK_RESERVE_GROWTH, NULL},
    {"protobuf-c-arena", decode_protobuf_c_arena, NULL, PK_RESERVE_GROWTH, NULL},
#ifdef PK_BENCH_CPP
    {"cpp", decode_peer, pack_peer, PK_RESERVE_GROWTH, &pk_bench_cpp},
    {"cpp-reused", decode_peer, NULL, PK_RESERVE_GROWTH, &pk_bench_cpp_reused},
    {"cpp-arena", decode_peer, NULL, PK_RESERVE_GROWTH, &pk_bench_cpp_arena},
#endif
#ifdef PK_BENCH_UPB
    {"upb", decode_peer, pack_peer, PK_RESERVE_GROWTH, &pk_bench_upb},
#endif
};

#ifdef PK_BENCH_CPP
#define CPP_DECODES "cpp", "cpp-reused", "cpp-arena",
#define CPP_PACKS "cpp",
#else
#define CPP_DECODES
#define CPP_PACKS
#endif
#ifdef PK_BENCH_UPB
#define UPB "upb",
#else
#define UPB
#endif

/* ---- The harness's side --------------------------------------------------------------------- */

static void *setup(pk_bench_context *context)
{
    struct state *state = calloc(1, sizeof *state);
    const char *engine = pk_bench_value(context, "engine");
    bool dense = strcmp(pk_bench_value(context, "presence"), "dense") == 0;
    if (!state ||
        !pk_bench_payloads_init(&state->payloads, pk_bench_value(context, "shape"), dense) ||
        pk_memory_init(&state->memory, NULL)) {
        pk_bench_fail(context, "no such shape, or out of memory");
        return state;
    }
    pk_arena_init(&state->arena, &state->memory, 0);
    pk_buffer_pool_init(&state->pool, &state->memory);
    state->packed = pk_buffer_get(&state->pool);
    state->private_copy = calloc(1, state->payloads.largest + PK_DECODE_PADDING);
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (strcmp(engine, engines[i].name) == 0) {
            state->decode = engines[i].decode;
            state->pack = engines[i].pack;
            state->reserve = engines[i].reserve;
            state->peer_kind = engines[i].peer;
        }
    }
    if (!state->packed || !state->private_copy)
        pk_bench_fail(context, "out of memory");
    if (state->peer_kind)
        state->peer = state->peer_kind->open(state->payloads.type->name,
                                             (const uint8_t *const *) state->payloads.bytes,
                                             state->payloads.lengths, PK_BENCH_PAYLOADS);
    if (state->peer_kind && !state->peer)
        pk_bench_fail(context, "%s cannot be opened", engine);
    return state;
}

static void *setup_decode(pk_bench_context *context)
{
    struct state *state = setup(context);
    if (state && !state->decode)
        pk_bench_fail(context, "engine %s does not decode", pk_bench_value(context, "engine"));
    return state;
}

static void *setup_pack(pk_bench_context *context)
{
    struct state *state = setup(context);
    if (state && !state->pack)
        pk_bench_fail(context, "engine %s does not pack", pk_bench_value(context, "engine"));
    return state;
}

static void teardown(void *arg)
{
    struct state *state = arg;
    if (state->peer)
        state->peer_kind->close(state->peer);
    pk_buffer_unref(state->packed);
    pk_buffer_pool_done(&state->pool);
    pk_arena_done(&state->arena);
    pk_memory_done(&state->memory);
    pk_bench_payloads_done(&state->payloads);
    free(state->private_copy);
    free(state);
}

static void run_decode(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    size_t turn = state->turn;
    for (uint64_t i = 0; i < invocations; i++) {
        state->failures += !state->decode(state, turn);
        turn = (turn + 1) % PK_BENCH_PAYLOADS;
    }
    state->turn = turn;
}

static void run_pack(void *arg, uint64_t invocations)
{
    struct state *state = arg;
    size_t turn = state->turn;
    for (uint64_t i = 0; i < invocations; i++) {
        state->failures += !state->pack(state, turn);
        turn = (turn + 1) % PK_BENCH_PAYLOADS;
    }
    state->turn = turn;
}

/* Each payload once more, decoded by the door that calls use and packed by protobuf-c. */
static void check_decode(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    double taken = 0;
    (void) invocations;
    PK_BENCH_EXPECT(context, state->failures == 0);
    for (size_t i = 0; i < PK_BENCH_PAYLOADS; i++) {
        pk_arena reset = state->arena;
        pk_arena_init(&state->arena, reset.memory, 1u << 20);
        uint8_t *before = state->arena.at;
        PK_BENCH_EXPECT(context, state->decode(state, i));
        taken += (double) (state->arena.at - before);
        pk_arena_done(&state->arena);
        state->arena = reset;
    }
    pk_bench_metric_add(context, "memory", "B/op", taken / PK_BENCH_PAYLOADS);
}

static void check_pack(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    (void) invocations;
    PK_BENCH_EXPECT(context, state->failures == 0);
    for (size_t i = 0; i < PK_BENCH_PAYLOADS && !state->peer; i++) {
        PK_BENCH_EXPECT(context, state->pack(state, i));
        PK_BENCH_EXPECT(context, pk_buffer_length(state->packed) == state->payloads.lengths[i]);
        PK_BENCH_EXPECT(context, memcmp(state->packed->start, state->payloads.bytes[i],
                                        state->payloads.lengths[i]) == 0);
    }
}

#define SHAPES                                                                             \
    {"shape",                                                                              \
     PK_BENCH_VALUES("batch-8", "batch-32", "batch-128", "order-1", "order-8", "order-32", \
                     "order-128", "write-1", "write-32", "write-128", "hello")},           \
        {"presence", PK_BENCH_VALUES("random", "dense")},                                  \
    {                                                                                      \
        NULL, NULL                                                                         \
    }

static const pk_bench_param decode_params[] = {
    {"engine", PK_BENCH_VALUES("slab", "slab-lookahead", "slab-prescan", "slab-copying", "refill",
                               CPP_DECODES UPB "protobuf-c", "protobuf-c-arena")},
    SHAPES,
};

static const pk_bench_param pack_params[] = {
    {"engine", PK_BENCH_VALUES("slab", CPP_PACKS UPB "protobuf-c")},
    SHAPES,
};

static const pk_benchmark benchmarks[] = {
    {
        .name = "pekoe.SlabBenchmark.decode",
        .operation = "one message decoded, and released",
        .params = decode_params,
        .setup = setup_decode,
        .teardown = teardown,
        .run = run_decode,
        .check = check_decode,
    },
    {
        .name = "pekoe.SlabBenchmark.encode",
        .operation = "one message packed into a buffer that is kept",
        .params = pack_params,
        .setup = setup_pack,
        .teardown = teardown,
        .run = run_pack,
        .check = check_pack,
    },
};

PK_BENCHMARKS(benchmarks)
