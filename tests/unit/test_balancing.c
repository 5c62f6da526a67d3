/* How calls are spread over servers that come and go, over how many connections, and what is lost. */
#include "balancing_field.h"
#include "handlers/client_call.h"
#include "transport/connection.h"

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
