/* Command lines as gRPC's own interop clients and servers take them. */
#ifndef PEKOE_TESTS_INTEROP_FLAGS_H
#define PEKOE_TESTS_INTEROP_FLAGS_H

#include <stdbool.h>
#include <string.h>

/* The value of --name VALUE or --name=VALUE at argv[*at]; NULL where it is another option. */
static inline const char *flag_value(char **argv, int argc, int *at, const char *name)
{
    size_t length = strlen(name);
    const char *argument = argv[*at];
    if (strncmp(argument, name, length) != 0)
        return NULL;
    if (argument[length] == '=')
        return argument + length + 1;
    return argument[length] == '\0' && *at + 1 < argc ? argv[++*at] : NULL;
}

/* Whether the switch --name is at argv[*at]: alone, =true, =false, or with one of these behind it. */
static inline bool is_flag(char **argv, int argc, int *at, const char *name, bool *ret_on)
{
    size_t length = strlen(name);
    const char *argument = argv[*at], *value = NULL;
    if (strncmp(argument, name, length) != 0 ||
        (argument[length] != '\0' && argument[length] != '='))
        return false;
    if (argument[length] == '=')
        value = argument + length + 1;
    else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        value = argv[++*at];
    *ret_on = !value || strcmp(value, "true") == 0;
    return !value || *ret_on || strcmp(value, "false") == 0;
}

#endif
