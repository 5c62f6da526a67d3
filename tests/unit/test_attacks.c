/*
 * Inputs that decoders have died of, each as the request of a live call, decoded by each strategy of
 * reservation: it must end with a status, within the memory and the work that are documented, and
 * the router must serve the next call.
 */
#include <pekoe/generated.h>
#include <pekoe/testing.h>

#include "handlers/call.h"
#include "live.pekoe.h"
#include "marshalling/message.h"
#include "tests/support/count_instructions.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/nested.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static counting_allocator counts;
static pk_loop *loop;
static pk_router *router;
static size_t taken; /* by the call that was served last, in blocks of its arena */

/* The service as it was generated, but for the strategy of what it decodes. */
enum { METHODS_MAX = 8 };
static pk_method methods[METHODS_MAX];
static pk_message_type requests[METHODS_MAX];
static pk_reserve_plan plans[METHODS_MAX];
static pk_service service;

static const struct {
    pk_reserve strategy;
    const char *name;
} strategies[] = {
    {PK_RESERVE_GROWTH, "growth"},
    {PK_RESERVE_LOOKAHEAD, "lookahead"},
    {PK_RESERVE_PRESCAN, "prescan"},
};

#define STRATEGIES (sizeof strategies / sizeof strategies[0])

static void use_strategy(size_t index)
{
    for (size_t i = 0; i < service.method_count; i++)
        plans[i].strategy = strategies[index].strategy;
}

static void copy_service(void)
{
    service = live_live_service;
    cr_assert_leq(service.method_count, (size_t) METHODS_MAX);
    for (size_t i = 0; i < service.method_count; i++) {
        methods[i] = live_live_service.methods[i];
        requests[i] = *methods[i].request;
        plans[i] = *requests[i].reserve;
        requests[i].reserve = &plans[i];
        methods[i].request = &requests[i];
    }
    service.methods = methods;
}

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
    copy_service();
    cr_assert_eq(pk_router_add(router, &service, &impl, NULL), 0);
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
    for (size_t strategy = 0; strategy < STRATEGIES; strategy++) {
        use_strategy(strategy);
        for (unsigned pieces = 0; pieces < 2; pieces++) {
            cr_assert_eq(call(path, bytes, length, pieces), status, "%s",
                         strategies[strategy].name);
            cr_assert_eq(call(path, (const uint8_t *) "\x0a\x00", 2, pieces), PK_OK,
                         "the next one");
        }
    }
}

/* What a loop takes at most for one such call, its first one. */
static size_t peak_of(size_t strategy, const char *path, const uint8_t *bytes, size_t length)
{
    tear_down();
    set_up();
    use_strategy(strategy);
    call(path, bytes, length, false);
    return counts.peak;
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1 /* each access is many instructions */
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

struct counted_call {
    const char *path;
    const uint8_t *bytes;
    size_t length;
    int status;
};

static void make_counted_call(void *arg)
{
    const struct counted_call *made = arg;
    if (call(made->path, made->bytes, made->length, false) != made->status)
        _exit(1);
}

static long count_call(struct counted_call *made)
{
    make_counted_call(made); /* symbols are bound, blocks are there */
    long count = count_instructions(make_counted_call, made, 1000000);
    cr_assert_gt(count, 0, "instructions cannot be counted here");
    return count;
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

/*
 * A field that is counted, with a length near 2^64, must not loop: neither over the length nor over
 * the payload once more. What it takes to refuse a length that is merely too large for a payload of
 * that size, without any counting, says what is normal.
 */
Test(attacks, a_length_near_the_top_takes_no_loop, .timeout = 100)
{
    static const char top[] = "\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01"; /* 2^64 - 11 */
    static const char large[] = "\xff\x7f";
    static const struct {
        const char *path;
        uint8_t counted;
    } rows[] = {{PLANT, 0x0a}, {GROW, 0x12}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t attack[600], normal[600]; /* the counting pass looks at 256 and more */
        memset(attack, rows[i].counted, sizeof attack);
        memcpy(normal, attack, sizeof normal);
        memcpy(attack + 1, top, sizeof top - 1);
        memcpy(normal + 1, large, sizeof large - 1);
        struct counted_call refused = {rows[i].path, attack, sizeof attack, PK_INTERNAL};
        struct counted_call usual = {rows[i].path, normal, sizeof normal, PK_INTERNAL};
        use_strategy(0);
        long most = count_call(&usual);
        most += most / (SANITIZED ? 2 : 10);
        for (size_t strategy = 0; strategy < STRATEGIES; strategy++) {
            use_strategy(strategy);
            long count = count_call(&refused);
            cr_assert_leq(count, most, "%s, %s: %ld instructions, more than %ld",
                          strategies[strategy].name, rows[i].path, count, most);
        }
    }
}

Test(attacks, a_branching_schema)
{
    uint8_t bytes[268];
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "\x0a\x00\x0a\x00\x0a\x00\x0a\x00\x12\x81\x02", 11);
    expect_status(PLANT, bytes, sizeof bytes, PK_OK);
    for (size_t strategy = 0; strategy < STRATEGIES; strategy++) {
        use_strategy(strategy);
        cr_assert_eq(call(PLANT, bytes, sizeof bytes, false), PK_OK);
        cr_assert_leq(taken, 8u * sizeof bytes, "%s: %zu bytes were reserved",
                      strategies[strategy].name, taken);
    }
}

Test(attacks, empty_messages_by_the_million)
{
    size_t length = 4u << 20;
    uint8_t *bytes = malloc(length);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < length; i += 2)
        memcpy(bytes + i, "\x12\x00", 2);
    for (size_t strategy = 0; strategy < STRATEGIES; strategy++) {
        /* A new loop, which has kept no blocks of other sizes. */
        tear_down();
        set_up();
        use_strategy(strategy);
        for (unsigned pieces = 0; pieces < 2; pieces++)
            cr_assert_eq(call(GROW, bytes, length, pieces), PK_RESOURCE_EXHAUSTED);
        /* The budget, the payload gathered and copied, and what a loop has anyway. */
        cr_assert_leq(counts.peak, (size_t) PK_DECODE_BUDGET_DEFAULT + 3 * length + (1u << 20),
                      "%s: %zu bytes at once", strategies[strategy].name, counts.peak);
    }
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
        /* Elements behind it are not counted: they cost what text in their place does. */
        uint8_t nothing[1024];
        memset(nothing, 'x', sizeof nothing);
        memcpy(nothing, bytes, 2);
        memcpy(nothing + 2, "\x12\xfb\x07", 3);
        for (size_t strategy = 0; strategy < STRATEGIES; strategy++) {
            size_t expected = peak_of(strategy, PLANT, nothing, sizeof nothing);
            size_t peak = peak_of(strategy, PLANT, bytes, sizeof bytes);
            cr_assert_eq(peak, expected, "%s: %zu bytes, not %zu", strategies[strategy].name, peak,
                         expected);
        }
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
