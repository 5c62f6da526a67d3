/*
 * The greeter that the peers are compared with: what `say_hello` and `it_keeps_replying` of the
 * example do, and as many replies as the peers send. `peers-greeter --listen ADDRESS`.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <stdio.h>
#include <string.h>

#define MESSAGES 1000u

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

struct replying {
    pk_writer *out;
    Helloworld__HelloReply reply;
    unsigned count;
};

static pk_future reply_on(const void *unused, void *arg)
{
    struct replying *replying = arg;
    if (replying->count++ == MESSAGES)
        return pk_done(NULL);
    return pk_then(helloworld_hello_reply_write(replying->out, &replying->reply), reply_on,
                   replying);
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    struct replying *replying =
        pk_call_new(call, struct replying, .out = out, .reply = HELLOWORLD__HELLO_REPLY__INIT);
    replying->reply.message = pk_call_printf(call, "Hello, %s", request->name);
    return reply_on(NULL, replying);
}

static const helloworld_greeter_impl greeter = {
    .say_hello = say_hello,
    .it_keeps_replying = it_keeps_replying,
};

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_server *server;
    const char *bound;
    if (argc != 3 || pk_loop_new(&loop, NULL) < 0 ||
        pk_server_new(&server, loop, PK_SERVER_OPTS(.max_streams = 1000)) < 0 ||
        helloworld_greeter_serve(server, &greeter, NULL) < 0 ||
        pk_server_listen(server, argv[2], &bound) < 0) {
        fprintf(stderr, "usage: peers-greeter --listen ADDRESS\n");
        return 2;
    }
    printf("serving on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    return 0;
}
