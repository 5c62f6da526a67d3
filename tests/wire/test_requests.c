/* Requests in bytes: splits, padding, fields that break the rules, resets, early ends. */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>

#include <string.h>

/* A whole conversation: preface, SETTINGS, one request with body and trailers. */
static void put_conversation(struct bytes *out)
{
    const uint8_t padded[] = {3, 'a', 'b', 'c', 0, 0, 0};
    struct bytes trailers = {0};
    put_preface(out);
    put_setting(out, SETTINGS_WINDOW, 65535);
    put_request(out, 1, false, "/echo", NULL);
    put_frame(out, DATA, PADDED, 1, padded, sizeof padded);
    put_data(out, 1, false, "", 0);
    put_data(out, 1, false, "defgh", 5);
    put_field(&trailers, "x-last", "1");
    put_frame(out, HEADERS, END_STREAM | END_HEADERS, 1, trailers.at, trailers.length);
    bytes_free(&trailers);
}

Test(requests, are_answered_whatever_the_split)
{
    struct bytes all = {0};
    put_conversation(&all);
    for (size_t cut = 1; cut < all.length; cut++) {
        struct wire wire;
        wire_open(&wire, NULL, false);
        put(&wire.out, all.at, cut);
        wire_run(&wire);
        put(&wire.out, all.at + cut, all.length - cut);
        wire_run(&wire);
        cr_assert_eq(status_of(&wire.in, 1), 200, "cut at %zu", cut);
        cr_assert_eq(body_of(&wire.in, 1), 8, "cut at %zu", cut);
        cr_assert(last_has(&wire.in, 1, "x-received: 8"), "cut at %zu", cut);
        cr_assert(ended(&wire.in, 1));
        cr_assert_eq(reset_of(&wire.in, 1), -1);
        cr_assert_eq(wire.acceptor.trailers, 1);
        wire_close(&wire);
    }
    bytes_free(&all);
}

Test(requests, are_answered_byte_by_byte)
{
    struct wire wire;
    struct bytes all = {0};
    put_conversation(&all);
    wire_open(&wire, NULL, false);
    for (size_t i = 0; i < all.length; i++) {
        put(&wire.out, all.at + i, 1);
        wire_run(&wire);
    }
    cr_assert_eq(body_of(&wire.in, 1), 8);
    cr_assert_eq(wire.in.frames[find_frame(&wire.in, 0, DATA, 1)].payload[7], 'h');
    wire_close(&wire);
    bytes_free(&all);
}

Test(requests, get_replies_of_every_shape)
{
    static const struct {
        const char *path;
        unsigned status;
        size_t body;
        const char *last;
    } cases[] = {
        {"/echo", 200, 0, "grpc-status: 0"},
        {"/none", 200, 0, "grpc-status: 0"},
        {"/only", 200, 0, ":status: 200"},
        {"/bytes/1", 200, 1, "grpc-status: 0"},
        {"/bytes/100000", 200, 100000, "grpc-status: 0"},
        {"/stream/0/0", 200, 0, "grpc-status: 0"},
        {"/stream/1/1", 200, 1, "grpc-status: 0"},
        {"/stream/1000/10", 200, 10000, "grpc-status: 0"},
        {"/stream/40/5000", 200, 200000, "grpc-status: 0"},
        {"/nowhere", 404, 0, ":status: 404"},
        {"/early", 200, 0, "grpc-status: 0"},
    };
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_window(&wire.out, 0, 1u << 30);
    put_setting(&wire.out, SETTINGS_WINDOW, 1u << 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t stream = (uint32_t) (2 * i + 1);
        put_request(&wire.out, stream, true, cases[i].path, NULL);
        wire_run(&wire);
        cr_expect_eq(status_of(&wire.in, stream), cases[i].status, "%s", cases[i].path);
        cr_expect_eq(body_of(&wire.in, stream), cases[i].body, "%s", cases[i].path);
        cr_expect(last_has(&wire.in, stream, cases[i].last), "%s", cases[i].path);
        cr_expect(ended(&wire.in, stream), "%s", cases[i].path);
        cr_expect_eq(reset_of(&wire.in, stream), -1, "%s", cases[i].path);
    }
    cr_assert_eq(wire.acceptor.cancelled, 0);
    cr_assert_eq(wire.acceptor.closed, sizeof cases / sizeof *cases);
    wire_close(&wire);
}

Test(requests, of_one_turn_are_answered_by_one_write)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (uint32_t i = 0; i < 100; i++) {
        put_request(&wire.out, 2 * i + 1, false, "/echo", NULL);
        put_data(&wire.out, 2 * i + 1, true, "hello", 5);
    }
    wire_run(&wire);
    for (uint32_t i = 0; i < 100; i++)
        cr_assert_eq(body_of(&wire.in, 2 * i + 1), 5);
    wire_close(&wire);
}

/* Pieces written in one turn share DATA frames. */
Test(requests, that_stream_small_messages_get_full_frames)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, true, "/stream/1000/10", NULL);
    wire_run(&wire);
    size_t frames = 0;
    for (size_t i = 0; i < wire.in.count; i++)
        frames += wire.in.frames[i].type == DATA;
    cr_assert_eq(body_of(&wire.in, 1), 10000);
    cr_assert_leq(frames, 2);
    wire_close(&wire);
}

static const struct {
    const char *what;
    const char *fields[12]; /* names and values */
} malformed[] = {
    {"no path", {":method", "POST", ":scheme", "http"}},
    {"no method", {":scheme", "http", ":path", "/echo"}},
    {"no scheme", {":method", "POST", ":path", "/echo"}},
    {"a path that is empty", {":method", "POST", ":scheme", "http", ":path", ""}},
    {"a path without slash", {":method", "POST", ":scheme", "http", ":path", "echo"}},
    {"two paths", {":method", "POST", ":scheme", "http", ":path", "/echo", ":path", "/echo"}},
    {"a response's pseudo-header",
     {":method", "POST", ":scheme", "http", ":path", "/echo", ":status", "200"}},
    {"an unknown pseudo-header",
     {":method", "POST", ":scheme", "http", ":path", "/echo", ":protocol", "x"}},
    {"a pseudo-header behind a field",
     {":method", "POST", ":scheme", "http", "a", "b", ":path", "/echo"}},
    {"an upper-case name", {":method", "POST", ":scheme", "http", ":path", "/echo", "A", "b"}},
    {"an empty name", {":method", "POST", ":scheme", "http", ":path", "/echo", "", "b"}},
    {"a blank in a name", {":method", "POST", ":scheme", "http", ":path", "/echo", "a b", "b"}},
    {"a line break", {":method", "POST", ":scheme", "http", ":path", "/echo", "a", "b\nc: d"}},
    {"a control character",
     {":method", "POST", ":scheme", "http", ":path", "/echo", "a", "12345678\x7f"}},
    {"a blank at the end", {":method", "POST", ":scheme", "http", ":path", "/echo", "a", "b "}},
    {"connection", {":method", "POST", ":scheme", "http", ":path", "/echo", "connection", "close"}},
    {"transfer-encoding",
     {":method", "POST", ":scheme", "http", ":path", "/echo", "transfer-encoding", "chunked"}},
    {"te with more", {":method", "POST", ":scheme", "http", ":path", "/echo", "te", "gzip"}},
    {"content-length that is none",
     {":method", "POST", ":scheme", "http", ":path", "/echo", "content-length", "1x"}},
    {"two content-lengths",
     {":method", "POST", ":scheme", "http", "content-length", "0", "content-length", "0"}},
};

Test(requests, that_break_the_rules_of_fields_are_reset_and_the_connection_lives)
{
    struct wire wire;
    size_t count = sizeof malformed / sizeof *malformed;
    wire_open(&wire, NULL, true);
    for (size_t i = 0; i < count; i++) {
        struct bytes block = {0};
        uint32_t stream = (uint32_t) (2 * i + 1);
        for (const char *const *f = malformed[i].fields; *f; f += 2)
            put_field(&block, f[0], f[1]);
        put_frame(&wire.out, HEADERS, END_HEADERS | END_STREAM, stream, block.at, block.length);
        bytes_free(&block);
        wire_run(&wire);
        cr_expect_eq(reset_of(&wire.in, stream), 1, "%s", malformed[i].what);
    }
    cr_assert_eq(wire.acceptor.accepted, 0);
    put_request(&wire.out, 1001, true, "/echo", (const char *const[]){"te", "trailers", NULL});
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 1001), 200);
    wire_close(&wire);
}

Test(requests, whose_body_contradicts_content_length_are_reset)
{
    static const struct {
        const char *length;
        size_t body;
        bool right;
    } cases[] = {{"5", 5, true}, {"5", 4, false}, {"5", 6, false}, {"0", 0, true}, {"1", 0, false}};
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const extra[] = {"content-length", cases[i].length, NULL};
        uint32_t stream = (uint32_t) (2 * i + 1);
        put_request(&wire.out, stream, false, "/echo", extra);
        put_filler(&wire.out, stream, true, cases[i].body);
        wire_run(&wire);
        cr_expect_eq(reset_of(&wire.in, stream), cases[i].right ? -1 : 1, "case %zu", i);
        cr_expect_eq(status_of(&wire.in, stream), cases[i].right ? 200 : 0, "case %zu", i);
    }
    wire_close(&wire);
}

Test(requests, with_bad_trailers_are_reset)
{
    static const struct {
        const char *name;
        unsigned flags;
    } cases[] = {{":path", END_STREAM | END_HEADERS},
                 {"Upper", END_STREAM | END_HEADERS},
                 {"no-end", END_HEADERS}};
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes block = {0};
        uint32_t stream = (uint32_t) (2 * i + 1);
        put_request(&wire.out, stream, false, "/echo", NULL);
        wire_run(&wire);
        put_field(&block, cases[i].name, "x");
        put_frame(&wire.out, HEADERS, cases[i].flags, stream, block.at, block.length);
        bytes_free(&block);
        wire_run(&wire);
        cr_expect_eq(reset_of(&wire.in, stream), 1, "%s", cases[i].name);
    }
    cr_assert_eq(wire.acceptor.cancelled, 3);
    wire_close(&wire);
}

/* Above the first limit the handler's side says so; above the second nothing is kept. */
Test(requests, with_large_heads_are_refused_then_reset)
{
    static char value[70000];
    static const struct {
        size_t length;
        unsigned status;
        long reset;
    } cases[] = {
        {100, 200, -1}, {7000, 200, -1}, {8300, 208, -1}, {30000, 208, -1}, {65400, 0, 11}};
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes block = {0};
        uint32_t stream = (uint32_t) (2 * i + 1);
        memset(value, 'v', sizeof value);
        value[cases[i].length] = '\0';
        put_field(&block, ":method", "POST");
        put_field(&block, ":scheme", "http");
        put_field(&block, ":path", "/echo");
        put_field(&block, "big", value);
        size_t first = block.length < 16384 ? block.length : 16384;
        put_frame(&wire.out, HEADERS, END_STREAM | (first == block.length ? END_HEADERS : 0u),
                  stream, block.at, first);
        for (size_t at = first; at < block.length;) {
            size_t part = block.length - at < 16384 ? block.length - at : 16384;
            put_frame(&wire.out, CONTINUATION, at + part == block.length ? END_HEADERS : 0, stream,
                      block.at + at, part);
            at += part;
        }
        bytes_free(&block);
        wire_run(&wire);
        cr_expect_eq(status_of(&wire.in, stream), cases[i].status, "%zu", cases[i].length);
        cr_expect_eq(reset_of(&wire.in, stream), cases[i].reset, "%zu", cases[i].length);
    }
    put_request(&wire.out, 101, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 101), 200);
    wire_close(&wire);
}

Test(requests, with_many_fields_keep_all_of_them_within_the_limit)
{
    struct wire wire;
    struct bytes block = {0};
    wire_open(&wire, PK_SERVER_OPTS(.header_bytes = 60000), true);
    put_field(&block, ":method", "POST");
    put_field(&block, ":scheme", "http");
    put_field(&block, ":path", "/echo");
    for (int i = 0; i < 1000; i++)
        put_field(&block, "a", "1");
    put_frame(&wire.out, HEADERS, END_STREAM | END_HEADERS, 1, block.at, block.length);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 1), 200);
    bytes_free(&block);
    wire_close(&wire);
}

Test(requests, that_are_reset_cancel_their_handlers)
{
    static const uint32_t codes[] = {0, 1, 2, 7, 8, 11, 13, 4096};
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (uint32_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        uint32_t stream = 2 * i + 1;
        put_request(&wire.out, stream, false, "/later", NULL);
        put_data(&wire.out, stream, false, "abc", 3);
        wire_run(&wire);
        put_reset(&wire.out, stream, codes[i]);
        wire_run(&wire);
        cr_expect_eq(wire.acceptor.cancelled, i + 1);
        cr_expect_eq(wire.acceptor.closed, i + 1);
    }
    path_acceptor_answer(&wire.acceptor);
    put_request(&wire.out, 101, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 101), 200);
    wire_close(&wire);
}

Test(requests, that_are_reset_with_their_head_reach_nobody)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, false, "/echo", NULL);
    put_data(&wire.out, 1, false, "abc", 3);
    put_reset(&wire.out, 1, 8);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.accepted, 0);
    wire_close(&wire);
}

/* The end of the response comes first, then the word that the rest of the request is unwanted. */
Test(requests, answered_early_end_with_trailers_then_reset)
{
    static const char *const paths[] = {"/early", "/only", "/nowhere", "/stream/3/3"};
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (uint32_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        uint32_t stream = 2 * i + 1;
        put_request(&wire.out, stream, false, paths[i], NULL);
        put_filler(&wire.out, stream, false, 50000);
        wire_run(&wire);
        put_filler(&wire.out, stream, false, 50000);
        wire_run(&wire);
        size_t reset = find_frame(&wire.in, 0, RST_STREAM, stream);
        cr_assert_neq(reset, SIZE_MAX, "%s", paths[i]);
        cr_expect_eq(wire.in.frames[reset].number, 0, "%s", paths[i]);
        cr_expect(ended(&wire.in, stream));
        cr_expect_eq(find_frame(&wire.in, reset, HEADERS, stream), SIZE_MAX, "%s", paths[i]);
        cr_expect_eq(find_frame(&wire.in, reset + 1, RST_STREAM, stream), SIZE_MAX);
    }
    cr_assert_eq(wire.acceptor.cancelled, 0);
    wire_close(&wire);
}

Test(requests, can_be_refused_by_their_handler)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    put_request(&wire.out, 1, false, "/refuse", NULL);
    wire_run(&wire);
    cr_assert_eq(reset_of(&wire.in, 1), 7);
    cr_assert_eq(wire.acceptor.cancelled, 0);
    cr_assert_eq(wire.acceptor.closed, 1);
    wire_close(&wire);
}

/* Its handler resets its siblings and answers, all from inside one event. */
Test(requests, can_cancel_each_other_from_inside_an_event)
{
    struct wire wire;
    wire_open(&wire, NULL, true);
    for (uint32_t i = 0; i < 5; i++)
        put_request(&wire.out, 2 * i + 1, false, "/later", NULL);
    put_request(&wire.out, 11, true, "/cancel", NULL);
    for (uint32_t i = 0; i < 5; i++)
        put_data(&wire.out, 2 * i + 1, true, "late", 4);
    wire_run(&wire);
    for (uint32_t i = 0; i < 5; i++)
        cr_expect_eq(reset_of(&wire.in, 2 * i + 1), 8);
    cr_assert_eq(status_of(&wire.in, 11), 200);
    cr_assert_eq(wire.acceptor.closed, 6);
    wire_close(&wire);
}

/* The peer cannot know the limit yet: it has not acknowledged the settings. */
Test(requests, over_the_number_of_streams_are_refused)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.max_streams = 4), false);
    put_preface(&wire.out);
    put_setting(&wire.out, 0, UINT32_MAX);
    for (uint32_t i = 0; i < 6; i++)
        put_request(&wire.out, 2 * i + 1, true, "/later", NULL);
    wire_run(&wire);
    cr_assert_eq(wire.acceptor.accepted, 4);
    cr_assert_eq(reset_of(&wire.in, 9), 7);
    cr_assert_eq(reset_of(&wire.in, 11), 7);
    path_acceptor_answer(&wire.acceptor);
    put_request(&wire.out, 13, true, "/echo", NULL);
    wire_run(&wire);
    cr_assert_eq(status_of(&wire.in, 7), 200);
    cr_assert_eq(status_of(&wire.in, 13), 200);
    wire_close(&wire);
}

/* A peer that knows the limit and passes it is in error; the library ends the connection then. */
Test(requests, over_the_acknowledged_number_of_streams_end_the_connection)
{
    struct wire wire;
    wire_open(&wire, PK_SERVER_OPTS(.max_streams = 4), true);
    for (uint32_t i = 0; i < 5; i++)
        put_request(&wire.out, 2 * i + 1, true, "/later", NULL);
    wire_run(&wire);
    size_t place = find_frame(&wire.in, 0, GOAWAY, 0);
    cr_assert_neq(place, SIZE_MAX);
    cr_assert_eq(wire.in.frames[place].error, 1);
    cr_assert(wire.closed);
    cr_assert_eq(wire.acceptor.cancelled, 4);
    wire_close(&wire);
}

Test(requests, that_are_no_http2_end_the_connection)
{
    static const char *const greetings[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01",
                                            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\n"};
    for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++) {
        struct wire wire;
        wire_open(&wire, PK_SERVER_OPTS(.http2_only = true), false);
        put(&wire.out, greetings[i], strlen(greetings[i]));
        wire_run(&wire);
        put(&wire.out, "more and more and more and more", 31);
        wire_run(&wire);
        cr_expect(wire.closed, "greeting %zu", i);
        cr_expect_eq(wire.acceptor.accepted, 0);
        wire_close(&wire);
    }
}
