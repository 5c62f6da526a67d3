/*
 * Unary calls of a client over a real connection: replies, statuses, metadata, deadlines, cancels,
 * and how long what came back stays readable.
 */
#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"

static struct {
    pk_promise *promise; /* of the call that waits */
    unsigned ended;      /* calls of the server that have ended */
    pk_code seen;        /* what the last step of the client saw */
    uint64_t time_left;
    char text[64];
} seen;

static void count_end(void *arg)
{
    seen.ended++;
}

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    seen.time_left = pk_call_time_left(call);
    if (strcmp(request->name, "fail") == 0)
        return pk_failed(call, PK_ABORTED, "no luck: 100%% \xc3\xa9\n");
    if (strcmp(request->name, "wait") == 0) {
        seen.promise = pk_promise_new(pk_call_scope(call));
        return pk_promise_future(seen.promise);
    }
    if (strcmp(request->name, "details") == 0)
        return pk_failed_status(
            call, &(pk_status){PK_DATA_LOSS, PK_SLICE("gone"), PK_SLICE("\x08\x0f\x12\x00")});
    pk_slice text = pk_metadata_get(pk_call_metadata(call), "x-text");
    pk_slice binary = pk_metadata_get(pk_call_metadata(call), "x-thing-bin");
    if (text.bytes)
        cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-head", "one"), 0);
    if (binary.bytes)
        cr_assert_eq(pk_metadata_add_binary(pk_call_trailers(call), "x-tail-bin", binary.bytes,
                                            binary.length),
                     0);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello};

static struct client_kit open_kit(void)
{
    memset(&seen, 0, sizeof seen);
    if (in_process)
        return client_kit_open_in_process(&helloworld_greeter_service, &impl, NULL);
    return client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL, NULL);
}

static pk_future greet(struct client_kit *kit, const char *name, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) name;
    return helloworld_greeter_say_hello(kit->channel, &request, opts);
}

TEST_BOTH(unary_client, a_reply_stays_readable_until_the_next_wait)
{
    struct client_kit kit = open_kit();
    for (int i = 0; i < 100; i++) {
        const void *value = NULL;
        pk_status status = pk_loop_run_until(kit.loop, greet(&kit, "World", NULL), &value);
        cr_assert_eq(status.code, PK_OK);
        cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, "Hello, World");
    }
    client_kit_close(&kit);
}

TEST_BOTH(unary_client, failures_carry_code_message_and_details)
{
    struct client_kit kit = open_kit();
    pk_status status = pk_loop_run_until(kit.loop, greet(&kit, "fail", NULL), NULL);
    cr_assert_eq(status.code, PK_ABORTED);
    cr_assert(says(status.message, "no luck: 100% \xc3\xa9\n"));
    pk_call *call;
    status = pk_loop_run_until(kit.loop, greet(&kit, "details", PK_CALL_OPTS(.call = &call)), NULL);
    cr_assert_eq(status.code, PK_DATA_LOSS);
    cr_assert_eq(pk_call_status(call)->code, PK_DATA_LOSS);
    cr_assert_eq(pk_call_status(call)->details.length, 4);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(unary_client, metadata_travels_both_ways_and_stays_with_the_call)
{
    struct client_kit kit = open_kit();
    pk_call *call;
    const char *const fields[] = {"x-text", "a", NULL};
    pk_metadata *more = pk_metadata_new(pk_loop_scope(kit.loop));
    cr_assert_eq(pk_metadata_add_binary(more, "x-thing-bin", "\x00\xff\x01", 3), 0);
    const pk_call_opts *opts = PK_CALL_OPTS(.call = &call, .fields = fields, .metadata = more);
    pk_status status = pk_loop_run_until(kit.loop, greet(&kit, "World", opts), NULL);
    cr_assert_eq(status.code, PK_OK);
    /* Further calls, and the end of the connection. */
    (void) pk_loop_run_until(kit.loop, greet(&kit, "World", NULL), NULL);
    pk_channel_free(pk_steal(&kit.channel));
    cr_assert_eq(pk_call_status(call)->code, PK_OK);
    cr_assert(says(pk_metadata_get(pk_call_metadata(call), "x-head"), "one"));
    pk_slice tail = pk_metadata_get(pk_call_received_trailers(call), "x-tail-bin");
    cr_assert_eq(tail.length, 3);
    cr_assert_eq(memcmp(tail.bytes, "\x00\xff\x01", 3), 0);
    pk_call_unref(call);
    client_kit_close(&kit);
}

Test(unary_client, bad_options_fail_the_call_and_send_nothing)
{
    struct client_kit kit = open_kit();
    const char *const forbidden[] = {"grpc-status", "0", NULL};
    const char *const newline[] = {"x-a", "b\nc", NULL};
    const pk_call_opts *bad[] = {
        PK_CALL_OPTS(.fields = forbidden),
        PK_CALL_OPTS(.fields = newline),
        PK_CALL_OPTS(.compression = "lzma"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, "x", bad[i]), NULL).code, PK_INTERNAL);
    const pk_call_opts *past = PK_CALL_OPTS(.deadline = 1);
    cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, "x", past), NULL).code,
                 PK_DEADLINE_EXCEEDED);
    cr_assert_eq(pk_channel_get_state(kit.channel), PK_CHANNEL_IDLE);
    client_kit_close(&kit);
}

TEST_BOTH(unary_client, a_deadline_ends_the_call_on_both_sides)
{
    struct client_kit kit = open_kit();
    const pk_call_opts *opts = PK_CALL_OPTS(.timeout_ms = 50);
    pk_status status = pk_loop_run_until(kit.loop, greet(&kit, "wait", opts), NULL);
    cr_assert_eq(status.code, PK_DEADLINE_EXCEEDED);
    cr_assert_leq(seen.time_left, 50000000);
    cr_assert_gt(seen.time_left, 0);
    WAIT_UNTIL(&kit, seen.ended == 1);
    pk_promise_done(seen.promise, NULL);
    client_kit_close(&kit);
}

TEST_BOTH(unary_client, a_cancel_reaches_the_server)
{
    struct client_kit kit = open_kit();
    pk_call *call;
    pk_future future = greet(&kit, "wait", PK_CALL_OPTS(.call = &call));
    WAIT_UNTIL(&kit, seen.promise);
    cr_assert_null(pk_call_status(call));
    pk_call_cancel(call);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_CANCELLED);
    WAIT_UNTIL(&kit, seen.ended == 1);
    pk_promise_done(seen.promise, NULL);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(unary_client, a_future_that_nobody_waits_for_cancels_its_call)
{
    struct client_kit kit = open_kit();
    pk_future future = pk_timeout(pk_loop_scope(kit.loop), greet(&kit, "wait", NULL), 50);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_DEADLINE_EXCEEDED);
    WAIT_UNTIL(&kit, seen.ended == 1);
    pk_promise_done(seen.promise, NULL);
    client_kit_close(&kit);
}

static pk_future note(const void *value, void *arg)
{
    strcpy(seen.text, ((const Helloworld__HelloReply *) value)->message);
    return greet(arg, "second", NULL);
}

static pk_future note_again(const void *value, void *arg)
{
    strcat(seen.text, ((const Helloworld__HelloReply *) value)->message);
    return pk_done(value);
}

TEST_BOTH(unary_client, a_reply_lives_until_the_whole_chain_has_run)
{
    struct client_kit kit = open_kit();
    pk_future chain = pk_then(pk_then(greet(&kit, "first", NULL), note, &kit), note_again, NULL);
    const void *value;
    cr_assert_eq(pk_loop_run_until(kit.loop, chain, &value).code, PK_OK);
    cr_assert_str_eq(seen.text, "Hello, firstHello, second");
    cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, "Hello, second");
    client_kit_close(&kit);
}

Test(unary_client, a_lost_connection_fails_what_was_sent_with_UNAVAILABLE)
{
    struct client_kit kit = open_kit();
    pk_future future = greet(&kit, "wait", NULL);
    WAIT_UNTIL(&kit, seen.promise);
    pk_server_free(pk_steal(&kit.server));
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_UNAVAILABLE);
    pk_promise_done(seen.promise, NULL);
    client_kit_close(&kit);
}

Test(unary_client, calls_that_wait_end_with_the_channel)
{
    struct client_kit kit = open_kit();
    pk_future waiting = greet(&kit, "a", NULL); /* nothing has connected yet */
    pk_channel_free(pk_steal(&kit.channel));
    cr_assert_eq(pk_loop_run_until(kit.loop, waiting, NULL).code, PK_UNAVAILABLE);
    client_kit_close(&kit);
}

TEST_BOTH(unary_client, compressed_requests_and_large_messages_arrive)
{
    struct client_kit kit = open_kit();
    static char name[300000];
    memset(name, 'n', sizeof name - 1);
    const char *const ways[] = {NULL, "gzip", "deflate", "identity"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const void *value = NULL;
        const pk_call_opts *opts = PK_CALL_OPTS(.compression = ways[i]);
        cr_assert_eq(pk_loop_run_until(kit.loop, greet(&kit, name, opts), &value).code, PK_OK);
        cr_assert_eq(strlen(((const Helloworld__HelloReply *) value)->message),
                     sizeof name - 1 + strlen("Hello, "));
    }
    client_kit_close(&kit);
}
