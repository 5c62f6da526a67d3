/*
 * Stands in for libprotobuf-c where that is not there (-m32): what generated code names, so that
 * it links. A testee whose types all have a slab decoder and a packer calls none of it.
 */
#include <protobuf-c/protobuf-c.h>

#include <stdlib.h>

const char protobuf_c_empty_string[] = "";

size_t protobuf_c_message_get_packed_size(const ProtobufCMessage *message)
{
    abort();
}

size_t protobuf_c_message_pack(const ProtobufCMessage *message, uint8_t *out)
{
    abort();
}

size_t protobuf_c_message_pack_to_buffer(const ProtobufCMessage *message, ProtobufCBuffer *buffer)
{
    abort();
}

ProtobufCMessage *protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
                                            ProtobufCAllocator *allocator, size_t length,
                                            const uint8_t *data)
{
    abort();
}

void protobuf_c_message_free_unpacked(ProtobufCMessage *message, ProtobufCAllocator *allocator)
{
    abort();
}
