/* Counters and their text: see metrics.h. */
#include "gateway/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CODES 17u
#define PROTOCOLS 3u
#define BUCKETS 14u

typedef _Atomic uint64_t counter;

static const char *const protocols[PROTOCOLS] = {"grpc", "grpc-web", "grpc-web-text"};

/* Upper bounds in microseconds, and as they are written. */
static const struct {
    uint64_t microseconds;
    const char *text;
} buckets[BUCKETS] = {{1000, "0.001"},  {2500, "0.0025"}, {5000, "0.005"},  {10000, "0.01"},
                      {25000, "0.025"}, {50000, "0.05"},  {100000, "0.1"},  {250000, "0.25"},
                      {500000, "0.5"},  {1000000, "1"},   {2500000, "2.5"}, {5000000, "5"},
                      {10000000, "10"}, {30000000, "30"}};

struct gateway_route_metrics {
    gateway_route_metrics *next;
    counter started, ended, nanoseconds;
    counter calls[PROTOCOLS][CODES];
    counter within[BUCKETS]; /* each call in the first bucket that it fits */
    counter received_messages, received_bytes, sent_messages, sent_bytes;
    char name[]; /* escaped as a label's value */
};

struct gateway_metrics {
    pthread_mutex_t lock; /* of the list, not of the counters */
    gateway_route_metrics *routes;
    counter reloads, failed_reloads;
    time_t start;
};

gateway_metrics *gateway_metrics_new(void)
{
    gateway_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->start = time(NULL);
    return metrics;
}

gateway_metrics *gateway_metrics_free(gateway_metrics *metrics)
{
    while (metrics && metrics->routes) {
        gateway_route_metrics *route = metrics->routes;
        metrics->routes = route->next;
        free(route);
    }
    free(metrics);
    return NULL;
}

/* ---- Routes ---- */

static void escape(char *to, const char *from)
{
    for (; *from; from++) {
        if (*from == '\\' || *from == '"' || *from == '\n')
            *to++ = '\\';
        *to++ = *from == '\n' ? 'n' : *from;
    }
    *to = '\0';
}

static gateway_route_metrics *find(const gateway_metrics *metrics, const char *name)
{
    gateway_route_metrics *route = metrics->routes;
    while (route && strcmp(route->name, name) != 0)
        route = route->next;
    return route;
}

gateway_route_metrics *gateway_metrics_route(gateway_metrics *metrics, const char *route_name)
{
    gateway_route_metrics *made = calloc(1, sizeof *made + 2 * strlen(route_name) + 1);
    if (!made)
        return NULL;
    escape(made->name, route_name);
    pthread_mutex_lock(&metrics->lock);
    gateway_route_metrics *route = find(metrics, made->name);
    if (!route) {
        route = made;
        route->next = metrics->routes;
        metrics->routes = route;
    }
    pthread_mutex_unlock(&metrics->lock);
    if (route != made)
        free(made);
    return route;
}

/* ---- Counting ---- */

static void add(counter *to, uint64_t value)
{
    atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

static uint64_t get(counter *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void gateway_metrics_started(gateway_route_metrics *route)
{
    if (route)
        add(&route->started, 1);
}

void gateway_metrics_ended(gateway_route_metrics *route, const char *protocol,
                           const gateway_tally *tally, uint64_t nanoseconds)
{
    if (!route)
        return;
    size_t which = 0;
    while (which + 1 < PROTOCOLS && strcmp(protocols[which], protocol) != 0)
        which++;
    add(&route->calls[which][tally->code < CODES ? tally->code : PK_UNKNOWN], 1);
    for (size_t i = 0; i < BUCKETS; i++) {
        if (nanoseconds <= buckets[i].microseconds * 1000) {
            add(&route->within[i], 1);
            break;
        }
    }
    add(&route->nanoseconds, nanoseconds);
    add(&route->received_messages, tally->received_messages);
    add(&route->received_bytes, tally->received_bytes);
    add(&route->sent_messages, tally->sent_messages);
    add(&route->sent_bytes, tally->sent_bytes);
    add(&route->ended, 1);
}

void gateway_metrics_reloaded(gateway_metrics *metrics, bool well)
{
    add(well ? &metrics->reloads : &metrics->failed_reloads, 1);
}

/* ---- Text ---- */

#define NAME "pekoe_gateway_"

static void describe(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP " NAME "%s %s\n# TYPE " NAME "%s %s\n", name, help, name, type);
}

static unsigned long long number(counter *from)
{
    return get(from);
}

static void print_calls(FILE *to, gateway_route_metrics *routes)
{
    describe(to, "calls_total", "counter", "Calls that have ended.");
    for (gateway_route_metrics *route = routes; route; route = route->next)
        for (size_t i = 0; i < PROTOCOLS; i++)
            for (size_t code = 0; code < CODES; code++)
                if (number(&route->calls[i][code]) > 0)
                    fprintf(to, NAME "calls_total{route=\"%s\",protocol=\"%s\",code=\"%s\"} %llu\n",
                            route->name, protocols[i], pk_code_name((pk_code) code),
                            number(&route->calls[i][code]));
    describe(to, "calls_in_flight", "gauge", "Calls that go on.");
    for (gateway_route_metrics *route = routes; route; route = route->next) {
        unsigned long long ended = number(&route->ended), started = number(&route->started);
        fprintf(to, NAME "calls_in_flight{route=\"%s\"} %llu\n", route->name,
                started > ended ? started - ended : 0);
    }
}

static void print_durations(FILE *to, gateway_route_metrics *routes)
{
    describe(to, "call_duration_seconds", "histogram", "From the request's head to the status.");
    for (gateway_route_metrics *route = routes; route; route = route->next) {
        /* The total first: a call that ends meanwhile may only make it too small, not too large. */
        unsigned long long total = number(&route->ended), below = 0;
        for (size_t i = 0; i < BUCKETS; i++) {
            below += number(&route->within[i]);
            if (below > total)
                below = total;
            fprintf(to, NAME "call_duration_seconds_bucket{route=\"%s\",le=\"%s\"} %llu\n",
                    route->name, buckets[i].text, below);
        }
        fprintf(to, NAME "call_duration_seconds_bucket{route=\"%s\",le=\"+Inf\"} %llu\n",
                route->name, total);
        fprintf(to, NAME "call_duration_seconds_sum{route=\"%s\"} %.9f\n", route->name,
                (double) number(&route->nanoseconds) / 1e9);
        fprintf(to, NAME "call_duration_seconds_count{route=\"%s\"} %llu\n", route->name, total);
    }
}

static void print_traffic(FILE *to, gateway_route_metrics *routes)
{
    describe(to, "messages_total", "counter", "Messages of calls that have ended.");
    for (gateway_route_metrics *route = routes; route; route = route->next) {
        fprintf(to, NAME "messages_total{route=\"%s\",direction=\"received\"} %llu\n", route->name,
                number(&route->received_messages));
        fprintf(to, NAME "messages_total{route=\"%s\",direction=\"sent\"} %llu\n", route->name,
                number(&route->sent_messages));
    }
    describe(to, "message_bytes_total", "counter", "Bytes of these messages.");
    for (gateway_route_metrics *route = routes; route; route = route->next) {
        fprintf(to, NAME "message_bytes_total{route=\"%s\",direction=\"received\"} %llu\n",
                route->name, number(&route->received_bytes));
        fprintf(to, NAME "message_bytes_total{route=\"%s\",direction=\"sent\"} %llu\n", route->name,
                number(&route->sent_bytes));
    }
}

/* 0 where the system does not tell. */
static unsigned long long resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (unsigned long long) sysconf(_SC_PAGESIZE);
}

void gateway_metrics_print(gateway_metrics *metrics, FILE *to)
{
    pthread_mutex_lock(&metrics->lock);
    gateway_route_metrics *routes =
        metrics->routes; /* they are only added in front, and never go */
    pthread_mutex_unlock(&metrics->lock);
    print_calls(to, routes);
    print_durations(to, routes);
    print_traffic(to, routes);
    describe(to, "reloads_total", "counter", "How often the configuration was read again.");
    fprintf(to, NAME "reloads_total{result=\"success\"} %llu\n", number(&metrics->reloads));
    fprintf(to, NAME "reloads_total{result=\"failure\"} %llu\n", number(&metrics->failed_reloads));
    fprintf(to,
            "# HELP process_start_time_seconds When the process was started.\n"
            "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %lld\n",
            (long long) metrics->start);
    fprintf(to,
            "# HELP process_resident_memory_bytes Memory in use.\n"
            "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %llu\n",
            resident_bytes());
}
