/*
 * A greeter that counts what its process asks of the C library's malloc, whoever asks: pekoe,
 * nghttp2, libev, protobuf-c, the C library itself; and the system calls of its connections. The
 * answer to `SayHello` of "counts" is "ALLOCATIONS READS WRITES EPOLL_CTLS OF-OPENSSL" so far, the last one what
 * OpenSSL asks for, which is in none of the others. All others have
 * their metadata read and echoed, so that varying metadata is part of what is counted.
 *
 *     counting-server [CERTIFICATE KEY] --listen ADDRESS
 */
#include <pekoe/pekoe.h>

#include "counted_malloc.h"
#include "helloworld.pekoe.h"

#include <ev.h>
#include <openssl/crypto.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define AT_ONCE 100 /* as in count.py */

/* ---- The interposed system calls ---- */

static atomic_ulong reads, writes, epoll_ctls;

/* Found before main: dlsym allocates. */
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_recv)(int, void *, size_t, int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_epoll_ctl)(int, int, int, struct epoll_event *);

__attribute__((constructor)) static void find_system_calls(void)
{
    *(void **) &real_read = dlsym(RTLD_NEXT, "read");
    *(void **) &real_recv = dlsym(RTLD_NEXT, "recv");
    *(void **) &real_write = dlsym(RTLD_NEXT, "write");
    *(void **) &real_send = dlsym(RTLD_NEXT, "send");
    *(void **) &real_writev = dlsym(RTLD_NEXT, "writev");
    *(void **) &real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    *(void **) &real_epoll_ctl = dlsym(RTLD_NEXT, "epoll_ctl");
}

ssize_t read(int fd, void *bytes, size_t length)
{
    atomic_fetch_add(&reads, 1);
    return real_read(fd, bytes, length);
}

ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
    atomic_fetch_add(&reads, 1);
    return real_recv(fd, bytes, length, flags);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    atomic_fetch_add(&writes, 1);
    return real_write(fd, bytes, length);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    atomic_fetch_add(&writes, 1);
    return real_send(fd, bytes, length, flags);
}

ssize_t writev(int fd, const struct iovec *pieces, int count_of_pieces)
{
    atomic_fetch_add(&writes, 1);
    return real_writev(fd, pieces, count_of_pieces);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    atomic_fetch_add(&writes, 1);
    return real_sendmsg(fd, message, flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    atomic_fetch_add(&epoll_ctls, 1);
    return real_epoll_ctl(epoll, operation, fd, event);
}

/* ---- OpenSSL's own allocations, counted apart ---- */

static atomic_ulong of_openssl;

static void *openssl_malloc(size_t size, const char *file, int line)
{
    atomic_fetch_add(&of_openssl, 1);
    return __libc_malloc(size);
}

static void *openssl_realloc(void *block, size_t size, const char *file, int line)
{
    atomic_fetch_add(&of_openssl, 1);
    return __libc_realloc(block, size);
}

static void openssl_free(void *block, const char *file, int line)
{
    __libc_free(block);
}

/* ---- The service ---- */

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    if (strcmp(request->name, "counts") == 0) {
        reply->message = pk_call_printf(call, "%lu %lu %lu %lu %lu", atomic_load(&allocations),
                                        atomic_load(&reads), atomic_load(&writes),
                                        atomic_load(&epoll_ctls), atomic_load(&of_openssl));
        return helloworld_hello_reply_done(reply);
    }
    pk_slice value = pk_metadata_get(pk_call_metadata(call), "x-varying");
    const char *text = pk_call_copy(call, value.bytes, value.length);
    if (pk_metadata_add(pk_call_headers(call), "x-echo", text) < 0 ||
        pk_metadata_add(pk_call_trailers(call), "x-echo", text) < 0)
        return pk_failed(call, PK_INTERNAL, "the metadata cannot be echoed");
    if (pk_call_time_left(call) == UINT64_MAX)
        return pk_failed(call, PK_INVALID_ARGUMENT, "a deadline is part of the test");
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

static pk_future pass_on(const void *unused, void *reply)
{
    return pk_done(reply);
}

/*
 * Names with a 'w' wait until AT_ONCE calls do, which are then answered in one turn: as many open
 * calls, and as many replies to write at once, as there can ever be.
 */
static pk_future answer_or_wait(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    static pk_promise *waiting[AT_ONCE];
    static unsigned count_waiting;
    pk_future reply = say_hello(self, call, request);
    if (request->name[0] != 'w' || reply.state != PK_FUTURE_DONE)
        return reply;
    pk_promise *promise = pk_promise_new(pk_call_scope(call));
    pk_future together = pk_promise_future(promise);
    waiting[count_waiting++] = promise;
    if (count_waiting == AT_ONCE) {
        while (count_waiting > 0)
            pk_promise_done(waiting[--count_waiting], NULL);
    }
    return pk_then(together, pass_on, (void *) (uintptr_t) reply.pointer);
}

static const helloworld_greeter_impl greeter = {.say_hello = answer_or_wait};

static void on_term(struct ev_loop *ev, ev_signal *watcher, int events)
{
    pk_detach(pk_server_stop(watcher->data, 2000));
    ev_signal_stop(ev, watcher);
}

int main(int argc, char **argv)
{
    pk_loop *loop = NULL;
    pk_server *server = NULL;
    const char *bound;
    pk_server_credentials *credentials = NULL;
    CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
    if (argc == 5 &&
        pk_server_credentials_new(
            &credentials, PK_SERVER_CREDENTIALS(.certificate.file = argv[1], .key.file = argv[2]),
            NULL) < 0)
        return 2;
    const char *address = argv[argc - 1];
    if ((argc != 3 && argc != 5) || pk_loop_new(&loop, NULL) < 0 ||
        pk_server_new(&server, loop, NULL) < 0 ||
        helloworld_greeter_serve(server, &greeter, NULL) < 0 ||
        (credentials ? pk_server_listen_tls(server, address, credentials, &bound)
                     : pk_server_listen(server, address, &bound)) < 0) {
        fprintf(stderr, "usage: counting-server [CERTIFICATE KEY] --listen ADDRESS\n");
        return 2;
    }
    ev_signal term;
    ev_signal_init(&term, on_term, SIGTERM);
    term.data = server;
    ev_signal_start(pk_loop_ev(loop), &term);
    printf("counting-server: listening on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    pk_server_free(server);
    pk_loop_free(loop);
    pk_server_credentials_unref(credentials);
    return 0;
}
