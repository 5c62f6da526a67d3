/* The client's side against scripts of frames: the peer is a server in bytes. */
#include "client_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

static int peer;
static struct reader seen;

static void meet_script(void)
{
    int ends[2];
    set_up();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    cr_assert_eq(pk_connection_new(&connection, &host, ends[0], "unix:", NULL), 0);
    peer = ends[1];
    reader_init(&seen);
    turns(2);
    uint8_t preface[24];
    cr_assert_eq(recv(peer, preface, 24, 0), 24);
    cr_assert_arr_eq(preface, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
}

static void leave_script(void)
{
    close(peer);
    reader_done(&seen);
    turns(4);
    cr_assert_eq(gone, 1);
    tear_down();
}

/* Sends what the script says and reads what the client did. */
static void say(struct bytes *out)
{
    if (out->length > 0)
        cr_assert_eq(send(peer, out->at, out->length, MSG_NOSIGNAL), (ssize_t) out->length);
    out->length = 0;
    for (int i = 0; i < 10; i++) {
        uint8_t bytes[65536];
        turns(1);
        ssize_t n = recv(peer, bytes, sizeof bytes, 0);
        if (n > 0)
            cr_assert(reader_feed(&seen, bytes, (size_t) n));
    }
}

static void put_response(struct bytes *out, uint32_t stream, unsigned flags, const char *status)
{
    struct bytes block = {0};
    put_field(&block, ":status", status);
    put_field(&block, "x", "y");
    put_frame(out, HEADERS, END_HEADERS | flags, stream, block.at, block.length);
    bytes_free(&block);
}

static void put_goaway(struct bytes *out, uint32_t last, uint32_t error)
{
    uint8_t payload[8] = {(uint8_t) (last >> 24),
                          (uint8_t) (last >> 16),
                          (uint8_t) (last >> 8),
                          (uint8_t) last,
                          0,
                          0,
                          0,
                          (uint8_t) error};
    put_frame(out, GOAWAY, 0, 0, payload, 8);
}

Test(client_script, takes_an_interim_response_for_none)
{
    struct bytes out = {0};
    struct call call;
    meet_script();
    put_setting(&out, 0, UINT32_MAX);
    open_call(&call, "/x", false);
    put_response(&out, 1, 0, "103");
    say(&out);
    put_response(&out, 1, 0, "100");
    say(&out);
    cr_assert_eq(call.heads, 0);
    put_response(&out, 1, 0, "200");
    put_data(&out, 1, true, "abc", 3);
    say(&out);
    cr_assert_eq(call.heads, 1);
    cr_assert_eq(call.status, 200);
    cr_assert_eq(call.bytes, 3);
    cr_assert_eq(call.ends, 1);
    cr_assert_eq(call.closes, 1);
    bytes_free(&out);
    leave_script();
}

Test(client_script, maps_resets_to_codes)
{
    static const struct {
        uint32_t error;
        pk_code code;
    } cases[] = {
        {0, PK_INTERNAL},          {1, PK_INTERNAL},  {2, PK_INTERNAL}, {3, PK_INTERNAL},
        {7, PK_UNAVAILABLE},       {8, PK_CANCELLED}, {9, PK_INTERNAL}, {11, PK_RESOURCE_EXHAUSTED},
        {12, PK_PERMISSION_DENIED}};
    struct bytes out = {0};
    meet_script();
    put_setting(&out, 0, UINT32_MAX);
    say(&out);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call call;
        open_call(&call, "/x", true);
        say(&out);
        put_reset(&out, 2 * i + 1, cases[i].error);
        say(&out);
        cr_expect_eq(call.code, cases[i].code, "error %u", cases[i].error);
        cr_expect_eq(call.unprocessed, cases[i].error == 7);
        cr_expect_eq(call.closes, 1);
    }
    bytes_free(&out);
    leave_script();
}

/* Trailers first: a reset that follows changes nothing. */
Test(client_script, keeps_the_end_that_it_has_seen)
{
    struct bytes out = {0};
    struct call call;
    meet_script();
    put_setting(&out, 0, UINT32_MAX);
    open_call(&call, "/x", true);
    put_response(&out, 1, 0, "200");
    struct bytes block = {0};
    put_field(&block, "grpc-status", "5");
    put_frame(&out, HEADERS, END_HEADERS | END_STREAM, 1, block.at, block.length);
    bytes_free(&block);
    put_reset(&out, 1, 0);
    say(&out);
    cr_assert_eq(call.ends, 1);
    cr_assert_eq(call.trailers, 1);
    cr_assert_eq(call.cancels, 0);
    cr_assert_eq(call.closes, 1);
    bytes_free(&out);
    leave_script();
}

Test(client_script, knows_which_calls_a_goaway_leaves_unprocessed)
{
    struct bytes out = {0};
    struct call calls[4];
    meet_script();
    put_setting(&out, SETTINGS_MAX_STREAMS, 3);
    say(&out);
    for (int i = 0; i < 4; i++)
        open_call(&calls[i], "/x", false);
    say(&out);
    put_goaway(&out, 3, 0);
    say(&out);
    cr_assert(leaving);
    cr_assert_eq(calls[0].cancels + calls[1].cancels, 0);
    for (int i = 2; i < 4; i++) {
        cr_assert_eq(calls[i].code, PK_UNAVAILABLE);
        cr_assert(calls[i].unprocessed);
        cr_assert_eq(calls[i].closes, 1);
    }
    put_response(&out, 1, END_STREAM, "200");
    put_response(&out, 3, END_STREAM, "200");
    say(&out);
    cr_assert_eq(calls[0].closes + calls[1].closes, 2);
    cr_assert_eq(calls[0].cancels + calls[1].cancels, 0);
    bytes_free(&out);
    leave_script();
}

/* A server may close the connection when it has heard GOAWAY and no request is open. */
Test(client_script, sends_what_was_begun_before_it_says_that_it_leaves)
{
    struct bytes out = {0};
    struct call begun, late;
    meet_script();
    say(&out);
    put_setting(&out, SETTINGS_MAX_STREAMS, 3);
    say(&out);
    open_call(&begun, "/x", false);
    pk_connection_drain(connection);
    cr_assert_eq(try_open(&late, "/x", false), PK_ERR_CLOSED);
    say(&out);
    size_t request = find_frame(&seen, 0, HEADERS, 1), goaway = find_frame(&seen, 0, GOAWAY, 0);
    cr_assert_lt(request, seen.count);
    cr_assert_lt(goaway, seen.count);
    cr_assert_lt(request, goaway);
    put_response(&out, 1, END_STREAM, "200");
    say(&out);
    cr_assert_eq(begun.status, 200);
    cr_assert_eq(begun.closes, 1);
    bytes_free(&out);
    leave_script();
}

Test(client_script, queues_calls_while_the_server_allows_none)
{
    struct bytes out = {0};
    struct call calls[10];
    meet_script();
    put_setting(&out, 0, UINT32_MAX);
    say(&out);
    for (int i = 0; i < 3; i++)
        open_call(&calls[i], "/x", false);
    say(&out);
    put_setting(&out, SETTINGS_MAX_STREAMS, 0);
    say(&out);
    for (int i = 3; i < 10; i++)
        open_call(&calls[i], "/x", false);
    for (uint32_t i = 0; i < 3; i++)
        put_response(&out, 2 * i + 1, END_STREAM, "200");
    say(&out);
    cr_assert_eq(find_frame(&seen, 0, HEADERS, 7), SIZE_MAX);
    put_setting(&out, SETTINGS_MAX_STREAMS, 2);
    say(&out);
    cr_assert_neq(find_frame(&seen, 0, HEADERS, 9), SIZE_MAX);
    cr_assert_eq(find_frame(&seen, 0, HEADERS, 11), SIZE_MAX);
    put_setting(&out, SETTINGS_MAX_STREAMS, 100);
    say(&out);
    cr_assert_neq(find_frame(&seen, 0, HEADERS, 19), SIZE_MAX);
    bytes_free(&out);
    leave_script();
}

Test(client_script, resets_malformed_responses_and_lives)
{
    static const char *const statuses[] = {"20", "abc", "", "2000"};
    struct bytes out = {0};
    struct call call;
    meet_script();
    put_setting(&out, 0, UINT32_MAX);
    for (uint32_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        open_call(&call, "/x", false);
        say(&out);
        put_response(&out, 2 * i + 1, END_STREAM, statuses[i]);
        say(&out);
        cr_expect_eq(call.heads, 0);
        cr_expect_eq(call.code, PK_INTERNAL, "%s", statuses[i]);
        cr_expect_str_eq(call.why, "what the peer has sent is malformed");
        cr_expect_eq(call.closes, 1);
    }
    open_call(&call, "/x", false);
    say(&out);
    put_response(&out, 9, END_STREAM, "204");
    say(&out);
    cr_assert_eq(call.status, 204);
    bytes_free(&out);
    leave_script();
}

/* Both sides have ended when they are seen: the library closes such a stream without an error. */
Test(client_script, says_what_is_wrong_with_the_end_of_a_response)
{
    static char long_value[8170]; /* two of them fit a frame, but not with what is added for each */
    memset(long_value, 'x', sizeof long_value - 1);
    const struct {
        const char *length, *name, *value;
        pk_code code;
        const char *why;
    } cases[] = {
        {NULL, "Upper", "1", PK_INTERNAL, "what the peer has sent is malformed"},
        {NULL, "x", "a\nb", PK_INTERNAL, "what the peer has sent is malformed"},
        {NULL, ":status", "200", PK_INTERNAL, "what the peer has sent is malformed"},
        {"4", "x", "1", PK_INTERNAL, "what the peer has sent is malformed"},
        {"2", "x", "1", PK_INTERNAL, "what the peer has sent is malformed"},
        {NULL, "x", long_value, PK_RESOURCE_EXHAUSTED,
         "the peer's fields are more than 16384 bytes"},
    };
    struct bytes out = {0};
    struct call call;
    meet_script();
    put_setting(&out, 0, UINT32_MAX);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes head = {0}, trailers = {0};
        open_call(&call, "/x", false);
        say(&out);
        put_field(&head, ":status", "200");
        if (cases[i].length)
            put_field(&head, "content-length", cases[i].length);
        put_frame(&out, HEADERS, END_HEADERS, 2 * i + 1, head.at, head.length);
        put_data(&out, 2 * i + 1, false, "abc", 3);
        for (int k = 0; k < 2; k++)
            put_field(&trailers, cases[i].name, cases[i].value);
        put_frame(&out, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, trailers.at, trailers.length);
        say(&out);
        cr_expect_eq(call.ends, 0, "case %u", i);
        cr_expect_eq(call.code, cases[i].code, "case %u: %u", i, call.code);
        cr_expect_str_eq(call.why, cases[i].why, "case %u: %s", i, call.why);
        cr_expect_eq(call.closes, 1);
        bytes_free(&head);
        bytes_free(&trailers);
    }
    bytes_free(&out);
    leave_script();
}

Test(client_script, asks_a_silent_peer_and_gives_up)
{
    struct bytes out = {0};
    struct call call;
    meet_script();
    host.keepalive_ticks = 3;
    host.answer_ticks = 2;
    put_setting(&out, 0, UINT32_MAX);
    say(&out);
    for (int i = 0; i < 10; i++)
        pk_connection_tick(connection);
    say(&out);
    cr_assert_eq(find_frame(&seen, 0, PING, 0), SIZE_MAX, "there is no call");
    open_call(&call, "/x", false);
    say(&out);
    for (int i = 0; i < 3; i++)
        pk_connection_tick(connection);
    say(&out);
    size_t ping = find_frame(&seen, 0, PING, 0);
    cr_assert_neq(ping, SIZE_MAX);
    put_frame(&out, PING, ACK, 0, seen.frames[ping].payload, 8);
    say(&out);
    for (int i = 0; i < 5; i++)
        pk_connection_tick(connection);
    say(&out);
    cr_assert_eq(gone, 0);
    pk_connection_tick(connection);
    say(&out);
    cr_assert_eq(gone, 1);
    cr_assert_eq(call.code, PK_UNAVAILABLE);
    cr_assert_not(call.unprocessed);
    bytes_free(&out);
    leave_script();
}
