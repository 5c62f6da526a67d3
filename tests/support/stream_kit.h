/*
 * A greeter without a socket: a loop with a counting allocator, a router, and messages as the bytes
 * that travel. For the tests of handlers.
 *
 * Requests are laid out by hand (RFC: PROTOCOL-HTTP2.md, "Length-Prefixed-Message"; the message is
 * field 1, a string), so that what is tested is not tested with itself.
 */
#ifndef PEKOE_TESTS_STREAM_KIT_H
#define PEKOE_TESTS_STREAM_KIT_H

#include <pekoe/generated.h>
#include <pekoe/testing.h>

#include "core/loop.h"
#include "helloworld.pekoe.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

typedef struct kit {
    counting_allocator counts;
    pk_loop *loop;
    pk_router *router;
} kit;

static inline void kit_open_with(kit *k, const helloworld_greeter_impl *impl, void *self,
                                 const pk_router_opts *opts)
{
    *k = (kit){.counts = {0}};
    pk_allocator allocator = {counting_resize, &k->counts};
    cr_assert_eq(pk_loop_new(&k->loop, PK_LOOP_OPTS(.allocator = &allocator)), 0);
    cr_assert_eq(pk_router_new(&k->router, k->loop, opts), 0);
    cr_assert_eq(helloworld_greeter_route(k->router, impl, self), 0);
}

static inline void kit_open(kit *k, const helloworld_greeter_impl *impl, void *self)
{
    kit_open_with(k, impl, self, NULL);
}

/* Nothing is left: neither in the pools nor with the allocator. */
static inline void kit_close(kit *k)
{
    k->router = pk_router_free(k->router);
    pk_loop_end_turn(k->loop);
    cr_assert_eq(k->loop->buffers.lent, 0u, "%zu buffers are still lent", k->loop->buffers.lent);
    k->loop = pk_loop_free(k->loop);
    cr_assert_eq(k->counts.blocks, 0u, "%zu blocks are left", k->counts.blocks);
}

/* The three streaming methods. */
#define TALKING "/helloworld.Greeter/ItKeepsTalking"
#define REPLYING "/helloworld.Greeter/ItKeepsReplying"
#define HELLOS "/helloworld.Greeter/StreamHellos"

static inline pk_test_exchange *kit_call_with(kit *k, const char *path, const char *const *fields)
{
    pk_test_exchange *x = pk_test_exchange_new(
        k->router,
        &(pk_test_request){.path = path, .content_type = "application/grpc", .fields = fields});
    cr_assert_not_null(x);
    return x;
}

static inline pk_test_exchange *kit_call(kit *k, const char *path)
{
    return kit_call_with(k, path, NULL);
}

/* Bytes of a message with that name, in front of which its prefix stands. Returns how many. */
static inline size_t kit_frame(uint8_t *at, const char *name)
{
    size_t length = strlen(name), head = length == 0 ? 0 : length < 128 ? 2 : 3;
    size_t size = head + length;
    cr_assert_lt(length, 16384u);
    at[0] = 0;
    at[1] = (uint8_t) (size >> 24);
    at[2] = (uint8_t) (size >> 16);
    at[3] = (uint8_t) (size >> 8);
    at[4] = (uint8_t) size;
    if (head > 0)
        at[5] = 0x0a;
    if (head == 2)
        at[6] = (uint8_t) length;
    if (head == 3) {
        at[6] = (uint8_t) (length | 0x80);
        at[7] = (uint8_t) (length >> 7);
    }
    memcpy(at + 5 + head, name, length);
    return 5 + size;
}

static inline void kit_send(pk_test_exchange *x, const char *name)
{
    uint8_t bytes[16384 + 16];
    pk_test_exchange_send(x, bytes, kit_frame(bytes, name));
}

/* The messages of the response so far, joined by '|'; plain messages of less than 128 bytes. */
static inline const char *kit_replies(const pk_test_exchange *x)
{
    static char text[65536];
    pk_slice body = pk_test_exchange_body(x);
    size_t at = 0, written = 0;
    text[0] = '\0';
    while (at < body.length) {
        cr_assert_geq(body.length - at, 5u);
        cr_assert_eq(body.bytes[at], 0, "a plain message");
        size_t size = body.bytes[at + 4];
        const char *name = (const char *) body.bytes + at + 7;
        written += (size_t) snprintf(text + written, sizeof text - written, "%s%.*s",
                                     written ? "|" : "", size ? (int) size - 2 : 0, name);
        at += 5 + size;
    }
    cr_assert_eq(at, body.length);
    return text;
}

static inline const char *kit_status(const pk_test_exchange *x)
{
    const char *status = pk_test_exchange_field(x, "grpc-status");
    return status ? status : "none";
}

#endif
