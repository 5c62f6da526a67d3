/* Channels over TLS: what is verified, what the status says where that fails, identity, resuming. */
#include <pekoe/channel.h>

#include "secure_peer.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A server whose calls answer with what it knows of the client, and a channel to it. */
struct kit {
    pk_loop *loop;
    pk_server *server;
    pk_channel *channel;
    const char *bound;
    char port[8];
};

static pk_future describe(void *self, pk_call *call, pk_slice request)
{
    const pk_tls_info *tls = pk_call_tls(call);
    pk_slice *reply = pk_call_new(call, pk_slice, .length = 0);
    char *text = tls ? pk_call_printf(call, "%s %s%s %s", tls->version, tls->protocol,
                                      tls->resumed ? " resumed" : "",
                                      tls->common_name ? tls->common_name : "nobody")
                     : pk_call_printf(call, "plain");
    reply->bytes = (const uint8_t *) text;
    reply->length = strlen(text);
    return pk_done(reply);
}

/* `name` is of the server's certificate; NULL: it speaks no TLS. */
static void open_kit_with(struct kit *kit, const char *name, pk_client_certificates mode,
                          const pk_server_opts *opts)
{
    char problem[PK_TLS_PROBLEM] = "", certificate[64], key[64];
    pk_server_credentials *credentials = NULL;
    *kit = (struct kit){.loop = NULL};
    cr_assert_eq(pk_loop_new(&kit->loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit->server, kit->loop, opts), 0);
    pk_router_set_generic(pk_server_router(kit->server), describe, NULL);
    if (name) {
        snprintf(certificate, sizeof certificate, "%s.pem", name);
        snprintf(key, sizeof key, "%s.key", name);
        cr_assert_eq(
            pk_server_credentials_new(
                &credentials,
                PK_SERVER_CREDENTIALS(.certificate.file = certificate_path(certificate),
                                      .key.file = certificate_path(key),
                                      .client_ca.file = mode ? certificate_path("ca.pem") : NULL,
                                      .client_certificates = mode),
                problem),
            0, "%s", problem);
        cr_assert_eq(pk_server_listen_tls(kit->server, "127.0.0.1:0", credentials, &kit->bound), 0);
    } else {
        cr_assert_eq(pk_server_listen(kit->server, "127.0.0.1:0", &kit->bound), 0);
    }
    strcpy(kit->port, strrchr(kit->bound, ':') + 1);
    pk_server_credentials_unref(credentials);
}

static void open_kit(struct kit *kit, const char *name, pk_client_certificates mode)
{
    open_kit_with(kit, name, mode, NULL);
}

static pk_channel_credentials *trusting(const char *ca, const char *client)
{
    char problem[PK_TLS_PROBLEM] = "", certificate[64], key[64];
    pk_channel_credentials *made = NULL;
    snprintf(certificate, sizeof certificate, "%s.pem", client ? client : "");
    snprintf(key, sizeof key, "%s.key", client ? client : "");
    cr_assert_eq(pk_channel_credentials_new(
                     &made,
                     PK_CHANNEL_CREDENTIALS(.server_ca.file = ca ? certificate_path(ca) : NULL,
                                            .certificate.file =
                                                client ? certificate_path(certificate) : NULL,
                                            .key.file = client ? certificate_path(key) : NULL),
                     problem),
                 0, "%s", problem);
    return made;
}

/* Calls once; the reply's or the status' text stays until the next call. */
static const char *call_once(struct kit *kit, const pk_call_opts *opts, pk_code *ret_code)
{
    static char text[1024];
    const void *value = NULL;
    pk_status status = pk_loop_run_until(
        kit->loop, pk_call_generic(kit->channel, "/a.B/C", PK_SLICE("hello"), opts), &value);
    pk_slice told = status.code == PK_OK ? *(const pk_slice *) value : status.message;
    snprintf(text, sizeof text, "%.*s", (int) told.length, (const char *) told.bytes);
    *ret_code = status.code;
    return text;
}

static void close_kit(struct kit *kit)
{
    pk_channel_free(kit->channel);
    pk_server_free(kit->server);
    pk_loop_end_turn(kit->loop);
    cr_expect_eq(kit->loop->buffers.lent, 0, "every buffer is back");
    pk_loop_free(kit->loop);
}

Test(tls_channel, verifies_chain_and_name_and_says_what_fails)
{
    static const struct {
        const char *server, *ca, *host, *authority, *server_name;
        const char *text; /* in the status; NULL: the call succeeds */
    } cases[] = {
        {"server", "ca.pem", "127.0.0.1", NULL, NULL, NULL},
        {"server", "ca.pem", "localhost", NULL, NULL, NULL},
        {"chain", "ca.pem", "localhost", NULL, NULL, NULL},
        {"server", "ca.pem", "127.0.0.1", "foo.test.google.fr", NULL, NULL},
        {"server", "ca.pem", "127.0.0.1", "foo.test.google.fr:443", NULL, NULL},
        {"server", "ca.pem", "127.0.0.1", NULL, "foo.test.google.fr", NULL},
        {"server", "ca.pem", "127.0.0.1", NULL, "foo.test.google.fr.", NULL},
        {"server", "ca.pem", "127.0.0.1", "[::1]:443", NULL, NULL},
        {"server", "ca.pem", "127.0.0.1", "elsewhere.example", "localhost", NULL},
        {"server", "ca.pem", "127.0.0.1", "elsewhere.example", NULL,
         "the server's certificate is refused: hostname mismatch (it is for DNS:localhost, "
         "IP:127.0.0.1, IP:::1, DNS:*.test.google.fr, not for elsewhere.example)"},
        {"server", "ca.pem", "127.0.0.1", "a.b.test.google.fr", NULL, "hostname mismatch"},
        {"server", "ca.pem", "127.0.0.1", "test.google.fr", NULL, "hostname mismatch"},
        {"server", "ca.pem", "127.0.0.1", "192.0.2.1", NULL,
         "the server's certificate is refused: IP address mismatch (it is for DNS:localhost, "
         "IP:127.0.0.1, IP:::1, DNS:*.test.google.fr, not for 192.0.2.1)"},
        {"server", "ca.pem", "127.0.0.1", "server", NULL, "hostname mismatch"}, /* its subject */
        {"elsewhere", "ca.pem", "localhost", NULL, NULL, "hostname mismatch"},
        {"elsewhere", "ca.pem", "127.0.0.1", NULL, NULL, "IP address mismatch"},
        {"expired", "ca.pem", "localhost", NULL, NULL,
         "the server's certificate is refused: certificate has expired (/O=pekoe/CN=expired)"},
        {"early", "ca.pem", "localhost", NULL, NULL, "certificate is not yet valid"},
        {"self", "ca.pem", "localhost", NULL, NULL,
         "the server's certificate is refused: self-signed certificate (/O=pekoe/CN=self)"},
        {"stranger", "ca.pem", "localhost", NULL, NULL,
         "the server's certificate is refused: unable to get local issuer certificate"},
        {"server", "other-ca.pem", "localhost", NULL, NULL,
         "unable to get local issuer certificate"},
        {"server", NULL, "localhost", NULL, NULL, "unable to get local issuer certificate"},
        {NULL, "ca.pem", "localhost", NULL, NULL, "TLS: the server does not speak it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        char target[64];
        pk_code code;
        open_kit(&kit, cases[i].server, PK_CLIENT_CERTIFICATES_NONE);
        snprintf(target, sizeof target, "ipv4:127.0.0.1:%s", kit.port);
        pk_channel_credentials *credentials = trusting(cases[i].ca, NULL);
        const char *authority = cases[i].authority ? cases[i].authority : cases[i].host;
        cr_assert_eq(
            pk_channel_new(&kit.channel, kit.loop, target,
                           PK_CHANNEL_OPTS(.credentials = credentials, .authority = authority,
                                           .server_name = cases[i].server_name)),
            0);
        pk_channel_credentials_unref(credentials);
        const char *text = call_once(&kit, PK_CALL_OPTS(.timeout_ms = 10000), &code);
        if (cases[i].text) {
            cr_expect_eq(code, PK_UNAVAILABLE, "%zu: %d", i, code);
            cr_expect_eq(strncmp(text, "cannot connect to 127.0.0.1:", 28), 0, "%zu: %s", i, text);
            cr_expect(strstr(text, cases[i].text), "%zu: %s", i, text);
        } else {
            cr_expect_str_eq(text, "TLSv1.3 h2 nobody", "%zu: %s", i, text);
        }
        close_kit(&kit);
    }
}

Test(tls_channel, tells_with_the_deadline_what_is_wrong_with_the_certificate)
{
    struct kit kit;
    pk_code code;
    open_kit(&kit, "server", PK_CLIENT_CERTIFICATES_NONE);
    pk_channel_credentials *credentials = trusting("other-ca.pem", NULL);
    cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, kit.bound,
                                PK_CHANNEL_OPTS(.credentials = credentials)),
                 0);
    pk_channel_credentials_unref(credentials);
    const char *text =
        call_once(&kit, PK_CALL_OPTS(.wait_for_ready = true, .timeout_ms = 300), &code);
    cr_expect_eq(code, PK_DEADLINE_EXCEEDED);
    cr_expect(strstr(text, "deadline exceeded while waiting for a connection: cannot connect to "),
              "%s", text);
    cr_expect(strstr(text, "certificate is refused: unable to get local issuer certificate"), "%s",
              text);
    close_kit(&kit);
}

Test(tls_channel, takes_the_targets_own_name_where_no_other_is_given)
{
    static const struct {
        const char *before, *behind; /* the port */
    } targets[] = {{"127.0.0.1:", ""},
                   {"localhost:", ""},
                   {"dns:///localhost:", ""},
                   {"ipv4:127.0.0.1:", ",127.0.0.1:1"}};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct kit kit;
        char target[64];
        pk_code code;
        open_kit(&kit, "server", PK_CLIENT_CERTIFICATES_NONE);
        snprintf(target, sizeof target, "%s%s%s", targets[i].before, kit.port, targets[i].behind);
        pk_channel_credentials *credentials = trusting("ca.pem", NULL);
        cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, target,
                                    PK_CHANNEL_OPTS(.credentials = credentials)),
                     0);
        pk_channel_credentials_unref(credentials);
        const char *text = call_once(&kit, PK_CALL_OPTS(.timeout_ms = 10000), &code);
        cr_expect_str_eq(text, "TLSv1.3 h2 nobody", "%s: %s", target, text);
        close_kit(&kit);
    }
}

Test(tls_channel, shows_a_certificate_to_servers_that_ask)
{
    static const struct {
        pk_client_certificates mode;
        const char *client;
        const char *text;
        bool works;
    } cases[] = {
        {PK_CLIENT_CERTIFICATES_REQUIRED, "client", "TLSv1.3 h2 client", true},
        {PK_CLIENT_CERTIFICATES_REQUESTED, NULL, "TLSv1.3 h2 nobody", true},
        {PK_CLIENT_CERTIFICATES_NONE, "client", "TLSv1.3 h2 nobody", true},
        {PK_CLIENT_CERTIFICATES_REQUIRED, NULL, "TLS: the server refuses: certificate required",
         false},
        {PK_CLIENT_CERTIFICATES_REQUIRED, "client-of-other", "TLS: the server refuses: unknown ca",
         false},
        {PK_CLIENT_CERTIFICATES_REQUIRED, "expired", "TLS: the server refuses: certificate expired",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        char target[64];
        pk_code code;
        open_kit(&kit, "server", cases[i].mode);
        snprintf(target, sizeof target, "localhost:%s", kit.port);
        pk_channel_credentials *credentials = trusting("ca.pem", cases[i].client);
        cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, target,
                                    PK_CHANNEL_OPTS(.credentials = credentials)),
                     0);
        pk_channel_credentials_unref(credentials);
        const char *text = call_once(&kit, PK_CALL_OPTS(.timeout_ms = 10000), &code);
        cr_expect_eq(code, cases[i].works ? PK_OK : PK_UNAVAILABLE, "%zu: %s", i, text);
        cr_expect(strstr(text, cases[i].text), "%zu: %s", i, text);
        close_kit(&kit);
    }
}

Test(tls_channel, skips_verification_only_where_it_is_told_to)
{
    struct kit kit;
    pk_code code;
    pk_channel_credentials *credentials;
    open_kit(&kit, "self", PK_CLIENT_CERTIFICATES_NONE);
    cr_assert_eq(
        pk_channel_credentials_new(
            &credentials, PK_CHANNEL_CREDENTIALS(.insecure_skip_verification = true), NULL),
        0);
    cr_assert_eq(pk_channel_new(
                     &kit.channel, kit.loop, kit.bound,
                     PK_CHANNEL_OPTS(.credentials = credentials, .authority = "elsewhere.example")),
                 0);
    pk_channel_credentials_unref(credentials);
    const char *text = call_once(&kit, NULL, &code);
    cr_expect_str_eq(text, "TLSv1.3 h2 nobody");
    text = call_once(&kit, PK_CALL_OPTS(.authority = "another.example"), &code);
    cr_expect_eq(code, PK_OK, "%s", text);
    close_kit(&kit);
}

/* gRFC A81. */
Test(tls_channel, verifies_the_authority_of_a_single_call)
{
    static const struct {
        const char *authority;
        pk_code code;
    } cases[] = {{"localhost", PK_OK},
                 {"localhost:1234", PK_OK},
                 {"bar.test.google.fr", PK_OK},
                 {"[::1]:9", PK_OK},
                 {"elsewhere.example", PK_UNAVAILABLE},
                 {"127.0.0.2:80", PK_UNAVAILABLE},
                 {"", PK_UNAVAILABLE}};
    struct kit kit;
    open_kit(&kit, "server", PK_CLIENT_CERTIFICATES_NONE);
    pk_channel_credentials *credentials = trusting("ca.pem", NULL);
    cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, kit.bound,
                                PK_CHANNEL_OPTS(.credentials = credentials)),
                 0);
    pk_channel_credentials_unref(credentials);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pk_code code;
        const char *text = call_once(
            &kit, PK_CALL_OPTS(.authority = cases[i].authority, .timeout_ms = 10000), &code);
        cr_expect_eq(code, cases[i].code, "%s: %d %s", cases[i].authority, code, text);
        if (code != PK_OK)
            cr_expect_str_eq(text, "TLS: the server's certificate is not for the call's authority");
    }
    close_kit(&kit);
}

/* ---- A channel that is freed while it opens calls ---- */

static void free_channel(void *arg)
{
    struct kit *kit = arg;
    kit->channel = pk_channel_free(kit->channel);
}

/* A call that the channel itself refuses as soon as there is room for it, and then frees it. */
static pk_future free_when_opened(struct kit *kit)
{
    pk_call *call;
    pk_future outcome = pk_call_generic(
        kit->channel, "/a.B/C", PK_SLICE("x"),
        PK_CALL_OPTS(.authority = "elsewhere.example", .wait_for_ready = true, .call = &call));
    cr_assert_eq(pk_call_on_end(call, free_channel, kit), 0);
    pk_call_unref(call);
    return outcome;
}

static pk_future call_as_usual(struct kit *kit)
{
    return pk_call_generic(kit->channel, "/a.B/C", PK_SLICE("x"), NULL);
}

static void open_trusting(struct kit *kit, const pk_server_opts *opts)
{
    open_kit_with(kit, "server", PK_CLIENT_CERTIFICATES_NONE, opts);
    pk_channel_credentials *credentials = trusting("ca.pem", NULL);
    cr_assert_eq(pk_channel_new(&kit->channel, kit->loop, kit->bound,
                                PK_CHANNEL_OPTS(.credentials = credentials)),
                 0);
    pk_channel_credentials_unref(credentials);
}

Test(tls_channel, may_be_freed_by_a_call_that_it_opens_as_it_becomes_ready)
{
    struct kit kit;
    open_trusting(&kit, NULL);
    pk_future before = call_as_usual(&kit), frees = free_when_opened(&kit),
              behind = call_as_usual(&kit);
    cr_expect_eq(pk_loop_run_until(kit.loop, before, NULL).code, PK_UNAVAILABLE, "it was opened");
    cr_expect_null(kit.channel);
    cr_expect_eq(pk_loop_run_until(kit.loop, frees, NULL).code, PK_UNAVAILABLE);
    cr_expect_eq(pk_loop_run_until(kit.loop, behind, NULL).code, PK_UNAVAILABLE);
    close_kit(&kit);
}

Test(tls_channel, may_be_freed_by_a_call_that_it_opens_when_another_has_ended)
{
    struct kit kit;
    open_trusting(&kit, PK_SERVER_OPTS(.max_streams = 1));
    pk_future before = call_as_usual(&kit), frees = free_when_opened(&kit),
              behind = call_as_usual(&kit);
    cr_expect_eq(pk_loop_run_until(kit.loop, before, NULL).code, PK_OK);
    cr_expect_eq(pk_loop_run_until(kit.loop, frees, NULL).code, PK_UNAVAILABLE);
    cr_expect_null(kit.channel);
    cr_expect_eq(pk_loop_run_until(kit.loop, behind, NULL).code, PK_UNAVAILABLE);
    close_kit(&kit);
}

/* A connection is lost; the next one resumes the session, and the server knows the client still. */
Test(tls_channel, resumes_its_session_on_the_next_connection)
{
    struct kit kit;
    pk_code code;
    pk_call *call;
    open_kit(&kit, "server", PK_CLIENT_CERTIFICATES_REQUIRED);
    pk_channel_credentials *credentials = trusting("ca.pem", "client");
    cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, kit.bound,
                                PK_CHANNEL_OPTS(.credentials = credentials)),
                 0);
    pk_channel_credentials_unref(credentials);
    cr_expect_str_eq(call_once(&kit, NULL, &code), "TLSv1.3 h2 client");
    pk_connection_kill(kit.server->connections, "a test");
    while (pk_channel_get_state(kit.channel) == PK_CHANNEL_READY)
        pk_loop_turn(kit.loop);
    cr_expect_str_eq(call_once(&kit, PK_CALL_OPTS(.call = &call), &code),
                     "TLSv1.3 h2 resumed client");
    cr_expect_null(pk_call_tls(call), "the call has ended");
    pk_call_unref(call);
    close_kit(&kit);
}

Test(tls_channel, tells_who_the_server_is_while_a_call_goes_on)
{
    struct kit kit;
    pk_call *call;
    open_kit(&kit, "server", PK_CLIENT_CERTIFICATES_NONE);
    pk_channel_credentials *credentials = trusting("ca.pem", NULL);
    cr_assert_eq(pk_channel_new(&kit.channel, kit.loop, kit.bound,
                                PK_CHANNEL_OPTS(.credentials = credentials)),
                 0);
    pk_channel_credentials_unref(credentials);
    pk_future reply =
        pk_call_generic(kit.channel, "/a.B/C", PK_SLICE("x"), PK_CALL_OPTS(.call = &call));
    cr_expect_null(pk_call_tls(call), "there is no connection yet");
    while (!pk_call_tls(call))
        pk_loop_turn(kit.loop);
    const pk_tls_info *tls = pk_call_tls(call);
    cr_expect_str_eq(tls->common_name, "server");
    cr_expect(tls->verified);
    cr_expect_eq(tls->name_count, 4);
    cr_expect_str_eq(tls->names[3], "DNS:*.test.google.fr");
    cr_expect_eq(pk_loop_run_until(kit.loop, reply, NULL).code, PK_OK);
    pk_call_unref(call);
    close_kit(&kit);
}

/* A server that accepts and says nothing, or hangs up. */
Test(tls_channel, gives_up_a_handshake_that_does_not_go_on)
{
    for (int hangs_up = 0; hangs_up < 2; hangs_up++) {
        struct kit kit;
        pk_code code;
        open_kit(&kit, NULL, PK_CLIENT_CERTIFICATES_NONE);
        /* The connection waits in the backlog: the system has accepted it. */
        pk_watch_set(&kit.server->listeners->watch, false, false);
        pk_channel_credentials *credentials = trusting("ca.pem", NULL);
        cr_assert_eq(
            pk_channel_new(&kit.channel, kit.loop, kit.bound,
                           PK_CHANNEL_OPTS(.credentials = credentials, .connect_timeout_ms = 50)),
            0);
        pk_channel_credentials_unref(credentials);
        if (hangs_up) {
            pk_channel_connect(kit.channel);
            int fd;
            while ((fd = accept(kit.server->listeners->fd, NULL, NULL)) < 0)
                pk_loop_turn(kit.loop);
            close(fd);
        }
        const char *text = call_once(&kit, NULL, &code);
        cr_expect_eq(code, PK_UNAVAILABLE);
        cr_expect(strstr(text, hangs_up ? "TLS: the peer closed the connection during the handshake"
                                        : "the TLS handshake takes too long"),
                  "%s", text);
        close_kit(&kit);
    }
}

/* ---- Credentials of calls ---- */

struct token {
    const char *value;
    pk_code fails; /* PK_OK: it is given */
    bool later;
    unsigned asked;
    char audience[128];
    pk_promise *promise;
};

static pk_future give(const void *unused, void *arg)
{
    return pk_done(NULL);
}

static pk_future add_token(void *self, pk_call *call, const char *audience)
{
    struct token *token = self;
    token->asked++;
    snprintf(token->audience, sizeof token->audience, "%s", audience);
    if (token->fails != PK_OK)
        return pk_failed(call, token->fails, "no token");
    cr_assert_eq(pk_metadata_add(pk_call_headers(call), "authorization", token->value), 0);
    return token->later ? pk_then(pk_sleep(pk_call_scope(call), 5), give, NULL) : pk_done(NULL);
}

static pk_future tell_tokens(void *self, pk_call *call, pk_slice request)
{
    pk_slice *reply = pk_call_new(call, pk_slice, .length = 0);
    pk_metadata_place place = PK_METADATA_START;
    pk_slice key, value;
    char text[256] = "";
    while (pk_metadata_next(pk_call_metadata(call), "authorization", &place, &key, &value))
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s;", (int) value.length,
                 (const char *) value.bytes);
    reply->bytes = (const uint8_t *) pk_call_copy(call, text, strlen(text));
    reply->length = strlen(text);
    return pk_done(reply);
}

static void open_with_tokens(struct kit *kit, bool tls, const pk_call_credentials *all)
{
    open_kit(kit, tls ? "server" : NULL, PK_CLIENT_CERTIFICATES_NONE);
    pk_router_set_generic(pk_server_router(kit->server), tell_tokens, NULL);
    pk_channel_credentials *credentials = tls ? trusting("ca.pem", NULL) : NULL;
    cr_assert_eq(
        pk_channel_new(&kit->channel, kit->loop, kit->bound,
                       PK_CHANNEL_OPTS(.credentials = credentials, .authority = "localhost:443",
                                       .call_credentials = all)),
        0);
    pk_channel_credentials_unref(credentials);
}

Test(tls_channel, sends_credentials_of_calls_the_channels_first)
{
    for (int later = 0; later < 4; later++) {
        struct token first = {.value = "one", .later = later & 1};
        struct token second = {.value = "two", .later = later & 2};
        pk_call_credentials own = {add_token, &second, false};
        struct kit kit;
        pk_code code;
        open_with_tokens(&kit, true, &(pk_call_credentials){add_token, &first, false});
        cr_expect_str_eq(call_once(&kit, NULL, &code), "one;");
        cr_expect_str_eq(call_once(&kit, PK_CALL_OPTS(.credentials = &own), &code), "one;two;");
        cr_expect_eq(first.asked, 2);
        cr_expect_eq(second.asked, 1);
        cr_expect_str_eq(first.audience, "https://localhost/a.B");
        close_kit(&kit);
    }
}

Test(tls_channel, sends_no_credentials_of_calls_without_tls_unless_it_is_told_to)
{
    struct token token = {.value = "secret"};
    struct kit kit;
    pk_code code;
    pk_call_credentials credentials = {add_token, &token, false};
    open_with_tokens(&kit, false, NULL);
    const char *text = call_once(&kit, PK_CALL_OPTS(.credentials = &credentials), &code);
    cr_expect_eq(code, PK_UNAUTHENTICATED);
    cr_expect_str_eq(text, "call credentials are not sent without TLS, unless they are marked "
                           "without_tls");
    cr_expect_eq(token.asked, 0);
    credentials.without_tls = true;
    text = call_once(&kit, PK_CALL_OPTS(.credentials = &credentials), &code);
    cr_expect_str_eq(text, "secret;");
    cr_expect_str_eq(token.audience, "http://localhost/a.B");
    close_kit(&kit);
}

Test(tls_channel, ends_calls_whose_credentials_fail_or_do_not_come)
{
    static const struct {
        pk_code given, seen;
    } cases[] = {{PK_UNAUTHENTICATED, PK_UNAUTHENTICATED},
                 {PK_UNAVAILABLE, PK_UNAVAILABLE},
                 {PK_NOT_FOUND, PK_INTERNAL},
                 {PK_DATA_LOSS, PK_INTERNAL}};
    struct token token = {.value = "x"};
    struct kit kit;
    pk_code code;
    open_with_tokens(&kit, true, &(pk_call_credentials){add_token, &token, false});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        token.fails = cases[i].given;
        cr_expect_str_eq(call_once(&kit, NULL, &code), "no token");
        cr_expect_eq(code, cases[i].seen);
    }
    token.fails = PK_OK;
    token.later = true;
    (void) call_once(&kit, PK_CALL_OPTS(.timeout_ms = 1), &code);
    cr_expect_eq(code, PK_DEADLINE_EXCEEDED);
    cr_expect_eq(pk_loop_run_until(kit.loop, pk_sleep(pk_loop_scope(kit.loop), 10), NULL).code,
                 PK_OK);
    cr_expect_str_eq(call_once(&kit, NULL, &code), "x;");
    close_kit(&kit);
}
