/*
 * A proxy for the greeter: every call goes on to another server, whose replies and statuses come
 * back. proxy ADDRESS UPSTREAM
 *
 * The shapes of a service's client and server fit each other. `.parent` hands the caller's deadline
 * and cancel on, and makes what the upstream sends live as long as the caller's call.
 */
#include <pekoe/operators.h>
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <stdio.h>

/* `self` of the service is the channel to the upstream. */
static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    return helloworld_greeter_say_hello(self, request, PK_CALL_OPTS(.parent = call));
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    const pk_call_opts *opts = PK_CALL_OPTS(.parent = call);
    pk_reader *replies = helloworld_greeter_it_keeps_replying(self, request, opts);
    return pk_source_pipe(pk_source_of_reader(replies), out);
}

/* The caller's messages go on to the upstream, and so does their end. */
static pk_future end_upstream(const void *unused, void *upstream)
{
    pk_writer_end(upstream);
    return pk_done(NULL);
}

static pk_future forward(pk_reader *in, pk_writer *upstream)
{
    return pk_then(pk_source_pipe(pk_source_of_reader(in), upstream), end_upstream, upstream);
}

static pk_future second(const void *values, void *unused)
{
    return pk_done(((const void *const *) values)[1]);
}

static pk_future it_keeps_talking(void *self, pk_call *call, pk_reader *in)
{
    pk_writer *upstream;
    const pk_call_opts *opts = PK_CALL_OPTS(.parent = call);
    pk_future reply = helloworld_greeter_it_keeps_talking(self, &upstream, opts);
    pk_future both[] = {forward(in, upstream), reply};
    return pk_then(pk_all(pk_call_scope(call), both, 2), second, NULL);
}

static pk_future stream_hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    pk_writer *upstream;
    const pk_call_opts *opts = PK_CALL_OPTS(.parent = call);
    pk_reader *replies = helloworld_greeter_stream_hellos(self, &upstream, opts);
    pk_future both[] = {forward(in, upstream), pk_source_pipe(pk_source_of_reader(replies), out)};
    return pk_then(pk_all(pk_call_scope(call), both, 2), second, NULL);
}

static const helloworld_greeter_impl proxy = {
    .say_hello = say_hello,
    .it_keeps_replying = it_keeps_replying,
    .it_keeps_talking = it_keeps_talking,
    .stream_hellos = stream_hellos,
};

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_channel *upstream;
    pk_server *server;
    const char *bound;
    if (argc != 3) {
        fputs("usage: proxy ADDRESS UPSTREAM\n", stderr);
        return 2;
    }
    if (pk_loop_new(&loop, NULL) < 0 || pk_channel_new(&upstream, loop, argv[2], NULL) < 0 ||
        pk_server_new(&server, loop, NULL) < 0 ||
        helloworld_greeter_serve(server, &proxy, upstream) < 0 ||
        pk_server_listen(server, argv[1], &bound) < 0) {
        fprintf(stderr, "proxy: cannot listen on %s for %s\n", argv[1], argv[2]);
        return 1;
    }
    printf("proxy: listening on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    return 0;
}
