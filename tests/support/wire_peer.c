/* See wire_peer.h. */
#include "wire_peer.h"

#include <criterion/criterion.h>
#include <ev.h>

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void connect_peer(struct wire *wire)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    cr_assert_eq(pk_server_adopt(wire->server, ends[0], "unix:", NULL), 0);
    wire->fd = ends[1];
    reader_init(&wire->in);
}

/* The server's own settings, its windows among them, hold from the acknowledgement on. */
static void greet_server(struct wire *wire)
{
    put_preface(&wire->out);
    put_setting(&wire->out, 0, UINT32_MAX);
    put_frame(&wire->out, SETTINGS, ACK, 0, NULL, 0);
    wire_run(wire);
}

void wire_open(struct wire *wire, const pk_server_opts *opts, bool greet)
{
    *wire = (struct wire){.fd = -1};
    path_acceptor_init(&wire->acceptor);
    cr_assert_eq(pk_loop_new(&wire->loop, NULL), 0);
    cr_assert_eq(pk_server_new(&wire->server, wire->loop, opts), 0);
    pk_server_set_acceptor(wire->server, &wire->acceptor.acceptor);
    connect_peer(wire);
    if (greet)
        greet_server(wire);
}

void wire_join(struct wire *wire, struct wire *server_of)
{
    *wire = (struct wire){.fd = -1, .loop = server_of->loop, .server = server_of->server};
    connect_peer(wire);
    if (!server_of->http1)
        greet_server(wire);
    wire->http1 = server_of->http1;
}

static bool send_some(struct wire *wire)
{
    struct bytes *out = &wire->out;
    if (out->length == 0 || wire->fd < 0)
        return false;
    ssize_t n = send(wire->fd, out->at, out->length, MSG_NOSIGNAL);
    if (n <= 0) {
        if (n < 0 && errno != EAGAIN)
            out->length = 0; /* the server has closed */
        return false;
    }
    memmove(out->at, out->at + n, out->length - (size_t) n);
    out->length -= (size_t) n;
    return true;
}

static bool read_some(struct wire *wire)
{
    uint8_t bytes[65536];
    if (wire->deaf || wire->fd < 0 || wire->closed)
        return false;
    ssize_t n = recv(wire->fd, bytes, sizeof bytes, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        wire->closed = true;
    if (n <= 0)
        return false;
    if (wire->http1)
        put(&wire->in.rest, bytes, (size_t) n);
    else
        cr_assert(reader_feed(&wire->in, bytes, (size_t) n));
    return true;
}

/* Bytes that the peer has sent and the server has not read. */
static int under_way(const struct wire *wire)
{
    int bytes = 0;
    return wire->fd >= 0 && ioctl(wire->fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void wire_run(struct wire *wire)
{
    for (int quiet = 0; quiet < 3;) {
        int before = under_way(wire);
        bool sent = send_some(wire);
        ev_run(pk_loop_ev(wire->loop), EVRUN_NOWAIT);
        pk_loop_end_turn(wire->loop);
        bool got = read_some(wire);
        quiet = sent || got || under_way(wire) < before ? 0 : quiet + 1;
    }
}

void wire_ticks(struct wire *wire, int count)
{
    for (int i = 0; i < count; i++) {
        wire->server->tick.fire(&wire->server->tick);
        wire_run(wire);
    }
}

void wire_hang_up(struct wire *wire)
{
    close(wire->fd);
    wire->fd = -1;
    wire_run(wire);
}

void wire_leave(struct wire *wire)
{
    if (wire->fd >= 0)
        wire_hang_up(wire);
    bytes_free(&wire->out);
    reader_done(&wire->in);
}

void wire_close(struct wire *wire)
{
    const struct path_acceptor *acceptor = &wire->acceptor;
    pk_server_free(wire->server);
    pk_loop_end_turn(wire->loop);
    cr_expect_eq(acceptor->closed, acceptor->accepted + acceptor->refused,
                 "every exchange is closed once");
    cr_expect_eq(acceptor->events_after_end, 0, "events come in their order");
    cr_expect_eq(wire->loop->buffers.lent, 0, "every buffer is back");
    if (wire->fd >= 0)
        close(wire->fd);
    pk_loop_free(wire->loop);
    bytes_free(&wire->out);
    reader_done(&wire->in);
}
