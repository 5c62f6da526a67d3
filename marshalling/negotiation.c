/* Which compressor to read and to write with: see negotiation.h. */
#include "marshalling/negotiation.h"

#include "core/slice.h"
#include "core/status.h"

#include <string.h>

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static pk_slice trim(pk_slice text)
{
    while (text.length > 0 && is_blank(text.bytes[0])) {
        text.bytes++;
        text.length--;
    }
    while (text.length > 0 && is_blank(text.bytes[text.length - 1]))
        text.length--;
    return text;
}

static bool is_identity(pk_slice name)
{
    static const char identity[] = "identity";
    if (name.length != sizeof identity - 1)
        return false;
    for (size_t i = 0; i < name.length; i++)
        if ((name.bytes[i] | 0x20) != identity[i])
            return false;
    return true;
}

/* Places in the set of the compressors that a list names, as bits. */
static unsigned accepted_bits(const pk_compressor_set *set, pk_slice list)
{
    unsigned bits = 0;
    while (list.length > 0) {
        const uint8_t *comma = memchr(list.bytes, ',', list.length);
        size_t length = comma ? (size_t) (comma - list.bytes) : list.length;
        pk_slice name = trim((pk_slice){list.bytes, length});
        const pk_compressor *found = name.length > 0 ? pk_compressor_set_find(set, name) : NULL;
        for (size_t i = 0; found && i < set->count; i++)
            if (set->items[i] == found)
                bits |= 1u << i;
        size_t used = comma ? length + 1 : length;
        list.bytes += used;
        list.length -= used;
    }
    return bits;
}

static const pk_compressor *most_wanted(const pk_compressor_set *set, unsigned bits)
{
    return bits ? set->items[__builtin_ctz(bits)] : NULL;
}

const pk_compressor *pk_negotiate_accepted(const pk_compressor_set *set, pk_slice accepted)
{
    return most_wanted(set, accepted_bits(set, accepted));
}

/* A list that came in several fields is one list. */
static const pk_compressor *negotiate_fields(const pk_compressor_set *set, const pk_head *head,
                                             size_t first)
{
    unsigned bits = 0;
    for (size_t i = first; i < head->count; i++)
        if (head->fields[i].known == PK_FIELD_GRPC_ACCEPT_ENCODING)
            bits |= accepted_bits(set, head->fields[i].value);
    return most_wanted(set, bits);
}

/*
 * The peers of a loop say the same few things: the last list is remembered with what it led to.
 */
static const pk_compressor *negotiate_outgoing(pk_marshalling *marshalling,
                                               const pk_compressor_set *set, const pk_head *head)
{
    size_t place = head->first[PK_FIELD_GRPC_ACCEPT_ENCODING];
    if (place == 0 || set->count == 0)
        return NULL;
    bool several = head->repeated & 1u << PK_FIELD_GRPC_ACCEPT_ENCODING;
    pk_slice list = head->fields[place - 1].value;
    if (PK_UNLIKELY(several || list.length > sizeof marshalling->accepted.text))
        return negotiate_fields(set, head, place - 1);
    if (PK_LIKELY(marshalling->accepted.set == set &&
                  pk_slice_is(list, marshalling->accepted.text, marshalling->accepted.length)))
        return marshalling->accepted.chosen;
    const pk_compressor *chosen = pk_negotiate_accepted(set, list);
    marshalling->accepted.set = set;
    marshalling->accepted.chosen = chosen;
    marshalling->accepted.length = (uint8_t) list.length;
    if (list.length > 0)
        memcpy(marshalling->accepted.text, list.bytes, list.length);
    return chosen;
}

/* What a message with the compressed flag was written with. False where it is not known here. */
PK_INLINE bool find_incoming(const pk_compressor_set *set, const pk_head *head,
                             const pk_compressor **ret_incoming)
{
    const pk_compressor *incoming = NULL;
    if (PK_UNLIKELY(head->first[PK_FIELD_GRPC_ENCODING] != 0)) {
        pk_slice name = trim(pk_head_value(head, PK_FIELD_GRPC_ENCODING));
        if (name.length > 0 && !is_identity(name)) {
            incoming = pk_compressor_set_find(set, name);
            if (!incoming)
                return false;
        }
    }
    *ret_incoming = incoming;
    return true;
}

int pk_negotiate(pk_marshalling *marshalling, const pk_compressor_set *set, const pk_head *head,
                 pk_arena *arena, pk_negotiation *ret_negotiation, pk_status *ret_status)
{
    const pk_compressor *incoming;
    if (PK_UNLIKELY(!find_incoming(set, head, &incoming))) {
        pk_slice name = pk_head_value(head, PK_FIELD_GRPC_ENCODING);
        *ret_status = pk_status_print(
            arena, PK_UNIMPLEMENTED, "grpc-encoding \"%.*s\" is not supported; supported are %.*s",
            name.length < 100 ? (int) name.length : 100, (const char *) name.bytes,
            (int) set->names_length, set->names);
        return PK_ERR_UNSUPPORTED;
    }
    ret_negotiation->incoming = incoming;
    ret_negotiation->outgoing = negotiate_outgoing(marshalling, set, head);
    return 0;
}

int pk_negotiate_response(const pk_compressor_set *set, const pk_head *head, pk_arena *arena,
                          const pk_compressor **ret_incoming, pk_status *ret_status)
{
    if (find_incoming(set, head, ret_incoming))
        return 0;
    pk_slice name = pk_head_value(head, PK_FIELD_GRPC_ENCODING);
    *ret_status =
        pk_status_print(arena, PK_INTERNAL, "the response's grpc-encoding \"%.*s\" was not offered",
                        name.length < 100 ? (int) name.length : 100, (const char *) name.bytes);
    return PK_ERR_UNSUPPORTED;
}
