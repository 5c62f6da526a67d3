/*
 * What a turn costs: system calls and allocations, counted. The three system calls are replaced in
 * this program, for the library as well.
 */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool counting;
static int peer_fd;
static unsigned reads, writes, controls;

ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
    reads += counting && fd != peer_fd;
    return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    writes += counting && fd != peer_fd;
    return syscall(SYS_sendmsg, fd, message, flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    controls += counting;
    return (int) syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

/* Allocations of the loop. */
static unsigned allocations;

static void *counting_resize(void *context, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    allocations += counting;
    return realloc(block, size);
}

static struct wire wire, peer;

static void set_up(void)
{
    const pk_allocator allocator = {counting_resize, NULL};
    reads = writes = controls = allocations = 0;
    wire = (struct wire){.fd = -1};
    path_acceptor_init(&wire.acceptor);
    cr_assert_eq(pk_loop_new(&wire.loop, PK_LOOP_OPTS(.allocator = &allocator)), 0);
    cr_assert_eq(pk_server_new(&wire.server, wire.loop, NULL), 0);
    pk_server_set_acceptor(wire.server, &wire.acceptor.acceptor);
    wire_join(&peer, &wire);
    peer_fd = peer.fd;
}

static void tear_down(void)
{
    wire_leave(&peer);
    reader_init(&wire.in);
    wire_close(&wire);
}

/* So many calls at once, with metadata that differs from call to call. */
static void calls(uint32_t *stream, const char *path, unsigned count)
{
    static unsigned value;
    for (unsigned i = 0; i < count; i++, *stream += 2) {
        char text[16];
        snprintf(text, sizeof text, "%u", value++);
        const char *const extra[] = {"te", "trailers", "x-number", text, NULL};
        put_request(&peer.out, *stream, false, path, extra);
        put_data(&peer.out, *stream, true, "hello", 5);
    }
    put_window(&peer.out, 0, 1u << 20);
    wire_run(&peer);
}

Test(turns, of_a_hundred_calls_read_once_write_once_and_allocate_nothing)
{
    uint32_t stream = 1;
    set_up();
    for (int round = 0; round < 5; round++)
        calls(&stream, "/echo", 100);
    counting = true;
    calls(&stream, "/echo", 100);
    calls(&stream, "/echo", 100);
    counting = false;
    cr_expect_eq(allocations, 0);
    cr_expect_eq(reads, 2);
    cr_expect_eq(writes, 2);
    cr_expect_eq(controls, 0);
    cr_expect_eq(status_of(&peer.in, stream - 2), 200);
    tear_down();
}

Test(turns, of_streams_allocate_nothing)
{
    uint32_t stream = 1;
    set_up();
    put_setting(&peer.out, SETTINGS_WINDOW, 1u << 24);
    put_window(&peer.out, 0, 1u << 30);
    for (int round = 0; round < 5; round++)
        calls(&stream, "/stream/1000/100", 10);
    counting = true;
    calls(&stream, "/stream/1000/100", 10);
    counting = false;
    cr_expect_eq(allocations, 0);
    cr_expect_eq(body_of(&peer.in, stream - 2), 100000);
    tear_down();
}
