/*
 * One thread of the gateway: see worker.h. `run` at the end is its whole life.
 */
#include "gateway/worker.h"

#include "gateway/admin.h"
#include "gateway/setup.h"
#include "gateway/static_files.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 500u /* between two looks at what waits to be written or freed */

struct gateway_worker {
    unsigned number;
    const gateway_worker *first; /* NULL: this is it */
    gateway_shared *shared;
    gateway_config *config; /* that it starts with, until it has */
    pthread_t thread;
    sem_t started;
    gateway_error error; /* why it has not started; empty: it has */
    atomic_bool ended;
    pthread_mutex_t lock; /* of `loop` where orders are given: it goes when the thread ends */
    pk_loop *loop;        /* NULL: it is not there yet, or any more */
    /* From here on its own thread's. */
    pk_server *server, *files, *admin; /* the last two may be NULL */
    gateway_list bound, bound_tls;     /* where the main one listens */
    char *files_bound, *admin_bound;
    gateway_setup *setup;
    gateway_setup *old_setups; /* out of use, to be freed */
    pk_cors_opts cors;
    gateway_log_buffer lines;
    bool files_elsewhere; /* static files have an address of their own, maybe another thread's */
    bool draining;
};

/* ---- Calls ---- */

/* A call, from its head to its end; in the call. */
typedef struct visit {
    gateway_worker *worker;
    gateway_setup *setup;
    gateway_route_metrics *metrics; /* of its route */
    pk_call *call;
    const char *peer;
    gateway_tally tally;
    uint64_t start;
    pk_slice agent, trace;
} visit;

/* The last user of a setup that is out of use has gone. */
static void leave_setup(gateway_worker *worker, gateway_setup *setup)
{
    if (--setup->users > 0)
        return;
    setup->next = worker->old_setups; /* a channel of it may be on the stack */
    worker->old_setups = setup;
}

static void call_ended(void *arg)
{
    visit *v = arg;
    gateway_worker *worker = v->worker;
    uint64_t took = pk_loop_now(worker->loop) - v->start;
    const char *protocol = pk_call_protocol(v->call);
    gateway_metrics_ended(v->metrics, protocol, &v->tally, took);
    const gateway_config *config = v->setup->config;
    if (config->access_log) {
        gateway_log_entry entry = {.peer = v->peer,
                                   .protocol = protocol,
                                   .method = pk_call_method(v->call),
                                   .agent = v->agent,
                                   .trace = v->trace,
                                   .tally = &v->tally,
                                   .nanoseconds = took};
        gateway_access_log_add(&worker->lines, config->access_log_format, &entry);
    }
    leave_setup(worker, v->setup);
}

static pk_slice keep(pk_call *call, pk_slice value)
{
    if (value.length == 0)
        return (pk_slice){NULL, 0};
    return (pk_slice){(const uint8_t *) pk_call_copy(call, value.bytes, value.length),
                      value.length};
}

/* What a log says of a call, before its head goes. */
static void note(visit *v)
{
    const pk_metadata *metadata = pk_call_metadata(v->call);
    pk_slice agent = pk_metadata_get(metadata, "x-user-agent");
    if (agent.length == 0)
        agent = pk_metadata_get(metadata, "user-agent");
    v->agent = keep(v->call, agent);
    v->trace = keep(v->call, pk_metadata_get(metadata, "traceparent"));
    const char *peer = pk_call_peer(v->call);
    v->peer = pk_call_copy(v->call, peer, strlen(peer));
}

static pk_future handle_call(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    gateway_worker *worker = self;
    visit *v = pk_call_new(call, visit, .worker = worker, .setup = worker->setup, .call = call,
                           .start = pk_loop_now(worker->loop));
    gateway_route *route = gateway_setup_route(worker->setup, pk_call_method(call));
    v->metrics = route ? route->metrics : v->setup->strays;
    if (worker->setup->config->access_log)
        note(v);
    if (pk_call_on_end(call, call_ended, v) < 0)
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "out of memory");
    v->setup->users++;
    gateway_metrics_started(v->metrics);
    if (!route) {
        v->tally.code = PK_UNIMPLEMENTED;
        return pk_failed(call, PK_UNIMPLEMENTED, "no upstream for %.200s", pk_call_method(call));
    }
    return gateway_forward(&v->setup->rules, gateway_route_channel(route), call, in, out,
                           &v->tally);
}

static void handle_file(void *self, pk_http *http)
{
    gateway_worker *worker = self;
    const char *folder = worker->setup->config->static_dir;
    if (folder)
        gateway_static_serve(folder, http);
}

static void handle_admin(void *self, pk_http *http)
{
    gateway_worker *worker = self;
    gateway_admin_serve(worker->shared->metrics, worker->draining, http);
}

/* ---- A configuration ---- */

/* Has calls from now on go by this setup. */
static int use_setup(gateway_worker *worker, gateway_setup *setup)
{
    const gateway_config *config = setup->config;
    pk_router *router = pk_server_router(worker->server);
    worker->cors = (pk_cors_opts){
        .size = sizeof worker->cors,
        .origins = (const char *const *) config->cors_origins.items,
        .credentials = config->cors_credentials,
        .exposed = (const char *const *) config->cors_expose.items,
        .max_age_s = config->cors_max_age_ms / 1000 + (config->cors_max_age_ms % 1000 > 0),
    };
    int r = 0;
    /* Without addresses with TLS a configuration has no certificates: theirs stay. */
    if (worker->bound_tls.count > 0 && config->credentials)
        r = pk_server_set_credentials(worker->server, NULL, config->credentials);
    /* The last that can fail: the rules are the configuration's, which must not go from under them. */
    if (r == 0)
        r = pk_router_set_cors(router, config->cors_origins.count > 0 ? &worker->cors : NULL);
    if (r < 0)
        return r;
    bool has_files = config->static_dir && !worker->files_elsewhere;
    pk_router_set_http(router, has_files ? handle_file : NULL, worker);
    if (worker->setup)
        leave_setup(worker, worker->setup);
    worker->setup = setup;
    return 0;
}

static void free_old_setups(gateway_worker *worker)
{
    while (worker->old_setups) {
        gateway_setup *setup = worker->old_setups;
        worker->old_setups = setup->next;
        gateway_setup_free(setup);
    }
}

static pk_future tick(const void *unused, void *arg)
{
    gateway_worker *worker = arg;
    gateway_access_log_flush(&worker->lines);
    free_old_setups(worker);
    return pk_then(pk_sleep(pk_loop_scope(worker->loop), TICK_MS), tick, worker);
}

/*
 * ---- Orders of the main thread ----
 *
 * One that comes while the thread ends is still taken, and run when the loop is freed: it finds no
 * server, and has nothing to do.
 */

typedef struct order {
    gateway_worker *worker;
    gateway_config *config; /* a reference */
    uint64_t drain_ms;
} order;

static order *new_order(gateway_worker *worker)
{
    order *made = calloc(1, sizeof *made);
    if (made)
        made->worker = worker;
    return made;
}

/* Has the worker's thread run fn(given). False: it has ended, or there is no memory. */
static bool give(gateway_worker *worker, void (*fn)(void *given), order *given)
{
    pthread_mutex_lock(&worker->lock);
    bool taken = worker->loop && pk_loop_post(worker->loop, fn, given) == 0;
    pthread_mutex_unlock(&worker->lock);
    return taken;
}

static void use_new(gateway_worker *worker, gateway_config *config)
{
    const char *wrong = NULL;
    gateway_setup *setup =
        gateway_setup_new(config, worker->setup, worker->loop, worker->shared->metrics, &wrong);
    if (setup && use_setup(worker, setup) < 0) {
        gateway_setup_free(setup);
        wrong = "the rules for other origins cannot be used";
    }
    if (wrong)
        fprintf(stderr, "pekoe-gateway: thread %u keeps its configuration: %s\n", worker->number,
                wrong);
}

static void reload(void *arg)
{
    order *given = arg;
    if (given->worker->server)
        use_new(given->worker, given->config);
    gateway_config_unref(given->config);
    free(given);
}

bool gateway_worker_reload(gateway_worker *worker, gateway_config *config)
{
    order *given = new_order(worker);
    if (!given)
        return false;
    given->config = gateway_config_ref(config);
    if (give(worker, reload, given))
        return true;
    gateway_config_unref(config);
    free(given);
    return false;
}

static void everything_ended(void *arg)
{
    pk_loop_stop(((gateway_worker *) arg)->loop);
}

static pk_future stop_admin(const void *unused, void *arg)
{
    gateway_worker *worker = arg;
    return worker->admin ? pk_server_stop(worker->admin, 0) : pk_done(NULL);
}

/* The admin address is the last to go, so that its health check can say that the others do. */
static void stop_servers(gateway_worker *worker, uint64_t drain_ms)
{
    worker->draining = true;
    pk_future ends[2];
    size_t count = 0;
    ends[count++] = pk_server_stop(worker->server, drain_ms);
    if (worker->files)
        ends[count++] = pk_server_stop(worker->files, drain_ms);
    pk_future all = pk_all(pk_loop_scope(worker->loop), ends, count);
    pk_detach(pk_finally(pk_then(all, stop_admin, worker), everything_ended, worker));
}

static void stop(void *arg)
{
    order *given = arg;
    if (given->worker->server)
        stop_servers(given->worker, given->drain_ms);
    free(given);
}

bool gateway_worker_stop(gateway_worker *worker, uint64_t drain_ms)
{
    order *given = new_order(worker);
    if (!given)
        return false;
    given->drain_ms = drain_ms;
    if (give(worker, stop, given))
        return true;
    free(given);
    return false;
}

/* ---- Listening ---- */

static const char *reason_of(int r)
{
    return r == PK_ERR_EXISTS   ? "the address is in use"
           : r == PK_ERR_SYSTEM ? strerror(errno)
                                : pk_error_text(r);
}

/* `credentials` NULL: without TLS. */
static int listen_on(gateway_worker *worker, pk_server *server, const char *address,
                     pk_server_credentials *credentials, const char **ret_bound)
{
    int r = credentials ? pk_server_listen_tls(server, address, credentials, ret_bound)
                        : pk_server_listen(server, address, ret_bound);
    if (r < 0)
        snprintf(worker->error.text, sizeof worker->error.text, "cannot listen on %.200s: %s",
                 address, reason_of(r));
    return r;
}

/* Has the main server listen on all of them. */
static int listen_all(gateway_worker *worker, const gateway_list *addresses,
                      pk_server_credentials *credentials, gateway_list *bound_list)
{
    for (size_t i = 0; i < addresses->count; i++) {
        const char *bound, *address = addresses->items[i];
        if (worker->first && strncmp(address, "unix:", 5) == 0)
            continue; /* it cannot be shared */
        int r = listen_on(worker, worker->server, address, credentials, &bound);
        if (r < 0)
            return r;
        if (!gateway_list_add(bound_list, bound))
            return PK_ERR_NOMEM;
    }
    return 0;
}

/* A server beside the main one, for plain HTTP. */
static int open_plain(gateway_worker *worker, const char *address, pk_http_handler *handler,
                      pk_server **ret_server, char **ret_bound)
{
    const char *bound;
    int r = pk_server_new(ret_server, worker->loop, PK_SERVER_OPTS(.idle_timeout_ms = 60000));
    if (r < 0)
        return r;
    pk_router_set_http(pk_server_router(*ret_server), handler, worker);
    r = listen_on(worker, *ret_server, address, NULL, &bound);
    if (r == 0)
        *ret_bound = strdup(bound);
    return r;
}

static int open_servers(gateway_worker *worker, const gateway_config *config)
{
    const pk_server_opts *opts =
        PK_SERVER_OPTS(.calls =
                           PK_ROUTER_OPTS(.receive_limit = config->message_limit, .grpc_web = true),
                       .reuse_port = config->threads > 1,
                       .max_connections = config->max_connections,
                       .max_streams = config->max_streams,
                       .header_bytes = (uint32_t) config->header_limit,
                       .idle_timeout_ms = config->idle_timeout_ms,
                       .header_timeout_ms = config->header_timeout_ms,
                       .body_timeout_ms = config->body_timeout_ms,
                       .stall_timeout_ms = config->stall_timeout_ms);
    int r = pk_server_new(&worker->server, worker->loop, opts);
    if (r < 0)
        return r;
    pk_router_set_raw(pk_server_router(worker->server), handle_call, worker);
    worker->files_elsewhere = config->static_listen != NULL;
    /* As configured for the first thread, as that has bound them for the others. */
    const gateway_worker *first = worker->first;
    r = listen_all(worker, first ? &first->bound : &config->listen, NULL, &worker->bound);
    if (r == 0)
        r = listen_all(worker, first ? &first->bound_tls : &config->listen_tls, config->credentials,
                       &worker->bound_tls);
    if (r == 0 && !worker->first && config->static_listen)
        r = open_plain(worker, config->static_listen, handle_file, &worker->files,
                       &worker->files_bound);
    if (r == 0 && !worker->first && config->admin)
        r = open_plain(worker, config->admin, handle_admin, &worker->admin, &worker->admin_bound);
    return r;
}

void gateway_worker_print_addresses(const gateway_worker *worker, FILE *to)
{
    for (size_t i = 0; i < worker->bound.count; i++)
        fprintf(to, "listening on %s\n", worker->bound.items[i]);
    for (size_t i = 0; i < worker->bound_tls.count; i++)
        fprintf(to, "listening with TLS on %s\n", worker->bound_tls.items[i]);
    if (worker->files_bound)
        fprintf(to, "files on %s\n", worker->files_bound);
    if (worker->admin_bound)
        fprintf(to, "admin on %s\n", worker->admin_bound);
    fflush(to);
}

/* ---- Life ---- */

static void log_line(void *context, pk_log_level level, const char *text)
{
    fprintf(stderr, "pekoe-gateway: %s\n", text);
}

static int open_all(gateway_worker *worker)
{
    const char *wrong = NULL;
    int r = pk_loop_new(&worker->loop, PK_LOOP_OPTS(.log = log_line, .log_level = PK_LOG_WARNING));
    if (r < 0)
        return r;
    gateway_setup *setup =
        gateway_setup_new(worker->config, NULL, worker->loop, worker->shared->metrics, &wrong);
    if (!setup) {
        snprintf(worker->error.text, sizeof worker->error.text, "%s", wrong);
        return PK_ERR_INVALID;
    }
    r = open_servers(worker, worker->config);
    if (r == 0)
        r = use_setup(worker, setup);
    if (r < 0)
        gateway_setup_free(setup);
    return r;
}

static void close_all(gateway_worker *worker)
{
    worker->server = pk_server_free(worker->server);
    worker->files = pk_server_free(worker->files);
    worker->admin = pk_server_free(worker->admin);
    if (worker->setup)
        leave_setup(worker, worker->setup);
    free_old_setups(worker);
    pthread_mutex_lock(&worker->lock);
    pk_loop *loop = pk_steal(&worker->loop);
    pthread_mutex_unlock(&worker->lock);
    pk_loop_free(loop);
    gateway_access_log_flush(&worker->lines);
}

static void *run(void *arg)
{
    gateway_worker *worker = arg;
    int r = open_all(worker);
    if (r < 0 && !worker->error.text[0])
        snprintf(worker->error.text, sizeof worker->error.text, "%s", pk_error_text(r));
    worker->config = gateway_config_unref(worker->config);
    sem_post(&worker->started);
    if (r == 0) {
        pk_detach(tick(NULL, worker));
        pk_loop_run(worker->loop);
    }
    close_all(worker);
    atomic_store(&worker->ended, true);
    return NULL;
}

gateway_worker *gateway_worker_start(unsigned number, const gateway_worker *first,
                                     gateway_config *config, gateway_shared *shared,
                                     gateway_error *ret_error)
{
    gateway_worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        snprintf(ret_error->text, sizeof ret_error->text, "out of memory");
        return NULL;
    }
    worker->number = number;
    worker->first = first;
    worker->shared = shared;
    worker->config = gateway_config_ref(config);
    worker->lines.log = &shared->log;
    sem_init(&worker->started, 0, 0);
    pthread_mutex_init(&worker->lock, NULL);
    int error = pthread_create(&worker->thread, NULL, run, worker);
    if (error != 0) {
        snprintf(ret_error->text, sizeof ret_error->text, "no thread: %s", strerror(error));
        gateway_config_unref(config);
        sem_destroy(&worker->started);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
    }
    while (sem_wait(&worker->started) < 0)
        continue;
    if (!worker->error.text[0])
        return worker;
    *ret_error = worker->error;
    return gateway_worker_join(worker);
}

bool gateway_worker_has_ended(const gateway_worker *worker)
{
    return atomic_load(&worker->ended);
}

gateway_worker *gateway_worker_join(gateway_worker *worker)
{
    if (!worker)
        return NULL;
    pthread_join(worker->thread, NULL);
    sem_destroy(&worker->started);
    pthread_mutex_destroy(&worker->lock);
    gateway_list_done(&worker->bound);
    gateway_list_done(&worker->bound_tls);
    free(worker->files_bound);
    free(worker->admin_bound);
    free(worker);
    return NULL;
}
