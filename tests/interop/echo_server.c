/*
 * The server that the interop clients call: helloworld.Greeter, steered by the request's metadata.
 * greeter_cases.md says what each key does.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <ev.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Metadata numbers are short ASCII; -1 where the key is not there. */
static long number_of(pk_call *call, const char *key)
{
    pk_slice value = pk_metadata_get(pk_call_metadata(call), key);
    return value.bytes ? strtol(pk_call_copy(call, value.bytes, value.length), NULL, 10) : -1;
}

/* A name in metadata, as text in the call; NULL where the key is not there. */
static const char *text_of(pk_call *call, const char *key)
{
    pk_slice value = pk_metadata_get(pk_call_metadata(call), key);
    return value.bytes ? pk_call_copy(call, value.bytes, value.length) : NULL;
}

#define ECHO_INITIAL "x-grpc-test-echo-initial"
#define ECHO_TRAILING "x-grpc-test-echo-trailing-bin"

static void echo_initial(pk_call *call)
{
    static const char key[] = ECHO_INITIAL;
    pk_metadata_place place = PK_METADATA_START;
    pk_slice value;
    while (pk_metadata_next(pk_call_metadata(call), key, &place, NULL, &value)) {
        const char *text = pk_call_copy(call, value.bytes, value.length);
        if (pk_metadata_add(pk_call_headers(call), key, text) < 0)
            fprintf(stderr, "echo-server: a header could not be echoed\n");
    }
}

static void echo_trailing(pk_call *call)
{
    static const char key[] = ECHO_TRAILING;
    pk_metadata_place place = PK_METADATA_START;
    pk_slice value;
    while (pk_metadata_next(pk_call_metadata(call), key, &place, NULL, &value)) {
        if (pk_metadata_add_binary(pk_call_trailers(call), key, value.bytes, value.length) < 0)
            fprintf(stderr, "echo-server: a trailer could not be echoed\n");
    }
}

/* ---- What one call tells about another ---- */

/*
 * A name that some call has used, kept as long as the server: how the call of that name stands, and
 * a gate that a stream of that name waits at.
 */
struct named {
    struct named *next;
    char name[64];
    const char *state;   /* static */
    unsigned opened;     /* how often the gate has been opened for nobody yet */
    pk_promise *waiting; /* of the stream at the gate */
};

static struct named *all_named;

static struct named *named(const char *name)
{
    for (struct named *named = all_named; named; named = named->next) {
        if (strcmp(named->name, name) == 0)
            return named;
    }
    struct named *added = calloc(1, sizeof *added);
    if (!added)
        abort();
    snprintf(added->name, sizeof added->name, "%s", name);
    added->state = "unknown";
    added->next = all_named;
    all_named = added;
    return added;
}

static void free_named(void)
{
    while (all_named) {
        struct named *first = all_named;
        all_named = first->next;
        free(first);
    }
}

static void left_early(void *arg)
{
    struct named *named = arg;
    if (strcmp(named->state, "running") == 0)
        named->state = "cancelled";
}

/* NULL: the call has no name, nobody will ask about it. */
static struct named *begin_named(pk_call *call)
{
    const char *name = text_of(call, "test-name");
    if (!name)
        return NULL;
    struct named *begun = named(name);
    begun->state = "running";
    if (pk_call_on_end(call, left_early, begun) < 0)
        begun->state = "unknown";
    return begun;
}

static void end_named(struct named *named)
{
    if (named)
        named->state = "ended";
}

static void open_gate(struct named *gate)
{
    pk_promise *waiting = gate->waiting;
    gate->waiting = NULL;
    /* The stream that waited may have gone. */
    if (!waiting || pk_promise_done(waiting, NULL) < 0)
        gate->opened++;
}

static pk_future wait_at(struct named *gate, pk_call *call)
{
    if (gate->opened > 0) {
        gate->opened--;
        return pk_done(NULL);
    }
    gate->waiting = pk_promise_new(pk_call_scope(call));
    return pk_promise_future(gate->waiting);
}

/* ---- The service ---- */

struct greeting {
    pk_call *call;
    const Helloworld__HelloRequest *request;
    struct named *named;
};

static pk_future greet(const void *value, void *arg)
{
    struct greeting *greeting = arg;
    long code = number_of(greeting->call, "test-status");
    end_named(greeting->named);
    if (code > 0) {
        const char *name = greeting->request->name;
        pk_slice details = pk_metadata_get(pk_call_metadata(greeting->call), "test-details-bin");
        return pk_failed_status(
            greeting->call,
            &(pk_status){(pk_code) code, {(const uint8_t *) name, strlen(name)}, details});
    }
    const char *asked = text_of(greeting->call, "test-how");
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(greeting->call);
    reply->message = asked ? pk_call_printf(greeting->call, "%s", named(asked)->state)
                           : pk_call_printf(greeting->call, "Hello, %s", greeting->request->name);
    return helloworld_hello_reply_done(reply);
}

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    echo_initial(call);
    echo_trailing(call);
    if (number_of(call, "test-tell-compressed") > 0 &&
        pk_metadata_add(pk_call_headers(call), "x-request-compressed",
                        pk_call_request_compressed(call) ? "1" : "0") < 0)
        fprintf(stderr, "echo-server: a header could not be added\n");
    const char *gate = text_of(call, "test-open");
    if (gate)
        open_gate(named(gate));
    struct greeting *greeting = pk_call_new(call, struct greeting, .call = call, .request = request,
                                            .named = begin_named(call));
    long delay = number_of(call, "test-delay-ms");
    if (delay < 0)
        return greet(NULL, greeting);
    return pk_then(pk_sleep(pk_call_scope(call), (uint64_t) delay), greet, greeting);
}

struct replies {
    pk_call *call;
    const Helloworld__HelloRequest *request;
    pk_writer *out;
    struct named *named;
    struct named *gate; /* NULL: none */
    long count, sent, delay;
    bool waited;
};

/* Before a message but not before the first: the gate; before each one: the delay. */
static pk_future wait_for_next(struct replies *replies)
{
    if (replies->gate && replies->sent > 0)
        return wait_at(replies->gate, replies->call);
    return replies->delay > 0 ? pk_sleep(pk_call_scope(replies->call), (uint64_t) replies->delay)
                              : pk_done(NULL);
}

static pk_future reply_more(const void *value, void *arg)
{
    struct replies *replies = arg;
    if (replies->sent == replies->count) {
        long code = number_of(replies->call, "test-status");
        end_named(replies->named);
        return code > 0 ? pk_failed(replies->call, (pk_code) code, "%s", replies->request->name)
                        : pk_done(NULL);
    }
    if (!replies->waited) {
        replies->waited = true;
        return pk_then(wait_for_next(replies), reply_more, replies);
    }
    replies->waited = false;
    replies->sent++;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = replies->request->name;
    return pk_then(helloworld_hello_reply_write(replies->out, &reply), reply_more, replies);
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    echo_initial(call);
    echo_trailing(call);
    long count = number_of(call, "test-count");
    const char *gate = text_of(call, "test-gate");
    struct replies *replies =
        pk_call_new(call, struct replies, .call = call, .request = request, .out = out,
                    .named = begin_named(call), .gate = gate ? named(gate) : NULL,
                    .count = count < 0 ? 3 : count, .delay = number_of(call, "test-delay-ms"));
    return reply_more(NULL, replies);
}

static const helloworld_greeter_impl greeter = {.say_hello = say_hello,
                                                .it_keeps_replying = it_keeps_replying};

static void on_term(struct ev_loop *ev, ev_signal *watcher, int events)
{
    pk_detach(pk_server_stop(watcher->data, 5000));
    ev_signal_stop(ev, watcher);
}

int main(int argc, char **argv)
{
    const char *address = NULL;
    char problem[PK_TLS_PROBLEM];
    pk_server_credentials_opts *files = PK_SERVER_CREDENTIALS();
    pk_server_credentials *credentials = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--listen") == 0)
            address = argv[i + 1];
        else if (strcmp(argv[i], "--tls_cert_file") == 0)
            files->certificate.file = argv[i + 1];
        else if (strcmp(argv[i], "--tls_key_file") == 0)
            files->key.file = argv[i + 1];
    }
    if (!address) {
        fprintf(stderr, "usage: echo-server --listen ADDRESS\n"
                        "       [--use_tls=true --tls_cert_file FILE --tls_key_file FILE]\n");
        return 2;
    }
    if (files->certificate.file && pk_server_credentials_new(&credentials, files, problem) < 0) {
        fprintf(stderr, "echo-server: %s\n", problem);
        return 2;
    }
    pk_loop *loop = NULL;
    pk_server *server = NULL;
    const char *bound;
    int r = pk_loop_new(&loop, NULL);
    if (r == 0)
        r = pk_server_new(&server, loop, PK_SERVER_OPTS(.calls = PK_ROUTER_OPTS(.grpc_web = true)));
    static const char *const pages[] = {"http://page.test", NULL};
    static const char *const exposed[] = {ECHO_INITIAL, ECHO_TRAILING, NULL};
    if (r == 0)
        r = pk_router_set_cors(pk_server_router(server),
                               PK_CORS_OPTS(.origins = pages, .exposed = exposed));
    if (r == 0)
        r = helloworld_greeter_serve(server, &greeter, NULL);
    if (r == 0 && credentials)
        r = pk_server_listen_tls(server, address, credentials, &bound);
    else if (r == 0)
        r = pk_server_listen(server, address, &bound);
    if (r < 0) {
        fprintf(stderr, "echo-server: %s: %s\n", address,
                r == PK_ERR_SYSTEM ? strerror(errno) : pk_error_text(r));
        return 1;
    }
    ev_signal term;
    ev_signal_init(&term, on_term, SIGTERM);
    term.data = server;
    ev_signal_start(pk_loop_ev(loop), &term);
    printf("echo-server: listening on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    pk_server_free(server);
    pk_loop_free(loop);
    pk_server_credentials_unref(credentials);
    free_named();
    return 0;
}
