/* The inside of credentials, for tls*.c: an SSL_CTX that nobody changes any more. */
#ifndef PEKOE_TRANSPORT_TLS_CREDENTIALS_H
#define PEKOE_TRANSPORT_TLS_CREDENTIALS_H

#include <pekoe/tls.h>

#include <openssl/ssl.h>

#include <stdatomic.h>

struct pk_server_credentials {
    atomic_uint references;
    SSL_CTX *context;
};

struct pk_channel_credentials {
    atomic_uint references;
    SSL_CTX *context;
    bool verifies;
};

#endif
