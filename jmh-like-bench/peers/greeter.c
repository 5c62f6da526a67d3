/*
 * The greeter that the peers are compared with: what the rpcs of the example do, and as many replies
 * as the peers send; "small N" asks for N, "large N" for N of 1 MB.
 * `peers-greeter --listen ADDRESS [--threads N]`.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 1000u
#define MAX_THREADS 64u
#define LARGE 1000000u /* bytes of a large reply's text */

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

struct replying {
    pk_writer *out;
    Helloworld__HelloReply reply;
    unsigned count, wanted;
};

static pk_future reply_on(const void *unused, void *arg)
{
    struct replying *replying = arg;
    if (replying->count++ == replying->wanted)
        return pk_done(NULL);
    return pk_then(helloworld_hello_reply_write(replying->out, &replying->reply), reply_on,
                   replying);
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    struct replying *replying = pk_call_new(call, struct replying, .out = out, .wanted = MESSAGES,
                                            .reply = HELLOWORLD__HELLO_REPLY__INIT);
    if (strncmp(request->name, "large ", 6) == 0) {
        replying->wanted = (unsigned) strtoul(request->name + 6, NULL, 10);
        replying->reply.message = memset(pk_call_alloc(call, LARGE + 1), 'x', LARGE);
        pk_writer_set_compression(out, false);
    } else {
        if (strncmp(request->name, "small ", 6) == 0)
            replying->wanted = (unsigned) strtoul(request->name + 6, NULL, 10);
        replying->reply.message = pk_call_printf(call, "Hello, %s", request->name);
    }
    return reply_on(NULL, replying);
}

struct listening {
    pk_call *call;
    unsigned count;
};

static pk_future count_one(const void *request, void *arg)
{
    struct listening *listening = arg;
    listening->count++;
    return pk_done(NULL);
}

static pk_future tell_count(const void *unused, void *arg)
{
    struct listening *listening = arg;
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(listening->call);
    reply->message = pk_call_printf(listening->call, "%u", listening->count);
    return helloworld_hello_reply_done(reply);
}

static pk_future it_keeps_talking(void *self, pk_call *call, pk_reader *in)
{
    struct listening *listening = pk_call_new(call, struct listening, .call = call);
    return pk_then(pk_reader_each(in, count_one, listening), tell_count, listening);
}

struct answering {
    pk_reader *in;
    pk_writer *out;
};

static pk_future answer_one(const void *value, void *arg)
{
    struct answering *answering = arg;
    const Helloworld__HelloRequest *request = value;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = pk_reader_printf(answering->in, "Hello, %s", request->name);
    return helloworld_hello_reply_write(answering->out, &reply);
}

static pk_future stream_hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, answer_one,
                          pk_call_new(call, struct answering, .in = in, .out = out));
}

static const helloworld_greeter_impl greeter = {
    .say_hello = say_hello,
    .it_keeps_talking = it_keeps_talking,
    .it_keeps_replying = it_keeps_replying,
    .stream_hellos = stream_hellos,
};

/* Each thread has a loop and a server of its own; they share the port and nothing else. */
struct worker {
    const char *address;
    bool reuse_port;
    pk_loop *loop;
    pk_server *server;
};

static const char *open_worker(struct worker *worker)
{
    const char *bound;
    if (pk_loop_new(&worker->loop, NULL) < 0 ||
        pk_server_new(&worker->server, worker->loop,
                      PK_SERVER_OPTS(.max_streams = 1000, .reuse_port = worker->reuse_port)) < 0 ||
        helloworld_greeter_serve(worker->server, &greeter, NULL) < 0 ||
        pk_server_listen(worker->server, worker->address, &bound) < 0) {
        fprintf(stderr, "peers-greeter: cannot listen on %s\n", worker->address);
        exit(1);
    }
    return bound;
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    open_worker(worker);
    pk_loop_run(worker->loop);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MAX_THREADS];
    static char bound[128];
    unsigned long threads = argc == 5 ? strtoul(argv[4], NULL, 10) : 1;
    if ((argc != 3 && argc != 5) || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: peers-greeter --listen ADDRESS [--threads N]\n");
        return 2;
    }
    workers[0] = (struct worker){.address = argv[2], .reuse_port = threads > 1};
    snprintf(bound, sizeof bound, "%s", open_worker(&workers[0]));
    for (unsigned long i = 1; i < threads; i++) {
        pthread_t thread;
        workers[i] = (struct worker){.address = bound, .reuse_port = true};
        if (pthread_create(&thread, NULL, run_worker, &workers[i]) != 0)
            return 1;
    }
    printf("serving on %s\n", bound);
    fflush(stdout);
    pk_loop_run(workers[0].loop);
    return 0;
}
