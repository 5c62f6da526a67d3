/*
 * A server of the path acceptor's answers, for clients that are other programs.
 *
 * path-server ADDRESS: prints the address that it listens on and serves until SIGTERM, then drains
 * for a second and prints what it counted.
 */
#include "../support/path_acceptor.h"
#include "core/loop.h"
#include "transport/server.h"

#include <ev.h>

#include <signal.h>
#include <stdio.h>

static pk_server *server;
static pk_loop *loop;

static pk_future stopped(const void *value, void *arg)
{
    pk_loop_stop(loop);
    return pk_done(NULL);
}

static void on_signal(struct ev_loop *ev, ev_signal *watcher, int received)
{
    ev_signal_stop(ev, watcher);
    pk_detach(pk_then(pk_server_stop(server, 1000), stopped, NULL));
}

int main(int argc, char **argv)
{
    struct path_acceptor acceptor;
    const char *bound;
    ev_signal signal_watcher;
    path_acceptor_init(&acceptor);
    if (argc != 2 || pk_loop_new(&loop, NULL) < 0 || pk_server_new(&server, loop, NULL) < 0)
        return 2;
    pk_server_set_acceptor(server, &acceptor.acceptor);
    int r = pk_server_listen(server, argv[1], &bound);
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", argv[1], pk_error_text(r));
        return 2;
    }
    printf("%s\n", bound);
    fflush(stdout);
    ev_signal_init(&signal_watcher, on_signal, SIGTERM);
    ev_signal_start(pk_loop_ev(loop), &signal_watcher);
    pk_loop_run(loop);
    pk_server_free(server);
    pk_loop_free(loop);
    printf("accepted %u, refused %u, cancelled %u, closed %u, out of order %u\n", acceptor.accepted,
           acceptor.refused, acceptor.cancelled, acceptor.closed, acceptor.events_after_end);
    return acceptor.events_after_end > 0 || acceptor.closed != acceptor.accepted + acceptor.refused;
}
