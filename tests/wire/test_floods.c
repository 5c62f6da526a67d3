/* Peers that mean harm: what they can make the server hold or do is bounded. */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>

#include <string.h>

/* The error code of the last GOAWAY; -1: none came. */
static long goaway_error(const struct reader *in)
{
    long error = -1;
    for (size_t i = 0; i < in->count; i++) {
        if (in->frames[i].type == GOAWAY)
            error = (long) in->frames[i].error;
    }
    return error;
}

/* A neighbour on another connection is served as if nothing had happened. */
static void neighbour_lives(struct wire *wire)
{
    struct wire other;
    wire_join(&other, wire);
    put_request(&other.out, 1, false, "/echo", NULL);
    put_data(&other.out, 1, true, "hello", 5);
    wire_run(&other);
    cr_assert_eq(body_of(&other.in, 1), 5);
    wire_leave(&other);
}

Test(floods, of_continuations_end_the_connection)
{
    struct wire wire;
    struct bytes block = {0};
    wire_open(&wire, NULL, true);
    put_field(&block, ":method", "POST");
    put_frame(&wire.out, HEADERS, 0, 1, block.at, block.length);
    bytes_free(&block);
    for (int i = 0; i < 100000 && !wire.closed; i++) {
        put_frame(&wire.out, CONTINUATION, 0, 1, "", (size_t) i % 2);
        if (i % 100 == 0)
            wire_run(&wire);
    }
    wire_run(&wire);
    cr_assert(wire.closed);
    cr_assert_eq(wire.acceptor.accepted, 0);
    neighbour_lives(&wire);
    wire_close(&wire);
}

/* One megabyte of fields in one block: nothing is kept beyond the limit. */
Test(floods, of_fields_in_one_block_are_not_kept)
{
    static char value[16000];
    struct wire wire;
    struct bytes block = {0};
    wire_open(&wire, NULL, true);
    memset(value, 'v', sizeof value - 1);
    put_field(&block, ":method", "POST");
    size_t blocks = wire.loop->memory.live_blocks;
    put_frame(&wire.out, HEADERS, 0, 1, block.at, block.length);
    for (int i = 0; i < 64 && !wire.closed; i++) {
        block.length = 0;
        put_field(&block, "x", value);
        put_frame(&wire.out, CONTINUATION, 0, 1, block.at, block.length);
        wire_run(&wire);
        cr_assert_leq(wire.loop->memory.live_blocks, blocks + 40);
    }
    bytes_free(&block);
    cr_assert(wire.closed);
    neighbour_lives(&wire);
    wire_close(&wire);
}

Test(floods, of_pings_and_settings_without_use_end_the_connection)
{
    static const uint8_t priority[5] = {0, 0, 0, 0, 16};
    for (int kind = 0; kind < 4; kind++) {
        struct wire wire;
        wire_open(&wire, NULL, true);
        put_request(&wire.out, 1, false, "/later", NULL);
        for (uint32_t i = 0; i < 5000 && !wire.closed; i++) {
            if (kind == 0)
                put_ping(&wire.out, false, i);
            else if (kind == 1)
                put_setting(&wire.out, SETTINGS_WINDOW, i);
            else if (kind == 2)
                put_frame(&wire.out, PRIORITY, 0, 2 * i + 3, priority, 5);
            else
                put_data(&wire.out, 1, false, "", 0);
            if (i % 50 == 0)
                wire_run(&wire);
        }
        wire_run(&wire);
        cr_expect(wire.closed, "kind %d", kind);
        cr_expect_eq(goaway_error(&wire.in), 11, "kind %d", kind);
        neighbour_lives(&wire);
        wire_close(&wire);
    }
}

/* A ping per message, as clients send that measure their bandwidth. */
Test(floods, are_not_what_pings_beside_calls_are_taken_for)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (uint32_t i = 0; i < 5000; i++) {
        put_request(&wire.out, 2 * i + 1, true, "/echo", NULL);
        put_ping(&wire.out, false, i);
        if (i % 50 == 0)
            wire_run(&wire);
    }
    wire_run(&wire);
    cr_assert_not(wire.closed);
    cr_assert_eq(wire.acceptor.closed, 5000);
    wire_close(&wire);
}

/* The answers are never read: the queue of frames is bounded, then the connection goes. */
Test(floods, by_a_peer_that_does_not_read_end_the_connection)
{
    for (int kind = 0; kind < 3; kind++) {
        struct wire wire;
        wire_open(&wire, PK_SERVER_OPTS(.pings = 1000000000), true);
        wire.deaf = true;
        uint32_t i = 0;
        for (; i < 1000000 && wire.fd >= 0; i++) {
            if (kind == 0)
                put_ping(&wire.out, false, i);
            else if (kind == 1)
                put_setting(&wire.out, SETTINGS_WINDOW, i);
            else
                put_frame(&wire.out, HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, "", 0);
            if (i % 500 == 0) {
                wire_run(&wire);
                if (wire.server->connection_count == 0)
                    break;
                /* An error ends the session; the peer does not read that either. */
                if (kind == 2)
                    wire.server->tick.fire(&wire.server->tick);
            }
        }
        cr_expect_lt(i, 1000000, "kind %d", kind);
        cr_expect_eq(wire.server->connection_count, 0, "kind %d", kind);
        neighbour_lives(&wire);
        wire_close(&wire);
    }
}

Test(floods, of_resets_end_the_connection)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.resets = 100, .resets_per_second = 1), true);
    for (uint32_t i = 0; i < 200; i++) {
        put_request(&wire.out, 2 * i + 1, false, "/later", NULL);
        put_reset(&wire.out, 2 * i + 1, 8);
        wire_run(&wire);
    }
    cr_assert(wire.closed);
    cr_assert_eq(wire.acceptor.accepted, 0, "resets that come with their heads reach nobody");
    neighbour_lives(&wire);
    wire_close(&wire);
}

/* Requests that make the server send resets of its own. */
Test(floods, of_malformed_requests_end_the_connection)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.resets = 100, .resets_per_second = 1), true);
    for (uint32_t i = 0; i < 5000 && !wire.closed; i++) {
        put_frame(&wire.out, HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, "", 0);
        wire_run(&wire);
    }
    cr_assert(wire.closed);
    cr_assert_eq(goaway_error(&wire.in), 11);
    neighbour_lives(&wire);
    wire_close(&wire);
}

Test(floods, of_window_updates_and_small_data_are_only_work)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, false, "/echo", NULL);
    for (uint32_t i = 0; i < 20000; i++) {
        put_window(&wire.out, 1, 1);
        put_data(&wire.out, 1, false, "x", 1);
    }
    put_data(&wire.out, 1, true, "", 0);
    wire_run(&wire);
    cr_assert_eq(body_of(&wire.in, 1), 20000);
    wire_close(&wire);
}
