/*
 * Messages: protobuf-c structs, and what pekoe's generated code knows of each.
 *
 * A message keeps protobuf-c's struct and descriptor, so all of libprotobuf-c works on it. Beside
 * them protoc-gen-pekoe generates one pk_message_type: a packer that writes back to front, and,
 * where the `slab` feature is on for the message, a decoder that carves the whole tree out of the
 * call's arena.
 */
#ifndef PEKOE_MESSAGE_H
#define PEKOE_MESSAGE_H

#include <pekoe/base.h>

#include <protobuf-c/protobuf-c.h>

PK_BEGIN_DECLS

typedef struct pk_packer pk_packer;
typedef struct pk_decoder pk_decoder;

typedef struct pk_message_type {
    const char *name; /* full proto name, "demo.HelloRequest" */
    const ProtobufCMessageDescriptor *descriptor;
    size_t struct_size; /* bytes of the C struct */
    /*
     * Writes the message so that it ends just before `at` and returns where it starts; NULL after
     * a failure, which the packer then holds.
     */
    uint8_t *(*pack)(const void *message, pk_packer *packer, uint8_t *at);
    /*
     * Slab decoder: merges `length` bytes into an initialized message. The bytes are changed and
     * stay referenced by the message; they are followed by readable padding (see
     * generated_messages.h). 0 or PK_ERR_*, with the reason in the decoder. NULL: the message has
     * none and is decoded by libprotobuf-c behind guards.
     */
    int (*decode)(pk_decoder *decoder, void *message, uint8_t *bytes, size_t length);
} pk_message_type;

PK_END_DECLS

#endif
