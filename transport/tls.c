/*
 * TLS of a connection: see tls.h.
 *
 * OpenSSL reads and writes through a BIO of our own: it takes from the bytes that one read of the
 * socket has brought, and puts records straight into the pooled blocks that one write sends.
 */
#include "transport/tls.h"

#include "transport/socket.h"
#include "transport/tls_credentials.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define RECORD_BYTES 16384u /* of plain bytes in one record */
#define SEALED_LOW 131072u  /* bytes that are sealed ahead of one write */
#define SEALED_MAX 1048576u /* a peer that makes us answer and reads nothing is given up */
/* Wildcards stand for one whole label; the subject's common name is no name of a host. */
#define HOST_FLAGS (X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
#define PIECES 64 /* gathered by one write */

/* ---- The BIO ---- */

static int bio_read(BIO *bio, char *ret_bytes, size_t length, size_t *ret_read)
{
    pk_tls *tls = BIO_get_data(bio);
    size_t there = (size_t) (tls->in_end - tls->in);
    BIO_clear_retry_flags(bio);
    if (there == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    size_t part = length < there ? length : there;
    memcpy(ret_bytes, tls->in, part);
    tls->in += part;
    *ret_read = part;
    return 1;
}

static int bio_write(BIO *bio, const char *bytes, size_t length, size_t *ret_written)
{
    pk_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->sealed.bytes > SEALED_MAX ||
        pk_output_copy(&tls->sealed, (const uint8_t *) bytes, length) < 0)
        return 0;
    *ret_written = length;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method; /* one for the process, as long as it lives */

static void make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pekoe");
    if (made && BIO_meth_set_read_ex(made, bio_read) && BIO_meth_set_write_ex(made, bio_write) &&
        BIO_meth_set_ctrl(made, bio_control))
        method = made;
    else
        BIO_meth_free(made);
}

static BIO *new_bio(pk_tls *tls)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, tls);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- Failures ---- */

/* What OpenSSL found first, in words. */
static void tell(pk_tls *tls)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    const char *side = tls->client ? "server" : "client";
    const char *text = error != 0 ? ERR_reason_error_string(error) : NULL;
    const char *alert = text ? strstr(text, " alert ") : NULL; /* "tlsv1 alert unknown ca" */
    if (tls->refusal[0])
        snprintf(tls->failure, sizeof tls->failure, "TLS: the %s's certificate is refused: %s",
                 side, tls->refusal);
    else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET && alert)
        snprintf(tls->failure, sizeof tls->failure, "TLS: the %s refuses: %s", side, alert + 7);
    else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason == SSL_R_WRONG_VERSION_NUMBER)
        snprintf(tls->failure, sizeof tls->failure, "TLS: the %s does not speak it", side);
    else if (text)
        snprintf(tls->failure, sizeof tls->failure, "TLS: %s", text);
    else
        snprintf(tls->failure, sizeof tls->failure, "TLS: out of memory");
}

/* Whether OpenSSL only waits for bytes. If not, `closed` or `failure` says why none will come. */
static bool waits(pk_tls *tls, int result)
{
    int error = SSL_get_error(tls->ssl, result);
    if (error == SSL_ERROR_WANT_READ)
        return true;
    if (error == SSL_ERROR_ZERO_RETURN)
        tls->closed = true;
    else
        tell(tls);
    ERR_clear_error();
    return false;
}

/* ---- Reading ---- */

static bool shake_hands(pk_tls *tls)
{
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1) {
        (void) waits(tls, result);
        return false;
    }
    if (pk_tls_describe(tls) < 0) {
        snprintf(tls->failure, sizeof tls->failure, "TLS: out of memory");
        return false;
    }
    if (tls->client && strcmp(tls->info.protocol, "h2") != 0) {
        snprintf(tls->failure, sizeof tls->failure,
                 "TLS: the server does not choose HTTP/2 by ALPN");
        return false;
    }
    tls->established = true;
    return true;
}

/*
 * The bytes from the socket lie PK_TLS_RESERVE behind where plain ones are put, and OpenSSL takes a
 * record whole before it gives any of it back. What it may hold of an earlier read is less than a
 * record: plain bytes never reach those that are still to be taken.
 */
ssize_t pk_tls_read(pk_tls *tls, int fd, uint8_t *bytes, size_t length)
{
    assert(length > PK_TLS_RESERVE);
    uint8_t *sealed = bytes + PK_TLS_RESERVE;
    ssize_t from_socket = pk_socket_read(fd, sealed, length - PK_TLS_RESERVE);
    if (from_socket == PK_ERR_CLOSED && !tls->established && tls->failure[0] == '\0')
        snprintf(tls->failure, sizeof tls->failure,
                 "TLS: the peer closed the connection during the handshake");
    if (from_socket <= 0)
        return from_socket;
    tls->in = sealed;
    tls->in_end = sealed + from_socket;
    size_t got = 0;
    ERR_clear_error();
    if (tls->established || shake_hands(tls)) {
        size_t part;
        int result;
        while ((result = SSL_read_ex(tls->ssl, bytes + got, (size_t) (tls->in - (bytes + got)),
                                     &part)) == 1)
            got += part;
        (void) waits(tls, result);
    }
    tls->in = tls->in_end = NULL;
    return got == 0 && tls->failure[0] ? PK_ERR_MALFORMED : (ssize_t) got;
}

/* ---- Writing ---- */

/* What comes next, as one run of bytes: a record is filled from several pieces. */
static size_t next_record(const pk_output *output, uint8_t joined[RECORD_BYTES],
                          const uint8_t **ret_bytes)
{
    struct iovec pieces[16];
    int count = pk_output_gather(output, pieces, 16);
    if (count == 1 || pieces[0].iov_len >= RECORD_BYTES) {
        *ret_bytes = pieces[0].iov_base;
        return pieces[0].iov_len < RECORD_BYTES ? pieces[0].iov_len : RECORD_BYTES;
    }
    size_t length = 0;
    for (int i = 0; i < count && length < RECORD_BYTES; i++) {
        size_t room = RECORD_BYTES - length;
        size_t part = pieces[i].iov_len < room ? pieces[i].iov_len : room;
        memcpy(joined + length, pieces[i].iov_base, part);
        length += part;
    }
    *ret_bytes = joined;
    return length;
}

static int seal(pk_tls *tls, pk_output *output)
{
    uint8_t joined[RECORD_BYTES];
    ERR_clear_error();
    while (output->bytes > 0 && tls->sealed.bytes < SEALED_LOW) {
        const uint8_t *bytes = NULL;
        size_t written, length = next_record(output, joined, &bytes);
        if (SSL_write_ex(tls->ssl, bytes, length, &written) != 1) {
            tell(tls);
            ERR_clear_error();
            return PK_ERR_MALFORMED;
        }
        pk_output_advance(output, written);
    }
    return 0;
}

static ssize_t send_sealed(pk_tls *tls, int fd)
{
    if (tls->sealed.bytes == 0)
        return 0;
    struct iovec pieces[PIECES];
    int count = pk_output_gather(&tls->sealed, pieces, PIECES);
    ssize_t length = pk_socket_write(fd, pieces, count);
    if (length > 0)
        pk_output_advance(&tls->sealed, (size_t) length);
    return length;
}

ssize_t pk_tls_write(pk_tls *tls, int fd, pk_output *output)
{
    if (tls->established && !tls->ended && !tls->failure[0] && output->bytes > 0) {
        int r = seal(tls, output);
        if (r < 0)
            return r;
    }
    return send_sealed(tls, fd);
}

void pk_tls_end(pk_tls *tls, int fd)
{
    if (!tls->ended && tls->established && !tls->failure[0]) {
        ERR_clear_error();
        (void) SSL_shutdown(tls->ssl);
        ERR_clear_error();
    }
    tls->ended = true;
    if (send_sealed(tls, fd) < 0)
        pk_output_done(&tls->sealed); /* nobody is there any more */
}

void pk_tls_rest(pk_tls *tls)
{
    if (tls->established && tls->sealed.bytes == 0)
        (void) SSL_free_buffers(tls->ssl); /* refuses where something lies in them */
}

/* ---- Life ---- */

void pk_tls_free(pk_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    pk_output_done(&tls->sealed);
    pk_arena_done(&tls->arena);
    pk_memory_put(&tls->loop->memory, tls, sizeof *tls);
}

static pk_tls *new_tls(pk_loop *loop, SSL_CTX *context)
{
    pk_tls *tls = pk_memory_get(&loop->memory, sizeof *tls);
    if (!tls)
        return NULL;
    *tls = (pk_tls){.loop = loop};
    pk_output_init(&tls->sealed, &loop->buffers);
    pk_arena_init(&tls->arena, &loop->memory, 0);
    ERR_clear_error();
    tls->ssl = SSL_new(context);
    BIO *bio = tls->ssl ? new_bio(tls) : NULL;
    if (bio)
        SSL_set_bio(tls->ssl, bio, bio);
    if (!bio || !SSL_set_app_data(tls->ssl, tls)) {
        pk_tls_free(tls);
        ERR_clear_error();
        return NULL;
    }
    return tls;
}

int pk_tls_accept(pk_tls **ret_tls, pk_loop *loop, const pk_server_credentials *credentials,
                  bool http1)
{
    pk_tls *tls = new_tls(loop, credentials->tls.context);
    if (!tls)
        return PK_ERR_NOMEM;
    tls->http1 = http1;
    SSL_set_accept_state(tls->ssl);
    *ret_tls = tls;
    return 0;
}

/* ---- The client's end ---- */

/* A number is verified as such (RFC 9110 section 4.3.5), and never sent as a name. */
static bool set_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *parameters = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(parameters, name))
        return true;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(parameters, HOST_FLAGS);
    return X509_VERIFY_PARAM_set1_host(parameters, name, 0) && SSL_set_tlsext_host_name(ssl, name);
}

int pk_tls_connect(pk_tls **ret_tls, pk_loop *loop, pk_tls_target *target)
{
    pk_tls *tls = new_tls(loop, target->credentials->tls.context);
    if (!tls)
        return PK_ERR_NOMEM;
    tls->client = true;
    tls->target = target;
    SSL_set_connect_state(tls->ssl);
    bool named = set_name(tls->ssl, target->name);
    if (!named || (target->session && !SSL_set_session(tls->ssl, target->session))) {
        pk_tls_free(tls);
        ERR_clear_error();
        return named ? PK_ERR_NOMEM : PK_ERR_INVALID;
    }
    (void) shake_hands(tls);
    if (tls->failure[0]) {
        pk_tls_free(tls);
        return PK_ERR_NOMEM;
    }
    *ret_tls = tls;
    return 0;
}

pk_slice pk_tls_host_of(pk_slice authority)
{
    const uint8_t *at = authority.bytes, *end = at + authority.length;
    const uint8_t *colon = NULL;
    if (authority.length > 0 && *at == '[') {
        const uint8_t *bracket = memchr(at, ']', authority.length);
        return bracket ? (pk_slice){at + 1, (size_t) (bracket - at - 1)} : authority;
    }
    for (const uint8_t *one = at; one < end; one++) {
        if (*one == ':' && colon)
            return authority; /* an IPv6 address without brackets */
        if (*one == ':')
            colon = one;
    }
    if (colon)
        end = colon;
    if (end > at && end[-1] == '.')
        end--;
    return (pk_slice){at, (size_t) (end - at)};
}

bool pk_tls_is_named(const pk_tls *tls, pk_slice authority)
{
    char name[256];
    pk_slice host = pk_tls_host_of(authority);
    if (SSL_get_verify_mode(tls->ssl) == SSL_VERIFY_NONE)
        return true;
    if (host.length == 0 || host.length >= sizeof name)
        return false;
    memcpy(name, host.bytes, host.length);
    name[host.length] = '\0';
    X509 *certificate = SSL_get1_peer_certificate(tls->ssl);
    bool named =
        certificate && (X509_check_ip_asc(certificate, name, 0) == 1 ||
                        X509_check_host(certificate, name, host.length, HOST_FLAGS, NULL) == 1);
    X509_free(certificate);
    ERR_clear_error();
    return named;
}

void pk_tls_target_done(pk_tls_target *target)
{
    SSL_SESSION_free(target->session);
    target->session = NULL;
    target->credentials = pk_channel_credentials_unref(target->credentials);
}
