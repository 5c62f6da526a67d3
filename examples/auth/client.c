/*
 * Calls a greeter that wants a token: an interceptor reads the token from a file when the first call
 * needs it, and attaches it to every call.
 *
 *     auth-client ADDRESS TOKEN-FILE NAME...
 *
 * Greets each name by a call of its own, then all of them in one stream. Ends with the code of the
 * first status that is not OK.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <stdio.h>
#include <string.h>

/* ---- The interceptor ---- */

struct tokens {
    const char *file;
    char field[264]; /* "Bearer ..."; empty: not read yet */
};

struct waiting {
    pk_call *call;
    pk_next *next;
    struct tokens *tokens;
    char line[256]; /* this call's own: several may read at once */
};

/* Blocks, so it runs on a thread of the pool. */
static const void *read_token(void *arg)
{
    struct waiting *waiting = arg;
    FILE *file = fopen(waiting->tokens->file, "r");
    if (!file)
        return NULL;
    char *line = fgets(waiting->line, sizeof waiting->line, file);
    fclose(file);
    if (line)
        line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static pk_future attach(const struct waiting *waiting)
{
    pk_metadata *headers = pk_call_headers(waiting->call);
    if (pk_metadata_add(headers, "authorization", waiting->tokens->field) < 0)
        return pk_failed(waiting->call, PK_INTERNAL, "the token cannot be sent");
    return pk_next_run(waiting->next);
}

static pk_future token_came(const void *token, void *arg)
{
    struct waiting *waiting = arg;
    struct tokens *tokens = waiting->tokens;
    if (!token)
        return pk_failed(waiting->call, PK_UNAUTHENTICATED, "no token in %s", tokens->file);
    snprintf(tokens->field, sizeof tokens->field, "Bearer %s", (const char *) token);
    return attach(waiting);
}

static pk_future add_token(void *self, pk_call *call, pk_next *next)
{
    struct tokens *tokens = self;
    struct waiting *waiting =
        pk_call_new(call, struct waiting, .call = call, .next = next, .tokens = tokens);
    if (tokens->field[0] != '\0')
        return attach(waiting);
    return pk_then(pk_call_offload(call, read_token, waiting), token_came, waiting);
}

/* ---- The program ---- */

static int tell(pk_status status)
{
    if (status.code != PK_OK)
        fprintf(stderr, "%s: %.*s\n", pk_code_name(status.code), (int) status.message.length,
                (const char *) status.message.bytes);
    return (int) status.code;
}

static int greet(pk_loop *loop, pk_channel *channel, const char *name)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) (uintptr_t) name;
    const void *value;
    pk_future reply = helloworld_greeter_say_hello(channel, &request, NULL);
    pk_status status = pk_loop_run_until(loop, reply, &value);
    if (status.code == PK_OK)
        printf("%s\n", ((const Helloworld__HelloReply *) value)->message);
    return tell(status);
}

static pk_future print_reply(const void *message, void *unused)
{
    printf("%s\n", ((const Helloworld__HelloReply *) message)->message);
    return pk_done(NULL);
}

static int greet_all(pk_loop *loop, pk_channel *channel, char **names)
{
    pk_writer *out;
    pk_reader *in = helloworld_greeter_stream_hellos(channel, &out, NULL);
    for (; *names; names++) {
        Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
        request.name = *names;
        if (pk_loop_run_until(loop, helloworld_hello_request_write(out, &request), NULL).code)
            break; /* the read below tells why */
    }
    pk_writer_end(out);
    int code = tell(pk_loop_run_until(loop, pk_reader_each(in, print_reply, NULL), NULL));
    pk_writer_unref(out);
    pk_reader_unref(in);
    return code;
}

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_channel *channel;
    if (argc < 4) {
        fputs("usage: auth-client ADDRESS TOKEN-FILE NAME...\n", stderr);
        return 64;
    }
    struct tokens tokens = {.file = argv[2]};
    if (pk_loop_new(&loop, NULL) < 0 || pk_channel_new(&channel, loop, argv[1], NULL) < 0 ||
        pk_channel_intercept(channel, add_token, &tokens) < 0)
        return 70;
    int code = 0;
    for (char **name = &argv[3]; *name && code == 0; name++)
        code = greet(loop, channel, *name);
    if (code == 0)
        code = greet_all(loop, channel, &argv[3]);
    pk_channel_free(channel);
    pk_loop_free(loop);
    return code;
}
