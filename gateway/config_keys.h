/*
 * The keys of the configuration: one table behind flags, environment, file and --help.
 *
 * For config.c, which reads values, and config_keys.c, which knows what keys there are.
 */
#ifndef PEKOE_GATEWAY_CONFIG_KEYS_H
#define PEKOE_GATEWAY_CONFIG_KEYS_H

#include "gateway/config.h"

#define GATEWAY_ENVIRONMENT_PREFIX "PEKOE_GATEWAY_"

/* What a key's member is: char *; gateway_list; bool; milliseconds, number, format (uint32_t); size_t. */
typedef enum gateway_key_kind {
    GATEWAY_TEXT,
    GATEWAY_LIST,
    GATEWAY_FLAG,
    GATEWAY_TIME,
    GATEWAY_SIZE,
    GATEWAY_NUMBER,
    GATEWAY_FORMAT,
    GATEWAY_WISH, /* a bool that only a flag can set */
} gateway_key_kind;

typedef struct gateway_key {
    const char *name;
    gateway_key_kind kind;
    size_t offset;                          /* of its member */
    const char *argument;                   /* in --help; NULL: none is needed */
    const char *standard;                   /* the default in words; NULL: it has none */
    bool fixed;                             /* cannot change while the gateway runs */
    const char *(*check)(const char *text); /* of a text, or of each of a list's; may be NULL */
    const char *help;
} gateway_key;

#define GATEWAY_KEYS 39u
extern const gateway_key gateway_keys[]; /* in the order of --help */

/* NULL: there is no such key. */
const gateway_key *gateway_key_find(const char *name, size_t length);

static inline void *gateway_key_member(const gateway_config *config, const gateway_key *key)
{
    return (char *) (uintptr_t) config + key->offset;
}

#endif
