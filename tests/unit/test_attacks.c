/*
 * Inputs that decoders have died of, each as the request of a live call: it must end with a status,
 * within the memory that is documented, and the router must serve the next call.
 *
 * That the decoder itself stands them, by each strategy of reservation, is test_message.c's.
 */
#include <pekoe/generated.h>
#include <pekoe/testing.h>

#include "handlers/call.h"
#include "live.pekoe.h"
#include "marshalling/message.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/nested.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static counting_allocator counts;
static pk_loop *loop;
static pk_router *router;
static size_t taken; /* by the call that was served last, in blocks of its arena */

static pk_future reply(pk_call *call)
{
    taken = call->scope.arena.total;
    return live_copied_done(live_copied_new(call));
}

static pk_future grow(void *self, pk_call *call, const Live__Tree *request)
{
    return reply(call);
}

static pk_future plant(void *self, pk_call *call, const Live__Forest *request)
{
    return reply(call);
}

static const live_live_impl impl = {.grow = grow, .plant = plant};

static void set_up(void)
{
    memset(&counts, 0, sizeof counts);
    pk_allocator allocator = {counting_resize, &counts};
    cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = &allocator)), 0);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    cr_assert_eq(live_live_route(router, &impl, NULL), 0);
}

static void tear_down(void)
{
    pk_router_free(router);
    pk_loop_end_turn(loop);
    pk_loop_free(loop);
    cr_assert_eq(counts.blocks, 0u, "%zu blocks are left", counts.blocks);
}

TestSuite(attacks, .init = set_up, .fini = tear_down);

#define GROW "/live.Live/Grow"
#define PLANT "/live.Live/Plant"

/* The call's grpc-status, with the message sent whole or, gathered then, in two pieces. */
static int call(const char *path, const uint8_t *bytes, size_t length, bool pieces)
{
    uint8_t prefix[5] = {0, (uint8_t) (length >> 24), (uint8_t) (length >> 16),
                         (uint8_t) (length >> 8), (uint8_t) length};
    uint8_t *frame = malloc(length + 5);
    cr_assert_not_null(frame);
    memcpy(frame, prefix, 5);
    if (length > 0)
        memcpy(frame + 5, bytes, length);
    pk_test_exchange *x = pk_test_exchange_new(
        router, &(pk_test_request){.path = path, .content_type = "application/grpc"});
    cr_assert_not_null(x);
    size_t first = pieces ? length / 2 : length + 5;
    pk_test_exchange_send(x, frame, first);
    pk_test_exchange_send(x, frame + first, length + 5 - first);
    pk_test_exchange_end(x);
    free(frame);
    cr_assert(pk_test_exchange_finished(x));
    int status = atoi(pk_test_exchange_field(x, "grpc-status"));
    pk_test_exchange_free(x);
    return status;
}

static void expect_status(const char *path, const uint8_t *bytes, size_t length, int status)
{
    for (unsigned pieces = 0; pieces < 2; pieces++) {
        cr_assert_eq(call(path, bytes, length, pieces), status);
        cr_assert_eq(call(path, (const uint8_t *) "\x0a\x00", 2, pieces), PK_OK, "the next one");
    }
}

Test(attacks, lengths_near_the_top)
{
    static const char *const lengths[] = {
        "\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01", /* 2^64 - 11, MaxUint64 - 10 */
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "\xff\xff\xff\xff\x0f",
        "\xff\xff\xff\xff\x07",
    };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t bytes[600]; /* the counting pass looks at 256 and more */
        memset(bytes, 0x0a, sizeof bytes);
        memcpy(bytes + 1, lengths[i], strlen(lengths[i]));
        expect_status(PLANT, bytes, sizeof bytes, PK_INTERNAL);
        bytes[0] = 0x12; /* Tree.children */
        expect_status(GROW, bytes, sizeof bytes, PK_INTERNAL);
    }
}

Test(attacks, a_branching_schema)
{
    uint8_t bytes[268];
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "\x0a\x00\x0a\x00\x0a\x00\x0a\x00\x12\x81\x02", 11);
    expect_status(PLANT, bytes, sizeof bytes, PK_OK);
    cr_assert_eq(call(PLANT, bytes, sizeof bytes, false), PK_OK);
    cr_assert_leq(taken, 16u * sizeof bytes, "%zu bytes were reserved", taken);
}

Test(attacks, empty_messages_by_the_million)
{
    size_t length = 4u << 20;
    uint8_t *bytes = malloc(length);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < length; i += 2)
        memcpy(bytes + i, "\x12\x00", 2);
    expect_status(GROW, bytes, length, PK_RESOURCE_EXHAUSTED);
    /* The budget, the payload gathered and copied, and what a loop has anyway. */
    cr_assert_leq(counts.peak, (size_t) PK_DECODE_BUDGET_DEFAULT + 3 * length + (1u << 20),
                  "%zu bytes at once", counts.peak);
    free(bytes);
}

Test(attacks, wire_types_that_there_are_not)
{
    static const uint8_t wrong[] = {0x0f, 0x0e, 0x0c};
    for (size_t i = 0; i < sizeof wrong; i++) {
        uint8_t bytes[1024];
        for (size_t k = 0; k < sizeof bytes; k += 2)
            memcpy(bytes + k, "\x0a\x00", 2);
        bytes[0] = wrong[i];
        bytes[1] = 0x01;
        expect_status(PLANT, bytes, sizeof bytes, PK_INTERNAL);
    }
}

Test(attacks, a_hundred_thousand_levels)
{
    size_t levels = 100000, length;
    uint8_t *bytes = nested_messages(0x1a, levels, &length); /* Tree.only */
    expect_status(GROW, bytes, length, PK_INTERNAL);
    free(bytes);
    bytes = malloc(2 * levels); /* groups that nobody knows */
    cr_assert_not_null(bytes);
    memset(bytes, 0x2b, levels);
    memset(bytes + levels, 0x2c, levels);
    expect_status(GROW, bytes, 2 * levels, PK_INTERNAL);
    free(bytes);
}
