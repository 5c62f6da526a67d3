/* Preflights and marked replies, by the Fetch standard's CORS protocol. */
#include <pekoe/pekoe.h>
#include <pekoe/testing.h>

#include "core/loop.h"
#include "helloworld.pekoe.h"

#include <criterion/criterion.h>

#include <string.h>

#define PATH "/helloworld.Greeter/SayHello"
#define PAGE "https://page.example"

static pk_loop *loop;
static pk_router *router;
static unsigned handled;

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    handled++;
    if (request->name[0] == '\0')
        return pk_failed(call, PK_INVALID_ARGUMENT, "name is empty");
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = request->name;
    return helloworld_hello_reply_done(reply);
}

static const helloworld_greeter_impl greeter = {.say_hello = say_hello};

static void start(const pk_cors_opts *opts)
{
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, PK_ROUTER_OPTS(.grpc_web = true)), 0);
    cr_assert_eq(helloworld_greeter_route(router, &greeter, NULL), 0);
    cr_assert_eq(pk_router_set_cors(router, opts), 0);
    handled = 0;
}

static void stop(void)
{
    router = pk_router_free(router);
    cr_assert_eq(loop->buffers.lent, 0);
    loop = pk_loop_free(loop);
}

static pk_test_exchange *ask(const char *method, const char *type, const char *const *fields)
{
    pk_test_exchange *test =
        pk_test_exchange_new(router, &(pk_test_request){.method = method,
                                                        .path = PATH,
                                                        .content_type = type,
                                                        .fields = fields,
                                                        .ended = type == NULL});
    cr_assert_not_null(test);
    return test;
}

static void expect(pk_test_exchange *test, const char *name, const char *value)
{
    const char *got = pk_test_exchange_field(test, name);
    if (value)
        cr_expect(got && strcmp(got, value) == 0, "%s: %s", name, got ? got : "absent");
    else
        cr_expect_null(got, "%s: %s", name, got);
}

static bool of_subdomain(void *self, pk_slice origin)
{
    const char *end = self;
    size_t length = strlen(end);
    return origin.length > length &&
           memcmp(origin.bytes + origin.length - length, end, length) == 0;
}

static char example[] = ".example", test_domain[] = ".test";
static const char *const pages[] = {"https://other.example", PAGE, NULL};
static const char *const every[] = {"*", NULL};
static const char *const exposed[] = {"x-rate", "x-more-bin", NULL};

Test(cors, preflights_are_answered_without_a_handler)
{
    static const struct {
        pk_cors_opts opts;
        const char *origin;
        unsigned status;
        const char *allow_origin, *credentials, *max_age;
    } cases[] = {
        {{.origins = pages}, PAGE, 204, PAGE, NULL, "7200"},
        {{.origins = pages, .max_age_s = 60}, PAGE, 204, PAGE, NULL, "60"},
        {{.origins = pages, .credentials = true}, PAGE, 204, PAGE, "true", "7200"},
        {{.origins = pages}, "https://page.example:8443", 403, NULL, NULL, NULL},
        {{.origins = pages}, "http://page.example", 403, NULL, NULL, NULL},
        {{.origins = pages}, "https://page.example.evil", 403, NULL, NULL, NULL},
        {{.origins = pages}, "null", 403, NULL, NULL, NULL},
        {{.origins = NULL}, PAGE, 403, NULL, NULL, NULL},
        {{.origins = every}, PAGE, 204, "*", NULL, "7200"},
        {{.origins = every}, "null", 204, "*", NULL, "7200"},
        {{.origins = every, .credentials = true}, PAGE, 204, PAGE, "true", "7200"},
        {{.allow = of_subdomain, .self = example}, PAGE, 204, PAGE, NULL, "7200"},
        {{.allow = of_subdomain, .self = test_domain}, PAGE, 403, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pk_cors_opts opts = cases[i].opts;
        opts.size = sizeof opts;
        start(&opts);
        const char *const fields[] = {"origin",
                                      cases[i].origin,
                                      "access-control-request-method",
                                      "POST",
                                      "access-control-request-headers",
                                      "content-type,x-grpc-web,x-own",
                                      NULL};
        pk_test_exchange *test = ask("OPTIONS", NULL, fields);
        bool right = cases[i].status == 204;
        cr_expect_eq(pk_test_exchange_http_status(test), cases[i].status, "case %zu", i);
        expect(test, "access-control-allow-origin", cases[i].allow_origin);
        expect(test, "access-control-allow-credentials", cases[i].credentials);
        expect(test, "access-control-max-age", cases[i].max_age);
        expect(test, "access-control-allow-methods", right ? "POST" : NULL);
        expect(test, "access-control-allow-headers",
               right ? "content-type,x-grpc-web,x-own" : NULL);
        expect(test, "vary",
               "origin, access-control-request-method, access-control-request-headers");
        cr_expect_eq(handled, 0);
        pk_test_exchange_free(test);
        stop();
    }
}

Test(cors, an_options_that_is_no_preflight_gets_405)
{
    static const char *const no_method[] = {"origin", PAGE, NULL};
    static const char *const no_origin[] = {"access-control-request-method", "POST", NULL};
    const char *const *const cases[] = {no_method, no_origin, NULL};
    start(PK_CORS_OPTS(.origins = pages));
    for (size_t i = 0; i < 3; i++) {
        pk_test_exchange *test = ask("OPTIONS", NULL, cases[i]);
        cr_expect_eq(pk_test_exchange_http_status(test), 405);
        pk_test_exchange_free(test);
    }
    /* Without rules there are no preflights. */
    static const char *const preflight[] = {"origin", PAGE, "access-control-request-method", "POST",
                                            NULL};
    cr_assert_eq(pk_router_set_cors(router, NULL), 0);
    pk_test_exchange *test = ask("OPTIONS", NULL, preflight);
    cr_expect_eq(pk_test_exchange_http_status(test), 405);
    expect(test, "vary", NULL);
    pk_test_exchange_free(test);
    stop();
}

/* A call by gRPC-Web, done or failed; then its fields are looked at. */
static pk_test_exchange *call_greeter(const char *type, const char *origin, bool fails)
{
    static const uint8_t hello[] = {0, 0, 0, 0, 3, 0x0a, 1, 'x'}, empty[] = {0, 0, 0, 0, 0};
    const char *const fields[] = {"origin", origin, NULL};
    pk_test_exchange *test = ask("POST", type, origin ? fields : NULL);
    if (fails)
        pk_test_exchange_send(test, empty, sizeof empty);
    else
        pk_test_exchange_send(test, hello, sizeof hello);
    pk_test_exchange_end(test);
    cr_assert(pk_test_exchange_finished(test));
    cr_assert_eq(pk_test_exchange_http_status(test), 200);
    return test;
}

Test(cors, replies_say_which_page_may_read_what)
{
    static const char own[] = "grpc-status, grpc-message, grpc-status-details-bin";
    static const char more[] =
        "grpc-status, grpc-message, grpc-status-details-bin, x-rate, x-more-bin";
    static const struct {
        pk_cors_opts opts;
        const char *origin, *allow_origin, *credentials, *exposed, *vary;
    } cases[] = {
        {{.origins = pages}, PAGE, PAGE, NULL, own, "origin"},
        {{.origins = pages, .exposed = exposed}, PAGE, PAGE, NULL, more, "origin"},
        {{.origins = pages, .credentials = true}, PAGE, PAGE, "true", own, "origin"},
        {{.origins = every}, PAGE, "*", NULL, own, NULL},
        {{.origins = every, .credentials = true}, PAGE, PAGE, "true", own, "origin"},
        {{.origins = pages}, "https://stranger.example", NULL, NULL, NULL, "origin"},
        {{.origins = pages}, NULL, NULL, NULL, NULL, "origin"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int fails = 0; fails < 2; fails++) {
            pk_cors_opts opts = cases[i].opts;
            opts.size = sizeof opts;
            start(&opts);
            pk_test_exchange *test =
                call_greeter("application/grpc-web+proto", cases[i].origin, fails);
            expect(test, "access-control-allow-origin", cases[i].allow_origin);
            expect(test, "access-control-allow-credentials", cases[i].credentials);
            expect(test, "access-control-expose-headers", cases[i].exposed);
            expect(test, "vary", cases[i].vary);
            cr_expect_eq(handled, 1);
            pk_test_exchange_free(test);
            stop();
        }
    }
    /* gRPC itself is not for pages. */
    start(PK_CORS_OPTS(.origins = pages));
    pk_test_exchange *test = call_greeter("application/grpc", PAGE, false);
    expect(test, "access-control-allow-origin", NULL);
    pk_test_exchange_free(test);
    stop();
}

Test(cors, rules_that_cannot_stand_in_a_field_are_refused)
{
    static const char *const wrong[][2] = {
        {"a b", NULL}, {"", NULL}, {"a,b", NULL}, {"a\r\nb: c", NULL}, {"\xc3\xbc", NULL}};
    start(PK_CORS_OPTS(.origins = pages));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_eq(pk_router_set_cors(router, PK_CORS_OPTS(.origins = wrong[i])), PK_ERR_INVALID);
        cr_expect_eq(pk_router_set_cors(router, PK_CORS_OPTS(.exposed = wrong[i])), PK_ERR_INVALID);
    }
    stop();
}
