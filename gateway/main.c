/*
 * pekoe-gateway: the main thread. It reads the configuration, starts the workers, and then waits
 * for signals: SIGHUP reads the configuration again, SIGTERM and SIGINT end gracefully, a second
 * one of them at once.
 */
#include "gateway/credentials.h"
#include "gateway/static_files.h"
#include "gateway/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 256u
#define EX_CONFIGURATION 2

typedef struct program {
    char *const *arguments;
    gateway_config *config;
    gateway_config *first; /* that it has started with: its fixed keys are in force */
    gateway_shared shared;
    gateway_worker *workers[WORKERS_MAX];
    unsigned count;
} program;

static void say(const char *text)
{
    fprintf(stderr, "pekoe-gateway: %s\n", text);
}

/* What a configuration names has to be there: certificates are read, files looked for. */
static int look_at_named(gateway_config *config, gateway_error *ret_error)
{
    if (config->static_dir && gateway_static_check(config->static_dir) < 0) {
        snprintf(ret_error->text, sizeof ret_error->text, "static %.300s: %s", config->static_dir,
                 strerror(errno));
        return PK_ERR_SYSTEM;
    }
    return gateway_credentials_open(config, ret_error);
}

static void cannot_log(gateway_error *ret_error, const gateway_config *config)
{
    snprintf(ret_error->text, sizeof ret_error->text, "access-log %.300s: %s", config->access_log,
             strerror(errno));
}

/* ---- Signals ---- */

static void signals_of_ours(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

static void reload(program *gateway)
{
    gateway_error error;
    gateway_config *config;
    int r = gateway_config_load(&config, gateway->arguments, environ, &error);
    const char *fixed = r == 0 ? gateway_config_fixed_change(gateway->first, config) : NULL;
    if (r == 0) {
        /* It is fixed, but upstreams' channels are made anew with it. */
        config->message_limit = gateway->first->message_limit;
        r = look_at_named(config, &error);
        if (r < 0)
            gateway_config_unref(config);
    }
    if (r == 0 && gateway_access_log_reopen(&gateway->shared.log, config->access_log) < 0) {
        cannot_log(&error, config);
        gateway_config_unref(config);
        r = PK_ERR_SYSTEM;
    }
    gateway_metrics_reloaded(gateway->shared.metrics, r == 0);
    if (r < 0) {
        say(error.text);
        say("the configuration stays as it was");
        return;
    }
    if (fixed)
        fprintf(stderr, "pekoe-gateway: %s has changed, which needs a restart\n", fixed);
    for (unsigned i = 0; i < gateway->count; i++)
        if (!gateway_worker_reload(gateway->workers[i], config))
            say("a thread keeps its configuration: it has ended, or memory has");
    gateway_config_unref(gateway->config);
    gateway->config = config;
    say("the configuration was read again");
}

static bool all_ended(const program *gateway)
{
    for (unsigned i = 0; i < gateway->count; i++)
        if (!gateway_worker_has_ended(gateway->workers[i]))
            return false;
    return true;
}

static void stop_all(program *gateway, uint64_t drain_ms)
{
    for (unsigned i = 0; i < gateway->count; i++)
        if (!gateway_worker_stop(gateway->workers[i], drain_ms) &&
            !gateway_worker_has_ended(gateway->workers[i]))
            say("a thread was not told to end: ask again");
}

static void serve(program *gateway)
{
    static const struct timespec pause = {.tv_nsec = 50000000};
    sigset_t set;
    bool stopping = false;
    signals_of_ours(&set);
    while (!stopping || !all_ended(gateway)) {
        int number = stopping ? sigtimedwait(&set, NULL, &pause) : sigwaitinfo(&set, NULL);
        if (number == SIGHUP && !stopping) {
            reload(gateway);
        } else if (number == SIGTERM || number == SIGINT) {
            stop_all(gateway, stopping ? 0 : gateway->config->drain_timeout_ms);
            stopping = true;
        }
    }
}

/* ---- The program ---- */

static bool start(program *gateway)
{
    gateway_error error = {.text = ""};
    gateway->shared.metrics = gateway_metrics_new();
    if (!gateway->shared.metrics) {
        say("out of memory");
        return false;
    }
    if (gateway_access_log_open(&gateway->shared.log, gateway->config->access_log) < 0) {
        cannot_log(&error, gateway->config);
        say(error.text);
        return false;
    }
    for (unsigned i = 0; i < gateway->config->threads; i++) {
        gateway_worker *worker = gateway_worker_start(i, i > 0 ? gateway->workers[0] : NULL,
                                                      gateway->config, &gateway->shared, &error);
        if (!worker) {
            say(error.text);
            stop_all(gateway, 0);
            return false;
        }
        gateway->workers[gateway->count++] = worker;
    }
    gateway_worker_print_addresses(gateway->workers[0], stdout);
    return true;
}

static int run(program *gateway)
{
    bool started = start(gateway);
    if (started)
        serve(gateway);
    /* The first one's addresses are looked at by the others. */
    for (unsigned i = gateway->count; i > 0; i--)
        gateway_worker_join(gateway->workers[i - 1]);
    gateway_access_log_close(&gateway->shared.log);
    gateway_metrics_free(gateway->shared.metrics);
    return started ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static program gateway = {.shared = {.log = {.fd = -1}}};
    gateway_error error;
    sigset_t set;
    gateway.arguments = argc > 0 ? argv + 1 : argv;
    if (gateway_config_load(&gateway.config, gateway.arguments, environ, &error) < 0) {
        say(error.text);
        return EX_CONFIGURATION;
    }
    bool serves = !gateway.config->help && !gateway.config->version;
    int r = serves ? look_at_named(gateway.config, &error) : 0;
    if (r == 0 && gateway.config->check) {
        r = gateway_access_log_check(gateway.config->access_log);
        if (r < 0)
            cannot_log(&error, gateway.config);
    }
    if (r < 0) {
        say(error.text);
        gateway_config_unref(gateway.config);
        return EX_CONFIGURATION;
    }
    int result = EXIT_SUCCESS;
    if (gateway.config->help) {
        gateway_config_print_help(stdout);
    } else if (gateway.config->version) {
        puts("pekoe-gateway " PEKOE_VERSION);
    } else if (gateway.config->check) {
        puts("the configuration is right");
    } else {
        signals_of_ours(&set);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        signal(SIGPIPE, SIG_IGN);
        gateway.first = gateway_config_ref(gateway.config);
        result = run(&gateway);
    }
    gateway_config_unref(gateway.first);
    gateway_config_unref(gateway.config);
    return result;
}
