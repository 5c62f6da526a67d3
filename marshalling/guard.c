/* The walk over the input, the budgeted allocator, and the unpack between them. */
#include "marshalling/guard.h"

#include <pekoe/generated_wire.h>

#include "marshalling/utf8.h"

#include <stdlib.h>

/*
 * The input belongs to somebody else and has no padding, so nothing is read past `end`: varints go
 * byte by byte. False where it has no end within 10 bytes and the input.
 */
static bool read_varint(const uint8_t **place, const uint8_t *end, uint64_t *ret_value)
{
    const uint8_t *p = *place;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        value |= (uint64_t) (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *place = p;
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* The fields of a descriptor are sorted by number. */
static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  uint64_t number)
{
    unsigned low = 0;
    unsigned high = type->n_fields;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (type->fields[middle].id < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < type->n_fields && type->fields[low].id == number)
        return &type->fields[low];
    return NULL;
}

/*
 * NULL, or what is wrong. Bytes that do not parse are left to protobuf-c, which refuses them; this
 * only has to see every message and string that it would see.
 */
static const char *walk(const ProtobufCMessageDescriptor *type, bool utf8, unsigned depth,
                        const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        uint64_t tag, value;
        if (!read_varint(&p, end, &tag))
            return NULL;
        switch (tag & 7) {
        case PK_WIRE_VARINT:
            if (!read_varint(&p, end, &value))
                return NULL;
            continue;
        case PK_WIRE_64:
        case PK_WIRE_32: {
            ptrdiff_t size = (tag & 7) == PK_WIRE_64 ? 8 : 4;
            if (end - p < size)
                return NULL;
            p += size;
            continue;
        }
        case PK_WIRE_LENGTH:
            break;
        default:
            return NULL;
        }
        if (!read_varint(&p, end, &value) || value > (size_t) (end - p))
            return NULL;
        /* Bits above 32 are cut by nobody here: protobuf-c takes such a number as it is. */
        const ProtobufCFieldDescriptor *field = find_field(type, tag >> 3);
        if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            if (depth == 0)
                return "malformed message: messages are nested too deep";
            const char *problem = walk(field->descriptor, utf8, depth - 1, p, p + value);
            if (problem)
                return problem;
        } else if (field && field->type == PROTOBUF_C_TYPE_STRING) {
            switch (pk_utf8_check(p, (size_t) value)) {
            case PK_TEXT_OK:
                break;
            case PK_TEXT_BAD:
                if (utf8)
                    return "malformed message: a string is not valid UTF-8";
                if (memchr(p, 0, (size_t) value) == NULL)
                    break;
                return "a string holds a NUL byte, which a C string cannot";
            case PK_TEXT_NUL:
                return "a string holds a NUL byte, which a C string cannot";
            }
        }
        p += value;
    }
    return NULL;
}

struct budget {
    pk_arena *arena;
    size_t left;
    int error;
};

static void *budget_alloc(void *context, size_t size)
{
    struct budget *budget = context;
    size_t rounded = (size + (PK_ARENA_ALIGNMENT - 1)) & ~(size_t) (PK_ARENA_ALIGNMENT - 1);
    if (rounded < size || rounded > budget->left) {
        budget->error = PK_ERR_LIMIT;
        return NULL;
    }
    budget->left -= rounded;
    void *piece = pk_arena_try(budget->arena, size);
    if (!piece)
        budget->error = PK_ERR_NOMEM;
    return piece;
}

static void budget_free(void *context, void *piece)
{
    /* The arena gives everything back at once. */
    (void) context;
    (void) piece;
}

int pk_guarded_unpack(const pk_message_type *type, pk_arena *arena, size_t budget_bytes,
                      unsigned depth, const uint8_t *bytes, size_t length, void **ret_message,
                      const char **ret_problem)
{
    const uint8_t *start = length > 0 ? bytes : (const uint8_t *) "";
    const char *problem =
        walk(type->descriptor, type->flags & PK_MESSAGE_UTF8, depth, start, start + length);
    if (problem) {
        *ret_problem = problem;
        return PK_ERR_MALFORMED;
    }
    struct budget budget = {arena, budget_bytes, 0};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
    ProtobufCMessage *message =
        protobuf_c_message_unpack(type->descriptor, &allocator, length, start);
    if (message) {
        *ret_message = message;
        return 0;
    }
    if (budget.error == PK_ERR_LIMIT)
        *ret_problem = "message needs more memory than its decode budget allows";
    else if (budget.error)
        *ret_problem = "out of memory";
    else
        *ret_problem = "malformed message";
    return budget.error ? budget.error : PK_ERR_MALFORMED;
}
