/*
 * Interceptors that wait, and calls that end meanwhile; a client's beside retries, hedging and other
 * calls; and all of them without memory.
 */
#include <pekoe/raw.h>

#include "tests/support/counting_allocator.h"
#include "tests/support/interceptor_kit.h"

static struct client_kit *other_kit;

/* A failure is made good by another server's reply. */
static pk_future ask_other(const pk_status *status, void *arg)
{
    return greet(other_kit, "other", NULL);
}

static pk_future falls_back(void *self, pk_call *call, pk_next *next)
{
    return pk_recover(pk_next_run(next), ask_other, NULL);
}

static pk_future copy_text(const void *value, void *arg)
{
    strcpy(arg, ((const Helloworld__HelloReply *) value)->message);
    return pk_done(NULL);
}

TEST_BOTH(client_chain, the_reply_may_be_that_of_another_call)
{
    struct client_kit kit = open_kit(), other = open_kit();
    pk_channel_free(other.channel);
    cr_assert_eq(pk_channel_new_in_process(&other.channel, pk_server_router(kit.server)), 0);
    struct client_kit second = {.loop = kit.loop};
    cr_assert_eq(pk_channel_new_in_process(&second.channel, pk_server_router(kit.server)), 0);
    other_kit = &second;
    on_client(&kit, falls_back, NULL);
    char text[32];
    cr_assert_eq(
        pk_loop_run_until(kit.loop, pk_then(greet(&kit, "fail", NULL), copy_text, text), NULL).code,
        PK_OK);
    cr_assert_str_eq(text, "other");
    pk_channel_free(second.channel);
    client_kit_close(&other);
    client_kit_close(&kit);
}

/* ---- What is no message, in a stream ---- */

/* A reply, and in the same chunk something that is none, and another reply. */
static pk_future answer_badly(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    static const pk_raw_frames frames = {
        PK_SLICE("\0\0\0\0\3\x0a\1a\0\0\0\0\1\xff\0\0\0\0\3\x0a\1b"), 3, false, NULL};
    const pk_raw_frames behind_the_first = {
        {frames.bytes.bytes + 8, frames.bytes.length - 8}, 2, false, NULL};
    return pk_writer_write_frames(out, self ? &behind_the_first : &frames);
}

static struct client_kit open_bad_kit(const char *self)
{
    struct client_kit kit = {0};
    const char *bound;
    trace[0] = '\0';
    last_code = PK_OK;
    cr_assert_eq(pk_loop_new(&kit.loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit.server, kit.loop, NULL), 0);
    pk_router *router = pk_server_router(kit.server);
    pk_router_set_raw(router, answer_badly, (void *) (uintptr_t) self);
    if (in_process) {
        cr_assert_eq(pk_channel_new_in_process(&kit.channel, router), 0);
        return kit;
    }
    cr_assert_eq(pk_server_listen(kit.server, "127.0.0.1:0", &bound), 0);
    cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, bound, NULL), 0);
    return kit;
}

TEST_BOTH(client_chain, a_read_that_finds_no_message_waits_for_what_they_say)
{
    struct client_kit kit = open_bad_kit(NULL);
    on_client(&kit, around, "a");
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    cr_assert_str_eq(read_one(&kit, in), "a");
    cr_assert_null(read_one(&kit, in));
    cr_assert_eq(last_code, PK_INTERNAL);
    cr_assert_str_eq(trace, "a(!a");
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

static pk_future linger_over_failure(const pk_status *status, void *call)
{
    note("!");
    return pk_sleep(pk_call_scope(call), 60000);
}

static pk_future lingers_over_failures(void *self, pk_call *call, pk_next *next)
{
    return pk_recover(pk_next_run(next), linger_over_failure, call);
}

TEST_BOTH(client_chain, nothing_is_read_behind_what_is_no_message)
{
    struct client_kit kit = open_bad_kit("");
    on_client(&kit, lingers_over_failures, NULL);
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    for (unsigned i = 0; i < 2; i++) {
        pk_future read = pk_timeout(pk_loop_scope(kit.loop), pk_reader_read(in), 20);
        const void *message = NULL;
        last_code = pk_loop_run_until(kit.loop, read, &message).code;
        cr_assert_eq(last_code, PK_DEADLINE_EXCEEDED, "%u", i);
        cr_assert_str_eq(trace, "!");
    }
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

/* ---- Waiting ---- */

static void clean(void *arg)
{
    cleaned++;
}

static pk_future go_on(const void *unused, void *arg)
{
    note("w");
    return pk_next_run(arg);
}

/* Waits before the rest. */
static pk_future waits(void *self, pk_call *call, pk_next *next)
{
    asked++;
    pk_future later = pk_sleep(pk_call_scope(call), (uint64_t) atoi(self));
    return pk_recover(pk_finally(pk_then(later, go_on, next), clean, NULL), leave_failed,
                      (void *) "");
}

static pk_future linger(const void *value, void *arg)
{
    note("l");
    return pk_sleep(pk_call_scope(arg), 60000);
}

/* Waits behind it. */
static pk_future lingers(void *self, pk_call *call, pk_next *next)
{
    asked++;
    return pk_recover(pk_finally(pk_then(pk_next_run(next), linger, call), clean, NULL),
                      leave_failed, (void *) "");
}

TEST_BOTH(client_chain, it_may_wait_before_the_rest_and_the_request_stays)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client_kit kit = open_kit();
        if (i) {
            on_client(&kit, waits, "2");
            on_client(&kit, change_messages, "c");
        } else {
            on_server(&kit, waits, "2");
            on_server(&kit, change_messages, "c");
        }
        greeted(&kit, "x", NULL, "cxcx");
        cr_assert_eq(cleaned, 1u);
        pk_writer *out;
        pk_future reply = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
        cr_assert_eq(cleaned, 1u);
        pk_detach(reply);
        pk_writer_unref(out);
        client_kit_close(&kit);
    }
}

TEST_BOTH(client_chain, a_stream_is_written_while_it_waits)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client_kit kit = open_kit();
        if (i)
            on_client(&kit, waits, "2");
        else
            on_server(&kit, waits, "2");
        pk_writer *out;
        pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
        Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
        request.name = (char *) "one";
        cr_assert_eq(
            pk_loop_run_until(kit.loop, helloworld_hello_request_write(out, &request), NULL).code,
            PK_OK);
        cr_assert_str_eq(read_one(&kit, in), "one");
        pk_writer_end(out);
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_OK);
        cr_assert_eq(cleaned, 1u);
        pk_reader_unref(in);
        pk_writer_unref(out);
        client_kit_close(&kit);
    }
}

TEST_BOTH(client_chain, a_deadline_ends_what_waits_before_and_behind_the_rest_once)
{
    static const struct {
        pk_interceptor *fn;
        const char *name, *seen;
    } cases[] = {{waits, "x", "!"}, {lingers, "x", "hl!"}, {around, "slow", "(h!"}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct client_kit kit = open_kit();
        bool behind = cases[i / 2].fn != waits;
        if (i % 2)
            on_client(&kit, cases[i / 2].fn, behind ? "" : "60000");
        else
            on_server(&kit, cases[i / 2].fn, behind ? "" : "60000");
        cr_assert_eq(greeted(&kit, cases[i / 2].name, PK_CALL_OPTS(.timeout_ms = 30), NULL).code,
                     PK_DEADLINE_EXCEEDED);
        UNTIL(&kit, strchr(trace, '!'));
        cr_assert_str_eq(trace, cases[i / 2].seen, "%zu", i);
        cr_assert(last_code == PK_DEADLINE_EXCEEDED || (i % 2 == 0 && last_code == PK_CANCELLED),
                  "%zu: %d", i, last_code);
        cr_assert_eq(cleaned, cases[i / 2].fn == around ? 0u : 1u);
        cr_assert_eq(asked, 1u);
        client_kit_close(&kit);
        cr_assert_leq(cleaned, 1u);
    }
}

TEST_BOTH(client_chain, the_deadline_holds_for_what_is_done_with_the_end_of_a_stream)
{
    struct client_kit kit = open_kit();
    on_client(&kit, lingers, "");
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "1";
    pk_reader *in = helloworld_greeter_it_keeps_replying(kit.channel, &request,
                                                         PK_CALL_OPTS(.timeout_ms = 100));
    cr_assert_str_eq(read_one(&kit, in), "1");
    cr_assert_null(read_one(&kit, in));
    cr_assert_eq(last_code, PK_DEADLINE_EXCEEDED);
    UNTIL(&kit, cleaned > 0);
    cr_assert_str_eq(trace, "hl!");
    pk_reader_unref(in);
    client_kit_close(&kit);
    cr_assert_eq(cleaned, 1u);
}

static pk_future run_late(const pk_status *status, void *arg)
{
    pk_future rest = pk_next_run(arg);
    cr_assert_eq(rest.state, PK_FUTURE_FAILED);
    last_code = ((const pk_status *) rest.pointer)->code;
    note("!");
    return rest;
}

static pk_future comes_late(void *self, pk_call *call, pk_next *next)
{
    return pk_recover(pk_sleep(pk_call_scope(call), 60000), run_late, next);
}

TEST_BOTH(client_chain, the_rest_of_a_call_that_has_ended_is_not_run)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client_kit kit = open_kit();
        if (i)
            on_client(&kit, comes_late, NULL);
        else
            on_server(&kit, comes_late, NULL);
        cr_assert_eq(greeted(&kit, "x", PK_CALL_OPTS(.timeout_ms = 30), NULL).code,
                     PK_DEADLINE_EXCEEDED);
        UNTIL(&kit, trace[0]);
        cr_assert_str_eq(trace, "!");
        cr_assert(last_code == PK_DEADLINE_EXCEEDED || last_code == PK_CANCELLED);
        client_kit_close(&kit);
    }
}

TEST_BOTH(client_chain, a_cancel_ends_what_waits_before_and_behind_the_rest_once)
{
    for (unsigned i = 0; i < 3; i++) {
        struct client_kit kit = open_kit();
        on_client(&kit, i == 0 ? waits : i == 1 ? lingers : around, i == 0 ? "60000" : "");
        pk_call *call;
        pk_future future = greet(&kit, i == 2 ? "slow" : "x", PK_CALL_OPTS(.call = &call));
        if (i > 0)
            UNTIL(&kit, strchr(trace, i == 1 ? 'l' : 'h'));
        pk_call_cancel(call);
        cr_assert_eq(pk_call_status(call)->code, PK_CANCELLED);
        cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_CANCELLED);
        cr_assert_eq(cleaned, i == 2 ? 0u : 1u);
        cr_assert_eq(last_code, PK_CANCELLED);
        pk_call_unref(call);
        /* A program that waits no more. */
        trace[0] = '\0';
        pk_scope *scope = pk_loop_scope(kit.loop);
        future = pk_timeout(scope, greet(&kit, i == 2 ? "slow" : "x", NULL), 5);
        cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_DEADLINE_EXCEEDED);
        UNTIL(&kit, strchr(trace, '!'));
        cr_assert_eq(cleaned, i == 2 ? 0u : 2u);
        /* A channel that goes. */
        future = greet(&kit, i == 2 ? "slow" : "x", NULL);
        pk_channel_free(pk_steal(&kit.channel));
        pk_detach(future);
        client_kit_close(&kit);
    }
}

TEST_BOTH(client_chain, a_stream_given_up_while_it_waits_is_cleaned_up_once)
{
    for (unsigned i = 0; i < 4; i++) {
        struct client_kit kit = open_kit();
        pk_interceptor *fn = i % 2 ? lingers : waits;
        if (i < 2)
            on_client(&kit, fn, "60000");
        else
            on_server(&kit, fn, "60000");
        pk_reader *in = many(&kit, "1");
        if (i % 2) {
            cr_assert_str_eq(read_one(&kit, in), "1");
            pk_future end = pk_reader_read(in);
            UNTIL(&kit, strchr(trace, 'l'));
            cr_assert_eq(end.state, PK_FUTURE_PENDING);
            pk_detach(end);
        } else {
            UNTIL(&kit, asked > 0);
        }
        pk_reader_unref(in);
        UNTIL(&kit, cleaned > 0);
        cr_assert_eq(last_code, PK_CANCELLED);
        client_kit_close(&kit);
        cr_assert_eq(cleaned, 1u);
    }
}

static pk_future too_late(const pk_status *status, void *arg)
{
    last_code = status->code;
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(arg);
    reply->message = pk_call_printf(arg, "too slow");
    return helloworld_hello_reply_done(reply);
}

static pk_future impatient(void *self, pk_call *call, pk_next *next)
{
    pk_future rest = pk_timeout(pk_call_scope(call), pk_next_run(next), 20);
    return pk_recover(rest, too_late, call);
}

static void count_end(void *arg)
{
    cleaned++;
}

static pk_future count_ends(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    return pk_next_run(next);
}

TEST_BOTH(client_chain, the_rest_can_be_dropped_and_answered_in_place_of)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client_kit kit = open_kit();
        on_server(&kit, count_ends, NULL);
        if (i)
            on_client(&kit, impatient, NULL);
        else
            on_server(&kit, impatient, NULL);
        greeted(&kit, "slow", NULL, "too slow");
        cr_assert_eq(last_code, PK_DEADLINE_EXCEEDED);
        UNTIL(&kit, cleaned > 0); /* the server's call was cancelled, or answered */
        greeted(&kit, "x", NULL, "x");
        client_kit_close(&kit);
    }
}

static pk_future other_call(void *self, pk_call *call, pk_next *next)
{
    /* A token of another server first. */
    return pk_then(greet(other_kit, "slow", PK_CALL_OPTS(.parent = call)), go_on, next);
}

Test(client_chain, a_call_that_it_makes_first_ends_with_the_call)
{
    in_process = false;
    struct client_kit kit = open_kit();
    struct client_kit second = {.loop = kit.loop};
    cr_assert_eq(pk_channel_new(&second.channel, kit.loop, kit.address, NULL), 0);
    other_kit = &second;
    on_server(&kit, count_ends, NULL);
    on_client(&kit, other_call, NULL);
    cr_assert_eq(greeted(&kit, "x", PK_CALL_OPTS(.timeout_ms = 100), NULL).code,
                 PK_DEADLINE_EXCEEDED);
    UNTIL(&kit, cleaned == 1);
    cr_assert_str_eq(trace, "h");
    pk_channel_free(second.channel);
    client_kit_close(&kit);
}

/* ---- Together with the rest of the channel ---- */

static pk_future fails_once(void *self, pk_call *call, pk_next *next)
{
    note("s");
    return strlen(trace) < 4 ? pk_failed(call, PK_UNAVAILABLE, "not yet") : pk_next_run(next);
}

Test(client_chain, a_call_that_is_tried_again_is_one_call_to_it)
{
    in_process = false;
    trace[0] = '\0';
    asked = 0;
    static const pk_retry_policy policies[] = {{.max_attempts = 4,
                                                .initial_backoff_ms = 1,
                                                .max_backoff_ms = 1,
                                                .backoff_multiplier = 1,
                                                .codes = PK_CODE_BIT(PK_UNAVAILABLE)}};
    struct client_kit kit =
        client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL,
                        PK_CHANNEL_OPTS(.retry_policies = policies, .retry_policy_count = 1));
    on_server(&kit, fails_once, NULL);
    on_client(&kit, around, "a");
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "a(ssh)a");
    cr_assert_eq(asked, 1u);
    client_kit_close(&kit);
}

Test(client_chain, a_call_that_is_hedged_is_one_call_to_it)
{
    in_process = false;
    trace[0] = '\0';
    asked = 0;
    static const pk_hedging_policy policies[] = {
        {.max_attempts = 3, .codes = PK_CODE_BIT(PK_UNAVAILABLE)}};
    struct client_kit kit =
        client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL,
                        PK_CHANNEL_OPTS(.hedging_policies = policies, .hedging_policy_count = 1));
    on_server(&kit, fails_once, NULL);
    on_client(&kit, waits, "1");
    on_client(&kit, around, "a");
    greeted(&kit, "x", NULL, "x");
    cr_assert_eq(asked, 2u); /* of each interceptor once */
    cr_assert_eq(strncmp(trace, "wa(s", 4), 0, "%s", trace);
    cr_assert_not_null(strstr(trace, ")a"));
    client_kit_close(&kit);
}

Test(client_chain, a_call_that_cannot_be_made_is_not_shown)
{
    in_process = true;
    struct client_kit kit = open_kit();
    on_client(&kit, around, "a");
    cr_assert_eq(greeted(&kit, "x", PK_CALL_OPTS(.compression = "brotli"), NULL).code, PK_INTERNAL);
    cr_assert_eq(greeted(&kit, "x", PK_CALL_OPTS(.deadline = 1), NULL).code, PK_DEADLINE_EXCEEDED);
    cr_assert_eq(asked, 0u);
    client_kit_close(&kit);
}

/* ---- Without memory ---- */

static pk_future mark_safely(void *self, pk_call *call, const void *message)
{
    return pk_done(message);
}

static pk_future pass_safely(const void *value, void *arg)
{
    return pk_done(value);
}

/* All that an interceptor may do; on the server and the client. */
static pk_future does_all(void *self, pk_call *call, pk_next *next)
{
    static char key;
    (void) !pk_call_set_value(call, &key, self);
    (void) pk_call_edit_metadata(call);
    (void) !pk_call_filter_reads(call, mark_safely, NULL);
    (void) !pk_call_filter_writes(call, mark_safely, NULL);
    pk_future rest = pk_then(pk_sleep(pk_call_scope(call), 0), go_on, next);
    return pk_finally(pk_then(rest, pass_safely, NULL), clean, NULL);
}

static void call_in_styles(struct client_kit *kit)
{
    trace[0] = '\0';
    (void) greeted(kit, "x", NULL, NULL);
    pk_reader *in = many(kit, "1");
    (void) read_one(kit, in);
    (void) read_one(kit, in);
    pk_reader_unref(in);
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(kit->channel, &out, NULL);
    pk_writer_end(out);
    pk_writer_unref(out);
    (void) pk_loop_run_until(kit->loop, reply, NULL);
    in = helloworld_greeter_stream_hellos(kit->channel, &out, NULL);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "x";
    (void) pk_loop_run_until(kit->loop, helloworld_hello_request_write(out, &request), NULL);
    (void) read_one(kit, in);
    pk_writer_unref(out);
    pk_reader_unref(in);
}

Test(client_chain, each_allocation_may_fail)
{
    bool failed = true;
    for (size_t fail_at = 1; failed && fail_at < 2000; fail_at++) {
        counting_allocator counts = {0};
        struct client_kit one;
        cr_assert_eq(pk_loop_new(&one.loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))),
                     0);
        cr_assert_eq(pk_server_new(&one.server, one.loop, NULL), 0);
        pk_router *router = pk_server_router(one.server);
        cr_assert_eq(helloworld_greeter_route(router, &impl, NULL), 0);
        cr_assert_eq(pk_channel_new_in_process(&one.channel, router), 0);
        counts.fail_at = counts.requests + fail_at;
        for (unsigned i = 0; i < 2; i++) {
            int r = pk_router_intercept(router, does_all, NULL);
            cr_assert(r == 0 || r == PK_ERR_NOMEM);
            r = pk_channel_intercept(one.channel, does_all, NULL);
            cr_assert(r == 0 || r == PK_ERR_NOMEM);
        }
        call_in_styles(&one);
        failed = counts.requests >= counts.fail_at;
        counts.fail_at = 0;
        trace[0] = '\0';
        greeted(&one, "x", NULL, "x");
        pk_channel_free(one.channel);
        pk_server_free(one.server);
        pk_loop_free(one.loop);
        cr_assert_eq(counts.blocks, 0, "allocation %zu: %zu blocks are left", fail_at,
                     counts.blocks);
    }
    cr_assert(!failed);
}
