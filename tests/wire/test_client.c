/* The client's side against a server of our own, over TCP. */
#include "client_fixture.h"

#include <poll.h>

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
