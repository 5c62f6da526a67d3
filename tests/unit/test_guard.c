/* libprotobuf-c's unpack behind guards: what it would do wrong by itself is refused before. */
#include "kinds2.pekoe.h"
#include "kinds3.pekoe.h"
#include "marshalling/decoder.h"
#include "marshalling/guard.h"
#include "marshalling/message.h"
#include "tests/support/nested.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static pk_memory memory;
static pk_arena arena;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_arena_init(&arena, &memory, 0);
}

static void tear_down(void)
{
    pk_arena_done(&arena);
    pk_memory_done(&memory);
}

TestSuite(guard, .init = set_up, .fini = tear_down);

static int unpack(const pk_message_type *type, const void *bytes, size_t length, void **ret_message,
                  const char **ret_problem)
{
    return pk_guarded_unpack(type, &arena, pk_decode_budget(length, PK_DECODE_BUDGET_DEFAULT), 100,
                             bytes, length, ret_message, ret_problem);
}

Test(guard, good_messages_are_unpacked)
{
    void *message;
    const char *problem;
    cr_assert_eq(unpack(&kinds3_tree_type, "\x0a\x02hi\x20\x07", 6, &message, &problem), 0);
    const Kinds3__Tree *tree = message;
    cr_assert_str_eq(tree->name, "hi");
    cr_assert_eq(tree->weight, 7);
    cr_assert_eq(unpack(&kinds3_tree_type, NULL, 0, &message, &problem), 0);
}

Test(guard, depth_ends_at_the_limit_and_not_in_a_crash)
{
    static const struct {
        size_t levels;
        int error;
    } rows[] = {{100, 0}, {101, PK_ERR_MALFORMED}, {100000, PK_ERR_MALFORMED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length;
        void *message;
        const char *problem = "";
        uint8_t *bytes = nested_messages(0x1a, rows[i].levels, &length); /* Tree.only */
        cr_assert_eq(unpack(&kinds3_tree_type, bytes, length, &message, &problem), rows[i].error,
                     "%zu levels: %s", rows[i].levels, problem);
        free(bytes);
        pk_arena_reset(&arena);
    }
}

Test(guard, text_that_is_not_utf8_or_holds_a_nul_is_refused)
{
    void *message;
    const char *problem;
    cr_assert_eq(unpack(&kinds3_tree_type, "\x0a\x01\xff", 3, &message, &problem),
                 PK_ERR_MALFORMED);
    cr_assert_eq(unpack(&kinds3_tree_type, "\x12\x03\x0a\x01\x00", 5, &message, &problem),
                 PK_ERR_MALFORMED);
    /* proto2 takes any bytes but NUL. */
    cr_assert_eq(unpack(&kinds2_inner_type, "\x08\x01\x1a\x01\xff", 5, &message, &problem), 0);
    cr_assert_eq(unpack(&kinds2_inner_type, "\x08\x01\x1a\x01\x00", 5, &message, &problem),
                 PK_ERR_MALFORMED);
}

Test(guard, memory_ends_at_the_budget)
{
    size_t length = 4u << 20;
    uint8_t *bytes = malloc(length);
    void *message;
    const char *problem = "";
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < length; i += 2)
        memcpy(bytes + i, "\x12\x00", 2); /* Tree.children, empty */
    cr_assert_eq(unpack(&kinds3_tree_type, bytes, length, &message, &problem), PK_ERR_LIMIT);
    cr_assert_leq(arena.total, (size_t) PK_DECODE_BUDGET_DEFAULT + (1u << 20));
    free(bytes);
}

Test(guard, malformed_input_is_refused)
{
    static const struct {
        const char *bytes;
        size_t length;
    } rows[] = {
        {"\x0a", 1},
        {"\x0a\x05hi", 4},
        {"\x0a\xff\xff\xff\xff\x0f", 6},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {"\x20", 1},
        {"\x0f\x12\x00\x12\x00", 5}, /* wire type 7 */
        {"\x0c", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *message;
        const char *problem = NULL;
        cr_assert_eq(unpack(&kinds3_tree_type, rows[i].bytes, rows[i].length, &message, &problem),
                     PK_ERR_MALFORMED, "row %zu", i);
        cr_assert_not_null(problem);
    }
}
