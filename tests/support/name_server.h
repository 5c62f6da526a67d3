/*
 * A DNS server on a loop: A records (RFC 1035) that a test may change while it runs. It answers
 * every question for an A record alike, and others with nothing; without addresses: NXDOMAIN.
 */
#ifndef PEKOE_TESTS_NAME_SERVER_H
#define PEKOE_TESTS_NAME_SERVER_H

#include "core/loop.h"

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct name_server {
    pk_watch watch;
    int fd;
    char address[32];             /* for pk_channel_opts.dns_servers */
    const char *const *addresses; /* ended by NULL; borrowed */
    unsigned questions;           /* for A records */
};

static inline void name_server_answer(pk_watch *watch, bool readable, bool writable)
{
    struct name_server *server = (struct name_server *) watch;
    uint8_t packet[1500];
    struct sockaddr_in peer;
    socklen_t peer_length = sizeof peer;
    ssize_t length = recvfrom(server->fd, packet, 600, 0, (struct sockaddr *) &peer, &peer_length);
    if (length < 17)
        return;
    size_t end = 12;
    while (end < (size_t) length && packet[end] != 0)
        end += packet[end] + 1u;
    bool wants_a = packet[end + 2] == 1;
    end += 5; /* the root's label, type and class */
    server->questions += wants_a;
    size_t count = 0;
    bool known = server->addresses && server->addresses[0];
    for (size_t i = 0; known && wants_a && server->addresses[i]; i++) {
        static const uint8_t record[] = {0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4};
        memcpy(packet + end, record, sizeof record);
        inet_pton(AF_INET, server->addresses[i], packet + end + sizeof record);
        end += sizeof record + 4;
        count++;
    }
    packet[2] = 0x81;
    packet[3] = known ? 0x80 : 0x83;
    packet[6] = 0;
    packet[7] = (uint8_t) count;
    memset(packet + 8, 0, 4);
    (void) !sendto(server->fd, packet, end, 0, (struct sockaddr *) &peer, peer_length);
}

static inline void name_server_open(struct name_server *server, pk_loop *loop)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    memset(server, 0, sizeof *server);
    server->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(server->fd, (struct sockaddr *) &address, sizeof address), 0);
    cr_assert_eq(getsockname(server->fd, (struct sockaddr *) &address, &length), 0);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", ntohs(address.sin_port));
    pk_watch_init(&server->watch, loop, server->fd, name_server_answer);
    pk_watch_set(&server->watch, true, false);
}

static inline void name_server_close(struct name_server *server)
{
    pk_watch_set(&server->watch, false, false);
    close(server->fd);
}

#endif
