/* A plain program that makes one call and waits for its end: call HOST:PORT NAME. */
#include "helloworld.pekoe.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_channel *channel;
    if (argc != 3 || pk_loop_new(&loop, NULL) < 0 ||
        pk_channel_new(&channel, loop, argv[1], NULL) < 0) {
        fputs("usage: call HOST:PORT NAME\n", stderr);
        return 2;
    }
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = argv[2];
    pk_future reply =
        helloworld_greeter_say_hello(channel, &request, PK_CALL_OPTS(.timeout_ms = 5000));
    const Helloworld__HelloReply *hello;
    pk_status status = pk_loop_run_until(loop, reply, (const void **) &hello);
    if (status.code == PK_OK)
        puts(hello->message);
    else
        fprintf(stderr, "%s: %.*s\n", pk_code_name(status.code), (int) status.message.length,
                (const char *) status.message.bytes);
    pk_channel_free(channel);
    pk_loop_free(loop);
    return status.code != PK_OK;
}
