/*
 * Decoding and packing through whatever a type has been generated with. Called by the codec, by
 * readers and by pk_message_dup.
 */
#include "marshalling/message.h"

#include "marshalling/decoder.h"
#include "marshalling/guard.h"

#include <stdlib.h>
#include <string.h>

static size_t budget_of(const struct pk_decode_limits *limits, size_t length)
{
    size_t most = limits && limits->budget ? limits->budget : PK_DECODE_BUDGET_DEFAULT;
    return pk_decode_budget(length, most);
}

static unsigned depth_of(const struct pk_decode_limits *limits)
{
    return limits && limits->depth ? limits->depth : PK_DECODE_DEPTH_DEFAULT;
}

/* `again`: *message has had a piece before. */
static int decode_slab(const pk_message_type *type, pk_arena *arena, size_t budget, unsigned depth,
                       uint8_t *bytes, size_t length, bool again, void **message,
                       const char **ret_problem)
{
    pk_decoder decoder;
    pk_decoder_init(&decoder, arena, budget, depth);
    if (type->reserve)
        decoder.reserve = type->reserve->strategy;
    int error = 0;
    if (again && !pk_decode_again(&decoder, *message))
        error = decoder.error;
    if (!error)
        error = type->decode(&decoder, message, bytes, length);
    pk_decoder_done(&decoder);
    return pk_message_decoded(&decoder, error, ret_problem);
}

/* The payload's copy: private, mutable, padded. NULL without memory. */
static uint8_t *copy_payload(pk_arena *arena, const uint8_t *bytes, size_t length)
{
    if (length > SIZE_MAX - PK_DECODE_PADDING)
        return NULL;
    uint8_t *copy = pk_arena_try(arena, length + PK_DECODE_PADDING);
    if (copy)
        pk_message_copy_payload(copy, bytes, length);
    return copy;
}

int pk_message_decode(const pk_message_type *type, pk_arena *arena,
                      const struct pk_decode_limits *limits, const uint8_t *bytes, size_t length,
                      void **ret_message, const char **ret_problem)
{
    if (!type->decode)
        return pk_guarded_unpack(type, arena, budget_of(limits, length), depth_of(limits), bytes,
                                 length, ret_message, ret_problem);
    uint8_t *copy = copy_payload(arena, bytes, length);
    if (!copy) {
        *ret_problem = "out of memory";
        return PK_ERR_NOMEM;
    }
    void *message = NULL;
    int error = decode_slab(type, arena, budget_of(limits, length), depth_of(limits), copy, length,
                            false, &message, ret_problem);
    if (PK_LIKELY(!error))
        *ret_message = message;
    return error;
}

int pk_message_decode_in_place(const pk_message_type *type, pk_arena *arena,
                               const struct pk_decode_limits *limits, uint8_t *bytes, size_t length,
                               void **ret_message, const char **ret_problem)
{
    if (!type->decode)
        return pk_guarded_unpack(type, arena, budget_of(limits, length), depth_of(limits), bytes,
                                 length, ret_message, ret_problem);
    void *message = NULL;
    int error = decode_slab(type, arena, budget_of(limits, length), depth_of(limits), bytes, length,
                            false, &message, ret_problem);
    if (!error)
        *ret_message = message;
    return error;
}

int pk_message_merge(const pk_message_type *type, pk_arena *arena,
                     const struct pk_decode_limits *limits, const uint8_t *bytes, size_t length,
                     void *message, const char **ret_problem)
{
    if (!type->decode) {
        *ret_problem = "message has no decoder that merges";
        return PK_ERR_UNSUPPORTED;
    }
    uint8_t *copy = copy_payload(arena, bytes, length);
    if (!copy) {
        *ret_problem = "out of memory";
        return PK_ERR_NOMEM;
    }
    return decode_slab(type, arena, budget_of(limits, length), depth_of(limits), copy, length, true,
                       &message, ret_problem);
}

/* ---- Packing -------------------------------------------------------------------------------- */

uint8_t *pk_message_pack_grow(pk_packer *packer, uint8_t *at, size_t need)
{
    pk_buffer *buffer = packer->owner;
    uint8_t *start = buffer->start;
    buffer->start = at;
    if (pk_buffer_room_before(buffer, need)) {
        buffer->start = start;
        return NULL;
    }
    packer->start = buffer->memory;
    packer->end = buffer->end;
    return buffer->start;
}

/* libprotobuf-c writes front to back; its size is known before. */
int pk_message_pack_by_descriptor(const void *message, pk_buffer *buffer)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size > PK_LENGTH_MAX)
        return PK_ERR_LIMIT;
    int error = pk_buffer_room_before(buffer, size);
    if (error)
        return error;
    buffer->start -= size;
    protobuf_c_message_pack(message, buffer->start);
    return 0;
}

int pk_message_pack_failed(const pk_packer *packer, size_t before)
{
    /* The buffer may have moved; what was in it is still its tail. */
    pk_buffer *buffer = packer->owner;
    buffer->start = buffer->end - before;
    return packer->error ? packer->error : PK_ERR_NOMEM;
}

/* ---- Copies that outlive their call --------------------------------------------------------- */

/* Everything that a copied message consists of; a pointer to it stands in front of the root. */
struct copy {
    pk_memory memory;
    pk_arena arena;
};

#define COPY_LINK 16u

/* The packed message, decoded into the copy's arena; its root is moved behind the link. */
static void *fill_copy(const pk_message_type *type, struct copy *copy, const void *message)
{
    const struct pk_decode_limits unlimited = {SIZE_MAX / 2, 0};
    const char *problem;
    void *decoded = NULL;
    pk_memory packing;
    pk_buffer_pool pool;
    if (pk_memory_init(&packing, NULL))
        return NULL;
    pk_buffer_pool_init(&pool, &packing);
    pk_buffer *packed = pk_buffer_get(&pool);
    if (packed) {
        pk_buffer_rewind_for_prepend(packed);
        if (pk_message_pack(type, message, packed) ||
            pk_message_decode(type, &copy->arena, &unlimited, packed->start,
                              pk_buffer_length(packed), &decoded, &problem))
            decoded = NULL;
    }
    pk_buffer_unref(packed);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&packing);
    if (!decoded)
        return NULL;
    uint8_t *link = pk_arena_try(&copy->arena, COPY_LINK + type->struct_size);
    if (!link)
        return NULL;
    memcpy(link, &copy, sizeof copy);
    memcpy(link + COPY_LINK, decoded, type->struct_size);
    return link + COPY_LINK;
}

static void free_copy(struct copy *copy)
{
    pk_arena_done(&copy->arena);
    pk_memory_done(&copy->memory);
    free(copy);
}

void *pk_message_dup(const pk_message_type *type, const void *message)
{
    struct copy *copy = malloc(sizeof *copy);
    if (!copy)
        return NULL;
    if (pk_memory_init(&copy->memory, NULL)) {
        free(copy);
        return NULL;
    }
    pk_arena_init(&copy->arena, &copy->memory, 0);
    void *made = fill_copy(type, copy, message);
    if (!made)
        free_copy(copy);
    return made;
}

void pk_message_free(void *message)
{
    if (!message)
        return;
    struct copy *copy;
    memcpy(&copy, (uint8_t *) message - COPY_LINK, sizeof copy);
    free_copy(copy);
}
