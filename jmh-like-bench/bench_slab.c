/*
 * SlabBenchmark: one message decoded, or packed, per operation; 64 different ones in turn.
 *
 * Engines of decode: `slab` is what calls use, the payload copied and then decoded in place;
 * `slabZeroCopy` refills a private buffer, as a read would, and decodes there. Both with UTF-8 check,
 * budget and depth limit, in an arena that keeps its blocks. `protobufC` is libprotobuf-c with
 * malloc, `protobufCArena` the same with a bump allocator. `cpp`, `cppReused` and `cppArena` are C++
 * protobuf: a new message each time, one that is cleared, one in an arena with a block that is kept;
 * `upb` is upb with such a block. Both are from Debian's packages and left out where they are not
 * installed.
 *
 * Beside them: `refill`, the copy that slabZeroCopy makes before it decodes, to be subtracted from
 * it; `zeroCopyLookahead` and `zeroCopyPrescan`, the other strategies of reservation, in place;
 * `zeroCopyUnchecked`, in place without the UTF-8 check.
 *
 * What a decode takes is reported as `memory`, in bytes per operation: of the arena, or of malloc
 * with what it needs for itself.
 */
#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/slab_payloads.h"
#include "jmh-like-bench/slab_peers.h"
#include "marshalling/decoder.h"
#include "marshalling/message.h"

#include <malloc.h>
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
    const ProtobufCMessage *decoded; /* what is left of the last decode, or NULL */
    pk_reserve reserve;
    const struct engine *engine;
    const pk_message_type *type; /* of the payloads; its twin for zeroCopyUnchecked */
    const struct pk_bench_peer_kind *peer_kind;
    struct pk_bench_peer *peer;
};

/* ---- Engines -------------------------------------------------------------------------------- */

static bool decode_zero_copy(struct state *state, size_t index)
{
    const pk_message_type *type = state->type;
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
    state->decoded = message;
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
    void *message = NULL;
    const char *problem;
    pk_arena_reset(&state->arena);
    int error =
        pk_message_decode(state->payloads.type, &state->arena, NULL, state->payloads.bytes[index],
                          state->payloads.lengths[index], &message, &problem);
    state->decoded = message;
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
    state->decoded = message;
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

#ifdef PK_BENCH_CPP
#define CPP(kind) true, &kind
#else
#define CPP(kind) true, NULL
#endif
#ifdef PK_BENCH_UPB
#define UPB(kind) true, &kind
#else
#define UPB(kind) true, NULL
#endif
#define NO_PEER false, NULL

/* No `pack`: the engine is a way of decoding only. */
static const struct engine {
    const char *name;
    bool (*decode)(struct state *state, size_t index);
    bool (*pack)(struct state *state, size_t index);
    pk_reserve reserve;
    bool is_peer;
    const struct pk_bench_peer_kind *peer; /* NULL where it is not installed */
} engines[] = {
    {"slab", decode_copying, pack_reverse, PK_RESERVE_GROWTH, NO_PEER},
    {"slabZeroCopy", decode_zero_copy, NULL, PK_RESERVE_GROWTH, NO_PEER},
    {"protobufC", decode_protobuf_c, pack_protobuf_c, PK_RESERVE_GROWTH, NO_PEER},
    {"protobufCArena", decode_protobuf_c_arena, NULL, PK_RESERVE_GROWTH, NO_PEER},
    {"cpp", decode_peer, pack_peer, PK_RESERVE_GROWTH, CPP(pk_bench_cpp)},
    {"cppReused", decode_peer, NULL, PK_RESERVE_GROWTH, CPP(pk_bench_cpp_reused)},
    {"cppArena", decode_peer, NULL, PK_RESERVE_GROWTH, CPP(pk_bench_cpp_arena)},
    {"upb", decode_peer, pack_peer, PK_RESERVE_GROWTH, UPB(pk_bench_upb)},
    {"refill", refill, NULL, PK_RESERVE_GROWTH, NO_PEER},
    {"zeroCopyLookahead", decode_zero_copy, NULL, PK_RESERVE_LOOKAHEAD, NO_PEER},
    {"zeroCopyPrescan", decode_zero_copy, NULL, PK_RESERVE_PRESCAN, NO_PEER},
    {"zeroCopyUnchecked", decode_zero_copy, NULL, PK_RESERVE_GROWTH, NO_PEER},
};

/* ---- The harness's side --------------------------------------------------------------------- */

static void open_engine(pk_bench_context *context, struct state *state)
{
    const struct engine *engine = state->engine;
    state->decode = engine->decode;
    state->pack = engine->pack;
    state->reserve = engine->reserve;
    state->type = strcmp(engine->name, "zeroCopyUnchecked") == 0 ? state->payloads.unchecked_type
                                                                 : state->payloads.type;
    if (!engine->is_peer)
        return;
    state->peer_kind = engine->peer;
    state->peer = engine->peer->open(state->payloads.type->name,
                                     (const uint8_t *const *) state->payloads.bytes,
                                     state->payloads.lengths, PK_BENCH_PAYLOADS);
    if (!state->peer)
        pk_bench_fail(context, "%s cannot be opened", engine->name);
}

static const struct engine *find_engine(const char *name)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (strcmp(name, engines[i].name) == 0)
            return &engines[i];
    }
    return NULL;
}

/* Whether the trial is one; else it has been left out or has failed. */
static bool can_run(pk_bench_context *context, bool packs)
{
    const char *shape = pk_bench_value(context, "shape");
    const char *presence = pk_bench_value(context, "presence");
    size_t count = pk_bench_number(context, "n");
    const struct engine *engine = find_engine(pk_bench_value(context, "engine"));
    if (!engine)
        pk_bench_fail(context, "there is no engine %s", pk_bench_value(context, "engine"));
    else if (!pk_bench_payloads_have(shape, 0))
        pk_bench_fail(context, "there is no shape %s", shape);
    else if (strcmp(presence, "random") != 0 && strcmp(presence, "dense") != 0)
        pk_bench_fail(context, "there is no presence %s", presence);
    else if (!pk_bench_payloads_have(shape, count))
        pk_bench_skip(context, "%s is not measured with %zu", shape, count);
    else if (packs && !engine->pack)
        pk_bench_skip(context, "%s is a way of decoding", engine->name);
    else if (engine->is_peer && !engine->peer)
        pk_bench_skip(context, "%s is not installed", engine->name);
    else
        return true;
    return false;
}

static void *setup(pk_bench_context *context, bool packs)
{
    if (!can_run(context, packs))
        return NULL;
    struct state *state = calloc(1, sizeof *state);
    bool dense = strcmp(pk_bench_value(context, "presence"), "dense") == 0;
    if (!state ||
        !pk_bench_payloads_init(&state->payloads, pk_bench_value(context, "shape"),
                                pk_bench_number(context, "n"), dense) ||
        pk_memory_init(&state->memory, NULL)) {
        pk_bench_fail(context, "out of memory");
        return state;
    }
    state->engine = find_engine(pk_bench_value(context, "engine"));
    pk_arena_init(&state->arena, &state->memory, 0);
    pk_buffer_pool_init(&state->pool, &state->memory);
    state->packed = pk_buffer_get(&state->pool);
    state->private_copy = calloc(1, state->payloads.largest + PK_DECODE_PADDING);
    if (!state->packed || !state->private_copy)
        pk_bench_fail(context, "out of memory");
    open_engine(context, state);
    return state;
}

static void *setup_decode(pk_bench_context *context)
{
    return setup(context, false);
}

static void *setup_pack(pk_bench_context *context)
{
    return setup(context, true);
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

/* Counts what malloc gives, and the word that it keeps in front of each block. */
static void *counted_malloc(void *taken, size_t size)
{
    void *block = malloc(size);
    if (block)
        *(size_t *) taken += malloc_usable_size(block) + sizeof(size_t);
    return block;
}

static void counted_free(void *taken, void *block)
{
    (void) taken;
    free(block);
}

static size_t taken_of_malloc(const struct state *state, size_t index)
{
    size_t taken = 0;
    ProtobufCAllocator allocator = {counted_malloc, counted_free, &taken};
    protobuf_c_message_free_unpacked(protobuf_c_message_unpack(state->type->descriptor, &allocator,
                                                               state->payloads.lengths[index],
                                                               state->payloads.bytes[index]),
                                     &allocator);
    return taken;
}

/* What was decoded, packed by libprotobuf-c, is the payload again. */
static bool is_payload(struct state *state, const ProtobufCMessage *message, size_t index)
{
    size_t length = state->payloads.lengths[index];
    if (protobuf_c_message_get_packed_size(message) != length)
        return false;
    uint8_t *packed = malloc(length);
    bool same = packed && protobuf_c_message_pack(message, packed) == length &&
                memcmp(packed, state->payloads.bytes[index], length) == 0;
    free(packed);
    return same;
}

/*
 * What a peer parsed when it was opened, packed by it, is the payload again: as long, and each byte as
 * often, since the entries of maps come in an order of its own.
 */
static bool peer_has_payload(const struct state *state, size_t index)
{
    const uint8_t *payload = state->payloads.bytes[index];
    size_t length = 0, expected = state->payloads.lengths[index];
    const uint8_t *packed = state->peer_kind->pack(state->peer, index, &length);
    if (!packed || length != expected)
        return false;
    size_t more[256] = {0};
    for (size_t i = 0; i < length; i++) {
        more[packed[i]]++;
        more[payload[i]]--;
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        if (more[i] != 0)
            return false;
    return true;
}

/* Each payload once more, in a fresh block, looked into where the engine leaves a message. */
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
        state->decoded = NULL;
        PK_BENCH_EXPECT(context, state->decode(state, i));
        taken += (double) (state->arena.at - before);
        if (state->peer)
            PK_BENCH_EXPECT(context, peer_has_payload(state, i));
        else if (state->engine->decode == decode_protobuf_c)
            taken += (double) taken_of_malloc(state, i);
        else if (state->decoded)
            PK_BENCH_EXPECT(context, is_payload(state, state->decoded, i));
        else
            PK_BENCH_EXPECT(context, memcmp(state->private_copy, state->payloads.bytes[i],
                                            state->payloads.lengths[i]) == 0);
        pk_arena_done(&state->arena);
        state->arena = reset;
    }
    state->decoded = NULL;
    if (taken > 0)
        pk_bench_metric_add(context, "memory", "B/op", taken / PK_BENCH_PAYLOADS);
}

static void check_pack(pk_bench_context *context, void *arg, uint64_t invocations)
{
    struct state *state = arg;
    (void) invocations;
    PK_BENCH_EXPECT(context, state->failures == 0);
    for (size_t i = 0; i < PK_BENCH_PAYLOADS; i++) {
        if (state->peer) {
            PK_BENCH_EXPECT(context, peer_has_payload(state, i));
            continue;
        }
        PK_BENCH_EXPECT(context, state->pack(state, i));
        PK_BENCH_EXPECT(context, pk_buffer_length(state->packed) == state->payloads.lengths[i]);
        PK_BENCH_EXPECT(context, memcmp(state->packed->start, state->payloads.bytes[i],
                                        state->payloads.lengths[i]) == 0);
    }
}

/* Shapes are not measured with each n: see slab_payloads.h. */
#define SHAPES                                                                              \
    {"shape", PK_BENCH_VALUES("SlabBatch", "NestedOrder", "WriteRequest", "HelloRequest")}, \
        {"n", PK_BENCH_VALUES("1", "8", "32", "128")},                                      \
        {"presence", PK_BENCH_VALUES("random", "dense")},                                   \
    {                                                                                       \
        NULL, NULL                                                                          \
    }

static const pk_bench_param decode_params[] = {
    {"engine", PK_BENCH_VALUES("slab", "slabZeroCopy", "protobufC", "protobufCArena", "cpp",
                               "cppReused", "cppArena", "upb", "refill", "zeroCopyLookahead",
                               "zeroCopyPrescan", "zeroCopyUnchecked")},
    SHAPES,
};

static const pk_bench_param pack_params[] = {
    {"engine", PK_BENCH_VALUES("slab", "protobufC", "cpp", "upb")},
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
