/*
 * A greeter for those who show a token: an interceptor looks it up while the call waits, and tells
 * the handlers who calls.
 *
 *     auth-server --listen 127.0.0.1:50051 [--tls-cert FILE --tls-key FILE]
 *
 * Whoever can read a connection can read its tokens: without TLS this is for the own machine.
 */
#include <pekoe/pekoe.h>
#include <pekoe/tls.h>

#include "helloworld.pekoe.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct account {
    const char *token, *name;
};

static const struct account accounts[] = {{"tea-leaf-1", "alice"}, {"tea-leaf-2", "bob"}};

/* ---- The interceptor ---- */

static const char caller_key; /* its address is the key of the caller's account in a call */

/* Takes as long for a wrong token as for a right one. */
static bool is_same(const char *given, const char *right)
{
    size_t length = strlen(right);
    unsigned char difference = strlen(given) != length;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char) (right[i] ^ given[difference ? 0 : i]);
    return difference == 0;
}

/* Stands for a database or a token service: blocks, so it runs on a thread of the pool. */
static const void *look_up(void *token)
{
    const struct account *found = NULL;
    usleep(1000);
    for (size_t i = 0; i < sizeof accounts / sizeof *accounts; i++) {
        if (is_same(token, accounts[i].token))
            found = &accounts[i];
    }
    return found;
}

struct question {
    pk_call *call;
    pk_next *next;
};

static pk_future admit(const void *account, void *arg)
{
    struct question *question = arg;
    if (!account)
        return pk_failed(question->call, PK_UNAUTHENTICATED, "the token is not known");
    if (pk_call_set_value(question->call, &caller_key, (void *) (uintptr_t) account) < 0)
        return pk_failed(question->call, PK_RESOURCE_EXHAUSTED, "out of memory");
    return pk_next_run(question->next);
}

static pk_future authenticate(void *self, pk_call *call, pk_next *next)
{
    pk_slice field = pk_metadata_get(pk_call_metadata(call), "authorization");
    if (!field.bytes)
        return pk_failed(call, PK_UNAUTHENTICATED, "a token is wanted: authorization: Bearer ...");
    if (field.length <= 7 || strncasecmp((const char *) field.bytes, "Bearer ", 7) != 0)
        return pk_failed(call, PK_UNAUTHENTICATED, "the authorization is no bearer token");
    char *token = pk_call_copy(call, field.bytes + 7, field.length - 7);
    /* Handlers, what they log and what they pass on know nothing of it. */
    if (pk_metadata_remove(pk_call_edit_metadata(call), "authorization") < 0)
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "out of memory");
    return pk_then(pk_call_offload(call, look_up, token), admit,
                   pk_call_new(call, struct question, call, next));
}

/* ---- The service ---- */

static const char *caller_of(const pk_call *call)
{
    return ((const struct account *) pk_call_value(call, &caller_key))->name;
}

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s, from %s", request->name, caller_of(call));
    return helloworld_hello_reply_done(reply);
}

struct chat {
    pk_reader *in;
    pk_writer *out;
};

static pk_future greet_name(const void *message, void *arg)
{
    struct chat *chat = arg;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = pk_reader_printf(chat->in, "Hello, %s, from %s",
                                     ((const Helloworld__HelloRequest *) message)->name,
                                     caller_of(pk_reader_call(chat->in)));
    return helloworld_hello_reply_write(chat->out, &reply);
}

static pk_future stream_hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, greet_name, pk_call_new(call, struct chat, in, out));
}

static const helloworld_greeter_impl greeter = {.say_hello = say_hello,
                                                .stream_hellos = stream_hellos};

/* ---- The program ---- */

static int listen_on(pk_server *server, const char *address, const char *certificate,
                     const char *key, const char **ret_bound)
{
    if (!certificate)
        return pk_server_listen(server, address, ret_bound);
    pk_server_credentials *credentials;
    char problem[PK_TLS_PROBLEM];
    int r = pk_server_credentials_new(
        &credentials, PK_SERVER_CREDENTIALS(.certificate.file = certificate, .key.file = key),
        problem);
    if (r < 0) {
        fprintf(stderr, "auth-server: %s\n", problem);
        return r;
    }
    r = pk_server_listen_tls(server, address, credentials, ret_bound);
    pk_server_credentials_unref(credentials);
    return r;
}

int main(int argc, char **argv)
{
    const char *address = NULL, *certificate = NULL, *key = NULL, *bound;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--listen") == 0)
            address = argv[i + 1];
        else if (strcmp(argv[i], "--tls-cert") == 0)
            certificate = argv[i + 1];
        else if (strcmp(argv[i], "--tls-key") == 0)
            key = argv[i + 1];
    }
    if (!address || !certificate != !key) {
        fputs("usage: auth-server --listen ADDRESS [--tls-cert FILE --tls-key FILE]\n", stderr);
        return 2;
    }
    pk_loop *loop;
    pk_server *server;
    if (pk_loop_new(&loop, NULL) < 0 || pk_server_new(&server, loop, NULL) < 0 ||
        helloworld_greeter_serve(server, &greeter, NULL) < 0 ||
        pk_router_intercept(pk_server_router(server), authenticate, NULL) < 0 ||
        listen_on(server, address, certificate, key, &bound) < 0) {
        fprintf(stderr, "auth-server: cannot listen on %s\n", address);
        return 1;
    }
    printf("auth-server: listening on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    return 0;
}
