/* Who the peer of a server is: certificates that clients show, and sessions that are resumed. */
#include "secure_peer.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static pk_tls_info seen;
static char seen_text[1024];

static void accept_and_look(void *self, pk_exchange *exchange, const pk_head *head, bool over)
{
    struct path_acceptor *acceptor = self;
    seen = *exchange->peer->tls;
    snprintf(seen_text, sizeof seen_text, "%s|%s", seen.subject ? seen.subject : "",
             seen.common_name ? seen.common_name : "");
    for (size_t i = 0; i < seen.name_count; i++)
        snprintf(seen_text + strlen(seen_text), sizeof seen_text - strlen(seen_text), "|%s",
                 seen.names[i]);
    cr_expect_eq(seen.pem != NULL, seen.subject != NULL);
    if (seen.pem) {
        cr_expect_eq(strncmp(seen.pem, "-----BEGIN CERTIFICATE-----\n", 28), 0);
        cr_expect_gt(seen.der.length, 200);
        cr_expect_eq(seen.der.bytes[0], 0x30);
    }
    acceptor->acceptor.accept(acceptor->acceptor.self, exchange, head, over);
}

Test(tls_identity, demands_certificates_and_tells_who_showed_them)
{
    static const char ann[] = "CN=client,O=pekoe|client|DNS:client.example|"
                              "URI:spiffe://pekoe/ann|IP:192.0.2.7|email:ann@pekoe.example";
    static const struct {
        pk_client_certificates mode;
        const char *shown;
        bool works;
        const char *text;
    } cases[] = {
        {PK_CLIENT_CERTIFICATES_NONE, NULL, true, "|"},
        {PK_CLIENT_CERTIFICATES_NONE, "client", true, "|"},
        {PK_CLIENT_CERTIFICATES_REQUESTED, NULL, true, "|"},
        {PK_CLIENT_CERTIFICATES_REQUESTED, "client", true, ann},
        {PK_CLIENT_CERTIFICATES_REQUESTED, "client-of-other", false, NULL},
        {PK_CLIENT_CERTIFICATES_REQUIRED, NULL, false, NULL},
        {PK_CLIENT_CERTIFICATES_REQUIRED, "client", true, ann},
        {PK_CLIENT_CERTIFICATES_REQUIRED, "client-of-other", false, NULL},
        {PK_CLIENT_CERTIFICATES_REQUIRED, "self", false, NULL},
        {PK_CLIENT_CERTIFICATES_REQUIRED, "expired", false, NULL},
    };
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        size_t c = i / 2;
        struct secure secure;
        char name[64];
        secure_open(&secure, NULL,
                    PK_SERVER_CREDENTIALS(.certificate.file = certificate_path("chain.pem"),
                                          .key.file = certificate_path("chain.key"),
                                          .client_ca.file =
                                              cases[c].mode ? certificate_path("ca.pem") : NULL,
                                          .client_certificates = cases[c].mode),
                    NULL);
        pk_acceptor looking = {.accept = accept_and_look, .self = &secure.acceptor};
        pk_server_set_acceptor(secure.server, &looking);
        SSL_CTX_set_max_proto_version(secure.context, versions[i % 2]);
        if (cases[c].shown) {
            snprintf(name, sizeof name, "%s.pem", cases[c].shown);
            cr_assert_eq(SSL_CTX_use_certificate_file(secure.context, certificate_path(name),
                                                      SSL_FILETYPE_PEM),
                         1);
            snprintf(name, sizeof name, "%s.key", cases[c].shown);
            cr_assert_eq(SSL_CTX_use_PrivateKey_file(secure.context, certificate_path(name),
                                                     SSL_FILETYPE_PEM),
                         1);
        }
        SSL_CTX_load_verify_file(secure.context, certificate_path("ca.pem"));
        secure_join_http2(&secure);
        put_request(&secure.out, 1, true, "/none", NULL);
        secure_run(&secure);
        cr_expect_eq(secure.acceptor.accepted, cases[c].works, "%zu", c);
        cr_expect_eq(secure.alert > 0, !cases[c].works, "%zu: %d", c, secure.alert);
        cr_expect_eq(SSL_get_verify_result(secure.ssl), X509_V_OK, "the whole chain was sent");
        if (cases[c].works) {
            cr_expect_str_eq(seen_text, cases[c].text);
            cr_expect_eq(seen.verified, seen.subject != NULL);
            cr_expect_str_eq(seen.protocol, "h2");
            cr_expect_str_eq(seen.version, i % 2 ? "TLSv1.3" : "TLSv1.2");
            cr_expect_not_null(seen.cipher);
        }
        secure_close(&secure);
    }
}

static SSL_SESSION *session;

static int keep_session(SSL *ssl, SSL_SESSION *fresh)
{
    SSL_SESSION_free(session);
    session = fresh;
    return 1;
}

Test(tls_identity, resumes_sessions_with_the_identity_that_was_shown)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t v = 0; v < 2; v++) {
        struct secure secure;
        secure_open(&secure, NULL,
                    PK_SERVER_CREDENTIALS(.certificate.file = certificate_path("server.pem"),
                                          .key.file = certificate_path("server.key"),
                                          .client_ca.file = certificate_path("ca.pem"),
                                          .client_certificates = PK_CLIENT_CERTIFICATES_REQUIRED),
                    NULL);
        pk_acceptor looking = {.accept = accept_and_look, .self = &secure.acceptor};
        pk_server_set_acceptor(secure.server, &looking);
        SSL_CTX_set_max_proto_version(secure.context, versions[v]);
        SSL_CTX_use_certificate_file(secure.context, certificate_path("client.pem"),
                                     SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(secure.context, certificate_path("client.key"),
                                    SSL_FILETYPE_PEM);
        SSL_CTX_set_session_cache_mode(secure.context, SSL_SESS_CACHE_CLIENT);
        SSL_CTX_sess_set_new_cb(secure.context, keep_session);
        for (int i = 0; i < 2; i++) {
            secure_join(&secure, "\2h2");
            if (session)
                cr_assert_eq(SSL_set_session(secure.ssl, session), 1);
            secure_greet(&secure);
            put_request(&secure.out, 1, true, "/none", NULL);
            secure_run(&secure);
            cr_expect_eq(seen.resumed, i == 1, "%d", i);
            cr_expect(seen.verified);
            cr_expect_eq(strncmp(seen_text, "CN=client,O=pekoe|", 18), 0, "%s", seen_text);
            SSL_shutdown(secure.ssl);
            secure_run(&secure);
            secure_leave(&secure);
        }
        SSL_SESSION_free(session);
        session = NULL;
        secure_close(&secure);
    }
}
