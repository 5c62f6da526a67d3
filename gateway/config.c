/*
 * Flags, environment and file into one configuration: see config.h. gateway_config_load at the end
 * reads the sources in their order.
 */
#include <pekoe/server.h>

#include "gateway/config_keys.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1u << 20) /* bytes of a configuration file */
#define LINE_MAX_BYTES 4096u

#define AT(member) offsetof(gateway_config, member)

/* ---- Errors ---- */

static int fail(gateway_error *error, int code, const char *format, ...) PK_PRINTF(3, 4);
static int fail(gateway_error *error, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return code;
}

/* ---- Setting a key ---- */

/* While the sources are read. */
typedef struct reading {
    gateway_config *config;
    gateway_error *error;
    unsigned source;                    /* rank of the one that is read */
    unsigned char set_by[GATEWAY_KEYS]; /* rank of the one that set a key; 0: none has */
    char where[PATH_MAX + 32];          /* for errors */
} reading;

static const char *set_text(char **place, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return "out of memory";
    free(*place);
    *place = copy;
    return NULL;
}

static const char *set_format(unsigned *place, const char *text)
{
    if (strcmp(text, "json") == 0)
        *place = GATEWAY_LOG_JSON;
    else if (strcmp(text, "text") == 0)
        *place = GATEWAY_LOG_TEXT;
    else
        return "text or json is wanted";
    return NULL;
}

static const char *set_time(uint32_t *place, const char *text, bool may_be_none)
{
    const char *wrong = gateway_parse_time(text, place);
    if (wrong || *place > 0 || may_be_none)
        return wrong;
    return "more than no time is wanted; never is without end";
}

static const char *convert(const gateway_key *key, void *place, const char *text)
{
    const char *wrong = key->check ? key->check(text) : NULL;
    if (wrong)
        return wrong;
    switch (key->kind) {
    case GATEWAY_TEXT:
        return *text ? set_text(place, text) : "a value is wanted";
    case GATEWAY_LIST:
        return gateway_list_add(place, text) ? NULL : "out of memory";
    case GATEWAY_FLAG:
        return gateway_parse_flag(text, place);
    case GATEWAY_TIME:
        return set_time(place, text, key->offset == AT(drain_timeout_ms));
    case GATEWAY_SIZE:
        return gateway_parse_size(text, place);
    case GATEWAY_NUMBER:
        return gateway_parse_number(text, 1, key->offset == AT(threads) ? 256 : INT32_MAX, place);
    case GATEWAY_FORMAT:
        return set_format(place, text);
    case GATEWAY_WISH:
        *(bool *) place = true;
        return NULL;
    }
    return NULL;
}

static int set(reading *r, const gateway_key *key, const char *text)
{
    size_t number = (size_t) (key - gateway_keys);
    void *place = gateway_key_member(r->config, key);
    if (key->kind == GATEWAY_LIST && r->set_by[number] != r->source)
        gateway_list_done(place); /* of a source below */
    else if (key->kind != GATEWAY_LIST && key->kind != GATEWAY_WISH &&
             r->set_by[number] == r->source)
        return fail(r->error, PK_ERR_INVALID, "%s: %s is set twice", r->where, key->name);
    const char *wrong = convert(key, place, text);
    if (wrong)
        return fail(r->error, PK_ERR_INVALID, "%s: %s \"%.200s\": %s", r->where, key->name, text,
                    wrong);
    r->set_by[number] = (unsigned char) r->source;
    return 0;
}

/* ---- The file ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* "key = value"; the line is changed. */
static int read_line(reading *r, char *line)
{
    while (is_blank(*line))
        line++;
    size_t length = strlen(line);
    while (length > 0 && is_blank(line[length - 1]))
        line[--length] = '\0';
    if (length == 0 || *line == '#')
        return 0;
    char *equals = strchr(line, '=');
    if (!equals)
        return fail(r->error, PK_ERR_INVALID, "%s: \"key = value\" is wanted", r->where);
    size_t name = (size_t) (equals - line);
    while (name > 0 && is_blank(line[name - 1]))
        name--;
    char *value = equals + 1;
    while (is_blank(*value))
        value++;
    const gateway_key *key = gateway_key_find(line, name);
    if (!key || key->kind == GATEWAY_WISH || key->offset == AT(file))
        return fail(r->error, PK_ERR_INVALID, "%s: there is no key \"%.*s\"", r->where,
                    name < 100 ? (int) name : 100, line);
    return set(r, key, value);
}

static int read_lines(reading *r, const char *name, const char *bytes, size_t length)
{
    char line[LINE_MAX_BYTES];
    unsigned number = 0;
    for (const char *at = bytes, *end = bytes + length; at < end;) {
        const char *newline = memchr(at, '\n', (size_t) (end - at));
        size_t size = newline ? (size_t) (newline - at) : (size_t) (end - at);
        snprintf(r->where, sizeof r->where, "%.*s:%u", PATH_MAX, name, ++number);
        if (size >= sizeof line)
            return fail(r->error, PK_ERR_INVALID, "%s: the line is too long", r->where);
        if (memchr(at, '\0', size))
            return fail(r->error, PK_ERR_INVALID, "%s: there is a NUL in the line", r->where);
        memcpy(line, at, size);
        line[size] = '\0';
        int result = read_line(r, line);
        if (result < 0)
            return result;
        at += size + (newline != NULL);
    }
    return 0;
}

static int read_file(reading *r, const char *name)
{
    FILE *file = fopen(name, "re");
    char *bytes = file ? malloc(FILE_MAX + 1) : NULL;
    int result;
    if (!bytes) {
        result = fail(r->error, PK_ERR_SYSTEM, "%s: %s", name, strerror(errno));
    } else {
        size_t length = fread(bytes, 1, FILE_MAX + 1, file);
        if (ferror(file))
            result = fail(r->error, PK_ERR_SYSTEM, "%s: %s", name, strerror(errno));
        else if (length > FILE_MAX)
            result = fail(r->error, PK_ERR_INVALID, "%s: the file is too long", name);
        else
            result = read_lines(r, name, bytes, length);
    }
    free(bytes);
    if (file)
        fclose(file);
    return result;
}

/* ---- The environment ---- */

/* "PEKOE_GATEWAY_CORS_ORIGIN" for "cors-origin". */
static bool is_variable_of(const char *variable, const gateway_key *key)
{
    size_t prefix = sizeof GATEWAY_ENVIRONMENT_PREFIX - 1;
    if (strncmp(variable, GATEWAY_ENVIRONMENT_PREFIX, prefix) != 0)
        return false;
    variable += prefix;
    for (const char *name = key->name; *name; name++, variable++) {
        char c = *name == '-' ? '_' : (char) (*name >= 'a' && *name <= 'z' ? *name - 32 : *name);
        if (*variable != c)
            return false;
    }
    return *variable == '=';
}

/* An empty one says nothing, whatever its key: wrappers of programs pass on what they do not have. */
static const char *variable(char *const *environment, const gateway_key *key)
{
    for (; environment && *environment; environment++) {
        if (is_variable_of(*environment, key)) {
            const char *text = strchr(*environment, '=') + 1;
            return *text ? text : NULL;
        }
    }
    return NULL;
}

/* A list has white space between its values. */
static int set_words(reading *r, const gateway_key *key, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return fail(r->error, PK_ERR_NOMEM, "out of memory");
    int result = 0;
    char *rest;
    for (char *word = strtok_r(copy, " \t\n", &rest); word && result == 0;
         word = strtok_r(NULL, " \t\n", &rest))
        result = set(r, key, word);
    free(copy);
    return result;
}

static int read_environment(reading *r, char *const *environment)
{
    int result = 0;
    for (size_t i = 0; i < GATEWAY_KEYS && result == 0; i++) {
        const char *text = variable(environment, &gateway_keys[i]);
        if (!text || gateway_keys[i].kind == GATEWAY_WISH || gateway_keys[i].offset == AT(file))
            continue;
        snprintf(r->where, sizeof r->where, "the environment");
        result = gateway_keys[i].kind == GATEWAY_LIST ? set_words(r, &gateway_keys[i], text)
                                                      : set(r, &gateway_keys[i], text);
    }
    return result;
}

/* ---- Flags ---- */

/* The key of a flag, and its value behind "=" (NULL: there is none). */
static const gateway_key *flag_of(const char *argument, const char **ret_value)
{
    if (strcmp(argument, "-h") == 0)
        argument = "--help";
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    size_t length = strcspn(argument + 2, "=");
    *ret_value = argument[2 + length] ? argument + 3 + length : NULL;
    return gateway_key_find(argument + 2, length);
}

/* Reads one flag, and its value in the argument behind it where it needs one. */
static int read_flag(reading *r, char *const **at)
{
    const char *argument = *(*at)++, *value = NULL;
    const gateway_key *key = flag_of(argument, &value);
    if (!key)
        return fail(r->error, PK_ERR_INVALID,
                    "there is no flag \"%.100s\"; --help shows those that there are", argument);
    if (key->kind == GATEWAY_WISH && value)
        return fail(r->error, PK_ERR_INVALID, "--%s takes no value", key->name);
    if (!value && key->argument)
        value = **at ? *(*at)++ : NULL;
    else if (!value)
        value = "on";
    if (!value)
        return fail(r->error, PK_ERR_INVALID, "--%s wants a value: %s", key->name, key->argument);
    snprintf(r->where, sizeof r->where, "the command line");
    return set(r, key, value);
}

static int read_flags(reading *r, char *const *arguments)
{
    int result = 0;
    while (*arguments && result == 0)
        result = read_flag(r, &arguments);
    return result;
}

/* ---- All together ---- */

static void lower_all(gateway_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        for (char *at = list->items[i]; *at; at++)
            if (*at >= 'A' && *at <= 'Z')
                *at = (char) (*at + 32);
}

static pk_slice prefix_of(const char *upstream)
{
    if (*upstream != '/')
        return (pk_slice) PK_SLICE("/");
    return (pk_slice){(const uint8_t *) upstream, strcspn(upstream, "= \t")};
}

static int check_upstreams(const gateway_config *config, gateway_error *error)
{
    const gateway_list *upstreams = &config->upstreams;
    if (upstreams->count == 0)
        return fail(error, PK_ERR_INVALID, "no upstream is given (--upstream host:port)");
    for (size_t i = 0; i < upstreams->count; i++) {
        pk_slice one = prefix_of(upstreams->items[i]);
        for (size_t k = 0; k < i; k++) {
            pk_slice other = prefix_of(upstreams->items[k]);
            if (one.length == other.length && memcmp(one.bytes, other.bytes, one.length) == 0)
                return fail(error, PK_ERR_INVALID, "upstream \"%.200s\": the prefix is given twice",
                            upstreams->items[i]);
        }
    }
    if (!config->upstream_cert != !config->upstream_key)
        return fail(error, PK_ERR_INVALID, "upstream-cert and upstream-key belong together");
    /* Who forgets tls:// would take what goes in the clear for encrypted. */
    const char *unused = config->upstream_ca     ? "upstream-ca"
                         : config->upstream_cert ? "upstream-cert"
                         : config->upstream_name ? "upstream-name"
                                                 : NULL;
    if (unused && !gateway_upstreams_have_tls(upstreams))
        return fail(error, PK_ERR_INVALID, "%s is given, but no upstream with TLS (tls://)",
                    unused);
    return 0;
}

/* Several threads share a port, so the system would not refuse it a second time. */
static int check_listeners(const gateway_config *config, gateway_error *error)
{
    size_t plain = config->listen.count;
    for (size_t i = 0; i < plain + config->listen_tls.count; i++) {
        const char *one = i < plain ? config->listen.items[i] : config->listen_tls.items[i - plain];
        const char *port = strrchr(one, ':');
        for (size_t k = 0; k < i && strcmp(port, ":0") != 0; k++) {
            const char *other =
                k < plain ? config->listen.items[k] : config->listen_tls.items[k - plain];
            if (strcmp(one, other) == 0)
                return fail(error, PK_ERR_INVALID, "%s \"%.200s\": the address is given twice",
                            i < plain ? "listen" : "listen-tls", one);
        }
    }
    return 0;
}

/* What no value alone shows. */
static int check_all(gateway_config *config, gateway_error *error)
{
    if (config->listen.count + config->listen_tls.count == 0 &&
        !gateway_list_add(&config->listen, "127.0.0.1:8080"))
        return fail(error, PK_ERR_NOMEM, "out of memory");
    int r = check_upstreams(config, error);
    if (r == 0)
        r = check_listeners(config, error);
    if (r < 0)
        return r;
    if (config->listen_tls.count > 0 && !(config->tls_cert && config->tls_key))
        return fail(error, PK_ERR_INVALID, "listen-tls is given, but not tls-cert and tls-key");
    if (config->listen_tls.count == 0 &&
        (config->tls_cert || config->tls_key || config->tls_client_ca))
        return fail(error, PK_ERR_INVALID, "certificates are given, but no address (--listen-tls)");
    if (config->static_listen && !config->static_dir)
        return fail(error, PK_ERR_INVALID, "static-listen is given, but no folder (--static)");
    if (config->access_log && strcmp(config->access_log, "off") == 0) {
        free(config->access_log);
        config->access_log = NULL;
    }
    if (config->timeout_ms == PK_NEVER)
        config->timeout_ms = 0;
    lower_all(&config->forward_headers);
    lower_all(&config->drop_headers);
    return 0;
}

static gateway_config *new_config(void)
{
    gateway_config *config = malloc(sizeof *config);
    if (config)
        *config = (gateway_config){
            .cors_max_age_ms = 7200000,
            .message_limit = 4u << 20,
            .header_limit = 8192,
            .max_connections = 65536,
            .max_streams = 256,
            .upstream_connections = 16,
            .idle_timeout_ms = 30 * 60 * 1000,
            .header_timeout_ms = 10 * 1000,
            .body_timeout_ms = PK_NEVER,
            .stall_timeout_ms = 5 * 60 * 1000,
            .threads = 1,
            .drain_timeout_ms = 30 * 1000,
            .references = 1,
        };
    return config;
}

gateway_config *gateway_config_ref(gateway_config *config)
{
    atomic_fetch_add(&config->references, 1);
    return config;
}

gateway_config *gateway_config_unref(gateway_config *config)
{
    if (!config || atomic_fetch_sub(&config->references, 1) > 1)
        return NULL;
    pk_server_credentials_unref(config->credentials);
    pk_channel_credentials_unref(config->upstream_credentials);
    for (size_t i = 0; i < GATEWAY_KEYS; i++) {
        if (gateway_keys[i].kind == GATEWAY_LIST)
            gateway_list_done(gateway_key_member(config, &gateway_keys[i]));
        else if (gateway_keys[i].kind == GATEWAY_TEXT)
            free(*(char **) gateway_key_member(config, &gateway_keys[i]));
    }
    free(config);
    return NULL;
}

/* The sources in their order. Flags are read first for what they say of the file, and again last. */
static int read_all(reading *r, char *const *arguments, char *const *environment)
{
    gateway_config *config = r->config;
    r->source = 3;
    int result = read_flags(r, arguments);
    if (result < 0 || config->help || config->version)
        return result;
    const char *in_environment = variable(environment, gateway_key_find("config", 6));
    if (!config->file && in_environment && set_text(&config->file, in_environment))
        return fail(r->error, PK_ERR_NOMEM, "out of memory");
    memset(r->set_by, 0, sizeof r->set_by);
    for (size_t i = 0; i < GATEWAY_KEYS; i++)
        if (gateway_keys[i].kind == GATEWAY_LIST)
            gateway_list_done(gateway_key_member(config, &gateway_keys[i]));
    r->source = 1;
    if (config->file)
        result = read_file(r, config->file);
    r->source = 2;
    if (result == 0)
        result = read_environment(r, environment);
    r->source = 3;
    if (result == 0)
        result = read_flags(r, arguments);
    return result;
}

int gateway_config_load(gateway_config **ret_config, char *const *arguments,
                        char *const *environment, gateway_error *ret_error)
{
    reading r = {.config = new_config(), .error = ret_error};
    if (!r.config)
        return fail(ret_error, PK_ERR_NOMEM, "out of memory");
    int result = read_all(&r, arguments, environment);
    if (result == 0 && !r.config->help && !r.config->version)
        result = check_all(r.config, ret_error);
    if (result < 0)
        gateway_config_unref(r.config);
    else
        *ret_config = r.config;
    return result;
}

int gateway_config_parse(gateway_config **ret_config, const char *name, const char *bytes,
                         size_t length, gateway_error *ret_error)
{
    reading r = {.config = new_config(), .error = ret_error, .source = 1};
    if (!r.config)
        return fail(ret_error, PK_ERR_NOMEM, "out of memory");
    int result = read_lines(&r, name, bytes, length);
    if (result == 0)
        result = check_all(r.config, ret_error);
    if (result < 0)
        gateway_config_unref(r.config);
    else
        *ret_config = r.config;
    return result;
}
