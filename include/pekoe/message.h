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

/* How a slab decoder finds the sizes of arrays before it has seen their last element. */
typedef enum pk_reserve {
    PK_RESERVE_GROWTH = 0,    /* arrays take 2 elements, then 8, then double */
    PK_RESERVE_LOOKAHEAD = 1, /* the records of one field that follow each other are counted */
    PK_RESERVE_PRESCAN = 2,   /* the root's records are counted in a pass of their own */
} pk_reserve;

/* One repeated message field of a root, for PK_RESERVE_PRESCAN. */
typedef struct pk_reserve_field {
    uint32_t number; /* of the field */
    uint32_t
        object_size; /* bytes of one element, the singular messages that it may hold included */
    size_t offset;   /* of the member that points to the array of pointers */
} pk_reserve_field;

typedef struct pk_reserve_plan {
    pk_reserve strategy;            /* from the plugin's slab-reserve= */
    unsigned field_count;           /* at most PK_RESERVE_FIELDS_MAX */
    const pk_reserve_field *fields; /* those that are counted */
} pk_reserve_plan;

#define PK_RESERVE_FIELDS_MAX 16

enum {
    PK_MESSAGE_UTF8 = 1 << 0, /* strings must be UTF-8 (the file's syntax is proto3) */
    /* A call decodes it on the body's own buffer, where it can; only with a slab decoder. */
    PK_MESSAGE_ZERO_COPY = 1 << 1,
};

typedef struct pk_message_type {
    const char *name; /* full proto name, "demo.HelloRequest" */
    const ProtobufCMessageDescriptor *descriptor;
    size_t struct_size; /* bytes of the C struct */
    unsigned flags;     /* PK_MESSAGE_... */
    /*
     * Writes the message so that it ends just before `at` and returns where it starts; NULL after
     * a failure, which the packer then holds. NULL: libprotobuf-c packs the message.
     */
    uint8_t *(*pack)(const void *message, pk_packer *packer, uint8_t *at);
    /*
     * Slab decoder: merges `length` bytes into *message, which is NULL (a fresh message is made in
     * the decoder's memory) or a message that a slab decoder made before. The bytes are changed
     * and stay referenced by the message; PK_DECODE_PADDING readable bytes follow them, the first
     * of which is written to. 0, or PK_ERR_* with the reason in the decoder and *message untouched
     * if it was NULL. A NULL function: the message is decoded by libprotobuf-c behind guards.
     */
    int (*decode)(pk_decoder *decoder, void **message, uint8_t *bytes, size_t length);
    const pk_reserve_plan *reserve; /* NULL: growth */
} pk_message_type;

/*
 * A copy of a message that outlives its call: packed and decoded into a few blocks of malloc's that
 * only it uses. Give it back with pk_message_free. NULL when memory runs out or the message cannot
 * be packed.
 */
PK_API PK_NODISCARD void *pk_message_dup(const pk_message_type *type, const void *message);

/* Frees a copy that pk_message_dup made, and nothing else; NULL is allowed. */
PK_API void pk_message_free(void *message);

PK_END_DECLS

#endif
