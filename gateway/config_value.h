/*
 * Values of the configuration: from text to what the gateway works with.
 *
 * Each function takes a text that ends in NUL and returns NULL, with its result set, or a static
 * text that says what is wrong with it.
 */
#ifndef PEKOE_GATEWAY_CONFIG_VALUE_H
#define PEKOE_GATEWAY_CONFIG_VALUE_H

#include <pekoe/base.h>

#include <stdio.h>

/* Texts, owned; ended by NULL in `items`, which is NULL while there is none. */
typedef struct gateway_list {
    char **items;
    size_t count;
} gateway_list;

/* Adds a copy. False without memory. */
PK_NODISCARD bool gateway_list_add(gateway_list *list, const char *text);
void gateway_list_done(gateway_list *list);
bool gateway_list_equal(const gateway_list *a, const gateway_list *b);

/* "on", "yes", "true", "off", "no", "false". */
const char *gateway_parse_flag(const char *text, bool *ret_flag);

/* "250ms", "30s", "5m", "2h", "never" (PK_NEVER); at most 49 days. */
const char *gateway_parse_time(const char *text, uint32_t *ret_ms);

/* "65536", "64K", "4M", "1G". */
const char *gateway_parse_size(const char *text, size_t *ret_bytes);

/* A whole number from `least` to `most`. */
const char *gateway_parse_number(const char *text, uint32_t least, uint32_t most,
                                 uint32_t *ret_number);

/* "host:port", "1.2.3.4:port", "[::1]:port", ":port", "unix:/path": whether it is one. */
const char *gateway_check_address(const char *text);

/* A field's name; upper case is taken. */
const char *gateway_check_header(const char *text);

/* "host", "host:port", "[::1]:port". */
const char *gateway_check_authority(const char *text);

/* An origin just as browsers write it ("https://shop.example:8443"), "null" or "*". */
const char *gateway_check_origin(const char *text);

/*
 * One upstream: "[/PREFIX=][tls://]TARGET,...". `prefix` is "/" where none is given; a target is what
 * pk_channel_new takes, addresses that are literals joined to one.
 */
typedef struct gateway_upstream_rule {
    char *prefix;
    gateway_list targets;
    bool tls; /* they speak TLS */
} gateway_upstream_rule;

/* "out of memory" is among the texts. Nothing is held after a failure. */
const char *gateway_parse_upstream(const char *text, gateway_upstream_rule *ret_rule);
void gateway_upstream_rule_done(gateway_upstream_rule *rule);

/* Whether one of these upstreams, whose texts were checked, speaks TLS. */
bool gateway_upstreams_have_tls(const gateway_list *upstreams);

#endif
