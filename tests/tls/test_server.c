/* The server behind TLS: versions, ALPN, handshakes that fail, stall or are cut, ends. */
#include "../support/counting_allocator.h"
#include "failing_openssl.h"
#include "secure_peer.h"

#include <criterion/criterion.h>
#include <openssl/err.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void call_echo(struct secure *secure, uint32_t stream, size_t length)
{
    put_request(&secure->out, stream, false, "/echo", NULL);
    for (size_t sent = 0; sent < length; sent += 16384)
        put_filler(&secure->out, stream, sent + 16384 >= length,
                   length - sent < 16384 ? length - sent : 16384);
}

static const char get[] = "POST /only HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";

static bool got_text(const struct secure *secure, const char *text)
{
    return secure->in.rest.length > 0 &&
           memmem(secure->in.rest.at, secure->in.rest.length, text, strlen(text));
}

Test(tls_server, chooses_what_alpn_offers_or_refuses_with_alert_120)
{
    static const struct {
        const char *offer;
        bool http2_only;
        const char *chosen; /* NULL: alert 120 */
    } cases[] = {
        {"\2h2", false, "h2"},
        {"\10http/1.1", false, "http/1.1"},
        {"\2h2\10http/1.1", false, "h2"},
        {"\10http/1.1\2h2", false, "h2"},
        {"\3foo\2h2", false, "h2"},
        {"\3foo", false, NULL},
        {"\6spdy/3\10http/1.0", false, NULL},
        {NULL, false, ""},
        {"\2h2", true, "h2"},
        {"\10http/1.1\2h2", true, "h2"},
        {"\10http/1.1", true, NULL},
        {NULL, true, NULL},
    };
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t v = 0; v < 2; v++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct secure secure;
            const unsigned char *chosen;
            unsigned length;
            secure_open(&secure, PK_SERVER_OPTS(.http2_only = cases[i].http2_only), NULL, NULL);
            SSL_CTX_set_min_proto_version(secure.context, versions[v]);
            SSL_CTX_set_max_proto_version(secure.context, versions[v]);
            secure_join(&secure, cases[i].offer);
            secure_run(&secure);
            cr_expect_eq(secure.shaken, cases[i].chosen != NULL, "%zu", i);
            cr_expect_eq(secure.alert, cases[i].chosen ? -1 : 120, "%zu: %d", i, secure.alert);
            SSL_get0_alpn_selected(secure.ssl, &chosen, &length);
            if (cases[i].chosen) {
                cr_expect_eq(length, strlen(cases[i].chosen), "%zu", i);
                cr_expect_eq(length == 0 ? 0 : memcmp(chosen, cases[i].chosen, length), 0);
            }
            if (length == 2) {
                secure_greet(&secure);
                call_echo(&secure, 1, 100);
                secure_run(&secure);
                cr_expect_eq(body_of(&secure.in, 1), 100, "%zu", i);
            } else if (cases[i].chosen) {
                secure.http1 = true;
                put(&secure.out, get, sizeof get - 1);
                secure_run(&secure);
                cr_expect(got_text(&secure, "HTTP/1.1 200 OK"), "%zu", i);
                cr_expect_str_eq(secure.acceptor.scheme, "https", "%zu", i);
            }
            secure_close(&secure);
        }
    }
}

Test(tls_server, lets_the_first_bytes_decide_without_alpn)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure_join(&secure, NULL);
    secure_greet(&secure);
    call_echo(&secure, 1, 100);
    secure_run(&secure);
    cr_assert_eq(body_of(&secure.in, 1), 100);
    secure_close(&secure);
}

Test(tls_server, speaks_no_version_below_1_2_and_no_cipher_that_http2_forbids)
{
    static const struct {
        int version;
        const char *ciphers; /* of TLS 1.2; NULL: all */
        bool works;
    } cases[] = {
        {TLS1_VERSION, NULL, false},
        {TLS1_1_VERSION, NULL, false},
        {TLS1_2_VERSION, NULL, true},
        {TLS1_3_VERSION, NULL, true},
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256", true},
        {TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305", true},
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA", false},    /* CBC: RFC 9113 appendix A */
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA384", false}, /* likewise */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct secure secure;
        secure_open(&secure, NULL, NULL, NULL);
        SSL_CTX_set_min_proto_version(secure.context, cases[i].version);
        SSL_CTX_set_max_proto_version(secure.context, cases[i].version);
        SSL_CTX_set_cipher_list(secure.context, cases[i].ciphers ? cases[i].ciphers : "ALL");
        secure_join(&secure, "\2h2");
        secure_run(&secure);
        cr_expect_eq(secure.shaken, cases[i].works, "%zu", i);
        if (!cases[i].works)
            cr_expect(secure.alert == 70 || secure.alert == 40, "%zu: %d", i, secure.alert);
        secure_close(&secure);
    }
}

Test(tls_server, carries_large_bodies_both_ways_with_one_write_per_turn)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t v = 0; v < 2; v++) {
        struct secure secure;
        secure_open(&secure, NULL, NULL, NULL);
        SSL_CTX_set_max_proto_version(secure.context, versions[v]);
        secure_join_http2(&secure);
        put_window(&secure.out, 0, 16 << 20);
        put_request(&secure.out, 1, true, "/bytes/5000000", NULL);
        put_window(&secure.out, 1, 16 << 20);
        call_echo(&secure, 3, 60000);
        call_echo(&secure, 5, 1);
        secure_run(&secure);
        cr_expect_eq(body_of(&secure.in, 1), 5000000);
        cr_expect_eq(body_of(&secure.in, 3), 60000);
        cr_expect_eq(body_of(&secure.in, 5), 1);
        secure_close(&secure);
    }
}

Test(tls_server, takes_a_handshake_and_a_call_byte_by_byte)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure.piece = 1;
    secure_join_http2(&secure);
    call_echo(&secure, 1, 300);
    secure_run(&secure);
    cr_assert_eq(body_of(&secure.in, 1), 300);
    secure_close(&secure);
}

/* The client's first flight, and what follows the server's answer, cut at every byte. */
Test(tls_server, loses_nothing_when_a_handshake_is_cut_at_any_byte)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    for (size_t v = 0; v < 2; v++) {
        SSL_CTX_set_max_proto_version(secure.context, versions[v]);
        bool whole = false;
        for (size_t cut = 1; !whole; cut++) {
            secure.allowance = cut;
            secure_join_http2(&secure);
            secure_run(&secure);
            whole = secure.allowance > 0;
            secure_leave(&secure);
            cr_assert_eq(secure.server->connection_count, 0, "%zu", cut);
        }
    }
    cr_assert(secure.shaken);
    cr_assert_eq(secure.server->host.securing_count, 0);
    secure_close(&secure);
}

/* Each byte that the client sends before its first call is changed in turn. */
Test(tls_server, outlives_a_handshake_that_is_changed_at_any_byte)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    for (size_t v = 0; v < 2; v++) {
        SSL_CTX_set_max_proto_version(secure.context, versions[v]);
        bool unchanged = false;
        for (size_t place = 1; !unchanged; place++) {
            secure.flipped = place;
            secure_join_http2(&secure);
            secure_run(&secure);
            unchanged = secure.sent < place;
            secure_leave(&secure);
            cr_assert_eq(secure.server->connection_count, 0, "%zu", place);
        }
    }
    cr_assert_eq(secure.acceptor.accepted, 0);
    secure.flipped = 0;
    secure_close(&secure);
}

Test(tls_server, ends_connections_that_speak_something_else)
{
    static const struct {
        const char *bytes;
        size_t length;
    } cases[] = {
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33},
        {"GET / HTTP/1.1\r\n\r\n", 18},
        {"\x16\x03\x01\xff\xff\x01", 6},                  /* a record that is too long */
        {"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 10}, /* a hello cut short */
        {"\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9},      /* a server's message */
        {"\x17\x03\x03\x00\x03"
         "abc",
         8},                                 /* data before the handshake */
        {"\x15\x03\x03\x00\x02\x02\x28", 7}, /* a fatal alert */
        {"\0\0\0\0\0\0\0\0\0\0\0\0", 12},
        {"SSH-2.0-x\r\n", 11},
    };
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        secure_join_bare(&secure);
        put(&secure.out, cases[i].bytes, cases[i].length);
        secure_run(&secure);
        cr_expect(secure.closed, "%zu", i);
        secure_leave(&secure);
        cr_expect_eq(secure.server->connection_count, 0, "%zu", i);
    }
    secure_join_http2(&secure);
    call_echo(&secure, 1, 10);
    secure_run(&secure);
    cr_assert_eq(body_of(&secure.in, 1), 10, "the server goes on");
    secure_close(&secure);
}

Test(tls_server, ends_a_connection_whose_records_are_forged)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure_join_http2(&secure);
    put_request(&secure.out, 1, false, "/echo", NULL);
    secure_run(&secure);
    cr_assert_eq(secure.acceptor.accepted, 1);
    static const uint8_t forged[] = "\x17\x03\x03\x00\x20 this is not what the key would give..";
    cr_assert_eq(write(secure.fd, forged, 37), 37);
    secure_run(&secure);
    cr_assert_eq(secure.alert, SSL_AD_BAD_RECORD_MAC);
    cr_assert_eq(secure.acceptor.cancelled, 1);
    secure_close(&secure);
}

Test(tls_server, gives_up_a_handshake_that_takes_too_long_while_others_are_served)
{
    struct secure slow, quick;
    secure_open(&slow, PK_SERVER_OPTS(.header_timeout_ms = 3000), NULL, NULL);
    secure_join_bare(&slow);
    put(&slow.out, "\x16\x03\x01\x02", 4);
    secure_run(&slow);
    quick = slow;
    quick.fd = -1;
    quick.out = (struct bytes){0};
    quick.ssl = NULL;
    secure_join(&quick, "\2h2");
    secure_greet(&quick);
    call_echo(&quick, 1, 10);
    secure_run(&quick);
    cr_expect_eq(body_of(&quick.in, 1), 10);
    for (int i = 0; i < 3; i++) {
        put(&slow.out, "\0", 1); /* bytes that come do not help */
        secure_run(&slow);
        secure_ticks(&slow, 1);
    }
    cr_expect_not(slow.closed);
    secure_ticks(&slow, 1);
    cr_expect(slow.closed);
    cr_expect_eq(slow.server->connection_count, 1);
    secure_leave(&quick);
    bytes_free(&quick.out);
    slow.acceptor = quick.acceptor;
    secure_close(&slow);
}

Test(tls_server, cuts_the_oldest_handshake_when_too_many_are_under_way)
{
    enum { MOST = 3, ALL = 5 };
    struct secure all[ALL];
    secure_open(&all[0], PK_SERVER_OPTS(.max_handshakes = MOST), NULL, NULL);
    for (int i = 0; i < ALL; i++) {
        if (i > 0) {
            all[i] = all[0];
            all[i].out = (struct bytes){0};
        }
        secure_join_bare(&all[i]);
    }
    for (int i = 0; i < ALL; i++)
        secure_run(&all[i]);
    for (int i = 0; i < ALL; i++)
        cr_expect_eq(all[i].closed, i < ALL - MOST, "%d", i);
    cr_expect_eq(all[0].server->host.securing_count, MOST);
    for (int i = 1; i < ALL; i++) {
        secure_leave(&all[i]);
        bytes_free(&all[i].out);
    }
    cr_expect_eq(all[0].server->host.securing_count, 0);
    secure_close(&all[0]);
}

Test(tls_server, ends_with_close_notify_and_takes_the_peers)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure_join_http2(&secure);
    secure_run(&secure);
    SSL_shutdown(secure.ssl);
    secure_run(&secure);
    cr_expect(secure.notified, "the peer has ended");
    cr_expect_eq(secure.server->connection_count, 0);
    secure_leave(&secure);

    secure_join_http2(&secure);
    put_request(&secure.out, 1, true, "/later", NULL);
    secure_run(&secure);
    pk_detach(pk_server_stop(secure.server, 10000));
    secure_run(&secure);
    cr_expect_not(secure.notified, "a call is open");
    path_acceptor_answer(&secure.acceptor);
    secure_run(&secure);
    put_ping(&secure.out, true, 0);
    secure_ticks(&secure, 4);
    cr_expect_eq(status_of(&secure.in, 1), 200);
    cr_expect(secure.notified, "the server has ended");
    cr_expect_eq(secure.alert, -1);
    secure_close(&secure);
}

Test(tls_server, takes_a_connection_that_ends_without_close_notify_for_lost)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure_join_http2(&secure);
    put_request(&secure.out, 1, false, "/echo", NULL);
    secure_run(&secure);
    secure_leave(&secure);
    cr_expect_eq(secure.acceptor.cancelled, 1);
    cr_expect_eq(secure.server->connection_count, 0);
    secure_close(&secure);
}

Test(tls_server, answers_key_updates_and_refuses_renegotiation)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure_join_http2(&secure);
    secure_run(&secure);
    SSL_key_update(secure.ssl, SSL_KEY_UPDATE_REQUESTED);
    call_echo(&secure, 1, 100);
    secure_run(&secure);
    cr_expect_eq(body_of(&secure.in, 1), 100);
    secure_leave(&secure);

    SSL_CTX_set_max_proto_version(secure.context, TLS1_2_VERSION);
    secure_join_http2(&secure);
    secure_run(&secure);
    cr_expect(secure.shaken);
    cr_expect_eq(SSL_renegotiate(secure.ssl), 1);
    SSL_do_handshake(secure.ssl);
    secure_run(&secure);
    cr_expect_eq(secure.alert, SSL_AD_NO_RENEGOTIATION);
    ERR_clear_error();
    secure_close(&secure);
}

/* ---- Listeners ---- */

/* The common name that a new connection is shown. */
static void name_of_server(struct secure *secure, char *ret_name, int size)
{
    secure_join(secure, "\2h2");
    secure_run(secure);
    cr_assert(secure->shaken);
    X509 *certificate = SSL_get1_peer_certificate(secure->ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, ret_name, size);
    X509_free(certificate);
}

Test(tls_server, takes_other_credentials_while_it_runs)
{
    struct secure secure;
    const char *plain, *bound;
    char name[64];
    secure_open(&secure, NULL, NULL, NULL);
    cr_assert_eq(pk_server_listen(secure.server, "127.0.0.1:0", &plain), 0);
    cr_assert_eq(pk_server_set_credentials(secure.server, NULL, secure.credentials), PK_ERR_INVALID,
                 "there is no listener with TLS");
    cr_assert_eq(pk_server_listen_tls(secure.server, "127.0.0.1:0", secure.credentials, &bound), 0);
    cr_assert_eq(pk_server_set_credentials(secure.server, plain, secure.credentials),
                 PK_ERR_INVALID, "one without TLS stays so");
    pk_server_credentials *others;
    cr_assert_eq(pk_server_credentials_new(
                     &others,
                     PK_SERVER_CREDENTIALS(.certificate.file = certificate_path("chain.pem"),
                                           .key.file = certificate_path("chain.key")),
                     NULL),
                 0);
    struct pk_listener *listener = secure.server->listeners;
    cr_assert_eq(listener->credentials, secure.credentials);
    cr_assert_eq(pk_server_set_credentials(secure.server, bound, others), 0);
    cr_assert_eq(listener->credentials, others);
    cr_assert_eq(pk_server_set_credentials(secure.server, NULL, secure.credentials), 0);
    cr_assert_eq(listener->credentials, secure.credentials);

    name_of_server(&secure, name, sizeof name);
    cr_expect_str_eq(name, "server");
    pk_server_credentials_unref(secure.credentials);
    secure.credentials = others;
    secure_greet(&secure);
    call_echo(&secure, 1, 10);
    secure_run(&secure);
    cr_expect_eq(body_of(&secure.in, 1), 10, "a connection goes on with those it began with");
    secure_leave(&secure);
    name_of_server(&secure, name, sizeof name);
    cr_expect_str_eq(name, "chain");
    secure_close(&secure);
}

/* ---- Memory ---- */

/* Every allocation of the loop fails in turn: one connection may end, the server goes on. */
Test(tls_server, survives_each_allocation_that_fails)
{
    size_t needed = SIZE_MAX;
    for (size_t fail = 1; fail <= needed; fail++) {
        counting_allocator counts = {0};
        struct secure secure;
        secure_open(&secure, NULL, NULL, COUNTING_ALLOCATOR(&counts));
        size_t before = counts.requests;
        secure.acceptor.careful = true;
        counts.fail_at = before + fail;
        counts.fail_more = 0;
        secure_join_http2(&secure);
        call_echo(&secure, 1, 40000);
        secure_run(&secure);
        if (fail == needed || counts.requests < counts.fail_at)
            needed = fail;
        counts.fail_at = 0;
        secure_leave(&secure);
        secure_join_http2(&secure);
        call_echo(&secure, 1, 100);
        secure_run(&secure);
        cr_assert_eq(body_of(&secure.in, 1), 100, "after %zu", fail);
        secure_close(&secure);
        cr_assert_eq(counts.blocks, 0);
    }
    cr_assert_geq(needed, 5);
}

/* Only what the server does is refused memory, not the peer in this process. */
static void count_openssl(bool on)
{
    openssl_counts = on;
}

Test(tls_server, survives_each_allocation_of_openssl_that_fails)
{
    cr_assert_eq(openssl_taken, 1);
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    bool whole = false;
    for (size_t fail = 1; !whole; fail += 1 + fail / 64) {
        openssl_requests = 0;
        openssl_fail_at = fail;
        secure.serving = count_openssl;
        secure_join_http2(&secure);
        call_echo(&secure, 1, 100);
        secure_run(&secure);
        whole = openssl_requests < fail;
        if (whole)
            cr_assert_eq(body_of(&secure.in, 1), 100);
        secure_leave(&secure);
        secure.serving = NULL;
        cr_assert_eq(secure.server->connection_count, 0, "%zu", fail);
        if (fail % 8 == 1 || whole) {
            secure_join_http2(&secure);
            call_echo(&secure, 1, 100);
            secure_run(&secure);
            cr_assert_eq(body_of(&secure.in, 1), 100, "after %zu", fail);
            secure_leave(&secure);
        }
    }
    cr_assert_gt(openssl_requests, 50);
    secure_close(&secure);
}

Test(tls_server, keeps_little_for_a_connection_that_rests)
{
    struct secure secure;
    secure_open(&secure, NULL, NULL, NULL);
    secure_join_http2(&secure);
    call_echo(&secure, 1, 100);
    secure_run(&secure);
    secure_ticks(&secure, 3); /* the buffers of TLS are given back */
    call_echo(&secure, 3, 40000);
    secure_run(&secure);
    cr_assert_eq(body_of(&secure.in, 3), 40000);
    secure_close(&secure);
}
