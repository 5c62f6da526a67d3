/*
 * Decoding and packing through their doors: limits, attacks, merging, required fields, copies. That
 * contents are right is for tests/equivalence and tests/conformance.
 */
#include "kinds2.pekoe.h"
#include "kinds3.pekoe.h"
#include "marshalling/decoder.h"
#include "marshalling/message.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/nested.h"

#include <criterion/criterion.h>

#include <stdio.h>

static pk_memory memory;
static pk_arena arena;
static pk_buffer_pool pool;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_arena_init(&arena, &memory, 0);
    pk_buffer_pool_init(&pool, &memory);
}

static void tear_down(void)
{
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
}

TestSuite(message, .init = set_up, .fini = tear_down);

#define STRATEGIES 3

/* The type with one of the strategies of reservation. */
static pk_message_type with_strategy(const pk_message_type *type, pk_reserve_plan *plan,
                                     unsigned strategy)
{
    pk_message_type changed = *type;
    *plan = *type->reserve;
    plan->strategy = (pk_reserve) strategy;
    changed.reserve = plan;
    return changed;
}

static int decode(const pk_message_type *type, const void *bytes, size_t length, void **ret_message)
{
    const char *problem = NULL;
    int error = pk_message_decode(type, &arena, NULL, bytes, length, ret_message, &problem);
    cr_assert(error == 0 || problem != NULL);
    return error;
}

/* Decodes in fresh memory, by each strategy, and tells the error and the memory of the blocks. */
static void expect_each(const pk_message_type *type, const void *bytes, size_t length, int error,
                        size_t most)
{
    for (unsigned strategy = 0; strategy < STRATEGIES; strategy++) {
        pk_reserve_plan plan;
        pk_message_type changed = with_strategy(type, &plan, strategy);
        void *message;
        pk_arena_done(&arena);
        cr_assert_eq(decode(&changed, bytes, length, &message), error, "strategy %u", strategy);
        cr_assert_leq(arena.total, most, "strategy %u took %zu bytes", strategy, arena.total);
    }
}

/* ---- Attacks ------------------------------------------------------------------------------- */

Test(message, lengths_near_the_top_do_not_wrap)
{
    static const char *const lengths[] = {
        "\xff\xff\xff\xff\x07",                     /* 2^31 - 1 */
        "\x80\x80\x80\x80\x08",                     /* 2^31 */
        "\xff\xff\xff\xff\x0f",                     /* 2^32 - 1 */
        "\x81\x80\x80\x80\x10",                     /* 2^32 + 1 */
        "\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01", /* 2^64 - 11 */
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t bytes[600];
        /* A counted field, a text and a packed field, each with that length, in 600 bytes. */
        for (unsigned tag = 0x0a; tag <= 0x12; tag += 8) {
            memset(bytes, 0x0a, sizeof bytes);
            bytes[0] = (uint8_t) tag;
            memcpy(bytes + 1, lengths[i], strlen(lengths[i]));
            expect_each(&kinds3_forest_type, bytes, sizeof bytes, PK_ERR_MALFORMED, 1u << 16);
            expect_each(&kinds3_few_repeated_type, bytes, sizeof bytes, PK_ERR_MALFORMED, 1u << 16);
        }
    }
}

/* python3-protobuf refuses the first two, and takes the last. */
Test(message, a_length_of_over_five_bytes_is_refused_whatever_its_value)
{
    static const char cut_to_nothing[] = "\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x04";
    static const char six_bytes[] = "\x0a\x80\x80\x80\x80\x80\x00";
    static const char five_bytes[] = "\x0a\x80\x80\x80\x80\x00";
    expect_each(&kinds3_forest_type, cut_to_nothing, 11, PK_ERR_MALFORMED, 1u << 16);
    expect_each(&kinds3_few_repeated_type, cut_to_nothing, 11, PK_ERR_MALFORMED, 1u << 16);
    expect_each(&kinds3_forest_type, six_bytes, 7, PK_ERR_MALFORMED, 1u << 16);
    expect_each(&kinds3_small_type, six_bytes, 7, PK_ERR_MALFORMED, 1u << 16); /* unknown there */
    expect_each(&kinds3_forest_type, five_bytes, 6, 0, 1u << 16);
}

Test(message, a_branching_schema_reserves_what_is_there)
{
    uint8_t bytes[268];
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "\x0a\x00\x0a\x00\x0a\x00\x0a\x00\x12\x81\x02", 11);
    for (unsigned strategy = 0; strategy < STRATEGIES; strategy++) {
        pk_reserve_plan plan;
        pk_message_type type = with_strategy(&kinds3_forest_type, &plan, strategy);
        void *message;
        pk_arena_done(&arena);
        cr_assert_eq(decode(&type, bytes, sizeof bytes, &message), 0);
        cr_assert_eq(((Kinds3__Forest *) message)->n_roots, 4u);
        /* Payload and padding, five structs, an array: and blocks of at most twice that. */
        cr_assert_leq(arena.total, 16u * sizeof bytes, "strategy %u took %zu bytes", strategy,
                      arena.total);
    }
}

Test(message, empty_messages_by_the_million_end_at_the_budget)
{
    size_t length = 4u << 20;
    uint8_t *bytes = malloc(length);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < length; i += 2)
        memcpy(bytes + i, "\x12\x00", 2); /* Tree.children */
    /* The copy of the payload is not charged to the budget. */
    expect_each(&kinds3_tree_type, bytes, length, PK_ERR_LIMIT,
                (size_t) PK_DECODE_BUDGET_DEFAULT + length + (1u << 20));
    free(bytes);
}

Test(message, a_smaller_budget_is_kept)
{
    const struct pk_decode_limits limits = {.budget = 70000};
    uint8_t bytes[2000];
    void *message;
    const char *problem;
    for (size_t i = 0; i < sizeof bytes; i += 2)
        memcpy(bytes + i, "\x12\x00", 2);
    cr_assert_eq(pk_message_decode(&kinds3_tree_type, &arena, &limits, bytes, sizeof bytes,
                                   &message, &problem),
                 PK_ERR_LIMIT);
    cr_assert_eq(decode(&kinds3_tree_type, bytes, sizeof bytes, &message), 0);
    cr_assert_eq(((Kinds3__Tree *) message)->n_children, 1000u);
}

Test(message, records_behind_a_wire_type_that_is_none_are_not_counted)
{
    static const uint8_t wrong[] = {0x0f, 0x0e, 0x0b, 0x0c};
    for (size_t i = 0; i < sizeof wrong; i++) {
        uint8_t bytes[1024];
        for (size_t k = 0; k < sizeof bytes; k += 2)
            memcpy(bytes + k, "\x0a\x00", 2);
        memset(bytes + 1, 0x01, 1);
        bytes[0] = wrong[i];
        expect_each(&kinds3_forest_type, bytes, sizeof bytes, PK_ERR_MALFORMED, 8192);
    }
}

Test(message, depth_ends_at_the_limit)
{
    static const struct {
        size_t levels;
        int error;
    } rows[] = {{100, 0}, {101, PK_ERR_MALFORMED}, {100000, PK_ERR_MALFORMED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length;
        void *message;
        uint8_t *bytes = nested_messages(0x1a, rows[i].levels, &length); /* Tree.only */
        cr_assert_eq(decode(&kinds3_tree_type, bytes, length, &message), rows[i].error);
        free(bytes);

        /* Groups that nobody knows, number 1, each begun and ended. */
        bytes = malloc(2 * rows[i].levels);
        cr_assert_not_null(bytes);
        memset(bytes, 0x2b, rows[i].levels);
        memset(bytes + rows[i].levels, 0x2c, rows[i].levels);
        cr_assert_eq(decode(&kinds3_tree_type, bytes, 2 * rows[i].levels, &message), rows[i].error);
        free(bytes);
    }
    const struct pk_decode_limits limits = {.depth = 3};
    void *message;
    const char *problem;
    cr_assert_eq(pk_message_decode(&kinds3_tree_type, &arena, &limits,
                                   (const uint8_t *) "\x1a\x06\x1a\x04\x1a\x02\x1a\x00", 8,
                                   &message, &problem),
                 PK_ERR_MALFORMED);
}

Test(message, merging_and_alternating_stay_linear)
{
    size_t count = 40000;
    uint8_t *bytes = malloc(count * 6);
    void *message;
    cr_assert_not_null(bytes);
    /* Tree.only, merged each time with one more child: the array must double, not be copied. */
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * 4, "\x1a\x02\x12\x00", 4);
    cr_assert_eq(decode(&kinds3_tree_type, bytes, count * 4, &message), 0);
    cr_assert_eq(((Kinds3__Tree *) message)->only->n_children, count);

    /* Two repeated fields in turn: 16 KB cost an exact array 99 MB. */
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * 4, "\x2a\x00\x32\x00", 4);
    for (unsigned strategy = 0; strategy < STRATEGIES; strategy++) {
        pk_reserve_plan plan;
        pk_message_type type = with_strategy(&kinds3_few_repeated_type, &plan, strategy);
        pk_arena_done(&arena);
        cr_assert_eq(decode(&type, bytes, 4096 * 4, &message), 0);
        cr_assert_leq(arena.total, 2u << 20, "strategy %u took %zu", strategy, arena.total);
    }
    free(bytes);
}

/* Structs lie close together, and each array that was outgrown is left behind. */
Test(message, arrays_take_what_the_next_step_holds)
{
    static const size_t counts[] = {1, 2, 3, 8, 9, 16, 17};
    static const size_t capacities[][4] = {{2},        {2},        {2, 8},        {2, 8},
                                           {2, 8, 16}, {2, 8, 16}, {2, 8, 16, 32}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint8_t bytes[64];
        void *message;
        for (size_t k = 0; k < counts[i]; k++)
            memcpy(bytes + 2 * k, "\x12\x00", 2); /* Tree.children */
        pk_arena_done(&arena);
        pk_arena_init(&arena, &memory, 1u << 16);
        const uint8_t *before = arena.at;
        cr_assert_eq(decode(&kinds3_tree_type, bytes, 2 * counts[i], &message), 0);
        size_t arrays = 0;
        for (size_t k = 0; k < 4 && capacities[i][k]; k++)
            arrays += PK_ARRAY_HEADER + capacities[i][k] * sizeof(void *);
        size_t copy = (2 * counts[i] + PK_DECODE_PADDING + 15) / 16 * 16;
        size_t pieces = (1 + counts[i]) * sizeof(Kinds3__Tree) + arrays;
        cr_assert_eq((size_t) (arena.at - before), copy + (pieces + 15) / 16 * 16, "%zu elements",
                     counts[i]);
    }
}

/* ---- Meaning ------------------------------------------------------------------------------- */

Test(message, a_message_in_pieces_is_one)
{
    void *message;
    const char *problem;
    /* Inner of proto2: id in one piece, name in another; the whole has both. */
    cr_assert_eq(decode(&kinds2_everything_type, "\x32\x02\x08\x01\x32\x03\x1a\x01n", 9, &message),
                 0);
    const Kinds2__Everything *whole = message;
    cr_assert_eq(whole->inner->id, 1);
    cr_assert_str_eq(whole->inner->name, "n");

    cr_assert_eq(decode(&kinds3_tree_type,
                        "\x0a\x01"
                        "a"
                        "\x12\x00",
                        5, &message),
                 0);
    cr_assert_eq(pk_message_merge(&kinds3_tree_type, &arena, NULL,
                                  (const uint8_t *) "\x12\x02\x20\x05\x20\x07", 6, message,
                                  &problem),
                 0);
    const Kinds3__Tree *tree = message;
    cr_assert_str_eq(tree->name, "a");
    cr_assert_eq(tree->n_children, 2u);
    cr_assert_eq(tree->children[1]->weight, 5);
    cr_assert_eq(tree->weight, 7);
}

Test(message, repeated_numbers_are_read_packed_unpacked_and_mixed)
{
    static const struct {
        const char *bytes;
        size_t length, packed, not_packed;
    } rows[] = {
        {"\x0a\x00", 2, 0, 0},
        {"\x12\x00", 2, 0, 0},
        {"\x0a\x03\x01\x02\x03", 5, 3, 0},
        {"\x08\x01\x08\x02\x08\x03", 6, 3, 0},
        {"\x08\x01\x0a\x00\x0a\x01\x02\x08\x03", 9, 3, 0},
        {"\x12\x02\x01\x02\x0a\x01\x01\x10\x03\x08\x02", 11, 2, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned strategy = 0; strategy < STRATEGIES; strategy++) {
            pk_reserve_plan plan;
            pk_message_type type = with_strategy(&kinds3_few_repeated_type, &plan, strategy);
            void *message;
            cr_assert_eq(decode(&type, rows[i].bytes, rows[i].length, &message), 0, "row %zu", i);
            const Kinds3__FewRepeated *few = message;
            cr_assert_eq(few->n_packed, rows[i].packed, "row %zu", i);
            cr_assert_eq(few->n_not_packed, rows[i].not_packed, "row %zu", i);
            for (size_t k = 0; k < few->n_packed; k++)
                cr_assert_eq(few->packed[k], (int32_t) k + 1, "row %zu", i);
            for (size_t k = 0; k < few->n_not_packed; k++)
                cr_assert_eq(few->not_packed[k], (uint32_t) k + 1, "row %zu", i);
        }
    }
}

Test(message, minus_one_is_read_in_five_bytes_and_ten_and_written_in_ten)
{
    static const struct {
        const char *bytes;
        size_t length;
    } rows[] = {
        {"\x08\xff\xff\xff\xff\x0f\x70\xff\xff\xff\xff\x0f", 12},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x70\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
         22},
    };
    for (size_t i = 0; i < 2; i++) {
        void *message;
        cr_assert_eq(decode(&kinds3_scalars_type, rows[i].bytes, rows[i].length, &message), 0);
        const Kinds3__Scalars *scalars = message;
        cr_assert_eq(scalars->i32, -1);
        cr_assert_eq((int) scalars->colour, -1);
        pk_buffer *packed = pk_buffer_get(&pool);
        cr_assert_not_null(packed);
        pk_buffer_rewind_for_prepend(packed);
        cr_assert_eq(pk_message_pack(&kinds3_scalars_type, message, packed), 0);
        cr_assert_eq(pk_buffer_length(packed), rows[1].length);
        cr_assert_eq(memcmp(packed->end - rows[1].length, rows[1].bytes, rows[1].length), 0);
        pk_buffer_unref(packed);
    }
}

Test(message, required_fields_are_judged_over_all_pieces)
{
    static const struct {
        const char *bytes;
        size_t length;
        int error;
    } rows[] = {
        {"\x32\x02\x08\x01", 4, PK_ERR_MALFORMED},
        {"\x32\x02\x08\x01\x32\x02\x08\x02", 8, PK_ERR_MALFORMED},
        {"\x32\x05\x08\x01\x1a\x01n\x32\x00", 9, 0}, /* whole at first, then an empty piece */
        {"\x32\x00\x32\x05\x08\x01\x1a\x01n", 9, 0},
        {"\x32\x00\x3a\x00", 4, PK_ERR_MALFORMED}, /* replaced by one that lacks as much */
        {"\x2a\x02\x08\x01\x2a\x03\x1a\x01n", 9, PK_ERR_MALFORMED}, /* elements do not merge */
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *message;
        cr_assert_eq(decode(&kinds2_everything_type, rows[i].bytes, rows[i].length, &message),
                     rows[i].error, "row %zu", i);
    }
}

Test(message, what_a_replaced_member_lacked_is_forgotten)
{
    void *message;
    /* Groups.kind: an Inner that lacks its fields, below it another one; then the text. */
    cr_assert_eq(decode(&kinds2_groups_type, "\x7a\x04\x22\x02\x08\x01\x72\x01t", 9, &message), 0);
    const Kinds2__Groups *groups = message;
    cr_assert_eq(groups->kind_case, KINDS2__GROUPS__KIND_TEXT);
    cr_assert_str_eq(groups->text, "t");
}

Test(message, text_that_c_cannot_hold_or_proto3_forbids_is_refused)
{
    void *message;
    cr_assert_eq(decode(&kinds3_tree_type,
                        "\x0a\x03"
                        "a\0b",
                        5, &message),
                 PK_ERR_MALFORMED);
    cr_assert_eq(decode(&kinds3_tree_type, "\x0a\x02\xc3\x28", 4, &message), PK_ERR_MALFORMED);
    cr_assert_eq(decode(&kinds2_inner_type, "\x08\x01\x1a\x02\xc3\x28", 6, &message), 0);
    cr_assert_eq(decode(&kinds2_inner_type, "\x08\x01\x1a\x02\xc3\0", 6, &message),
                 PK_ERR_MALFORMED);
}

Test(message, in_place_text_ends_with_a_nul_that_the_padding_gives)
{
    uint8_t bytes[3 + PK_DECODE_PADDING];
    void *message;
    const char *problem;
    memset(bytes, 'z', sizeof bytes);
    memcpy(bytes, "\x0a\x01q", 3);
    cr_assert_eq(
        pk_message_decode_in_place(&kinds3_tree_type, &arena, NULL, bytes, 3, &message, &problem),
        0);
    const Kinds3__Tree *tree = message;
    cr_assert_str_eq(tree->name, "q");
    cr_assert_eq((const uint8_t *) tree->name, bytes + 2);
    cr_assert_eq(bytes[4], 'z');
}

/* ---- Memory -------------------------------------------------------------------------------- */

static unsigned allocations_left;

static void *failing(void *context, void *block, size_t size)
{
    (void) context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return realloc(block, size);
}

Test(message, each_allocation_may_fail)
{
    const pk_allocator allocator = {failing, NULL};
    size_t length = 4000;
    uint8_t *bytes = malloc(length);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < length; i += 4)
        memcpy(bytes + i, "\x12\x02\x12\x00", 4);
    int error = PK_ERR_NOMEM;
    for (unsigned round = 0; error == PK_ERR_NOMEM && round < 100; round++) {
        pk_memory scarce;
        pk_arena from_scarce;
        pk_buffer_pool scarce_pool;
        void *message;
        const char *problem;
        allocations_left = round;
        cr_assert_eq(pk_memory_init(&scarce, &allocator), 0);
        pk_arena_init(&from_scarce, &scarce, 0);
        pk_buffer_pool_init(&scarce_pool, &scarce);
        error = pk_message_decode(&kinds3_tree_type, &from_scarce, NULL, bytes, length, &message,
                                  &problem);
        pk_buffer *packed = error ? NULL : pk_buffer_get(&scarce_pool);
        if (!error && !packed)
            error = PK_ERR_NOMEM;
        if (packed) {
            pk_buffer_rewind_for_prepend(packed);
            cr_assert_eq(pk_buffer_prepend(packed, "tail", 4), 0);
            error = pk_message_pack(&kinds3_tree_type, message, packed);
            cr_assert_eq(memcmp(packed->end - 4, "tail", 4), 0);
            cr_assert_eq(pk_buffer_length(packed), error ? 4 : length + 4);
        }
        pk_buffer_unref(packed);
        pk_buffer_pool_done(&scarce_pool);
        pk_arena_done(&from_scarce);
        pk_memory_done(&scarce);
    }
    cr_assert_eq(error, 0);
    free(bytes);
}

Test(message, a_copy_outlives_everything)
{
    void *message;
    cr_assert_eq(decode(&kinds3_tree_type, "\x0a\x02hi\x12\x04\x0a\x02yo", 10, &message), 0);
    Kinds3__Tree *copy = pk_message_dup(&kinds3_tree_type, message);
    cr_assert_not_null(copy);
    memset(message, 0xee, sizeof(Kinds3__Tree));
    pk_arena_done(&arena);
    cr_assert_str_eq(copy->name, "hi");
    cr_assert_str_eq(copy->children[0]->name, "yo");
    pk_message_free(copy);
    pk_message_free(NULL);

    pk_message_type guarded = kinds3_tree_type;
    guarded.decode = NULL;
    cr_assert_eq(decode(&guarded, "\x0a\x02hi", 4, &message), 0);
    copy = pk_message_dup(&guarded, message);
    cr_assert_not_null(copy);
    cr_assert_str_eq(copy->name, "hi");
    pk_message_free(copy);
}

Test(message, a_decode_asks_for_a_block_or_two)
{
    uint8_t bytes[4000];
    void *message;
    for (size_t i = 0; i < sizeof bytes; i += 4)
        memcpy(bytes + i, "\x12\x02\x20\x07", 4);
    cr_assert_eq(decode(&kinds3_tree_type, bytes, sizeof bytes, &message), 0);
    size_t blocks = memory.live_blocks;
    cr_assert_leq(blocks, 5u);
    pk_arena_reset(&arena);
    pk_arena_done(&arena);
    /* The second time everything comes from blocks that were kept. */
    const pk_allocator kept = memory.allocator;
    allocations_left = 0;
    memory.allocator = (pk_allocator){failing, NULL};
    cr_assert_eq(decode(&kinds3_tree_type, bytes, sizeof bytes, &message), 0);
    memory.allocator = kept;
}

static void *counted_piece(void *count, size_t size)
{
    ++*(size_t *) count;
    return malloc(size);
}

static void freed_piece(void *count, void *piece)
{
    free(piece);
}

/* Even where no block has been kept, and whatever the message holds. */
Test(message, each_shape_takes_fewer_allocations_than_with_protobuf_c)
{
#define ROW(type, text) &kinds3_##type##_type, text, sizeof text - 1
    static const struct {
        const pk_message_type *type;
        const char *bytes;
        size_t length;
    } rows[] = {
        {ROW(tree, "\x0a\x01n")},                                                  /* a text */
        {ROW(tree, "\x12\x03\x0a\x01n\x12\x03\x0a\x01m\x12\x00\x12\x00\x12\x00")}, /* repeated */
        {ROW(tree, "\x1a\x05\x1a\x03\x0a\x01n")}, /* singular, recursive */
        {ROW(forest, "\x0a\x04\x0a\x02\x0a\x00\x0a\x00\x12\x01x")},
        {ROW(few_repeated, "\x0a\x03\x01\x02\x03\x2a\x00\x2a\x00\x32\x00")},
        {ROW(maps, "\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x01k\x12\x01v")},
        {ROW(choice, "\x0a\x01x\x52\x03\x22\x01y")}, /* a oneof's message, and its text */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t theirs = 0;
        ProtobufCAllocator counting = {counted_piece, freed_piece, &theirs};
        ProtobufCMessage *unpacked = protobuf_c_message_unpack(
            rows[i].type->descriptor, &counting, rows[i].length, (const uint8_t *) rows[i].bytes);
        cr_assert_not_null(unpacked, "row %zu", i);
        protobuf_c_message_free_unpacked(unpacked, &counting);
        for (unsigned strategy = 0; strategy < STRATEGIES; strategy++) {
            pk_reserve_plan plan;
            pk_message_type type = with_strategy(rows[i].type, &plan, strategy);
            counting_allocator ours = {0};
            pk_memory counted;
            pk_arena fresh;
            void *message;
            const char *problem;
            cr_assert_eq(pk_memory_init(&counted, COUNTING_ALLOCATOR(&ours)), 0);
            size_t before = ours.requests;
            pk_arena_init(&fresh, &counted, 0);
            cr_assert_eq(pk_message_decode(&type, &fresh, NULL, (const uint8_t *) rows[i].bytes,
                                           rows[i].length, &message, &problem),
                         0);
            cr_assert_lt(ours.requests - before, theirs, "row %zu: %zu, and %zu", i,
                         ours.requests - before, theirs);
            pk_arena_done(&fresh);
            pk_memory_done(&counted);
        }
    }
}
