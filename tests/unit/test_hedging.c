/*
 * Hedged calls from inside a program: policies as structures, every kind of end amid several
 * attempts, streams, memory that runs out. What goes over the wire: tests/faults.
 */
#include "core/channel.h"
#include "handlers/call.h"
#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"
#include "tests/support/counting_allocator.h"

#include <stdio.h>

static struct {
    unsigned begun, cancelled, ended, messages;
    unsigned silent; /* so many calls get no answer */
    unsigned wait_ms;
    bool asks_for_a_minute; /* calls fail, and it wants to be left alone so long */
} seen;

static void count_end(void *arg)
{
    seen.ended++;
    seen.cancelled += ((pk_call *) arg)->abandoned;
}

static pk_future reply(const void *unused, void *arg)
{
    Helloworld__HelloReply *message = helloworld_hello_reply_new(arg);
    message->message = pk_call_printf(arg, "hello");
    return helloworld_hello_reply_done(message);
}

static pk_future answer(pk_call *call)
{
    seen.begun++;
    (void) !pk_call_on_end(call, count_end, call);
    if (seen.asks_for_a_minute) {
        static const pk_field pushback = {.name = PK_SLICE("grpc-retry-pushback-ms"),
                                          .value = PK_SLICE("60000")};
        pk_metadata received = pk_metadata_over(&pushback, 1, &call->scope.arena);
        cr_assert_eq(pk_metadata_forward(pk_call_trailers(call), &received, NULL, NULL), 0);
        return pk_failed(call, PK_UNAVAILABLE, "not now");
    }
    if (seen.begun <= seen.silent)
        return pk_then(pk_sleep(pk_call_scope(call), 60000), reply, call);
    if (seen.wait_ms > 0)
        return pk_then(pk_sleep(pk_call_scope(call), seen.wait_ms), reply, call);
    return reply(NULL, call);
}

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    return answer(call);
}

static pk_future count_message(const void *message, void *arg)
{
    seen.messages++;
    return pk_done(NULL);
}

static pk_future all_read(const void *unused, void *arg)
{
    return answer(arg);
}

/* Answers once all has come. */
static pk_future it_keeps_talking(void *self, pk_call *call, pk_reader *in)
{
    return pk_then(pk_reader_each(in, count_message, NULL), all_read, call);
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    Helloworld__HelloReply message = HELLOWORLD__HELLO_REPLY__INIT;
    message.message = (char *) "hello";
    seen.begun++;
    if (seen.begun <= seen.silent)
        return pk_sleep(pk_call_scope(call), 60000);
    return helloworld_hello_reply_write(out, &message);
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                             .it_keeps_talking = it_keeps_talking,
                                             .it_keeps_replying = it_keeps_replying};

static const pk_hedging_policy policies[] = {{.method = "/helloworld.Greeter/",
                                              .max_attempts = 3,
                                              .delay_ms = 2,
                                              .codes = PK_CODE_BIT(PK_UNAVAILABLE)}};

#define HEDGED .hedging_policies = policies, .hedging_policy_count = 1

static struct client_kit open_kit(const pk_channel_opts *opts, unsigned silent)
{
    memset(&seen, 0, sizeof seen);
    seen.silent = silent;
    return client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL, opts);
}

static pk_future greet(struct client_kit *kit, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    return helloworld_greeter_say_hello(kit->channel, &request, opts);
}

Test(hedging, policies_are_structures_too)
{
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 2);
    cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, NULL), NULL).code, PK_OK);
    cr_assert_eq(seen.begun, 3);
    WAIT_UNTIL(&kit, seen.ended == 3);
    cr_assert_eq(seen.cancelled, 2);
    client_kit_close(&kit);
}

Test(hedging, a_policy_of_retries_goes_first)
{
    static const pk_retry_policy retries[] = {
        {.method = "/helloworld.Greeter/SayHello",
         .max_attempts = 2,
         .codes = PK_CODE_BIT(PK_UNAVAILABLE)},
    };
    struct client_kit kit =
        open_kit(PK_CHANNEL_OPTS(HEDGED, .retry_policies = retries, .retry_policy_count = 1), 1);
    pk_code code =
        pk_loop_run_until(kit.loop, greet(&kit, PK_CALL_OPTS(.timeout_ms = 30)), NULL).code;
    cr_assert_eq(code, PK_DEADLINE_EXCEEDED);
    cr_assert_eq(seen.begun, 1);
    client_kit_close(&kit);
}

Test(hedging, a_cancel_and_a_deadline_end_all_attempts)
{
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 100);
    pk_call *call;
    pk_future reply_later = greet(&kit, PK_CALL_OPTS(.call = &call));
    WAIT_UNTIL(&kit, seen.begun == 2);
    pk_call_cancel(call);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_CANCELLED);
    pk_call_unref(call);
    WAIT_UNTIL(&kit, seen.ended == 2);
    pk_code code =
        pk_loop_run_until(kit.loop, greet(&kit, PK_CALL_OPTS(.timeout_ms = 50)), NULL).code;
    cr_assert_eq(code, PK_DEADLINE_EXCEEDED);
    WAIT_UNTIL(&kit, seen.ended == 5);
    cr_assert_eq(seen.begun, 5);
    client_kit_close(&kit);
}

Test(hedging, a_channel_may_be_freed_amid_attempts)
{
    for (unsigned turns = 0; turns < 40; turns += 3) {
        struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 100);
        pk_future reply_later = greet(&kit, NULL);
        for (unsigned i = 0; i < turns && seen.begun < 3; i++)
            pk_loop_turn(kit.loop);
        kit.channel = pk_channel_free(kit.channel);
        cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_UNAVAILABLE);
        client_kit_close(&kit);
    }
}

/* An attempt that has not left yet would be sent again by another connection: there is none. */
Test(hedging, a_channel_may_be_freed_before_an_attempt_has_left)
{
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 0);
    cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, NULL), NULL).code, PK_OK);
    pk_future reply_later = greet(&kit, PK_CALL_OPTS(.timeout_ms = 2000));
    kit.channel = pk_channel_free(kit.channel);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_UNAVAILABLE);
    client_kit_close(&kit);
}

/* The server wants no further attempt for a minute, and no attempt is left. */
Test(hedging, a_channel_may_be_freed_in_a_long_pause)
{
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED, .retry_throttling = {10, 1}), 0);
    seen.asks_for_a_minute = true;
    pk_future reply_later = greet(&kit, PK_CALL_OPTS(.timeout_ms = 2000));
    WAIT_UNTIL(&kit, kit.channel->tokens < 10); /* the failure was counted */
    kit.channel = pk_channel_free(kit.channel);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_UNAVAILABLE);
    cr_assert_eq(seen.begun, 1);
    client_kit_close(&kit);
}

Test(hedging, a_server_may_end_amid_attempts)
{
    struct client_kit kit =
        open_kit(PK_CHANNEL_OPTS(HEDGED, .backoff_initial_ms = 5, .backoff_max_ms = 5), 100);
    pk_future reply_later = greet(&kit, NULL);
    WAIT_UNTIL(&kit, seen.begun == 2);
    kit.server = pk_server_free(kit.server);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_UNAVAILABLE);
    client_kit_close(&kit);
}

Test(hedging, each_attempt_gets_all_that_was_written)
{
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 1);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "message";
    pk_writer *out;
    pk_future reply_later = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(
            pk_loop_run_until(kit.loop, helloworld_hello_request_write(out, &request), NULL).code,
            PK_OK);
        (void) pk_loop_run_until(kit.loop, pk_sleep(pk_loop_scope(kit.loop), 3), NULL);
    }
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_OK);
    cr_assert_geq(seen.messages, 10, "%u", seen.messages);
    cr_assert_eq(seen.messages % 5, 0);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

Test(hedging, one_attempt_goes_on_when_more_is_written_than_is_kept)
{
    static char large[30001];
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED, .call_buffer_bytes = 100000), 0);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    memset(large, 'x', sizeof large - 1);
    request.name = large;
    pk_writer *out;
    pk_future reply_later = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
    for (unsigned i = 0; i < 40; i++) {
        if (i == 2) /* several attempts by now */
            (void) pk_loop_run_until(kit.loop, pk_sleep(pk_loop_scope(kit.loop), 10), NULL);
        cr_assert_eq(
            pk_loop_run_until(kit.loop, helloworld_hello_request_write(out, &request), NULL).code,
            PK_OK);
    }
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply_later, NULL).code, PK_OK);
    cr_assert_eq(seen.begun, 1);
    cr_assert_lt(seen.messages, 60, "%u", seen.messages);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

Test(hedging, a_reader_gets_one_attempts_messages)
{
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 1);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    pk_reader *in = helloworld_greeter_it_keeps_replying(kit.channel, &request, NULL);
    unsigned count = 0;
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_reader_each(in, count_message, &count), NULL).code,
                 PK_OK);
    cr_assert_eq(seen.messages, 1);
    pk_reader_unref(in);
    /* One that is given up amid attempts. */
    seen.silent = 100;
    in = helloworld_greeter_it_keeps_replying(kit.channel, &request, NULL);
    unsigned begun = seen.begun;
    WAIT_UNTIL(&kit, seen.begun == begun + 2);
    pk_reader_unref(in);
    client_kit_close(&kit);
}

static pk_future run_rest(const void *unused, void *arg)
{
    return pk_next_run(arg);
}

static pk_future pass_on(void *self, pk_call *call, pk_next *next)
{
    unsigned *count = self;
    ++*count;
    return pk_then(pk_sleep(pk_call_scope(call), 1), run_rest, next);
}

Test(hedging, interceptors_are_asked_once_for_all_attempts)
{
    unsigned asked = 0;
    struct client_kit kit = open_kit(PK_CHANNEL_OPTS(HEDGED), 2);
    cr_assert_eq(pk_channel_intercept(kit.channel, pass_on, &asked), 0);
    cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, NULL), NULL).code, PK_OK);
    cr_assert_eq(asked, 1);
    cr_assert_eq(seen.begun, 3);
    seen.begun = 0;
    seen.silent = 100;
    pk_code code =
        pk_loop_run_until(kit.loop, greet(&kit, PK_CALL_OPTS(.timeout_ms = 30)), NULL).code;
    cr_assert_eq(code, PK_DEADLINE_EXCEEDED);
    client_kit_close(&kit);
}

/* Over two connections, so that round_robin's allocations fail too. */
Test(hedging, each_allocation_may_fail)
{
    bool failed = true;
    for (size_t fail_at = 1; failed && fail_at < 2000; fail_at++) {
        counting_allocator counts = {0};
        struct client_kit kit;
        const char *bound, *other;
        char target[200];
        memset(&seen, 0, sizeof seen);
        seen.wait_ms = 8;
        cr_assert_eq(pk_loop_new(&kit.loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))),
                     0);
        cr_assert_eq(pk_server_new(&kit.server, kit.loop, NULL), 0);
        cr_assert_eq(helloworld_greeter_serve(kit.server, &impl, NULL), 0);
        cr_assert_eq(pk_server_listen(kit.server, "127.0.0.1:0", &bound), 0);
        cr_assert_eq(pk_server_listen(kit.server, "127.0.0.1:0", &other), 0);
        snprintf(target, sizeof target, "ipv4:%s,%s", bound, other);
        counts.fail_at = counts.requests + fail_at;
        int r = pk_channel_new(&kit.channel, kit.loop, target,
                               PK_CHANNEL_OPTS(HEDGED, .load_balancing = "round_robin",
                                               .backoff_initial_ms = 1, .backoff_max_ms = 1));
        const pk_call_opts *opts = PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 5000);
        if (r == 0)
            (void) pk_loop_run_until(kit.loop, greet(&kit, opts), NULL);
        failed = counts.requests >= counts.fail_at;
        counts.fail_at = 0;
        if (r == 0 && failed)
            cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, opts), NULL).code, PK_OK,
                         "allocation %zu", fail_at);
        if (r == 0)
            pk_channel_free(kit.channel);
        pk_server_free(kit.server);
        pk_loop_free(kit.loop);
        cr_assert_eq(counts.blocks, 0, "allocation %zu: %zu blocks are left", fail_at,
                     counts.blocks);
    }
    cr_assert(!failed);
}
