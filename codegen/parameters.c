/*
 * The plugin's parameters: see parameters.h. One row of `known` per key.
 */
#include "codegen/parameters.h"

#include <string.h>

struct key {
    const char *name;
    const char *values; /* as the error shows them */
    /* False where the value is none of `values`. */
    bool (*set)(struct gen_parameters *parameters, const char *value, struct gen_memory *memory);
};

static bool set_messages(struct gen_parameters *parameters, const char *value,
                         struct gen_memory *memory)
{
    (void) memory;
    if (strcmp(value, "all") == 0)
        parameters->messages = true;
    else if (strcmp(value, "none") == 0)
        parameters->messages = false;
    else
        return false;
    return true;
}

static void add_name(const char ***names, size_t *count, const char *value,
                     struct gen_memory *memory)
{
    const char **grown = gen_array(memory, *count + 1, sizeof(*grown));

    for (size_t i = 0; i < *count; i++)
        grown[i] = (*names)[i];
    grown[(*count)++] = gen_strdup(memory, value);
    *names = grown;
}

static bool is_full_name(const char *value)
{
    return value[0] != '\0' && strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_.") == strlen(value);
}

static bool set_slab(struct gen_parameters *parameters, const char *value,
                     struct gen_memory *memory)
{
    if (strcmp(value, "services") == 0)
        parameters->slab = GEN_SLAB_SERVICES;
    else if (strcmp(value, "all") == 0)
        parameters->slab = GEN_SLAB_ALL;
    else if (strcmp(value, "opt-in") == 0)
        parameters->slab = GEN_SLAB_OPT_IN;
    else if (is_full_name(value))
        add_name(&parameters->slab_names, &parameters->n_slab_names, value, memory);
    else
        return false;
    return true;
}

static bool set_slab_exclude(struct gen_parameters *parameters, const char *value,
                             struct gen_memory *memory)
{
    if (!is_full_name(value))
        return false;
    add_name(&parameters->slab_excluded, &parameters->n_slab_excluded, value, memory);
    return true;
}

static bool set_slab_reserve(struct gen_parameters *parameters, const char *value,
                             struct gen_memory *memory)
{
    (void) memory;
    if (strcmp(value, "growth") == 0)
        parameters->slab_reserve = GEN_GROWTH;
    else if (strcmp(value, "lookahead") == 0)
        parameters->slab_reserve = GEN_LOOKAHEAD;
    else if (strcmp(value, "prescan") == 0)
        parameters->slab_reserve = GEN_PRESCAN;
    else
        return false;
    return true;
}

static bool set_slab_zero_copy(struct gen_parameters *parameters, const char *value,
                               struct gen_memory *memory)
{
    if (strcmp(value, "services") == 0)
        parameters->zero_copy_services = true;
    else if (is_full_name(value))
        add_name(&parameters->zero_copy_names, &parameters->n_zero_copy_names, value, memory);
    else
        return false;
    return true;
}

static const struct key known[] = {
    {"messages", "all|none", set_messages},
    {"slab", "services|all|opt-in|FULL.MESSAGE.NAME", set_slab},
    {"slab-exclude", "FULL.MESSAGE.NAME", set_slab_exclude},
    {"slab-reserve", "growth|lookahead|prescan", set_slab_reserve},
    {"slab-zero-copy", "services|FULL.MESSAGE.NAME", set_slab_zero_copy},
};

#define KNOWN_COUNT (sizeof known / sizeof known[0])

static const char *list_known(struct gen_memory *memory)
{
    const char *list = "";

    for (size_t i = 0; i < KNOWN_COUNT; i++)
        list = gen_format(memory, "%s%s%s=%s", list, i > 0 ? ", " : "", known[i].name,
                          known[i].values);
    return list;
}

static void read_one(struct gen_parameters *parameters, char *pair, struct gen_report *report)
{
    static const struct gen_place nowhere = {0};
    char *equals = strchr(pair, '=');
    const char *value = "";

    if (equals) {
        *equals = '\0';
        value = equals + 1;
    }
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (strcmp(pair, known[i].name) != 0)
            continue;
        if (!known[i].set(parameters, value, report->memory))
            gen_fail(report, nowhere, "parameter %s=%s: expected %s=%s", pair, value, known[i].name,
                     known[i].values);
        return;
    }
    gen_fail(report, nowhere, "unknown parameter \"%s\"; there are: %s", pair,
             list_known(report->memory));
}

void gen_parameters_read(struct gen_parameters *ret_parameters, const char *text,
                         struct gen_report *report)
{
    char *left;

    *ret_parameters = (struct gen_parameters){.messages = true};
    if (!text)
        return;
    left = gen_strdup(report->memory, text);
    while (left) {
        char *pair = strsep(&left, ",");

        if (pair[0] != '\0')
            read_one(ret_parameters, pair, report);
    }
}
