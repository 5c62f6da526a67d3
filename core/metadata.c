/*
 * Metadata over received fields, and metadata to be sent: see metadata.h and <pekoe/metadata.h>.
 */
#include "core/metadata.h"

#include "core/base64.h"
#include "core/scope.h"

#include <string.h>
#include <strings.h>

#define FIRST_CAPACITY 4u /* fields */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t) (c | 0x20) : c;
}

static bool is_binary(pk_slice key)
{
    return key.length > 4 && memcmp(key.bytes + key.length - 4, "-bin", 4) == 0;
}

/* Names of HTTP and gRPC: neither shown to the application nor taken from it. */
static bool is_reserved(pk_slice name)
{
    static const pk_slice names[] = {
        PK_SLICE("te"),
        PK_SLICE("host"),
        PK_SLICE("trailer"),
        PK_SLICE("upgrade"),
        PK_SLICE("connection"),
        PK_SLICE("keep-alive"),
        PK_SLICE("content-type"),
        PK_SLICE("content-length"),
        PK_SLICE("accept-encoding"),
        PK_SLICE("content-encoding"),
        PK_SLICE("proxy-connection"),
        PK_SLICE("transfer-encoding"),
    };
    if (name.length > 0 && name.bytes[0] == ':')
        return true;
    if (name.length >= 5 && memcmp(name.bytes, "grpc-", 5) == 0) {
        /* A retried call tells its number to the handler. */
        static const pk_slice attempts = PK_SLICE("grpc-previous-rpc-attempts");
        return name.length != attempts.length ||
               memcmp(name.bytes, attempts.bytes, attempts.length) != 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name.length == names[i].length && memcmp(name.bytes, names[i].bytes, name.length) == 0)
            return true;
    return false;
}

static bool is_key(pk_slice key)
{
    for (size_t i = 0; i < key.length; i++) {
        uint8_t c = key.bytes[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
            return false;
    }
    return key.length > 0 && !is_reserved(key);
}

static bool is_text(pk_slice value)
{
    for (size_t i = 0; i < value.length; i++)
        if (value.bytes[i] < 0x20 || value.bytes[i] > 0x7e)
            return false;
    return true;
}

/* Blanks at the ends do not survive HTTP. */
static pk_slice trimmed(pk_slice value)
{
    while (value.length > 0 && (value.bytes[0] == ' ' || value.bytes[0] == '\t')) {
        value.bytes++;
        value.length--;
    }
    while (value.length > 0 &&
           (value.bytes[value.length - 1] == ' ' || value.bytes[value.length - 1] == '\t'))
        value.length--;
    return value;
}

pk_metadata *pk_metadata_new(pk_scope *scope)
{
    pk_metadata *metadata = scope ? pk_arena_try(&scope->arena, sizeof *metadata) : NULL;
    if (metadata)
        pk_metadata_init(metadata, &scope->arena);
    return metadata;
}

/* Room for one more field; NULL when memory runs out. */
static pk_field *next_field(pk_metadata *metadata)
{
    pk_field *fields = (pk_field *) (uintptr_t) metadata->fields; /* ours where not received */
    if (metadata->count == metadata->capacity) {
        size_t capacity = metadata->capacity ? 2 * metadata->capacity : FIRST_CAPACITY;
        fields = pk_arena_try(metadata->arena, capacity * sizeof *fields);
        if (!fields)
            return NULL;
        if (metadata->count > 0)
            memcpy(fields, metadata->fields, metadata->count * sizeof *fields);
        metadata->fields = fields;
        metadata->capacity = capacity;
    }
    return &fields[metadata->count];
}

int pk_metadata_add_slice(pk_metadata *metadata, pk_slice key, pk_slice value)
{
    if (metadata->received)
        return PK_ERR_STATE;
    pk_field *field = next_field(metadata);
    if (!field)
        return PK_ERR_NOMEM;
    *field = (pk_field){.name = key, .value = value};
    metadata->count++;
    return 0;
}

/* A lower-case copy of a key in the arena, checked. */
static int copy_key(pk_metadata *metadata, const char *key, bool binary, pk_slice *ret_key)
{
    size_t length = key ? strlen(key) : 0;
    uint8_t *copy = pk_arena_try(metadata->arena, length + 1);
    if (!copy)
        return PK_ERR_NOMEM;
    for (size_t i = 0; i < length; i++)
        copy[i] = lower((uint8_t) key[i]);
    pk_slice lowered = {copy, length};
    if (!is_key(lowered) || is_binary(lowered) != binary)
        return PK_ERR_INVALID;
    *ret_key = lowered;
    return 0;
}

int pk_metadata_add(pk_metadata *metadata, const char *key, const char *value)
{
    if (!metadata)
        return PK_ERR_NOMEM;
    if (metadata->received)
        return PK_ERR_STATE;
    pk_slice name;
    int r = copy_key(metadata, key, false, &name);
    if (r < 0)
        return r;
    if (!value)
        return PK_ERR_INVALID;
    pk_slice text = trimmed((pk_slice){(const uint8_t *) value, strlen(value)});
    if (!is_text(text))
        return PK_ERR_INVALID;
    uint8_t *copy = pk_arena_try(metadata->arena, text.length + 1);
    if (!copy)
        return PK_ERR_NOMEM;
    memcpy(copy, text.bytes, text.length);
    return pk_metadata_add_slice(metadata, name, (pk_slice){copy, text.length});
}

int pk_metadata_add_binary(pk_metadata *metadata, const char *key, const void *bytes, size_t length)
{
    if (!metadata)
        return PK_ERR_NOMEM;
    if (metadata->received)
        return PK_ERR_STATE;
    pk_slice name;
    int r = copy_key(metadata, key, true, &name);
    if (r < 0)
        return r;
    if (length > SIZE_MAX / 2 || (!bytes && length > 0))
        return PK_ERR_INVALID;
    uint8_t *text = pk_arena_try(metadata->arena, pk_base64_encoded_length(length, false) + 1);
    if (!text)
        return PK_ERR_NOMEM;
    size_t written = pk_base64_encode(text, bytes, length, false);
    return pk_metadata_add_slice(metadata, name, (pk_slice){text, written});
}

/* Whether a field belongs to the application. */
static bool is_shown(const pk_metadata *metadata, const pk_field *field)
{
    if (!metadata->received)
        return true;
    switch ((pk_field_name) field->known) {
    case PK_FIELD_USER_AGENT:
    case PK_FIELD_ORIGIN:
    case PK_FIELD_ACCEPT:
        return true;
    case PK_FIELD_OTHER:
        return !is_reserved(field->name);
    case PK_FIELD_METHOD:
    case PK_FIELD_PATH:
    case PK_FIELD_SCHEME:
    case PK_FIELD_AUTHORITY:
    case PK_FIELD_STATUS:
    case PK_FIELD_CONTENT_TYPE:
    case PK_FIELD_CONTENT_LENGTH:
    case PK_FIELD_CONTENT_ENCODING:
    case PK_FIELD_ACCEPT_ENCODING:
    case PK_FIELD_TE:
    case PK_FIELD_GRPC_TIMEOUT:
    case PK_FIELD_GRPC_ENCODING:
    case PK_FIELD_GRPC_ACCEPT_ENCODING:
    case PK_FIELD_NAMES:
        break;
    }
    return false;
}

static bool is_named(const pk_field *field, const char *key, size_t length)
{
    if (field->name.length != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (field->name.bytes[i] != lower((uint8_t) key[i]))
            return false;
    return true;
}

/*
 * The next value of a binary field, from place->offset on; moves the place behind it. False where
 * that value is no base64, or memory ran out.
 */
static bool next_binary(const pk_metadata *metadata, const pk_field *field,
                        pk_metadata_place *place, pk_slice *ret_value)
{
    pk_slice text = field->value;
    pk_slice rest = {text.bytes + place->offset, text.length - place->offset};
    const uint8_t *comma = rest.length > 0 ? memchr(rest.bytes, ',', rest.length) : NULL;
    if (comma) {
        rest.length = (size_t) (comma - rest.bytes);
        place->offset += rest.length + 1;
    } else {
        place->field++;
        place->offset = 0;
    }
    rest = trimmed(rest);
    uint8_t *bytes = pk_arena_try(metadata->arena, pk_base64_decoded_max(rest.length));
    if (!bytes || pk_base64_decode(bytes, rest, &ret_value->length) < 0)
        return false;
    ret_value->bytes = bytes;
    return true;
}

bool pk_metadata_next(const pk_metadata *metadata, const char *key, pk_metadata_place *place,
                      pk_slice *ret_key, pk_slice *ret_value)
{
    if (!metadata)
        return false;
    size_t length = key ? strlen(key) : 0;
    while (place->field < metadata->count) {
        const pk_field *field = &metadata->fields[place->field];
        if ((key && !is_named(field, key, length)) || !is_shown(metadata, field)) {
            place->field++;
            place->offset = 0;
            continue;
        }
        pk_slice value;
        if (is_binary(field->name)) {
            if (!next_binary(metadata, field, place, &value))
                continue;
        } else {
            value = field->value;
            if (!value.bytes)
                value.bytes = (const uint8_t *) "";
            place->field++;
        }
        if (ret_key)
            *ret_key = field->name;
        if (ret_value)
            *ret_value = value;
        return true;
    }
    return false;
}

pk_slice pk_metadata_get(const pk_metadata *metadata, const char *key)
{
    pk_metadata_place place = PK_METADATA_START;
    pk_slice value = {NULL, 0};
    if (key)
        (void) pk_metadata_next(metadata, key, &place, NULL, &value);
    return value;
}

pk_slice pk_metadata_get_last(const pk_metadata *metadata, const char *key)
{
    pk_metadata_place place = PK_METADATA_START;
    pk_slice value = {NULL, 0};
    while (key && pk_metadata_next(metadata, key, &place, NULL, &value))
        continue;
    return value;
}

/* ---- Passing on ---- */

static bool is_one_of(pk_slice name, const pk_slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (name.length == names[i].length && memcmp(name.bytes, names[i].bytes, name.length) == 0)
            return true;
    return false;
}

/* Whether a connection field names it, so that it concerns this hop only (RFC 9110, 7.6.1). */
static bool is_of_connection(const pk_metadata *metadata, pk_slice name)
{
    for (size_t i = 0; i < metadata->count; i++) {
        const pk_field *field = &metadata->fields[i];
        if (!is_named(field, "connection", 10))
            continue;
        pk_slice rest = field->value;
        while (rest.length > 0) {
            const uint8_t *comma = memchr(rest.bytes, ',', rest.length);
            size_t length = comma ? (size_t) (comma - rest.bytes) : rest.length;
            pk_slice option = trimmed((pk_slice){rest.bytes, length});
            if (option.length == name.length &&
                strncasecmp((const char *) option.bytes, (const char *) name.bytes, name.length) ==
                    0)
                return true;
            length += comma != NULL;
            rest = (pk_slice){rest.bytes + length, rest.length - length};
        }
    }
    return false;
}

/* Over HTTP/1.1 there may be one; the rule above costs nothing where there is none. */
static bool has_connection(const pk_metadata *metadata)
{
    for (size_t i = 0; metadata && i < metadata->count; i++)
        if (is_named(&metadata->fields[i], "connection", 10))
            return true;
    return false;
}

/* Whether a field goes on to the next hop; `named`: a connection field may name it. */
static bool is_forwarded(const pk_metadata *metadata, const pk_field *field, bool named)
{
    /* Of gRPC's own names these are between the two ends. */
    static const pk_slice end_to_end[] = {PK_SLICE("grpc-trace-bin"), PK_SLICE("grpc-tags-bin"),
                                          PK_SLICE("grpc-retry-pushback-ms")};
    static const pk_slice one_hop[] = {PK_SLICE("expect"), PK_SLICE("http2-settings"),
                                       PK_SLICE("proxy-authorization"),
                                       PK_SLICE("proxy-authenticate")};
    if (!is_text(field->value))
        return false;
    if (is_one_of(field->name, end_to_end, sizeof end_to_end / sizeof *end_to_end))
        return true;
    if (!is_shown(metadata, field) || !is_key(field->name))
        return false;
    return !is_one_of(field->name, one_hop, sizeof one_hop / sizeof *one_hop) &&
           !(named && is_of_connection(metadata, field->name));
}

static int copy_field(pk_metadata *to, const pk_field *field)
{
    size_t name_length = field->name.length, value_length = field->value.length;
    uint8_t *copy = pk_arena_try(to->arena, name_length + value_length + 1);
    if (!copy)
        return PK_ERR_NOMEM;
    memcpy(copy, field->name.bytes, name_length);
    if (value_length > 0)
        memcpy(copy + name_length, field->value.bytes, value_length);
    return pk_metadata_add_slice(to, (pk_slice){copy, name_length},
                                 (pk_slice){copy + name_length, value_length});
}

int pk_metadata_forward(pk_metadata *to, const pk_metadata *from, pk_metadata_filter *keep,
                        void *self)
{
    if (!to)
        return PK_ERR_NOMEM;
    if (to->received)
        return PK_ERR_STATE;
    bool named = has_connection(from);
    for (size_t i = 0; from && i < from->count; i++) {
        const pk_field *field = &from->fields[i];
        if (!is_forwarded(from, field, named) || (keep && !keep(self, field->name)))
            continue;
        int r = copy_field(to, field);
        if (r < 0)
            return r;
    }
    return 0;
}

bool pk_metadata_unlock(pk_metadata *metadata)
{
    if (!metadata->received)
        return true;
    pk_field *fields = pk_arena_try(metadata->arena, (metadata->count + 1) * sizeof *fields);
    if (!fields)
        return false;
    size_t shown = 0;
    for (size_t i = 0; i < metadata->count; i++) {
        if (is_shown(metadata, &metadata->fields[i]))
            fields[shown++] = metadata->fields[i];
    }
    *metadata = (pk_metadata){fields, shown, metadata->count + 1, false, metadata->arena};
    return true;
}

int pk_metadata_remove(pk_metadata *metadata, const char *key)
{
    if (!metadata)
        return PK_ERR_NOMEM;
    if (metadata->received)
        return PK_ERR_STATE;
    size_t length = key ? strlen(key) : 0, left = 0;
    pk_field *fields = (pk_field *) (uintptr_t) metadata->fields; /* ours where not received */
    for (size_t i = 0; i < metadata->count; i++) {
        if (!is_named(&fields[i], key, length))
            fields[left++] = fields[i];
    }
    metadata->count = left;
    return 0;
}

size_t pk_metadata_wire_size(const pk_field *fields, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += fields[i].name.length + fields[i].value.length + 32;
    return size;
}
