/*
 * The configuration of the gateway: what flags, environment and one file have said.
 *
 * A later source stands above an earlier one: built-in defaults, the file, the environment, flags.
 * A list that a source names replaces that of the sources below it. The keys have one table, from
 * which --help is printed too; docs/gateway.md describes them. Nothing here opens a socket.
 */
#ifndef PEKOE_GATEWAY_CONFIG_H
#define PEKOE_GATEWAY_CONFIG_H

#include <pekoe/tls.h>

#include "gateway/config_value.h"

typedef struct gateway_config {
    gateway_list listen, listen_tls;          /* addresses */
    char *tls_cert, *tls_key, *tls_client_ca; /* files; NULL: none */
    pk_server_credentials *credentials;       /* what is in them; see credentials.h */
    gateway_list upstreams;                   /* as they were given; see upstream_rule */
    char *upstream_ca, *upstream_cert, *upstream_key, *upstream_name; /* of those with TLS */
    pk_channel_credentials *upstream_credentials; /* NULL: no upstream has TLS */
    char *admin;                                  /* address; NULL: none */
    char *static_dir;                             /* NULL: none */
    char *static_listen; /* address of its own for the files; NULL: the main ones */
    gateway_list cors_origins, cors_expose;
    bool cors_credentials;
    uint32_t cors_max_age_ms;
    gateway_list forward_headers, drop_headers; /* lower case */
    char *authority;
    bool forwarded_for;
    uint32_t timeout_ms; /* 0: none */
    size_t message_limit;
    size_t header_limit;
    uint32_t max_connections, max_streams;
    uint32_t upstream_connections; /* to one address, for each thread */
    uint32_t idle_timeout_ms, header_timeout_ms, body_timeout_ms, stall_timeout_ms;
    char *access_log;           /* NULL: none; "-": stderr */
    unsigned access_log_format; /* gateway_log_format */
    uint32_t threads;
    uint32_t drain_timeout_ms;
    _Atomic unsigned references; /* of threads; see gateway_config_unref */
    /* What the program itself was told. */
    char *file; /* NULL: none */
    bool check, help, version;
} gateway_config;

typedef enum gateway_log_format { GATEWAY_LOG_TEXT, GATEWAY_LOG_JSON } gateway_log_format;

/* An error in words, with where it is: "gateway.conf:3: ...", "--listen: ...". */
typedef struct gateway_error {
    char text[512];
} gateway_error;

/*
 * Reads all sources, in their order. 0, with *ret_config the caller's; or PK_ERR_INVALID (what was
 * given is wrong), PK_ERR_SYSTEM (the file cannot be read), PK_ERR_NOMEM, with *ret_error filled.
 * `arguments` end with NULL and begin behind the program's name. Where help or version is asked for
 * nothing else is looked at.
 */
PK_NODISCARD int gateway_config_load(gateway_config **ret_config, char *const *arguments,
                                     char *const *environment, gateway_error *ret_error);

/* Another reference, from any thread; the last one that is dropped frees. Takes NULL; returns NULL. */
gateway_config *gateway_config_ref(gateway_config *config);
gateway_config *gateway_config_unref(gateway_config *config);

/* Defaults, then the file's contents: for tests; `name` is for errors. As gateway_config_load. */
PK_NODISCARD int gateway_config_parse(gateway_config **ret_config, const char *name,
                                      const char *bytes, size_t length, gateway_error *ret_error);

/* Prints every key with its flag, default and meaning. */
void gateway_config_print_help(FILE *to);

/* The first key that differs and cannot change while the gateway runs; NULL: there is none. */
const char *gateway_config_fixed_change(const gateway_config *old, const gateway_config *new);

#endif
