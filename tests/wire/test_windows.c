/* Flow control in bytes: both directions, resets, shut windows, budgets, peers that do not read. */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

/* Increments that came for a stream (0: the connection). */
static size_t granted(const struct reader *in, uint32_t stream)
{
    size_t sum = 0;
    for (size_t i = 0; i < in->count; i++) {
        if (in->frames[i].type == WINDOW_UPDATE && in->frames[i].stream == stream)
            sum += in->frames[i].number;
    }
    return sum;
}

Test(windows, that_a_reply_fills_exactly_let_its_trailers_pass)
{
    static const unsigned sizes[] = {1, 16384, 32768, 49152, 65534, 65535};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char path[32];
        for (int streamed = 0; streamed < 2; streamed++) {
            struct wire wire;
            wire_open(&wire, NULL, true);
            snprintf(path, sizeof path, streamed ? "/stream/1/%u" : "/bytes/%u", sizes[i]);
            put_request(&wire.out, 1, true, path, NULL);
            wire_run(&wire);
            cr_expect_eq(body_of(&wire.in, 1), sizes[i], "%s", path);
            cr_expect(last_has(&wire.in, 1, "grpc-status: 0"), "%s", path);
            cr_expect_eq(wire.acceptor.cancelled, 0);
            wire_close(&wire);
        }
    }
}

/* 65,535 bytes leave, the rest and the trailers wait, in this order. */
Test(windows, that_are_smaller_than_a_reply_hold_its_trailers_back)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/bytes/65536", NULL);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 65535);
    cr_assert_not(ended(&wire.in, 1));
    put_window(&wire.out, 1, 1);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 65535, "the connection's window is shut");
    put_window(&wire.out, 0, 1);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 65536);
    cr_assert(last_has(&wire.in, 1, "grpc-status: 0"));
    cr_assert(ended(&wire.in, 1));
    wire_close(&wire);
}

/* A stream whose writer ends after all that was written has left, while no window is open. */
Test(windows, that_are_shut_let_trailers_without_data_pass)
{
    static const char *const paths[] = {"/none", "/only", "/stream/0/0", "/nowhere"};
    struct wire wire;
    wire_open(&wire, NULL, false);
    put_preface(&wire.out);
    put_setting(&wire.out, SETTINGS_WINDOW, 0);
    wire_run(&wire);
    for (uint32_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        put_request(&wire.out, 2 * i + 1, true, paths[i], NULL);
        wire_run(&wire);
        cr_expect(ended(&wire.in, 2 * i + 1), "%s", paths[i]);
        cr_expect_eq(body_of(&wire.in, 2 * i + 1), 0);
    }
    put_request(&wire.out, 101, true, "/bytes/10", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 101), 200);
    cr_assert_not(ended(&wire.in, 101));
    put_setting(&wire.out, SETTINGS_WINDOW, 4);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 101), 4);
    put_window(&wire.out, 101, 6);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 101), 10);
    cr_assert(last_has(&wire.in, 101, "grpc-status: 0"));
    wire_close(&wire);
}

Test(windows, open_again_as_the_handler_reads)
{
    struct wire wire;
    size_t sent = 0;
    wire_open(&wire, PK_SERVER_OPTS(.stream_window = 65535, .connection_window = 65535), true);
    put_request(&wire.out, 1, false, "/echo", NULL);
    wire_run(&wire);
    for (int i = 0; i < 100; i++) {
        size_t window = 65535 + granted(&wire.in, 1) - sent;
        size_t connection = 65535 + granted(&wire.in, 0) - sent;
        size_t part = window < connection ? window : connection;
        cr_assert_gt(part, 0);
        put_filler(&wire.out, 1, false, part);
        wire_run(&wire);
        sent += part;
    }
    put_data(&wire.out, 1, true, "", 0);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.bytes, sent);
    wire_close(&wire);
}

Test(windows, stay_shut_while_the_handler_does_not_read)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, false, "/stuck", NULL);
    put_filler(&wire.out, 1, false, 2u << 20);
    wire_run(&wire);
    cr_assert_eq(granted(&wire.in, 1), 0);
    cr_assert_eq(wire.acceptor.bytes, 2u << 20);
    put_filler(&wire.out, 1, false, 1);
    wire_run(&wire);
    cr_assert_eq(reset_of(&wire.in, 1), 3, "FLOW_CONTROL_ERROR");
    wire_close(&wire);
}

/* The handler takes what came before the window shrank, later: no update may get lost. */
Test(windows, shrunk_by_the_peer_do_not_stall_its_reply)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/stream/8/10000", NULL);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 65535);
    put_setting(&wire.out, SETTINGS_WINDOW, 16384);
    wire_run(&wire);
    put_window(&wire.out, 0, 1u << 20);
    put_window(&wire.out, 1, 49151); /* the window is -49,151 now, then 0 */
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 65535);
    put_window(&wire.out, 1, 100000);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 80000);
    cr_assert(last_has(&wire.in, 1, "grpc-status: 0"));
    wire_close(&wire);
}

/* What the server resets, and what nobody reads of it, goes back to the connection. */
Test(windows, get_back_the_bytes_of_streams_that_were_reset)
{
    enum { WINDOW = 200000, ROUNDS = 60 };
    struct wire wire;
    size_t sent = 0;
    uint32_t good = 1;
    wire_open(&wire, PK_SERVER_OPTS(.connection_window = WINDOW), true);
    put_request(&wire.out, good, false, "/echo", NULL);
    wire_run(&wire);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        static const char *const paths[] = {"/early", "/refuse", "/stuck", "/nowhere", "/echo"};
        static const char *const too_short[] = {"content-length", "20000", NULL};
        uint32_t stream = 3 + 2 * round;
        /* More than was promised: reset amid the frames of one read, the others are dropped. */
        put_request(&wire.out, stream, false, paths[round % 5], round % 5 == 4 ? too_short : NULL);
        size_t length = round % 5 == 4 ? 90000 : 50000;
        put_filler(&wire.out, stream, false, length);
        wire_run(&wire);
        if (round % 5 == 2)
            put_reset(&wire.out, stream, 8);
        put_filler(&wire.out, good, false, 1000);
        wire_run(&wire);
        sent += length + 1000;
        cr_assert_geq(WINDOW + granted(&wire.in, 0), sent, "round %u", round);
    }
    cr_assert_gt(sent, 10 * WINDOW);
    put_data(&wire.out, good, true, "", 0);
    wire_run(&wire);
    cr_assert(last_has(&wire.in, good, "x-received: 60000"));
    wire_close(&wire);
}

/* Ten at once, again and again, until ten windows were thrown away: the other half all finish. */
Test(windows, let_uploads_finish_beside_those_that_are_reset)
{
    enum { WINDOW = 200000, UPLOADS = 10, PART = 10000 };
    struct wire wire;
    size_t sent = 0, discarded = 0;
    uint32_t next = 1;
    wire_open(&wire, PK_SERVER_OPTS(.connection_window = WINDOW), true);
    while (discarded <= 10 * WINDOW) {
        for (uint32_t i = 0; i < UPLOADS; i++) {
            put_request(&wire.out, next + 2 * i, false, i % 2 == 0 ? "/echo" : "/stuck", NULL);
            put_filler(&wire.out, next + 2 * i, false, PART);
            sent += PART;
        }
        put_window(&wire.out, 0, UPLOADS / 2 * PART); /* for the echoes */
        wire_run(&wire);
        for (uint32_t i = 1; i < UPLOADS; i += 2) {
            put_reset(&wire.out, next + 2 * i, 8);
            discarded += PART;
        }
        for (uint32_t i = 0; i < UPLOADS; i += 2)
            put_data(&wire.out, next + 2 * i, true, "", 0);
        wire_run(&wire);
        for (uint32_t i = 0; i < UPLOADS; i += 2)
            cr_assert(last_has(&wire.in, next + 2 * i, "x-received: 10000"), "stream %u",
                      next + 2 * i);
        /* Credit goes out by halves of the window. */
        cr_assert_geq(65535 + granted(&wire.in, 0), sent + WINDOW / 2);
        next += 2 * UPLOADS;
    }
    wire_close(&wire);
}

Test(windows, count_padding_and_give_it_back)
{
    struct wire wire;
    size_t sent = 0;
    uint8_t padded[256 + 5] = {255, 'a', 'b', 'c', 'd', 'e'};
    wire_open(&wire, PK_SERVER_OPTS(.stream_window = 65535, .connection_window = 65535), true);
    put_request(&wire.out, 1, false, "/echo", NULL);
    for (int i = 0; i < 2000; i++) {
        put_frame(&wire.out, DATA, PADDED, 1, padded, sizeof padded);
        sent += sizeof padded;
        if (i % 100 == 0) {
            wire_run(&wire);
            cr_assert_gt(65535 + granted(&wire.in, 1), sent + 100 * sizeof padded);
            cr_assert_gt(65535 + granted(&wire.in, 0), sent + 100 * sizeof padded);
        }
    }
    put_data(&wire.out, 1, true, "", 0);
    wire_run(&wire);
    cr_assert(last_has(&wire.in, 1, "x-received: 10000"));
    wire_close(&wire);
}

/* ---- Writers ---- */

Test(windows, that_are_shut_hold_the_writer_at_its_mark)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/stream/100000/1000", NULL);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 65535);
    cr_assert_leq(wire.acceptor.written, (65535 + PK_HTTP2_QUEUE_HIGH) / 1000 + 2);
    put_window(&wire.out, 0, 1u << 30);
    put_window(&wire.out, 1, 1u << 30);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 100000000);
    cr_assert(last_has(&wire.in, 1, "grpc-status: 0"));
    wire_close(&wire);
}

/* Bytes that the loop's allocations hold: what the process would need. */
static size_t taken;

static void *counting_resize(void *context, void *block, size_t size)
{
    size_t *old = block ? (size_t *) block - 2 : NULL;
    size_t old_size = old ? *old : 0;
    if (size == 0) {
        taken -= old_size;
        free(old);
        return NULL;
    }
    size_t *made = realloc(old, size + 2 * sizeof *made);
    if (!made)
        return NULL;
    *made = size;
    taken += size - old_size;
    return made + 2;
}

/* 1,000 streams each way, neither side of which reads, on so many connections each way. */
static size_t held_by_a_thousand(uint32_t connections)
{
    const pk_allocator counting = {counting_resize, NULL};
    const uint32_t streams = 1000 / connections;
    struct wire wire = {.fd = -1}, up[4], down[4];
    path_acceptor_init(&wire.acceptor);
    cr_assert_eq(pk_loop_new(&wire.loop, PK_LOOP_OPTS(.allocator = &counting)), 0);
    cr_assert_eq(pk_server_new(&wire.server, wire.loop, PK_SERVER_OPTS(.max_streams = 1000)), 0);
    pk_server_set_acceptor(wire.server, &wire.acceptor.acceptor);
    size_t before = taken, all_sent = 0;
    for (uint32_t one = 0; one < connections; one++) {
        wire_join(&up[one], &wire);
        for (uint32_t i = 0; i < streams; i++)
            put_request(&up[one].out, 2 * i + 1, false, "/stuck", NULL);
        wire_run(&up[one]);
        size_t window = 65535 + granted(&up[one].in, 0), sent = 0;
        for (uint32_t i = 0; sent + 16384 <= window; i++, sent += 16384)
            put_filler(&up[one].out, 2 * (i % streams) + 1, false, 16384);
        wire_run(&up[one]);
        all_sent += sent;
    }
    cr_assert_eq(wire.acceptor.bytes, all_sent);

    for (uint32_t one = 0; one < connections; one++) {
        wire_join(&down[one], &wire);
        put_window(&down[one].out, 0, 1u << 30);
        for (uint32_t i = 0; i < streams; i++)
            put_request(&down[one].out, 2 * i + 1, true, "/stream/1000000/4096", NULL);
        wire_run(&down[one]);
    }
    size_t held = taken - before;
    for (uint32_t one = 0; one < connections; one++) {
        wire_leave(&up[one]);
        wire_leave(&down[one]);
    }
    reader_init(&wire.in);
    wire_close(&wire);
    return held;
}

/* In both directions together. */
Test(windows, and_marks_bound_what_a_thousand_idle_streams_hold)
{
    static const uint32_t connections[] = {1, 2, 4};
    for (size_t i = 0; i < sizeof connections / sizeof *connections; i++) {
        size_t held = held_by_a_thousand(connections[i]);
        cr_log_info("1,000 streams each way on %u connections hold %zu bytes", connections[i],
                    held);
        cr_expect_leq(held, 64u << 20);
    }
}

/* Messages are smaller than what a buffer is: each must not keep one of its own. */
Test(windows, that_are_shut_hold_small_messages_in_little_more_than_their_bytes)
{
    const pk_allocator counting = {counting_resize, NULL};
    struct wire wire = {.fd = -1}, down;
    path_acceptor_init(&wire.acceptor);
    cr_assert_eq(pk_loop_new(&wire.loop, PK_LOOP_OPTS(.allocator = &counting)), 0);
    cr_assert_eq(pk_server_new(&wire.server, wire.loop, NULL), 0);
    pk_server_set_acceptor(wire.server, &wire.acceptor.acceptor);
    wire_join(&down, &wire);
    put_setting(&down.out, SETTINGS_WINDOW, 0);
    wire_run(&down);
    size_t before = taken;
    for (uint32_t i = 0; i < 20; i++)
        put_request(&down.out, 2 * i + 1, true, "/stream/1000000/5", NULL);
    wire_run(&down);
    size_t bytes = wire.acceptor.written * 5;
    cr_assert_geq(bytes, 20 * PK_HTTP2_QUEUE_HIGH);
    cr_expect_leq(taken - before, 4 * bytes, "%zu for %zu", taken - before, bytes);
    wire_leave(&down);
    reader_init(&wire.in);
    wire_close(&wire);
}

/* ---- Peers that take nothing ---- */

/* Calls whose replies wait: for their own windows, or with those open for the connection's. */
static void fill_budget(struct wire *wire, const pk_server_opts *opts, uint32_t calls,
                        uint32_t stream_window)
{
    wire_open(wire, opts, false);
    put_preface(&wire->out);
    put_setting(&wire->out, SETTINGS_WINDOW, stream_window);
    put_frame(&wire->out, SETTINGS, ACK, 0, NULL, 0);
    for (uint32_t i = 0; i < calls; i++)
        put_request(&wire->out, 2 * i + 1, true, "/bytes/100000", NULL);
    wire_run(wire);
}

/* Replies wait behind the connection's window: new calls wait, then they are refused. */
Test(windows, that_never_open_make_new_calls_be_refused_after_a_while)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20), 100, 1u << 20);
    unsigned accepted = wire.acceptor.accepted;
    cr_assert(accepted == 42 || accepted == 43, "%u", accepted);
    cr_assert_eq(wire.acceptor.refused, 0);
    wire_ticks(&wire, PK_HTTP2_HELD_TICKS);
    cr_assert_eq(wire.acceptor.accepted, accepted);
    cr_assert_eq(wire.acceptor.refused, 100 - accepted);
    cr_assert_eq(status_of(&wire.in, 199), 208, "RESOURCE_EXHAUSTED in words of the acceptor");
    put_window(&wire.out, 0, 1u << 30);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 100000);
    put_request(&wire.out, 201, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 201), 200);
    wire_close(&wire);
}

/* Calls that were held back are served in their order, with the body that came meanwhile. */
Test(windows, that_open_late_let_the_calls_go_that_were_held_back)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20), 60, 0);
    put_request(&wire.out, 201, false, "/echo", NULL);
    put_filler(&wire.out, 201, false, 30000);
    put_request(&wire.out, 203, false, "/later", NULL);
    put_request(&wire.out, 205, false, "/echo", NULL);
    wire_run(&wire);
    put_filler(&wire.out, 201, true, 30000);
    put_reset(&wire.out, 203, 8);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.accepted, 42);
    put_setting(&wire.out, SETTINGS_WINDOW, 1u << 20);
    put_window(&wire.out, 0, 1u << 30);
    put_data(&wire.out, 205, false, "x", 1);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.refused, 0);
    cr_assert_eq(wire.acceptor.accepted, 62, "all but the one that was reset");
    put_data(&wire.out, 205, true, "y", 1);
    wire_run(&wire);
    for (uint32_t i = 0; i < 60; i++)
        cr_assert_eq(body_of(&wire.in, 2 * i + 1), 100000);
    cr_assert_eq(body_of(&wire.in, 201), 60000);
    cr_assert_eq(body_of(&wire.in, 205), 2);
    wire_close(&wire);
}

Test(windows, of_all_connections_share_the_servers_budget)
{
    struct wire first, second;
    fill_budget(&first, PK_SERVER_OPTS(.server_bytes = 3u << 20), 40, 0);
    cr_assert_eq(first.acceptor.accepted, 32);
    wire_join(&second, &first);
    put_request(&second.out, 1, true, "/echo", NULL);
    wire_run(&second);
    cr_assert_eq(status_of(&second.in, 1), 0);
    wire_hang_up(&first);
    wire_ticks(&second, 1);
    cr_assert_eq(status_of(&second.in, 1), 200);
    wire_leave(&second);
    wire_close(&first);
}

/* A peer whose window stays shut holds most of it; its end makes room for the others. */
Test(windows, that_never_open_cost_the_connection_where_others_lack_memory)
{
    struct wire first, second;
    fill_budget(&first, PK_SERVER_OPTS(.server_bytes = 3u << 20), 40, 1u << 20);
    wire_join(&second, &first);
    put_request(&second.out, 1, true, "/echo", NULL);
    wire_run(&second);
    cr_assert_eq(status_of(&second.in, 1), 0);
    wire_ticks(&second, 3);
    cr_assert_eq(status_of(&second.in, 1), 200);
    wire_run(&first);
    cr_assert(first.closed);
    wire_leave(&second);
    wire_close(&first);
}

/* How many of the calls that fill_budget has made were shed. */
static unsigned shed(const struct wire *wire, uint32_t calls)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < calls; i++)
        count += reset_of(&wire->in, 2 * i + 1) == 11; /* ENHANCE_YOUR_CALM */
    return count;
}

/*
 * The peer is a proxy, say, whose clients do not all read: calls that are read take their course on
 * the same connection, and a new one has those that stand still make room.
 */
Test(windows, that_never_open_cost_the_streams_that_fill_the_budget)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20), 41, 0);
    cr_assert_eq(wire.acceptor.accepted, 41);
    put_request(&wire.out, 101, true, "/bytes/100000", NULL);
    put_request(&wire.out, 103, true, "/echo", NULL);
    put_window(&wire.out, 101, 1000);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 103), 0, "they may still go on");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(shed(&wire, 41), 0);
        put_window(&wire.out, 101, 1000);
        wire_ticks(&wire, 1);
    }
    cr_assert_eq(status_of(&wire.in, 103), 200);
    cr_assert_eq(wire.acceptor.refused, 0);
    unsigned gone = shed(&wire, 41);
    cr_assert(gone >= 10 && gone <= 12, "down to three quarters of the budget, not %u", gone);
    put_window(&wire.out, 101, 97000);
    put_setting(&wire.out, SETTINGS_WINDOW, 1u << 20);
    put_window(&wire.out, 0, 1u << 30);
    wire_run(&wire);
    unsigned whole = 0;
    for (uint32_t i = 0; i < 41; i++)
        whole += body_of(&wire.in, 2 * i + 1) == 100000;
    cr_assert_eq(whole, 41 - gone);
    cr_assert_eq(body_of(&wire.in, 101), 100000);
    wire_close(&wire);
}

/* Where they have stood still for long nobody waits. */
Test(windows, that_never_open_delay_nobody)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20), 42, 0);
    wire_ticks(&wire, 20);
    cr_assert_eq(shed(&wire, 42), 0, "nobody lacks memory yet");
    put_request(&wire.out, 101, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 101), 200);
    cr_assert_gt(shed(&wire, 42), 8);
    wire_close(&wire);
}

/* A stream that stood still once and was read since counts as one that never did. */
Test(windows, that_were_shut_once_are_held_against_nobody)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.connection_bytes = 1u << 20), false);
    put_preface(&wire.out);
    put_setting(&wire.out, SETTINGS_WINDOW, 0);
    put_window(&wire.out, 0, 1u << 30);
    put_request(&wire.out, 1, true, "/each/2/500000", NULL);
    wire_run(&wire);
    path_acceptor_answer(&wire.acceptor);
    wire_ticks(&wire, 4);
    put_window(&wire.out, 1, 500000);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 500000);
    wire_ticks(&wire, 4);
    path_acceptor_answer(&wire.acceptor);
    put_request(&wire.out, 3, true, "/bytes/600000", NULL);
    put_request(&wire.out, 5, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 5), 0, "it waits: both may still go on");
    cr_assert_neq(reset_of(&wire.in, 1), 11);
    put_window(&wire.out, 1, 500000);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 1000000);
    cr_assert_eq(status_of(&wire.in, 5), 200);
    wire_close(&wire);
}

/* Calls that are held back one after the other all come to their turn. */
Test(windows, that_never_open_have_no_call_refused)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20), 60, 0);
    wire_ticks(&wire, 20);
    cr_assert_eq(wire.acceptor.accepted, 60);
    cr_assert_eq(wire.acceptor.refused, 0);
    wire_close(&wire);
}

/* However many are shed, that is no error of the peer. */
Test(windows, that_never_open_end_no_connection)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20, .resets = 10), 60, 0);
    wire_ticks(&wire, 20);
    for (uint32_t i = 0; i < 100; i++)
        put_request(&wire.out, 201 + 2 * i, true, "/bytes/100000", NULL);
    wire_ticks(&wire, 20);
    cr_assert_not(wire.closed);
    cr_assert_gt(shed(&wire, 60), 40);
    wire_close(&wire);
}

/* The same where it is the server's memory that is short. */
Test(windows, that_never_open_cost_streams_where_other_connections_lack_memory)
{
    struct wire first, second;
    fill_budget(&first, PK_SERVER_OPTS(.server_bytes = 3u << 20), 31, 0);
    put_request(&first.out, 101, true, "/later", NULL);
    put_request(&first.out, 103, true, "/bytes/100000", NULL);
    wire_run(&first);
    wire_join(&second, &first);
    put_request(&second.out, 1, true, "/bytes/1000000", NULL);
    wire_run(&second);
    cr_assert_eq(status_of(&second.in, 1), 0);
    wire_ticks(&second, 3);
    cr_assert_eq(status_of(&second.in, 1), 200);
    path_acceptor_answer(&first.acceptor);
    wire_run(&first);
    cr_assert_not(first.closed);
    cr_assert_gt(shed(&first, 31), 5);
    cr_assert_eq(status_of(&first.in, 101), 200);
    wire_leave(&second);
    wire_close(&first);
}

/* One connection alone may hold everything, for as long as its peer likes. */
Test(windows, that_never_open_harm_nobody_where_there_is_nobody_else)
{
    struct wire wire;
    fill_budget(&wire, PK_SERVER_OPTS(.server_bytes = 3u << 20), 32, 0);
    wire_ticks(&wire, 20);
    cr_assert_not(wire.closed);
    cr_assert_eq(wire.acceptor.accepted, 32);
    wire_close(&wire);
}

/* Messages that handlers gather count as well. */
Test(windows, do_not_hide_what_handlers_gather)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.connection_bytes = 1u << 20), true);
    put_request(&wire.out, 1, false, "/echo", NULL);
    put_filler(&wire.out, 1, false, 900000);
    wire_run(&wire);
    put_filler(&wire.out, 1, false, 900000);
    put_request(&wire.out, 3, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 3), 0);
    put_reset(&wire.out, 1, 8);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 3), 200);
    wire_close(&wire);
}

/* The peer's socket takes nothing: output stays within one write's worth, frames are parsed. */
Test(windows, are_no_help_to_a_peer_that_does_not_read_its_socket)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.connection_bytes = 4u << 20), false);
    put_preface(&wire.out);
    put_setting(&wire.out, SETTINGS_WINDOW, 1u << 30);
    put_window(&wire.out, 0, 1u << 30);
    wire_run(&wire);
    wire.deaf = true;
    for (uint32_t i = 0; i < 200; i++)
        put_request(&wire.out, 2 * i + 1, true, "/bytes/100000", NULL);
    wire_run(&wire);
    unsigned accepted = wire.acceptor.accepted;
    cr_assert_leq(accepted, 60);
    wire_ticks(&wire, PK_HTTP2_HELD_TICKS);
    cr_assert_eq(wire.acceptor.accepted + wire.acceptor.refused, 200);
    put_reset(&wire.out, 2 * (accepted - 1) + 1, 8);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.cancelled, 1, "frames are still heard");
    wire.deaf = false;
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 3), 100000);
    wire_close(&wire);
}

Test(windows, are_sized_so_that_one_stream_fills_a_fast_path)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    const struct frame *settings = &wire.in.frames[find_frame(&wire.in, 0, SETTINGS, 0)];
    size_t stream = 0;
    for (size_t i = 0; i + 6 <= settings->length; i += 6) {
        const uint8_t *at = settings->payload + i;
        if (at[1] == SETTINGS_WINDOW)
            stream = (size_t) at[2] << 24 | (size_t) at[3] << 16 | (size_t) at[4] << 8 | at[5];
    }
    /*
     * 100 Mbit/s, 50 ms there and back, are 625,000 bytes under way; as many have come and not been
     * credited, for credit goes out by halves of the window.
     */
    cr_assert_geq(stream, 2 * 625000);
    cr_assert_geq(65535 + granted(&wire.in, 0), 2 * 625000);
    wire_close(&wire);
}
