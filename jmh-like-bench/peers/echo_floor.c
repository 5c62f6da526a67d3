/*
 * The floor under every server of small messages: epoll, recv, send, and nothing else. For each 37
 * bytes that come, 48 go back: what a gRPC SayHello takes on the wire. `echo-floor PORT`.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST 37
#define REPLY 48
#define MOST 65536

static void serve(int fd)
{
    static char in[MOST], out[MOST / REQUEST * REPLY + REPLY];
    static size_t left[65536]; /* bytes of a request that is not whole yet, by descriptor */
    ssize_t got = recv(fd, in, sizeof in, 0);
    if (got <= 0) {
        close(fd);
        return;
    }
    size_t have = left[fd] + (size_t) got;
    left[fd] = have % REQUEST;
    size_t length = have / REQUEST * REPLY;
    for (size_t sent = 0; sent < length;) {
        ssize_t part = send(fd, out + sent, length - sent, MSG_NOSIGNAL);
        if (part <= 0)
            return;
        sent += (size_t) part;
    }
}

int main(int argc, char **argv)
{
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t) atoi(argc > 1 ? argv[1] : "0"))};
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *) &address, sizeof address) < 0 ||
        listen(listener, 511) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0) {
        perror("echo-floor");
        return 1;
    }
    printf("serving on 127.0.0.1:%s\n", argv[1]);
    fflush(stdout);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listener) {
                serve(events[i].data.fd);
                continue;
            }
            int fd = accept(listener, NULL, NULL);
            event.data.fd = fd;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        }
    }
}
