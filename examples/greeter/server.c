/*
 * The greeter: one rpc of each style, served on one or several threads.
 *
 *     greeter-server --listen 127.0.0.1:50051 [--threads N]
 *                    [--tls-cert FILE --tls-key FILE [--tls-client-ca FILE]]
 *
 * Every thread has a loop and a server of its own; they share nothing but the port. SIGTERM and
 * SIGINT stop gracefully.
 */
#include <pekoe/health.h>
#include <pekoe/pekoe.h>
#include <pekoe/reflection.h>

#include "helloworld.pekoe.h"

#include <ev.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 10000 /* how long calls in flight may take after a signal */
#define MAX_THREADS 64

/* ---- The service ---- */

/* The value is at hand, so the future is born done. */
static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    if (request->name[0] == '\0')
        return pk_failed(call, PK_INVALID_ARGUMENT, "name is empty");
    Helloworld__HelloReply *reply =
        helloworld_hello_reply_new(call); /* lives as long as the call */
    reply->message = pk_call_printf(call, "Hello, %s", request->name);
    return helloworld_hello_reply_done(reply);
}

/* One client-streaming call; lives in the call. */
struct crowd {
    pk_call *call;
    pk_reader *in;
    char *text; /* "Hello, A, B" */
    size_t length, capacity;
};

#define CROWD_MAX (1u << 20) /* bytes of names that are gathered for one reply */

static void add_name(struct crowd *crowd, const char *name)
{
    size_t added = strlen(name) + 2;
    if (crowd->length + added >= crowd->capacity) {
        crowd->capacity = 2 * (crowd->length + added);
        char *longer = pk_call_alloc(crowd->call, crowd->capacity);
        memcpy(longer, crowd->text, crowd->length);
        crowd->text = longer;
    }
    memcpy(crowd->text + crowd->length, ", ", 2);
    memcpy(crowd->text + crowd->length + 2, name, added - 2);
    crowd->length += added;
}

/* A read gives a message, borrowed until the next read, or NULL at the end of the stream. */
static pk_future gather(const void *value, void *arg)
{
    struct crowd *crowd = arg;
    const Helloworld__HelloRequest *request = value;
    if (request) {
        if (crowd->length + strlen(request->name) > CROWD_MAX)
            return pk_failed(crowd->call, PK_RESOURCE_EXHAUSTED, "too many names");
        add_name(crowd, request->name);
        return pk_then(pk_reader_read(crowd->in), gather, crowd);
    }
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(crowd->call);
    reply->message = crowd->text;
    return helloworld_hello_reply_done(reply);
}

static pk_future it_keeps_talking(void *self, pk_call *call, pk_reader *in)
{
    struct crowd *crowd = pk_call_new(call, struct crowd, .call = call, .in = in);
    crowd->text = pk_call_copy(call, "Hello", 5);
    crowd->length = 5;
    crowd->capacity = 6;
    return pk_then(pk_reader_read(in), gather, crowd);
}

/* One server-streaming call. */
struct letters {
    pk_call *call;
    pk_writer *out;
    const char *left;  /* of the name */
    uint64_t pause_ms; /* between letters, for callers that like to watch: metadata pause-ms */
};

/* The bytes of the first letter of a text in UTF-8. */
static int letter_length(const char *text)
{
    int length = 1;
    while (((unsigned char) text[length] & 0xc0) == 0x80)
        length++;
    return length;
}

static pk_future pause_letters(const void *unused, void *arg)
{
    const struct letters *letters = arg;
    return pk_sleep(pk_call_scope(letters->call), letters->pause_ms);
}

/* Writes while there is room; where there is none, comes back when there is. */
static pk_future greet_letter(const void *unused, void *arg)
{
    struct letters *letters = arg;
    if (letters->left[0] == '\0')
        return pk_done(NULL); /* ends the stream with OK */
    int length = letter_length(letters->left);
    char text[16];
    snprintf(text, sizeof text, "Hello, %.*s", length, letters->left);
    letters->left += length;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT; /* encoded before write returns */
    reply.message = text;
    pk_future written = helloworld_hello_reply_write(letters->out, &reply);
    if (letters->pause_ms > 0)
        written = pk_then(written, pause_letters, letters);
    return pk_then(written, greet_letter, letters);
}

static pk_future it_keeps_replying(void *self, pk_call *call,
                                   const Helloworld__HelloRequest *request, pk_writer *out)
{
    pk_slice pause = pk_metadata_get(pk_call_metadata(call), "pause-ms");
    struct letters *letters =
        pk_call_new(call, struct letters, .call = call, .out = out, .left = request->name);
    if (pause.bytes)
        letters->pause_ms = strtoul(pk_call_copy(call, pause.bytes, pause.length), NULL, 10);
    return greet_letter(NULL, letters);
}

/* One bidirectional call. */
struct chat {
    pk_reader *in;
    pk_writer *out;
};

/* The loop below reads on when this future is done: when there is room for a further reply. */
static pk_future greet_name(const void *value, void *arg)
{
    struct chat *chat = arg;
    const Helloworld__HelloRequest *request = value;
    Helloworld__HelloReply reply = HELLOWORLD__HELLO_REPLY__INIT;
    reply.message =
        pk_reader_printf(chat->in, "Hello, %s", request->name); /* until the next read */
    return helloworld_hello_reply_write(chat->out, &reply);
}

static pk_future stream_hellos(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    return pk_reader_each(in, greet_name, pk_call_new(call, struct chat, in, out));
}

static const helloworld_greeter_impl greeter = {
    /* A member that is NULL answers UNIMPLEMENTED. */
    .say_hello = say_hello,
    .it_keeps_talking = it_keeps_talking,
    .it_keeps_replying = it_keeps_replying,
    .stream_hellos = stream_hellos,
};

/* ---- The program ---- */

/* One thread's loop and server. A loop is made by the thread that runs it. */
struct worker {
    pthread_t thread;
    const char *address;
    bool reuse_port;
    pk_server_credentials *credentials; /* all workers' ones; NULL: without TLS */
    pthread_barrier_t *opened;          /* all workers meet here before one serves */
    pk_loop *loop;
    pk_server *server;
    pk_health *health;         /* answers load balancers */
    pk_reflection *reflection; /* answers tools, such as `buf curl` */
    int error;
};

static void stop_worker(void *arg)
{
    struct worker *worker = arg;
    pk_health_stop(worker->health);
    pk_detach(pk_server_stop(worker->server, DRAIN_MS));
}

static void open_worker(struct worker *worker, const char **ret_bound)
{
    int r = pk_loop_new(&worker->loop, NULL);
    if (r == 0)
        r = pk_server_new(&worker->server, worker->loop,
                          PK_SERVER_OPTS(.reuse_port = worker->reuse_port));
    if (r == 0)
        r = helloworld_greeter_serve(worker->server, &greeter, NULL);
    if (r == 0)
        r = pk_health_new(&worker->health, worker->loop);
    if (r == 0)
        r = pk_health_route(worker->health, pk_server_router(worker->server));
    if (r == 0)
        r = pk_reflection_new(&worker->reflection, worker->loop, pk_server_router(worker->server));
    if (r == 0 && worker->credentials)
        r = pk_server_listen_tls(worker->server, worker->address, worker->credentials, ret_bound);
    else if (r == 0)
        r = pk_server_listen(worker->server, worker->address, ret_bound);
    if (r < 0)
        fprintf(stderr, "greeter-server: cannot listen on %s: %s\n", worker->address,
                r == PK_ERR_SYSTEM ? strerror(errno) : pk_error_text(r));
    worker->error = r;
}

static void close_worker(struct worker *worker)
{
    pk_server_free(worker->server);
    pk_health_free(worker->health);
    pk_reflection_free(worker->reflection);
    pk_loop_free(worker->loop);
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    open_worker(worker, NULL);
    pthread_barrier_wait(worker->opened);
    if (worker->error == 0)
        pk_loop_run(worker->loop); /* until the stopped server's last connection has ended */
    close_worker(worker);
    return NULL;
}

struct signals {
    ev_signal term, interrupt;
    struct worker *workers;
    unsigned count;
};

static void on_signal(struct ev_loop *ev, ev_signal *watcher, int events)
{
    struct signals *signals = watcher->data;
    for (unsigned i = 0; i < signals->count; i++) {
        if (pk_loop_post(signals->workers[i].loop, stop_worker, &signals->workers[i]) < 0)
            fprintf(stderr, "greeter-server: one thread cannot be told to stop\n");
    }
    ev_signal_stop(ev, &signals->term);
    ev_signal_stop(ev, &signals->interrupt);
}

static void catch_signals(struct signals *signals, struct ev_loop *ev)
{
    ev_signal_init(&signals->term, on_signal, SIGTERM);
    ev_signal_init(&signals->interrupt, on_signal, SIGINT);
    signals->term.data = signals->interrupt.data = signals;
    ev_signal_start(ev, &signals->term);
    ev_signal_start(ev, &signals->interrupt);
}

/* Worker 0 is the main thread; it learns the port before the others listen on it. */
static int serve(struct worker *workers, unsigned count, const char *address,
                 pk_server_credentials *credentials)
{
    const char *bound = NULL;
    pthread_barrier_t opened;
    workers[0].address = address;
    workers[0].reuse_port = count > 1;
    workers[0].credentials = credentials;
    open_worker(&workers[0], &bound);
    int error = workers[0].error;
    if (error == 0) {
        pthread_barrier_init(&opened, NULL, count);
        for (unsigned i = 1; i < count; i++) {
            workers[i] = (struct worker){.address = bound,
                                         .reuse_port = true,
                                         .credentials = credentials,
                                         .opened = &opened};
            if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
                perror("greeter-server: pthread_create");
                exit(1);
            }
        }
        pthread_barrier_wait(&opened);
        for (unsigned i = 1; i < count; i++)
            error = error ? error : workers[i].error;
    }
    if (error == 0) {
        struct signals signals = {.workers = workers, .count = count};
        catch_signals(&signals, pk_loop_ev(workers[0].loop));
        printf("greeter-server: listening on %s with %u thread%s\n", bound, count,
               count == 1 ? "" : "s");
        fflush(stdout);
        pk_loop_run(workers[0].loop);
        for (unsigned i = 1; i < count; i++)
            pthread_join(workers[i].thread, NULL);
    }
    close_worker(&workers[0]);
    return error == 0 ? 0 : 1;
}

static const char usage[] =
    "usage: greeter-server --listen ADDRESS [--threads N]\n"
    "                      [--tls-cert FILE --tls-key FILE [--tls-client-ca FILE]]\n"
    "  ADDRESS  127.0.0.1:50051, [::1]:50051 or unix:/path; port 0 lets the system choose\n"
    "  N        1 to 64 threads, each with a loop of its own (TCP only); default 1\n"
    "  FILE     PEM: the certificate and those that issued it; its key; who may issue\n"
    "           certificates of clients, which are demanded then\n";

/* 0, or the program's exit code. */
static int load(pk_server_credentials **ret_credentials, const char *certificate, const char *key,
                const char *client_ca)
{
    char problem[PK_TLS_PROBLEM];
    int r = pk_server_credentials_new(
        ret_credentials,
        PK_SERVER_CREDENTIALS(.certificate.file = certificate, .key.file = key,
                              .client_ca.file = client_ca,
                              .client_certificates = client_ca ? PK_CLIENT_CERTIFICATES_REQUIRED
                                                               : PK_CLIENT_CERTIFICATES_NONE),
        problem);
    if (r < 0)
        fprintf(stderr, "greeter-server: %s\n", problem);
    return r < 0;
}

int main(int argc, char **argv)
{
    const char *address = NULL, *certificate = NULL, *key = NULL, *client_ca = NULL;
    long threads = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (i + 1 < argc && strcmp(argv[i], "--listen") == 0) {
            address = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--threads") == 0) {
            threads = strtol(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--tls-cert") == 0) {
            certificate = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--tls-key") == 0) {
            key = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--tls-client-ca") == 0) {
            client_ca = argv[++i];
        } else {
            fprintf(stderr, "greeter-server: what is %s?\n%s", argv[i], usage);
            return 2;
        }
    }
    if (!address || threads < 1 || threads > MAX_THREADS) {
        fputs(usage, stderr);
        return 2;
    }
    pk_server_credentials *credentials = NULL;
    if ((certificate || key || client_ca) && load(&credentials, certificate, key, client_ca) != 0)
        return 1;
    struct worker workers[MAX_THREADS] = {0};
    int failed = serve(workers, (unsigned) threads, address, credentials);
    pk_server_credentials_unref(credentials);
    return failed;
}
