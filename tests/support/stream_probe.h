/* A handler of StreamHellos that reads and writes when the test says so, and a log of how that went. */
#ifndef PEKOE_TESTS_STREAM_PROBE_H
#define PEKOE_TESTS_STREAM_PROBE_H

#include "tests/support/stream_kit.h"

struct probe {
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    pk_promise *end; /* the handler's own */
    char log[512];   /* entries with '|' between them */
};

static inline void note(struct probe *p, const char *text)
{
    cr_assert_lt(strlen(p->log) + strlen(text) + 2, sizeof p->log);
    strcat(strcat(p->log, p->log[0] ? "|" : ""), text);
}

/* A step for pk_recover. */
static inline pk_future failed(const pk_status *status, void *arg)
{
    char text[128];
    snprintf(text, sizeof text, "%s: %.*s", pk_code_name(status->code),
             (int) status->message.length, (const char *) status->message.bytes);
    note(arg, text);
    return pk_done(NULL);
}

static inline pk_future probed(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct probe *p = self;
    p->call = call;
    p->in = in;
    p->out = out;
    cr_assert_eq(pk_reader_call(in), call);
    cr_assert_eq(pk_writer_call(out), call);
    p->end = pk_promise_new(pk_call_scope(call));
    return pk_promise_future(p->end);
}

static const helloworld_greeter_impl probing = {.stream_hellos = probed};

/* The handler is done. */
static inline void end(struct probe *p)
{
    (void) pk_promise_done(p->end, NULL);
    pk_loop_end_turn(pk_call_loop(p->call));
}

#endif
