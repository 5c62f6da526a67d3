/* Values of the configuration: see config_value.h. */
#include "gateway/config_value.h"

#include <pekoe/server.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char no_memory[] = "out of memory";

/* ---- Lists ---- */

bool gateway_list_add(gateway_list *list, const char *text)
{
    char *copy = strdup(text);
    char **items = copy ? realloc(list->items, (list->count + 2) * sizeof *items) : NULL;
    if (!items) {
        free(copy);
        return false;
    }
    items[list->count++] = copy;
    items[list->count] = NULL;
    list->items = items;
    return true;
}

void gateway_list_done(gateway_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (gateway_list){NULL, 0};
}

bool gateway_list_equal(const gateway_list *a, const gateway_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return true;
}

/* ---- Plain values ---- */

const char *gateway_parse_flag(const char *text, bool *ret_flag)
{
    static const char *const words[] = {"off", "no", "false", "on", "yes", "true"};
    for (size_t i = 0; i < 6; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *ret_flag = i >= 3;
            return NULL;
        }
    }
    return "on or off is wanted";
}

/* The digits at the start of a text; false where there are none or too many. */
static bool parse_digits(const char **text, uint64_t *ret_number)
{
    size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 18)
        return false;
    *ret_number = strtoull(*text, NULL, 10);
    *text += digits;
    return true;
}

const char *gateway_parse_time(const char *text, uint32_t *ret_ms)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    uint64_t number;
    if (strcasecmp(text, "never") == 0) {
        *ret_ms = PK_NEVER;
        return NULL;
    }
    if (!parse_digits(&text, &number))
        return "a time such as 500ms, 30s, 5m or 2h is wanted";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text, units[i].name) != 0)
            continue;
        if (number > (PK_NEVER - 1) / units[i].ms)
            return "the time is too long";
        *ret_ms = (uint32_t) (number * units[i].ms);
        return NULL;
    }
    return "a time wants a unit: ms, s, m or h";
}

const char *gateway_parse_size(const char *text, size_t *ret_bytes)
{
    uint64_t number;
    unsigned shift = 0;
    if (!parse_digits(&text, &number))
        return "a number of bytes such as 65536, 64K or 4M is wanted";
    if (*text == 'K' || *text == 'k')
        shift = 10;
    else if (*text == 'M' || *text == 'm')
        shift = 20;
    else if (*text == 'G' || *text == 'g')
        shift = 30;
    if (text[shift != 0] != '\0')
        return "a number of bytes such as 65536, 64K or 4M is wanted";
    if (number == 0 || number > (UINT32_MAX >> shift))
        return "the number of bytes is out of range (1 to 4G)";
    *ret_bytes = (size_t) (number << shift);
    return NULL;
}

const char *gateway_parse_number(const char *text, uint32_t least, uint32_t most,
                                 uint32_t *ret_number)
{
    uint64_t number;
    if (!parse_digits(&text, &number) || *text != '\0')
        return "a whole number is wanted";
    if (number < least || number > most)
        return "the number is out of range";
    *ret_number = (uint32_t) number;
    return NULL;
}

/* ---- Names ---- */

static const char *check_port(const char *text)
{
    uint32_t port;
    if (gateway_parse_number(text, 0, 65535, &port))
        return "the port is no number from 0 to 65535";
    return NULL;
}

static const char *check_unix(const char *path)
{
    if (path[0] != '/')
        return "the path of a Unix socket begins with /";
    return strlen(path) > 107 ? "the path of a Unix socket is too long" : NULL;
}

const char *gateway_check_address(const char *text)
{
    if (strncmp(text, "unix:", 5) == 0)
        return check_unix(text + 5);
    if (text[strcspn(text, " \t,/=")] != '\0')
        return "an address is host:port or unix:/path";
    const char *colon = strrchr(text, ':');
    if (!colon)
        return "an address wants a port, as in 127.0.0.1:8080 or :8080";
    if (text[0] == '[' ? colon == text || colon[-1] != ']'
                       : memchr(text, ':', (size_t) (colon - text)) != NULL)
        return "an IPv6 address wants brackets, as in [::1]:8080";
    return check_port(colon + 1);
}

const char *gateway_check_header(const char *text)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_.";
    size_t length = strspn(text, characters);
    return length > 0 && text[length] == '\0' ? NULL : "that is no name of a field";
}

/* Whether a text is host[:port], an IPv6 address in brackets. */
static bool is_authority(const char *text)
{
    if (text[0] == '[') {
        size_t length = strspn(text + 1, "0123456789abcdefABCDEF:.");
        if (length == 0 || text[1 + length] != ']')
            return false;
        text += 2 + length;
    } else {
        const char *end = text;
        while (*end > ' ' && *end < 0x7f && !strchr(":/?#@[]\\,*\"<>", *end))
            end++;
        if (end == text)
            return false;
        text = end;
    }
    return *text == '\0' || (*text == ':' && text[1] && !check_port(text + 1));
}

const char *gateway_check_authority(const char *text)
{
    return is_authority(text) ? NULL : "an authority is host[:port] in US-ASCII";
}

/* The port that an origin does not name, with its colon. */
static const char *default_port(const char *origin)
{
    return strncmp(origin, "https:", 6) == 0  ? ":443"
           : strncmp(origin, "http:", 5) == 0 ? ":80"
                                              : "";
}

/* Origins are compared byte by byte: one that no browser writes would never be found. */
const char *gateway_check_origin(const char *text)
{
    static const char scheme_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0)
        return NULL;
    for (const char *at = text; *at; at++) {
        if (*at <= ' ' || *at >= 0x7f)
            return "an origin is US-ASCII without white space: browsers write xn--... for the rest";
        if (*at >= 'A' && *at <= 'Z')
            return "browsers write origins in lower case";
    }
    size_t scheme = strspn(text, scheme_characters);
    if (scheme == 0 || strncmp(text + scheme, "://", 3) != 0 || !is_authority(text + scheme + 3))
        return "an origin is scheme://host[:port] without a path, or *";
    const char *port = default_port(text);
    size_t length = strlen(text);
    if (*port && strcmp(text + length - strlen(port), port) == 0)
        return "browsers leave out the port where it is that of the scheme";
    return NULL;
}

/* ---- Upstreams ---- */

void gateway_upstream_rule_done(gateway_upstream_rule *rule)
{
    free(rule->prefix);
    rule->prefix = NULL;
    gateway_list_done(&rule->targets);
}

/* What kind of channel target one stands for. */
static const char *scheme_of(const char *target)
{
    if (strncmp(target, "unix:", 5) == 0 || strncmp(target, "dns:", 4) == 0)
        return "";
    if (target[0] == '[')
        return "ipv6:";
    const char *colon = strrchr(target, ':');
    size_t host = colon ? (size_t) (colon - target) : 0;
    return host > 0 && strspn(target, "0123456789.") == host ? "ipv4:" : "dns:///";
}

/* Whether the host is a literal where it looks like one. */
static const char *check_literal(const char *scheme, const char *target)
{
    char host[INET6_ADDRSTRLEN];
    unsigned char address[sizeof(struct in6_addr)];
    bool is_v6 = strcmp(scheme, "ipv6:") == 0;
    if (!is_v6 && strcmp(scheme, "ipv4:") != 0)
        return NULL;
    size_t length = (size_t) (strrchr(target, ':') - target);
    if (is_v6) { /* without its brackets */
        target++;
        length -= 2;
    }
    if (length >= sizeof host)
        return "that is no IP address";
    memcpy(host, target, length);
    host[length] = '\0';
    return inet_pton(is_v6 ? AF_INET6 : AF_INET, host, address) == 1 ? NULL
                                                                     : "that is no IP address";
}

/* Adds a target: to the one before it where both are literals of one kind. */
static const char *add_target(gateway_list *targets, const char *target)
{
    const char *scheme = scheme_of(target);
    const char *host = strncmp(target, "dns:///", 7) == 0 ? target + 7 : target;
    const char *wrong = gateway_check_address(host);
    if (!wrong)
        wrong = check_literal(scheme, host);
    if (wrong)
        return wrong;
    if (host[0] == ':')
        return "an upstream wants a host";
    if (strncmp(host, "unix:", 5) != 0 && strtoul(strrchr(host, ':') + 1, NULL, 10) == 0)
        return "an upstream wants a port above 0";
    char **last = targets->count > 0 ? &targets->items[targets->count - 1] : NULL;
    bool joins = last && strncmp(scheme, "ipv", 3) == 0 && strncmp(*last, scheme, 5) == 0;
    char *joined = NULL;
    int length = joins ? asprintf(&joined, "%s,%s", *last, target)
                       : asprintf(&joined, "%s%s", scheme, target);
    if (length < 0)
        return no_memory;
    if (joins) {
        free(*last);
        *last = joined;
        return NULL;
    }
    bool added = gateway_list_add(targets, joined);
    free(joined);
    return added ? NULL : no_memory;
}

static const char *add_targets(gateway_list *targets, char *text)
{
    const char *wrong = NULL;
    for (char *next = text; next && !wrong;) {
        char *target = strsep(&next, ",");
        target += strspn(target, " \t");
        size_t length = strlen(target);
        while (length > 0 && (target[length - 1] == ' ' || target[length - 1] == '\t'))
            target[--length] = '\0';
        wrong = *target ? add_target(targets, target) : "a target is empty";
    }
    return wrong;
}

const char *gateway_parse_upstream(const char *text, gateway_upstream_rule *ret_rule)
{
    const char *equals = text[0] == '/' ? strchr(text, '=') : NULL;
    if (text[0] == '/' && !equals)
        return "an upstream is [/PREFIX=][tls://]TARGET[,TARGET...]";
    const char *targets = equals ? equals + 1 : text;
    targets += strspn(targets, " \t");
    bool tls = strncmp(targets, "tls://", 6) == 0;
    targets += tls ? 6 : 0;
    size_t prefix = equals ? (size_t) (equals - text) : 1;
    while (prefix > 1 && (text[prefix - 1] == ' ' || text[prefix - 1] == '\t'))
        prefix--;
    gateway_upstream_rule rule = {.prefix = equals ? strndup(text, prefix) : strdup("/"),
                                  .tls = tls};
    char *copy = strdup(targets);
    const char *wrong = rule.prefix && copy ? add_targets(&rule.targets, copy) : no_memory;
    if (!wrong && rule.prefix[strcspn(rule.prefix, " \t")] != '\0')
        wrong = "a prefix has no white space";
    free(copy);
    if (wrong)
        gateway_upstream_rule_done(&rule);
    else
        *ret_rule = rule;
    return wrong;
}

bool gateway_upstreams_have_tls(const gateway_list *upstreams)
{
    gateway_upstream_rule rule;
    bool tls = false;
    for (size_t i = 0; i < upstreams->count && !tls; i++) {
        if (gateway_parse_upstream(upstreams->items[i], &rule))
            continue;
        tls = rule.tls;
        gateway_upstream_rule_done(&rule);
    }
    return tls;
}
