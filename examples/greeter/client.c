/*
 * The greeter's client: one call of each style, one after the other.
 *
 *     greeter-client 127.0.0.1:50051 Anna Bo
 *     greeter-client --tls --ca ca.pem localhost:50051 Anna Bo
 *
 * A plain program without callbacks: it runs the loop until the outcome of each step is there.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 10000 /* of one call */

static int report(const char *method, const pk_status *status)
{
    if (status->code == PK_OK)
        return 0;
    fprintf(stderr, "%s: %s: %.*s\n", method, pk_code_name(status->code),
            (int) status->message.length, (const char *) status->message.bytes);
    return 1;
}

/* Waits for a call that has one reply, and prints that. */
static int print_reply(pk_loop *loop, const char *method, pk_future future)
{
    const void *value;
    pk_status status = pk_loop_run_until(loop, future, &value);
    if (status.code == PK_OK)
        printf("%s: %s\n", method, ((const Helloworld__HelloReply *) value)->message);
    return report(method, &status);
}

/* Reads one reply of a stream and prints it; *ret_more tells whether there was one. */
static int print_next(pk_loop *loop, const char *method, pk_reader *in, bool *ret_more)
{
    const void *value = NULL;
    pk_status status = pk_loop_run_until(loop, pk_reader_read(in), &value);
    *ret_more = status.code == PK_OK && value;
    if (*ret_more)
        printf("%s: %s\n", method, ((const Helloworld__HelloReply *) value)->message);
    return report(method, &status);
}

/* Reads to the end, and gives the reader back. */
static int print_replies(pk_loop *loop, const char *method, pk_reader *in)
{
    int failed = 0;
    for (bool more = true; more;)
        failed |= print_next(loop, method, in, &more);
    pk_reader_unref(in);
    return failed;
}

/* Sends one name; a failure shows at the call's own end too, so it is enough to stop there. */
static bool send_name(pk_loop *loop, pk_writer *out, char *name)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = name;
    pk_future written = helloworld_hello_request_write(out, &request);
    return pk_loop_run_until(loop, written, NULL).code == PK_OK;
}

static int greet(pk_loop *loop, pk_channel *channel, char **names, int count)
{
    const pk_call_opts *opts = PK_CALL_OPTS(.timeout_ms = TIMEOUT_MS);
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = names[0];
    int failed =
        print_reply(loop, "SayHello", helloworld_greeter_say_hello(channel, &request, opts));

    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(channel, &out, opts);
    int sent = 0;
    while (sent < count && send_name(loop, out, names[sent]))
        sent++;
    pk_writer_end(out);
    failed |= print_reply(loop, "ItKeepsTalking", reply);
    pk_writer_unref(out);

    pk_reader *in = helloworld_greeter_it_keeps_replying(channel, &request, opts);
    failed |= print_replies(loop, "ItKeepsReplying", in);

    in = helloworld_greeter_stream_hellos(channel, &out, opts);
    bool more = true;
    for (int i = 0; i < count && more && send_name(loop, out, names[i]); i++)
        failed |= print_next(loop, "StreamHellos", in, &more);
    pk_writer_end(out);
    pk_writer_unref(out);
    return failed | print_replies(loop, "StreamHellos", in);
}

static const char usage[] =
    "usage: greeter-client [--tls [--ca FILE] [--tls-cert FILE --tls-key FILE]] ADDRESS NAME...\n"
    "  ADDRESS  127.0.0.1:50051, [::1]:50051, a name and a port, or unix:/path\n"
    "  FILE     PEM: who may issue the server's certificate (the system's CAs without it); what to\n"
    "           show to servers that ask, and its key\n";

/* The options in front of the address; the place of that, or -1. */
static int read_options(int argc, char **argv, bool *ret_tls, pk_channel_credentials_opts *opts)
{
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--tls") == 0)
            *ret_tls = true;
        else if (i + 1 < argc && strcmp(argv[i], "--ca") == 0)
            opts->server_ca.file = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--tls-cert") == 0)
            opts->certificate.file = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--tls-key") == 0)
            opts->key.file = argv[++i];
        else
            return -1;
    }
    return i + 1 < argc ? i : -1;
}

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_channel *channel;
    pk_channel_credentials *credentials = NULL;
    pk_channel_credentials_opts *opts = PK_CHANNEL_CREDENTIALS();
    char problem[PK_TLS_PROBLEM];
    bool tls = false;
    int first = read_options(argc, argv, &tls, opts);
    if (first > 0 && tls && pk_channel_credentials_new(&credentials, opts, problem) < 0) {
        fprintf(stderr, "greeter-client: %s\n", problem);
        return 2;
    }
    if (first < 0 || pk_loop_new(&loop, NULL) < 0 ||
        pk_channel_new(&channel, loop, argv[first], PK_CHANNEL_OPTS(.credentials = credentials)) <
            0) {
        fputs(usage, stderr);
        return 2;
    }
    int failed = greet(loop, channel, argv + first + 1, argc - first - 1);
    pk_channel_free(channel);
    pk_loop_free(loop);
    pk_channel_credentials_unref(credentials);
    return failed;
}
