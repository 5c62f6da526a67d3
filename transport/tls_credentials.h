/* The inside of credentials, for tls*.c: an SSL_CTX that nobody changes any more. */
#ifndef PEKOE_TRANSPORT_TLS_CREDENTIALS_H
#define PEKOE_TRANSPORT_TLS_CREDENTIALS_H

#include <pekoe/tls.h>

#include <openssl/ssl.h>

#include <stdatomic.h>

/* What both kinds are inside; their public names only tell them apart. */
typedef struct pk_tls_credentials {
    atomic_uint references;
    SSL_CTX *context;
} pk_tls_credentials;

struct pk_server_credentials {
    pk_tls_credentials tls;
};

struct pk_channel_credentials {
    pk_tls_credentials tls;
};

#endif
