/*
 * round_robin over servers that come and go: how calls are spread, what the channel's state is, and
 * what happens when a name stands for other addresses than before.
 */
#include "handlers/client_call.h"
#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"
#include "tests/support/name_server.h"
#include "transport/connection.h"
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

static pk_future reply(const void *unused, void *arg)
{
    Helloworld__HelloReply *message = helloworld_hello_reply_new(arg);
    message->message = pk_call_printf(arg, "hello");
    return helloworld_hello_reply_done(message);
}

static void count_end(void *arg)
{
    ((struct place *) arg)->at_once--;
}

/* The request's name says how many milliseconds the call takes. */
static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
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

static pk_future take_message(const void *message, void *arg)
{
    (*(unsigned *) arg)++;
    return pk_done(NULL);
}

struct taking {
    pk_call *call;
    unsigned count;
};

static pk_future tell_count(const void *unused, void *arg)
{
    const struct taking *taking = arg;
    Helloworld__HelloReply *message = helloworld_hello_reply_new(taking->call);
    message->message = pk_call_printf(taking->call, "%u", taking->count);
    return helloworld_hello_reply_done(message);
}

static pk_future take_all(void *self, pk_call *call, pk_reader *in)
{
    struct taking *taking = pk_call_new(call, struct taking, .call = call);
    return pk_then(pk_reader_each(in, take_message, &taking->count), tell_count, taking);
}

static void start_server(struct field *field, size_t i, uint32_t max_streams)
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

static void open_servers(struct field *field, uint32_t max_streams)
{
    memset(field, 0, sizeof *field);
    cr_assert_eq(pk_loop_new(&field->loop, NULL), 0);
    for (size_t i = 0; i < SERVERS; i++)
        start_server(field, i, max_streams);
}

static void open_channel(struct field *field, const char *target, const pk_channel_opts *opts)
{
    char list[256];
    if (!target) {
        snprintf(list, sizeof list, "ipv4:%s,%s,%s", field->places[0].address,
                 field->places[1].address, field->places[2].address);
        target = list;
    }
    cr_assert_eq(pk_channel_new(&field->channel, field->loop, target, opts), 0);
}

static void close_field(struct field *field)
{
    pk_channel_free(field->channel);
    for (size_t i = 0; i < SERVERS; i++)
        pk_server_free(field->places[i].server);
    pk_loop_free(field->loop);
}

static pk_future greet(struct field *field, const char *milliseconds, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) milliseconds;
    return helloworld_greeter_say_hello(field->channel, &request, opts);
}

static pk_code call(struct field *field, const pk_call_opts *opts)
{
    return pk_loop_run_until(field->loop, greet(field, "", opts), NULL).code;
}

/* A call that is sent before the loss is seen fails: one round of calls, so that it is seen. */
static void kill_server(struct field *field, size_t i)
{
    field->places[i].server = pk_server_free(field->places[i].server);
    for (size_t j = 0; field->channel && j < 2 * SERVERS; j++)
        (void) call(field, PK_CALL_OPTS(.timeout_ms = 1000));
    for (size_t j = 0; j < SERVERS; j++)
        field->places[j].calls = 0;
}

/* Calls until each server of the mask has had one of late, and then forgets what was counted. */
static void until_spread(struct field *field, unsigned mask)
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

static void expect_calls(struct field *field, unsigned a, unsigned b, unsigned c)
{
    const unsigned expected[] = {a, b, c};
    for (size_t i = 0; i < SERVERS; i++)
        cr_assert_eq(field->places[i].calls, expected[i], "server %zu: %u calls", i,
                     field->places[i].calls);
}

static void wait_for_state(struct field *field, pk_channel_state state)
{
    while (pk_channel_get_state(field->channel) != state)
        pk_loop_turn(field->loop);
}

#define ROUND_ROBIN .load_balancing = "round_robin", .backoff_initial_ms = 20, .backoff_max_ms = 40

/* ---- Lists ---- */

Test(balancing, calls_are_spread_evenly_over_all_that_are_ready)
{
    struct field field;
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_IDLE);
    until_spread(&field, 7);
    for (unsigned i = 0; i < 300; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 100, 100, 100);
    /* Of 300 at once each server has a hundred too. */
    pk_future all[300];
    for (size_t i = 0; i < 300; i++)
        all[i] = greet(&field, "", NULL);
    pk_future joined = pk_all(pk_loop_scope(field.loop), all, 300);
    cr_assert_eq(pk_loop_run_until(field.loop, joined, NULL).code, PK_OK);
    expect_calls(&field, 200, 200, 200);
    close_field(&field);
}

Test(balancing, addresses_that_are_given_twice_count_once)
{
    struct field field;
    char target[300];
    open_servers(&field, 0);
    const char *one = field.places[0].address, *two = field.places[1].address;
    snprintf(target, sizeof target, "ipv4:%s,%s,%s,%s", one, two, one, one);
    open_channel(&field, target, PK_CHANNEL_OPTS(ROUND_ROBIN));
    until_spread(&field, 3);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 50, 50, 0);
    close_field(&field);
}

Test(balancing, one_connection_is_all_that_pick_first_has)
{
    struct field field;
    open_servers(&field, 0);
    kill_server(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(.load_balancing = "pick_first"));
    for (unsigned i = 0; i < 30; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 0, 30, 0);
    close_field(&field);
}

Test(balancing, a_policy_that_is_not_known_is_refused)
{
    pk_loop *loop;
    pk_channel *channel = NULL;
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(
        pk_channel_new(&channel, loop, "127.0.0.1:1", PK_CHANNEL_OPTS(.load_balancing = "random")),
        PK_ERR_INVALID);
    cr_assert_null(channel);
    pk_loop_free(loop);
}

Test(balancing, servers_that_die_are_left_out_and_taken_back_when_they_return)
{
    struct field field;
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    until_spread(&field, 7);
    kill_server(&field, 1);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 50, 0, 50);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_READY);
    start_server(&field, 1, 0);
    until_spread(&field, 7);
    for (unsigned i = 0; i < 30; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 10, 10, 10);
    close_field(&field);
}

Test(balancing, it_fails_when_all_have_failed_until_one_is_ready)
{
    struct field field;
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    until_spread(&field, 7);
    for (size_t i = 0; i < SERVERS; i++)
        kill_server(&field, i);
    wait_for_state(&field, PK_CHANNEL_TRANSIENT_FAILURE);
    cr_assert_eq(call(&field, NULL), PK_UNAVAILABLE);
    pk_future waits = greet(&field, "", PK_CALL_OPTS(.wait_for_ready = true));
    pk_future late = greet(&field, "", PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 20));
    /* Attempts go on, and the state stays what it is while they fail: several pauses long. */
    pk_future pause = pk_sleep(pk_loop_scope(field.loop), 150);
    pk_future change = pk_channel_changed(field.channel, PK_CHANNEL_TRANSIENT_FAILURE);
    cr_assert_eq(pk_loop_run_until(field.loop, pause, NULL).code, PK_OK);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_TRANSIENT_FAILURE);
    cr_assert_eq(pk_loop_run_until(field.loop, late, NULL).code, PK_DEADLINE_EXCEEDED);
    start_server(&field, 2, 0);
    cr_assert_eq(pk_loop_run_until(field.loop, change, NULL).code, PK_OK);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_READY);
    cr_assert_eq(pk_loop_run_until(field.loop, waits, NULL).code, PK_OK);
    cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 0, 0, 2);
    close_field(&field);
}

Test(balancing, each_server_has_its_own_limit_of_streams)
{
    struct field field;
    open_servers(&field, 2);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    until_spread(&field, 7);
    for (size_t i = 0; i < SERVERS; i++)
        field.places[i].at_once_most = 0;
    pk_future all[30];
    for (size_t i = 0; i < 30; i++)
        all[i] = greet(&field, "5", NULL);
    pk_future joined = pk_all(pk_loop_scope(field.loop), all, 30);
    cr_assert_eq(pk_loop_run_until(field.loop, joined, NULL).code, PK_OK);
    for (size_t i = 0; i < SERVERS; i++) {
        cr_assert_eq(field.places[i].at_once_most, 2, "%u", field.places[i].at_once_most);
        cr_assert_geq(field.places[i].calls, 8, "%u", field.places[i].calls);
    }
    close_field(&field);
}

/* ---- Further connections ---- */

/* `count` calls at once, each of which takes so long. */
static void call_at_once(struct field *field, size_t count, const char *milliseconds)
{
    pk_future all[64];
    for (size_t i = 0; i < count; i++)
        all[i] = greet(field, milliseconds, NULL);
    pk_future joined = pk_all(pk_loop_scope(field->loop), all, count);
    cr_assert_eq(pk_loop_run_until(field->loop, joined, NULL).code, PK_OK);
}

/* The most calls at once that a server has seen since it was asked last. */
static unsigned at_once_most(struct field *field, size_t i)
{
    unsigned most = field->places[i].at_once_most;
    field->places[i].at_once_most = 0;
    return most;
}

Test(balancing, further_connections_are_opened_where_streams_run_out)
{
    static const char *const policies[] = {"pick_first", "round_robin"};
    for (size_t i = 0; i < 2; i++) {
        struct field field;
        open_servers(&field, 2);
        open_channel(&field, field.places[0].address,
                     PK_CHANNEL_OPTS(.load_balancing = policies[i], .connections_per_address = 3));
        call_at_once(&field, 2, "100");
        cr_assert_eq(at_once_most(&field, 0), 2);
        call_at_once(&field, 20, "100");
        cr_assert_eq(at_once_most(&field, 0), 6, "three connections with two streams each");
        call_at_once(&field, 6, "100");
        cr_assert_eq(at_once_most(&field, 0), 6);
        close_field(&field);
    }
}

/* The first connection is the one that the server ends; the further one goes on all the while. */
Test(balancing, a_connection_is_replaced_while_a_further_one_goes_on)
{
    static const char *const policies[] = {"pick_first", "round_robin"};
    for (size_t i = 0; i < 2; i++) {
        struct field field;
        open_servers(&field, 2);
        open_channel(&field, field.places[0].address,
                     PK_CHANNEL_OPTS(.load_balancing = policies[i], .connections_per_address = 2));
        call_at_once(&field, 8, "100");
        cr_assert_eq(at_once_most(&field, 0), 4);
        const pk_server *server = field.places[0].server;
        cr_assert_eq(server->connection_count, 2);
        pk_connection_drain(server->connections);
        while (server->connection_count > 1)
            pk_loop_turn(field.loop);
        call_at_once(&field, 20, "100");
        cr_assert_eq(at_once_most(&field, 0), 4, "%s: two connections again", policies[i]);
        close_field(&field);
    }
}

Test(balancing, further_connections_are_spread_over_the_servers)
{
    struct field field;
    pk_future joined;
    open_servers(&field, 2);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN, .connections_per_address = 2));
    until_spread(&field, 7);
    call_at_once(&field, 40, "100");
    for (size_t i = 0; i < SERVERS; i++)
        cr_assert_eq(at_once_most(&field, i), 4);
    /* A server that goes away takes its further connection along. */
    kill_server(&field, 1);
    /* Until the loss of both its connections is seen: a call that is sent before that fails. */
    pk_future all[12];
    do {
        for (size_t i = 0; i < 12; i++)
            all[i] = greet(&field, "5", NULL);
        joined = pk_all(pk_loop_scope(field.loop), all, 12);
    } while (pk_loop_run_until(field.loop, joined, NULL).code != PK_OK);
    for (size_t i = 0; i < SERVERS; i++)
        field.places[i].at_once_most = 0;
    call_at_once(&field, 40, "50");
    cr_assert_eq(at_once_most(&field, 0), 4);
    cr_assert_eq(at_once_most(&field, 2), 4);
    start_server(&field, 1, 2);
    until_spread(&field, 7);
    call_at_once(&field, 40, "100");
    for (size_t i = 0; i < SERVERS; i++)
        cr_assert_eq(at_once_most(&field, i), 4);
    close_field(&field);
}

Test(balancing, further_connections_go_when_they_have_no_call)
{
    struct field field;
    open_servers(&field, 2);
    open_channel(&field, field.places[0].address,
                 PK_CHANNEL_OPTS(ROUND_ROBIN, .connections_per_address = 3));
    call_at_once(&field, 20, "20");
    const pk_server *server = field.places[0].server;
    cr_assert_eq(server->connection_count, 3);
    pk_test_clock_freeze(field.loop);
    pk_test_clock_advance(field.loop, 25000);
    pk_loop_end_turn(field.loop);
    cr_assert_eq(call(&field, NULL), PK_OK);
    cr_assert_eq(server->connection_count, 3);
    pk_test_clock_advance(field.loop, 10000);
    while (server->connection_count > 1)
        pk_loop_turn(field.loop);
    cr_assert_eq(call(&field, NULL), PK_OK);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_READY);
    close_field(&field);
}

/* The server takes one connection and no other: calls go on over that one. */
Test(balancing, further_connections_that_fail_harm_nothing)
{
    struct field field;
    open_servers(&field, 2);
    kill_server(&field, 0);
    field.max_connections = 1;
    start_server(&field, 0, 2);
    open_channel(
        &field, field.places[0].address,
        PK_CHANNEL_OPTS(ROUND_ROBIN, .connections_per_address = 3, .connect_timeout_ms = 50));
    cr_assert_eq(call(&field, NULL), PK_OK);
    call_at_once(&field, 30, "20");
    cr_assert_eq(at_once_most(&field, 0), 2);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_READY);
    close_field(&field);
}

/* Starts a call and cancels it once its handler is asked. */
static void call_and_cancel(struct field *field)
{
    struct place *place = &field->places[0];
    pk_call *handle;
    unsigned calls = place->calls;
    pk_future future = greet(field, "60000", PK_CALL_OPTS(.call = &handle));
    while (place->calls == calls)
        pk_loop_turn(field->loop);
    pk_call_cancel(handle);
    cr_assert_eq(pk_loop_run_until(field->loop, future, NULL).code, PK_CANCELLED);
    pk_call_unref(handle);
}

/*
 * Servers end a connection on which too many streams are reset, with all that is on it (Netty after
 * 200 within 30 s). Who calls for others, as a gateway does, has to leave it in time, and calls that
 * go on there come to their end.
 */
Test(balancing, a_connection_is_left_before_the_server_ends_it_for_its_resets)
{
    static const char *const policies[] = {"pick_first", "round_robin"};
    for (size_t i = 0; i < 2; i++) {
        struct field field;
        open_servers(&field, 0);
        open_channel(&field, field.places[0].address,
                     PK_CHANNEL_OPTS(.load_balancing = policies[i]));
        cr_assert_eq(call(&field, NULL), PK_OK);
        pk_future long_call = greet(&field, "2000", NULL);
        for (unsigned k = 0; k < 350; k++) {
            call_and_cancel(&field);
            if (k % 10 == 0)
                cr_assert_eq(call(&field, NULL), PK_OK, "after %u", k);
        }
        cr_assert_geq(field.places[0].connections, 3, "%u", field.places[0].connections);
        cr_assert_leq(field.places[0].connections, 4, "%u", field.places[0].connections);
        cr_assert_eq(pk_loop_run_until(field.loop, long_call, NULL).code, PK_OK);
        close_field(&field);
    }
}

Test(balancing, an_idle_channel_closes_all_its_connections_and_comes_back)
{
    struct field field;
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN, .idle_timeout_ms = 1000));
    until_spread(&field, 7);
    wait_for_state(&field, PK_CHANNEL_IDLE);
    until_spread(&field, 7);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_READY);
    close_field(&field);
}

Test(balancing, a_channel_is_freed_in_any_state)
{
    static const unsigned turns[] = {0, 1, 2, 3, 5, 8};
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        struct field field;
        open_servers(&field, 0);
        kill_server(&field, i % SERVERS);
        open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
        pk_future waits = greet(&field, "1000", NULL);
        for (unsigned j = 0; j < turns[i]; j++)
            pk_loop_turn(field.loop);
        field.channel = pk_channel_free(field.channel);
        cr_assert_eq(pk_loop_run_until(field.loop, waits, NULL).code, PK_UNAVAILABLE);
        close_field(&field);
    }
}

/* ---- Names ---- */

static const char *const all_three[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3", NULL};

static void open_name(struct field *field, struct name_server *names, const char *const *addresses)
{
    char target[64];
    open_servers(field, 0);
    name_server_open(names, field->loop);
    names->addresses = addresses;
    snprintf(target, sizeof target, "dns:///pekoe.test:%u", field->port);
    open_channel(
        field, target,
        PK_CHANNEL_OPTS(ROUND_ROBIN, .dns_servers = names->address, .resolve_interval_ms = 1));
}

Test(balancing, a_name_is_resolved_again_when_a_server_is_lost)
{
    static const char *const other[] = {"127.0.0.2", "127.0.0.3", NULL};
    static const char *const first[] = {"127.0.0.1", "127.0.0.2", NULL};
    struct field field;
    struct name_server names;
    open_name(&field, &names, first);
    until_spread(&field, 3);
    unsigned questions = names.questions;
    names.addresses = other;
    kill_server(&field, 0);
    until_spread(&field, 6);
    cr_assert_gt(names.questions, questions);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 0, 50, 50);
    name_server_close(&names);
    close_field(&field);
}

Test(balancing, calls_on_an_address_that_is_withdrawn_come_to_their_end)
{
    static const char *const last[] = {"127.0.0.3", NULL};
    struct field field;
    struct name_server names;
    open_name(&field, &names, all_three);
    until_spread(&field, 7);
    pk_future slow[3];
    for (size_t i = 0; i < 3; i++)
        slow[i] = greet(&field, "50", NULL);
    WAIT_UNTIL(&field, field.places[0].calls == 1 && field.places[1].calls == 1);
    names.addresses = last;
    pk_detach(pk_server_stop(field.places[2].server, 10000)); /* so that it asks again */
    pk_future joined = pk_all(pk_loop_scope(field.loop), slow, 3);
    cr_assert_eq(pk_loop_run_until(field.loop, joined, NULL).code, PK_OK);
    kill_server(&field, 2);
    start_server(&field, 2, 0);
    until_spread(&field, 4);
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 0, 0, 20);
    name_server_close(&names);
    close_field(&field);
}

Test(balancing, addresses_stay_in_use_until_their_successors_are_ready)
{
    static const char *const first[] = {"127.0.0.1", "127.0.0.2", NULL};
    static const char *const last[] = {"127.0.0.3", NULL};
    struct field field;
    struct name_server names;
    open_name(&field, &names, first);
    until_spread(&field, 3);
    names.addresses = last;
    unsigned questions = names.questions;
    kill_server(&field, 0); /* so that it asks again */
    /* No call fails between the old addresses and the new one. */
    while (field.places[2].calls == 0)
        cr_assert_eq(call(&field, NULL), PK_OK);
    cr_assert_gt(names.questions, questions);
    unsigned old = field.places[1].calls;
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    cr_assert_eq(field.places[1].calls, old);
    name_server_close(&names);
    close_field(&field);
}

Test(balancing, a_name_that_is_no_longer_known_leaves_what_there_is)
{
    struct field field;
    struct name_server names;
    open_name(&field, &names, all_three);
    until_spread(&field, 7);
    names.addresses = NULL;
    unsigned questions = names.questions;
    kill_server(&field, 0);
    WAIT_UNTIL(&field, names.questions > questions + 2); /* it goes on asking */
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(call(&field, NULL), PK_OK);
    expect_calls(&field, 0, 10, 10);
    name_server_close(&names);
    close_field(&field);
}

Test(balancing, a_name_that_is_not_known_yet_is_asked_for_until_it_is)
{
    struct field field;
    struct name_server names;
    open_name(&field, &names, NULL);
    pk_future fails = greet(&field, "", NULL);
    pk_future waits = greet(&field, "", PK_CALL_OPTS(.wait_for_ready = true));
    cr_assert_eq(pk_loop_run_until(field.loop, fails, NULL).code, PK_UNAVAILABLE);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_TRANSIENT_FAILURE);
    names.addresses = all_three;
    cr_assert_eq(pk_loop_run_until(field.loop, waits, NULL).code, PK_OK);
    until_spread(&field, 7);
    name_server_close(&names);
    close_field(&field);
}

/* A pause after a name that is not known may be ended: one resolution follows, and tells the state. */
Test(balancing, a_name_is_resolved_once_when_its_pause_is_ended)
{
    static const char *const policies[] = {"pick_first", "round_robin"};
    static const char problem[] = "cannot resolve pekoe.test:1";
    for (size_t i = 0; i < 2; i++) {
        struct field field;
        struct name_server names;
        open_servers(&field, 0);
        name_server_open(&names, field.loop);
        open_channel(&field, "pekoe.test:1",
                     PK_CHANNEL_OPTS(.load_balancing = policies[i], .dns_servers = names.address));
        cr_assert_eq(call(&field, NULL), PK_UNAVAILABLE);
        cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_TRANSIENT_FAILURE);
        unsigned questions = names.questions;
        pk_future waits = greet(&field, "", PK_CALL_OPTS(.wait_for_ready = true));
        pk_channel_reset_backoff(field.channel);
        cr_expect_eq(pk_channel_get_state(field.channel), PK_CHANNEL_CONNECTING);
        pk_status status = pk_loop_run_until(field.loop, greet(&field, "", NULL), NULL);
        cr_expect_eq(status.code, PK_UNAVAILABLE);
        cr_expect_eq(strncmp((const char *) status.message.bytes, problem, sizeof problem - 1), 0);
        cr_expect_eq(names.questions, 2 * questions, "%s: %u", policies[i], names.questions);
        field.channel = pk_channel_free(field.channel);
        cr_assert_eq(pk_loop_run_until(field.loop, waits, NULL).code, PK_UNAVAILABLE);
        name_server_close(&names);
        close_field(&field);
    }
}

/* The first connection is lost, its server takes no other, and the further one goes on. */
Test(balancing, a_name_that_is_no_longer_known_leaves_further_connections)
{
    static const char *const first[] = {"127.0.0.1", NULL};
    char target[64];
    struct field field;
    struct name_server names;
    open_servers(&field, 2);
    name_server_open(&names, field.loop);
    names.addresses = first;
    snprintf(target, sizeof target, "pekoe.test:%u", field.port);
    open_channel(&field, target,
                 PK_CHANNEL_OPTS(.dns_servers = names.address, .connections_per_address = 2,
                                 .connect_timeout_ms = 20, .backoff_initial_ms = 1));
    call_at_once(&field, 8, "100");
    cr_assert_eq(at_once_most(&field, 0), 4);
    pk_server *server = field.places[0].server;
    pk_connection_drain(server->connections);
    WAIT_UNTIL(&field, server->connection_count == 1);
    server->max_connections = 1;
    names.addresses = NULL;
    unsigned questions = names.questions;
    call_at_once(&field, 30, "20");
    cr_assert_gt(names.questions, questions);
    cr_assert_eq(at_once_most(&field, 0), 2);
    cr_assert_eq(pk_channel_get_state(field.channel), PK_CHANNEL_READY);
    name_server_close(&names);
    close_field(&field);
}

/* The same where there was a connection: what is left of it says nothing of the state meanwhile. */
Test(balancing, a_name_is_resolved_once_after_a_loss_when_its_pause_is_ended)
{
    for (unsigned known = 0; known < 2; known++) {
        char target[64];
        struct field field;
        struct name_server names;
        open_servers(&field, 0);
        name_server_open(&names, field.loop);
        names.addresses = all_three;
        snprintf(target, sizeof target, "pekoe.test:%u", field.port);
        open_channel(&field, target, PK_CHANNEL_OPTS(.dns_servers = names.address));
        cr_assert_eq(call(&field, NULL), PK_OK);
        names.addresses = NULL;
        field.places[0].server = pk_server_free(field.places[0].server);
        wait_for_state(&field, PK_CHANNEL_IDLE);
        if (!known)
            cr_assert_eq(call(&field, NULL), PK_UNAVAILABLE);
        unsigned questions = names.questions;
        names.addresses = all_three;
        pk_future waits = greet(&field, "", PK_CALL_OPTS(.wait_for_ready = true));
        pk_channel_reset_backoff(field.channel);
        cr_expect_eq(pk_channel_get_state(field.channel), PK_CHANNEL_CONNECTING);
        cr_assert_eq(pk_loop_run_until(field.loop, waits, NULL).code, PK_OK);
        cr_expect_eq(names.questions, questions + 1, "%u", names.questions - questions);
        name_server_close(&names);
        close_field(&field);
    }
}

/* ---- Under load ---- */

#define CALLS 10000u
#define AT_ONCE 30u
#define RESTARTS 20u

static void start_call(struct field *field);

static pk_future count_ok(const void *unused, void *arg)
{
    struct field *field = arg;
    field->ok++;
    field->ended++;
    start_call(field);
    return pk_done(NULL);
}

static pk_future count_other(const pk_status *status, void *arg)
{
    struct field *field = arg;
    field->ended++;
    start_call(field);
    return pk_done(NULL);
}

static void start_call(struct field *field)
{
    if (field->started == CALLS)
        return;
    const char *time = ++field->started % 7 == 0 ? "1" : "";
    pk_future one = greet(field, time, PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 20000));
    pk_detach(pk_recover(pk_then(one, count_ok, field), count_other, field));
}

Test(balancing, no_call_is_lost_or_run_twice_when_servers_restart_gracefully)
{
    struct field field;
    pk_server *stopped[RESTARTS];
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    for (unsigned i = 0; i < AT_ONCE; i++)
        start_call(&field);
    for (unsigned i = 0; i < RESTARTS; i++) {
        while (field.ended < CALLS / (RESTARTS + 1) * (i + 1))
            pk_loop_turn(field.loop);
        stopped[i] = field.places[i % SERVERS].server;
        pk_detach(pk_server_stop(stopped[i], 10000));
        start_server(&field, i % SERVERS, 0);
    }
    while (field.ended < CALLS)
        pk_loop_turn(field.loop);
    cr_assert_eq(field.ok, CALLS, "%u calls were lost", CALLS - field.ok);
    unsigned run = 0;
    for (size_t i = 0; i < SERVERS; i++)
        run += field.places[i].calls;
    cr_assert_eq(run, CALLS, "%u calls ran twice", run - CALLS);
    for (unsigned i = 0; i < RESTARTS; i++)
        pk_server_free(stopped[i]);
    close_field(&field);
}

Test(balancing, every_call_ends_when_servers_are_killed)
{
    struct field field;
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    for (unsigned i = 0; i < AT_ONCE; i++)
        start_call(&field);
    for (unsigned i = 0; i < RESTARTS; i++) {
        while (field.ended < CALLS / (RESTARTS + 1) * (i + 1))
            pk_loop_turn(field.loop);
        pk_server_free(field.places[i % SERVERS].server);
        start_server(&field, i % SERVERS, 0);
    }
    while (field.ended < CALLS)
        pk_loop_turn(field.loop);
    /* Each time no more is lost than was in flight. */
    cr_assert_geq(field.ok + RESTARTS * AT_ONCE, CALLS);
    cr_assert_lt(field.ok, CALLS);
    close_field(&field);
}

/*
 * The connection is lost before the head has left, and another one is ready: the messages that were
 * kept go to the one while the queue of the other still has them.
 */
Test(balancing, a_call_that_is_sent_again_at_once_takes_its_messages_along)
{
    struct field field;
    open_servers(&field, 0);
    open_channel(&field, NULL, PK_CHANNEL_OPTS(ROUND_ROBIN));
    until_spread(&field, 7);
    pk_writer *out;
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) "x";
    pk_future outcome = helloworld_greeter_it_keeps_talking(field.channel, &out, NULL);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(helloworld_hello_request_write(out, &request).state, PK_FUTURE_DONE);
    const pk_exchange *first = pk_writer_call(out)->exchange;
    cr_assert_not_null(first);
    pk_connection *connection =
        (pk_connection *) ((char *) (uintptr_t) first->peer - offsetof(pk_connection, peer));
    pk_connection_free(connection, "it is lost");
    const pk_exchange *second = pk_writer_call(out)->exchange;
    cr_assert(second && second != first);
    pk_writer_end(out);
    const void *value;
    cr_assert_eq(pk_loop_run_until(field.loop, outcome, &value).code, PK_OK);
    cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, "5");
    pk_writer_unref(out);
    close_field(&field);
}

/* The first connection is tried anew while its name is asked for, and that attempt fails. */
Test(balancing, a_name_is_asked_for_once_while_a_further_connection_goes_on)
{
    static const char *const first[] = {"127.0.0.1", NULL};
    struct field field;
    struct name_server names;
    char target[64];
    open_servers(&field, 2);
    name_server_open(&names, field.loop);
    names.addresses = first;
    snprintf(target, sizeof target, "pekoe.test:%u", field.port);
    pk_server *server = field.places[0].server;
    server->max_connections = 1; /* the further one waits to be taken */
    open_channel(&field, target,
                 PK_CHANNEL_OPTS(.dns_servers = names.address, .connections_per_address = 2,
                                 .connect_timeout_ms = 800, .backoff_initial_ms = 1));
    cr_assert_eq(call(&field, NULL), PK_OK);
    pk_future calls[8];
    for (size_t i = 0; i < 8; i++)
        calls[i] = greet(&field, "600", NULL);
    pk_future all = pk_all(pk_loop_scope(field.loop), calls, 8);
    pk_scope *scope = pk_loop_scope(field.loop);
    pk_loop_run_until(field.loop, pk_sleep(scope, 100), NULL);
    pk_watch_set(&names.watch, false, false); /* the name server is slow from now on */
    pk_connection_drain(server->connections);
    pk_loop_run_until(field.loop, pk_sleep(scope, 1600), NULL);
    field.channel = pk_channel_free(field.channel);
    pk_watch_set(&names.watch, true, false);
    (void) pk_loop_run_until(field.loop, all, NULL);
    pk_loop_run_until(field.loop, pk_sleep(scope, 300), NULL); /* answers to nobody */
    name_server_close(&names);
    close_field(&field);
}
