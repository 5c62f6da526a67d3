/*
 * What the tests of balancing share: three servers of one port, a channel to them, and how often and over
 * how many connections each was called. One of each per test program.
 */
#ifndef PEKOE_TESTS_UNIT_BALANCING_FIELD_H
#define PEKOE_TESTS_UNIT_BALANCING_FIELD_H

#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"
#include "transport/server.h"

#include <stdio.h>

#define SERVERS 3u

/* One address, 127.0.0.1 to 127.0.0.3 with one port, and the server there; NULL: it is down. */
struct place {
    pk_server *server;
    char address[64];
    unsigned calls, at_once, at_once_most;
    unsigned connections; /* how often a call came over another one than the call before */
    char peer[64];        /* of that */
};

struct field {
    pk_loop *loop;
    pk_channel *channel;
    struct place places[SERVERS];
    unsigned port;
    unsigned started, ended, ok;
    uint32_t max_connections; /* of servers that are started from now on; 0: any number */
};

static inline pk_future reply(const void *unused, void *arg)
{
    Helloworld__HelloReply *message = helloworld_hello_reply_new(arg);
    message->message = pk_call_printf(arg, "hello");
    return helloworld_hello_reply_done(message);
}

static inline void count_end(void *arg)
{
    ((struct place *) arg)->at_once--;
}

/* The request's name says how many milliseconds the call takes. */
static inline pk_future say_hello(void *self, pk_call *call,
                                  const Helloworld__HelloRequest *request)
{
    struct place *place = self;
    place->calls++;
    if (strcmp(place->peer, pk_call_peer(call)) != 0)
        place->connections++;
    snprintf(place->peer, sizeof place->peer, "%s", pk_call_peer(call));
    if (++place->at_once > place->at_once_most)
        place->at_once_most = place->at_once;
    cr_assert_eq(pk_call_on_end(call, count_end, place), 0);
    if (request->name[0] == '\0')
        return reply(NULL, call);
    uint64_t time = strtoul(request->name, NULL, 10);
    return pk_then(pk_sleep(pk_call_scope(call), time), reply, call);
}

static inline pk_future take_message(const void *message, void *arg)
{
    (*(unsigned *) arg)++;
    return pk_done(NULL);
}

struct taking {
    pk_call *call;
    unsigned count;
};

static inline pk_future tell_count(const void *unused, void *arg)
{
    const struct taking *taking = arg;
    Helloworld__HelloReply *message = helloworld_hello_reply_new(taking->call);
    message->message = pk_call_printf(taking->call, "%u", taking->count);
    return helloworld_hello_reply_done(message);
}

static inline pk_future take_all(void *self, pk_call *call, pk_reader *in)
{
    struct taking *taking = pk_call_new(call, struct taking, .call = call);
    return pk_then(pk_reader_each(in, take_message, &taking->count), tell_count, taking);
}

static inline void start_server(struct field *field, size_t i, uint32_t max_streams)
{
    static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                                 .it_keeps_talking = take_all};
    struct place *place = &field->places[i];
    const char *bound;
    snprintf(place->address, sizeof place->address, "127.0.0.%zu:%u", i + 1, field->port);
    cr_assert_eq(pk_server_new(&place->server, field->loop,
                               PK_SERVER_OPTS(.max_streams = max_streams,
                                              .max_connections = field->max_connections)),
                 0);
    cr_assert_eq(helloworld_greeter_serve(place->server, &impl, place), 0);
    cr_assert_eq(pk_server_listen(place->server, place->address, &bound), 0, "%s", place->address);
    strcpy(place->address, bound);
    field->port = (unsigned) strtoul(strchr(bound, ':') + 1, NULL, 10);
}

static inline void open_servers(struct field *field, uint32_t max_streams)
{
    memset(field, 0, sizeof *field);
    cr_assert_eq(pk_loop_new(&field->loop, NULL), 0);
    for (size_t i = 0; i < SERVERS; i++)
        start_server(field, i, max_streams);
}

static inline void open_channel(struct field *field, const char *target,
                                const pk_channel_opts *opts)
{
    char list[256];
    if (!target) {
        snprintf(list, sizeof list, "ipv4:%s,%s,%s", field->places[0].address,
                 field->places[1].address, field->places[2].address);
        target = list;
    }
    cr_assert_eq(pk_channel_new(&field->channel, field->loop, target, opts), 0);
}

static inline void close_field(struct field *field)
{
    pk_channel_free(field->channel);
    for (size_t i = 0; i < SERVERS; i++)
        pk_server_free(field->places[i].server);
    pk_loop_free(field->loop);
}

static inline pk_future greet(struct field *field, const char *milliseconds,
                              const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) milliseconds;
    return helloworld_greeter_say_hello(field->channel, &request, opts);
}

static inline pk_code call(struct field *field, const pk_call_opts *opts)
{
    return pk_loop_run_until(field->loop, greet(field, "", opts), NULL).code;
}

/* A call that is sent before the loss is seen fails: one round of calls, so that it is seen. */
static inline void kill_server(struct field *field, size_t i)
{
    field->places[i].server = pk_server_free(field->places[i].server);
    for (size_t j = 0; field->channel && j < 2 * SERVERS; j++)
        (void) call(field, PK_CALL_OPTS(.timeout_ms = 1000));
    for (size_t j = 0; j < SERVERS; j++)
        field->places[j].calls = 0;
}

/* Calls until each server of the mask has had one of late, and then forgets what was counted. */
static inline void until_spread(struct field *field, unsigned mask)
{
    for (unsigned seen = 0; seen != mask;) {
        for (size_t i = 0; i < SERVERS; i++)
            field->places[i].calls = 0;
        for (size_t i = 0; i < 2 * SERVERS; i++)
            cr_assert_eq(call(field, PK_CALL_OPTS(.wait_for_ready = true)), PK_OK);
        seen = 0;
        for (size_t i = 0; i < SERVERS; i++)
            seen |= field->places[i].calls > 0 ? 1u << i : 0;
    }
    for (size_t i = 0; i < SERVERS; i++)
        field->places[i].calls = 0;
}

static inline void expect_calls(struct field *field, unsigned a, unsigned b, unsigned c)
{
    const unsigned expected[] = {a, b, c};
    for (size_t i = 0; i < SERVERS; i++)
        cr_assert_eq(field->places[i].calls, expected[i], "server %zu: %u calls", i,
                     field->places[i].calls);
}

static inline void wait_for_state(struct field *field, pk_channel_state state)
{
    while (pk_channel_get_state(field->channel) != state)
        pk_loop_turn(field->loop);
}

#define ROUND_ROBIN .load_balancing = "round_robin", .backoff_initial_ms = 20, .backoff_max_ms = 40

/* `count` calls at once, each of which takes so long. */
static inline void call_at_once(struct field *field, size_t count, const char *milliseconds)
{
    pk_future all[64];
    for (size_t i = 0; i < count; i++)
        all[i] = greet(field, milliseconds, NULL);
    pk_future joined = pk_all(pk_loop_scope(field->loop), all, count);
    cr_assert_eq(pk_loop_run_until(field->loop, joined, NULL).code, PK_OK);
}

/* The most calls at once that a server has seen since it was asked last. */
static inline unsigned at_once_most(struct field *field, size_t i)
{
    unsigned most = field->places[i].at_once_most;
    field->places[i].at_once_most = 0;
    return most;
}

#endif
