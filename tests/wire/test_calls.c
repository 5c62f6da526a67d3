/*
 * Calls of a generated service through the real server, over sockets: which bytes get which status,
 * what a done call leaves out, and calls that end each other from inside their callbacks.
 */
#include <pekoe/testing.h>

#include "calls_service.h"

#include <criterion/criterion.h>

/* ---- Requests that are right and wrong ---- */

/* A request whose verb and content type are given too; fields end in NULL. */
static void put_head(struct bytes *to, uint32_t stream, const char *verb, const char *path,
                     const char *type, const char *const *fields)
{
    struct bytes block = {0};
    put_field(&block, ":method", verb);
    put_field(&block, ":scheme", "http");
    put_field(&block, ":path", path);
    put_field(&block, ":authority", "test");
    if (type)
        put_field(&block, "content-type", type);
    for (; fields && *fields; fields += 2)
        put_field(&block, fields[0], fields[1]);
    put_frame(to, HEADERS, END_HEADERS, stream, block.at, block.length);
    bytes_free(&block);
}

#define GRPC "application/grpc"
#define TIMEOUT(text) ((const char *const[]){"grpc-timeout", text, NULL})
#define ENCODING(text) ((const char *const[]){"grpc-encoding", text, NULL})
#define BODY(text) text, sizeof text - 1
#define EMPTY BODY("\0\0\0\0\0")

/* What the design's section 5 says, on one connection, which lives on. */
Test(calls, get_the_status_that_their_bytes_deserve)
{
    const struct {
        const char *verb, *path, *type;
        const char *const *fields;
        const char *body;
        size_t length;
        unsigned http;
        const char *last; /* a field of the last HEADERS */
    } rows[] = {
        {"POST", ASK, GRPC, NULL, EMPTY, 200, "grpc-status: 0"},
        {"POST", ASK, "APPLICATION/GRPC", NULL, EMPTY, 200, "grpc-status: 0"},
        {"POST", ASK, "application/grpc; charset=utf-8", NULL, EMPTY, 200, "grpc-status: 0"},
        {"POST", ASK, "application/grpc+proto;a=b", NULL, EMPTY, 200, "grpc-status: 0"},
        {"POST", ASK, "application/grpcfoo", NULL, EMPTY, 415, NULL},
        {"POST", ASK, "application/grpc-web", NULL, EMPTY, 415, NULL},
        {"POST", ASK, "application/json", NULL, EMPTY, 415, NULL},
        {"POST", ASK, "text/plain", NULL, EMPTY, 415, NULL},
        {"POST", ASK, NULL, NULL, EMPTY, 415, NULL},
        {"GET", ASK, GRPC, NULL, EMPTY, 405, "allow: POST"},
        {"PUT", "/x", "text/plain", NULL, EMPTY, 405, "allow: POST"},
        {"POST", "/wire.Calls/Nothing", GRPC, NULL, EMPTY, 200, "grpc-status: 12"},
        {"POST", "/wire.Nobody/Ask", GRPC, NULL, EMPTY, 200, "grpc-status: 12"},
        {"POST", "/wire.Calls/ask", GRPC, NULL, EMPTY, 200, "grpc-status: 12"},
        {"POST", ASK "/", GRPC, NULL, EMPTY, 200, "grpc-status: 12"},
        {"POST", ASK "?x=1", GRPC, NULL, EMPTY, 200, "grpc-status: 12"},
        {"POST", ASK, GRPC, NULL, BODY(""), 200, "grpc-status: 12"},
        {"POST", ASK, GRPC, NULL, BODY("\0\0\0\0\0\0\0\0\0\0"), 200, "grpc-status: 12"},
        {"POST", ASK, GRPC, NULL, BODY("\1\0\0\0\0"), 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, NULL, BODY("\2\0\0\0\0"), 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, NULL, BODY("\x80\0\0\0\0"), 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, NULL, BODY("\0\xff\xff\xff\xff"), 200, "grpc-status: 8"},
        {"POST", ASK, GRPC, NULL, BODY("\0\0\x40\0\1"), 200, "grpc-status: 8"},
        {"POST", ASK, GRPC, NULL, BODY("\0\0\0"), 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, NULL, BODY("\0\0\0\0\2\x08"), 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, NULL, BODY("\0\0\0\0\6\x1a\xff\xff\xff\xff\x0f"), 200,
         "grpc-status: 13"},
        {"POST", ASK, GRPC, NULL, BODY("\0\0\0\0\7\x1a\xff\xff\xff\xff\xff\x0f"), 200,
         "grpc-status: 13"},
        {"POST", ASK_GUARDED, GRPC, NULL, BODY("\0\0\0\0\6\x0a\xff\xff\xff\xff\x0f"), 200,
         "grpc-status: 13"},
        {"POST", ASK, GRPC, ENCODING("foo"), EMPTY, 200, "grpc-status: 12"},
        {"POST", ASK, GRPC, ENCODING("foo"), BODY("\1\0\0\0\0"), 200, "grpc-status: 12"},
        {"POST", ASK, GRPC, ENCODING("identity"), EMPTY, 200, "grpc-status: 0"},
        {"POST", ASK, GRPC, ENCODING("identity"), BODY("\1\0\0\0\0"), 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("99999999H"), EMPTY, 200, "grpc-status: 0"},
        {"POST", ASK, GRPC, TIMEOUT(""), EMPTY, 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("S"), EMPTY, 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("10"), EMPTY, 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("-5m"), EMPTY, 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("1.5S"), EMPTY, 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("1s"), EMPTY, 200, "grpc-status: 13"},
        {"POST", ASK, GRPC, TIMEOUT("123456789S"), EMPTY, 200, "grpc-status: 13"},
    };
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t stream = (uint32_t) (4 * i + 1);
        put_head(&peer.out, stream, rows[i].verb, rows[i].path, rows[i].type, rows[i].fields);
        put_data(&peer.out, stream, true, rows[i].body, rows[i].length);
        put_question(&peer, stream + 2, WIRE__QUESTION__WAY__NOW, 0);
        wire_run(&peer);
        cr_expect_eq(status_of(&peer.in, stream), rows[i].http, "row %zu", i);
        cr_expect(ended(&peer.in, stream), "row %zu", i);
        cr_expect(!rows[i].last || last_has(&peer.in, stream, rows[i].last), "row %zu", i);
        cr_expect(last_has(&peer.in, stream + 2, "grpc-status: 0"), "behind row %zu", i);
    }
    wire_leave(&peer);
    close_server();
}

Test(calls, are_answered_wherever_their_bytes_are_cut)
{
    struct wire peer = {.fd = -1};
    open_server();
    put_question(&peer, 1, WIRE__QUESTION__WAY__NOW, 300);
    struct bytes all = peer.out;
    for (size_t cut = 0; cut <= all.length; cut++) {
        wire_join(&peer, &wire);
        put(&peer.out, all.at, cut);
        wire_run(&peer);
        put(&peer.out, all.at + cut, all.length - cut);
        wire_run(&peer);
        cr_assert(last_has(&peer.in, 1, "grpc-status: 0"), "cut at %zu", cut);
        cr_assert_eq(body_of(&peer.in, 1), 5);
        wire_leave(&peer);
    }
    bytes_free(&all);
    close_server();
}

Test(calls, that_are_reset_on_their_way_leave_the_connection_alone)
{
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    for (uint32_t sent = 0; sent < 5; sent++) {
        uint32_t stream = 8 * sent + 1;
        put_head(&peer.out, stream, "POST", ASK, GRPC, NULL);
        put_data(&peer.out, stream, false, "\0\0\0\0\2", sent);
        put_question(&peer, stream + 2, WIRE__QUESTION__WAY__HOLD, 0);
        wire_run(&peer);
        put_reset(&peer.out, stream, 8);
        put_reset(&peer.out, stream + 2, 2);
        put_question(&peer, stream + 4, WIRE__QUESTION__WAY__NOW, 0);
        wire_run(&peer);
        cr_expect_eq(places[0].ends, sent + 1);
        cr_expect_eq(find_frame(&peer.in, 0, HEADERS, stream), SIZE_MAX);
        cr_expect_eq(find_frame(&peer.in, 0, HEADERS, stream + 2), SIZE_MAX);
        cr_expect(last_has(&peer.in, stream + 4, "grpc-status: 0"));
    }
    wire_leave(&peer);
    close_server();
}

/* The value and the deadline fall due at the same time: one of them is the answer, once. */
Test(calls, whose_value_and_deadline_come_together_are_answered_once)
{
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    pk_test_clock_freeze(wire.loop);
    Wire__Question question = WIRE__QUESTION__INIT;
    question.way = WIRE__QUESTION__WAY__SLEEP;
    for (uint32_t i = 0; i < 3; i++) {
        struct bytes body = {0};
        question.place = 49 + i;
        put_message(&body, &question.base, false);
        put_head(&peer.out, 2 * i + 1, "POST", ASK, GRPC, TIMEOUT("50m"));
        put_data(&peer.out, 2 * i + 1, true, body.at, body.length);
        bytes_free(&body);
    }
    wire_run(&peer);
    cr_assert_eq(find_frame(&peer.in, 0, HEADERS, 1), SIZE_MAX);
    pk_test_clock_advance(wire.loop, 100);
    wire_run(&peer);
    cr_expect(last_has(&peer.in, 1, "grpc-status: 0"));
    cr_expect(last_has(&peer.in, 3, "grpc-status: 0") || last_has(&peer.in, 3, "grpc-status: 4"));
    cr_expect(last_has(&peer.in, 5, "grpc-status: 4"));
    wire_leave(&peer);
    close_server();
}

/* Runs the loop until the stream has its end. */
static void await_end(struct wire *peer, uint32_t stream)
{
    for (int i = 0; i < 1000 && !ended(&peer->in, stream); i++) {
        pk_loop_turn(peer->loop);
        wire_run(peer);
    }
}

/* The deadline, the peer's reset and the peer's loss each come while a worker is busy. */
Test(calls, that_end_while_a_thread_works_for_them_leave_it_their_memory)
{
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    Wire__Question question = WIRE__QUESTION__INIT;
    question.way = WIRE__QUESTION__WAY__WORK;
    question.place = 100;
    for (uint32_t stream = 1; stream <= 7; stream += 2) {
        struct bytes body = {0};
        put_message(&body, &question.base, false);
        put_head(&peer.out, stream, "POST", ASK, GRPC, stream == 3 ? TIMEOUT("10m") : NULL);
        put_data(&peer.out, stream, true, body.at, body.length);
        bytes_free(&body);
    }
    wire_run(&peer);
    put_reset(&peer.out, 5, 8);
    await_end(&peer, 3);
    cr_expect(last_has(&peer.in, 3, "grpc-status: 4"));
    cr_expect_not(ended(&peer.in, 1));
    await_end(&peer, 1);
    cr_expect(last_has(&peer.in, 1, "grpc-status: 0"));
    await_end(&peer, 7);
    cr_expect(last_has(&peer.in, 7, "grpc-status: 0"));
    question.place = 50;
    put_call(&peer, 9, ASK, &question.base, false);
    wire_run(&peer);
    wire_leave(&peer);
    close_server();
}

/* ---- Done calls ---- */

static unsigned promises; /* that have come and gone: each lets go of its scope once */

void __real_pk_scope_unpin(pk_scope *scope);
void __wrap_pk_scope_unpin(pk_scope *scope);
void __wrap_pk_scope_unpin(pk_scope *scope)
{
    promises++;
    __real_pk_scope_unpin(scope);
}

/* Only promises enter the ready queue: where there was none, nothing was queued. */
Test(calls, that_are_done_at_once_make_no_promise)
{
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    promises = 0;
    for (uint32_t i = 0; i < 100; i++)
        put_question(&peer, 2 * i + 1, WIRE__QUESTION__WAY__NOW, 0);
    wire_run(&peer);
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(last_has(&peer.in, 2 * i + 1, "grpc-status: 0"));
    cr_assert_eq(promises, 0);
    put_question(&peer, 201, WIRE__QUESTION__WAY__HOLD, 0);
    put_question(&peer, 203, WIRE__QUESTION__WAY__RELEASE, 0);
    wire_run(&peer);
    cr_assert(last_has(&peer.in, 201, "grpc-status: 0"));
    cr_assert_gt(promises, 0, "the counter counts");
    wire_leave(&peer);
    close_server();
}

/* ---- Calls that end each other ---- */

/* How the first of a row of calls ends. */
enum first_end { BY_ANSWER, BY_RESET, BY_LOSS, BY_FREEING_THE_SERVER, FIRST_ENDS };

static void end_first(enum first_end end, struct wire *peer)
{
    switch ((int) end) {
    case BY_ANSWER:
        put_question(peer, 2 * PLACES + 1, WIRE__QUESTION__WAY__RELEASE, 0);
        wire_run(peer);
        break;
    case BY_RESET:
        put_reset(&peer->out, 1, 8);
        wire_run(peer);
        break;
    case BY_LOSS:
        wire_hang_up(peer);
        break;
    default:
        wire.server = pk_server_free(wire.server);
        pk_loop_end_turn(wire.loop);
        break;
    }
}

/*
 * A call that ends cancels the next one and completes the one behind that, from inside of its
 * clean-up: on its own connection and on another, in the dispatch of what ended it.
 */
Test(calls, may_end_each_other_from_inside_their_ends)
{
    for (unsigned end = 0; end < FIRST_ENDS; end++) {
        struct wire one, other;
        open_server();
        wire_join(&one, &wire);
        wire_join(&other, &wire);
        for (uint32_t i = 0; i < PLACES; i++)
            put_question(i % 2 ? &other : &one, 2 * i + 1, WIRE__QUESTION__WAY__CHAIN, i);
        wire_run(&one);
        wire_run(&other);
        for (uint32_t i = 0; i < PLACES; i++)
            cr_assert_not_null(places[i].call);
        end_first(end, &one);
        for (uint32_t i = 0; i < PLACES; i++)
            cr_expect_eq(places[i].ends, 1, "the call at %u ended %u times", i, places[i].ends);
        wire_run(&other);
        if (end != BY_FREEING_THE_SERVER) {
            cr_expect(last_has(&other.in, 3, "grpc-status: 1"));
            cr_expect(last_has(&other.in, 7, end == BY_LOSS ? "grpc-status: 1" : "grpc-status: 0"));
        }
        wire_leave(&one);
        wire_leave(&other);
        close_server();
    }
}
