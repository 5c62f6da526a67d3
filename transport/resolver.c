/* Names to addresses by c-ares: see resolver.h. */
#include "transport/resolver.h"

#include "core/loop.h"

#include <ares.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SOCKETS 16u       /* that c-ares may use at once */
#define ADDRESSES_MAX 64u /* further ones are not tried */
#define ADDRESS_LENGTH 64u
#define TRY_MS 2000 /* for one question to one server */
#define TRIES 3

struct ares_watch {
    pk_watch watch;
    pk_resolver *resolver;
    ares_socket_t fd; /* ARES_SOCKET_BAD: free */
};

struct pk_resolver {
    pk_loop *loop;
    ares_channel ares;
    struct ares_watch watches[SOCKETS];
    pk_timer timer; /* c-ares' own, or due at once when all is known */
    bool finished;
    int status; /* of c-ares */
    size_t count;
    char texts[ADDRESSES_MAX][ADDRESS_LENGTH];
    void (*done)(void *arg, const pk_resolved *result);
    void *arg;
};

/* ---- Time ---- */

/* Sets the timer to what is due next. */
static void arm(pk_resolver *resolver)
{
    struct timeval left;
    uint64_t time = 0;
    if (!resolver->finished) {
        if (!ares_timeout(resolver->ares, NULL, &left))
            return;
        time = (uint64_t) left.tv_sec * 1000000000u + (uint64_t) left.tv_usec * 1000u;
    }
    if (pk_timer_start(resolver->loop, &resolver->timer, time) < 0)
        pk_log(resolver->loop, PK_LOG_WARNING, "out of memory: a name is not resolved");
}

static void deliver(pk_resolver *resolver)
{
    const char *addresses[ADDRESSES_MAX];
    for (size_t i = 0; i < resolver->count; i++)
        addresses[i] = resolver->texts[i];
    const pk_resolved result = {
        .addresses = addresses,
        .count = resolver->count,
        .problem = resolver->status == ARES_SUCCESS ? "the name has no address"
                                                    : ares_strerror(resolver->status),
    };
    resolver->done(resolver->arg, &result);
    pk_resolver_cancel(resolver);
}

static void on_timer(pk_timer *timer)
{
    pk_resolver *resolver = (pk_resolver *) ((char *) timer - offsetof(pk_resolver, timer));
    if (resolver->finished) {
        deliver(resolver);
        return;
    }
    ares_process_fd(resolver->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    arm(resolver);
}

/* ---- Sockets ---- */

static void on_socket(pk_watch *watch, bool readable, bool writable)
{
    struct ares_watch *one =
        (struct ares_watch *) ((char *) watch - offsetof(struct ares_watch, watch));
    pk_resolver *resolver = one->resolver;
    ares_process_fd(resolver->ares, readable ? one->fd : ARES_SOCKET_BAD,
                    writable ? one->fd : ARES_SOCKET_BAD);
    arm(resolver);
}

static struct ares_watch *watch_of(pk_resolver *resolver, ares_socket_t fd)
{
    for (size_t i = 0; i < SOCKETS; i++) {
        if (resolver->watches[i].fd == fd)
            return &resolver->watches[i];
    }
    return NULL;
}

/* c-ares opens, closes and waits for sockets. Without a place its own time limit helps. */
static void socket_changed(void *data, ares_socket_t fd, int readable, int writable)
{
    pk_resolver *resolver = data;
    struct ares_watch *one = watch_of(resolver, fd);
    if (!one && (readable || writable)) {
        one = watch_of(resolver, ARES_SOCKET_BAD);
        if (!one)
            return;
        one->fd = fd;
        pk_watch_init(&one->watch, resolver->loop, fd, on_socket);
    }
    if (!one)
        return;
    pk_watch_set(&one->watch, readable != 0, writable != 0);
    if (!readable && !writable)
        one->fd = ARES_SOCKET_BAD;
}

/* ---- The answer ---- */

static void keep_address(pk_resolver *resolver, const struct ares_addrinfo_node *node)
{
    char host[INET6_ADDRSTRLEN];
    char *text = resolver->texts[resolver->count];
    if (resolver->count == ADDRESSES_MAX)
        return;
    if (node->ai_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *) node->ai_addr;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(text, ADDRESS_LENGTH, "%s:%u", host, ntohs(in->sin_port));
    } else if (node->ai_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *) node->ai_addr;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(text, ADDRESS_LENGTH, "[%s]:%u", host, ntohs(in->sin6_port));
    } else {
        return;
    }
    resolver->count++;
}

/* Only notes what came: the resolver must not go while c-ares is on the stack. */
static void answered(void *data, int status, int timeouts, struct ares_addrinfo *result)
{
    pk_resolver *resolver = data;
    resolver->finished = true;
    resolver->status = status;
    if (!result)
        return;
    for (const struct ares_addrinfo_node *node = result->nodes; node; node = node->ai_next)
        keep_address(resolver, node);
    ares_freeaddrinfo(result);
}

/* ---- Life ---- */

static void init_library(void)
{
    (void) ares_library_init(ARES_LIB_INIT_ALL);
}

/* 0 or PK_ERR_*. */
static int open_ares(pk_resolver *resolver, const char *servers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    struct ares_options options = {.timeout = TRY_MS,
                                   .tries = TRIES,
                                   .sock_state_cb = socket_changed,
                                   .sock_state_cb_data = resolver};
    if (ares_init_options(&resolver->ares, &options,
                          ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB) !=
        ARES_SUCCESS)
        return PK_ERR_NOMEM;
    if (!servers || ares_set_servers_ports_csv(resolver->ares, servers) == ARES_SUCCESS)
        return 0;
    ares_destroy(resolver->ares);
    return PK_ERR_INVALID;
}

int pk_resolver_start(pk_resolver **ret_resolver, pk_loop *loop, const char *address,
                      const char *servers, void (*done)(void *arg, const pk_resolved *result),
                      void *arg)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    if (!colon || (size_t) (colon - address) >= sizeof host)
        return PK_ERR_INVALID;
    memcpy(host, address, (size_t) (colon - address));
    host[colon - address] = '\0';
    pk_resolver *resolver = pk_memory_get(&loop->memory, sizeof *resolver);
    if (!resolver)
        return PK_ERR_NOMEM;
    memset(resolver, 0, sizeof *resolver);
    resolver->loop = loop;
    resolver->timer.fire = on_timer;
    resolver->done = done;
    resolver->arg = arg;
    for (size_t i = 0; i < SOCKETS; i++) {
        resolver->watches[i].resolver = resolver;
        resolver->watches[i].fd = ARES_SOCKET_BAD;
    }
    int r = open_ares(resolver, servers);
    if (r < 0) {
        pk_memory_put(&loop->memory, resolver, sizeof *resolver);
        return r;
    }
    const struct ares_addrinfo_hints hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = ARES_AI_NUMERICSERV};
    ares_getaddrinfo(resolver->ares, host, colon + 1, &hints, answered, resolver);
    arm(resolver);
    *ret_resolver = resolver;
    return 0;
}

pk_resolver *pk_resolver_cancel(pk_resolver *resolver)
{
    if (!resolver)
        return NULL;
    pk_timer_stop(resolver->loop, &resolver->timer);
    ares_destroy(resolver->ares); /* closes its sockets, which socket_changed hears */
    for (size_t i = 0; i < SOCKETS; i++) {
        if (resolver->watches[i].fd != ARES_SOCKET_BAD)
            pk_watch_set(&resolver->watches[i].watch, false, false);
    }
    pk_memory_put(&resolver->loop->memory, resolver, sizeof *resolver);
    return NULL;
}
