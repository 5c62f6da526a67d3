/* HTTP/1.1 over a socket: replies byte by byte, what follows what, ends, limits. */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST "host: h\r\n"
#define TYPE "content-type: application/test\r\n"
#define OK "HTTP/1.1 200 OK\r\n" TYPE
#define CLOSE "connection: close\r\n"
#define EMPTY OK "content-length: 0\r\n\r\n"
#define EMPTY_LAST OK "content-length: 0\r\n" CLOSE "\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define POST(path, fields) "POST " path " HTTP/1.1\r\n" HOST fields "\r\n"
#define ECHO "POST /echo HTTP/1.1\r\n" HOST "content-length: 5\r\n\r\nhello"
#define ECHOED OK "content-length: 5\r\n\r\nhello"

static struct wire wire;

static void open_http1(const pk_server_opts *opts)
{
    wire_open(&wire, opts, false);
    wire.http1 = true;
}

static void say(struct wire *peer, const char *text)
{
    put(&peer->out, text, strlen(text));
    wire_run(peer);
}

/* What has come, and nothing else; then it is forgotten. */
static void expect(struct wire *peer, const char *text, const char *what)
{
    struct bytes *got = &peer->in.rest;
    cr_expect(got->length == strlen(text) &&
                  (got->length == 0 || memcmp(got->at, text, got->length) == 0),
              "%s: got \"%.*s\"", what, (int) got->length, (const char *) got->at);
    got->length = 0;
}

Test(http1, replies_to_each_kind_of_request)
{
    static const struct {
        const char *request, *reply;
        bool last; /* the server ends the connection */
    } cases[] = {
        {GET("/only"), EMPTY, false},
        {ECHO, ECHOED, false},
        {POST("/echo", "transfer-encoding: chunked\r\n") "2\r\nhe\r\n3\r\nllo\r\n0\r\na: b\r\n\r\n",
         ECHOED, false},
        {GET("/bytes/3"), OK "content-length: 3\r\n\r\nxxx", false},
        /* RFC 9110 section 9.3.2: the head is that of GET */
        {"HEAD /bytes/3 HTTP/1.1\r\n" HOST "\r\n", OK "content-length: 3\r\n\r\n", false},
        {GET("/stream/2/3"),
         OK "transfer-encoding: chunked\r\n\r\n3\r\nxxx\r\n3\r\nxxx\r\n0\r\n\r\n", false},
        {GET("/stream/1/17"),
         OK "transfer-encoding: chunked\r\n\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n", false},
        {GET("/stream/0/0"), OK "transfer-encoding: chunked\r\n\r\n0\r\n\r\n", false},
        {"HEAD /stream/2/3 HTTP/1.1\r\n" HOST "\r\n", OK "transfer-encoding: chunked\r\n\r\n",
         false},
        {"GET /only HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", EMPTY_LAST, true},
        {"GET /only HTTP/1.0\r\n\r\n", EMPTY_LAST, true},
        {"GET /stream/2/3 HTTP/1.0\r\n\r\n", OK CLOSE "\r\nxxxxxx", true},
        {GET("/nowhere"), "HTTP/1.1 404 Not Found\r\n" TYPE "content-length: 0\r\n\r\n", false},
        {GET("/refuse"), "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n" CLOSE "\r\n",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = strlen(cases[i].request);
        for (size_t cut = 0; cut < length; cut++) {
            open_http1(NULL);
            put(&wire.out, cases[i].request, cut);
            wire_run(&wire);
            say(&wire, cases[i].request + cut);
            expect(&wire, cases[i].reply, cases[i].request);
            cr_expect_str_eq(wire.acceptor.scheme, "http");
            cr_expect_eq(wire.closed, cases[i].last, "%s", cases[i].request);
            if (!cases[i].last) {
                say(&wire, ECHO);
                expect(&wire, ECHOED, "the next request");
            }
            wire_close(&wire);
        }
    }
}

Test(http1, requests_that_come_at_once_are_answered_in_their_order)
{
    open_http1(NULL);
    say(&wire, ECHO GET("/later") GET("/stream/1/2") ECHO GET("/bytes/1"));
    expect(&wire, ECHOED, "the first");
    cr_expect_eq(wire.acceptor.accepted, 2, "one at a time");
    path_acceptor_answer(&wire.acceptor);
    wire_run(&wire);
    expect(&wire,
           EMPTY OK "transfer-encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n" ECHOED OK
                    "content-length: 1\r\n\r\nx",
           "the others");
    wire_close(&wire);
}

Test(http1, many_requests_at_once_neither_stop_nor_pile_up)
{
    enum { COUNT = 20000 };
    open_http1(NULL);
    for (int i = 0; i < COUNT; i++)
        put(&wire.out, GET("/only"), sizeof GET("/only") - 1);
    wire_run(&wire);
    cr_expect_eq(wire.acceptor.closed, COUNT);
    cr_expect_eq(wire.in.rest.length, COUNT * (sizeof EMPTY - 1));
    wire_close(&wire);
}

Test(http1, a_client_that_waits_for_continue_gets_it_or_its_answer)
{
    open_http1(NULL);
    say(&wire, POST("/echo", "expect: 100-continue\r\ncontent-length: 5\r\n"));
    expect(&wire, "HTTP/1.1 100 Continue\r\n\r\n", "the go-ahead");
    say(&wire, "hello");
    expect(&wire, ECHOED, "the answer");
    /* Who was not asked to send may not send: the connection cannot go on. */
    say(&wire, POST("/early", "expect: 100-continue\r\ncontent-length: 5\r\n"));
    expect(&wire, EMPTY_LAST, "the early answer");
    cr_expect(wire.closed);
    wire_close(&wire);
}

Test(http1, bodies_that_nobody_reads_are_dropped_where_they_are_short)
{
    open_http1(NULL);
    say(&wire, POST("/early", "content-length: 5\r\n"));
    expect(&wire, EMPTY, "the early answer");
    say(&wire, "hel");
    say(&wire, "lo" ECHO);
    expect(&wire, ECHOED, "the next");
    say(&wire, POST("/early", "content-length: 5000000\r\n"));
    expect(&wire, EMPTY_LAST, "a long one");
    cr_expect(wire.closed);
    wire_close(&wire);

    open_http1(NULL);
    say(&wire, POST("/early", "transfer-encoding: chunked\r\n"));
    expect(&wire, EMPTY_LAST, "one without length");
    cr_expect(wire.closed);
    wire_close(&wire);
}

Test(http1, what_is_malformed_is_answered_and_ends_the_connection)
{
    static const char body[] = "there is no field host\n";
    char text[256];
    snprintf(text, sizeof text,
             "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
             "content-length: %zu\r\n" CLOSE "\r\n%s",
             sizeof body - 1, body);
    open_http1(NULL);
    say(&wire, "GET / HTTP/1.1\r\n\r\n" GET("/only"));
    expect(&wire, text, "no host");
    cr_expect(wire.closed);
    cr_expect_eq(wire.acceptor.accepted, 0);
    wire_close(&wire);

    /* In a body: the handler hears of it; what was answered before stays as it is. */
    open_http1(NULL);
    say(&wire, ECHO POST("/echo", "transfer-encoding: chunked\r\n") "1\r\nxyz");
    cr_expect_eq(wire.acceptor.cancelled, 1);
    cr_expect_eq(wire.acceptor.ended, 1);
    cr_expect(wire.closed);
    cr_expect_eq(memcmp(wire.in.rest.at, ECHOED "HTTP/1.1 400 ", sizeof ECHOED + 12), 0);
    wire_close(&wire);

    /* A response that is under way can only be cut. */
    open_http1(NULL);
    wire.deaf = true;
    say(&wire, POST("/stream/1000/10000", "transfer-encoding: chunked\r\n") "xyz");
    wire.deaf = false;
    wire_run(&wire);
    cr_expect_eq(wire.acceptor.cancelled, 1);
    cr_expect(wire.closed);
    wire_close(&wire);
}

static void answer_too_late(pk_exchange *exchange, const pk_status *why)
{
    exchange->ops->start(exchange, 200, NULL, 0);
    exchange->ops->finish(exchange, NULL, 0);
}

static void nothing(pk_exchange *exchange)
{
}

static void accept_and_wait(void *self, pk_exchange *exchange, const pk_head *head, bool ended)
{
    static const pk_exchange_events events = {.on_cancelled = answer_too_late,
                                              .on_closed = nothing};
    exchange->events = &events;
}

Test(http1, a_handler_that_answers_when_it_is_cancelled_says_nothing)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n"
                                 "content-type: text/plain; charset=utf-8\r\n"
                                 "content-length: 28\r\n" CLOSE "\r\na chunk's size is no number\n";
    open_http1(NULL);
    pk_server_set_acceptor(wire.server, &(pk_acceptor){.accept = accept_and_wait});
    say(&wire, POST("/x", "transfer-encoding: chunked\r\n") "xyz");
    expect(&wire, answer, "one answer");
    cr_expect(wire.closed);
    wire_close(&wire);
}

Test(http1, a_peer_that_goes_away_cancels_its_call)
{
    static const char *const requests[] = {
        GET("/later"), POST("/echo", "content-length: 5\r\n") "he", GET("/stream/1000000/1000"),
        POST("/stuck", "content-length: 5\r\n") "hello"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        open_http1(NULL);
        wire.deaf = true;
        say(&wire, requests[i]);
        wire_hang_up(&wire);
        cr_expect_eq(wire.acceptor.cancelled, 1, "%s", requests[i]);
        cr_expect_eq(wire.server->connection_count, 0);
        wire_close(&wire);
    }
}

/* ---- Flow control ---- */

Test(http1, a_writer_waits_for_a_peer_that_does_not_read)
{
    open_http1(NULL);
    wire.deaf = true;
    say(&wire, GET("/stream/3000/10000"));
    cr_expect_lt(wire.acceptor.written, 200);
    wire.deaf = false;
    wire_run(&wire);
    cr_expect_eq(wire.acceptor.written, 3000);
    cr_expect_eq(wire.in.rest.length, sizeof OK - 1 + sizeof "transfer-encoding: chunked\r\n\r\n" -
                                          1 + 3000 * (10000 + 8) + 5);
    wire_close(&wire);
}

Test(http1, a_body_that_is_not_consumed_is_not_read_on)
{
    enum { WINDOW = 100000, BODY = 5000000 };
    char head[128];
    uint8_t *body = calloc(1, BODY);
    cr_assert_not_null(body);
    open_http1(PK_SERVER_OPTS(.stream_window = WINDOW));
    snprintf(head, sizeof head, POST("/pull/%d", "content-length: %d\r\n"), BODY / 2, BODY);
    put(&wire.out, head, strlen(head));
    put(&wire.out, body, BODY);
    wire_run(&wire);
    cr_expect_geq(wire.acceptor.bytes, BODY / 2 + WINDOW);
    cr_expect_lt(wire.acceptor.bytes, BODY / 2 + WINDOW + 65536);
    cr_expect_gt(wire.out.length, 0);
    wire_close(&wire);
    free(body);
}

/* ---- Limits ---- */

Test(http1, a_large_head_is_refused_by_the_acceptor_a_larger_one_by_431)
{
    char request[3000];
    memset(request, 'x', sizeof request);
    memcpy(request, "GET /only HTTP/1.1\r\n" HOST "a: ", 32);
    open_http1(PK_SERVER_OPTS(.header_bytes = 1000, .header_bytes_max = 2000));
    memcpy(request + 1500, "\r\n\r\n", 5);
    say(&wire, request);
    expect(&wire, "HTTP/1.1 208 \r\n" TYPE "content-length: 0\r\n\r\n", "1,500 bytes");
    cr_expect_eq(wire.acceptor.refused, 1);
    memset(request + 1500, 'x', 1495);
    memcpy(request + 2990, "\r\n\r\n", 5);
    say(&wire, request);
    cr_expect_eq(memcmp(wire.in.rest.at, "HTTP/1.1 431 ", 13), 0);
    cr_expect(wire.closed);
    wire_close(&wire);
}

Test(http1, a_request_waits_for_the_byte_budget_then_is_refused)
{
    static struct wire second;
    open_http1(PK_SERVER_OPTS(.server_bytes = 100000));
    uint8_t *body = calloc(1, 200000);
    cr_assert_not_null(body);
    put(&wire.out, POST("/later", "content-length: 400001\r\n"),
        sizeof POST("/later", "content-length: 400001\r\n") - 1);
    put(&wire.out, body, 200000);
    wire_run(&wire);
    wire_join(&second, &wire);
    say(&second, ECHO);
    expect(&second, "", "it waits");
    for (int tick = 0; tick < 6; tick++) {
        put(&wire.out, body, 30000); /* it goes on and may live */
        wire_run(&wire);
        wire_ticks(&second, 1);
    }
    expect(&second, "HTTP/1.1 208 \r\n" TYPE "content-length: 0\r\n\r\n", "it is refused");
    /* Another waits, and the first one's end makes room. */
    say(&second, ECHO);
    expect(&second, "", "it waits");
    wire_hang_up(&wire);
    wire_ticks(&second, 1);
    expect(&second, ECHOED, "it is served");
    wire_leave(&second);
    wire_close(&wire);
    free(body);
}

Test(http1, a_request_that_holds_the_byte_budget_and_stops_coming_makes_room)
{
    static struct wire second;
    static const uint8_t body[200000];
    open_http1(PK_SERVER_OPTS(.server_bytes = 100000));
    put(&wire.out, POST("/later", "content-length: 200001\r\n"),
        sizeof POST("/later", "content-length: 200001\r\n") - 1);
    put(&wire.out, body, sizeof body);
    wire_run(&wire);
    wire_join(&second, &wire);
    say(&second, ECHO);
    expect(&second, "", "it waits");
    wire_ticks(&second, 1);
    expect(&second, "", "what has come counts for the first one until the next tick");
    wire_ticks(&second, 2);
    expect(&second, ECHOED, "it is served");
    wire_run(&wire);
    cr_expect(wire.closed);
    wire_leave(&second);
    wire_close(&wire);
}

Test(http1, slow_heads_slow_bodies_and_idle_peers_lose_the_connection)
{
    static const struct {
        const char *said;
        int ticks; /* that it lives */
    } cases[] = {
        {"", 2},
        {"G", 2},
        {"GET / HTTP/1.1\r\n", 2},
        {POST("/echo", "content-length: 5\r\n") "he", 3},
        {GET("/only"), 5},
        {ECHO, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_http1(PK_SERVER_OPTS(.header_timeout_ms = 2000, .body_timeout_ms = 3000,
                                  .idle_timeout_ms = 5000));
        say(&wire, cases[i].said);
        wire_ticks(&wire, cases[i].ticks);
        cr_expect_not(wire.closed, "case %zu", i);
        wire_ticks(&wire, 1);
        cr_expect(wire.closed, "case %zu", i);
        wire_close(&wire);
    }
}

/* ---- The graceful stop ---- */

Test(http1, a_graceful_stop_answers_what_was_asked)
{
    open_http1(NULL);
    say(&wire, GET("/later"));
    pk_detach(pk_server_stop(wire.server, 60000));
    wire_run(&wire);
    cr_expect_not(wire.closed);
    path_acceptor_answer(&wire.acceptor);
    say(&wire, ECHO);
    expect(&wire, EMPTY_LAST, "the last answer");
    cr_expect(wire.closed);
    wire_hang_up(&wire);
    cr_expect_eq(wire.server->connection_count, 0);
    wire_close(&wire);

    /* Idle ones end at once. */
    open_http1(NULL);
    say(&wire, ECHO);
    pk_detach(pk_server_stop(wire.server, 60000));
    wire_run(&wire);
    expect(&wire, ECHOED, "the answer before");
    cr_expect(wire.closed);
    wire_close(&wire);
}

Test(http1, both_versions_come_to_one_server)
{
    static struct wire second;
    open_http1(NULL);
    say(&wire, ECHO);
    expect(&wire, ECHOED, "HTTP/1.1");
    wire.http1 = false;
    wire_join(&second, &wire);
    put_request(&second.out, 1, true, "/only", NULL);
    wire_run(&second);
    cr_expect_eq(status_of(&second.in, 1), 200);
    wire_leave(&second);
    wire_close(&wire);
}
