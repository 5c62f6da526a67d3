/* What a channel does when its name stands for other addresses than before, or for none. */
#include "balancing_field.h"
#include "tests/support/name_server.h"

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

Test(balancing_names, a_name_is_resolved_again_when_a_server_is_lost)
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

Test(balancing_names, calls_on_an_address_that_is_withdrawn_come_to_their_end)
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

Test(balancing_names, addresses_stay_in_use_until_their_successors_are_ready)
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

Test(balancing_names, a_name_that_is_no_longer_known_leaves_what_there_is)
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

Test(balancing_names, a_name_that_is_not_known_yet_is_asked_for_until_it_is)
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
Test(balancing_names, a_name_is_resolved_once_when_its_pause_is_ended)
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
Test(balancing_names, a_name_that_is_no_longer_known_leaves_further_connections)
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
Test(balancing_names, a_name_is_resolved_once_after_a_loss_when_its_pause_is_ended)
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

/* The first connection is tried anew while its name is asked for, and that attempt fails. */
Test(balancing_names, a_name_is_asked_for_once_while_a_further_connection_goes_on)
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
