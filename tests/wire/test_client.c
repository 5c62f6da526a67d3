/* The client's side: against a server of our own, and against scripts of frames. */
#include "../support/wire_peer.h"
#include "transport/connection.h"
#include "transport/field_rules.h"

#include <criterion/criterion.h>
#include <ev.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pk_loop *loop;
static pk_connection_host host;
static pk_connection *connection;
static bool ready, leaving;
static unsigned gone;

static void on_turned(pk_connection_host *of, pk_connection *turned)
{
    ready = turned->exchanges.session.greeted;
    leaving = turned->exchanges.session.peer_goes_away;
}

static void on_gone(pk_connection_host *of, pk_connection *ended)
{
    connection = NULL;
    gone++;
}

static long allocations_left = -1; /* then all fail; -1: none does */

static void *failing_resize(void *context, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return realloc(block, size);
}

static void set_up(void)
{
    const pk_allocator failing = {failing_resize, NULL};
    cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = &failing)), 0);
    gone = 0;
    ready = leaving = false;
    connection = NULL;
    host = (pk_connection_host){.loop = loop,
                                .client = true,
                                .limits = {.stream_window = 1u << 20,
                                           .connection_window = 8u << 20,
                                           .header_bytes = 16384,
                                           .resets = 1000,
                                           .glitches = 1000,
                                           .queued_frames = 1000,
                                           .send_budget = 1u << 20},
                                .budget = 16u << 20,
                                .bytes.limit = 64u << 20,
                                .header_ticks = 5,
                                .gone = on_gone,
                                .turned = on_turned};
}

static void tear_down(void)
{
    if (connection)
        pk_connection_free(connection, "the test is over");
    pk_buffer_unref(host.read_buffer);
    pk_loop_end_turn(loop);
    cr_expect_eq(loop->buffers.lent, 0);
    pk_loop_free(loop);
}

static void turns(int count)
{
    while (count-- > 0) {
        ev_run(pk_loop_ev(loop), EVRUN_NOWAIT);
        pk_loop_end_turn(loop);
    }
}

/* ---- A call ---- */

struct call {
    pk_exchange *exchange;
    char path[32];
    pk_field fields[4];
    unsigned heads, status, ends, trailers, rooms, cancels, closes;
    bool head_ended, unprocessed;
    bool unread; /* nothing of the response is consumed */
    pk_code code;
    char why[64];
    size_t bytes;
};

static void call_head(pk_exchange *exchange, const pk_head *head, bool end)
{
    struct call *call = exchange->user;
    call->heads++;
    call->head_ended = end;
    call->status = pk_field_status(pk_head_value(head, PK_FIELD_STATUS));
}

static void call_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    struct call *call = exchange->user;
    call->bytes += length;
    if (!call->unread)
        exchange->ops->consume(exchange, length);
}

static void call_end(pk_exchange *exchange, const pk_head *trailers)
{
    struct call *call = exchange->user;
    call->ends++;
    call->trailers += trailers ? (unsigned) trailers->count : 0;
}

static void call_room(pk_exchange *exchange)
{
    ((struct call *) exchange->user)->rooms++;
}

static void call_cancelled(pk_exchange *exchange, const pk_status *why)
{
    struct call *call = exchange->user;
    call->cancels++;
    call->code = why->code;
    snprintf(call->why, sizeof call->why, "%.*s", (int) why->message.length,
             (const char *) why->message.bytes);
    call->unprocessed = exchange->unprocessed;
}

static void call_closed(pk_exchange *exchange)
{
    struct call *call = exchange->user;
    call->closes++;
    call->exchange = NULL;
}

static const pk_exchange_events call_events = {.on_head = call_head,
                                               .on_data = call_data,
                                               .on_end = call_end,
                                               .on_room = call_room,
                                               .on_cancelled = call_cancelled,
                                               .on_closed = call_closed};

static int try_open(struct call *call, const char *path, bool body)
{
    *call = (struct call){.fields = {{.name = PK_SLICE(":method"), .value = PK_SLICE("POST")},
                                     {.name = PK_SLICE(":scheme"), .value = PK_SLICE("http")},
                                     {.name = PK_SLICE(":path")},
                                     {.name = PK_SLICE(":authority"), .value = PK_SLICE("test")}}};
    strncpy(call->path, path, sizeof call->path - 1);
    call->fields[2].value = (pk_slice){(const uint8_t *) call->path, strlen(call->path)};
    return pk_http2_exchange_open(&connection->exchanges, call->fields, 4, body, &call_events, call,
                                  &call->exchange);
}

static void open_call(struct call *call, const char *path, bool body)
{
    cr_assert_eq(try_open(call, path, body), 0);
}

static bool write_bytes(struct call *call, size_t length)
{
    pk_buffer *buffer = pk_buffer_get(&loop->buffers);
    cr_assert_not_null(buffer);
    pk_buffer_rewind_for_append(buffer, 0);
    cr_assert_eq(pk_buffer_room_after(buffer, length), 0);
    memset(buffer->end, 'x', length);
    buffer->end += length;
    return call->exchange->ops->write(call->exchange, buffer);
}

static void finish(struct call *call)
{
    call->exchange->ops->finish(call->exchange, NULL, 0);
}

/* ---- Against our server, over TCP ---- */

static pk_server *server;
static struct path_acceptor acceptor;

static void connect_to_server(const pk_server_opts *opts)
{
    const char *bound;
    set_up();
    path_acceptor_init(&acceptor);
    cr_assert_eq(pk_server_new(&server, loop, opts), 0);
    pk_server_set_acceptor(server, &acceptor.acceptor);
    cr_assert_eq(pk_server_listen(server, "127.0.0.1:0", &bound), 0);
    char to[PK_ADDRESS_TEXT];
    int fd;
    cr_assert_eq(pk_socket_connect(bound, &fd, to), 0);
    struct pollfd event = {.fd = fd, .events = POLLOUT};
    cr_assert_eq(poll(&event, 1, 5000), 1);
    cr_assert_eq(pk_socket_connected(fd), 0);
    cr_assert_eq(pk_socket_prepare(fd), 0);
    cr_assert_eq(pk_connection_new(&connection, &host, fd, to, NULL), 0);
}

static void leave_server(void)
{
    if (connection)
        pk_connection_free(connection, "the test is over");
    pk_server_free(server);
    tear_down();
}

Test(client, makes_calls_of_every_shape)
{
    struct call echo, stream, only, none;
    connect_to_server(NULL);
    open_call(&echo, "/echo", true); /* before the server has greeted */
    write_bytes(&echo, 100000);
    write_bytes(&echo, 5);
    finish(&echo);
    turns(50);
    cr_assert(ready);
    cr_assert_eq(echo.status, 200);
    cr_assert_eq(echo.bytes, 100005);
    cr_assert_eq(echo.ends, 1);
    cr_assert_eq(echo.trailers, 2);
    cr_assert_eq(echo.closes, 1);
    cr_assert_eq(echo.cancels, 0);
    open_call(&stream, "/stream/100/100", false);
    open_call(&only, "/only", false);
    open_call(&none, "/none", true);
    finish(&none);
    turns(20);
    cr_assert_eq(stream.bytes, 10000);
    cr_assert(only.head_ended);
    cr_assert_eq(only.ends, 0);
    cr_assert_eq(none.ends, 1);
    cr_assert_eq(none.bytes, 0);
    cr_assert_eq(stream.closes + only.closes + none.closes, 3);
    leave_server();
}

Test(client, half_closes_when_it_likes)
{
    struct call call;
    connect_to_server(NULL);
    open_call(&call, "/echo", true);
    turns(20);
    write_bytes(&call, 3);
    turns(20);
    cr_assert_eq(call.heads, 0);
    finish(&call);
    turns(20);
    cr_assert_eq(call.bytes, 3);
    cr_assert_eq(call.closes, 1);
    leave_server();
}

Test(client, waits_for_room_and_is_told)
{
    struct call call;
    connect_to_server(PK_SERVER_OPTS(.stream_window = 65535, .connection_window = 65535));
    open_call(&call, "/pull/65535", true);
    turns(20);
    size_t written = 0;
    while (write_bytes(&call, 10000))
        written += 10000;
    cr_assert_leq(written, PK_HTTP2_QUEUE_HIGH);
    turns(20);
    cr_assert_eq(call.rooms, 1);
    while (write_bytes(&call, 10000))
        written += 10000;
    turns(20);
    cr_assert_leq(written, 3 * 65536u + 20000);
    call.exchange->ops->reset(call.exchange, PK_RESET_CANCEL);
    turns(20);
    cr_assert_eq(call.closes, 1);
    cr_assert_eq(call.cancels, 0);
    cr_assert_eq(acceptor.cancelled, 1);
    leave_server();
}

Test(client, keeps_to_the_number_of_streams_that_the_server_allows)
{
    enum { CALLS = 50 };
    static struct call calls[CALLS];
    connect_to_server(PK_SERVER_OPTS(.max_streams = 4));
    turns(20);
    for (int i = 0; i < CALLS; i++)
        open_call(&calls[i], "/later", false);
    turns(20);
    cr_assert_eq(acceptor.accepted, 4);
    /* One that waits is cancelled at once and never seen by the server. */
    calls[30].exchange->ops->reset(calls[30].exchange, PK_RESET_CANCEL);
    turns(2);
    cr_assert_eq(calls[30].closes, 1);
    cr_assert_eq(calls[30].cancels, 0);
    for (int round = 0; round < 20; round++) {
        path_acceptor_answer(&acceptor);
        turns(20);
    }
    cr_assert_eq(acceptor.accepted, CALLS - 1);
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(calls[i].closes, 1);
    leave_server();
}

/* Responses that are not read would have more than the connection's window in all. */
Test(client, has_no_response_wait_for_one_that_is_not_read)
{
    enum { UNREAD = 20 };
    static struct call unread[UNREAD], other;
    connect_to_server(NULL);
    turns(20);
    for (int i = 0; i < UNREAD; i++) {
        open_call(&unread[i], "/stream/1000/65536", false);
        unread[i].unread = true;
    }
    turns(2000);
    for (int i = 0; i < UNREAD; i++)
        cr_assert_eq(unread[i].bytes, host.limits.stream_window, "its own window bounds each");
    open_call(&other, "/bytes/3000000", false);
    turns(500);
    cr_assert_eq(other.bytes, 3000000);
    cr_assert_eq(other.closes, 1);
    /* Those that are read late, or never, end as others do. */
    for (int i = 1; i < UNREAD; i++)
        unread[i].exchange->ops->reset(unread[i].exchange, PK_RESET_CANCEL);
    unread[0].unread = false;
    unread[0].exchange->ops->consume(unread[0].exchange, unread[0].bytes);
    turns(5000);
    cr_assert_eq(unread[0].bytes, 65536000);
    for (int i = 0; i < UNREAD; i++)
        cr_assert_eq(unread[i].closes, 1);
    leave_server();
}

Test(client, loses_no_call_when_the_server_stops_gracefully)
{
    struct call before, crossing, after;
    connect_to_server(NULL);
    open_call(&before, "/later", false);
    turns(20);
    pk_detach(pk_server_stop(server, 10000));
    open_call(&crossing, "/later", false);
    turns(20);
    cr_assert(leaving);
    cr_assert_eq(try_open(&after, "/later", false), PK_ERR_CLOSED);
    path_acceptor_answer(&acceptor);
    turns(20);
    cr_assert_eq(before.status, 200);
    cr_assert_eq(crossing.status, 200);
    cr_assert_eq(gone, 1);
    leave_server();
}

/* Each allocation of both sides fails in turn: each call that was opened ends, once. */
Test(client, ends_every_call_when_memory_runs_out, .timeout = 100)
{
    enum { CALLS = 3 };
    bool whole = false;
    for (long limit = 0; !whole; limit++) {
        struct call calls[CALLS];
        int opened = 0;
        connect_to_server(NULL);
        acceptor.careful = true;
        turns(20);
        allocations_left = limit;
        for (int i = 0; i < CALLS && connection; i++, opened++) {
            if (try_open(&calls[opened], "/bytes/3000", false) < 0)
                break;
        }
        turns(20);
        whole = allocations_left > 0;
        allocations_left = -1;
        turns(20);
        for (int i = 0; i < opened && whole; i++)
            cr_assert_eq(calls[i].bytes, 3000);
        leave_server();
        for (int i = 0; i < opened; i++)
            cr_assert_eq(calls[i].closes, 1, "after %ld allocations", limit);
        cr_assert_lt(limit, 1000);
    }
}

/* ---- Against scripts: the peer is a server in bytes ---- */

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

Test(client, takes_an_interim_response_for_none)
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

Test(client, maps_resets_to_codes)
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
Test(client, keeps_the_end_that_it_has_seen)
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

Test(client, knows_which_calls_a_goaway_leaves_unprocessed)
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
Test(client, sends_what_was_begun_before_it_says_that_it_leaves)
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

Test(client, queues_calls_while_the_server_allows_none)
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

Test(client, resets_malformed_responses_and_lives)
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
Test(client, says_what_is_wrong_with_the_end_of_a_response)
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

Test(client, asks_a_silent_peer_and_gives_up)
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
