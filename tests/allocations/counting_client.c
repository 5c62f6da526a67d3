/*
 * A client and a server on one loop, joined by a socket: after a warm-up neither calls malloc or
 * free, for unary calls with deadlines and varying metadata, 100 at once, for streamed messages, and
 * compressed. TAP on stdout.
 */
#include <pekoe/pekoe.h>

#include "counted_malloc.h"
#include "helloworld.pekoe.h"

#include <stdio.h>
#include <string.h>

#define AT_ONCE 100u
#define ROUNDS 20u
#define WARM_UP 60u

static pk_loop *loop;
static pk_channel *channel;
static unsigned ended, right, number;

/* ---- The server ---- */

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    pk_slice value = pk_metadata_get(pk_call_metadata(call), "x-varying");
    if (pk_metadata_add(pk_call_headers(call), "x-echo",
                        pk_call_copy(call, value.bytes, value.length)) < 0)
        return pk_failed(call, PK_INTERNAL, "the value was not taken");
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

static pk_future echo_one(const void *message, void *arg)
{
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = ((const Helloworld__HelloRequest *) message)->name;
    return helloworld_hello_reply_write(arg, &reply);
}

static pk_future stream_hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, echo_one, out);
}

static const helloworld_greeter_impl impl = {.say_hello = say_hello,
                                             .stream_hellos = stream_hellos};

/* ---- The client ---- */

static pk_future count_right(const void *value, void *arg)
{
    const Helloworld__HelloReply *reply = value;
    right += strncmp(reply->message, "Hello, nn", 9) == 0;
    return pk_done(NULL);
}

static void count_end(void *arg)
{
    ended++;
}

static void round_of_calls(const char *compression)
{
    char name[2048], text[64];
    const char *const fields[] = {"x-varying", text, NULL};
    ended = 0;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        size_t length = 2 + ++number * 7919 % (compression ? 2000 : 90);
        memset(name, 'n', length);
        name[length] = '\0';
        snprintf(text, sizeof text, "%0*u", (int) (4 + number * 31 % 50), number);
        Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
        request.name = name;
        pk_future reply = helloworld_greeter_say_hello(
            channel, &request,
            PK_CALL_OPTS(.timeout_ms = 5000 + number % 1000, .fields = fields,
                         .compression = compression));
        pk_detach(pk_finally(pk_then(reply, count_right, NULL), count_end, NULL));
    }
    while (ended < AT_ONCE)
        (void) pk_loop_run_until(loop, pk_sleep(pk_loop_scope(loop), 1), NULL);
}

static void unary_round(void)
{
    round_of_calls(NULL);
}

static void compressed_round(void)
{
    round_of_calls("gzip");
}

static pk_reader *in;
static pk_writer *out;

static void streamed_round(void)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "nnnnnnnn";
    const void *message;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        (void) pk_loop_run_until(loop, helloworld_hello_request_write(out, &request), NULL);
        (void) pk_loop_run_until(loop, pk_reader_read(in), &message);
        right += message != NULL;
    }
}

/* The fewest allocations of a few tries: a new high-water mark may still come in one of them. */
static void check(int test, const char *what, void (*one_round)(void))
{
    unsigned long fewest = (unsigned long) -1;
    for (unsigned i = 0; i < WARM_UP; i++)
        one_round();
    right = 0;
    unsigned rounds = 0;
    for (int i = 0; i < 4 && fewest > 0; i++) {
        unsigned long before = atomic_load(&allocations);
        for (unsigned j = 0; j < ROUNDS; j++, rounds++)
            one_round();
        unsigned long made = atomic_load(&allocations) - before;
        fewest = made < fewest ? made : fewest;
    }
    bool ok = fewest == 0 && right == rounds * AT_ONCE;
    printf("%sok %d - %s: %lu calls of malloc or free, %u of %u right\n", ok ? "" : "not ", test,
           what, fewest, right, rounds * AT_ONCE);
}

int main(void)
{
    pk_server *server;
    const char *bound;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (pk_loop_new(&loop, NULL) < 0 || pk_server_new(&server, loop, NULL) < 0 ||
        helloworld_greeter_serve(server, &impl, NULL) < 0 ||
        pk_server_listen(server, "127.0.0.1:0", &bound) < 0 ||
        pk_channel_new(&channel, loop, bound, NULL) < 0)
        return 1;
    puts("1..4");
    check(1, "2,000 unary calls, 100 at once", unary_round);
    check(2, "2,000 compressed calls, 100 at once", compressed_round);
    in = helloworld_greeter_stream_hellos(channel, &out, NULL);
    check(3, "2,000 messages each way on a stream", streamed_round);
    pk_writer_unref(out);
    pk_reader_unref(in);
    pk_channel_free(channel);
    /* The same server under two addresses: every other call goes to each. */
    const char *other;
    char target[200];
    if (pk_server_listen(server, "127.0.0.1:0", &other) < 0)
        return 1;
    snprintf(target, sizeof target, "ipv4:%s,%s", bound, other);
    if (pk_channel_new(&channel, loop, target, PK_CHANNEL_OPTS(.load_balancing = "round_robin")) <
        0)
        return 1;
    check(4, "2,000 unary calls over two connections by round_robin", unary_round);
    pk_channel_free(channel);
    pk_server_free(server);
    pk_loop_free(loop);
    return 0;
}
