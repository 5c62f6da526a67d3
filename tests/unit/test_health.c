/* services/health.c: Check and Watch, as gRPC's health-checking.md and health.proto say. */
#include <pekoe/health.h>
#include <pekoe/pekoe.h>
#include <pekoe/testing.h>

#include "core/loop.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#define CHECK "/grpc.health.v1.Health/Check"
#define WATCH "/grpc.health.v1.Health/Watch"

struct server {
    counting_allocator counts;
    pk_loop *loop;
    pk_router *router;
    pk_health *health;
};

static void open_server(struct server *s)
{
    *s = (struct server){.counts = {0}};
    pk_allocator allocator = {counting_resize, &s->counts};
    cr_assert_eq(pk_loop_new(&s->loop, PK_LOOP_OPTS(.allocator = &allocator)), 0);
    cr_assert_eq(pk_router_new(&s->router, s->loop, NULL), 0);
    cr_assert_eq(pk_health_new(&s->health, s->loop), 0);
    cr_assert_eq(pk_health_route(s->health, s->router), 0);
}

static void close_server(struct server *s)
{
    pk_router_free(s->router);
    cr_assert_null(pk_health_free(s->health));
    pk_loop_free(s->loop);
    cr_assert_eq(s->counts.blocks, 0u);
}

/* A call with the name of a service, which is field 1 of the request. */
static pk_test_exchange *ask(struct server *s, const char *path, const char *service)
{
    pk_test_exchange *x = pk_test_exchange_new(
        s->router, &(pk_test_request){.path = path, .content_type = "application/grpc"});
    cr_assert_not_null(x);
    uint8_t bytes[128] = {0};
    size_t length = strlen(service), size = length ? length + 2 : 0;
    cr_assert_lt(length, 100u);
    bytes[4] = (uint8_t) size;
    bytes[5] = 0x0a;
    bytes[6] = (uint8_t) length;
    memcpy(bytes + 7, service, length);
    pk_test_exchange_send(x, bytes, 5 + size);
    pk_test_exchange_end(x);
    return x;
}

/* The statuses that came, a digit each; field 1 of the response is an enum. */
static const char *told(const pk_test_exchange *x)
{
    static char text[64];
    pk_slice body = pk_test_exchange_body(x);
    size_t count = 0;
    for (size_t at = 0; at < body.length; at += 5u + body.bytes[at + 4]) {
        cr_assert_lt(count + 1, sizeof text);
        text[count++] = body.bytes[at + 4] == 0 ? '0' : (char) ('0' + body.bytes[at + 6]);
    }
    text[count] = '\0';
    return text;
}

static void set(struct server *s, const char *service, pk_health_status status)
{
    cr_assert_eq(pk_health_set(s->health, service, status), 0);
    pk_loop_end_turn(s->loop);
}

Test(health, check_says_how_a_service_stands)
{
    struct server s;
    open_server(&s);
    set(&s, "a.Works", PK_HEALTH_SERVING);
    set(&s, "a.Broken", PK_HEALTH_NOT_SERVING);
    set(&s, "a.Unclear", PK_HEALTH_UNKNOWN);
    static const struct {
        const char *service, *told, *status;
    } cases[] = {{"", "1", "0"},
                 {"a.Works", "1", "0"},
                 {"a.Broken", "2", "0"},
                 {"a.Unclear", "0", "0"},
                 {"a.Nobody", "", "5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pk_test_exchange *x = ask(&s, CHECK, cases[i].service);
        cr_assert_str_eq(told(x), cases[i].told, "%s", cases[i].service);
        cr_assert_str_eq(pk_test_exchange_field(x, "grpc-status"), cases[i].status);
        pk_test_exchange_free(x);
    }
    close_server(&s);
}

Test(health, watch_tells_each_change_and_goes_on)
{
    struct server s;
    open_server(&s);
    set(&s, "a.Thing", PK_HEALTH_NOT_SERVING);
    pk_test_exchange *x = ask(&s, WATCH, "a.Thing"), *y = ask(&s, WATCH, "a.Thing");
    cr_assert_str_eq(told(x), "2");
    set(&s, "a.Thing", PK_HEALTH_SERVING);
    set(&s, "a.Thing", PK_HEALTH_SERVING);
    set(&s, "a.Other", PK_HEALTH_NOT_SERVING);
    cr_assert_str_eq(told(x), "21", "what did not change is not told again");
    pk_test_exchange_free(x);
    set(&s, "a.Thing", PK_HEALTH_NOT_SERVING);
    cr_assert_str_eq(told(y), "212");
    cr_assert_not(pk_test_exchange_finished(y));
    pk_test_exchange_free(y);
    close_server(&s);
}

Test(health, watch_waits_for_a_service_that_is_not_known_yet)
{
    struct server s;
    open_server(&s);
    pk_test_exchange *x = ask(&s, WATCH, "a.Later");
    cr_assert_str_eq(told(x), "3", "SERVICE_UNKNOWN");
    cr_assert_not(pk_test_exchange_finished(x));
    pk_test_exchange *y = ask(&s, CHECK, "a.Later");
    cr_assert_str_eq(pk_test_exchange_field(y, "grpc-status"), "5", "to be watched is not enough");
    pk_test_exchange_free(y);
    set(&s, "a.Later", PK_HEALTH_SERVING);
    cr_assert_str_eq(told(x), "31");
    pk_test_exchange_free(x);
    close_server(&s);
}

Test(health, names_that_are_only_watched_are_forgotten)
{
    struct server s;
    open_server(&s);
    pk_test_exchange_free(ask(&s, WATCH, "name"));
    size_t live = s.loop->memory.live_blocks;
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "name %d", i);
        pk_test_exchange_free(ask(&s, WATCH, name));
    }
    cr_assert_eq(s.loop->memory.live_blocks, live);
    close_server(&s);
}

Test(health, a_slow_watcher_is_told_the_last_status)
{
    struct server s;
    open_server(&s);
    pk_test_exchange *x = ask(&s, WATCH, "");
    cr_assert_str_eq(told(x), "1");
    pk_test_exchange_set_room(x, 1);
    set(&s, "", PK_HEALTH_NOT_SERVING); /* fills what room there is */
    set(&s, "", PK_HEALTH_SERVING);
    set(&s, "", PK_HEALTH_UNKNOWN);
    set(&s, "", PK_HEALTH_NOT_SERVING);
    set(&s, "", PK_HEALTH_UNKNOWN);
    cr_assert_str_eq(told(x), "12");
    pk_test_exchange_set_room(x, 1000);
    cr_assert_str_eq(told(x), "120");
    pk_test_exchange_free(x);
    close_server(&s);
}

Test(health, stop_tells_everybody_and_ends_the_watching)
{
    struct server s;
    open_server(&s);
    set(&s, "a.Thing", PK_HEALTH_SERVING);
    pk_test_exchange *x = ask(&s, WATCH, "a.Thing"), *y = ask(&s, WATCH, "a.Nobody");
    pk_health_stop(s.health);
    pk_loop_end_turn(s.loop);
    cr_assert_str_eq(told(x), "12");
    cr_assert_str_eq(pk_test_exchange_field(x, "grpc-status"), "14");
    cr_assert_str_eq(told(y), "3");
    cr_assert_str_eq(pk_test_exchange_field(y, "grpc-status"), "14");
    cr_assert_eq(pk_health_set(s.health, "a.Thing", PK_HEALTH_SERVING), PK_ERR_STATE);
    pk_test_exchange_free(x);
    pk_test_exchange_free(y);
    x = ask(&s, CHECK, "a.Thing");
    cr_assert_str_eq(told(x), "2");
    pk_test_exchange_free(x);
    close_server(&s);
}

Test(health, each_allocation_may_fail)
{
    bool failed = true;
    for (size_t fail_at = 1; failed; fail_at++) {
        struct server s;
        open_server(&s);
        s.counts.fail_at = s.counts.requests + fail_at;
        pk_test_exchange *x = pk_test_exchange_new(
            s.router, &(pk_test_request){.path = WATCH, .content_type = "application/grpc"});
        if (x) {
            pk_test_exchange_send(x, (uint8_t[]){0, 0, 0, 0, 3, 0x0a, 1, 'x'}, 8);
            pk_test_exchange_end(x);
            int r = pk_health_set(s.health, "x", PK_HEALTH_SERVING);
            cr_assert(r == 0 || r == PK_ERR_NOMEM);
            pk_loop_end_turn(s.loop);
        }
        failed = s.counts.requests >= s.counts.fail_at;
        s.counts.fail_at = 0;
        pk_test_exchange_free(x);
        close_server(&s);
    }
}
