/*
 * The load of `./dev bench delay`: one call of large messages to peers-greeter, timed.
 *
 *     stream-client ADDRESS down|up MESSAGES
 *
 * Down: the server streams its replies; up: the client streams its requests. Prints the bytes per
 * second of the messages, from the call's start to its status, on a connection that is there.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGE 1000000u /* bytes of a message's text, as in greeter.c */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static int stop(const char *what, const pk_status *status)
{
    fprintf(stderr, "stream-client: %s: %s: %.*s\n", what, pk_code_name(status->code),
            (int) status->message.length, (const char *) status->message.bytes);
    return 1;
}

/* Asks for `messages` large replies, and counts them. */
static int down(pk_loop *loop, pk_channel *channel, unsigned messages)
{
    char name[32];
    snprintf(name, sizeof name, "large %u", messages);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = name;
    pk_reader *in = helloworld_greeter_it_keeps_replying(channel, &request, NULL);
    unsigned count = 0;
    const void *value = NULL;
    pk_status status;
    do {
        status = pk_loop_run_until(loop, pk_reader_read(in), &value);
        if (status.code == PK_OK && value)
            count += strlen(((const Helloworld__HelloReply *) value)->message) == LARGE;
    } while (status.code == PK_OK && value);
    int failed = status.code != PK_OK || count != messages;
    if (failed)
        stop("replies", &status);
    pk_reader_unref(in);
    return failed;
}

static int up(pk_loop *loop, pk_channel *channel, unsigned messages)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    char *text = malloc(LARGE + 1);
    if (!text)
        return 1;
    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    request.name = text;
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(channel, &out, NULL);
    for (unsigned i = 0; i < messages; i++) {
        pk_future written = helloworld_hello_request_write(out, &request);
        if (pk_loop_run_until(loop, written, NULL).code != PK_OK)
            break; /* the reply's status tells why */
    }
    pk_writer_end(out);
    const void *value = NULL;
    pk_status status = pk_loop_run_until(loop, reply, &value);
    int failed = status.code != PK_OK;
    if (failed)
        stop("requests", &status);
    else
        failed = strtoul(((const Helloworld__HelloReply *) value)->message, NULL, 10) != messages;
    pk_writer_unref(out);
    free(text);
    return failed;
}

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_channel *channel;
    unsigned messages = argc == 4 ? (unsigned) strtoul(argv[3], NULL, 10) : 0;
    if (messages == 0 || pk_loop_new(&loop, NULL) < 0 ||
        pk_channel_new(&channel, loop, argv[1], NULL) < 0) {
        fputs("usage: stream-client ADDRESS down|up MESSAGES\n", stderr);
        return 2;
    }
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    char first[] = "first";
    request.name = first;
    pk_future hello = helloworld_greeter_say_hello(channel, &request, NULL);
    pk_status status = pk_loop_run_until(loop, hello, NULL);
    int failed = status.code != PK_OK ? stop("connection", &status) : 0;
    double started = now();
    if (!failed)
        failed = (strcmp(argv[2], "up") == 0 ? up : down)(loop, channel, messages);
    if (!failed)
        printf("%.0f\n", (double) messages * LARGE / (now() - started));
    pk_channel_free(channel);
    pk_loop_free(loop);
    return failed;
}
