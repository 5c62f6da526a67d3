/* Sockets over the POSIX calls: see socket.h. */
#include "transport/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_PREFIX "unix:"

static int fail_with(int fd, int error)
{
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return error;
}

/* ---- Text of addresses ---- */

/* One of IPv4 that a socket for both versions has in the form of IPv6 ("::ffff:1.2.3.4"). */
static void unmap(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *mapped = (const struct sockaddr_in6 *) address;
    struct sockaddr_in plain = {.sin_family = AF_INET};
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&mapped->sin6_addr))
        return;
    plain.sin_port = mapped->sin6_port;
    memcpy(&plain.sin_addr, &mapped->sin6_addr.s6_addr[12], sizeof plain.sin_addr);
    memcpy(address, &plain, sizeof plain);
}

/* "1.2.3.4:80" or "[::1]:80", after `prefix4` or `prefix6`. */
static void print_address(struct sockaddr_storage *address, const char *prefix4,
                          const char *prefix6, char ret_text[PK_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN + 32], port[8];
    unmap(address);
    socklen_t length =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo((const struct sockaddr *) address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(ret_text, PK_ADDRESS_TEXT, "%sunknown", prefix4);
        return;
    }
    if (address->ss_family == AF_INET6)
        snprintf(ret_text, PK_ADDRESS_TEXT, "%s[%s]:%s", prefix6, host, port);
    else
        snprintf(ret_text, PK_ADDRESS_TEXT, "%s%s:%s", prefix4, host, port);
}

/* Splits "host:port", "[v6]:port" or ":port"; the host may come out empty. */
static int split_address(const char *address, char *ret_host, size_t host_size,
                         const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strlen(colon + 1) > 5)
        return PK_ERR_INVALID;
    const char *host = address, *end = colon;
    if (*host == '[') {
        host++;
        end--;
        if (end < host || *end != ']')
            return PK_ERR_INVALID;
    } else if (memchr(host, ':', (size_t) (end - host))) {
        return PK_ERR_INVALID; /* an IPv6 address without brackets */
    }
    size_t length = (size_t) (end - host);
    if (length >= host_size)
        return PK_ERR_INVALID;
    memcpy(ret_host, host, length);
    ret_host[length] = '\0';
    *ret_port = colon + 1;
    return 0;
}

/* ---- Listening ---- */

static int unix_address(const char *path, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof ret_address->sun_path)
        return PK_ERR_INVALID;
    memcpy(ret_address->sun_path, path, length);
    return 0;
}

/* Whether the path is a socket on which nobody listens any more. */
static bool left_over(const struct sockaddr_un *address)
{
    struct stat info;
    if (stat(address->sun_path, &info) < 0 || !S_ISSOCK(info.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool dead = connect(fd, (const struct sockaddr *) address, sizeof *address) < 0 &&
                errno == ECONNREFUSED;
    close(fd);
    return dead;
}

static int listen_unix(const char *path, int backlog, int *ret_fd, char ret_bound[PK_ADDRESS_TEXT])
{
    struct sockaddr_un address;
    int r = unix_address(path, &address);
    if (r < 0)
        return r;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return PK_ERR_SYSTEM;
    const struct sockaddr *any = (const struct sockaddr *) &address;
    r = bind(fd, any, sizeof address);
    if (r < 0 && errno == EADDRINUSE) {
        if (!left_over(&address))
            return fail_with(fd, PK_ERR_EXISTS);
        unlink(path);
        r = bind(fd, any, sizeof address);
    }
    if (r < 0 || listen(fd, backlog) < 0)
        return fail_with(fd, PK_ERR_SYSTEM);
    snprintf(ret_bound, PK_ADDRESS_TEXT, UNIX_PREFIX "%s", path);
    *ret_fd = fd;
    return 0;
}

static int listen_at(const struct addrinfo *where, bool reuse_port, int backlog)
{
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return PK_ERR_SYSTEM;
    const int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (where->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
        return fail_with(fd, PK_ERR_SYSTEM);
    if (bind(fd, where->ai_addr, where->ai_addrlen) < 0 || listen(fd, backlog) < 0)
        return fail_with(fd, errno == EADDRINUSE ? PK_ERR_EXISTS : PK_ERR_SYSTEM);
    return fd;
}

int pk_socket_listen(const char *address, bool reuse_port, int backlog, int *ret_fd,
                     char ret_bound[PK_ADDRESS_TEXT])
{
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return listen_unix(address + strlen(UNIX_PREFIX), backlog, ret_fd, ret_bound);

    char host[256];
    const char *port;
    int r = split_address(address, host, sizeof host, &port);
    if (r < 0)
        return r;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    /* Every interface: the IPv6 wildcard takes IPv4 too, where the system has IPv6 at all. */
    const char *name = host[0] == '\0' || strcmp(host, "*") == 0 ? NULL : host;
    struct addrinfo *found = NULL;
    if (!name)
        hints.ai_family = AF_INET6;
    if (getaddrinfo(name, port, &hints, &found) != 0)
        return PK_ERR_INVALID;
    int fd = listen_at(found, reuse_port, backlog);
    freeaddrinfo(found);
    if (fd == PK_ERR_SYSTEM && !name) {
        hints.ai_family = AF_INET;
        if (getaddrinfo(NULL, port, &hints, &found) != 0)
            return PK_ERR_INVALID;
        fd = listen_at(found, reuse_port, backlog);
        freeaddrinfo(found);
    }
    if (fd < 0)
        return fd;
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (getsockname(fd, (struct sockaddr *) &bound, &length) < 0)
        return fail_with(fd, PK_ERR_SYSTEM);
    print_address(&bound, "", "", ret_bound);
    *ret_fd = fd;
    return 0;
}

/* ---- Connecting ---- */

static int begin_connect(const struct sockaddr *address, socklen_t length, int *ret_fd)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return PK_ERR_SYSTEM;
    if (connect(fd, address, length) < 0 && errno != EINPROGRESS && errno != EINTR)
        return fail_with(fd, PK_ERR_SYSTEM);
    *ret_fd = fd;
    return 0;
}

static int connect_unix(const char *path, int *ret_fd, char ret_peer[PK_ADDRESS_TEXT])
{
    struct sockaddr_un address;
    int r = unix_address(path, &address);
    if (r == 0)
        r = begin_connect((const struct sockaddr *) &address, sizeof address, ret_fd);
    if (r == 0)
        snprintf(ret_peer, PK_ADDRESS_TEXT, UNIX_PREFIX);
    return r;
}

int pk_socket_connect(const char *address, int *ret_fd, char ret_peer[PK_ADDRESS_TEXT])
{
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return connect_unix(address + strlen(UNIX_PREFIX), ret_fd, ret_peer);
    char host[256];
    const char *port;
    int r = split_address(address, host, sizeof host, &port);
    if (r < 0)
        return r;
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return PK_ERR_INVALID;
    r = PK_ERR_INVALID;
    for (const struct addrinfo *one = found; one && r < 0; one = one->ai_next) {
        r = begin_connect(one->ai_addr, one->ai_addrlen, ret_fd);
        if (r == 0) {
            struct sockaddr_storage storage;
            memcpy(&storage, one->ai_addr, one->ai_addrlen);
            print_address(&storage, "ipv4:", "ipv6:", ret_peer);
        }
    }
    freeaddrinfo(found);
    return r;
}

int pk_socket_connected(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? errno : error;
}

bool pk_socket_address_numeric(const char *address)
{
    char host[256];
    const char *port;
    uint8_t number[16];
    return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0 ||
           (split_address(address, host, sizeof host, &port) == 0 &&
            (inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1));
}

bool pk_socket_address_valid(const char *address)
{
    char host[256];
    const char *port;
    struct sockaddr_un path;
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return unix_address(address + strlen(UNIX_PREFIX), &path) == 0;
    return split_address(address, host, sizeof host, &port) == 0 && host[0] != '\0';
}

/* ---- Accepting ---- */

static void no_delay(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* fails on Unix sockets: no matter */
}

int pk_socket_accept(int listener, int *ret_fd, char ret_peer[PK_ADDRESS_TEXT])
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    int fd;
    do {
        socklen_t length = sizeof peer;
        fd = accept4(listener, (struct sockaddr *) &peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        /* ECONNABORTED and the network errors concern the one that waited, not the listener. */
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO ||
                        errno == ENETDOWN || errno == EHOSTUNREACH || errno == ENETUNREACH));
    if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return PK_ERR_TOO_LATE;
        bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return scarce ? PK_ERR_LIMIT : PK_ERR_SYSTEM;
    }
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) {
        no_delay(fd);
        print_address(&peer, "ipv4:", "ipv6:", ret_peer);
    } else {
        snprintf(ret_peer, PK_ADDRESS_TEXT, UNIX_PREFIX);
    }
    *ret_fd = fd;
    return 0;
}

int pk_socket_prepare(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return PK_ERR_SYSTEM;
    no_delay(fd);
    return 0;
}

/* ---- Bytes ---- */

ssize_t pk_socket_read(int fd, void *ret_bytes, size_t length)
{
    for (;;) {
        ssize_t n = recv(fd, ret_bytes, length, 0);
        if (n > 0)
            return n;
        if (n == 0)
            return PK_ERR_CLOSED;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return errno == ECONNRESET ? PK_ERR_CLOSED : PK_ERR_SYSTEM;
    }
}

ssize_t pk_socket_write(int fd, const struct iovec *pieces, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *) pieces, .msg_iovlen = (size_t) count};
    for (;;) {
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n >= 0)
            return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return errno == EPIPE || errno == ECONNRESET ? PK_ERR_CLOSED : PK_ERR_SYSTEM;
    }
}

void pk_socket_end_writing(int fd)
{
    shutdown(fd, SHUT_WR);
}

void pk_socket_close(int fd)
{
    close(fd);
}
