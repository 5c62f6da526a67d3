/* Credentials: OpenSSL contexts made from PEM, and what is wrong with that. See pekoe/tls.h. */
#include "transport/tls_credentials.h"

#include "transport/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is being loaded, and where the problem is told. */
struct loading {
    SSL_CTX *context;
    char *problem; /* PK_TLS_PROBLEM bytes */
};

static const char *name_of(const pk_pem *pem)
{
    return pem->text ? "the PEM in memory" : pem->file;
}

static bool is_given(const pk_pem *pem)
{
    return pem->text || pem->file;
}

static int out_of_memory(struct loading *loading)
{
    snprintf(loading->problem, PK_TLS_PROBLEM, "out of memory");
    return PK_ERR_NOMEM;
}

/* What OpenSSL found, with the source that it was found in. */
static int refused(struct loading *loading, int error, const char *name, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    snprintf(loading->problem, PK_TLS_PROBLEM, "%s: %s%s%s", name, what, reason ? ": " : "",
             reason ? reason : "");
    return error;
}

static int open_pem(struct loading *loading, const pk_pem *pem, BIO **ret_bio)
{
    ERR_clear_error();
    errno = 0;
    BIO *bio = pem->text ? BIO_new_mem_buf(pem->text, -1) : BIO_new_file(pem->file, "r");
    if (!bio && pem->text)
        return out_of_memory(loading);
    if (!bio) {
        int error = errno ? errno : EIO;
        snprintf(loading->problem, PK_TLS_PROBLEM, "%s: %s", pem->file, strerror(error));
        errno = error;
        return PK_ERR_SYSTEM;
    }
    *ret_bio = bio;
    return 0;
}

/* Whether reading has ended because there is no further object, and not because one is broken. */
static bool is_end(void)
{
    unsigned long error = ERR_peek_last_error();
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

/* Whether nothing was found that any decoder takes for a key. */
static bool is_no_key(void)
{
    unsigned long error = ERR_peek_last_error();
    return ERR_GET_LIB(error) == ERR_LIB_OSSL_DECODER && ERR_GET_REASON(error) == ERR_R_UNSUPPORTED;
}

/* Never asks on a terminal. */
static int give_password(char *ret_password, int size, int writing, void *arg)
{
    const char *password = arg;
    size_t length = password ? strlen(password) : 0;
    if (length == 0 || length > (size_t) size)
        return -1;
    memcpy(ret_password, password, length);
    return (int) length;
}

/* ---- Certificates and keys ---- */

static int use_one(struct loading *loading, const pk_pem *pem, X509 *certificate, unsigned number)
{
    if (number == 0 && SSL_CTX_use_certificate(loading->context, certificate) != 1)
        return refused(loading, PK_ERR_MALFORMED, name_of(pem), "the certificate cannot be used");
    if (number > 0 && SSL_CTX_add1_chain_cert(loading->context, certificate) != 1)
        return refused(loading, PK_ERR_MALFORMED, name_of(pem),
                       "a certificate of the chain cannot be used");
    return 0;
}

static int trust_one(struct loading *loading, const pk_pem *pem, X509 *certificate, unsigned number)
{
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(loading->context), certificate) != 1 ||
        SSL_CTX_add_client_CA(loading->context, certificate) != 1)
        return refused(loading, PK_ERR_MALFORMED, name_of(pem), "a CA certificate cannot be used");
    return 0;
}

typedef int use_fn(struct loading *loading, const pk_pem *pem, X509 *certificate, unsigned number);

/* Hands each certificate of a PEM to `use`. */
static int each_certificate(struct loading *loading, const pk_pem *pem, use_fn *use)
{
    BIO *bio = NULL;
    unsigned number = 0;
    int r = open_pem(loading, pem, &bio);
    while (r == 0) {
        X509 *certificate = PEM_read_bio_X509_AUX(bio, NULL, give_password, NULL);
        if (!certificate)
            break;
        r = use(loading, pem, certificate, number++);
        X509_free(certificate);
    }
    if (r == 0 && number == 0 && is_end()) {
        snprintf(loading->problem, PK_TLS_PROBLEM, "%s: there is no certificate in it",
                 name_of(pem));
        r = PK_ERR_MALFORMED;
    } else if (r == 0 && !is_end()) {
        r = refused(loading, PK_ERR_MALFORMED, name_of(pem), "a certificate cannot be read");
    }
    BIO_free(bio);
    ERR_clear_error();
    return r;
}

static int use_key(struct loading *loading, const pk_pem *pem, const pk_pem *certificate,
                   const char *password)
{
    BIO *bio = NULL;
    int r = open_pem(loading, pem, &bio);
    if (r < 0)
        return r;
    EVP_PKEY *key =
        PEM_read_bio_PrivateKey(bio, NULL, give_password, (void *) (uintptr_t) password);
    if (!key && (is_end() || is_no_key())) {
        snprintf(loading->problem, PK_TLS_PROBLEM, "%s: there is no private key in it",
                 name_of(pem));
        r = PK_ERR_MALFORMED;
    } else if (!key) {
        r = refused(loading, PK_ERR_MALFORMED, name_of(pem), "the key cannot be read");
    } else if (X509_check_private_key(SSL_CTX_get0_certificate(loading->context), key) != 1) {
        snprintf(loading->problem, PK_TLS_PROBLEM,
                 "%s: the key does not belong to the certificate of %s", name_of(pem),
                 name_of(certificate));
        r = PK_ERR_INVALID;
    } else if (SSL_CTX_use_PrivateKey(loading->context, key) != 1) {
        r = refused(loading, PK_ERR_MALFORMED, name_of(pem), "the key cannot be used");
    }
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    return r;
}

/* The side's own certificate and key. */
static int use_identity(struct loading *loading, const pk_pem *certificate, const pk_pem *key,
                        const char *password)
{
    int r = each_certificate(loading, certificate, use_one);
    return r < 0 ? r : use_key(loading, key, certificate, password);
}

/* ---- Contexts ---- */

/* What both sides' contexts have in common: RFC 9113 section 9.2. */
static int new_context(struct loading *loading, const SSL_METHOD *method)
{
    ERR_clear_error();
    loading->context = SSL_CTX_new(method);
    SSL_CTX *context = loading->context;
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        /* Forward secrecy and AEAD only; among them is the one that every HTTP/2 must take. */
        SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
        return out_of_memory(loading);
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return 0;
}

/* The name that was wanted, and those that there are. */
static void tell_names(pk_tls *tls, const X509 *certificate, const char *reason)
{
    pk_tls_info info = {.name_count = 0};
    char names[160] = "no host";
    size_t length = 0;
    pk_tls_describe_names(&tls->arena, certificate, &info);
    for (size_t i = 0; i < info.name_count && length < sizeof names; i++)
        length += (size_t) snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "",
                                    info.names[i]);
    snprintf(tls->refusal, sizeof tls->refusal, "%s (it is for %s, not for %.100s)", reason, names,
             tls->target->name);
}

/* Remembers the first thing that is wrong with the peer's chain. */
static int on_verified(int right, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    pk_tls *tls = SSL_get_app_data(ssl);
    if (right || tls->refusal[0])
        return right;
    int error = X509_STORE_CTX_get_error(store);
    const X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    const char *reason = X509_verify_cert_error_string(error);
    char subject[96] = "";
    if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        tell_names(tls, certificate, reason);
        return 0;
    }
    if (certificate)
        X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof subject);
    snprintf(tls->refusal, sizeof tls->refusal, "%s%s%s%s", reason, subject[0] ? " (" : "", subject,
             subject[0] ? ")" : "");
    return 0;
}

/* RFC 7301 section 3.2: the server's order counts; nothing that fits is a fatal alert, 120. */
static int choose_protocol(SSL *ssl, const unsigned char **ret_chosen, unsigned char *ret_length,
                           const unsigned char *offered, unsigned offered_length, void *arg)
{
    static const unsigned char ours[] = "\2h2\10http/1.1";
    const pk_tls *tls = SSL_get_app_data(ssl);
    unsigned char *chosen;
    int r =
        SSL_select_next_proto(&chosen, ret_length, ours,
                              tls->http1 ? (unsigned) sizeof ours - 1 : 3, offered, offered_length);
    if (r != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_chosen = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Without ALPN only HTTP/1.1 may be spoken, and what it lets begin (RFC 9113 section 3.2). */
static int on_hello(SSL *ssl, int *ret_alert, void *arg)
{
    const pk_tls *tls = SSL_get_app_data(ssl);
    const unsigned char *extension;
    size_t length;
    if (tls->http1 ||
        SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation,
                                  &extension, &length) == 1)
        return SSL_CLIENT_HELLO_SUCCESS;
    *ret_alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
}

/* ---- Credentials of either kind ---- */

/* Takes the context; `loaded` is how its loading went. */
static int make(struct loading *loading, int loaded, pk_tls_credentials **ret_credentials)
{
    pk_tls_credentials *credentials = loaded == 0 ? malloc(sizeof *credentials) : NULL;
    if (!credentials) {
        SSL_CTX_free(loading->context);
        ERR_clear_error();
        return loaded < 0 ? loaded : out_of_memory(loading);
    }
    atomic_init(&credentials->references, 1);
    credentials->context = loading->context;
    *ret_credentials = credentials;
    return 0;
}

static void add_reference(pk_tls_credentials *credentials)
{
    atomic_fetch_add_explicit(&credentials->references, 1, memory_order_relaxed);
}

static void drop_reference(pk_tls_credentials *credentials)
{
    if (atomic_fetch_sub_explicit(&credentials->references, 1, memory_order_acq_rel) > 1)
        return;
    SSL_CTX_free(credentials->context);
    free(credentials);
}

/* ---- Servers ---- */

static int load_server(struct loading *loading, const pk_server_credentials_opts *opts)
{
    static const unsigned char session_context[] = "pekoe";
    int r = new_context(loading, TLS_server_method());
    if (r < 0)
        return r;
    SSL_CTX *context = loading->context;
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets keep no state here */
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    SSL_CTX_set_client_hello_cb(context, on_hello, NULL);
    if (SSL_CTX_set_session_id_context(context, session_context, sizeof session_context) != 1)
        return out_of_memory(loading);
    r = use_identity(loading, &opts->certificate, &opts->key, opts->key_password);
    if (r < 0 || opts->client_certificates == PK_CLIENT_CERTIFICATES_NONE)
        return r;
    SSL_CTX_set_verify(context,
                       SSL_VERIFY_PEER |
                           (opts->client_certificates == PK_CLIENT_CERTIFICATES_REQUIRED
                                ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                                : 0),
                       on_verified);
    return each_certificate(loading, &opts->client_ca, trust_one);
}

/* What is missing in the options, or NULL. */
static const char *missing_for_server(const pk_server_credentials_opts *opts)
{
    if (!is_given(&opts->certificate))
        return "there is no certificate";
    if (!is_given(&opts->key))
        return "there is no key";
    if (opts->client_certificates > PK_CLIENT_CERTIFICATES_REQUIRED)
        return "client_certificates is none of its values";
    if (opts->client_certificates != PK_CLIENT_CERTIFICATES_NONE && !is_given(&opts->client_ca))
        return "client certificates are asked for, and there is no client_ca";
    if (opts->client_certificates == PK_CLIENT_CERTIFICATES_NONE && is_given(&opts->client_ca))
        return "there is a client_ca, and client certificates are not asked for";
    return NULL;
}

int pk_server_credentials_new(pk_server_credentials **ret_credentials,
                              const pk_server_credentials_opts *opts_in,
                              char ret_problem[PK_TLS_PROBLEM])
{
    pk_server_credentials_opts opts = {.size = sizeof opts};
    memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    char unasked[PK_TLS_PROBLEM];
    struct loading loading = {.problem = ret_problem ? ret_problem : unasked};
    const char *missing = missing_for_server(&opts);
    if (missing) {
        snprintf(loading.problem, PK_TLS_PROBLEM, "%s", missing);
        return PK_ERR_INVALID;
    }
    pk_tls_credentials *made;
    int r = make(&loading, load_server(&loading, &opts), &made);
    if (r == 0)
        *ret_credentials = (pk_server_credentials *) made;
    return r;
}

pk_server_credentials *pk_server_credentials_ref(pk_server_credentials *credentials)
{
    add_reference(&credentials->tls);
    return credentials;
}

pk_server_credentials *pk_server_credentials_unref(pk_server_credentials *credentials)
{
    if (credentials)
        drop_reference(&credentials->tls);
    return NULL;
}

/* ---- Channels ---- */

/* A session that a later connection may resume. 1: the reference is ours now. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    const pk_tls *tls = SSL_get_app_data(ssl);
    SSL_SESSION_free(tls->target->session);
    tls->target->session = session;
    return 1;
}

static int load_channel(struct loading *loading, const pk_channel_credentials_opts *opts)
{
    int r = new_context(loading, TLS_client_method());
    if (r < 0)
        return r;
    SSL_CTX *context = loading->context;
    SSL_CTX_set_session_cache_mode(context,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    if (SSL_CTX_set_alpn_protos(context, (const unsigned char *) "\2h2", 3) != 0)
        return out_of_memory(loading);
    if (!opts->insecure_skip_verification)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, on_verified);
    if (is_given(&opts->server_ca))
        r = each_certificate(loading, &opts->server_ca, trust_one);
    else if (SSL_CTX_set_default_verify_paths(context) != 1)
        r = out_of_memory(loading);
    if (r == 0 && is_given(&opts->certificate))
        r = use_identity(loading, &opts->certificate, &opts->key, opts->key_password);
    return r;
}

int pk_channel_credentials_new(pk_channel_credentials **ret_credentials,
                               const pk_channel_credentials_opts *opts_in,
                               char ret_problem[PK_TLS_PROBLEM])
{
    pk_channel_credentials_opts opts = {.size = sizeof opts};
    if (opts_in)
        memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    char unasked[PK_TLS_PROBLEM];
    struct loading loading = {.problem = ret_problem ? ret_problem : unasked};
    if (is_given(&opts.certificate) != is_given(&opts.key)) {
        snprintf(loading.problem, PK_TLS_PROBLEM, "a certificate and its key are given together");
        return PK_ERR_INVALID;
    }
    pk_tls_credentials *made;
    int r = make(&loading, load_channel(&loading, &opts), &made);
    if (r == 0)
        *ret_credentials = (pk_channel_credentials *) made;
    return r;
}

pk_channel_credentials *pk_channel_credentials_ref(pk_channel_credentials *credentials)
{
    add_reference(&credentials->tls);
    return credentials;
}

pk_channel_credentials *pk_channel_credentials_unref(pk_channel_credentials *credentials)
{
    if (credentials)
        drop_reference(&credentials->tls);
    return NULL;
}
