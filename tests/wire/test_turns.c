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

/* Allocations of the loop, and what they hold. */
static unsigned allocations;
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
    allocations += counting;
    size_t *made = realloc(old, size + 2 * sizeof *made);
    if (!made)
        return NULL;
    *made = size;
    taken += size - old_size;
    return made + 2;
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

/* As a client sends it that has used the path before: no field carries text. */
static void put_indexed_request(struct bytes *to, uint32_t stream)
{
    static const uint8_t first[] = "\x83\x86\x44\x06/later"; /* POST, http, path to the table */
    static const uint8_t later[] = {0x83, 0x86, 0xbe};
    if (stream == 1)
        put_frame(to, HEADERS, END_HEADERS, stream, first, sizeof first - 1);
    else
        put_frame(to, HEADERS, END_HEADERS, stream, later, sizeof later);
}

Test(turns, leave_little_behind_for_open_streams)
{
    enum { STREAMS = 200 };
    set_up();
    size_t before = taken;
    for (uint32_t i = 0; i < STREAMS; i++)
        put_indexed_request(&peer.out, 2 * i + 1);
    wire_run(&peer);
    cr_assert_eq(wire.acceptor.accepted, STREAMS);
    size_t stream = (taken - before) / STREAMS;
    cr_log_info("%zu bytes per open stream", stream);
    cr_expect_leq(stream, 1536);
    tear_down();
}

/* Pages of memory that the process really uses. */
static size_t resident(void)
{
    unsigned long total, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%lu %lu", &total, &pages), 2);
    fclose(file);
    return (size_t) pages * (size_t) sysconf(_SC_PAGESIZE);
}

/* Most of the library's 16 KiB frame buffer is never touched: what counts is what is resident. */
Test(turns, leave_little_behind_for_idle_connections)
{
    enum { CONNECTIONS = 400 };
    static int fds[CONNECTIONS];
    struct bytes greeting = {0};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip("the sanitizer's own memory is in the way");
#endif
    set_up();
    put_preface(&greeting);
    put_setting(&greeting, 0, UINT32_MAX);
    size_t before = resident();
    for (int i = 0; i < CONNECTIONS; i++) {
        int ends[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        cr_assert_eq(pk_server_adopt(wire.server, ends[0], "unix:", NULL), 0);
        fds[i] = ends[1];
        cr_assert_eq(send(fds[i], greeting.at, greeting.length, 0), (ssize_t) greeting.length);
    }
    wire_run(&peer);
    size_t connection = (resident() - before) / CONNECTIONS;
    cr_log_info("%zu bytes per idle connection", connection);
    cr_expect_leq(connection, 24 << 10);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    bytes_free(&greeting);
    tear_down();
}
