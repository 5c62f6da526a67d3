/*
 * Plain HTTP requests beside calls: what a handler sees, and what leaves. Sockets of both HTTP
 * versions ask in tests/gateway.
 */
#include <pekoe/http.h>

#include "tests/support/client_kit.h"
#include "tests/support/counting_allocator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    unsigned asked;
    char method[16], target[64], agent[32];
    int field_errors[3];
} seen;

static void copy(char *to, pk_slice from)
{
    memcpy(to, from.length > 0 ? (const char *) from.bytes : "", from.length);
    to[from.length] = '\0';
}

static void handle(void *self, pk_http *http)
{
    seen.asked++;
    copy(seen.method, pk_http_method(http));
    copy(seen.target, pk_http_target(http));
    copy(seen.agent, pk_http_field(http, "x-agent"));
    if (strcmp(seen.target, "/nothing") == 0)
        return;
    seen.field_errors[0] = pk_http_add_field(http, "x-a", "b");
    seen.field_errors[1] = pk_http_add_field(http, "X a", "b");
    seen.field_errors[2] = pk_http_add_field(http, "x-a", "b\r\nc: d");
    cr_assert_eq(pk_http_reply(http, 200, "text/plain", "hello\n", 6), 0);
    cr_assert_eq(pk_http_reply(http, 200, "text/plain", "again\n", 6), PK_ERR_STATE);
    cr_assert_eq(pk_http_add_field(http, "x-b", "late"), PK_ERR_STATE);
}

static pk_test_exchange *ask(pk_router *router, const char *method, const char *path)
{
    const char *const fields[] = {"x-agent", "smith", NULL};
    pk_test_exchange *exchange = pk_test_exchange_new(
        router,
        &(pk_test_request){.path = path, .method = method, .fields = fields, .ended = true});
    cr_assert_not_null(exchange);
    cr_assert(pk_test_exchange_finished(exchange));
    return exchange;
}

Test(http, a_handler_sees_the_request_and_answers_it)
{
    pk_loop *loop;
    pk_router *router;
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    pk_test_exchange *exchange = ask(router, "GET", "/x?y");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 405, "there is no handler");
    pk_test_exchange_free(exchange);
    pk_router_set_http(router, handle, NULL);
    exchange = ask(router, "GET", "/x?y");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 200);
    cr_assert_str_eq(pk_test_exchange_field(exchange, "content-type"), "text/plain");
    cr_assert_str_eq(pk_test_exchange_field(exchange, "x-a"), "b");
    cr_assert(says(pk_test_exchange_body(exchange), "hello\n"));
    pk_test_exchange_free(exchange);
    cr_assert_str_eq(seen.method, "GET");
    cr_assert_str_eq(seen.target, "/x?y");
    cr_assert_str_eq(seen.agent, "smith");
    cr_assert_eq(seen.field_errors[0], 0);
    cr_assert_eq(seen.field_errors[1], PK_ERR_INVALID);
    cr_assert_eq(seen.field_errors[2], PK_ERR_INVALID);
    exchange = ask(router, "GET", "/nothing");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 404);
    pk_test_exchange_free(exchange);
    exchange = ask(router, "HEAD", "/x");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 200);
    cr_assert_eq(pk_test_exchange_body(exchange).length, 0);
    pk_test_exchange_free(exchange);
    exchange = ask(router, "POST", "/x");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 415, "it may be meant as a call");
    pk_test_exchange_free(exchange);
    cr_assert_eq(seen.asked, 3);
    pk_router_free(router);
    pk_loop_free(loop);
}

/* What would end the answer's head, or say that it has another end, is refused. */
static void handle_wrongly(void *self, pk_http *http)
{
    static const char *const framing[] = {"connection", "content-length",   "keep-alive",
                                          "upgrade",    "proxy-connection", "transfer-encoding"};
    for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
        cr_expect_eq(pk_http_add_field(http, framing[i], "1"), PK_ERR_INVALID, "%s", framing[i]);
    cr_expect_eq(pk_http_reply(http, 200, "a\r\nb: c", "x", 1), PK_ERR_INVALID);
    cr_expect_eq(pk_http_reply(http, 100, NULL, NULL, 0), PK_ERR_INVALID);
    cr_expect_eq(pk_http_reply(http, 1000, NULL, NULL, 0), PK_ERR_INVALID);
}

Test(http, what_would_break_the_answer_is_refused)
{
    pk_loop *loop;
    pk_router *router;
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    pk_router_set_http(router, handle_wrongly, NULL);
    pk_test_exchange *exchange = ask(router, "GET", "/");
    cr_expect_eq(pk_test_exchange_http_status(exchange), 404);
    cr_expect_null(pk_test_exchange_field(exchange, "b"));
    pk_test_exchange_free(exchange);
    pk_router_free(router);
    pk_loop_free(loop);
}

static unsigned bodiless; /* the status of the answer */

static void handle_bodiless(void *self, pk_http *http)
{
    cr_assert_eq(pk_http_reply(http, bodiless, NULL, "hello", 5), 0);
}

/* ---- Bodies that are read while they leave ---- */

static struct {
    uint64_t length, has, at; /* bytes: told, there, read */
    unsigned reads, closed;
    size_t at_most; /* in one piece; 0: as many as there is room for */
} source;

static ptrdiff_t read_source(void *self, void *bytes, size_t room)
{
    uint8_t *to = bytes;
    size_t length = source.at_most && source.at_most < room ? source.at_most : room;
    cr_assert_eq(source.closed, 0);
    cr_assert_gt(room, 0);
    cr_assert_leq(room, source.length - source.at);
    source.reads++;
    if (source.at + length > source.has)
        length = (size_t) (source.has - source.at);
    for (size_t i = 0; i < length; i++)
        to[i] = (uint8_t) (source.at++ % 251);
    return (ptrdiff_t) length;
}

static void close_source(void *self)
{
    cr_assert_eq(self, &source);
    source.closed++;
}

static const pk_http_body source_body = {read_source, close_source, &source};

static void handle_source(void *self, pk_http *http)
{
    cr_assert_eq(pk_http_add_field(http, "x-a", "b"), 0);
    cr_assert_eq(pk_http_reply_body(http, 200, "text/plain", source.length, &source_body), 0);
    cr_assert_eq(pk_http_reply(http, 200, NULL, NULL, 0), PK_ERR_STATE);
}

/* The same where memory may run out. */
static void handle_scarce(void *self, pk_http *http)
{
    (void) !pk_http_reply_body(http, 200, "text/plain", source.length, &source_body);
}

struct http_kit {
    pk_loop *loop;
    pk_router *router;
    pk_test_exchange *exchange;
};

/* A source of `length` bytes that has `has` of them; a client that takes `room` before it stops. */
static struct http_kit open_source(const char *method, uint64_t length, uint64_t has)
{
    struct http_kit kit;
    memset(&source, 0, sizeof source);
    source.length = length;
    source.has = has;
    cr_assert_eq(pk_loop_new(&kit.loop, NULL), 0);
    cr_assert_eq(pk_router_new(&kit.router, kit.loop, NULL), 0);
    pk_router_set_http(kit.router, handle_source, NULL);
    kit.exchange = pk_test_exchange_new(
        kit.router, &(pk_test_request){.path = "/", .method = method, .ended = true});
    cr_assert_not_null(kit.exchange);
    return kit;
}

static void close_source_kit(struct http_kit *kit)
{
    pk_test_exchange_free(kit->exchange);
    cr_assert_eq(source.closed, 1);
    pk_router_free(kit->router);
    pk_loop_free(kit->loop);
}

Test(http, a_body_is_read_to_its_end_in_pieces)
{
    static const uint64_t lengths[] = {0, 1, 16383, 16384, 16385, 100000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char told[24];
        struct http_kit kit = open_source("GET", lengths[i], lengths[i]);
        cr_assert(pk_test_exchange_finished(kit.exchange));
        cr_assert_eq(pk_test_exchange_http_status(kit.exchange), 200);
        cr_assert_str_eq(pk_test_exchange_field(kit.exchange, "content-type"), "text/plain");
        cr_assert_str_eq(pk_test_exchange_field(kit.exchange, "x-a"), "b");
        snprintf(told, sizeof told, "%u", (unsigned) lengths[i]);
        if (lengths[i] > 0) /* otherwise the transport tells */
            cr_assert_str_eq(pk_test_exchange_field(kit.exchange, "content-length"), told);
        pk_slice body = pk_test_exchange_body(kit.exchange);
        cr_assert_eq(body.length, lengths[i]);
        for (size_t at = 0; at < body.length; at++)
            cr_assert_eq(body.bytes[at], at % 251);
        close_source_kit(&kit);
    }
    struct http_kit kit = open_source("HEAD", 70000, 70000);
    cr_assert(pk_test_exchange_finished(kit.exchange));
    cr_assert_str_eq(pk_test_exchange_field(kit.exchange, "content-length"), "70000");
    cr_assert_eq(pk_test_exchange_body(kit.exchange).length, 0);
    cr_assert_eq(source.reads, 0);
    close_source_kit(&kit);
}

static void handle_bodiless_source(void *self, pk_http *http)
{
    cr_assert_eq(pk_http_reply_body(http, bodiless, NULL, source.length, &source_body), 0);
}

static void handle_wrong_source(void *self, pk_http *http)
{
    cr_assert_eq(pk_http_reply_body(http, 200, "a\nb", source.length, &source_body),
                 PK_ERR_INVALID);
}

Test(http, answers_that_have_no_body_are_sent_without)
{
    static const unsigned statuses[] = {204, 304};
    for (size_t i = 0; i < 4; i++) {
        pk_loop *loop;
        pk_router *router;
        bodiless = statuses[i % 2];
        memset(&source, 0, sizeof source);
        source.length = source.has = 10;
        cr_assert_eq(pk_loop_new(&loop, NULL), 0);
        cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
        pk_router_set_http(router, i < 2 ? handle_bodiless : handle_bodiless_source, NULL);
        pk_test_exchange *exchange = ask(router, "GET", "/");
        cr_expect_eq(pk_test_exchange_http_status(exchange), bodiless);
        cr_expect_eq(pk_test_exchange_body(exchange).length, 0);
        cr_expect_eq(source.reads, 0);
        cr_expect_eq(source.closed, i / 2);
        pk_test_exchange_free(exchange);
        pk_router_set_http(router, handle_wrong_source, NULL);
        source.closed = 0;
        exchange = ask(router, "GET", "/");
        cr_expect_eq(pk_test_exchange_http_status(exchange), 404);
        cr_expect_eq(source.closed, 1);
        pk_test_exchange_free(exchange);
        pk_router_free(router);
        pk_loop_free(loop);
    }
}

Test(http, a_body_that_lacks_bytes_is_broken_off)
{
    struct http_kit kit = open_source("GET", 100, 0);
    cr_assert(pk_test_exchange_finished(kit.exchange));
    cr_assert_eq(pk_test_exchange_http_status(kit.exchange), 500);
    close_source_kit(&kit);
    kit = open_source("GET", 100, 99);
    cr_assert(!pk_test_exchange_finished(kit.exchange));
    cr_assert(pk_test_exchange_was_reset(kit.exchange));
    close_source_kit(&kit);
}

Test(http, each_allocation_of_an_answer_may_fail)
{
    bool failed = true;
    for (size_t fail_at = 1; failed; fail_at++) {
        counting_allocator counts = {0};
        pk_loop *loop;
        pk_router *router;
        memset(&source, 0, sizeof source);
        source.length = source.has = 50000;
        cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))), 0);
        cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
        pk_router_set_http(router, handle_scarce, NULL);
        counts.fail_at = counts.requests + fail_at;
        pk_test_exchange *exchange = pk_test_exchange_new(
            router, &(pk_test_request){.path = "/", .method = "GET", .ended = true});
        failed = counts.requests >= counts.fail_at;
        counts.fail_at = 0;
        cr_assert(failed || source.at == source.length);
        if (exchange && pk_test_exchange_finished(exchange)) {
            unsigned status = pk_test_exchange_http_status(exchange);
            cr_assert(status == 200 || status == 500 || status == 503, "%u", status);
        }
        pk_test_exchange_free(exchange);
        cr_assert_leq(source.closed, 1);
        cr_assert(source.reads == 0 || source.closed == 1);
        pk_router_free(router);
        pk_loop_free(loop);
        cr_assert_eq(counts.blocks, 0, "%zu", fail_at);
    }
}

/* ---- A client that does not read ---- */

#define LONG (64u << 20)

static int connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int small = 4096, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t) atoi(strchr(address, ':') + 1));
    cr_assert_geq(fd, 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *) &to, sizeof to), 0);
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Turns until no more of the source is read. */
static void settle(pk_loop *loop)
{
    uint64_t before;
    do {
        before = source.at;
        for (unsigned turn = 0; turn < 20; turn++)
            pk_loop_run_until(loop, pk_sleep(pk_loop_scope(loop), 2), NULL);
    } while (source.at != before);
}

/* Takes what comes until the connection ends, or until all of the body was taken: its length. */
static uint64_t take_all(pk_loop *loop, int fd)
{
    static uint8_t bytes[100000];
    uint64_t taken = 0;
    bool in_body = false;
    while (taken < LONG) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
        if (got < 0) {
            pk_loop_run_until(loop, pk_sleep(pk_loop_scope(loop), 1), NULL);
            continue;
        }
        const uint8_t *at = bytes, *end = bytes + got;
        if (!in_body) { /* the head comes in one piece: nothing was read before it had left */
            at = memmem(bytes, (size_t) got, "\r\n\r\n", 4);
            cr_assert_not_null(at);
            cr_assert_not_null(memmem(bytes, (size_t) got, "\r\ncontent-length: 67108864\r\n", 28));
            cr_assert_null(memmem(bytes, (size_t) (at - bytes), "chunked", 7));
            at += 4;
            in_body = true;
        }
        for (; at < end; at++)
            cr_assert_eq(*at, taken++ % 251);
    }
    return taken;
}

Test(http, a_client_that_stops_has_few_pieces_read, .timeout = 60)
{
    static const char request[] = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    enum { GOES_ON, GOES_AWAY, IS_CUT, CASES };
    for (unsigned i = 0; i < CASES; i++) {
        pk_loop *loop;
        pk_server *server;
        const char *bound;
        memset(&source, 0, sizeof source);
        source.length = LONG;
        source.has = i == IS_CUT ? LONG - 1 : LONG;
        cr_assert_eq(pk_loop_new(&loop, NULL), 0);
        cr_assert_eq(pk_server_new(&server, loop, NULL), 0);
        pk_router_set_http(pk_server_router(server), handle_source, NULL);
        cr_assert_eq(pk_server_listen(server, "127.0.0.1:0", &bound), 0);
        int fd = connect_to(bound);
        cr_assert_eq(write(fd, request, sizeof request - 1), sizeof request - 1);
        settle(loop);
        cr_assert_gt(source.reads, 0);
        cr_assert_lt(source.at, LONG / 2);
        cr_assert_eq(source.closed, 0);
        if (i == GOES_ON)
            cr_assert_eq(take_all(loop, fd), LONG);
        else if (i == IS_CUT)
            cr_assert_lt(take_all(loop, fd), LONG);
        close(fd);
        while (source.closed == 0)
            pk_loop_turn(loop);
        cr_assert_eq(source.closed, 1);
        pk_server_free(server);
        pk_loop_free(loop);
        cr_assert_eq(source.closed, 1);
    }
}
