/*
 * What the certificates' files of a configuration hold: for listeners with TLS and for upstreams.
 */
#ifndef PEKOE_GATEWAY_CREDENTIALS_H
#define PEKOE_GATEWAY_CREDENTIALS_H

#include "gateway/config.h"

/*
 * Reads the files, where they are needed, into the configuration, which no other thread knows yet
 * and which frees them. 0, or PK_ERR_* with *ret_error filled.
 */
PK_NODISCARD int gateway_credentials_open(gateway_config *config, gateway_error *ret_error);

#endif
