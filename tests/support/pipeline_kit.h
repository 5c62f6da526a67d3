/*
 * Pipelines under test: a bidirectional handler that puts operators together as the test says, fed
 * with names and read as replies. For the tests of operators.
 */
#ifndef PEKOE_TESTS_PIPELINE_KIT_H
#define PEKOE_TESTS_PIPELINE_KIT_H

#include <pekoe/operators.h>

#include "tests/support/stream_kit.h"

typedef struct line {
    kit k;
    pk_test_exchange *x;
    pk_future (*build)(struct line *line); /* the handler */
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    unsigned calls;     /* of the test's own functions */
    unsigned cancelled; /* how often a probed source was told that nobody asks any more */
    unsigned running, most_running;
    pk_promise *waiting[8]; /* of map functions that wait, by the first letter of the name */
    pk_queue *queue;
    char released[256]; /* what a queue let go */
    void *own;          /* the test's */
} line;

static pk_future line_handler(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    line *l = self;
    l->call = call;
    l->in = in;
    l->out = out;
    return l->build(l);
}

static inline void line_open(line *l, pk_future (*build)(line *l))
{
    static const helloworld_greeter_impl impl = {.stream_hellos = line_handler};
    *l = (line){.build = build};
    kit_open(&l->k, &impl, l);
    pk_test_clock_freeze(l->k.loop);
    l->x = kit_call(&l->k, HELLOS);
}

/* Sends the names, joined by '|', and the end where they are followed by '.'. */
static inline void line_feed(line *l, const char *names)
{
    char name[64];
    while (*names && *names != '.') {
        size_t length = strcspn(names, "|.");
        memcpy(name, names, length);
        name[length] = '\0';
        kit_send(l->x, name);
        names += length + (names[length] == '|');
    }
    if (*names == '.')
        pk_test_exchange_end(l->x);
}

static inline void line_close(line *l)
{
    pk_test_exchange_free(l->x);
    for (size_t i = 0; i < 8; i++) {
        if (l->waiting[i])
            (void) pk_promise_done(pk_steal(&l->waiting[i]), NULL);
    }
    pk_loop_end_turn(l->k.loop);
    kit_close(&l->k);
}

/* ---- Functions for operators ---- */

/* A reply in the memory of the message that is lent. */
static inline pk_future greet(const void *message, void *arg)
{
    line *l = arg;
    const Helloworld__HelloRequest *request = message;
    Helloworld__HelloReply *reply = pk_reader_alloc(l->in, sizeof *reply);
    *reply = (Helloworld__HelloReply) HELLOWORLD__HELLO_REPLY__INIT;
    reply->message = pk_reader_printf(l->in, "<%s>", request->name);
    l->calls++;
    return pk_done(reply);
}

/* The same beside a message that was taken. */
static inline const Helloworld__HelloReply *greet_taken(line *l, const void *message)
{
    const Helloworld__HelloRequest *request = message;
    Helloworld__HelloReply *reply = pk_reader_alloc_with(l->in, message, sizeof *reply);
    *reply = (Helloworld__HelloReply) HELLOWORLD__HELLO_REPLY__INIT;
    size_t length = strlen(request->name);
    char *text = pk_reader_alloc_with(l->in, message, length + 3);
    text[0] = '<';
    memcpy(text + 1, request->name, length);
    text[length + 1] = '>';
    reply->message = text;
    l->calls++;
    return reply;
}

static inline bool is_short(const void *message, void *arg)
{
    return strlen(((const Helloworld__HelloRequest *) message)->name) < 2;
}

/* ---- A source that counts its cancels, over another one ---- */

struct probed {
    pk_source source;
    pk_source *from;
    line *l;
};

static pk_future probed_next(pk_source *source)
{
    return ((struct probed *) source)->from->next(((struct probed *) source)->from);
}

static pk_future probed_take(pk_source *source)
{
    return ((struct probed *) source)->from->take(((struct probed *) source)->from);
}

static void probed_give_back(pk_source *source, const void *message)
{
    ((struct probed *) source)->from->give_back(((struct probed *) source)->from, message);
}

static void probed_cancel(pk_source *source)
{
    ((struct probed *) source)->l->cancelled++;
}

static inline pk_source *probe(line *l, pk_source *from)
{
    struct probed *probed = pk_call_new(l->call, struct probed, .from = from, .l = l);
    probed->source = (pk_source){probed_next, probed_take, probed_give_back, probed_cancel};
    return &probed->source;
}

/* The names that the client sends. */
static inline pk_source *names(line *l)
{
    return probe(l, pk_source_of_reader(l->in));
}

#endif
