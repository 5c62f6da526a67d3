/* A server and a channel on one loop, joined by a socket of the loopback interface. */
#ifndef PEKOE_TESTS_CLIENT_KIT_H
#define PEKOE_TESTS_CLIENT_KIT_H

#include <pekoe/pekoe.h>
#include <pekoe/testing.h>

#include "core/loop.h"

#include <criterion/criterion.h>

#include <string.h>

/* A test that runs over a socket and without one. */
#define TEST_BOTH(suite, name) \
    static void name(void);    \
    Test(suite, name)          \
    {                          \
        in_process = false;    \
        name();                \
        in_process = true;     \
        name();                \
    }                          \
    static void name(void)

static bool in_process __attribute__((unused));

struct client_kit {
    pk_loop *loop;
    pk_server *server;
    pk_channel *channel;
    char address[64];
};

static inline struct client_kit client_kit_open(const pk_service *service, const void *impl,
                                                void *self, const pk_server_opts *server_opts,
                                                const pk_channel_opts *channel_opts)
{
    struct client_kit kit;
    const char *bound;
    cr_assert_eq(pk_loop_new(&kit.loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit.server, kit.loop, server_opts), 0);
    cr_assert_eq(pk_router_add(pk_server_router(kit.server), service, impl, self), 0);
    cr_assert_eq(pk_server_listen(kit.server, "127.0.0.1:0", &bound), 0);
    strcpy(kit.address, bound);
    cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, kit.address, channel_opts), 0);
    return kit;
}

/* The same without a socket: the server's router is called in the loop. */
static inline struct client_kit client_kit_open_in_process(const pk_service *service,
                                                           const void *impl, void *self)
{
    struct client_kit kit;
    cr_assert_eq(pk_loop_new(&kit.loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit.server, kit.loop, NULL), 0);
    cr_assert_eq(pk_router_add(pk_server_router(kit.server), service, impl, self), 0);
    cr_assert_eq(pk_channel_new_in_process(&kit.channel, pk_server_router(kit.server)), 0);
    return kit;
}

static inline void client_kit_close(struct client_kit *kit)
{
    pk_channel_free(kit->channel);
    pk_server_free(kit->server);
    pk_loop_free(kit->loop);
}

/* Turns of the loop until `condition` holds; a test that waits for ever is stopped by its runner. */
#define WAIT_UNTIL(kit, condition)     \
    do {                               \
        while (!(condition))           \
            pk_loop_turn((kit)->loop); \
    } while (0)

static inline bool says(pk_slice text, const char *expected)
{
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

#endif
