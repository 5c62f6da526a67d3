/*
 * Plain HTTP requests beside calls: what a handler sees, and what leaves. Sockets of both HTTP
 * versions ask in tests/gateway.
 */
#include <pekoe/http.h>

#include "tests/support/client_kit.h"

static struct {
    unsigned asked;
    char method[16], target[64], agent[32];
    int field_errors[3];
} seen;

static void copy(char *to, pk_slice from)
{
    memcpy(to, from.length > 0 ? (const char *) from.bytes : "", from.length);
    to[from.length] = '\0';
}

static void handle(void *self, pk_http *http)
{
    seen.asked++;
    copy(seen.method, pk_http_method(http));
    copy(seen.target, pk_http_target(http));
    copy(seen.agent, pk_http_field(http, "x-agent"));
    if (strcmp(seen.target, "/nothing") == 0)
        return;
    seen.field_errors[0] = pk_http_add_field(http, "x-a", "b");
    seen.field_errors[1] = pk_http_add_field(http, "X a", "b");
    seen.field_errors[2] = pk_http_add_field(http, "x-a", "b\r\nc: d");
    cr_assert_eq(pk_http_reply(http, 200, "text/plain", "hello\n", 6), 0);
    cr_assert_eq(pk_http_reply(http, 200, "text/plain", "again\n", 6), PK_ERR_STATE);
    cr_assert_eq(pk_http_add_field(http, "x-b", "late"), PK_ERR_STATE);
}

static pk_test_exchange *ask(pk_router *router, const char *method, const char *path)
{
    const char *const fields[] = {"x-agent", "smith", NULL};
    pk_test_exchange *exchange = pk_test_exchange_new(
        router,
        &(pk_test_request){.path = path, .method = method, .fields = fields, .ended = true});
    cr_assert_not_null(exchange);
    cr_assert(pk_test_exchange_finished(exchange));
    return exchange;
}

Test(http, a_handler_sees_the_request_and_answers_it)
{
    pk_loop *loop;
    pk_router *router;
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    pk_test_exchange *exchange = ask(router, "GET", "/x?y");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 405, "there is no handler");
    pk_test_exchange_free(exchange);
    pk_router_set_http(router, handle, NULL);
    exchange = ask(router, "GET", "/x?y");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 200);
    cr_assert_str_eq(pk_test_exchange_field(exchange, "content-type"), "text/plain");
    cr_assert_str_eq(pk_test_exchange_field(exchange, "x-a"), "b");
    cr_assert(says(pk_test_exchange_body(exchange), "hello\n"));
    pk_test_exchange_free(exchange);
    cr_assert_str_eq(seen.method, "GET");
    cr_assert_str_eq(seen.target, "/x?y");
    cr_assert_str_eq(seen.agent, "smith");
    cr_assert_eq(seen.field_errors[0], 0);
    cr_assert_eq(seen.field_errors[1], PK_ERR_INVALID);
    cr_assert_eq(seen.field_errors[2], PK_ERR_INVALID);
    exchange = ask(router, "GET", "/nothing");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 404);
    pk_test_exchange_free(exchange);
    exchange = ask(router, "HEAD", "/x");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 200);
    cr_assert_eq(pk_test_exchange_body(exchange).length, 0);
    pk_test_exchange_free(exchange);
    exchange = ask(router, "POST", "/x");
    cr_assert_eq(pk_test_exchange_http_status(exchange), 415, "it may be meant as a call");
    pk_test_exchange_free(exchange);
    cr_assert_eq(seen.asked, 3);
    pk_router_free(router);
    pk_loop_free(loop);
}
