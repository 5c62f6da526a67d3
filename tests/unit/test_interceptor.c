/*
 * Interceptors on both sides: their order, what they see and change, short-circuits, waiting, and what
 * ends early meanwhile. A server and a channel on one loop, over a socket and without one.
 */
#include <pekoe/raw.h>

#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"
#include "tests/support/counting_allocator.h"

#include <stdio.h>
#include <stdlib.h>

static char trace[512]; /* what happened, in its order */

static void note(const char *text)
{
    cr_assert_lt(strlen(trace) + strlen(text), sizeof trace);
    strcat(trace, text);
}

/* Turns until it holds; a turn must not wait for the minute that an interceptor may take. */
#define UNTIL(kit, condition)                                                                     \
    do {                                                                                          \
        while (!(condition))                                                                      \
            (void) pk_loop_run_until((kit)->loop, pk_sleep(pk_loop_scope((kit)->loop), 1), NULL); \
    } while (0)

static pk_code last_code;
static unsigned asked, cleaned;
static pk_call *server_call;

/* ---- The server ---- */

static const char identity_key;

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    note("h");
    server_call = call;
    if (strcmp(request->name, "fail") == 0)
        return pk_failed(call, PK_ABORTED, "no luck");
    if (strcmp(request->name, "slow") == 0)
        return pk_sleep(pk_call_scope(call), 60000);
    pk_slice color = pk_metadata_get(pk_call_metadata(call), "x-color");
    (void) !pk_metadata_add(pk_call_headers(call), "x-secret", "1");
    (void) !pk_metadata_add(pk_call_trailers(call), "x-tail", "one");
    const char *who = pk_call_value(call, &identity_key);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "%s%.*s%s", who ? who : "", (int) color.length,
                                    color.bytes ? (const char *) color.bytes : "", request->name);
    return helloworld_hello_reply_done(reply);
}

struct session {
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    unsigned left, count;
};

static pk_future reply_more(const void *unused, void *arg)
{
    struct session *session = arg;
    if (session->left == 0)
        return session->count == 9 ? pk_failed(session->call, PK_ABORTED, "at the end")
                                   : pk_done(NULL);
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char[]){(char) ('0' + session->left--), '\0'};
    return pk_then(helloworld_hello_reply_write(session->out, &reply), reply_more, session);
}

/* As many replies as the name says; 9 are followed by ABORTED. */
static pk_future reply_many(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                            pk_writer *out)
{
    note("h");
    unsigned count = (unsigned) atoi(request->name);
    return reply_more(NULL, pk_call_new(call, struct session, .call = call, .out = out,
                                        .left = count, .count = count));
}

static pk_future add_name(const void *message, void *arg)
{
    struct session *session = arg;
    note(((const Helloworld__HelloRequest *) message)->name);
    session->count++;
    return pk_done(NULL);
}

static pk_future reply_count(const void *unused, void *arg)
{
    struct session *session = arg;
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(session->call);
    reply->message = pk_call_printf(session->call, "%u", session->count);
    return helloworld_hello_reply_done(reply);
}

static pk_future count_all(void *self, pk_call *call, pk_reader *in)
{
    note("h");
    struct session *session = pk_call_new(call, struct session, .call = call);
    return pk_then(pk_reader_each(in, add_name, session), reply_count, session);
}

static pk_future echo_one(const void *message, void *arg)
{
    struct session *session = arg;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = ((const Helloworld__HelloRequest *) message)->name;
    return helloworld_hello_reply_write(session->out, &reply);
}

static pk_future echo(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    note("h");
    return pk_reader_each(in, echo_one, pk_call_new(call, struct session, .out = out));
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                             .it_keeps_replying = reply_many,
                                             .it_keeps_talking = count_all,
                                             .stream_hellos = echo};

static struct client_kit open_kit(void)
{
    trace[0] = '\0';
    last_code = PK_OK;
    asked = cleaned = 0;
    server_call = NULL;
    if (in_process)
        return client_kit_open_in_process(&helloworld_greeter_service, &impl, NULL);
    return client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL, NULL);
}

static void on_server(struct client_kit *kit, pk_interceptor *fn, const char *self)
{
    cr_assert_eq(pk_router_intercept(pk_server_router(kit->server), fn, (void *) (uintptr_t) self),
                 0);
}

static void on_client(struct client_kit *kit, pk_interceptor *fn, const char *self)
{
    cr_assert_eq(pk_channel_intercept(kit->channel, fn, (void *) (uintptr_t) self), 0);
}

static pk_future greet(struct client_kit *kit, const char *name, const pk_call_opts *opts)
{
    char copy[32]; /* gone when the stub has returned */
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    strcpy(copy, name);
    request.name = copy;
    pk_future future = helloworld_greeter_say_hello(kit->channel, &request, opts);
    memset(copy, '#', sizeof copy);
    return future;
}

static pk_status greeted(struct client_kit *kit, const char *name, const pk_call_opts *opts,
                         const char *expected)
{
    const void *value = NULL;
    pk_status status = pk_loop_run_until(kit->loop, greet(kit, name, opts), &value);
    if (expected) {
        cr_assert_eq(status.code, PK_OK, "%.*s", (int) status.message.length,
                     (const char *) status.message.bytes);
        cr_assert_str_eq(((const Helloworld__HelloReply *) value)->message, expected);
    }
    return status;
}

/* ---- Interceptors that leave a trace ---- */

static pk_future leave(const void *value, void *arg)
{
    note(")");
    note(arg);
    return pk_done(value);
}

static pk_future leave_failed(const pk_status *status, void *arg)
{
    note("!");
    note(arg);
    last_code = status->code;
    return pk_failed_with(status);
}

static pk_future around(void *self, pk_call *call, pk_next *next)
{
    note(self);
    note("(");
    asked++;
    return pk_recover(pk_then(pk_next_run(next), leave, self), leave_failed, self);
}

/* The reply of the last read, or NULL at the end. */
static const char *read_one(struct client_kit *kit, pk_reader *in)
{
    const void *message = NULL;
    last_code = pk_loop_run_until(kit->loop, pk_reader_read(in), &message).code;
    return message ? ((const Helloworld__HelloReply *) message)->message : NULL;
}

static pk_reader *many(struct client_kit *kit, const char *count)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) count;
    return helloworld_greeter_it_keeps_replying(kit->channel, &request, NULL);
}

TEST_BOTH(interceptor, the_first_one_is_the_outermost_on_both_sides_in_all_styles)
{
    struct client_kit kit = open_kit();
    on_server(&kit, around, "s");
    on_server(&kit, around, "t");
    on_client(&kit, around, "a");
    on_client(&kit, around, "b");
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    trace[0] = '\0';
    cr_assert_eq(greeted(&kit, "fail", NULL, NULL).code, PK_ABORTED);
    cr_assert_str_eq(trace, "a(b(s(t(h!t!s!b!a");
    trace[0] = '\0';
    pk_reader *in = many(&kit, "1");
    cr_assert_str_eq(read_one(&kit, in), "1");
    cr_assert_null(read_one(&kit, in));
    cr_assert_eq(last_code, PK_OK);
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    pk_reader_unref(in);
    trace[0] = '\0';
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply, NULL).code, PK_OK);
    pk_writer_unref(out);
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    trace[0] = '\0';
    in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    pk_writer_end(out);
    cr_assert_null(read_one(&kit, in));
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

static pk_future generic(void *self, pk_call *call, pk_slice request)
{
    note("g");
    pk_slice *copy = pk_call_alloc(call, sizeof *copy);
    *copy = request;
    return pk_done(copy);
}

static pk_future raw_once(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    note("r");
    return pk_done(NULL);
}

Test(interceptor, routers_that_are_put_together_keep_their_own_inside)
{
    pk_loop *loop;
    pk_router *whole, *part;
    pk_channel *channel;
    trace[0] = '\0';
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&whole, loop, NULL), 0);
    cr_assert_eq(pk_router_new(&part, loop, NULL), 0);
    cr_assert_eq(pk_router_intercept(whole, around, (void *) "w"), 0);
    cr_assert_eq(pk_router_intercept(part, around, (void *) "p"), 0);
    cr_assert_eq(helloworld_greeter_route(part, &impl, NULL), 0);
    cr_assert_eq(pk_router_intercept(part, around, (void *) "q"), 0);
    cr_assert_eq(pk_router_concat(whole, part), 0);
    pk_router_free(part);
    /* Those that come later stand around what was added before. */
    cr_assert_eq(pk_router_intercept(whole, around, (void *) "v"), 0);
    cr_assert_eq(pk_channel_new_in_process(&channel, whole), 0);
    struct client_kit kit = {.loop = loop, .channel = channel};
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "w(v(p(q(h)q)p)v)w");
    trace[0] = '\0';
    /* The generic handler has the router's own. */
    pk_router_set_generic(whole, generic, NULL);
    pk_slice bytes = PK_SLICE("abc");
    const void *value;
    cr_assert_eq(
        pk_loop_run_until(loop, pk_call_generic(channel, "/a.B/C", bytes, NULL), &value).code,
        PK_OK);
    cr_assert(says(*(const pk_slice *) value, "abc"));
    cr_assert_str_eq(trace, "w(v(g)v)w");
    trace[0] = '\0';
    cr_assert_eq(pk_router_intercept(whole, around, (void *) "u"), 0);
    cr_assert_eq(
        pk_loop_run_until(loop, pk_call_generic(channel, "/a.B/C", bytes, NULL), NULL).code, PK_OK);
    cr_assert_str_eq(trace, "w(v(u(g)u)v)w");
    trace[0] = '\0';
    pk_router_set_raw(whole, raw_once, NULL);
    pk_writer *out;
    pk_reader *in = pk_call_raw(channel, "/a.B/C", NULL, &out, NULL);
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(loop, pk_reader_read(in), NULL).code, PK_OK);
    cr_assert_str_eq(trace, "w(v(u(r)u)v)w");
    pk_reader_unref(in);
    pk_writer_unref(out);
    /* A path that nobody has is pekoe's own to refuse. */
    trace[0] = '\0';
    pk_router_set_raw(whole, NULL, NULL);
    cr_assert_eq(
        pk_loop_run_until(loop, pk_call_generic(channel, "/a.B/C", bytes, NULL), NULL).code,
        PK_UNIMPLEMENTED);
    cr_assert_str_eq(trace, "");
    pk_channel_free(channel);
    pk_router_free(whole);
    pk_loop_free(loop);
}

/* ---- Metadata, values, messages ---- */

static pk_future change_tail(const void *value, void *arg)
{
    pk_call *call = arg;
    cr_assert_eq(pk_metadata_remove(pk_call_headers(call), "X-Secret"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-head", "h"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_trailers(call), "x-tail", "two"), 0);
    return pk_done(value);
}

/* The handler sees another color, and who calls; the peer other fields. */
static pk_future server_edits(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_metadata_remove((pk_metadata *) (uintptr_t) pk_call_metadata(call), "x-color"),
                 PK_ERR_STATE, "what was received is not changed by accident");
    pk_metadata *metadata = pk_call_edit_metadata(call);
    cr_assert_eq(pk_call_edit_metadata(call), metadata);
    cr_assert(says(pk_metadata_get(metadata, "x-color"), "red"));
    cr_assert(says(pk_metadata_get(metadata, "x-other"), "o"));
    cr_assert_eq(pk_metadata_remove(metadata, "x-color"), 0);
    cr_assert_eq(pk_metadata_add(metadata, "x-color", "blue "), 0);
    cr_assert_eq(pk_call_set_value(call, &identity_key, (void *) "nobody"), 0);
    cr_assert_eq(pk_call_set_value(call, &identity_key, (void *) "ann:"), 0);
    cr_assert_null(pk_call_value(call, &trace));
    return pk_then(pk_next_run(next), change_tail, call);
}

static pk_future edit_response(const void *value, void *arg)
{
    pk_call *call = arg;
    cr_assert(says(pk_metadata_get(pk_call_metadata(call), "x-head"), "h"));
    cr_assert_null(pk_metadata_get(pk_call_metadata(call), "x-secret").bytes);
    cr_assert(says(pk_metadata_get_last(pk_call_received_trailers(call), "x-tail"), "two"));
    cr_assert_eq(pk_metadata_add(pk_call_edit_metadata(call), "x-head", "more"), 0);
    cr_assert_eq(pk_metadata_remove(pk_call_edit_received_trailers(call), "x-tail"), 0);
    return pk_done(value);
}

static pk_future client_edits(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_metadata_remove(pk_call_headers(call), "x-color"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-color", "red"), 0);
    return pk_then(pk_next_run(next), edit_response, call);
}

TEST_BOTH(interceptor, metadata_can_be_seen_and_changed_in_both_directions)
{
    struct client_kit kit = open_kit();
    on_server(&kit, server_edits, NULL);
    on_client(&kit, client_edits, NULL);
    pk_call *call;
    const char *const fields[] = {"x-color", "green", "x-other", "o", NULL};
    greeted(&kit, "x", PK_CALL_OPTS(.fields = fields, .call = &call), "ann:bluex");
    cr_assert(says(pk_metadata_get_last(pk_call_metadata(call), "x-head"), "more"));
    cr_assert_null(pk_metadata_get(pk_call_received_trailers(call), "x-tail").bytes);
    pk_call_unref(call);
    client_kit_close(&kit);
}

static pk_future answer_twice(const void *value, void *arg)
{
    const Helloworld__HelloReply *reply = value;
    Helloworld__HelloReply *other = helloworld_hello_reply_new(arg);
    other->message = pk_call_printf(arg, "%s%s", reply->message, reply->message);
    return helloworld_hello_reply_done(other);
}

/* Requests get a letter in front, replies are said twice. */
static pk_future change_messages(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_request_type(call), &helloworld_hello_request_type);
    cr_assert_eq(pk_call_reply_type(call), &helloworld_hello_reply_type);
    const Helloworld__HelloRequest *request = pk_next_request(next);
    Helloworld__HelloRequest *other = pk_call_new(call, Helloworld__HelloRequest);
    helloworld__hello_request__init(other);
    other->name = pk_call_printf(call, "%s%s", (const char *) self, request->name);
    return pk_then(pk_next_run_with(next, other), answer_twice, call);
}

TEST_BOTH(interceptor, requests_and_replies_can_be_replaced)
{
    struct client_kit kit = open_kit();
    on_client(&kit, change_messages, "a");
    on_client(&kit, change_messages, "b");
    greeted(&kit, "x", NULL, "baxbaxbaxbax");
    on_server(&kit, change_messages, "s");
    greeted(&kit, "x", NULL, "sbaxsbaxsbaxsbaxsbaxsbaxsbaxsbax");
    client_kit_close(&kit);
}

static pk_future wrong_request(void *self, pk_call *call, pk_next *next)
{
    return pk_next_run_with(next, helloworld_hello_reply_new(call));
}

static pk_future wrong_reply(void *self, pk_call *call, pk_next *next)
{
    Helloworld__HelloRequest *other = pk_call_new(call, Helloworld__HelloRequest);
    helloworld__hello_request__init(other);
    return pk_done(strcmp(self, "null") == 0 ? NULL : other);
}

static pk_future run_twice(void *self, pk_call *call, pk_next *next)
{
    pk_detach(pk_next_run(next));
    return pk_next_run(next);
}

TEST_BOTH(interceptor, what_an_interceptor_must_not_do_is_INTERNAL)
{
    static const struct {
        pk_interceptor *fn;
        const char *self;
    } wrongs[] = {{wrong_request, ""}, {wrong_reply, "null"}, {wrong_reply, "x"}, {run_twice, ""}};
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        struct client_kit kit = open_kit();
        on_server(&kit, wrongs[i].fn, wrongs[i].self);
        cr_assert_eq(greeted(&kit, "x", NULL, NULL).code, PK_INTERNAL, "server, %zu", i);
        client_kit_close(&kit);
        kit = open_kit();
        on_client(&kit, wrongs[i].fn, wrongs[i].self);
        cr_assert_eq(greeted(&kit, "x", NULL, NULL).code, PK_INTERNAL, "client, %zu", i);
        client_kit_close(&kit);
    }
}

/* ---- Short circuits and statuses ---- */

static pk_future refuse(void *self, pk_call *call, pk_next *next)
{
    return pk_failed(call, PK_UNAUTHENTICATED, "who are you?");
}

static pk_future answer_here(void *self, pk_call *call, pk_next *next)
{
    if (!pk_next_request(next))
        return pk_done(NULL);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "cached");
    return helloworld_hello_reply_done(reply);
}

static pk_future forgive(const pk_status *status, void *arg)
{
    if (status->code != PK_ABORTED)
        return pk_failed_with(status);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(arg);
    reply->message = pk_call_printf(arg, "forgiven");
    return helloworld_hello_reply_done(reply);
}

static pk_future forgives(void *self, pk_call *call, pk_next *next)
{
    return pk_recover(pk_next_run(next), forgive, call);
}

static pk_future deny(const void *value, void *arg)
{
    return pk_failed(arg, PK_DATA_LOSS, "lost on the way");
}

static pk_future deny_failed(const pk_status *status, void *arg)
{
    return pk_failed(arg, PK_OUT_OF_RANGE, "was %s", pk_code_name(status->code));
}

static pk_future denies(void *self, pk_call *call, pk_next *next)
{
    return pk_then(pk_recover(pk_next_run(next), deny_failed, call), deny, call);
}

TEST_BOTH(interceptor, calls_are_answered_without_the_rest_and_statuses_replaced)
{
    static const struct {
        pk_interceptor *fn;
        const char *name, *reply;
        pk_code code;
        bool handled;
    } cases[] = {{refuse, "x", NULL, PK_UNAUTHENTICATED, false},
                 {answer_here, "x", "cached", PK_OK, false},
                 {forgives, "fail", "forgiven", PK_OK, true},
                 {forgives, "x", "x", PK_OK, true},
                 {denies, "x", NULL, PK_DATA_LOSS, true},
                 {denies, "fail", NULL, PK_OUT_OF_RANGE, true}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct client_kit kit = open_kit();
        pk_interceptor *fn = cases[i / 2].fn;
        if (i % 2)
            on_client(&kit, fn, NULL);
        else
            on_server(&kit, fn, NULL);
        pk_call *call;
        pk_status status =
            greeted(&kit, cases[i / 2].name, PK_CALL_OPTS(.call = &call), cases[i / 2].reply);
        cr_assert_eq(status.code, cases[i / 2].code, "%zu: %d", i, status.code);
        cr_assert_eq(pk_call_status(call)->code, status.code);
        cr_assert_eq(strchr(trace, 'h') != NULL, cases[i / 2].handled, "%zu", i);
        pk_call_unref(call);
        client_kit_close(&kit);
    }
}

TEST_BOTH(interceptor, the_status_of_a_stream_is_replaced_behind_its_messages)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client_kit kit = open_kit();
        if (i)
            on_client(&kit, denies, NULL);
        else
            on_server(&kit, denies, NULL);
        pk_reader *in = many(&kit, "2");
        cr_assert_str_eq(read_one(&kit, in), "2");
        cr_assert_str_eq(read_one(&kit, in), "1");
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_DATA_LOSS);
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_DATA_LOSS, "again");
        pk_reader_unref(in);
        in = many(&kit, "9");
        for (unsigned j = 0; j < 9; j++)
            cr_assert_not_null(read_one(&kit, in));
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_OUT_OF_RANGE);
        pk_reader_unref(in);
        client_kit_close(&kit);
    }
}

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

TEST_BOTH(interceptor, the_reply_may_be_that_of_another_call)
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

TEST_BOTH(interceptor, it_may_wait_before_the_rest_and_the_request_stays)
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

TEST_BOTH(interceptor, a_stream_is_written_while_it_waits)
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

TEST_BOTH(interceptor, a_deadline_ends_what_waits_before_and_behind_the_rest_once)
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

TEST_BOTH(interceptor, a_cancel_ends_what_waits_before_and_behind_the_rest_once)
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

TEST_BOTH(interceptor, a_stream_given_up_while_it_waits_is_cleaned_up_once)
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

TEST_BOTH(interceptor, the_rest_can_be_dropped_and_answered_in_place_of)
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

Test(interceptor, a_call_that_it_makes_first_ends_with_the_call)
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

/* ---- Streams ---- */

static pk_future mark_read(void *self, pk_call *call, const void *message)
{
    note("<");
    note(self);
    /* The message is the call's own: it may be changed. */
    if (pk_call_request_type(call) && ((const ProtobufCMessage *) message)->descriptor ==
                                          pk_call_request_type(call)->descriptor) {
        Helloworld__HelloRequest *request = (void *) (uintptr_t) message;
        request->name = pk_call_printf(call, "%s%s", request->name, (const char *) self);
        return pk_done(request);
    }
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(
        call, "%s%s", ((const Helloworld__HelloReply *) message)->message, (const char *) self);
    return pk_done(reply);
}

static pk_future mark_written(void *self, pk_call *call, const void *message)
{
    note(">");
    note(self);
    return pk_done(message);
}

static pk_future watches(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_filter_reads(call, mark_read, self), 0);
    cr_assert_eq(pk_call_filter_writes(call, mark_written, self), 0);
    return pk_next_run(next);
}

TEST_BOTH(interceptor, messages_of_streams_pass_filters_in_the_order_of_interceptors)
{
    struct client_kit kit = open_kit();
    on_server(&kit, watches, "s");
    on_server(&kit, watches, "t");
    on_client(&kit, watches, "a");
    on_client(&kit, watches, "b");
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "x";
    pk_detach(helloworld_hello_request_write(out, &request));
    cr_assert_str_eq(read_one(&kit, in), "xstba");
    pk_writer_end(out);
    cr_assert_null(read_one(&kit, in));
    cr_assert_str_eq(trace, ">a>bh<s<t>t>s<b<a");
    pk_reader_unref(in);
    pk_writer_unref(out);
    /* The side that is no stream goes another way. */
    trace[0] = '\0';
    in = many(&kit, "1");
    cr_assert_str_eq(read_one(&kit, in), "1ba");
    cr_assert_null(read_one(&kit, in));
    cr_assert_str_eq(trace, "h>t>s<b<a");
    pk_reader_unref(in);
    trace[0] = '\0';
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "h");
    client_kit_close(&kit);
}

static pk_future filter_badly(void *self, pk_call *call, const void *message)
{
    const char *how = self;
    if (strcmp(how, "fail") == 0)
        return pk_failed(call, PK_DATA_LOSS, "filtered");
    return strcmp(how, "wait") == 0 ? pk_sleep(pk_call_scope(call), 1) : pk_done(NULL);
}

static pk_future filters_reads(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_filter_reads(call, filter_badly, self), 0);
    return pk_next_run(next);
}

static pk_future filters_writes(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_filter_writes(call, filter_badly, self), 0);
    return pk_next_run(next);
}

TEST_BOTH(interceptor, a_filter_refuses_messages)
{
    static const char *const ways[] = {"fail", "wait", "null"};
    for (unsigned i = 0; i < 12; i++) {
        struct client_kit kit = open_kit();
        pk_interceptor *fn = i % 2 ? filters_reads : filters_writes;
        if (i / 2 % 2)
            on_client(&kit, fn, ways[i / 4]);
        else
            on_server(&kit, fn, ways[i / 4]);
        on_client(&kit, around, "a");
        pk_code expected = i / 4 == 0 ? PK_DATA_LOSS : PK_INTERNAL;
        pk_writer *out;
        pk_reader *in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
        Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
        request.name = (char *) "x";
        pk_status status =
            pk_loop_run_until(kit.loop, helloworld_hello_request_write(out, &request), NULL);
        if (i % 4 == 2) { /* a client's writes */
            cr_assert_eq(status.code, expected, "%u", i);
            pk_call_cancel(pk_reader_call(in));
            expected = PK_CANCELLED;
        }
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, expected, "%u: %d", i, last_code);
        pk_reader_unref(in);
        pk_writer_unref(out);
        client_kit_close(&kit);
    }
}

static pk_future raw_copy(const void *message, void *arg)
{
    return pk_writer_write(arg, message);
}

static pk_future raw_echo(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, raw_copy, out);
}

static pk_future raw_mark(void *self, pk_call *call, const void *message)
{
    const pk_raw_message *raw = message;
    cr_assert_null(pk_call_request_type(call));
    pk_raw_message *other = pk_call_new(call, pk_raw_message);
    const char *text = pk_call_printf(call, "%.*s%s", (int) raw->bytes.length,
                                      (const char *) raw->bytes.bytes, (const char *) self);
    other->bytes = (pk_slice){(const uint8_t *) text, strlen(text)};
    return pk_done(other);
}

static pk_future raw_watches(void *self, pk_call *call, pk_next *next)
{
    cr_assert_null(pk_next_request(next));
    cr_assert_eq(pk_call_filter_reads(call, raw_mark, (void *) (strcmp(self, "s") ? "r" : "R")), 0);
    cr_assert_eq(pk_call_filter_writes(call, raw_mark, (void *) (strcmp(self, "s") ? "w" : "W")),
                 0);
    return pk_next_run(next);
}

TEST_BOTH(interceptor, raw_streams_have_filters_too)
{
    struct client_kit kit = open_kit();
    pk_router_set_raw(pk_server_router(kit.server), raw_echo, NULL);
    on_server(&kit, raw_watches, "s");
    on_client(&kit, raw_watches, "c");
    pk_writer *out;
    pk_reader *in = pk_call_raw(kit.channel, "/a.B/C", NULL, &out, NULL);
    pk_detach(pk_writer_write(out, &(pk_raw_message){.bytes = PK_SLICE("x")}));
    const void *message;
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_reader_read(in), &message).code, PK_OK);
    cr_assert(says(((const pk_raw_message *) message)->bytes, "xwRWr"));
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

/* ---- Together with the rest of the channel ---- */

static pk_future fails_once(void *self, pk_call *call, pk_next *next)
{
    note("s");
    return strlen(trace) < 4 ? pk_failed(call, PK_UNAVAILABLE, "not yet") : pk_next_run(next);
}

Test(interceptor, a_call_that_is_tried_again_is_one_call_to_it)
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

Test(interceptor, a_call_that_is_hedged_is_one_call_to_it)
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

Test(interceptor, a_call_that_cannot_be_made_is_not_shown)
{
    in_process = true;
    struct client_kit kit = open_kit();
    on_client(&kit, around, "a");
    cr_assert_eq(greeted(&kit, "x", PK_CALL_OPTS(.compression = "brotli"), NULL).code, PK_INTERNAL);
    cr_assert_eq(greeted(&kit, "x", PK_CALL_OPTS(.deadline = 1), NULL).code, PK_DEADLINE_EXCEEDED);
    cr_assert_eq(asked, 0u);
    client_kit_close(&kit);
}

Test(interceptor, gRPC_Web_calls_are_intercepted_too)
{
    pk_loop *loop;
    pk_router *router;
    trace[0] = '\0';
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, PK_ROUTER_OPTS(.grpc_web = true)), 0);
    cr_assert_eq(helloworld_greeter_route(router, &impl, NULL), 0);
    cr_assert_eq(pk_router_intercept(router, around, (void *) "s"), 0);
    cr_assert_eq(pk_router_intercept(router, refuse, NULL), 0);
    pk_test_exchange *x = pk_test_exchange_new(
        router, &(pk_test_request){.path = "/helloworld.Greeter/SayHello",
                                   .content_type = "application/grpc-web+proto"});
    pk_test_exchange_send(x, "\0\0\0\0\0", 5);
    pk_test_exchange_end(x);
    cr_assert(pk_test_exchange_finished(x));
    const char *code = pk_test_exchange_field(x, "grpc-status");
    pk_slice body = pk_test_exchange_body(x);
    cr_assert(code ? strcmp(code, "16") == 0
                   : memmem(body.bytes, body.length, "grpc-status:16", 14) != NULL);
    cr_assert_str_eq(trace, "s(!s");
    pk_test_exchange_free(x);
    pk_router_free(router);
    pk_loop_free(loop);
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

Test(interceptor, each_allocation_may_fail)
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
