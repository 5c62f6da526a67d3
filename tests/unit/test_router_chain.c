/* A server's interceptors: which calls they stand around, as routers are put together. */
#include <pekoe/health.h>
#include <pekoe/raw.h>

#include "tests/support/counting_allocator.h"
#include "tests/support/interceptor_kit.h"

#include <stdio.h>

/* What the page prints goes to a file. */
static FILE *logged;
#define printf(...) fprintf(logged, __VA_ARGS__)
#include "log_call_example.h"
#undef printf

static pk_future generic(void *self, pk_call *call, pk_slice request)
{
    note("g");
    pk_slice *copy = pk_call_alloc(call, sizeof *copy);
    *copy = request;
    return pk_done(copy);
}

static pk_future raw_once(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    note("r");
    return pk_done(NULL);
}

Test(router_chain, routers_that_are_put_together_keep_their_own_inside)
{
    pk_loop *loop;
    pk_router *whole, *part;
    pk_channel *channel;
    trace[0] = '\0';
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&whole, loop, NULL), 0);
    cr_assert_eq(pk_router_new(&part, loop, NULL), 0);
    cr_assert_eq(pk_router_intercept(whole, around, (void *) "w"), 0);
    cr_assert_eq(pk_router_intercept(part, around, (void *) "p"), 0);
    cr_assert_eq(helloworld_greeter_route(part, &impl, NULL), 0);
    cr_assert_eq(pk_router_intercept(part, around, (void *) "q"), 0);
    cr_assert_eq(pk_router_concat(whole, part), 0);
    pk_router_free(part);
    /* Those that come later stand around what was added before. */
    cr_assert_eq(pk_router_intercept(whole, around, (void *) "v"), 0);
    cr_assert_eq(pk_channel_new_in_process(&channel, whole), 0);
    struct client_kit kit = {.loop = loop, .channel = channel};
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "w(v(p(q(h)q)p)v)w");
    trace[0] = '\0';
    /* The generic handler has the router's own. */
    pk_router_set_generic(whole, generic, NULL);
    pk_slice bytes = PK_SLICE("abc");
    const void *value;
    cr_assert_eq(
        pk_loop_run_until(loop, pk_call_generic(channel, "/a.B/C", bytes, NULL), &value).code,
        PK_OK);
    cr_assert(says(*(const pk_slice *) value, "abc"));
    cr_assert_str_eq(trace, "w(v(g)v)w");
    trace[0] = '\0';
    cr_assert_eq(pk_router_intercept(whole, around, (void *) "u"), 0);
    cr_assert_eq(
        pk_loop_run_until(loop, pk_call_generic(channel, "/a.B/C", bytes, NULL), NULL).code, PK_OK);
    cr_assert_str_eq(trace, "w(v(u(g)u)v)w");
    trace[0] = '\0';
    pk_router_set_raw(whole, raw_once, NULL);
    pk_writer *out;
    pk_reader *in = pk_call_raw(channel, "/a.B/C", NULL, &out, NULL);
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(loop, pk_reader_read(in), NULL).code, PK_OK);
    cr_assert_str_eq(trace, "w(v(u(r)u)v)w");
    pk_reader_unref(in);
    pk_writer_unref(out);
    /* A path that nobody has is pekoe's own to refuse. */
    trace[0] = '\0';
    pk_router_set_raw(whole, NULL, NULL);
    cr_assert_eq(
        pk_loop_run_until(loop, pk_call_generic(channel, "/a.B/C", bytes, NULL), NULL).code,
        PK_UNIMPLEMENTED);
    cr_assert_str_eq(trace, "");
    pk_channel_free(channel);
    pk_router_free(whole);
    pk_loop_free(loop);
}

Test(router_chain, services_without_interceptors_stay_without_when_they_are_put_together)
{
    pk_loop *loop;
    pk_router *whole, *part, *inner;
    pk_channel *channel;
    trace[0] = '\0';
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&whole, loop, NULL), 0);
    cr_assert_eq(pk_router_new(&part, loop, NULL), 0);
    cr_assert_eq(pk_router_new(&inner, loop, NULL), 0);
    pk_health *health;
    cr_assert_eq(pk_health_new(&health, loop), 0);
    cr_assert_eq(pk_health_route(health, part), 0);
    cr_assert_eq(pk_router_intercept(inner, around, (void *) "i"), 0);
    cr_assert_eq(helloworld_greeter_route(inner, &impl, NULL), 0);
    cr_assert_eq(pk_router_concat(part, inner), 0);
    cr_assert_eq(pk_router_concat(whole, part), 0);
    cr_assert_eq(pk_channel_new_in_process(&channel, whole), 0);
    struct client_kit kit = {.loop = loop, .channel = channel};
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "i(h)i");
    pk_future check =
        pk_call_generic(channel, "/grpc.health.v1.Health/Check", (pk_slice){NULL, 0}, NULL);
    cr_assert_eq(pk_loop_run_until(loop, check, NULL).code, PK_OK);
    cr_assert_str_eq(trace, "i(h)i");
    pk_channel_free(channel);
    pk_health_free(health);
    pk_router_free(inner);
    pk_router_free(part);
    pk_router_free(whole);
    pk_loop_free(loop);
}

#define SERVICES 20u

/* The greeter under many names. */
static void make_services(pk_service services[SERVICES], pk_method methods[SERVICES])
{
    static char paths[SERVICES][32];
    for (size_t i = 0; i < SERVICES; i++) {
        snprintf(paths[i], sizeof paths[i], "/a.Greeter%zu/SayHello", i);
        methods[i] = helloworld_greeter_service.methods[0];
        methods[i].path = paths[i];
        methods[i].path_length = strlen(paths[i]);
        services[i] = helloworld_greeter_service;
        services[i].methods = &methods[i];
        services[i].method_count = 1;
    }
}

/* Adds a router while the n-th request for memory and those behind it fail; false: none did. */
static bool concat_without_memory(const pk_service *services, size_t nth, bool intercepted)
{
    counting_allocator counts = {.fail_after = true};
    pk_loop *loop;
    pk_router *whole, *part;
    cr_assert_eq(pk_loop_new(&loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))), 0);
    cr_assert_eq(pk_router_new(&whole, loop, NULL), 0);
    cr_assert_eq(pk_router_new(&part, loop, NULL), 0);
    if (intercepted)
        cr_assert_eq(pk_router_intercept(part, around, (void *) "p"), 0);
    for (size_t i = 0; i < SERVICES; i++)
        cr_assert_eq(pk_router_add(part, &services[i], &impl, NULL), 0);
    counts.fail_at = counts.requests + nth;
    int r = pk_router_concat(whole, part);
    bool failed = counts.requests >= counts.fail_at;
    counts.fail_at = 0;
    if (failed) {
        cr_expect_eq(r, PK_ERR_NOMEM);
        cr_expect_null(pk_router_service(whole, 0));
        r = pk_router_concat(whole, part);
    }
    cr_expect_eq(r, 0, "%zu: no path is taken: %d", nth, r);
    for (size_t i = 0; i < SERVICES; i++)
        cr_assert_eq(pk_router_service(whole, i), &services[i]);
    pk_router_free(part);
    pk_router_free(whole);
    pk_loop_free(loop);
    cr_expect_eq(counts.blocks, 0);
    return failed;
}

Test(router_chain, a_router_is_added_as_a_whole_or_not_at_all)
{
    pk_service services[SERVICES];
    pk_method methods[SERVICES];
    make_services(services, methods);
    for (int intercepted = 0; intercepted < 2; intercepted++) {
        size_t nth = 1;
        while (concat_without_memory(services, nth, intercepted))
            nth++;
        cr_expect_gt(nth, intercepted ? SERVICES : 1);
    }
}

Test(router_chain, health_is_a_service_like_others)
{
    in_process = true;
    struct client_kit kit = open_kit();
    pk_health *health;
    on_server(&kit, around, "s");
    cr_assert_eq(pk_health_new(&health, kit.loop), 0);
    cr_assert_eq(pk_health_route(health, pk_server_router(kit.server)), 0);
    const void *value;
    pk_future check =
        pk_call_generic(kit.channel, "/grpc.health.v1.Health/Check", (pk_slice){NULL, 0}, NULL);
    cr_assert_eq(pk_loop_run_until(kit.loop, check, &value).code, PK_OK);
    cr_assert(says(*(const pk_slice *) value, "\x08\x01")); /* SERVING */
    cr_assert_str_eq(trace, "s()s");
    pk_channel_free(kit.channel);
    pk_server_free(kit.server);
    pk_health_free(health);
    pk_loop_free(kit.loop);
}

static pk_future refuse(void *self, pk_call *call, pk_next *next)
{
    return pk_failed(call, PK_UNAUTHENTICATED, "who are you?");
}

Test(router_chain, gRPC_Web_calls_are_intercepted_too)
{
    pk_loop *loop;
    pk_router *router;
    trace[0] = '\0';
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, PK_ROUTER_OPTS(.grpc_web = true)), 0);
    cr_assert_eq(helloworld_greeter_route(router, &impl, NULL), 0);
    cr_assert_eq(pk_router_intercept(router, around, (void *) "s"), 0);
    cr_assert_eq(pk_router_intercept(router, refuse, NULL), 0);
    pk_test_exchange *x = pk_test_exchange_new(
        router, &(pk_test_request){.path = "/helloworld.Greeter/SayHello",
                                   .content_type = "application/grpc-web+proto"});
    pk_test_exchange_send(x, "\0\0\0\0\0", 5);
    pk_test_exchange_end(x);
    cr_assert(pk_test_exchange_finished(x));
    const char *code = pk_test_exchange_field(x, "grpc-status");
    pk_slice body = pk_test_exchange_body(x);
    cr_assert(code ? strcmp(code, "16") == 0
                   : memmem(body.bytes, body.length, "grpc-status:16", 14) != NULL);
    cr_assert_str_eq(trace, "s(!s");
    pk_test_exchange_free(x);
    pk_router_free(router);
    pk_loop_free(loop);
}

Test(router_chain, the_example_of_the_page_logs_both_sides)
{
    in_process = true;
    struct client_kit kit = open_kit();
    on_server(&kit, log_call, NULL);
    on_client(&kit, log_call, NULL);
    FILE *out = tmpfile();
    cr_assert_not_null(out);
    logged = out;
    greeted(&kit, "x", NULL, "x");
    cr_assert_eq(greeted(&kit, "fail", NULL, NULL).code, PK_ABORTED);
    char line[200];
    static const char *const ends[] = {": OK after ", ": OK after ", ": ABORTED after ",
                                       ": ABORTED after "};
    rewind(out);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_not_null(fgets(line, sizeof line, out));
        cr_assert_eq(strncmp(line, "/helloworld.Greeter/SayHello from ", 34), 0, "%s", line);
        cr_assert_not_null(strstr(line, ends[i]), "%s", line);
    }
    cr_assert_null(fgets(line, sizeof line, out));
    fclose(out);
    client_kit_close(&kit);
}
