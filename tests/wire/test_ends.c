/* How connections end: lost, drained, timed out, freed from inside, out of memory. */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>

#include <stdlib.h>

static struct wire wire;

/* ---- Loss ---- */

Test(ends, of_the_peer_cancel_its_calls)
{
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, false, "/later", NULL);
    put_request(&wire.out, 3, true, "/later", NULL);
    put_request(&wire.out, 5, true, "/stream/1000000/1000", NULL);
    put_request(&wire.out, 7, false, "/stuck", NULL);
    wire_run(&wire);
    wire_hang_up(&wire);
    cr_assert_eq(wire.acceptor.cancelled, 4);
    cr_assert_eq(wire.acceptor.closed, 4);
    cr_assert_eq(wire.server->connection_count, 0);
    wire_close(&wire);
}

/* ---- The graceful stop ---- */

static unsigned stopped;

static pk_future on_stopped(const void *value, void *arg)
{
    stopped++;
    return pk_done(NULL);
}

static void stop(uint64_t drain_ms)
{
    stopped = 0;
    pk_detach(pk_then(pk_server_stop(wire.server, drain_ms), on_stopped, NULL));
}

/* The first, second GOAWAY; type 0 where it has not come. */
static struct frame goaway(size_t number)
{
    for (size_t i = 0; i < wire.in.count; i++) {
        if (wire.in.frames[i].type == GOAWAY && number-- == 0)
            return wire.in.frames[i];
    }
    return (struct frame){0};
}

/* Answers the PING between both GOAWAYs. */
static void answer_ping(void)
{
    size_t ping = find_frame(&wire.in, 0, PING, 0);
    cr_assert_neq(ping, SIZE_MAX);
    put_frame(&wire.out, PING, ACK, 0, wire.in.frames[ping].payload, 8);
}

Test(ends, that_are_graceful_serve_what_was_under_way)
{
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/later", NULL);
    put_request(&wire.out, 3, false, "/echo", NULL);
    wire_run(&wire);
    stop(60000);
    wire_run(&wire);
    cr_assert_eq(goaway(0).number, 0x7fffffff);
    cr_assert_eq(goaway(1).type, 0);
    /* This request and the GOAWAY have crossed: it is served. */
    put_request(&wire.out, 5, true, "/later", NULL);
    wire_run(&wire);
    answer_ping();
    wire_run(&wire);
    cr_assert_eq(goaway(1).number, 5);
    cr_assert_eq(goaway(1).error, 0);
    /* This one comes too late: the client knows that it was not looked at. */
    put_request(&wire.out, 7, true, "/echo", NULL);
    put_data(&wire.out, 3, true, "hello", 5);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.accepted, 3);
    cr_assert_eq(body_of(&wire.in, 3), 5);
    cr_assert_not(wire.closed);
    cr_assert_eq(stopped, 0);
    path_acceptor_answer(&wire.acceptor);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 1), 200);
    cr_assert_eq(status_of(&wire.in, 5), 200);
    cr_assert(wire.closed);
    wire_hang_up(&wire);
    cr_assert_eq(stopped, 1);
    cr_assert_eq(wire.acceptor.cancelled, 0);
    wire_close(&wire);
}

Test(ends, that_are_graceful_let_a_stream_finish)
{
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/stream/200/1000", NULL);
    wire_run(&wire);
    stop(60000);
    wire_run(&wire);
    answer_ping();
    wire_run(&wire);
    put_window(&wire.out, 0, 1u << 20);
    put_window(&wire.out, 1, 1u << 20);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 200000);
    cr_assert(last_has(&wire.in, 1, "grpc-status: 0"));
    wire_hang_up(&wire);
    cr_assert_eq(stopped, 1);
    wire_close(&wire);
}

Test(ends, that_are_graceful_are_bounded)
{
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/later", NULL);
    wire_run(&wire);
    stop(20);
    for (int i = 0; i < 100 && stopped == 0; i++)
        pk_loop_turn(wire.loop);
    wire_run(&wire);
    cr_assert_eq(stopped, 1);
    cr_assert_eq(wire.acceptor.cancelled, 1);
    cr_assert(wire.closed);
    cr_assert_eq(pk_server_listen(wire.server, "127.0.0.1:0", NULL), PK_ERR_STATE);
    wire_close(&wire);
}

Test(ends, without_connections_are_done_at_once)
{
    wire_open(&wire, NULL, true);
    wire_hang_up(&wire);
    stop(1000);
    cr_assert_eq(stopped, 1);
    wire_close(&wire);
}

/* ---- Time limits ---- */

Test(ends, come_to_peers_that_do_not_greet)
{
    wire_open(&wire, PK_SERVER_OPTS(.header_timeout_ms = 3000), false);
    put(&wire.out, "PRI * HT", 8);
    wire_run(&wire);
    wire_ticks(&wire, 3);
    cr_assert_not(wire.closed);
    wire_ticks(&wire, 1);
    cr_assert(wire.closed);
    wire_close(&wire);
}

Test(ends, come_to_peers_whose_head_does_not_end)
{
    struct bytes block = {0};
    wire_open(&wire, PK_SERVER_OPTS(.header_timeout_ms = 3000), true);
    wire_ticks(&wire, 10);
    put_field(&block, ":method", "POST");
    put_frame(&wire.out, HEADERS, 0, 1, block.at, block.length);
    bytes_free(&block);
    wire_run(&wire);
    wire_ticks(&wire, 3);
    cr_assert_not(wire.closed);
    wire_ticks(&wire, 1);
    cr_assert(wire.closed);
    wire_close(&wire);
}

Test(ends, come_gracefully_to_connections_without_calls)
{
    wire_open(&wire, PK_SERVER_OPTS(.idle_timeout_ms = 5000), true);
    put_request(&wire.out, 1, true, "/later", NULL);
    wire_run(&wire);
    wire_ticks(&wire, 20);
    cr_assert_eq(goaway(0).type, 0);
    path_acceptor_answer(&wire.acceptor);
    wire_run(&wire);
    wire_ticks(&wire, 6);
    cr_assert_eq(goaway(0).number, 0x7fffffff);
    wire_ticks(&wire, 3); /* no answer to the PING */
    cr_assert_eq(goaway(1).number, 1);
    cr_assert(wire.closed);
    wire_ticks(&wire, 3); /* the peer does not close its side either */
    cr_assert_eq(wire.server->connection_count, 0);
    wire_close(&wire);
}

Test(ends, come_to_bodies_that_stop_coming_if_asked_for)
{
    wire_open(&wire, PK_SERVER_OPTS(.body_timeout_ms = 3000), true);
    put_request(&wire.out, 1, false, "/echo", NULL);
    put_request(&wire.out, 3, false, "/echo", NULL);
    wire_run(&wire);
    for (int i = 0; i < 6; i++) {
        put_data(&wire.out, 3, false, "x", 1);
        wire_ticks(&wire, 1);
    }
    cr_assert_eq(reset_of(&wire.in, 1), 8);
    cr_assert_eq(reset_of(&wire.in, 3), -1);
    cr_assert_eq(wire.acceptor.cancelled, 1);
    wire_close(&wire);
}

Test(ends, come_to_peers_that_never_read)
{
    wire_open(&wire, PK_SERVER_OPTS(.stall_timeout_ms = 3000), true);
    put_window(&wire.out, 0, 1u << 30);
    put_setting(&wire.out, SETTINGS_WINDOW, 1u << 30);
    wire_run(&wire);
    wire.deaf = true;
    put_request(&wire.out, 1, true, "/bytes/3000000", NULL);
    wire_run(&wire);
    wire_ticks(&wire, 3);
    cr_assert_eq(wire.server->connection_count, 1);
    wire_ticks(&wire, 1);
    cr_assert_eq(wire.server->connection_count, 0);
    cr_assert_eq(wire.acceptor.cancelled, 1);
    wire_close(&wire);
}

/* ---- Freed from inside ---- */

static void free_in_accept(void *self, pk_exchange *exchange, const pk_head *head, bool end)
{
    struct wire *of = self;
    of->acceptor.acceptor.accept(&of->acceptor, exchange, head, end);
    pk_server_free(of->server);
}

Test(ends, may_begin_inside_a_handler)
{
    wire_open(&wire, NULL, true);
    const pk_acceptor acceptor = {.accept = free_in_accept, .self = &wire};
    pk_server_set_acceptor(wire.server, &acceptor);
    put_request(&wire.out, 1, true, "/later", NULL);
    wire_run(&wire);
    cr_assert(wire.closed);
    cr_assert_eq(wire.acceptor.cancelled, 1);
    cr_assert_eq(wire.acceptor.closed, 1);
    wire.server = NULL;
    wire_close(&wire);
}

static void accept_further(void *self, pk_exchange *exchange, const pk_head *head, bool end)
{
    struct wire *of = self;
    of->acceptor.acceptor.accept(&of->acceptor, exchange, head, end);
}

static void free_in_refuse(void *self, pk_exchange *exchange, const pk_head *head, bool end,
                           const pk_status *why)
{
    struct wire *of = self;
    of->acceptor.acceptor.refuse(&of->acceptor, exchange, head, end, why);
    pk_server_free(of->server);
}

/* A request that was held back is refused by a tick, which has more connections to look at. */
Test(ends, may_begin_inside_a_tick)
{
    static struct wire second, third;
    wire_open(&wire, PK_SERVER_OPTS(.server_bytes = 100000), true);
    const pk_acceptor acceptor = {
        .accept = accept_further, .refuse = free_in_refuse, .self = &wire};
    pk_server_set_acceptor(wire.server, &acceptor);
    put_request(&wire.out, 1, false, "/later", NULL);
    put_filler(&wire.out, 1, false, 200000);
    wire_run(&wire);
    wire_join(&second, &wire);
    wire_join(&third, &wire);
    put_request(&second.out, 1, true, "/echo", NULL);
    wire_run(&second);
    for (int tick = 0; tick < 10 && wire.acceptor.refused == 0; tick++) {
        put_filler(&wire.out, 1, false, 30000); /* it goes on and may live */
        wire_run(&wire);
        wire_ticks(&wire, 1);
    }
    cr_assert_eq(wire.acceptor.refused, 1);
    wire_run(&third);
    cr_expect(third.closed);
    cr_expect_eq(wire.acceptor.closed, 2);
    wire_leave(&third);
    wire_leave(&second);
    wire.server = NULL;
    wire_close(&wire);
}

/* ---- Memory ---- */

static long allocations_left = -1; /* -1: no limit */
static long failures_left;         /* then so many fail, and those after them succeed */

static void *failing_resize(void *context, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocations_left == 0 && failures_left > 0) {
        failures_left--;
        return NULL;
    }
    if (allocations_left > 0)
        allocations_left--;
    return realloc(block, size);
}

/* What one peer does between two points: true when all of it came out right. */
static bool converse(struct wire *with, uint32_t stream)
{
    put_window(&with->out, 0, 1u << 20);
    put_request(&with->out, stream, false, "/echo", NULL);
    put_filler(&with->out, stream, false, 30000);
    put_request(&with->out, stream + 2, true, "/stream/100/300", NULL);
    put_request(&with->out, stream + 4, true, "/bytes/20000", NULL);
    put_data(&with->out, stream, true, "", 0);
    wire_run(with);
    return body_of(&with->in, stream) == 30000 && body_of(&with->in, stream + 2) == 30000 &&
           body_of(&with->in, stream + 4) == 20000 && ended(&with->in, stream + 4);
}

/* True when everything came out right, although allocations failed. */
static bool survive(long allocations, long failures)
{
    const pk_allocator failing = {failing_resize, NULL};
    struct wire good = {.fd = -1}, bad = {.fd = -1};
    wire = (struct wire){.fd = -1};
    path_acceptor_init(&wire.acceptor);
    allocations_left = -1;
    cr_assert_eq(pk_loop_new(&wire.loop, PK_LOOP_OPTS(.allocator = &failing)), 0);
    cr_assert_eq(pk_server_new(&wire.server, wire.loop, NULL), 0);
    pk_server_set_acceptor(wire.server, &wire.acceptor.acceptor);
    wire_join(&good, &wire);
    wire_join(&bad, &wire);
    wire.acceptor.careful = true;
    allocations_left = allocations;
    failures_left = failures;
    bool whole = converse(&bad, 1) && failures_left == failures;
    allocations_left = -1;
    cr_assert(converse(&good, 1), "%ld failures after %ld allocations", failures, allocations);
    wire_leave(&good);
    wire_leave(&bad);
    reader_init(&wire.in);
    wire_close(&wire);
    return whole;
}

/*
 * Each allocation of a connection fails in turn, alone (the loop's memory asks twice) or with all
 * after it: it may end that connection; its neighbour goes on once there is memory again.
 */
Test(ends, by_lack_of_memory_hit_one_connection, .timeout = 100)
{
    for (long failures = 2; failures > 0; failures = failures == 2 ? 1000000 : 0) {
        long allocations = 0;
        while (!survive(allocations, failures))
            cr_assert_lt(++allocations, 1000);
        cr_assert_gt(allocations, 10);
    }
}

/* How many pieces a writer has made after this allocation failed for a peer that does not read. */
static size_t written_without_memory(long allocations, bool http1, bool *ret_failed)
{
    static const char get[] = "GET /stream/20000/1000 HTTP/1.1\r\nhost: h\r\n\r\n";
    const pk_allocator failing = {failing_resize, NULL};
    struct wire bad = {.fd = -1};
    wire = (struct wire){.fd = -1, .http1 = http1};
    path_acceptor_init(&wire.acceptor);
    allocations_left = -1;
    cr_assert_eq(pk_loop_new(&wire.loop, PK_LOOP_OPTS(.allocator = &failing)), 0);
    cr_assert_eq(pk_server_new(&wire.server, wire.loop, NULL), 0);
    pk_server_set_acceptor(wire.server, &wire.acceptor.acceptor);
    wire.loop->memory.kept_bytes = PK_MEMORY_KEPT_MAX; /* every request comes to the allocator */
    wire_join(&bad, &wire);
    wire.acceptor.careful = bad.deaf = true;
    allocations_left = allocations;
    failures_left = 2;
    if (http1)
        put(&bad.out, get, sizeof get - 1);
    else
        put_request(&bad.out, 1, true, "/stream/20000/1000", NULL);
    wire_run(&bad);
    *ret_failed = failures_left < 2;
    allocations_left = -1;
    size_t written = wire.acceptor.written;
    wire_leave(&bad);
    reader_init(&wire.in);
    wire_close(&wire);
    return written;
}

Test(ends, by_lack_of_memory_stop_writers, .timeout = 100)
{
    for (int http1 = 0; http1 < 2; http1++) {
        bool failed = true;
        for (long allocations = 0; failed && allocations < 100; allocations++)
            cr_assert_lt(written_without_memory(allocations, http1, &failed), 10000,
                         "HTTP/%d, after %ld allocations", http1 ? 1 : 2, allocations);
    }
}
