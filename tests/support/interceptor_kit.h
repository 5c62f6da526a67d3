/*
 * Calls with interceptors under test: a greeter of all four styles and a channel on one loop, and a
 * trace of who was asked when.
 */
#ifndef PEKOE_TESTS_INTERCEPTOR_KIT_H
#define PEKOE_TESTS_INTERCEPTOR_KIT_H

#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"

#include <stdlib.h>

static char trace[512]; /* what happened, in its order */

static inline void note(const char *text)
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
static unsigned asked, cleaned __attribute__((unused));

/* ---- The server ---- */

static const char identity_key;

static inline pk_future say_hello(void *self, pk_call *call,
                                  const Helloworld__HelloRequest *request)
{
    note("h");
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

static inline pk_future reply_more(const void *unused, void *arg)
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
static inline pk_future reply_many(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    note("h");
    unsigned count = (unsigned) atoi(request->name);
    return reply_more(NULL, pk_call_new(call, struct session, .call = call, .out = out,
                                        .left = count, .count = count));
}

static inline pk_future add_name(const void *message, void *arg)
{
    struct session *session = arg;
    note(((const Helloworld__HelloRequest *) message)->name);
    session->count++;
    return pk_done(NULL);
}

static inline pk_future reply_count(const void *unused, void *arg)
{
    struct session *session = arg;
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(session->call);
    reply->message = pk_call_printf(session->call, "%u", session->count);
    return helloworld_hello_reply_done(reply);
}

static inline pk_future count_all(void *self, pk_call *call, pk_reader *in)
{
    note("h");
    struct session *session = pk_call_new(call, struct session, .call = call);
    return pk_then(pk_reader_each(in, add_name, session), reply_count, session);
}

static inline pk_future echo_one(const void *message, void *arg)
{
    struct session *session = arg;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = ((const Helloworld__HelloRequest *) message)->name;
    return helloworld_hello_reply_write(session->out, &reply);
}

static inline pk_future echo(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    note("h");
    return pk_reader_each(in, echo_one, pk_call_new(call, struct session, .out = out));
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                             .it_keeps_replying = reply_many,
                                             .it_keeps_talking = count_all,
                                             .stream_hellos = echo};

static inline struct client_kit open_kit(void)
{
    trace[0] = '\0';
    last_code = PK_OK;
    asked = cleaned = 0;
    if (in_process)
        return client_kit_open_in_process(&helloworld_greeter_service, &impl, NULL);
    return client_kit_open(&helloworld_greeter_service, &impl, NULL, NULL, NULL);
}

static inline void on_server(struct client_kit *kit, pk_interceptor *fn, const char *self)
{
    cr_assert_eq(pk_router_intercept(pk_server_router(kit->server), fn, (void *) (uintptr_t) self),
                 0);
}

static inline void on_client(struct client_kit *kit, pk_interceptor *fn, const char *self)
{
    cr_assert_eq(pk_channel_intercept(kit->channel, fn, (void *) (uintptr_t) self), 0);
}

static inline pk_future greet(struct client_kit *kit, const char *name, const pk_call_opts *opts)
{
    char copy[32]; /* gone when the stub has returned */
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    strcpy(copy, name);
    request.name = copy;
    pk_future future = helloworld_greeter_say_hello(kit->channel, &request, opts);
    memset(copy, '#', sizeof copy);
    return future;
}

static inline pk_status greeted(struct client_kit *kit, const char *name, const pk_call_opts *opts,
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

static inline pk_future leave(const void *value, void *arg)
{
    note(")");
    note(arg);
    return pk_done(value);
}

static inline pk_future leave_failed(const pk_status *status, void *arg)
{
    note("!");
    note(arg);
    last_code = status->code;
    return pk_failed_with(status);
}

static inline pk_future around(void *self, pk_call *call, pk_next *next)
{
    note(self);
    note("(");
    asked++;
    return pk_recover(pk_then(pk_next_run(next), leave, self), leave_failed, self);
}

/* The reply of the last read, or NULL at the end. */
static inline const char *read_one(struct client_kit *kit, pk_reader *in)
{
    const void *message = NULL;
    last_code = pk_loop_run_until(kit->loop, pk_reader_read(in), &message).code;
    return message ? ((const Helloworld__HelloReply *) message)->message : NULL;
}

static inline pk_reader *many(struct client_kit *kit, const char *count)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) count;
    return helloworld_greeter_it_keeps_replying(kit->channel, &request, NULL);
}

static inline pk_future answer_twice(const void *value, void *arg)
{
    const Helloworld__HelloReply *reply = value;
    Helloworld__HelloReply *other = helloworld_hello_reply_new(arg);
    other->message = pk_call_printf(arg, "%s%s", reply->message, reply->message);
    return helloworld_hello_reply_done(other);
}

/* Requests get a letter in front, replies are said twice. */
static inline pk_future change_messages(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_call_request_type(call), &helloworld_hello_request_type);
    cr_assert_eq(pk_call_reply_type(call), &helloworld_hello_reply_type);
    const Helloworld__HelloRequest *request = pk_next_request(next);
    Helloworld__HelloRequest *other = pk_call_new(call, Helloworld__HelloRequest);
    helloworld__hello_request__init(other);
    other->name = pk_call_printf(call, "%s%s", (const char *) self, request->name);
    return pk_then(pk_next_run_with(next, other), answer_twice, call);
}

#endif
