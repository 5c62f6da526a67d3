/* See secure_peer.h. */
#include "secure_peer.h"

#include <criterion/criterion.h>
#include <ev.h>
#include <openssl/err.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *certificate_path(const char *name)
{
    static char paths[8][512];
    static unsigned turn;
    const char *folder = getenv("CERTIFICATES");
    cr_assert_not_null(folder, "the environment names no folder of certificates");
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void on_info(const SSL *ssl, int where, int value)
{
    struct secure *secure = SSL_get_app_data(ssl);
    if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT)
        return;
    if ((value & 0xff) == SSL_AD_CLOSE_NOTIFY)
        secure->notified = true;
    else
        secure->alert = value & 0xff;
}

void secure_open(struct secure *secure, const pk_server_opts *opts,
                 const pk_server_credentials_opts *credentials, const pk_allocator *allocator)
{
    char problem[PK_TLS_PROBLEM] = "";
    signal(SIGPIPE, SIG_IGN); /* of the peer's own SSL_write; the server is tested elsewhere */
    *secure = (struct secure){.fd = -1, .alert = -1, .allowance = SIZE_MAX};
    path_acceptor_init(&secure->acceptor);
    const pk_server_credentials_opts *standard =
        PK_SERVER_CREDENTIALS(.certificate.file = certificate_path("server.pem"),
                              .key.file = certificate_path("server.key"));
    cr_assert_eq(pk_server_credentials_new(&secure->credentials,
                                           credentials ? credentials : standard, problem),
                 0, "%s", problem);
    cr_assert_eq(pk_loop_new(&secure->loop, PK_LOOP_OPTS(.allocator = allocator)), 0);
    cr_assert_eq(pk_server_new(&secure->server, secure->loop, opts), 0);
    pk_server_set_acceptor(secure->server, &secure->acceptor.acceptor);
    secure->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_info_callback(secure->context, on_info);
    SSL_CTX_set_security_level(secure->context, 0);
    SSL_CTX_set_mode(secure->context, SSL_MODE_ENABLE_PARTIAL_WRITE);
}

static int connect_peer(struct secure *secure)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    secure->fd = ends[1];
    secure->alert = -1;
    secure->sent = 0;
    secure->shaken = secure->closed = secure->notified = false;
    reader_init(&secure->in);
    if (secure->serving)
        secure->serving(true);
    int r = pk_server_adopt(secure->server, ends[0], "unix:", secure->credentials);
    if (secure->serving)
        secure->serving(false);
    if (r < 0)
        close(ends[0]);
    return r;
}

void secure_join_bare(struct secure *secure)
{
    (void) connect_peer(secure);
}

void secure_join(struct secure *secure, const char *alpn)
{
    (void) connect_peer(secure);
    secure->ssl = SSL_new(secure->context);
    SSL_set_app_data(secure->ssl, secure);
    SSL_set_connect_state(secure->ssl);
    /* Between both lies a buffer, so that a test can cut what goes to the server. */
    SSL_set_bio(secure->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(secure->ssl), -1);
    if (alpn)
        cr_assert_eq(
            SSL_set_alpn_protos(secure->ssl, (const unsigned char *) alpn, (unsigned) strlen(alpn)),
            0);
}

void secure_greet(struct secure *secure)
{
    put_preface(&secure->out);
    put_setting(&secure->out, 0, UINT32_MAX);
    put_frame(&secure->out, SETTINGS, ACK, 0, NULL, 0);
}

void secure_join_http2(struct secure *secure)
{
    secure_join(secure, "\2h2");
    secure_greet(secure);
}

static void took(struct bytes *bytes, size_t length)
{
    if (length == 0)
        return;
    memmove(bytes->at, bytes->at + length, bytes->length - length);
    bytes->length -= length;
}

/* Sends to the server; the bytes that went. */
static size_t send_bytes(struct secure *secure, const void *bytes, size_t length)
{
    if (secure->piece > 0 && length > secure->piece)
        length = secure->piece;
    if (length > secure->allowance)
        length = secure->allowance;
    uint8_t changed;
    if (secure->flipped > secure->sent && secure->flipped - secure->sent <= length) {
        size_t before = secure->flipped - secure->sent - 1;
        length = before > 0 ? before : 1;
        changed = *(const uint8_t *) bytes ^ 0x41;
        bytes = before > 0 ? bytes : &changed;
    }
    ssize_t n = length > 0 ? send(secure->fd, bytes, length, MSG_NOSIGNAL) : 0;
    if (n < 0 && errno != EAGAIN)
        secure->closed = true;
    if (n <= 0)
        return 0;
    secure->allowance -= (size_t) n;
    secure->sent += (size_t) n;
    return (size_t) n;
}

static void keep(struct secure *secure, const uint8_t *bytes, size_t length)
{
    if (secure->http1)
        put(&secure->in.rest, bytes, length);
    else
        cr_assert(reader_feed(&secure->in, bytes, length));
}

static bool fails(struct secure *secure, int result)
{
    int error = SSL_get_error(secure->ssl, result);
    ERR_clear_error();
    return error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
}

/* The peer's TLS goes on as far as it can. */
static void step_tls(struct secure *secure)
{
    static uint8_t bytes[16384];
    int n = 1;
    if (!secure->shaken) {
        n = SSL_do_handshake(secure->ssl);
        secure->shaken = n == 1;
        if (n != 1)
            secure->closed |= fails(secure, n);
    }
    while (secure->shaken && (n = SSL_read(secure->ssl, bytes, sizeof bytes)) > 0)
        keep(secure, bytes, (size_t) n);
    if (secure->shaken && n <= 0)
        secure->closed |= fails(secure, n);
    while (secure->shaken && secure->out.length > 0 &&
           (n = SSL_write(secure->ssl, secure->out.at, (int) secure->out.length)) > 0)
        took(&secure->out, (size_t) n);
}

/* Whether any byte has moved. */
static bool step(struct secure *secure)
{
    static uint8_t bytes[65536];
    size_t sent = 0;
    char *pending = NULL;
    ssize_t n = recv(secure->fd, bytes, sizeof bytes, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        secure->closed = true;
    if (n > 0 && secure->ssl)
        cr_assert_eq(BIO_write(SSL_get_rbio(secure->ssl), bytes, (int) n), (int) n);
    else if (n > 0)
        put(&secure->in.rest, bytes, (size_t) n);
    if (secure->ssl) {
        step_tls(secure);
        long length = BIO_get_mem_data(SSL_get_wbio(secure->ssl), &pending);
        sent = send_bytes(secure, pending, (size_t) length);
        if (sent > 0)
            BIO_read(SSL_get_wbio(secure->ssl), bytes, (int) sent);
    } else {
        sent = send_bytes(secure, secure->out.at, secure->out.length);
        took(&secure->out, sent);
    }
    return n > 0 || sent > 0;
}

void secure_run(struct secure *secure)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        if (secure->fd >= 0 && step(secure))
            quiet = -1;
        if (secure->serving)
            secure->serving(true);
        ev_run(pk_loop_ev(secure->loop), EVRUN_NOWAIT);
        pk_loop_end_turn(secure->loop);
        if (secure->serving)
            secure->serving(false);
    }
}

void secure_ticks(struct secure *secure, int count)
{
    for (int i = 0; i < count; i++) {
        secure->server->tick.fire(&secure->server->tick);
        secure_run(secure);
    }
}

void secure_leave(struct secure *secure)
{
    SSL_free(secure->ssl);
    secure->ssl = NULL;
    if (secure->fd >= 0)
        close(secure->fd);
    secure->fd = -1;
    secure_run(secure);
    secure->out.length = 0;
    reader_done(&secure->in);
}

void secure_close(struct secure *secure)
{
    const struct path_acceptor *acceptor = &secure->acceptor;
    pk_server_free(secure->server);
    pk_loop_end_turn(secure->loop);
    cr_expect_eq(acceptor->closed, acceptor->accepted + acceptor->refused,
                 "every exchange is closed once");
    cr_expect_eq(acceptor->events_after_end, 0, "events come in their order");
    cr_expect_eq(secure->loop->buffers.lent, 0, "every buffer is back");
    if (secure->fd >= 0) {
        close(secure->fd);
        SSL_free(secure->ssl);
        reader_done(&secure->in);
    }
    pk_loop_free(secure->loop);
    bytes_free(&secure->out);
    SSL_CTX_free(secure->context);
    pk_server_credentials_unref(secure->credentials);
}
