/*
 * Calls made for other calls: the proxy of the examples between a client and a server, deadlines
 * and cancels that go through it; and calls of raw bytes.
 */
#include "tests/support/client_kit.h"
#include "tests/support/counting_allocator.h"

#define main proxy_main
int proxy_main(int argc, char **argv);
#include "examples/greeter/proxy.c"
#undef main

static struct {
    unsigned ended; /* calls of the server at the end */
    pk_promise *promise;
    uint64_t time_left;
} seen;

/* ---- The server at the end ---- */

static void count_end(void *arg)
{
    seen.ended++;
}

static pk_future last_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    seen.time_left = pk_call_time_left(call);
    if (strcmp(request->name, "fail") == 0)
        return pk_failed(call, PK_ABORTED, "upstream");
    if (strcmp(request->name, "wait") == 0)
        return pk_promise_future(seen.promise = pk_promise_new(pk_call_scope(call)));
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

struct echo {
    pk_call *call;
    pk_writer *out;
    unsigned count;
};

static pk_future echo_one(const void *message, void *arg)
{
    struct echo *echo = arg;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    echo->count++;
    if (!echo->out)
        return pk_done(NULL);
    reply.message = ((const Helloworld__HelloRequest *) message)->name;
    return helloworld_hello_reply_write(echo->out, &reply);
}

static pk_future last_stream(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    cr_assert_eq(pk_call_on_end(call, count_end, NULL), 0);
    return pk_reader_each(in, echo_one, pk_call_new(call, struct echo, .call = call, .out = out));
}

static pk_future tell_count(const void *unused, void *arg)
{
    struct echo *echo = arg;
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(echo->call);
    reply->message = pk_call_printf(echo->call, "%u", echo->count);
    return helloworld_hello_reply_done(reply);
}

static pk_future last_talk(void *self, pk_call *call, pk_reader *in)
{
    struct echo *echo = pk_call_new(call, struct echo, .call = call);
    return pk_then(pk_reader_each(in, echo_one, echo), tell_count, echo);
}

static pk_future reply_three(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                             pk_writer *out)
{
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = request->name;
    return pk_source_pipe(pk_source_limit(call, pk_source_repeat(call, &reply), 3), out);
}

static const helloworld_greeter_impl last = {.say_hello = last_hello,
                                             .it_keeps_replying = reply_three,
                                             .it_keeps_talking = last_talk,
                                             .stream_hellos = last_stream};

/* ---- Client, proxy, server on one loop ---- */

static struct client_kit kit;
static pk_server *front;
static pk_channel *client;

static void open_all(void)
{
    const char *bound;
    memset(&seen, 0, sizeof seen);
    kit = client_kit_open(&helloworld_greeter_service, &last, NULL, NULL, NULL);
    cr_assert_eq(pk_server_new(&front, kit.loop, NULL), 0);
    cr_assert_eq(helloworld_greeter_serve(front, &proxy, kit.channel), 0);
    cr_assert_eq(pk_server_listen(front, "127.0.0.1:0", &bound), 0);
    cr_assert_eq(pk_channel_new(&client, kit.loop, bound, NULL), 0);
}

static void close_all(void)
{
    pk_channel_free(client);
    pk_server_free(front);
    client_kit_close(&kit);
}

static pk_future hello(const char *name, const pk_call_opts *opts)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) name;
    return helloworld_greeter_say_hello(client, &request, opts);
}

static const char *text_of(const void *reply)
{
    return ((const Helloworld__HelloReply *) reply)->message;
}

Test(client_call, a_proxy_hands_replies_and_statuses_on)
{
    open_all();
    const void *value;
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(pk_loop_run_until(kit.loop, hello("World", NULL), &value).code, PK_OK);
        cr_assert_str_eq(text_of(value), "Hello, World");
    }
    pk_status status = pk_loop_run_until(kit.loop, hello("fail", NULL), NULL);
    cr_assert_eq(status.code, PK_ABORTED);
    cr_assert(says(status.message, "upstream"));
    close_all();
}

Test(client_call, a_proxy_hands_deadlines_and_cancels_on)
{
    open_all();
    pk_status status =
        pk_loop_run_until(kit.loop, hello("wait", PK_CALL_OPTS(.timeout_ms = 100)), NULL);
    cr_assert_eq(status.code, PK_DEADLINE_EXCEEDED);
    cr_assert_gt(seen.time_left, 0);
    cr_assert_leq(seen.time_left, 100000000);
    WAIT_UNTIL(&kit, seen.ended == 1);
    pk_promise_done(pk_steal(&seen.promise), NULL);
    pk_call *call;
    pk_future future = hello("wait", PK_CALL_OPTS(.call = &call));
    WAIT_UNTIL(&kit, seen.promise);
    pk_call_cancel(call);
    WAIT_UNTIL(&kit, seen.ended == 2);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_CANCELLED);
    pk_promise_done(seen.promise, NULL);
    pk_call_unref(call);
    close_all();
}

static pk_future write_name(pk_writer *out, const char *name)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) name;
    return helloworld_hello_request_write(out, &request);
}

Test(client_call, a_proxy_hands_streams_on)
{
    open_all();
    const void *value;
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "x";
    pk_reader *in = helloworld_greeter_it_keeps_replying(client, &request, NULL);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pk_loop_run_until(kit.loop, pk_reader_read(in), &value).code, PK_OK);
        cr_assert_eq(value != NULL, i < 3);
    }
    pk_reader_unref(in);

    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(client, &out, NULL);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(pk_loop_run_until(kit.loop, write_name(out, "y"), NULL).code, PK_OK);
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply, &value).code, PK_OK);
    cr_assert_str_eq(text_of(value), "5");
    pk_writer_unref(out);

    in = helloworld_greeter_stream_hellos(client, &out, NULL);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(pk_loop_run_until(kit.loop, write_name(out, "z"), NULL).code, PK_OK);
        cr_assert_eq(pk_loop_run_until(kit.loop, pk_reader_read(in), &value).code, PK_OK);
        cr_assert_str_eq(text_of(value), "z");
    }
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_reader_read(in), &value).code, PK_OK);
    cr_assert_null(value);
    cr_assert_eq(seen.ended, 1);
    pk_writer_unref(out);
    pk_reader_unref(in);
    close_all();
}

Test(client_call, raw_bytes_go_to_any_path)
{
    open_all();
    const void *value;
    const pk_slice request = PK_SLICE("\x0a\x03"
                                      "Bob");
    pk_future future = pk_call_generic(client, "/helloworld.Greeter/SayHello", request, NULL);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, &value).code, PK_OK);
    const pk_slice *reply = value;
    cr_assert_eq(reply->length, 12);
    cr_assert_eq(memcmp(reply->bytes, "\x0a\x0aHello, Bob", 12), 0);
    future = pk_call_generic(client, "/a.B/C", request, NULL);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_UNIMPLEMENTED);
    static const char *const bad[] = {"no path", "", "/a.B/C D", "/a.B/C#D", "/a.B/\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        future = pk_call_generic(client, bad[i], request, NULL);
        cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_INTERNAL, "%s", bad[i]);
    }
    close_all();
}

Test(client_call, waiters_for_the_cancel_of_a_call_hear_how_it_ended)
{
    open_all();
    pk_call *call;
    pk_future future = hello("World", PK_CALL_OPTS(.call = &call));
    pk_future token = pk_call_cancelled(call);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_OK);
    cr_assert_eq(pk_loop_run_until(kit.loop, token, NULL).code, PK_CANCELLED);
    pk_call_unref(call);
    future = hello("World", PK_CALL_OPTS(.call = &call));
    token = pk_call_cancelled(call);
    pk_call_cancel(call);
    cr_assert_eq(pk_loop_run_until(kit.loop, future, NULL).code, PK_CANCELLED);
    cr_assert_eq(pk_loop_run_until(kit.loop, token, NULL).code, PK_OK);
    pk_call_unref(call);
    close_all();
}

/* ---- Without memory ---- */

/* One call of each kind, the greeter at the other end; whatever comes, all ends. */
static void call_all_styles(struct client_kit *one)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "x";
    const char *const fields[] = {"x-a", "b", NULL};
    const pk_call_opts *opts =
        PK_CALL_OPTS(.timeout_ms = 2000, .fields = fields, .wait_for_ready = true);
    pk_future hello = helloworld_greeter_say_hello(one->channel, &request, opts);
    (void) pk_loop_run_until(one->loop, hello, NULL);
    pk_reader *in = helloworld_greeter_it_keeps_replying(one->channel, &request, opts);
    const void *message;
    do {
        message = NULL;
        (void) pk_loop_run_until(one->loop, pk_reader_read(in), &message);
    } while (message);
    pk_reader_unref(in);
    pk_writer *out;
    in = helloworld_greeter_stream_hellos(one->channel, &out, opts);
    (void) pk_loop_run_until(one->loop, write_name(out, "y"), NULL);
    (void) pk_loop_run_until(one->loop, pk_reader_read(in), NULL);
    pk_writer_end(out);
    pk_writer_unref(out);
    pk_reader_unref(in);
}

static void fail_each_allocation(bool in_process_channel)
{
    bool failed = true;
    for (size_t fail_at = 1; failed && fail_at < 2000; fail_at++) {
        counting_allocator counts = {0};
        struct client_kit one;
        const char *bound;
        cr_assert_eq(pk_loop_new(&one.loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))),
                     0);
        cr_assert_eq(pk_server_new(&one.server, one.loop, NULL), 0);
        cr_assert_eq(helloworld_greeter_serve(one.server, &last, NULL), 0);
        cr_assert_eq(pk_server_listen(one.server, "127.0.0.1:0", &bound), 0);
        counts.fail_at = counts.requests + fail_at;
        int r = in_process_channel
                    ? pk_channel_new_in_process(&one.channel, pk_server_router(one.server))
                    : pk_channel_new(&one.channel, one.loop, bound, NULL);
        if (r == 0)
            call_all_styles(&one);
        failed = counts.requests >= counts.fail_at;
        counts.fail_at = 0;
        if (r == 0 && failed) {
            /* What had no memory has not harmed what comes after it. */
            Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
            request.name = (char *) "again";
            pk_future hello = helloworld_greeter_say_hello(
                one.channel, &request, PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 5000));
            cr_assert_eq(pk_loop_run_until(one.loop, hello, NULL).code, PK_OK, "allocation %zu",
                         fail_at);
        }
        if (r == 0)
            pk_channel_free(one.channel);
        pk_server_free(one.server);
        pk_loop_free(one.loop);
        cr_assert_eq(counts.blocks, 0, "allocation %zu: %zu blocks are left", fail_at,
                     counts.blocks);
    }
    cr_assert(!failed);
}

Test(client_call, a_stream_for_which_there_was_no_memory_can_be_asked_what_it_is)
{
    counting_allocator counts = {.fail_after = true};
    struct client_kit one;
    cr_assert_eq(pk_loop_new(&one.loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))), 0);
    cr_assert_eq(pk_server_new(&one.server, one.loop, NULL), 0);
    cr_assert_eq(pk_channel_new_in_process(&one.channel, pk_server_router(one.server)), 0);
    counts.fail_at = counts.requests + 1;
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(one.channel, &out, NULL);
    cr_assert_str_eq(pk_call_method(pk_reader_call(in)), "");
    cr_assert_eq(pk_loop_run_until(one.loop, pk_reader_read(in), NULL).code, PK_RESOURCE_EXHAUSTED);
    pk_reader_unref(in);
    pk_writer_unref(out);
    counts.fail_at = 0;
    client_kit_close(&one);
    cr_assert_eq(counts.blocks, 0);
}

Test(client_call, each_allocation_may_fail_without_a_socket)
{
    fail_each_allocation(true);
}

Test(client_call, each_allocation_may_fail_over_a_socket)
{
    fail_each_allocation(false);
}
