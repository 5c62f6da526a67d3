/* The table of keys, and what is done by it alone: see config_keys.h. */
#include "gateway/config_keys.h"

#include <string.h>

static const char *check_upstream(const char *text)
{
    gateway_upstream_rule rule;
    const char *wrong = gateway_parse_upstream(text, &rule);
    if (!wrong)
        gateway_upstream_rule_done(&rule);
    return wrong;
}

#define AT(member) offsetof(gateway_config, member)

const gateway_key gateway_keys[] = {
    {"listen", GATEWAY_LIST, AT(listen), "ADDRESS", "127.0.0.1:8080", true, gateway_check_address,
     "Where to listen: host:port, [::1]:port, :port (every interface) or\n"
     "unix:/path. May be repeated."},
    {"listen-tls", GATEWAY_LIST, AT(listen_tls), "ADDRESS", "none", true, gateway_check_address,
     "The same with TLS; wants tls-cert and tls-key. May be repeated."},
    {"tls-cert", GATEWAY_TEXT, AT(tls_cert), "FILE", "none", false, NULL,
     "PEM: the certificate, then those that issued it. Read again on SIGHUP."},
    {"tls-key", GATEWAY_TEXT, AT(tls_key), "FILE", "none", false, NULL, "PEM: its key."},
    {"tls-client-ca", GATEWAY_TEXT, AT(tls_client_ca), "FILE", "none", false, NULL,
     "PEM: who may issue certificates of callers, which must then show one."},
    {"upstream", GATEWAY_LIST, AT(upstreams), "[/PREFIX=][tls://]TARGETS", "none", false,
     check_upstream,
     "gRPC servers, as host:port or unix:/path, with commas between; behind\n"
     "tls:// with TLS. Calls whose path begins with PREFIX (/package.Service/)\n"
     "go there; the longest prefix wins; without one it is for all other\n"
     "calls. May be repeated."},
    {"upstream-ca", GATEWAY_TEXT, AT(upstream_ca), "FILE", "the system's", false, NULL,
     "PEM: who may issue certificates of upstreams with TLS."},
    {"upstream-cert", GATEWAY_TEXT, AT(upstream_cert), "FILE", "none", false, NULL,
     "PEM: what is shown to upstreams that ask for a certificate."},
    {"upstream-key", GATEWAY_TEXT, AT(upstream_key), "FILE", "none", false, NULL, "PEM: its key."},
    {"upstream-name", GATEWAY_TEXT, AT(upstream_name), "NAME", "their host", false, NULL,
     "The name that certificates of upstreams must have."},
    {"upstream-connections", GATEWAY_NUMBER, AT(upstream_connections), "N", "16", false, NULL,
     "Connections to one address of an upstream, for each thread. One is\n"
     "enough until the upstream allows no more calls at once on it."},
    {"threads", GATEWAY_NUMBER, AT(threads), "N", "1", true, NULL,
     "Threads that serve, each with connections of its own."},
    {"cors-origin", GATEWAY_LIST, AT(cors_origins), "ORIGIN", "none", false, gateway_check_origin,
     "Pages of this origin (https://shop.example) may call; * is every page.\n"
     "May be repeated."},
    {"cors-credentials", GATEWAY_FLAG, AT(cors_credentials), NULL, "off", false, NULL,
     "Such pages may send cookies and HTTP authentication."},
    {"cors-expose", GATEWAY_LIST, AT(cors_expose), "NAME", "none", false, gateway_check_header,
     "Pages may read this field of replies, beside gRPC's own and what the\n"
     "upstream sends. May be repeated."},
    {"cors-max-age", GATEWAY_TIME, AT(cors_max_age_ms), "TIME", "2h", false, NULL,
     "How long browsers may keep the answer to a preflight."},
    {"forward-header", GATEWAY_LIST, AT(forward_headers), "NAME", "none", false,
     gateway_check_header,
     "Pass this field of a page's request on although it is a browser's own\n"
     "(cookie, origin, referer, ...). May be repeated."},
    {"drop-header", GATEWAY_LIST, AT(drop_headers), "NAME", "none", false, gateway_check_header,
     "Do not pass this field on, in either direction. May be repeated."},
    {"forwarded-for", GATEWAY_FLAG, AT(forwarded_for), NULL, "off", false, NULL,
     "Tell the upstream the caller's address in x-forwarded-for."},
    {"authority", GATEWAY_TEXT, AT(authority), "NAME", "the upstream's address", false,
     gateway_check_authority, "What upstreams are told that they are (:authority)."},
    {"timeout", GATEWAY_TIME, AT(timeout_ms), "TIME", "never", false, NULL,
     "No call goes on for longer, whatever deadline it came with."},
    {"message-limit", GATEWAY_SIZE, AT(message_limit), "BYTES", "4M", true, NULL,
     "The largest message, either way, as it travels."},
    {"header-limit", GATEWAY_SIZE, AT(header_limit), "BYTES", "8K", true, NULL,
     "The most that a request's fields may take (32 bytes are added for each)."},
    {"max-connections", GATEWAY_NUMBER, AT(max_connections), "N", "65536", true, NULL,
     "Connections open at once, for each thread."},
    {"max-streams", GATEWAY_NUMBER, AT(max_streams), "N", "256", true, NULL,
     "Calls open at once on one HTTP/2 connection."},
    {"idle-timeout", GATEWAY_TIME, AT(idle_timeout_ms), "TIME", "30m", true, NULL,
     "A connection without a call is closed after it."},
    {"header-timeout", GATEWAY_TIME, AT(header_timeout_ms), "TIME", "10s", true, NULL,
     "For a request's head to be complete."},
    {"body-timeout", GATEWAY_TIME, AT(body_timeout_ms), "TIME", "never", true, NULL,
     "Without a byte of a request that is waited for."},
    {"stall-timeout", GATEWAY_TIME, AT(stall_timeout_ms), "TIME", "5m", true, NULL,
     "Without a byte read by a peer for which some wait."},
    {"static", GATEWAY_TEXT, AT(static_dir), "FOLDER", "none", false, NULL,
     "Serve the files in it to GET."},
    {"static-listen", GATEWAY_TEXT, AT(static_listen), "ADDRESS", "the main addresses", true,
     gateway_check_address, "Serve them here instead, so that a page is of another origin."},
    {"admin", GATEWAY_TEXT, AT(admin), "ADDRESS", "none", true, gateway_check_address,
     "Serve /metrics (Prometheus) and /healthz here."},
    {"access-log", GATEWAY_TEXT, AT(access_log), "FILE", "off", false, NULL,
     "One line for each call; - is stderr, off is none. Reopened on SIGHUP."},
    {"access-log-format", GATEWAY_FORMAT, AT(access_log_format), "text|json", "text", false, NULL,
     "How its lines look."},
    {"drain-timeout", GATEWAY_TIME, AT(drain_timeout_ms), "TIME", "30s", false, NULL,
     "At the end calls in flight may take that long."},
    {"config", GATEWAY_TEXT, AT(file), "FILE", "none", false, NULL,
     "Lines \"key = value\" with the names of these flags; those that begin with # say nothing."},
    {"check", GATEWAY_WISH, AT(check), NULL, NULL, false, NULL,
     "Look at the configuration, say what is wrong with it, and end."},
    {"help", GATEWAY_WISH, AT(help), NULL, NULL, false, NULL, "Print this and end."},
    {"version", GATEWAY_WISH, AT(version), NULL, NULL, false, NULL, "Print the version and end."},
};
_Static_assert(sizeof gateway_keys / sizeof *gateway_keys == GATEWAY_KEYS, "all of them");

const gateway_key *gateway_key_find(const char *name, size_t length)
{
    for (size_t i = 0; i < GATEWAY_KEYS; i++)
        if (strlen(gateway_keys[i].name) == length &&
            memcmp(gateway_keys[i].name, name, length) == 0)
            return &gateway_keys[i];
    return NULL;
}

static bool equal(const gateway_key *key, const gateway_config *a, const gateway_config *b)
{
    const void *one = gateway_key_member(a, key), *other = gateway_key_member(b, key);
    switch (key->kind) {
    case GATEWAY_TEXT: {
        const char *x = *(char *const *) one, *y = *(char *const *) other;
        return x == y || (x && y && strcmp(x, y) == 0);
    }
    case GATEWAY_LIST:
        return gateway_list_equal(one, other);
    case GATEWAY_FLAG:
    case GATEWAY_WISH:
        return *(const bool *) one == *(const bool *) other;
    case GATEWAY_SIZE:
        return *(const size_t *) one == *(const size_t *) other;
    case GATEWAY_TIME:
    case GATEWAY_NUMBER:
    case GATEWAY_FORMAT:
        return *(const uint32_t *) one == *(const uint32_t *) other;
    }
    return true;
}

const char *gateway_config_fixed_change(const gateway_config *old, const gateway_config *new)
{
    for (size_t i = 0; i < GATEWAY_KEYS; i++)
        if (gateway_keys[i].fixed && !equal(&gateway_keys[i], old, new))
            return gateway_keys[i].name;
    return NULL;
}

void gateway_config_print_help(FILE *to)
{
    fputs("usage: pekoe-gateway --upstream HOST:PORT [--listen ADDRESS] [FLAG...]\n\n"
          "Passes gRPC-Web and gRPC calls on to gRPC servers. Listens for HTTP/1.1 and HTTP/2.\n\n",
          to);
    for (size_t i = 0; i < GATEWAY_KEYS; i++) {
        const gateway_key *key = &gateway_keys[i];
        fprintf(to, "  --%s%s%s\n", key->name, key->argument ? "=" : "",
                key->argument ? key->argument : "");
        for (const char *line = key->help; *line;) {
            size_t length = strcspn(line, "\n");
            fprintf(to, "        %.*s\n", (int) length, line);
            line += length + (line[length] == '\n');
        }
        if (key->standard)
            fprintf(to, "        Default: %s.%s\n", key->standard,
                    key->fixed ? " A change needs a restart." : "");
    }
    fputs("\nEach flag but check, help and version is also, as " GATEWAY_ENVIRONMENT_PREFIX
          "... in upper case\n"
          "with _ for -, a variable of the environment (lists with white space between), and each\n"
          "of these but config a key of the file that config names. Flags stand above the\n"
          "environment, the environment above the file.\n"
          "SIGHUP reads all again; SIGTERM and SIGINT end gracefully.\n",
          to);
}
