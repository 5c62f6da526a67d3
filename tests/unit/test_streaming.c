/* handlers/streaming/streaming.c: the three kinds of streaming calls, and all their ends. */
#include <pekoe/pekoe.h>

#include "tests/support/stream_kit.h"

/* ---- Handlers that do what the test says ---- */

struct script {
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    pk_promise *end;     /* the handler's own, where it waits */
    const char *request; /* of a server-streaming call */
    unsigned calls;
    unsigned ended;     /* how often the clean-up ran */
    bool settled_first; /* the handler's own steps ran before the clean-up */
    unsigned finally;
    bool token; /* pk_call_cancelled was done */
};

static void clean_up(void *arg)
{
    struct script *s = arg;
    s->ended++;
    s->settled_first = s->finally > 0;
}

static void settled(void *arg)
{
    ((struct script *) arg)->finally++;
}

static pk_future token_done(const void *value, void *arg)
{
    ((struct script *) arg)->token = true;
    return pk_done(NULL);
}

static void begin(struct script *s, pk_call *call, pk_reader *in, pk_writer *out)
{
    s->call = call;
    s->in = in;
    s->out = out;
    s->calls++;
    cr_assert_eq(pk_call_on_end(call, clean_up, s), 0);
    pk_detach(pk_then(pk_call_cancelled(call), token_done, s));
}

static pk_future wait_for_test(struct script *s)
{
    s->end = pk_promise_new(pk_call_scope(s->call));
    return pk_finally(pk_promise_future(s->end), settled, s);
}

static pk_future talking(void *self, pk_call *call, pk_reader *in)
{
    begin(self, call, in, NULL);
    return wait_for_test(self);
}

static pk_future replying(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                          pk_writer *out)
{
    struct script *s = self;
    begin(s, call, NULL, out);
    s->request = request->name;
    return wait_for_test(s);
}

static pk_future hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    begin(self, call, in, out);
    return wait_for_test(self);
}

static const helloworld_greeter_impl scripted = {
    .it_keeps_talking = talking, .it_keeps_replying = replying, .stream_hellos = hellos};

static void write_text(struct script *s, const char *text)
{
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char *) (uintptr_t) text;
    pk_future future = helloworld_hello_reply_write(s->out, &reply);
    cr_assert_eq(future.state, (uint32_t) PK_FUTURE_DONE);
}

static void finish(struct script *s, const void *value)
{
    cr_assert_eq(pk_promise_done(s->end, value), 0);
    pk_loop_end_turn(pk_call_loop(s->call));
}

static void fail(struct script *s, pk_code code, const char *text)
{
    cr_assert_eq(pk_promise_fail(s->end, code, "%s", text), 0);
    pk_loop_end_turn(pk_call_loop(s->call));
}

/* ---- When the handler is asked ---- */

Test(streaming, handlers_that_read_start_at_the_head)
{
    for (int i = 0; i < 2; i++) {
        kit k;
        struct script s = {0};
        kit_open(&k, &scripted, &s);
        pk_test_exchange *x = kit_call(&k, i ? HELLOS : TALKING);
        cr_assert_eq(s.calls, 1u);
        cr_assert_not_null(s.in);
        cr_assert_eq(s.out != NULL, i == 1);
        pk_test_exchange_free(x);
        cr_assert_eq(s.ended, 1u);
        cr_assert_eq(pk_promise_done(s.end, NULL), PK_ERR_TOO_LATE);
        kit_close(&k);
    }
}

Test(streaming, a_server_streaming_handler_starts_when_its_request_is_complete)
{
    kit k;
    struct script s = {0};
    kit_open(&k, &scripted, &s);
    pk_test_exchange *x = kit_call(&k, REPLYING);
    kit_send(x, "request");
    cr_assert_eq(s.calls, 0u);
    pk_test_exchange_end(x);
    cr_assert_eq(s.calls, 1u);
    cr_assert_str_eq(s.request, "request");
    write_text(&s, "one");
    finish(&s, NULL);
    cr_assert_str_eq(kit_replies(x), "one");
    cr_assert_str_eq(kit_status(x), "0");
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(streaming, a_server_streaming_request_has_one_message)
{
    for (int messages = 0; messages <= 2; messages += 2) {
        kit k;
        struct script s = {0};
        kit_open(&k, &scripted, &s);
        pk_test_exchange *x = kit_call(&k, REPLYING);
        for (int i = 0; i < messages; i++)
            kit_send(x, "m");
        if (!pk_test_exchange_finished(x))
            pk_test_exchange_end(x);
        cr_assert_str_eq(kit_status(x), "12");
        cr_assert_eq(s.calls, 0u);
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

Test(streaming, a_request_without_a_body_has_no_messages)
{
    static const char *const paths[] = {TALKING, REPLYING, HELLOS};
    for (int i = 0; i < 3; i++) {
        kit k;
        struct script s = {0};
        kit_open(&k, &scripted, &s);
        pk_test_exchange *x = pk_test_exchange_new(
            k.router, &(pk_test_request){
                          .path = paths[i], .content_type = "application/grpc", .ended = true});
        if (i == 1) {
            cr_assert_str_eq(kit_status(x), "12");
        } else {
            pk_future read = pk_reader_read(s.in);
            cr_assert_eq(read.state, (uint32_t) PK_FUTURE_DONE);
            cr_assert_null(read.pointer);
            fail(&s, PK_ABORTED, "");
            cr_assert_str_eq(kit_status(x), "10");
        }
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

Test(streaming, a_missing_handler_is_unimplemented)
{
    static const char *const paths[] = {TALKING, REPLYING, HELLOS};
    static const helloworld_greeter_impl nothing = {.say_hello = NULL};
    for (int i = 0; i < 3; i++) {
        kit k;
        kit_open(&k, &nothing, NULL);
        pk_test_exchange *x = kit_call(&k, paths[i]);
        if (i == 1) {
            kit_send(x, "m");
            pk_test_exchange_end(x);
        }
        cr_assert_str_eq(kit_status(x), "12");
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

/* ---- How the handler ends the call ---- */

Test(streaming, a_client_streaming_reply_is_the_handlers_value)
{
    kit k;
    struct script s = {0};
    kit_open(&k, &scripted, &s);
    pk_test_exchange *x = kit_call(&k, TALKING);
    kit_send(x, "unread");
    cr_assert_eq(pk_metadata_add(pk_call_headers(s.call), "x-head", "1"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_trailers(s.call), "x-tail", "2"), 0);
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char[]){"all"};
    finish(&s, &reply);
    cr_assert_str_eq(kit_replies(x), "all");
    cr_assert_str_eq(kit_status(x), "0");
    cr_assert_str_eq(pk_test_exchange_field(x, "x-head"), "1");
    cr_assert_str_eq(pk_test_exchange_field(x, "x-tail"), "2");
    kit_send(x, "after the end");
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(streaming, a_client_streaming_reply_of_null_is_internal)
{
    kit k;
    struct script s = {0};
    kit_open(&k, &scripted, &s);
    pk_test_exchange *x = kit_call(&k, TALKING);
    finish(&s, NULL);
    cr_assert_str_eq(kit_status(x), "13");
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(streaming, a_stream_may_be_empty)
{
    static const char *const paths[] = {REPLYING, HELLOS};
    for (int i = 0; i < 2; i++) {
        kit k;
        struct script s = {0};
        kit_open(&k, &scripted, &s);
        pk_test_exchange *x = kit_call(&k, paths[i]);
        if (i == 0)
            kit_send(x, "m");
        pk_test_exchange_end(x);
        finish(&s, NULL);
        cr_assert_eq(pk_test_exchange_http_status(x), 200u);
        cr_assert_str_eq(kit_status(x), "0");
        cr_assert_eq(pk_test_exchange_body(x).length, 0u);
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

Test(streaming, a_failure_is_sent_wherever_the_response_stands)
{
    /* Before anything, after the head, after a message. */
    for (int stands = 0; stands < 3; stands++) {
        kit k;
        struct script s = {0};
        kit_open(&k, &scripted, &s);
        pk_test_exchange *x = kit_call(&k, HELLOS);
        cr_assert_eq(pk_metadata_add(pk_call_trailers(s.call), "x-tail", "2"), 0);
        if (stands == 1)
            cr_assert_eq(pk_writer_send_headers(s.out), 0);
        if (stands == 2)
            write_text(&s, "one");
        fail(&s, PK_DATA_LOSS, "lost & found");
        cr_assert_str_eq(kit_status(x), "15");
        cr_assert_str_eq(pk_test_exchange_field(x, "grpc-message"), "lost & found");
        cr_assert_str_eq(pk_test_exchange_field(x, "x-tail"), "2");
        cr_assert_str_eq(kit_replies(x), stands == 2 ? "one" : "");
        cr_assert_eq(s.ended, 1u);
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

static const pk_status *to_unavailable(void *self, pk_call *call, const pk_status *status)
{
    static const pk_status mapped = {PK_UNAVAILABLE, {NULL, 0}, {NULL, 0}};
    return status->code == PK_DATA_LOSS ? &mapped : status;
}

Test(streaming, the_error_handler_maps_what_the_application_failed_with)
{
    kit k;
    struct script s = {0};
    kit_open(&k, &scripted, &s);
    pk_router_set_error_handler(k.router, to_unavailable, NULL);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    write_text(&s, "one");
    fail(&s, PK_DATA_LOSS, "");
    cr_assert_str_eq(kit_status(x), "14");
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Ends from outside ---- */

Test(streaming, every_end_runs_the_clean_up_once_and_after_the_handlers_steps)
{
    static const char *const paths[] = {TALKING, REPLYING, HELLOS};
    static const struct {
        const char *name;
        const char *status; /* as sent */
        bool token;         /* pk_call_cancelled is done */
    } ends[] = {{"done", "0", false},
                {"failed", "9", false},
                {"cancelled by the peer", "none", true},
                {"deadline", "4", true},
                {"cancelled", "1", true}};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        for (int i = 0; i < 3; i++) {
            for (int started = 0; started < (i == 0 ? 1 : 2); started++) {
                kit k;
                struct script s = {0};
                kit_open(&k, &scripted, &s);
                pk_test_clock_freeze(k.loop);
                const char *const fields[] = {"grpc-timeout", "100m", NULL};
                pk_test_exchange *x = kit_call_with(&k, paths[i], fields);
                if (i == 1) {
                    kit_send(x, "m");
                    pk_test_exchange_end(x);
                }
                if (started)
                    write_text(&s, "one");
                Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
                if (e == 0)
                    finish(&s, i == 0 ? &reply : NULL);
                else if (e == 1)
                    fail(&s, PK_FAILED_PRECONDITION, "");
                else if (e == 2)
                    pk_test_exchange_cancel(x);
                else if (e == 4)
                    pk_call_cancel(s.call);
                if (e == 3)
                    pk_test_clock_advance(k.loop, 100);
                pk_loop_end_turn(k.loop);
                cr_assert_str_eq(kit_status(x), ends[e].status, "%s", ends[e].name);
                cr_assert_eq(s.ended, 1u, "%s", ends[e].name);
                cr_assert_eq(s.finally, 1u);
                cr_assert(s.settled_first);
                cr_assert_eq(s.token, ends[e].token, "%s", ends[e].name);
                if (e >= 2)
                    cr_assert_eq(pk_promise_done(s.end, NULL), PK_ERR_TOO_LATE);
                pk_test_exchange_free(x);
                cr_assert_eq(s.ended, 1u);
                kit_close(&k);
            }
        }
    }
}

static pk_future hellos_in_no_time(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_done(NULL);
}

Test(streaming, a_handler_that_reads_nothing_ends_the_call_at_once)
{
    static const helloworld_greeter_impl impl = {.stream_hellos = hellos_in_no_time};
    kit k;
    kit_open(&k, &impl, NULL);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    cr_assert_str_eq(kit_status(x), "0");
    kit_send(x, "late");
    pk_test_exchange_end(x);
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Full duplex: two loops at once ---- */

struct duplex {
    pk_reader *in;
    pk_writer *out;
    unsigned received, sent;
};

static pk_future receive(const void *value, void *arg)
{
    ((struct duplex *) arg)->received++;
    return pk_done(NULL);
}

static pk_future send_more(const void *unused, void *arg)
{
    struct duplex *d = arg;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char[]){"tick"};
    if (d->sent++ == 100)
        return pk_done(NULL);
    return pk_then(helloworld_hello_reply_write(d->out, &reply), send_more, d);
}

static pk_future both_ways(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct duplex *d = self;
    d->in = in;
    d->out = out;
    pk_future loops[] = {pk_reader_each(in, receive, d), send_more(NULL, d)};
    return pk_all(pk_call_scope(call), loops, 2);
}

Test(streaming, reads_and_writes_go_on_side_by_side)
{
    static const helloworld_greeter_impl impl = {.stream_hellos = both_ways};
    kit k;
    struct duplex d = {0};
    kit_open(&k, &impl, &d);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    for (unsigned i = 0; i < 100; i++) {
        kit_send(x, "tock");
        cr_assert_eq(d.received, i + 1);
    }
    cr_assert_str_eq(kit_status(x), "none");
    pk_test_exchange_end(x);
    cr_assert_str_eq(kit_status(x), "0");
    cr_assert_eq(pk_test_exchange_body(x).length, 100u * 11);
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Without memory ---- */

static pk_future echo(const void *value, void *arg)
{
    struct duplex *d = arg;
    const Helloworld__HelloRequest *request = value;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = pk_reader_printf(d->in, "Hello, %s", request->name);
    return helloworld_hello_reply_write(d->out, &reply);
}

static pk_future echoing(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct duplex *d = self;
    d->in = in;
    d->out = out;
    return pk_reader_each(in, echo, d);
}

static pk_future taking(const void *value, void *arg)
{
    struct duplex *d = arg;
    if (!value)
        return pk_done(NULL);
    return pk_then(pk_reader_take(d->in), taking, d);
}

static pk_future take_all(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct duplex *d = self;
    d->in = in;
    return pk_then(pk_reader_take(in), taking, d);
}

Test(streaming, each_allocation_may_fail, .timeout = 60)
{
    static const helloworld_greeter_impl impls[] = {{.stream_hellos = echoing},
                                                    {.stream_hellos = take_all}};
    uint8_t bytes[2 * 8192];
    char name[6001];
    memset(name, 'n', 6000);
    name[6000] = '\0';
    size_t length = kit_frame(bytes, "first");
    length += kit_frame(bytes + length, name);
    length += kit_frame(bytes + length, "last");
    for (size_t i = 0; i < 2; i++) {
        bool failed = true;
        for (size_t fail_at = 1; failed; fail_at++) {
            kit k;
            struct duplex d = {0};
            kit_open(&k, &impls[i], &d);
            size_t before = k.counts.requests;
            pk_test_exchange *x = NULL;
            k.counts.fail_at = before + fail_at;
            x = pk_test_exchange_new(
                k.router, &(pk_test_request){.path = HELLOS, .content_type = "application/grpc"});
            if (x) {
                pk_test_exchange_send(x, bytes, 100);
                pk_test_exchange_send(x, bytes + 100, length - 100);
                pk_test_exchange_end(x);
            }
            failed = k.counts.requests >= k.counts.fail_at;
            k.counts.fail_at = 0;
            if (x && pk_test_exchange_finished(x)) {
                const char *status = kit_status(x);
                cr_assert(strcmp(status, "0") == 0 || strcmp(status, "8") == 0, "%s at %zu", status,
                          fail_at);
            }
            pk_test_exchange_free(x);
            kit_close(&k);
        }
    }
}

/* Reads by steps, so that each message that is waited for has a promise, which is made anew. */
static pk_future echo_next(const void *value, void *arg);

static pk_future read_next(const void *unused, void *arg)
{
    struct duplex *d = arg;
    return pk_then(pk_reader_read(d->in), echo_next, d);
}

static pk_future echo_next(const void *value, void *arg)
{
    return value ? pk_then(echo(value, arg), read_next, arg) : pk_done(NULL);
}

static pk_future echoing_by_steps(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct duplex *d = self;
    d->in = in;
    d->out = out;
    return read_next(NULL, d);
}

/*
 * Short messages that are put together in the reader, some of them with the one before and the one
 * behind in their chunk, read on while the chunk is there; a response that waits for room each time.
 */
Test(streaming, each_allocation_may_fail_where_messages_are_cut, .timeout = 60)
{
    static const helloworld_greeter_impl impls[] = {{.stream_hellos = echoing},
                                                    {.stream_hellos = take_all},
                                                    {.stream_hellos = echoing_by_steps}};
    static const size_t pieces[] = {3, 7, 17, 40, 150};
    uint8_t bytes[1024];
    char long_name[100];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    size_t length = 0;
    for (unsigned i = 0; i < 12; i++)
        length += kit_frame(bytes + length, i % 6 == 4 ? long_name : "short");
    for (size_t way = 0; way < 3 * 5 * 2; way++) {
        size_t piece = pieces[way / 3 % 5];
        bool waits = way / 15 > 0, failed = true;
        for (size_t fail_at = 1; failed; fail_at++) {
            for (unsigned lasts = 0; lasts < 2; lasts++) {
                kit k;
                struct duplex d = {0};
                kit_open(&k, &impls[way % 3], &d);
                k.counts.fail_after = lasts;
                k.counts.fail_at = k.counts.requests + fail_at;
                pk_test_exchange *x = pk_test_exchange_new(
                    k.router,
                    &(pk_test_request){.path = HELLOS, .content_type = "application/grpc"});
                for (size_t at = 0; x && at < length; at += piece) {
                    if (waits)
                        pk_test_exchange_set_room(x, 1);
                    pk_test_exchange_send(x, bytes + at, at + piece < length ? piece : length - at);
                    if (waits)
                        pk_test_exchange_set_room(x, SIZE_MAX);
                }
                if (x)
                    pk_test_exchange_end(x);
                failed = k.counts.requests >= k.counts.fail_at;
                k.counts.fail_at = 0;
                if (x) {
                    const char *status = kit_status(x);
                    cr_assert(!pk_test_exchange_finished(x) || strcmp(status, "8") == 0 ||
                                  strcmp(status, "0") == 0,
                              "%s at %zu", status, fail_at);
                    cr_assert(failed || strcmp(status, "0") == 0, "%s", status);
                }
                pk_test_exchange_free(x);
                kit_close(&k);
            }
        }
    }
}
