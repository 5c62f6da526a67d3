/* Certificates' files of a configuration: see credentials.h. */
#include "gateway/credentials.h"

static int tell(gateway_error *error, int r, const char *problem)
{
    if (r < 0)
        snprintf(error->text, sizeof error->text, "%s", problem);
    return r;
}

static int open_for_upstreams(gateway_config *config, gateway_error *error)
{
    char problem[PK_TLS_PROBLEM];
    const pk_channel_credentials_opts *opts =
        PK_CHANNEL_CREDENTIALS(.server_ca.file = config->upstream_ca,
                               .certificate.file = config->upstream_cert,
                               .key.file = config->upstream_key);
    int r = pk_channel_credentials_new(&config->upstream_credentials, opts, problem);
    return tell(error, r, problem);
}

static int open_for_listeners(gateway_config *config, gateway_error *error)
{
    char problem[PK_TLS_PROBLEM];
    const pk_server_credentials_opts *opts =
        PK_SERVER_CREDENTIALS(.certificate.file = config->tls_cert, .key.file = config->tls_key,
                              .client_ca.file = config->tls_client_ca,
                              .client_certificates = config->tls_client_ca
                                                         ? PK_CLIENT_CERTIFICATES_REQUIRED
                                                         : PK_CLIENT_CERTIFICATES_NONE);
    int r = pk_server_credentials_new(&config->credentials, opts, problem);
    return tell(error, r, problem);
}

int gateway_credentials_open(gateway_config *config, gateway_error *ret_error)
{
    bool upstreams = gateway_upstreams_have_tls(&config->upstreams);
    int r = upstreams ? open_for_upstreams(config, ret_error) : 0;
    return r == 0 && config->tls_cert ? open_for_listeners(config, ret_error) : r;
}
