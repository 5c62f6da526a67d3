/*
 * Channels: targets, states, pauses after failures, and servers that are restarted under load.
 */
#include <pekoe/testing.h>

#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"
#include "tests/support/name_server.h"
#include "transport/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    unsigned run; /* times that the handler ran */
    unsigned started, ended, ok, other;
} seen;

static pk_future reply_later(const void *unused, void *arg)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(arg);
    reply->message = pk_call_printf(arg, "hello");
    return helloworld_hello_reply_done(reply);
}

/* Every third call takes a while: there is always something in flight. */
static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    if (++seen.run % 3 == 0)
        return pk_then(pk_sleep(pk_call_scope(call), 1), reply_later, call);
    return reply_later(NULL, call);
}

/* Says nothing until the call ends. */
static pk_future keep_silent(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                             pk_writer *out)
{
    return pk_call_cancelled(call);
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                             .it_keeps_replying = keep_silent};

static pk_server *serve_with(pk_loop *loop, const char *address, const char **ret_bound,
                             const pk_server_opts *opts)
{
    pk_server *server;
    cr_assert_eq(pk_server_new(&server, loop, opts), 0);
    cr_assert_eq(helloworld_greeter_serve(server, &impl, NULL), 0);
    cr_assert_eq(pk_server_listen(server, address, ret_bound), 0);
    return server;
}

static pk_server *serve(pk_loop *loop, const char *address, const char **ret_bound)
{
    return serve_with(loop, address, ret_bound, NULL);
}

static pk_future greet(pk_channel *channel, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    return helloworld_greeter_say_hello(channel, &request, opts);
}

static pk_code code_of(pk_loop *loop, pk_channel *channel, const pk_call_opts *opts)
{
    return pk_loop_run_until(loop, greet(channel, opts), NULL).code;
}

static pk_loop *new_loop(void)
{
    pk_loop *loop;
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    return loop;
}

static pk_channel *new_channel(pk_loop *loop, const char *target, const pk_channel_opts *opts)
{
    pk_channel *channel;
    cr_assert_eq(pk_channel_new(&channel, loop, target, opts), 0);
    return channel;
}

Test(channel, targets_of_all_kinds_reach_the_server)
{
    pk_loop *loop = new_loop();
    char path[64], target[128];
    const char *bound, *bound6;
    snprintf(path, sizeof path, "unix:/tmp/pekoe-channel-%ld", (long) getpid());
    pk_server *server = serve(loop, "127.0.0.1:0", &bound);
    cr_assert_eq(pk_server_listen(server, path, NULL), 0);
    cr_assert_eq(pk_server_listen(server, "[::1]:0", &bound6), 0);
    const struct {
        const char *before, *address;
        pk_code code;
    } rows[] = {
        {"", bound, PK_OK},
        {"ipv4:", bound, PK_OK},
        {"ipv4:127.0.0.1:1,", bound, PK_OK},
        {"ipv4:127.0.0.1:1,127.0.0.1:1,", bound, PK_OK},
        {"", path, PK_OK},
        {"", bound6, PK_OK},
        {"ipv6:", bound6, PK_OK},
        {"ipv6:", "[::1]:1", PK_UNAVAILABLE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(target, sizeof target, "%s%s", rows[i].before, rows[i].address);
        pk_channel *channel = new_channel(loop, target, NULL);
        cr_assert_eq(code_of(loop, channel, NULL), rows[i].code, "%s", target);
        pk_channel_free(channel);
    }
    pk_server_free(server);
    pk_loop_free(loop);
}

Test(channel, targets_that_are_none_are_refused)
{
    pk_loop *loop = new_loop();
    pk_channel *channel = NULL;
    const char *const bad[] = {
        "",         "localhost", "localhost:",   ":80",  "a:b", "a:1,b:2", "http://localhost:1",
        "xds:///a", "::1:50051", "ipv4:1.2.3.4", "unix:"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(pk_channel_new(&channel, loop, bad[i], NULL), PK_ERR_INVALID, "%s", bad[i]);
    cr_assert_null(channel);
    cr_assert_null(pk_channel_free(NULL));
    pk_loop_free(loop);
}

static void wait_for_change(pk_loop *loop, pk_channel *channel, pk_channel_state from,
                            pk_channel_state to)
{
    cr_assert_eq(pk_loop_run_until(loop, pk_channel_changed(channel, from), NULL).code, PK_OK);
    cr_assert_eq(pk_channel_get_state(channel), to);
}

Test(channel, states_follow_the_connection)
{
    pk_loop *loop = new_loop();
    const char *bound;
    char address[64];
    pk_server *server = serve(loop, "127.0.0.1:0", &bound);
    strcpy(address, bound);
    pk_channel *channel =
        new_channel(loop, address, PK_CHANNEL_OPTS(.backoff_initial_ms = 20, .backoff_max_ms = 40));
    cr_assert_eq(pk_channel_get_state(channel), PK_CHANNEL_IDLE);
    pk_future later = pk_channel_changed(channel, PK_CHANNEL_IDLE);
    pk_channel_connect(channel);
    cr_assert_eq(pk_channel_get_state(channel), PK_CHANNEL_CONNECTING);
    cr_assert_eq(pk_loop_run_until(loop, later, NULL).code, PK_OK);
    wait_for_change(loop, channel, PK_CHANNEL_CONNECTING, PK_CHANNEL_READY);
    pk_server_free(server);
    wait_for_change(loop, channel, PK_CHANNEL_READY, PK_CHANNEL_IDLE);
    pk_channel_connect(channel);
    wait_for_change(loop, channel, PK_CHANNEL_CONNECTING, PK_CHANNEL_TRANSIENT_FAILURE);
    cr_assert_eq(code_of(loop, channel, NULL), PK_UNAVAILABLE);
    /* The server is there again: calls that wait get through, all at once. */
    server = serve(loop, address, NULL);
    pk_future waiting[10];
    for (size_t i = 0; i < 10; i++)
        waiting[i] = greet(channel, PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 5000));
    pk_future all = pk_all(pk_loop_scope(loop), waiting, 10);
    cr_assert_eq(pk_loop_run_until(loop, all, NULL).code, PK_OK);
    later = pk_channel_changed(channel, PK_CHANNEL_READY);
    pk_channel_free(channel);
    cr_assert_eq(pk_loop_run_until(loop, later, NULL).code, PK_OK);
    pk_server_free(server);
    pk_loop_free(loop);
}

Test(channel, pauses_grow_and_are_reset)
{
    pk_loop *loop = new_loop();
    pk_channel *channel = new_channel(loop, "127.0.0.1:1", NULL);
    (void) code_of(loop, channel, NULL); /* fails, and the first pause begins */
    uint64_t pauses[4];
    pk_test_clock_freeze(loop);
    for (size_t i = 0; i < 4; i++) {
        pauses[i] = 0;
        while (pk_channel_get_state(channel) == PK_CHANNEL_TRANSIENT_FAILURE) {
            pk_test_clock_advance(loop, 10);
            pauses[i] += 10;
        }
        while (pk_channel_get_state(channel) == PK_CHANNEL_CONNECTING)
            pk_loop_turn(loop);
    }
    /* 1 s, 1.6 s, 2.56 s, 4.1 s, each give or take 20 % and a step. */
    const uint64_t expected[] = {1000, 1600, 2560, 4096};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_geq(pauses[i], expected[i] * 79 / 100, "%u", (unsigned) pauses[i]);
        cr_assert_leq(pauses[i], expected[i] * 121 / 100 + 10, "%u", (unsigned) pauses[i]);
    }
    pk_channel_reset_backoff(channel);
    cr_assert_eq(pk_channel_get_state(channel), PK_CHANNEL_CONNECTING);
    pk_channel_free(channel);
    pk_loop_free(loop);
}

/* A socket that listens, and nobody accepts. */
static int listen_in_silence(char ret_target[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *) &address, sizeof address), 0);
    cr_assert_eq(listen(fd, 5), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *) &address, &length), 0);
    snprintf(ret_target, 64, "127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

Test(channel, a_peer_that_says_nothing_is_given_up)
{
    pk_loop *loop = new_loop();
    char target[64];
    int fd = listen_in_silence(target);
    pk_channel *channel = new_channel(loop, target, PK_CHANNEL_OPTS(.connect_timeout_ms = 50));
    pk_status status = pk_loop_run_until(loop, greet(channel, NULL), NULL);
    cr_assert_eq(status.code, PK_UNAVAILABLE);
    pk_channel_free(channel);
    close(fd);
    pk_loop_free(loop);
}

/* ---- What a call waited for when its deadline came ---- */

static pk_reader *ask_for_replies(pk_channel *channel, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    return helloworld_greeter_it_keeps_replying(channel, &request, opts);
}

static void expect_deadline(pk_loop *loop, pk_future outcome, const char *waited_for)
{
    char expected[256];
    pk_status status = pk_loop_run_until(loop, outcome, NULL);
    snprintf(expected, sizeof expected, "deadline exceeded while waiting for %s", waited_for);
    cr_expect_eq(status.code, PK_DEADLINE_EXCEEDED);
    cr_expect(says(status.message, expected), "\"%.*s\", not \"%s\"", (int) status.message.length,
              (const char *) status.message.bytes, expected);
}

static void connect_until(pk_loop *loop, pk_channel *channel, pk_channel_state state)
{
    pk_channel_connect(channel);
    while (pk_channel_get_state(channel) != state)
        pk_loop_turn(loop);
}

/* A unary call and a stream, through the channel as it is. */
static void expect_deadlines(pk_loop *loop, pk_channel *channel, const char *waited_for)
{
    const pk_call_opts *opts = PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 30);
    expect_deadline(loop, greet(channel, opts), waited_for);
    pk_reader *replies = ask_for_replies(channel, opts);
    expect_deadline(loop, pk_reader_read(replies), waited_for);
    pk_reader_unref(replies);
}

Test(channel, a_deadline_tells_why_there_was_no_connection)
{
    static const pk_hedging_policy hedging = {.max_attempts = 2};
    pk_loop *loop = new_loop();
    const struct {
        const char *target, *waited_for;
    } rows[] = {
        {"127.0.0.1:1", "a connection: cannot connect to 127.0.0.1:1: Connection refused"},
        {"ipv4:127.0.0.1:2,127.0.0.1:1",
         "a connection: cannot connect to 127.0.0.1:1: Connection refused"},
        {"unix:/nowhere",
         "a connection: cannot connect to unix:/nowhere: No such file or directory"},
        {"somewhere.test:80",
         "a connection: cannot resolve somewhere.test:80: Domain name not found"},
    };
    struct name_server names;
    name_server_open(&names, loop); /* knows no name */
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        pk_channel *channel =
            new_channel(loop, rows[i / 2].target,
                        PK_CHANNEL_OPTS(.dns_servers = names.address, .hedging_policies = &hedging,
                                        .hedging_policy_count = i % 2));
        connect_until(loop, channel, PK_CHANNEL_TRANSIENT_FAILURE);
        expect_deadlines(loop, channel, rows[i / 2].waited_for);
        pk_channel_free(channel);
    }
    name_server_close(&names);
    pk_loop_free(loop);
}

Test(channel, a_deadline_tells_of_no_failure_that_is_over)
{
    pk_loop *loop = new_loop();
    char target[64], waited_for[128];
    int fd = listen_in_silence(target);
    close(fd);
    pk_channel *channel = new_channel(loop, target, NULL);
    cr_assert_eq(code_of(loop, channel, NULL), PK_UNAVAILABLE);
    pk_server *server = serve(loop, target, NULL);
    pk_channel_reset_backoff(channel);
    cr_assert_eq(code_of(loop, channel, PK_CALL_OPTS(.wait_for_ready = true)), PK_OK);
    /* The next connection is accepted by the system, and by nobody else. */
    pk_watch_set(&server->listeners->watch, false, false);
    pk_connection_kill(server->connections, "a test");
    while (pk_channel_get_state(channel) == PK_CHANNEL_READY)
        pk_loop_turn(loop);
    snprintf(waited_for, sizeof waited_for, "a connection to %s", target);
    expect_deadlines(loop, channel, waited_for);
    pk_channel_free(channel);
    pk_server_free(server);
    pk_loop_free(loop);
}

Test(channel, a_deadline_tells_that_all_streams_were_in_use)
{
    pk_loop *loop = new_loop();
    const char *bound;
    char waited_for[128];
    pk_server *server = serve_with(loop, "127.0.0.1:0", &bound, PK_SERVER_OPTS(.max_streams = 1));
    pk_channel *channel = new_channel(loop, bound, NULL);
    connect_until(loop, channel, PK_CHANNEL_READY);
    pk_reader *only = ask_for_replies(channel, NULL);
    snprintf(waited_for, sizeof waited_for, "a stream to %s: all that the server allows are open",
             bound);
    expect_deadlines(loop, channel, waited_for);
    pk_reader_unref(only);
    cr_assert_eq(code_of(loop, channel, PK_CALL_OPTS(.timeout_ms = 5000)), PK_OK);
    pk_channel_free(channel);
    pk_server_free(server);
    pk_loop_free(loop);
}

/* ---- Restarts under load ---- */

#define CALLS 10000u
#define AT_ONCE 20u
#define RESTARTS 20u

struct load {
    pk_loop *loop;
    pk_channel *channel;
};

static void start_call(struct load *load);

static pk_future count_ok(const void *reply, void *arg)
{
    seen.ok++;
    seen.ended++;
    start_call(arg);
    return pk_done(NULL);
}

static pk_future count_other(const pk_status *status, void *arg)
{
    seen.other++;
    seen.ended++;
    start_call(arg);
    return pk_done(NULL);
}

static void start_call(struct load *load)
{
    if (seen.started == CALLS)
        return;
    seen.started++;
    pk_future reply =
        greet(load->channel, PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 20000));
    pk_detach(pk_recover(pk_then(reply, count_ok, load), count_other, load));
}

static void restart_under_load(bool gracefully)
{
    pk_loop *loop = new_loop();
    const char *bound;
    char address[64];
    pk_server *servers[RESTARTS + 1];
    servers[0] = serve(loop, "127.0.0.1:0", &bound);
    strcpy(address, bound);
    struct load load = {
        loop,
        new_channel(loop, address, PK_CHANNEL_OPTS(.backoff_initial_ms = 5, .backoff_max_ms = 10))};
    for (unsigned i = 0; i < AT_ONCE; i++)
        start_call(&load);
    for (unsigned i = 1; i <= RESTARTS; i++) {
        while (seen.ended < CALLS / (RESTARTS + 1) * i)
            pk_loop_turn(loop);
        if (gracefully)
            pk_detach(pk_server_stop(servers[i - 1], 10000));
        else
            pk_server_free(servers[i - 1]);
        servers[i] = serve(loop, address, NULL);
    }
    while (seen.ended < CALLS)
        pk_loop_turn(loop);
    cr_assert_eq(seen.ok + seen.other, CALLS);
    if (gracefully) {
        cr_assert_eq(seen.other, 0, "%u calls were lost", seen.other);
        cr_assert_eq(seen.run, CALLS, "%u calls were run twice", seen.run - CALLS);
    } else {
        cr_assert_leq(seen.other, RESTARTS * AT_ONCE);
        cr_assert_gt(seen.other, 0);
    }
    pk_channel_free(load.channel);
    for (unsigned i = gracefully ? 0 : RESTARTS; i <= RESTARTS; i++)
        pk_server_free(servers[i]);
    pk_loop_free(loop);
}

Test(channel, no_call_is_lost_or_run_twice_when_the_server_restarts_gracefully)
{
    restart_under_load(true);
}

Test(channel, every_call_ends_when_the_server_is_killed)
{
    restart_under_load(false);
}

Test(channel, a_call_between_two_attempts_outlives_its_channel)
{
    pk_loop *loop = new_loop();
    const pk_retry_policy policy = {.max_attempts = 3,
                                    .initial_backoff_ms = 100,
                                    .max_backoff_ms = 100,
                                    .codes = PK_CODE_BIT(PK_UNAVAILABLE)};
    pk_channel *channel = new_channel(
        loop, "127.0.0.1:1", PK_CHANNEL_OPTS(.retry_policies = &policy, .retry_policy_count = 1));
    pk_future reply = greet(channel, NULL);
    while (pk_channel_get_state(channel) != PK_CHANNEL_TRANSIENT_FAILURE)
        pk_loop_turn(loop);
    pk_channel_free(channel);
    cr_assert_eq(pk_loop_run_until(loop, reply, NULL).code, PK_UNAVAILABLE);
    pk_loop_free(loop);
}

/* ---- Calls that have nothing open in their channel ---- */

struct slow_token {
    pk_promise *promise; /* until it is given */
    pk_channel *channel; /* that is freed while it is asked for; NULL: none */
};

static pk_future think(void *self, pk_call *call, const char *audience)
{
    struct slow_token *token = self;
    token->promise = pk_promise_new(pk_loop_scope(pk_call_loop(call)));
    token->channel = pk_channel_free(token->channel);
    return pk_promise_future(token->promise);
}

Test(channel, calls_that_wait_for_credentials_end_with_it)
{
    pk_loop *loop = new_loop();
    for (int inside = 0; inside < 2; inside++) {
        struct slow_token token = {NULL, NULL};
        const pk_call_credentials credentials = {think, &token, .without_tls = true};
        pk_channel *channel =
            new_channel(loop, "127.0.0.1:1", PK_CHANNEL_OPTS(.call_credentials = &credentials));
        token.channel = inside ? channel : NULL;
        pk_future reply = greet(channel, PK_CALL_OPTS(.timeout_ms = 2000));
        if (!inside)
            pk_channel_free(channel);
        cr_expect_eq(pk_loop_run_until(loop, reply, NULL).code, PK_UNAVAILABLE, "%d", inside);
        cr_expect_eq(pk_promise_done(token.promise, NULL), 0);
        pk_loop_turn(loop);
    }
    pk_loop_free(loop);
}

Test(channel, a_call_in_a_long_pause_ends_with_it)
{
    pk_loop *loop = new_loop();
    const pk_retry_policy policy = {
        .max_attempts = 3, .initial_backoff_ms = 60000, .codes = PK_CODE_BIT(PK_UNAVAILABLE)};
    pk_channel *channel = new_channel(
        loop, "127.0.0.1:1", PK_CHANNEL_OPTS(.retry_policies = &policy, .retry_policy_count = 1));
    pk_future reply = greet(channel, PK_CALL_OPTS(.timeout_ms = 2000));
    while (pk_channel_get_state(channel) != PK_CHANNEL_TRANSIENT_FAILURE)
        pk_loop_turn(loop);
    pk_channel_free(channel);
    cr_assert_eq(pk_loop_run_until(loop, reply, NULL).code, PK_UNAVAILABLE);
    pk_loop_free(loop);
}

static void cancel_another(void *arg)
{
    pk_call_cancel(arg);
}

Test(channel, calls_that_wait_may_be_cancelled_by_one_that_fails)
{
    pk_loop *loop = new_loop();
    pk_channel *channel = new_channel(loop, "127.0.0.1:1", NULL);
    pk_call *calls[3];
    pk_future ends[3];
    for (size_t i = 0; i < 3; i++) /* the middle one does not wait, and fails first */
        ends[i] = greet(
            channel, PK_CALL_OPTS(.wait_for_ready = i != 1, .timeout_ms = 300, .call = &calls[i]));
    cr_assert_eq(pk_call_on_end(calls[1], cancel_another, calls[0]), 0);
    cr_assert_eq(pk_loop_run_until(loop, ends[1], NULL).code, PK_UNAVAILABLE);
    cr_assert_eq(pk_loop_run_until(loop, ends[0], NULL).code, PK_CANCELLED);
    cr_assert_eq(pk_loop_run_until(loop, ends[2], NULL).code, PK_DEADLINE_EXCEEDED);
    for (size_t i = 0; i < 3; i++)
        pk_call_unref(calls[i]);
    pk_channel_free(channel);
    pk_loop_free(loop);
}
