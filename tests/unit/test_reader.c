/* handlers/streaming/reader.c: reading, flow control, messages with a block of their own. */
#include <pekoe/pekoe.h>

#include "tests/support/stream_probe.h"

static pk_future got(const void *value, void *arg)
{
    struct probe *p = arg;
    const Helloworld__HelloRequest *request = value;
    note(p, request ? request->name : "END");
    return pk_done(NULL);
}

/* What a step of the handler does. */
static void read_one(struct probe *p)
{
    pk_scope *outer = pk_current.scope;
    pk_current.scope = pk_call_scope(p->call);
    pk_detach(pk_recover(pk_then(pk_reader_read(p->in), got, p), failed, p));
    pk_current.scope = outer;
    pk_loop_end_turn(pk_call_loop(p->call));
}

Test(reader, gives_messages_in_order_then_the_end)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    kit_send(x, "before");
    read_one(&p);
    read_one(&p); /* pending */
    cr_assert_str_eq(p.log, "before");
    kit_send(x, "");
    cr_assert_str_eq(p.log, "before|");
    kit_send(x, "a");
    kit_send(x, "b");
    read_one(&p);
    read_one(&p);
    read_one(&p); /* pending */
    pk_test_exchange_end(x);
    cr_assert_str_eq(p.log, "before||a|b|END");
    read_one(&p);
    cr_assert_str_eq(p.log, "before||a|b|END|END", "the end stays");
    end(&p);
    cr_assert_str_eq(kit_status(x), "0");
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* All that comes is read at once, by the plain loop. */
static pk_future log_all(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, got, self);
}

static const helloworld_greeter_impl logging = {.stream_hellos = log_all};

Test(reader, joins_what_was_cut_anywhere)
{
    uint8_t bytes[256];
    size_t length = kit_frame(bytes, "one");
    length += kit_frame(bytes + length, "");
    length += kit_frame(bytes + length, "three");
    for (size_t first = 0; first <= length; first++) {
        for (size_t second = first; second <= length; second++) {
            kit k;
            struct probe p = {0};
            kit_open(&k, &logging, &p);
            pk_test_exchange *x = kit_call(&k, HELLOS);
            pk_test_exchange_send(x, bytes, first);
            pk_test_exchange_send(x, bytes + first, second - first);
            pk_test_exchange_send(x, bytes + second, length - second);
            pk_test_exchange_end(x);
            cr_assert_str_eq(p.log, "one||three");
            cr_assert_str_eq(kit_status(x), "0");
            cr_assert_eq(pk_test_exchange_consumed(x), length);
            pk_test_exchange_free(x);
            kit_close(&k);
        }
    }
}

Test(reader, cut_anywhere_while_nobody_reads_is_the_same)
{
    uint8_t bytes[256];
    size_t length = kit_frame(bytes, "one");
    length += kit_frame(bytes + length, "two");
    for (size_t cut = 0; cut <= length; cut++) {
        kit k;
        struct probe p = {0};
        kit_open(&k, &probing, &p);
        pk_test_exchange *x = kit_call(&k, HELLOS);
        pk_test_exchange_send(x, bytes, cut);
        pk_test_exchange_send(x, bytes + cut, length - cut);
        pk_test_exchange_end(x);
        for (int i = 0; i < 3; i++)
            read_one(&p);
        cr_assert_str_eq(p.log, "one|two|END");
        end(&p);
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

Test(reader, an_end_inside_a_message_is_internal)
{
    uint8_t bytes[64];
    size_t length = kit_frame(bytes, "cut");
    for (size_t cut = 1; cut < length; cut++) {
        kit k;
        struct probe p = {0};
        kit_open(&k, &logging, &p);
        pk_test_exchange *x = kit_call(&k, HELLOS);
        pk_test_exchange_send(x, bytes, cut);
        pk_test_exchange_end(x);
        cr_assert_str_eq(kit_status(x), "13");
        cr_assert_str_eq(p.log, "");
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

Test(reader, gives_credit_back_only_as_the_handler_reads)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    char name[10001];
    memset(name, 'x', 10000);
    name[10000] = '\0';
    uint8_t bytes[16384];
    size_t size = kit_frame(bytes, name);
    for (int i = 0; i < 10; i++)
        pk_test_exchange_send(x, bytes, size);
    cr_assert_eq(pk_test_exchange_consumed(x), 0u);
    memset(p.log, 0, sizeof p.log);
    for (size_t i = 1; i <= 10; i++) {
        cr_assert_eq(pk_reader_read(p.in).state, (uint32_t) PK_FUTURE_DONE);
        /* In pieces of 16 KiB at least, but never more than was read. */
        size_t consumed = pk_test_exchange_consumed(x);
        cr_assert_leq(consumed, i * size);
        cr_assert_gt(consumed + 16384, i * size);
    }
    read_one(&p); /* waits: all credit is back */
    cr_assert_eq(pk_test_exchange_consumed(x), 10 * size);
    /* A message that is larger than any window gets its credit while it is gathered. */
    pk_test_exchange_send(x, bytes, 5000);
    cr_assert_eq(pk_test_exchange_consumed(x), 10 * size + 5000);
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(reader, gives_all_credit_back_at_the_end)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    uint8_t bytes[64];
    size_t size = kit_frame(bytes, "unread");
    for (int how = 0; how < 3; how++) {
        memset(&p, 0, sizeof p);
        pk_test_exchange *x = kit_call(&k, HELLOS);
        pk_test_exchange_send(x, bytes, size);
        pk_test_exchange_send(x, bytes, 3);
        if (how == 0) {
            end(&p);
            cr_assert_str_eq(kit_status(x), "0");
        } else if (how == 1) {
            pk_call_cancel(p.call);
            pk_loop_end_turn(k.loop);
        } else {
            pk_test_exchange_cancel(x);
        }
        cr_assert_eq(pk_test_exchange_consumed(x), size + 3);
        if (how > 0)
            cr_assert_eq(pk_promise_done(p.end, NULL), PK_ERR_TOO_LATE);
        pk_test_exchange_free(x);
    }
    kit_close(&k);
}

Test(reader, refuses_a_second_read_at_once)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    read_one(&p);
    read_one(&p);
    cr_assert_str_eq(p.log, "INTERNAL: a read is asked for while another one is pending");
    kit_send(x, "first");
    cr_assert_str_eq(strrchr(p.log, '|'), "|first", "the first one is not harmed");
    end(&p);
    cr_assert_str_eq(kit_status(x), "0");
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(reader, a_read_that_was_given_up_loses_no_message)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    pk_scope *scope = pk_call_scope(p.call);
    pk_current.scope = scope;
    pk_test_clock_freeze(k.loop);
    pk_future read = pk_then(pk_timeout(scope, pk_reader_read(p.in), 50), got, &p);
    pk_detach(pk_recover(read, failed, &p));
    pk_current.scope = NULL;
    pk_test_clock_advance(k.loop, 60);
    pk_loop_end_turn(k.loop);
    cr_assert(strncmp(p.log, "DEADLINE_EXCEEDED", 17) == 0, "%s", p.log);
    kit_send(x, "late");
    p.log[0] = '\0';
    read_one(&p);
    cr_assert_str_eq(p.log, "late");
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(reader, what_is_no_message_ends_the_call)
{
    static const struct {
        uint8_t bytes[16];
        size_t length;
        const char *status;
    } cases[] = {
        {{1, 0, 0, 0, 1, 0}, 6, "13"},             /* compressed, without an encoding */
        {{2, 0, 0, 0, 0}, 5, "13"},                /* flags that nobody knows */
        {{0, 0, 0x40, 0, 1}, 5, "8"},              /* 4 MiB and one byte */
        {{0, 0xff, 0xff, 0xff, 0xff}, 5, "8"},     /* 4 GiB */
        {{0, 0, 0, 0, 2, 0x0a, 0x05}, 7, "13"},    /* a string that is longer than its message */
        {{0, 0, 0, 0, 3, 0x0a, 1, 0xff}, 8, "13"}, /* no UTF-8 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int pending = 0; pending < 2; pending++) {
            kit k;
            struct probe p = {0};
            kit_open(&k, &probing, &p);
            pk_test_exchange *x = kit_call(&k, HELLOS);
            if (pending)
                read_one(&p);
            pk_test_exchange_send(x, cases[i].bytes, cases[i].length);
            if (!pending)
                read_one(&p);
            cr_assert_str_eq(kit_status(x), cases[i].status, "case %zu", i);
            cr_assert_neq(p.log[0], '\0', "the read fails");
            cr_assert_null(strchr(p.log, '|'), "and only once: %s", p.log);
            (void) pk_promise_done(p.end, NULL);
            pk_test_exchange_free(x);
            kit_close(&k);
        }
    }
}

Test(reader, a_message_of_the_limit_passes)
{
    kit k;
    struct probe p = {0};
    kit_open_with(&k, &logging, &p, PK_ROUTER_OPTS(.receive_limit = 7));
    pk_test_exchange *x = kit_call(&k, HELLOS);
    kit_send(x, "seven");
    cr_assert_str_eq(p.log, "seven");
    kit_send(x, "eight!");
    cr_assert_str_eq(kit_status(x), "8");
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Messages that stay ---- */

Test(reader, taken_messages_stay)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    static const char *const names[] = {"a", "b", "c"};
    const Helloworld__HelloRequest *taken[3];
    for (int i = 0; i < 3; i++) {
        kit_send(x, names[i]);
        pk_future future = pk_reader_take(p.in);
        cr_assert_eq(future.state, (uint32_t) PK_FUTURE_DONE);
        taken[i] = future.pointer;
    }
    kit_send(x, "lent");
    cr_assert_eq(pk_reader_read(p.in).state, (uint32_t) PK_FUTURE_DONE);
    size_t live = k.loop->memory.live_blocks;
    for (int i = 0; i < 3; i++)
        cr_assert_str_eq(taken[i]->name, names[i]);
    pk_reader_give_back(p.in, taken[1]);
    pk_reader_give_back(p.in, NULL);
    cr_assert_lt(k.loop->memory.live_blocks, live);
    cr_assert_str_eq(taken[0]->name, "a");
    cr_assert_str_eq(taken[2]->name, "c");
    /* The others go with the call. */
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

static pk_future take_pending(const void *value, void *arg)
{
    struct probe *p = arg;
    const Helloworld__HelloRequest *request = value;
    note(p, request ? request->name : "END");
    pk_reader_give_back(p->in, request);
    return pk_done(NULL);
}

Test(reader, a_pending_take_is_served_too)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    for (int i = 0; i < 2; i++) {
        pk_current.scope = pk_call_scope(p.call);
        pk_detach(pk_then(pk_reader_take(p.in), take_pending, &p));
        pk_current.scope = NULL;
        if (i == 0)
            kit_send(x, "later");
        else
            pk_test_exchange_end(x);
    }
    cr_assert_str_eq(p.log, "later|END");
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(reader, memory_of_a_message_goes_with_it)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    for (int i = 0; i < 1000; i++)
        kit_send(x, "name");
    size_t before = 0;
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(pk_reader_read(p.in).state, (uint32_t) PK_FUTURE_DONE);
        cr_assert_str_eq(pk_reader_printf(p.in, "Hello, %d", 7), "Hello, 7");
        const uint8_t *bytes = pk_reader_alloc(p.in, 5000);
        for (int j = 0; j < 5000; j++)
            cr_assert(bytes[j] == 0);
        if (i == 10)
            before = k.loop->memory.live_blocks;
    }
    cr_assert_eq(k.loop->memory.live_blocks, before, "nothing is kept");
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Ends ---- */

Test(reader, a_pending_read_hears_how_the_call_ended)
{
    for (int how = 0; how < 3; how++) {
        kit k;
        struct probe p = {0};
        kit_open(&k, &probing, &p);
        pk_test_clock_freeze(k.loop);
        const char *const fields[] = {"grpc-timeout", "100m", NULL};
        pk_test_exchange *x = kit_call_with(&k, HELLOS, fields);
        read_one(&p);
        if (how == 0) {
            pk_test_exchange_cancel(x);
        } else if (how == 1) {
            pk_call_cancel(p.call);
        } else {
            pk_test_clock_advance(k.loop, 100);
        }
        pk_loop_end_turn(k.loop);
        const char *wanted = how == 2 ? "DEADLINE_EXCEEDED:" : "CANCELLED:";
        cr_assert(strncmp(p.log, wanted, strlen(wanted)) == 0, "%s", p.log);
        cr_assert_str_eq(kit_status(x), how == 0 ? "none" : how == 1 ? "1" : "4");
        (void) pk_promise_done(p.end, NULL);
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

/* The call ends by its own step, with the rest of the chunk there. */
static pk_future cancel_behind(const void *value, void *arg)
{
    struct probe *p = arg;
    note(p, ((const Helloworld__HelloRequest *) value)->name);
    pk_call_cancel(p->call);
    return pk_done(NULL);
}

static pk_future cancel_at_first(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct probe *p = self;
    p->call = call;
    return pk_recover(pk_reader_each(in, cancel_behind, p), failed, p);
}

Test(reader, a_call_may_end_while_a_message_is_put_together)
{
    static const helloworld_greeter_impl impls[] = {{.stream_hellos = log_all},
                                                    {.stream_hellos = cancel_at_first}};
    static const char *const statuses[] = {"none", "4", "1"};
    uint8_t bytes[128];
    size_t first = kit_frame(bytes, "one"), length = first + kit_frame(bytes + first, "second");
    for (int how = 0; how < 3; how++) {
        for (size_t cut = first; cut < length; cut++) {
            for (size_t begun = 0; begun <= first; begun++) {
                kit k;
                struct probe p = {0};
                kit_open(&k, &impls[how == 2], &p);
                pk_test_clock_freeze(k.loop);
                const char *const fields[] = {"grpc-timeout", "100m", NULL};
                pk_test_exchange *x = kit_call_with(&k, HELLOS, fields);
                pk_test_exchange_send(x, bytes, begun);
                pk_test_exchange_send(x, bytes + begun, cut - begun);
                if (how == 0)
                    pk_test_exchange_cancel(x);
                else if (how == 1)
                    pk_test_clock_advance(k.loop, 100);
                pk_loop_end_turn(k.loop);
                cr_assert_str_eq(kit_status(x), statuses[how], "%d at %zu", how, cut);
                cr_assert(how == 2 || strcmp(p.log, "one") == 0, "%s", p.log);
                /* What comes behind the end of a call is not delivered. */
                bool ended_early = how == 2 && begun == first;
                cr_assert_eq(pk_test_exchange_consumed(x), ended_early ? begun : cut);
                if (how > 0)
                    pk_test_exchange_send(x, bytes + cut, length - cut);
                pk_test_exchange_free(x);
                kit_close(&k);
            }
        }
    }
}

/* ---- The plain loop ---- */

static pk_future refuse_b(const void *value, void *arg)
{
    struct probe *p = arg;
    const Helloworld__HelloRequest *request = value;
    note(p, request->name);
    return strcmp(request->name, "b") == 0 ? pk_failed(p->call, PK_ABORTED, "no b") : pk_done(NULL);
}

static pk_future until_b(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    ((struct probe *) self)->call = call;
    return pk_reader_each(in, refuse_b, self);
}

Test(reader, each_stops_at_the_first_failure)
{
    kit k;
    struct probe p = {0};
    static const helloworld_greeter_impl impl = {.stream_hellos = until_b};
    kit_open(&k, &impl, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    kit_send(x, "a");
    kit_send(x, "b");
    cr_assert_str_eq(kit_status(x), "10");
    kit_send(x, "c");
    cr_assert_str_eq(p.log, "a|b");
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Long streams ---- */

struct count {
    kit *k;
    pk_reader *in;
    size_t messages;
    size_t requests;    /* of the allocator, when the stream was warm */
    size_t live;        /* blocks at that time */
    uintptr_t low, top; /* of the stack */
};

static pk_future count_one(const void *value, void *arg);

/* The other way to write a loop: each step reads again. */
static pk_future count_step(const void *value, void *arg)
{
    struct count *c = arg;
    if (!value)
        return pk_done(NULL);
    (void) count_one(value, arg);
    return pk_then(pk_reader_read(c->in), count_step, c);
}

static pk_future count_one(const void *value, void *arg)
{
    struct count *c = arg;
    uintptr_t here = (uintptr_t) __builtin_frame_address(0);
    if (c->messages++ == 0)
        c->low = c->top = here;
    c->low = here < c->low ? here : c->low;
    c->top = here > c->top ? here : c->top;
    if (c->messages == 10000) {
        c->requests = c->k->counts.requests;
        c->live = c->k->loop->memory.live_blocks;
    }
    if (c->messages > 10000)
        cr_assert_leq(c->k->loop->memory.live_blocks, c->live + 2, "no promise stays behind");
    return pk_done(NULL);
}

static pk_future count_each(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, count_one, self);
}

static pk_future count_by_steps(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    ((struct count *) self)->in = in;
    return pk_then(pk_reader_read(in), count_step, self);
}

Test(reader, a_million_messages_take_no_memory_and_no_stack, .timeout = 60)
{
    static const helloworld_greeter_impl impls[] = {{.stream_hellos = count_each},
                                                    {.stream_hellos = count_by_steps}};
    static uint8_t chunk[1000 * 8];
    size_t length = 0;
    for (int i = 0; i < 1000; i++)
        length += kit_frame(chunk + length, "x");
    /* Whole messages in each chunk, and then a cut in each. */
    for (size_t i = 0; i < 4; i++) {
        kit k;
        struct count c = {.k = &k};
        kit_open(&k, &impls[i % 2], &c);
        pk_test_exchange *x = kit_call(&k, HELLOS);
        size_t cut = i < 2 ? 0 : 3;
        pk_test_exchange_send(x, chunk, cut);
        for (int j = 0; j < 1000; j++) {
            pk_test_exchange_send(x, chunk + cut, length - cut);
            if (j + 1 < 1000)
                pk_test_exchange_send(x, chunk, cut);
        }
        pk_test_exchange_end(x);
        cr_assert_eq(c.messages, 1000000u);
        cr_assert_str_eq(kit_status(x), "0");
        cr_assert_eq(k.counts.requests - c.requests, 0u, "%zu allocations",
                     k.counts.requests - c.requests);
        cr_assert_lt(c.top - c.low, 32768u, "%zu bytes of stack", (size_t) (c.top - c.low));
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}
