/* handlers/streaming/writer.c: writing, back-pressure, the head, compression per message. */
#include <pekoe/pekoe.h>

#include "core/exchange.h"
#include "handlers/router.h"
#include "tests/support/stream_probe.h"

static pk_future written(const void *value, void *arg)
{
    cr_assert_null(value);
    note(arg, "ok");
    return pk_done(NULL);
}

static void await(struct probe *p, pk_future future)
{
    pk_current.scope = pk_call_scope(p->call);
    pk_detach(pk_recover(pk_then(future, written, p), failed, p));
    pk_current.scope = NULL;
    pk_loop_end_turn(pk_call_loop(p->call));
}

static pk_future write_text(struct probe *p, const char *text)
{
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char *) (uintptr_t) text;
    return helloworld_hello_reply_write(p->out, &reply);
}

Test(writer, sends_the_head_with_the_first_message)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    cr_assert_eq(pk_metadata_add(pk_call_headers(p.call), "x-head", "1"), 0);
    cr_assert_eq(pk_test_exchange_http_status(x), 0u);
    await(&p, write_text(&p, "a"));
    cr_assert_eq(pk_test_exchange_http_status(x), 200u);
    cr_assert_str_eq(pk_test_exchange_field(x, "x-head"), "1");
    cr_assert_str_eq(pk_test_exchange_field(x, "content-type"), "application/grpc");
    await(&p, write_text(&p, ""));
    await(&p, write_text(&p, "c"));
    cr_assert_str_eq(kit_replies(x), "a||c");
    cr_assert_str_eq(p.log, "ok|ok|ok");
    cr_assert_str_eq(kit_status(x), "none");
    cr_assert_eq(pk_metadata_add(pk_call_trailers(p.call), "x-tail", "2"), 0);
    end(&p);
    cr_assert_str_eq(kit_status(x), "0");
    cr_assert_str_eq(pk_test_exchange_field(x, "x-tail"), "2");
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(writer, sends_the_head_alone_when_asked)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    cr_assert_eq(pk_writer_send_headers(p.out), 0);
    cr_assert_eq(pk_test_exchange_http_status(x), 200u);
    cr_assert_eq(pk_writer_send_headers(p.out), PK_ERR_STATE, "it has gone");
    await(&p, write_text(&p, "a"));
    cr_assert_str_eq(kit_replies(x), "a");
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(writer, refuses_what_is_no_message)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    await(&p, pk_writer_write(p.out, NULL));
    cr_assert_str_eq(p.log, "INTERNAL: a NULL message was to be written");
    Helloworld__HelloRequest other = HELLOWORLD__HELLO_REQUEST__INIT;
    p.log[0] = '\0';
    await(&p, pk_writer_write(p.out, &other));
    cr_assert(strncmp(p.log, "INTERNAL: ", 10) == 0, "a message of another type: %s", p.log);
    cr_assert_eq(pk_test_exchange_http_status(x), 0u, "nothing was sent");
    await(&p, write_text(&p, "right"));
    cr_assert_str_eq(kit_replies(x), "right", "the stream goes on");
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(writer, waits_for_room)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    pk_test_exchange_set_room(x, 10); /* one message has 8 bytes */
    await(&p, write_text(&p, "1"));
    cr_assert_str_eq(p.log, "ok");
    await(&p, write_text(&p, "2"));
    cr_assert_str_eq(p.log, "ok", "taken, but there is no more room");
    await(&p, write_text(&p, "3"));
    cr_assert_str_eq(p.log, "ok|INTERNAL: a write is asked for while another one is pending");
    pk_test_exchange_set_room(x, 100);
    cr_assert_str_eq(strrchr(p.log, '|'), "|ok");
    await(&p, write_text(&p, "4"));
    cr_assert_str_eq(kit_replies(x), "1|2|4");
    end(&p);
    cr_assert_str_eq(kit_status(x), "0");
    pk_test_exchange_free(x);
    kit_close(&k);
}

Test(writer, trailers_follow_what_waits)
{
    kit k;
    struct probe p = {0};
    kit_open(&k, &probing, &p);
    pk_test_exchange *x = kit_call(&k, HELLOS);
    pk_test_exchange_set_room(x, 1);
    await(&p, write_text(&p, "1"));
    end(&p);
    cr_assert_str_eq(kit_status(x), "0");
    cr_assert_str_eq(kit_replies(x), "1");
    cr_assert(strncmp(p.log, "CANCELLED:", 10) == 0, "nobody will tell it of room: %s", p.log);
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* What clean-up still tries: the call's memory is there, but nobody takes a message any more. */
struct late {
    struct probe *probe;
    uint32_t state; /* of a write's future */
    int headers;    /* what pk_writer_send_headers returned */
};

static void write_late(void *arg)
{
    struct late *late = arg;
    pk_future write = write_text(late->probe, "late");
    late->state = write.state;
    late->headers = pk_writer_send_headers(late->probe->out);
}

Test(writer, a_pending_write_hears_how_the_call_ended_and_late_ones_are_dropped)
{
    for (int how = 0; how < 3; how++) {
        kit k;
        struct probe p = {0};
        kit_open(&k, &probing, &p);
        pk_test_clock_freeze(k.loop);
        const char *const fields[] = {"grpc-timeout", "100m", NULL};
        pk_test_exchange *x = kit_call_with(&k, HELLOS, fields);
        pk_test_exchange_set_room(x, 1);
        await(&p, write_text(&p, "1"));
        struct late late = {.probe = &p};
        cr_assert_eq(pk_call_on_end(p.call, write_late, &late), 0);
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
        cr_assert_eq(late.state, (uint32_t) PK_FUTURE_FAILED);
        cr_assert_eq(late.headers, PK_ERR_STATE);
        cr_assert_str_eq(kit_replies(x), "1");
        (void) pk_promise_done(p.end, NULL);
        pk_test_exchange_free(x);
        kit_close(&k);
    }
}

/* ---- Compression ---- */

Test(writer, compresses_message_by_message)
{
    kit k;
    struct probe p = {0};
    kit_open_with(&k, &probing, &p, PK_ROUTER_OPTS(.compress_all = true));
    const char *const fields[] = {"grpc-accept-encoding", "identity,gzip", NULL};
    pk_test_exchange *x = kit_call_with(&k, HELLOS, fields);
    char text[101];
    memset(text, 'z', 100);
    text[100] = '\0';
    static const bool switched[] = {true, false, false, true};
    size_t at = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i > 0)
            pk_writer_set_compression(p.out, switched[i]);
        await(&p, write_text(&p, text));
        pk_slice body = pk_test_exchange_body(x);
        cr_assert_eq(body.bytes[at], switched[i], "message %zu", i);
        cr_assert_eq(body.bytes[at + 4] < 100, switched[i]);
        at = body.length;
    }
    cr_assert_str_eq(pk_test_exchange_field(x, "grpc-encoding"), "gzip");
    end(&p);
    pk_test_exchange_free(x);
    kit_close(&k);
}

/* ---- Long streams, onto an exchange that drops everything ---- */

struct drop {
    pk_exchange exchange;
    size_t messages;
    size_t room; /* messages that are taken until there is none */
    bool finished;
};

static void drop_consume(pk_exchange *exchange, size_t length)
{
}

static void drop_reply(pk_exchange *exchange, const pk_reply *reply)
{
    pk_buffer_unref(reply->body);
    ((struct drop *) exchange)->finished = true;
}

static void drop_start(pk_exchange *exchange, unsigned status, const pk_field *fields, size_t count)
{
}

static bool drop_write(pk_exchange *exchange, pk_buffer *body_take)
{
    struct drop *drop = (struct drop *) exchange;
    pk_buffer_unref(body_take);
    return ++drop->messages % drop->room != 0;
}

static void drop_finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    ((struct drop *) exchange)->finished = true;
}

static void drop_hold(pk_exchange *exchange, size_t bytes)
{
}

static const pk_exchange_ops drop_ops = {.consume = drop_consume,
                                         .reply_strict = drop_reply,
                                         .start = drop_start,
                                         .write = drop_write,
                                         .finish = drop_finish,
                                         .hold = drop_hold};

#define FIELD(known_, text)                                                           \
    {                                                                                 \
        .name = PK_SLICE("x"), .value = {(const uint8_t *) (text), sizeof(text) - 1}, \
        .known = (known_)                                                             \
    }

struct flood {
    kit *k;
    pk_writer *out;
    size_t count;
    size_t requests, live;
};

static pk_future write_on(const void *unused, void *arg)
{
    struct flood *f = arg;
    if (f->count == 1000000)
        return pk_done(NULL);
    if (f->count++ == 10000) {
        f->requests = f->k->counts.requests;
        f->live = f->k->loop->memory.live_blocks;
    }
    if (f->count > 10000)
        cr_assert_leq(f->k->loop->memory.live_blocks, f->live + 2, "no promise stays behind");
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message = (char[]){"flood"};
    return pk_then(helloworld_hello_reply_write(f->out, &reply), write_on, f);
}

static pk_future flood(void *self, pk_call *call, const Helloworld__HelloRequest *request,
                       pk_writer *out)
{
    ((struct flood *) self)->out = out;
    return write_on(NULL, self);
}

Test(writer, a_million_messages_take_no_memory, .timeout = 60)
{
    static const helloworld_greeter_impl impl = {.it_keeps_replying = flood};
    static const size_t rooms[] = {1, 7, 100000000};
    static const pk_field fields[] = {FIELD(PK_FIELD_METHOD, "POST"),
                                      FIELD(PK_FIELD_PATH, REPLYING),
                                      FIELD(PK_FIELD_CONTENT_TYPE, "application/grpc")};
    static const pk_head head = {
        .fields = fields,
        .count = 3,
        .first = {[PK_FIELD_METHOD] = 1, [PK_FIELD_PATH] = 2, [PK_FIELD_CONTENT_TYPE] = 3}};
    for (size_t i = 0; i < 3; i++) {
        kit k;
        struct flood f = {.k = &k};
        kit_open(&k, &impl, &f);
        struct drop drop = {
            .exchange = {.ops = &drop_ops, .loop = k.loop, .peer = &(pk_peer){"nobody", NULL}},
            .room = rooms[i]};
        pk_acceptor acceptor = pk_router_acceptor(k.router);
        acceptor.accept(acceptor.self, &drop.exchange, &head, false);
        uint8_t bytes[64];
        drop.exchange.events->on_data(&drop.exchange, bytes, kit_frame(bytes, "go"), NULL);
        drop.exchange.events->on_end(&drop.exchange, NULL);
        pk_loop_end_turn(k.loop);
        while (!drop.finished) {
            drop.exchange.events->on_room(&drop.exchange);
            pk_loop_end_turn(k.loop);
        }
        cr_assert_eq(drop.messages, 1000000u);
        cr_assert_eq(k.counts.requests - f.requests, 0u, "%zu allocations",
                     k.counts.requests - f.requests);
        drop.exchange.events->on_closed(&drop.exchange);
        kit_close(&k);
    }
}
