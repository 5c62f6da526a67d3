/* Calls of the greeter, so many at once: see greeter_calls.h. */
#include "jmh-like-bench/peers/greeter_calls.h"

#include "helloworld.pekoe.h"

#include <stdlib.h>
#include <string.h>

#define OPTIONS PK_CALL_OPTS(.timeout_ms = 20000)

static Helloworld__HelloRequest request_of(const char *name)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) name;
    return request;
}

/* ---- Replies ---- */

static pk_future count_reply(const void *value, struct greeter_call *call, const char *expected)
{
    const Helloworld__HelloReply *reply = value;
    call->replies += strcmp(reply->message, expected) == 0;
    return pk_done(NULL);
}

static pk_future expect_hello(const void *reply, void *call)
{
    return count_reply(reply, call, "Hello, world");
}

static pk_future expect_hello_to_number(const void *reply, void *call)
{
    return count_reply(reply, call, "Hello, small 10");
}

static pk_future expect_number(const void *reply, void *call)
{
    return count_reply(reply, call, "10");
}

/* ---- The four rpcs ---- */

pk_future greeter_say_hello(struct greeter_call *call)
{
    Helloworld__HelloRequest request = request_of("world");
    pk_future reply = helloworld_greeter_say_hello(call->calls->channel, &request, OPTIONS);
    return pk_then(reply, expect_hello, call);
}

pk_future greeter_it_keeps_replying(struct greeter_call *call)
{
    Helloworld__HelloRequest request = request_of("small 10");
    call->in = helloworld_greeter_it_keeps_replying(call->calls->channel, &request, OPTIONS);
    return pk_reader_each(call->in, expect_hello_to_number, call);
}

/* A failure to write shows at the call's own end as well. */
static pk_future write_on(const void *unused, void *arg)
{
    struct greeter_call *call = arg;
    Helloworld__HelloRequest request = request_of("world");
    if (call->messages++ < GREETER_MESSAGES)
        return pk_then(helloworld_hello_request_write(call->out, &request), write_on, call);
    pk_writer_end(call->out);
    return pk_done(NULL);
}

pk_future greeter_it_keeps_talking(struct greeter_call *call)
{
    pk_future reply =
        helloworld_greeter_it_keeps_talking(call->calls->channel, &call->out, OPTIONS);
    pk_detach(write_on(NULL, call));
    return pk_then(reply, expect_number, call);
}

pk_future greeter_stream_hellos(struct greeter_call *call)
{
    call->in = helloworld_greeter_stream_hellos(call->calls->channel, &call->out, OPTIONS);
    pk_detach(write_on(NULL, call));
    return pk_reader_each(call->in, expect_hello, call);
}

/* ---- So many at once ---- */

static void start_call(struct greeter_call *call);

static pk_future count_right(const void *unused, void *arg)
{
    struct greeter_call *call = arg;
    call->calls->right += call->replies == call->calls->replies;
    return pk_done(NULL);
}

static pk_future pass_by(const pk_status *status, void *arg)
{
    return pk_done(NULL); /* a call that is not counted */
}

static void next_call(void *arg)
{
    struct greeter_call *call = arg;
    struct greeter_calls *calls = call->calls;
    call->in = pk_reader_unref(call->in);
    call->out = pk_writer_unref(call->out);
    calls->going--;
    if (calls->left > 0)
        start_call(call);
    else if (calls->going == 0)
        pk_loop_stop(calls->loop);
}

static void start_call(struct greeter_call *call)
{
    struct greeter_calls *calls = call->calls;
    calls->left--;
    calls->going++;
    call->messages = call->replies = 0;
    pk_future done = pk_recover(pk_then(calls->rpc(call), count_right, call), pass_by, NULL);
    pk_detach(pk_finally(done, next_call, call));
}

bool greeter_calls_init(struct greeter_calls *calls, pk_loop *loop, pk_channel *channel,
                        greeter_rpc *rpc, unsigned at_once)
{
    bool many = rpc == greeter_it_keeps_replying || rpc == greeter_stream_hellos;
    *calls = (struct greeter_calls){.loop = loop,
                                    .channel = channel,
                                    .rpc = rpc,
                                    .replies = many ? GREETER_MESSAGES : 1,
                                    .at_once = at_once};
    calls->at_once_calls = calloc(at_once, sizeof *calls->at_once_calls);
    if (!calls->at_once_calls)
        return false;
    for (unsigned i = 0; i < at_once; i++)
        calls->at_once_calls[i].calls = calls;
    return true;
}

void greeter_calls_done(struct greeter_calls *calls)
{
    free(calls->at_once_calls);
}

void greeter_calls_run(struct greeter_calls *calls, uint64_t count)
{
    calls->left = count;
    for (unsigned i = 0; i < calls->at_once && calls->left > 0; i++)
        start_call(&calls->at_once_calls[i]);
    if (calls->going > 0)
        pk_loop_run(calls->loop);
}
