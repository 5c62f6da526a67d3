/*
 * What the counting pass over a root's records reserves: the capacity of the arrays that it leaves
 * behind, and nothing where it must not count.
 */
#include "kinds3.pekoe.h"
#include "marshalling/decoder.h"
#include "marshalling/message.h"

#include <criterion/criterion.h>

#include <string.h>

static pk_memory memory;
static pk_arena arena;
static pk_decoder decoder;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_arena_init(&arena, &memory, 1u << 16);
    pk_decoder_init(&decoder, &arena, 1u << 20, 100);
}

static void tear_down(void)
{
    pk_arena_done(&arena);
    pk_memory_done(&memory);
}

TestSuite(prescan, .init = set_up, .fini = tear_down);

struct root {
    void *first, *second; /* fields 1 and 2 */
};

static const pk_reserve_field fields[] = {
    {1, 64, offsetof(struct root, first)},
    {2, 64, offsetof(struct root, second)},
};
static const pk_reserve_plan plan = {PK_RESERVE_PRESCAN, 2, fields};

static size_t capacity_of(const void *elements)
{
    return elements ? (size_t) (pk_array_of((void *) (uintptr_t) elements, 0, sizeof(void *)).full -
                                (const uint8_t *) elements) /
                          sizeof(void *)
                    : 0;
}

/*
 * `head` and, up to 400 bytes, empty elements of field 1 behind it, are counted; the capacities of
 * both arrays are told. `padding` follows the payload, as a decoder's input demands.
 */
static void expect_counts(const char *head, size_t head_length, size_t first, size_t second)
{
    uint8_t bytes[400 + PK_DECODE_PADDING] = {0};
    struct root root = {NULL, NULL};
    memcpy(bytes, head, head_length);
    for (size_t i = head_length; i < 400; i += 2)
        memcpy(bytes + i, "\x0a\x00", 2);
    size_t length = head_length + (400 - head_length + 1) / 2 * 2;
    pk_decoder_prescan(&decoder, &plan, &root, bytes, bytes + length);
    cr_assert_eq(capacity_of(root.first), first, "%zu, not %zu", capacity_of(root.first), first);
    cr_assert_eq(capacity_of(root.second), second, "%zu, not %zu", capacity_of(root.second),
                 second);
    cr_assert_eq(decoder.error, 0, "a hint never fails");
}

#define HEAD(text) text, sizeof text - 1

Test(prescan, records_of_the_root_are_counted)
{
    expect_counts(HEAD(""), 200, 0);
    expect_counts(HEAD("\x12\x00\x12\x00"), 198, 2);
    /* Other fields and other wire types of the same numbers are passed over. */
    expect_counts(HEAD("\x08\x01\x09qqqqqqqq\x0dqqqq\x1a\x01x\x12\x00"), 190, 1);
}

Test(prescan, what_elements_hold_is_not_counted)
{
    expect_counts(HEAD("\x0a\x08\x0a\x00\x0a\x00\x0a\x00\x0a\x00"), 196, 0);
    expect_counts(HEAD("\x1a\x08\x0a\x00\x0a\x00\x0a\x00\x0a\x00"), 195, 0);
}

/* Five are counted before what ends the pass. */
Test(prescan, it_stops_where_the_decoder_will_have_to_look)
{
#define FIVE "\x0a\x00\x0a\x00\x0a\x00\x0a\x00\x0a\x00"
    static const struct {
        const char *head;
        size_t length;
    } rows[] = {
        {HEAD(FIVE "\x0b\x0c")},                                     /* a group */
        {HEAD(FIVE "\x0c\x0c")},                                     /* the end of one */
        {HEAD(FIVE "\x0e\x01")},                                     /* wire type 6 */
        {HEAD(FIVE "\x0f\x01")},                                     /* 7 */
        {HEAD(FIVE "\x0a\xff\x7f\x0a\x00")},                         /* runs past the end */
        {HEAD(FIVE "\x0a\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01")}, /* 2^64 - 11 */
        {HEAD(FIVE "\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x04")}, /* 2^65, cut to 0 */
        {HEAD(FIVE "\x0a\x80\x80\x80\x80\x80\x00")},                 /* a length of six bytes */
        {HEAD(FIVE "\x8a\x80\x80\x80\x80\x00")},                     /* a tag of six bytes */
        {HEAD(FIVE "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80")}, /* a varint without end */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_counts(rows[i].head, rows[i].length, 5, 0);
}

Test(prescan, small_payloads_few_elements_and_arrays_that_are_there_are_left_alone)
{
    uint8_t bytes[400 + PK_DECODE_PADDING] = {0};
    struct root root = {NULL, NULL};
    for (size_t i = 0; i < 400; i += 2)
        memcpy(bytes + i, "\x0a\x00", 2);
    pk_decoder_prescan(&decoder, &plan, &root, bytes, bytes + 254);
    cr_assert_null(root.first);
    uint8_t *before = decoder.at;
    memcpy(bytes, "\x0a\x00\x0a\x00\x0a\x00\x1a\x86\x03", 9); /* three, and a text of 390 */
    pk_decoder_prescan(&decoder, &plan, &root, bytes, bytes + 399);
    cr_assert_null(root.first);
    cr_assert_eq(decoder.at, before);
    void *there = bytes;
    root.first = there;
    memcpy(bytes + 6, "\x12\x00\x1a\x84\x03", 5); /* four: enough, but not for the first */
    pk_decoder_prescan(&decoder, &plan, &root, bytes, bytes + 399);
    cr_assert_eq(root.first, there);
    cr_assert_eq(capacity_of(root.second), 1u);
}

Test(prescan, what_is_reserved_is_capped_by_the_payload)
{
    static const pk_reserve_field huge[] = {{1, 1u << 20, offsetof(struct root, first)}};
    static const pk_reserve_plan greedy = {PK_RESERVE_PRESCAN, 1, huge};
    uint8_t bytes[400 + PK_DECODE_PADDING] = {0};
    struct root root = {NULL, NULL};
    for (size_t i = 0; i < 400; i += 2)
        memcpy(bytes + i, "\x0a\x00", 2);
    size_t before = arena.total;
    pk_decoder_prescan(&decoder, &greedy, &root, bytes, bytes + 400);
    cr_assert_eq(capacity_of(root.first), 200u);
    cr_assert_leq(arena.total - before, 8u * 400, "200 MB were asked for");
}

/* A root that is merged into has more elements than were counted: the array grows. */
Test(prescan, too_small_a_reservation_falls_back_to_growth)
{
    pk_message_type type = kinds3_forest_type;
    pk_reserve_plan counted = *type.reserve;
    uint8_t bytes[400];
    void *message;
    const char *problem;
    counted.strategy = PK_RESERVE_PRESCAN;
    type.reserve = &counted;
    for (size_t i = 0; i < sizeof bytes; i += 2)
        memcpy(bytes + i, "\x0a\x00", 2);
    cr_assert_eq(pk_message_decode(&type, &arena, NULL, bytes, sizeof bytes, &message, &problem),
                 0);
    const Kinds3__Forest *forest = message;
    cr_assert_eq(forest->n_roots, 200u);
    cr_assert_eq(capacity_of(forest->roots), 200u, "exactly what was counted");
    cr_assert_eq(pk_message_merge(&type, &arena, NULL, bytes, sizeof bytes, message, &problem), 0);
    cr_assert_eq(forest->n_roots, 400u);
    for (size_t i = 0; i < 400; i++)
        cr_assert_eq(forest->roots[i]->base.descriptor, &kinds3__branch1__descriptor);
    cr_assert_geq(capacity_of(forest->roots), 400u);
}
