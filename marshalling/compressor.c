/* Compressor sets, kept states, and one message through them: see compressor.h. */
#include "marshalling/compressor.h"

#include "marshalling/frame.h"

#include <string.h>

#define IDENTITY "identity"
#define EXPECTED_RATIO 4u /* plain to compressed */

const pk_compressor_set pk_compressor_set_default = {
    .items = {&pk_compressor_gzip, &pk_compressor_deflate},
    .count = 2,
    .names = IDENTITY ",gzip,deflate",
    .names_length = sizeof IDENTITY ",gzip,deflate" - 1,
};

void pk_compressor_set_init(pk_compressor_set *set)
{
    *set = (pk_compressor_set){.names = IDENTITY, .names_length = sizeof IDENTITY - 1};
}

static bool is_same_name(pk_slice name, const char *other)
{
    for (size_t i = 0; i < name.length; i++) {
        uint8_t c = name.bytes[i];
        if (c >= 'A' && c <= 'Z')
            c |= 0x20;
        if (c != (uint8_t) other[i]) /* ends at other's NUL, since 0 is in no name */
            return false;
    }
    return other[name.length] == '\0';
}

const pk_compressor *pk_compressor_set_find(const pk_compressor_set *set, pk_slice name)
{
    if (name.length > 0 && memchr(name.bytes, 0, name.length))
        return NULL;
    for (size_t i = 0; i < set->count; i++)
        if (is_same_name(name, set->items[i]->name))
            return set->items[i];
    return NULL;
}

static bool is_name(const char *name)
{
    for (const char *at = name; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || strchr("-_.", *at)))
            return false;
    return *name != '\0' && strcmp(name, IDENTITY) != 0;
}

int pk_compressor_set_add(pk_compressor_set *set, const pk_compressor *compressor)
{
    if (!is_name(compressor->name) || !compressor->compress || !compressor->decompress)
        return PK_ERR_INVALID;
    size_t length = strlen(compressor->name);
    if (pk_compressor_set_find(set, (pk_slice){(const uint8_t *) compressor->name, length}))
        return PK_ERR_EXISTS;
    if (set->count == PK_COMPRESSORS_MAX || length + 1 > sizeof set->names - set->names_length)
        return PK_ERR_LIMIT;
    set->items[set->count++] = compressor;
    set->names[set->names_length] = ',';
    memcpy(set->names + set->names_length + 1, compressor->name, length);
    set->names_length += length + 1;
    return 0;
}

/* ---- Output ---- */

struct pk_compressor_output {
    pk_buffer *buffer;
    size_t left; /* bytes up to the limit */
    int error;
};

uint8_t *pk_compressor_output_room(pk_compressor_output *output, size_t *ret_room)
{
    if (output->left == 0) {
        output->error = PK_ERR_LIMIT;
        return NULL;
    }
    /* Doubled, but not beyond what the limit, and what a decoder reads behind it, can use. */
    pk_buffer *buffer = output->buffer;
    int r = buffer->capacity > output->left
                ? pk_buffer_room_after_exactly(buffer, output->left + PK_FRAME_PADDING)
                : pk_buffer_room_after(buffer, 1);
    if (r < 0) {
        output->error = PK_ERR_NOMEM;
        return NULL;
    }
    size_t room = (size_t) (buffer->memory + buffer->capacity - buffer->end);
    *ret_room = room < output->left ? room : output->left;
    return buffer->end;
}

void pk_compressor_output_add(pk_compressor_output *output, size_t length)
{
    output->buffer->end += length;
    output->left -= length;
}

int pk_compressor_output_error(const pk_compressor_output *output)
{
    return output->error;
}

/* ---- Kept states ---- */

static void *resize_in_memory(void *context, void *block, size_t size)
{
    if (size > 0)
        return pk_memory_realloc(block, size, context);
    pk_memory_free(block, context);
    return NULL;
}

void pk_compressor_pool_init(pk_compressor_pool *pool, pk_memory *memory)
{
    *pool = (pk_compressor_pool){.allocator = {resize_in_memory, memory}};
}

static void free_slot(struct pk_compressor_slot *slot)
{
    const pk_compressor *compressor = slot->compressor;
    if (slot->compress_state)
        compressor->compress_state_free(slot->compress_state);
    if (slot->decompress_state)
        compressor->decompress_state_free(slot->decompress_state);
    *slot = (struct pk_compressor_slot){NULL, NULL, NULL};
}

void pk_compressor_pool_done(pk_compressor_pool *pool)
{
    for (size_t i = 0; i < PK_COMPRESSORS_MAX; i++)
        free_slot(&pool->slots[i]);
}

/* The compressor's slot; the last one is given up where all belong to others. */
static struct pk_compressor_slot *find_slot(pk_compressor_pool *pool,
                                            const pk_compressor *compressor)
{
    size_t i = 0;
    while (i < PK_COMPRESSORS_MAX - 1 && pool->slots[i].compressor &&
           pool->slots[i].compressor != compressor)
        i++;
    struct pk_compressor_slot *slot = &pool->slots[i];
    if (slot->compressor != compressor) {
        free_slot(slot);
        slot->compressor = compressor;
    }
    return slot;
}

int pk_compress(pk_compressor_pool *pool, const pk_compressor *compressor, pk_slice bytes,
                size_t limit, pk_buffer *ret_output)
{
    struct pk_compressor_slot *slot = find_slot(pool, compressor);
    if (!slot->compress_state && compressor->compress_state_new) {
        slot->compress_state = compressor->compress_state_new(&pool->allocator);
        if (!slot->compress_state)
            return PK_ERR_NOMEM;
    }
    pk_compressor_output output = {ret_output, limit, 0};
    return compressor->compress(slot->compress_state, bytes, &output);
}

int pk_decompress(pk_compressor_pool *pool, const pk_compressor *compressor, pk_slice bytes,
                  size_t limit, pk_buffer *ret_output)
{
    struct pk_compressor_slot *slot = find_slot(pool, compressor);
    if (!slot->decompress_state && compressor->decompress_state_new) {
        slot->decompress_state = compressor->decompress_state_new(&pool->allocator);
        if (!slot->decompress_state)
            return PK_ERR_NOMEM;
    }
    /* Room for what a usual message comes to, so that the buffer rarely grows by copying. */
    size_t expected =
        bytes.length < limit / (2 * EXPECTED_RATIO) ? bytes.length * EXPECTED_RATIO : limit;
    if (pk_buffer_room_after_exactly(ret_output, expected + PK_FRAME_PADDING) < 0)
        return PK_ERR_NOMEM;
    pk_compressor_output output = {ret_output, limit, 0};
    return compressor->decompress(slot->decompress_state, bytes, &output);
}
