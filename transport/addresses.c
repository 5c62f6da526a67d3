/* Lists of addresses, and targets: see addresses.h. */
#include "transport/addresses.h"

#include "transport/socket.h"

#include <string.h>

/* A list with room for `count` texts of `bytes` together. NULL without memory. */
static pk_addresses *new_list(pk_memory *memory, size_t count, size_t bytes, char **ret_texts)
{
    size_t head = sizeof(pk_addresses) + count * sizeof(const char *);
    pk_addresses *addresses = pk_memory_get(memory, head + bytes);
    if (!addresses)
        return NULL;
    addresses->count = count;
    addresses->size = head + bytes;
    *ret_texts = (char *) addresses + head;
    return addresses;
}

pk_addresses *pk_addresses_new(pk_memory *memory, const char *const *items, size_t count)
{
    char *at;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(items[i]) + 1;
    pk_addresses *addresses = new_list(memory, count, bytes, &at);
    for (size_t i = 0; addresses && i < count; i++) {
        addresses->items[i] = at;
        at = stpcpy(at, items[i]) + 1;
    }
    return addresses;
}

pk_addresses *pk_addresses_free(pk_memory *memory, pk_addresses *addresses)
{
    if (addresses)
        pk_memory_put(memory, addresses, addresses->size);
    return NULL;
}

/* Where the addresses begin behind the scheme; NULL: it is none that is known. */
static const char *behind_scheme(const char *target)
{
    if (strncmp(target, "unix:", 5) == 0)
        return target;
    if (strncmp(target, "dns:///", 7) == 0)
        return strchr(target, ',') ? NULL : target + 7;
    if (strncmp(target, "ipv4:", 5) == 0 || strncmp(target, "ipv6:", 5) == 0)
        return target + 5;
    return strstr(target, "://") || strchr(target, ',') ? NULL : target;
}

static size_t count_of(const char *list)
{
    size_t count = 1;
    for (const char *at = list; *at; at++)
        count += *at == ',';
    return count;
}

int pk_target_parse(const char *text, pk_target *ret_target)
{
    const char *list = behind_scheme(text);
    if (!list)
        return PK_ERR_INVALID;
    bool several = count_of(list) > 1;
    for (const char *at = list;; at++) {
        char address[300];
        size_t length = strcspn(at, ",");
        if (length >= sizeof address)
            return PK_ERR_INVALID;
        memcpy(address, at, length);
        address[length] = '\0';
        /* A name among several would have to be resolved on its own. */
        if (!pk_socket_address_valid(address) || (several && !pk_socket_address_numeric(address)))
            return PK_ERR_INVALID;
        at += length;
        if (!*at)
            break;
    }
    *ret_target = (pk_target){.list = list,
                              .name = !several && !pk_socket_address_numeric(list),
                              .is_unix = strncmp(list, "unix:", 5) == 0};
    return 0;
}

pk_addresses *pk_target_addresses(pk_memory *memory, const pk_target *target)
{
    char *at;
    size_t count = count_of(target->list);
    pk_addresses *addresses = new_list(memory, count, strlen(target->list) + 1, &at);
    if (!addresses)
        return NULL;
    strcpy(at, target->list);
    for (size_t i = 0; i < count; i++) {
        addresses->items[i] = at;
        at += strcspn(at, ",");
        *at++ = '\0';
    }
    return addresses;
}
