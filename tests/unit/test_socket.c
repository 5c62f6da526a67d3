/* Addresses in text, real sockets on this machine. */
#include "transport/socket.h"

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A client connected to a bound address, blocking; to any address: over IPv4. */
static int connect_to(const char *bound)
{
    struct sockaddr_storage address = {0};
    socklen_t length;
    if (strncmp(bound, "unix:", 5) == 0) {
        struct sockaddr_un *path = (struct sockaddr_un *) &address;
        path->sun_family = AF_UNIX;
        strcpy(path->sun_path, bound + 5);
        length = sizeof *path;
    } else if (bound[0] == '[' && strncmp(bound, "[::]", 4) != 0) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) &address;
        v6->sin6_family = AF_INET6;
        v6->sin6_addr = in6addr_loopback;
        v6->sin6_port = htons((uint16_t) atoi(strrchr(bound, ':') + 1));
        length = sizeof *v6;
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *) &address;
        v4->sin_family = AF_INET;
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        v4->sin_port = htons((uint16_t) atoi(strrchr(bound, ':') + 1));
        length = sizeof *v4;
    }
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *) &address, length), 0, "%s: %s", bound,
                 strerror(errno));
    return fd;
}

static void wait_readable(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&event, 1, 5000), 1);
}

static bool ipv6_is_here(void)
{
    int fd, r;
    char bound[PK_ADDRESS_TEXT];
    r = pk_socket_listen("[::1]:0", false, 1, &fd, bound);
    if (r == 0)
        pk_socket_close(fd);
    return r == 0;
}

Test(socket, listens_and_tells_where)
{
    char folder[] = "/tmp/pekoe-socket-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "unix:%s/s", folder);
    const struct {
        const char *address, *bound, *peer;
    } cases[] = {
        {"127.0.0.1:0", "127.0.0.1:", "ipv4:127.0.0.1:"},
        {"localhost:0", "", "ipv"},
        {"[::1]:0", "[::1]:", "ipv6:[::1]:"},
        {":0", "", "ipv4:127.0.0.1:"}, /* of both versions, where there are two */
        {path, path, "unix:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bound[PK_ADDRESS_TEXT], peer[PK_ADDRESS_TEXT], got[8];
        int listener, fd = -1;
        if (cases[i].address[0] == '[' && !ipv6_is_here())
            continue;
        cr_assert_eq(pk_socket_listen(cases[i].address, false, 10, &listener, bound), 0, "%s",
                     cases[i].address);
        cr_expect_eq(strncmp(bound, cases[i].bound, strlen(cases[i].bound)), 0, "%s", bound);
        cr_expect_eq(pk_socket_accept(listener, &fd, peer), PK_ERR_TOO_LATE);
        int client = connect_to(bound);
        wait_readable(listener);
        cr_assert_eq(pk_socket_accept(listener, &fd, peer), 0);
        cr_expect_eq(strncmp(peer, cases[i].peer, strlen(cases[i].peer)), 0, "%s", peer);
        cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
        cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        cr_expect_eq(pk_socket_read(fd, got, sizeof got), 0, "nothing is there yet");
        char hello[] = "hello";
        const struct iovec pieces[] = {{hello, 2}, {hello + 2, 3}};
        cr_expect_eq(pk_socket_write(fd, pieces, 2), 5);
        cr_expect_eq(read(client, got, 8), 5);
        cr_expect_arr_eq(got, "hello", 5);
        close(client);
        wait_readable(fd);
        cr_expect_eq(pk_socket_read(fd, got, sizeof got), PK_ERR_CLOSED);
        pk_socket_close(fd);
        pk_socket_close(listener);
    }
    unlink(path + 5);
    rmdir(folder);
}

Test(socket, refuses_what_is_no_address)
{
    static const char *const wrong[] = {
        "",   "127.0.0.1",    "127.0.0.1:",         "::1:80", "[::1]",         "[::1:80",
        ":x", "127.0.0.1:-1", "127.0.0.1:99999999", "unix:",  "no such name:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char bound[PK_ADDRESS_TEXT];
        int fd = -1;
        cr_expect_lt(pk_socket_listen(wrong[i], false, 1, &fd, bound), 0, "%s", wrong[i]);
        cr_expect_eq(fd, -1);
    }
}

Test(socket, tells_that_an_address_is_taken_unless_it_is_shared)
{
    char bound[PK_ADDRESS_TEXT], again[PK_ADDRESS_TEXT];
    int first, second;
    cr_assert_eq(pk_socket_listen("127.0.0.1:0", false, 1, &first, bound), 0);
    cr_assert_eq(pk_socket_listen(bound, false, 1, &second, again), PK_ERR_EXISTS);
    pk_socket_close(first);
    cr_assert_eq(pk_socket_listen("127.0.0.1:0", true, 1, &first, bound), 0);
    cr_assert_eq(pk_socket_listen(bound, true, 1, &second, again), 0);
    cr_assert_str_eq(bound, again);
    pk_socket_close(first);
    pk_socket_close(second);
}

Test(socket, replaces_a_path_that_a_dead_process_left)
{
    char folder[] = "/tmp/pekoe-socket-XXXXXX", address[64], bound[PK_ADDRESS_TEXT];
    int first, second;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(address, sizeof address, "unix:%s/s", folder);
    cr_assert_eq(pk_socket_listen(address, false, 1, &first, bound), 0);
    cr_assert_eq(pk_socket_listen(address, false, 1, &second, bound), PK_ERR_EXISTS);
    pk_socket_close(first);
    cr_assert_eq(pk_socket_listen(address, false, 1, &second, bound), 0);
    pk_socket_close(second);
    unlink(address + 5);
    /* A file of another kind is nobody's to delete. */
    close(open(address + 5, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    cr_assert_eq(pk_socket_listen(address, false, 1, &second, bound), PK_ERR_EXISTS);
    struct stat info;
    cr_assert_eq(stat(address + 5, &info), 0);
    unlink(address + 5);
    rmdir(folder);
}

Test(socket, writes_to_a_peer_that_is_gone_without_a_signal)
{
    int ends[2];
    char byte = 'x';
    const struct iovec piece = {&byte, 1};
    signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(pk_socket_prepare(ends[0]), 0);
    close(ends[1]);
    cr_assert_eq(pk_socket_write(ends[0], &piece, 1), PK_ERR_CLOSED);
    close(ends[0]);
}

Test(socket, tells_when_there_are_no_descriptors_left)
{
    char bound[PK_ADDRESS_TEXT], peer[PK_ADDRESS_TEXT];
    int listener, fd = -1;
    cr_assert_eq(pk_socket_listen("127.0.0.1:0", false, 1, &listener, bound), 0);
    int client = connect_to(bound);
    struct rlimit before, none;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t) client + 1, before.rlim_max};
    /* Fill the gaps below the client's number. */
    int filler[64], count = 0;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (count < 64 && (filler[count] = dup(client)) >= 0)
        count++;
    wait_readable(listener);
    cr_expect_eq(pk_socket_accept(listener, &fd, peer), PK_ERR_LIMIT);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (count > 0)
        close(filler[--count]);
    cr_expect_eq(pk_socket_accept(listener, &fd, peer), 0, "it has gone on waiting");
    close(fd);
    close(client);
    pk_socket_close(listener);
}
