/* Servers on real addresses: limits of connections and descriptors, several loops on one port. */
#include "../support/wire_peer.h"

#include <criterion/criterion.h>
#include <ev.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int connect_to(const char *bound)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t) atoi(strrchr(bound, ':') + 1))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *) &address, sizeof address), 0);
    return fd;
}

static void turn(struct wire *wire, int times)
{
    while (times-- > 0) {
        ev_run(pk_loop_ev(wire->loop), EVRUN_NOWAIT);
        pk_loop_end_turn(wire->loop);
    }
}

Test(listeners, take_no_more_connections_than_allowed)
{
    struct wire wire;
    const char *bound;
    int fds[4];
    wire_open(&wire, PK_SERVER_OPTS(.max_connections = 3), true);
    cr_assert_eq(pk_server_listen(wire.server, "127.0.0.1:0", &bound), 0);
    for (int i = 0; i < 4; i++)
        fds[i] = connect_to(bound);
    turn(&wire, 10);
    cr_assert_eq(wire.server->connection_count, 3);
    cr_assert(wire.server->listeners->paused);
    close(fds[0]);
    turn(&wire, 10);
    cr_assert_eq(wire.server->connection_count, 3, "the one that waited has taken the place");
    for (int i = 1; i < 4; i++)
        close(fds[i]);
    turn(&wire, 10);
    cr_assert_not(wire.server->listeners->paused);
    wire_close(&wire);
}

Test(listeners, wait_without_spinning_while_there_are_no_descriptors)
{
    struct wire wire;
    const char *bound;
    struct rlimit before, none;
    int filler[64], count = 0;
    wire_open(&wire, NULL, true);
    cr_assert_eq(pk_server_listen(wire.server, "127.0.0.1:0", &bound), 0);
    int client = connect_to(bound);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t) client + 1, before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (count < 64 && (filler[count] = dup(client)) >= 0)
        count++;
    turn(&wire, 3);
    cr_assert(wire.server->listeners->paused);
    cr_assert_eq(wire.server->connection_count, 1);
    wire_ticks(&wire, 3);
    cr_assert(wire.server->listeners->paused, "it has tried again and found none");
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (count > 0)
        close(filler[--count]);
    wire_ticks(&wire, 1);
    cr_assert_eq(wire.server->connection_count, 2);
    close(client);
    wire_close(&wire);
}

Test(listeners, of_one_server_may_be_many)
{
    struct wire wire;
    const char *first, *second, *third;
    char folder[] = "/tmp/pekoe-server-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "unix:%s/s", folder);
    wire_open(&wire, NULL, true);
    cr_assert_eq(pk_server_listen(wire.server, "127.0.0.1:0", &first), 0);
    cr_assert_eq(pk_server_listen(wire.server, "127.0.0.1:0", &second), 0);
    cr_assert_eq(pk_server_listen(wire.server, path, &third), 0);
    cr_assert_str_neq(first, second);
    cr_assert_str_eq(third, path);
    cr_assert_eq(pk_server_listen(wire.server, first, NULL), PK_ERR_EXISTS);
    cr_assert_eq(pk_server_listen(wire.server, "nonsense", NULL), PK_ERR_INVALID);
    wire_close(&wire);
    cr_assert_neq(access(path + 5, F_OK), 0, "the path is gone with its server");
    rmdir(folder);
}

/* ---- One loop and one server per thread, sharing nothing but the port ---- */

enum { THREADS = 2, CLIENTS = 32 };

struct worker {
    pthread_t thread;
    pthread_barrier_t ready;
    pk_loop *loop;
    pk_server *server;
    const char *address, *bound;
    struct path_acceptor acceptor;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    path_acceptor_init(&worker->acceptor);
    int r = pk_loop_new(&worker->loop, NULL);
    if (r == 0)
        r = pk_server_new(&worker->server, worker->loop, PK_SERVER_OPTS(.reuse_port = true));
    if (r == 0) {
        pk_server_set_acceptor(worker->server, &worker->acceptor.acceptor);
        r = pk_server_listen(worker->server, worker->address, &worker->bound);
    }
    if (r < 0)
        abort();
    pthread_barrier_wait(&worker->ready);
    pk_loop_run(worker->loop);
    pk_server_free(worker->server);
    pk_loop_free(worker->loop);
    return NULL;
}

static void leave(void *arg)
{
    pk_loop_stop(arg);
}

/* One request on a connection of its own, with blocking calls. */
static void call_once(const char *bound)
{
    struct bytes out = {0};
    struct reader in;
    uint8_t bytes[4096];
    int fd = connect_to(bound);
    reader_init(&in);
    put_preface(&out);
    put_setting(&out, 0, UINT32_MAX);
    put_request(&out, 1, false, "/echo", NULL);
    put_data(&out, 1, true, "hello", 5);
    cr_assert_eq(send(fd, out.at, out.length, 0), (ssize_t) out.length);
    while (!ended(&in, 1)) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        cr_assert_gt(n, 0);
        cr_assert(reader_feed(&in, bytes, (size_t) n));
    }
    cr_assert_eq(body_of(&in, 1), 5);
    bytes_free(&out);
    reader_done(&in);
    close(fd);
}

Test(listeners, of_several_loops_share_a_port)
{
    static struct worker workers[THREADS];
    char address[PK_ADDRESS_TEXT] = "127.0.0.1:0";
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.address = address};
        pthread_barrier_init(&workers[i].ready, NULL, 2);
        cr_assert_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        pthread_barrier_wait(&workers[i].ready);
        if (i == 0)
            strcpy(address, workers[0].bound);
    }
    for (int i = 0; i < CLIENTS; i++)
        call_once(address);
    unsigned served = 0;
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pk_loop_post(workers[i].loop, leave, workers[i].loop), 0);
        pthread_join(workers[i].thread, NULL);
        pthread_barrier_destroy(&workers[i].ready);
        cr_expect_gt(workers[i].acceptor.accepted, 0, "each has had some of them");
        served += workers[i].acceptor.accepted;
    }
    cr_assert_eq(served, CLIENTS);
}
