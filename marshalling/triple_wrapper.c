/* Codec sessions for wrapped messages: see triple_wrapper.h. */
#include "marshalling/triple_wrapper.h"

#include <string.h>

#define FIELD_NAME 1u  /* serializeType */
#define FIELD_VALUE 2u /* args, data */
#define FIELD_TYPE 3u  /* argTypes, type */

#define WIRE_VARINT 0u
#define WIRE_FIXED64 1u
#define WIRE_BYTES 2u
#define WIRE_FIXED32 5u

#define VARINT_MAX 10u /* bytes */
#define PREFIX_MAX 5u  /* bytes of a key and of a length, as protobuf's own parsers have it */

static const pk_triple_session *session_of(const pk_codec *codec)
{
    return (const pk_triple_session *) (const void *) codec;
}

/* ---- Writing, back to front ---- */

/* Puts key and length of a field in front of its contents, `length` bytes that are there. */
static int prepend_key(pk_buffer *buffer, unsigned field, size_t length)
{
    uint8_t key[1 + VARINT_MAX];
    size_t size = 0;
    key[size++] = (uint8_t) (field << 3 | WIRE_BYTES);
    for (; length >= 0x80; length >>= 7)
        key[size++] = (uint8_t) (length | 0x80);
    key[size++] = (uint8_t) length;
    return pk_buffer_prepend(buffer, key, size);
}

static int prepend_text(pk_buffer *buffer, unsigned field, pk_slice text)
{
    int r = pk_buffer_prepend(buffer, text.bytes, text.length);
    return r < 0 ? r : prepend_key(buffer, field, text.length);
}

/* One value by the inner codec, in place where it can. */
static int prepend_inner(const pk_codec *inner, const void *value, pk_buffer *buffer)
{
    if (inner->prepend)
        return inner->prepend(inner, NULL, value, buffer);
    pk_memory *memory = buffer->pool->memory;
    uint8_t *bytes;
    size_t length;
    int r = inner->marshal(inner, NULL, value, memory, &bytes, &length);
    if (r < 0)
        return r;
    r = pk_buffer_prepend(buffer, bytes, length);
    pk_memory_put(memory, bytes, length);
    return r;
}

static int prepend_value(const pk_codec *inner, const void *value, pk_buffer *buffer)
{
    size_t before = pk_buffer_length(buffer);
    int r = value ? prepend_inner(inner, value, buffer) : 0;
    return r < 0 ? r : prepend_key(buffer, FIELD_VALUE, pk_buffer_length(buffer) - before);
}

/* data is left out where it is empty, as proto3 has it: that is how nothing is returned. */
static int prepend_response(const pk_codec *inner, const pk_triple_values *values,
                            pk_buffer *buffer)
{
    if (values->count > 1)
        return PK_ERR_INVALID;
    const void *value = values->count == 1 ? values->items[0] : NULL;
    int r = 0;
    if (values->types && values->count == 1 && values->types[0].length > 0)
        r = prepend_text(buffer, FIELD_TYPE, values->types[0]);
    size_t before = pk_buffer_length(buffer);
    if (r == 0 && value)
        r = prepend_inner(inner, value, buffer);
    size_t length = pk_buffer_length(buffer) - before;
    return r == 0 && length > 0 ? prepend_key(buffer, FIELD_VALUE, length) : r;
}

static int prepend_request(const pk_codec *inner, const pk_triple_values *values, pk_buffer *buffer)
{
    int r = 0;
    for (size_t i = values->types ? values->count : 0; r == 0 && i > 0; i--)
        r = prepend_text(buffer, FIELD_TYPE, values->types[i - 1]);
    for (size_t i = values->count; r == 0 && i > 0; i--)
        r = prepend_value(inner, values->items[i - 1], buffer);
    return r;
}

static int session_prepend(const pk_codec *self, const pk_message_type *type, const void *message,
                           pk_buffer *buffer)
{
    if (type)
        return pk_codec_proto.prepend(&pk_codec_proto, type, message, buffer);
    const pk_triple_session *session = session_of(self);
    const pk_codec *inner = session->chosen;
    size_t before = pk_buffer_length(buffer);
    int r = session->side == PK_TRIPLE_SERVER ? prepend_response(inner, message, buffer)
                                              : prepend_request(inner, message, buffer);
    if (r == 0)
        r = prepend_text(buffer, FIELD_NAME,
                         (pk_slice){(const uint8_t *) inner->name, strlen(inner->name)});
    if (r < 0)
        buffer->start = buffer->end - before;
    return r;
}

/* The same bytes the other way: each layer in memory of its own, then put together. */
static int session_marshal(const pk_codec *self, const pk_message_type *type, const void *message,
                           pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length)
{
    if (type)
        return pk_codec_proto.marshal(&pk_codec_proto, type, message, memory, ret_bytes,
                                      ret_length);
    pk_buffer_pool own;
    pk_buffer_pool_init(&own, memory);
    pk_buffer *buffer = pk_buffer_get(&own);
    int r = buffer ? session_prepend(self, NULL, message, buffer) : PK_ERR_NOMEM;
    size_t length = r == 0 ? pk_buffer_length(buffer) : 0;
    uint8_t *copy = length > 0 ? pk_memory_get(memory, length) : NULL;
    if (r == 0 && length > 0 && !copy)
        r = PK_ERR_NOMEM;
    if (copy)
        memcpy(copy, buffer->start, length);
    pk_buffer_unref(buffer);
    pk_buffer_pool_done(&own);
    if (r < 0)
        return r;
    *ret_bytes = copy;
    *ret_length = length;
    return 0;
}

/* ---- Reading ---- */

/* One of at most `most` bytes. */
static bool read_varint(pk_slice *rest, unsigned most, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < most && i < rest->length; i++) {
        value |= (uint64_t) (rest->bytes[i] & 0x7f) << (7 * i);
        if (rest->bytes[i] < 0x80) {
            rest->bytes += i + 1;
            rest->length -= i + 1;
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool skip(pk_slice *rest, size_t length)
{
    if (length > rest->length)
        return false;
    rest->bytes += length;
    rest->length -= length;
    return true;
}

/*
 * The next field; fields that are not bytes are passed over with *ret_field 0. 1, 0 at the end, or
 * PK_ERR_MALFORMED.
 */
static int read_field(pk_slice *rest, unsigned *ret_field, pk_slice *ret_contents)
{
    uint64_t key, length;
    if (rest->length == 0)
        return 0;
    if (!read_varint(rest, PREFIX_MAX, &key) || key >> 3 == 0 || key > UINT32_MAX)
        return PK_ERR_MALFORMED;
    *ret_field = 0;
    switch (key & 7) {
    case WIRE_VARINT:
        return read_varint(rest, VARINT_MAX, &length) ? 1 : PK_ERR_MALFORMED;
    case WIRE_FIXED64:
        return skip(rest, 8) ? 1 : PK_ERR_MALFORMED;
    case WIRE_FIXED32:
        return skip(rest, 4) ? 1 : PK_ERR_MALFORMED;
    case WIRE_BYTES:
        if (!read_varint(rest, PREFIX_MAX, &length) || length > rest->length)
            return PK_ERR_MALFORMED;
        *ret_field = (unsigned) (key >> 3);
        *ret_contents = (pk_slice){rest->bytes, (size_t) length};
        return skip(rest, (size_t) length) ? 1 : PK_ERR_MALFORMED;
    default:
        return PK_ERR_MALFORMED;
    }
}

struct wrapper {
    pk_slice name;
    size_t value_count;
    size_t type_count;
};

/* Counts what is in the wrapper, which checks it as well. */
static int measure(pk_slice bytes, struct wrapper *ret_wrapper)
{
    struct wrapper wrapper = {{NULL, 0}, 0, 0};
    unsigned field;
    pk_slice contents;
    int r;
    while ((r = read_field(&bytes, &field, &contents)) > 0) {
        if (field == FIELD_NAME)
            wrapper.name = contents;
        wrapper.value_count += field == FIELD_VALUE;
        wrapper.type_count += field == FIELD_TYPE;
    }
    *ret_wrapper = wrapper;
    return r;
}

/* No name, and the old name of its format, mean Hessian 2 (dubbo-go's rule). */
static const pk_codec *find_inner(const pk_triple_session *session, pk_slice name)
{
    if (name.length == 0 || (name.length == 8 && memcmp(name.bytes, "hessian4", 8) == 0))
        name = PK_SLICE("hessian2");
    for (size_t i = 0; i < session->inner_count; i++)
        if (strlen(session->inner[i]->name) == name.length &&
            memcmp(session->inner[i]->name, name.bytes, name.length) == 0)
            return session->inner[i];
    return NULL;
}

/* A response has one value, of which the last one written counts, or none. */
static size_t value_count_of(const pk_triple_session *session, const struct wrapper *wrapper)
{
    if (session->side == PK_TRIPLE_SERVER)
        return wrapper->value_count;
    return wrapper->value_count > 0 ? 1 : 0;
}

static int read_values(const pk_codec *inner, pk_slice bytes, bool is_response, pk_arena *arena,
                       const void **items, pk_slice *types, size_t type_count,
                       const char **ret_reason)
{
    unsigned field;
    pk_slice contents;
    size_t values = 0, named = 0;
    while (read_field(&bytes, &field, &contents) > 0) {
        if (field == FIELD_TYPE && named < type_count)
            types[named++] = contents;
        if (field != FIELD_VALUE)
            continue;
        size_t place = is_response ? 0 : values++;
        items[place] = NULL;
        if (contents.length == 0)
            continue; /* nothing: a null value */
        int r = inner->decode(inner, NULL, contents, arena, &items[place], ret_reason);
        if (r < 0)
            return r;
    }
    return 0;
}

static int session_decode(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                          pk_arena *arena, const void **ret_message, const char **ret_reason)
{
    if (type)
        return pk_codec_proto.decode(&pk_codec_proto, type, bytes, arena, ret_message, ret_reason);
    /* The session is ours to change: only its codec is handed out, and that as const. */
    pk_triple_session *session = (pk_triple_session *) (uintptr_t) self;
    struct wrapper wrapper;
    if (measure(bytes, &wrapper) < 0) {
        *ret_reason = "malformed wrapper";
        return PK_ERR_MALFORMED;
    }
    const pk_codec *inner = find_inner(session, wrapper.name);
    if (!inner) {
        *ret_reason = "unsupported or disabled serialize type";
        return PK_ERR_MALFORMED;
    }
    if (wrapper.value_count > PK_TRIPLE_VALUES_MAX || wrapper.type_count > PK_TRIPLE_VALUES_MAX) {
        *ret_reason = "too many values";
        return PK_ERR_LIMIT;
    }
    if (session->side == PK_TRIPLE_SERVER && wrapper.type_count > 0 &&
        wrapper.type_count != wrapper.value_count) {
        *ret_reason = "as many types as values are due";
        return PK_ERR_MALFORMED;
    }
    size_t count = value_count_of(session, &wrapper);
    pk_triple_values *values = pk_arena_try(arena, sizeof *values);
    const void **items = pk_arena_try(arena, (count + 1) * sizeof *items);
    pk_slice *types = pk_arena_try(arena, (wrapper.type_count + 1) * sizeof *types);
    if (!values || !items || !types) {
        *ret_reason = "out of memory";
        return PK_ERR_NOMEM;
    }
    int r = read_values(inner, bytes, session->side == PK_TRIPLE_CLIENT, arena, items, types,
                        wrapper.type_count, ret_reason);
    if (r < 0)
        return r;
    session->chosen = inner;
    *values =
        (pk_triple_values){items, wrapper.type_count == count && count > 0 ? types : NULL, count};
    *ret_message = values;
    return 0;
}

int pk_triple_session_init(pk_triple_session *session, pk_triple_side side,
                           const pk_codec *const *inner, size_t inner_count)
{
    if (inner_count == 0 || inner_count > PK_TRIPLE_CODECS_MAX)
        return PK_ERR_INVALID;
    *session = (pk_triple_session){
        .codec = {.name = "proto",
                  .prepend = session_prepend,
                  .marshal = session_marshal,
                  .decode = session_decode},
        .side = side,
        .inner_count = inner_count,
        .chosen = inner[0],
    };
    memcpy(session->inner, inner, inner_count * sizeof *inner);
    return 0;
}
