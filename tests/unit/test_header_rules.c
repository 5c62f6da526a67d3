/* Which fields the gateway passes on: what browsers add on their own, lists, and directions. */
#include "gateway/header_rules.h"

#include <criterion/criterion.h>

#include <string.h>

static pk_slice slice(const char *text)
{
    return (pk_slice){(const uint8_t *) text, strlen(text)};
}

Test(header_rules, a_browsers_own_fields_stay_here)
{
    static const struct {
        const char *name;
        bool from_page, from_program; /* goes on */
    } cases[] = {
        {"x-user", true, true},          {"authorization", true, true},
        {"x-user-agent", true, true},    {"traceparent", true, true},
        {"user-agent", false, false},    {"cookie", false, true},
        {"origin", false, true},         {"referer", false, true},
        {"accept", false, true},         {"accept-language", false, true},
        {"sec-fetch-mode", false, true}, {"second", true, true},
        {"x-grpc-web", false, true},     {"access-control-request-headers", false, true},
    };
    const gateway_header_rules none = {NULL, NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pk_slice name = slice(cases[i].name);
        cr_assert_eq(gateway_request_header_goes_on(&none, name, true), cases[i].from_page, "%s",
                     cases[i].name);
        cr_assert_eq(gateway_request_header_goes_on(&none, name, false), cases[i].from_program,
                     "%s", cases[i].name);
    }
}

Test(header_rules, lists_make_exceptions)
{
    const char *const forward[] = {"cookie", "user-agent", NULL};
    const char *const drop[] = {"x-secret", NULL};
    const gateway_header_rules none = {NULL, NULL}, rules = {forward, drop};
    cr_assert(gateway_request_header_goes_on(&rules, slice("cookie"), true));
    cr_assert(!gateway_request_header_goes_on(&rules, slice("origin"), true));
    cr_assert(!gateway_request_header_goes_on(&rules, slice("user-agent"), true));
    cr_assert(!gateway_request_header_goes_on(&rules, slice("x-secret"), false));
    cr_assert(!gateway_response_header_goes_on(&rules, slice("x-secret")));
    cr_assert(gateway_response_header_goes_on(&rules, slice("set-cookie")));
    cr_assert(!gateway_response_header_goes_on(&none, slice("set-cookie")));
    cr_assert(gateway_response_header_goes_on(&none, slice("x-anything")));
    cr_assert(!gateway_response_header_goes_on(&none, slice("access-control-allow-origin")));
    cr_assert(!gateway_response_header_goes_on(&none, slice("server")));
}
