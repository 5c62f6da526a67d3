/*
 * Bytes from protoc to a CodeGeneratorRequest: see request.h.
 */
#include "codegen/request.h"

#include "codegen/varint.h"

/* protoc itself parses no deeper (io::CodedInputStream's default limit). */
#define DEPTH_LIMIT 100

static const ProtobufCMessageDescriptor *child_type(const ProtobufCMessageDescriptor *type,
                                                    uint64_t number)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].id == number && type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
            return type->fields[i].descriptor;
    }
    return NULL;
}

/*
 * False where messages nest too deep. Malformed bytes end the walk and count as shallow: the
 * parser proper refuses them at the same place.
 */
static bool is_shallow(const ProtobufCMessageDescriptor *type, const uint8_t *at,
                       const uint8_t *end, unsigned depth)
{
    if (depth > DEPTH_LIMIT)
        return false;
    while (at < end) {
        uint64_t tag;
        uint64_t length = 0;

        if (!gen_read_varint(&at, end, &tag))
            return true;
        switch (tag & 7) {
        case 0:
            if (!gen_read_varint(&at, end, &length))
                return true;
            continue;
        case 1:
            length = 8;
            break;
        case 2:
            if (!gen_read_varint(&at, end, &length))
                return true;
            break;
        case 5:
            length = 4;
            break;
        default:
            return true;
        }
        if (length > (size_t) (end - at))
            return true;
        if ((tag & 7) == 2) {
            const ProtobufCMessageDescriptor *child = child_type(type, tag >> 3);

            if (child && !is_shallow(child, at, at + length, depth + 1))
                return false;
        }
        at += length;
    }
    return true;
}

Google__Protobuf__Compiler__CodeGeneratorRequest *gen_request_read(const uint8_t *data,
                                                                   size_t length)
{
    const ProtobufCMessageDescriptor *type =
        &google__protobuf__compiler__code_generator_request__descriptor;

    if (length > 0 && !is_shallow(type, data, data + length, 1))
        return NULL;
    return google__protobuf__compiler__code_generator_request__unpack(NULL, length, data);
}
