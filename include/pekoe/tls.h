/*
 * TLS: what servers and channels show and what they demand, and what is known of the peer of a call.
 *
 * Credentials are made once, from PEM, and never change afterwards. They are counted: whoever takes
 * some keeps a reference of its own. One object may serve the loops of several threads; it is the
 * one thing of pekoe, besides pk_loop_post, that may be used on any thread.
 *
 * TLS 1.2 and 1.3 are spoken (RFC 9113 section 9.2), with ciphers that HTTP/2 allows, without
 * compression and without renegotiation. Sessions may be resumed.
 */
#ifndef PEKOE_TLS_H
#define PEKOE_TLS_H

#include <pekoe/call.h>

PK_BEGIN_DECLS

/* PEM out of a file, or out of memory (ended by NUL). Neither: there is none. */
typedef struct pk_pem {
    const char *file;
    const char *text; /* counts where both are given */
} pk_pem;

#define PK_TLS_PROBLEM 256u /* bytes that hold any text of what is wrong with credentials */

/* ---- Servers ---- */

typedef struct pk_server_credentials pk_server_credentials;

/* Certificates of clients. One that is shown must be verified by `client_ca`, always. */
typedef enum pk_client_certificates {
    PK_CLIENT_CERTIFICATES_NONE,      /* none is asked for */
    PK_CLIENT_CERTIFICATES_REQUESTED, /* the client may show one */
    PK_CLIENT_CERTIFICATES_REQUIRED,  /* without one there is no connection */
} pk_client_certificates;

typedef struct pk_server_credentials_opts {
    size_t size;              /* set by PK_SERVER_CREDENTIALS */
    pk_pem certificate;       /* the server's own first, then those that issued it, in order */
    pk_pem key;               /* of the first certificate */
    const char *key_password; /* where the key is encrypted */
    pk_pem client_ca;         /* who may issue certificates of clients */
    pk_client_certificates client_certificates; /* needs client_ca, unless NONE */
} pk_server_credentials_opts;

#define PK_SERVER_CREDENTIALS(...) \
    (&(pk_server_credentials_opts){.size = sizeof(pk_server_credentials_opts), ##__VA_ARGS__})

/*
 * Makes credentials; the caller has the first reference. `opts` is copied. On an error `ret_problem`,
 * where not NULL, gets a text that names the file and what is wrong with it, and *ret_credentials is
 * untouched: PK_ERR_SYSTEM (a file cannot be read; see errno), PK_ERR_MALFORMED (it is no PEM of what
 * it should hold, or a password is missing or wrong), PK_ERR_INVALID (key and certificate do not
 * belong together, or something is missing), PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_server_credentials_new(pk_server_credentials **ret_credentials,
                                                  const pk_server_credentials_opts *opts,
                                                  char ret_problem[PK_TLS_PROBLEM]);

PK_API pk_server_credentials *pk_server_credentials_ref(pk_server_credentials *credentials);

/* Takes NULL; returns NULL. Connections that were accepted with them are not touched. */
PK_API pk_server_credentials *pk_server_credentials_unref(pk_server_credentials *credentials);

/* ---- Channels ---- */

typedef struct pk_channel_credentials pk_channel_credentials;

typedef struct pk_channel_credentials_opts {
    size_t size;              /* set by PK_CHANNEL_CREDENTIALS */
    pk_pem server_ca;         /* who may issue certificates of servers; none: the system's CAs */
    pk_pem certificate;       /* to be shown to servers that ask: the own one first, then issuers */
    pk_pem key;               /* of the first certificate */
    const char *key_password; /* where the key is encrypted */
    /*
     * Take any certificate of any server. The connection is encrypted, but nobody knows to whom: an
     * attacker on the way reads and changes everything. For tests.
     */
    bool insecure_skip_verification;
} pk_channel_credentials_opts;

#define PK_CHANNEL_CREDENTIALS(...) \
    (&(pk_channel_credentials_opts){.size = sizeof(pk_channel_credentials_opts), ##__VA_ARGS__})

/* As pk_server_credentials_new. `opts` NULL: the system's CAs, and nothing to show. */
PK_API PK_NODISCARD int pk_channel_credentials_new(pk_channel_credentials **ret_credentials,
                                                   const pk_channel_credentials_opts *opts,
                                                   char ret_problem[PK_TLS_PROBLEM]);

PK_API pk_channel_credentials *pk_channel_credentials_ref(pk_channel_credentials *credentials);

/* Takes NULL; returns NULL. Channels that were made with them are not touched. */
PK_API pk_channel_credentials *pk_channel_credentials_unref(pk_channel_credentials *credentials);

/* ---- The peer ---- */

/* What the handshake of a call's connection has told. Texts live as long as the connection. */
typedef struct pk_tls_info {
    const char *version;  /* "TLSv1.2" or "TLSv1.3" */
    const char *cipher;   /* "TLS_AES_128_GCM_SHA256" */
    const char *protocol; /* chosen by ALPN (RFC 7301): "h2", "http/1.1"; "": none was */
    bool resumed;         /* the session is an earlier one's */
    /*
     * The peer's own certificate; NULL and 0 where it has shown none. It is verified, but for a
     * channel that was told to skip that.
     */
    bool verified;
    const char *subject;      /* "CN=ann,O=Example", as RFC 2253 writes it */
    const char *common_name;  /* "ann"; NULL: the subject has none */
    const char *const *names; /* its alternative names: "DNS:a.example", "URI:spiffe://a/b",
                                 "IP:127.0.0.1", "email:ann@a.example" */
    size_t name_count;
    pk_slice der;    /* all of it */
    const char *pem; /* the same, with the lines around it */
} pk_tls_info;

/*
 * NULL for a call without TLS, for a client's call that has no connection (yet, or any more), and
 * for a server's whose response has left. Belongs to the connection: copy what must live longer.
 */
PK_API const pk_tls_info *pk_call_tls(const pk_call *call);

PK_END_DECLS

#endif
