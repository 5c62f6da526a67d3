/* Pooled byte buffers: see buffer.h. */
#include "core/buffer.h"

#include <assert.h>
#include <string.h>

#define KEPT_BYTES_MAX (32u << 20) /* capacity that a pool keeps, all buffers together */

/* Its address is another one on each thread. */
static __thread char thread_mark;

void pk_buffer_pool_init(pk_buffer_pool *pool, pk_memory *memory)
{
    *pool = (pk_buffer_pool){.memory = memory, .thread = &thread_mark};
}

/* What a kept buffer had in it is nobody's, as with kept blocks: see memory.h. */
static void free_buffer(pk_buffer_pool *pool, pk_buffer *buffer)
{
    PK_MEMORY_ALLOW(buffer->memory, buffer->capacity);
    pk_memory_put(pool->memory, buffer->memory, buffer->capacity);
    pk_memory_put(pool->memory, buffer, sizeof *buffer);
}

static void free_list(pk_buffer_pool *pool, pk_buffer **list)
{
    while (*list) {
        pk_buffer *buffer = *list;
        *list = buffer->next;
        free_buffer(pool, buffer);
    }
}

void pk_buffer_pool_done(pk_buffer_pool *pool)
{
    assert(pool->lent == 0);
    free_list(pool, &pool->kept);
    free_list(pool, &pool->blocks);
    pool->kept_bytes = 0;
}

/* A new buffer of `size` bytes, lent at once: of a list that is empty. NULL without memory. */
static __attribute__((noinline)) pk_buffer *make(pk_buffer_pool *pool, size_t size)
{
    pk_buffer *buffer = pk_memory_get(pool->memory, sizeof *buffer);
    if (!buffer)
        return NULL;
    uint8_t *memory = pk_memory_get(pool->memory, size);
    if (!memory) {
        pk_memory_put(pool->memory, buffer, sizeof *buffer);
        return NULL;
    }
    *buffer = (pk_buffer){.memory = memory,
                          .capacity = size,
                          .pool = pool,
                          .references = 1,
                          .block = size == PK_BUFFER_BLOCK};
    if (buffer->block)
        pk_buffer_rewind_for_append(buffer, 0);
    else
        pk_buffer_rewind_for_prepend(buffer);
    pool->lent++;
    return buffer;
}

/* The newest of the list, which is not empty. */
PK_INLINE pk_buffer *take(pk_buffer_pool *pool, pk_buffer **list)
{
    pk_buffer *buffer = *list;
    PK_MEMORY_ALLOW(buffer->memory, buffer->capacity);
    *list = buffer->next;
    pool->kept_bytes -= buffer->capacity;
    pool->lent++;
    buffer->next = NULL;
    buffer->references = 1;
    return buffer;
}

pk_buffer *pk_buffer_get(pk_buffer_pool *pool)
{
    assert(pool->thread == &thread_mark);
    if (PK_UNLIKELY(!pool->kept))
        return make(pool, PK_BUFFER_FIRST);
    pk_buffer *buffer = take(pool, &pool->kept);
    pk_buffer_rewind_for_prepend(buffer);
    return buffer;
}

pk_buffer *pk_buffer_get_block(pk_buffer_pool *pool)
{
    assert(pool->thread == &thread_mark);
    if (PK_UNLIKELY(!pool->blocks))
        return make(pool, PK_BUFFER_BLOCK);
    pk_buffer *buffer = take(pool, &pool->blocks);
    pk_buffer_rewind_for_append(buffer, 0);
    return buffer;
}

pk_buffer *pk_buffer_unref(pk_buffer *buffer)
{
    if (!buffer)
        return NULL;
    pk_buffer_pool *pool = buffer->pool;
    assert(pool->thread == &thread_mark);
    if (--buffer->references > 0)
        return NULL;
    pool->lent--;
    if (PK_UNLIKELY(buffer->capacity > PK_BUFFER_KEPT_MAX ||
                    pool->kept_bytes + buffer->capacity > KEPT_BYTES_MAX)) {
        free_buffer(pool, buffer);
        return NULL;
    }
    PK_MEMORY_FORBID(buffer->memory, buffer->capacity);
    pk_buffer **list = buffer->block ? &pool->blocks : &pool->kept;
    pool->kept_bytes += buffer->capacity;
    buffer->next = *list;
    *list = buffer;
    return NULL;
}

/*
 * Larger memory of at least `needed` and `wanted` bytes; the caller moves the contents and frees
 * the old.
 */
static uint8_t *larger_memory(pk_buffer *buffer, size_t needed, size_t wanted, size_t *ret_capacity)
{
    size_t capacity = wanted < needed ? needed : wanted;
    capacity = pk_memory_usable(capacity);
    uint8_t *memory = pk_memory_get(buffer->pool->memory, capacity);
    if (memory) {
        *ret_capacity = capacity;
        buffer->block = false;
    }
    return memory;
}

int pk_buffer_room_before(pk_buffer *buffer, size_t size)
{
    size_t front = (size_t) (buffer->start - buffer->memory);
    if (PK_LIKELY(size <= front))
        return 0;
    size_t length = pk_buffer_length(buffer), capacity, needed;
    size_t behind = (size_t) (buffer->memory + buffer->capacity - buffer->end);
    if (__builtin_add_overflow(size, length + behind, &needed) || needed > SIZE_MAX / 4)
        return PK_ERR_NOMEM;
    uint8_t *memory = larger_memory(buffer, needed, 2 * buffer->capacity, &capacity);
    if (!memory)
        return PK_ERR_NOMEM;
    uint8_t *end = memory + capacity - behind;
    if (length > 0)
        memcpy(end - length, buffer->start, length);
    pk_memory_put(buffer->pool->memory, buffer->memory, buffer->capacity);
    buffer->memory = memory;
    buffer->capacity = capacity;
    buffer->start = end - length;
    buffer->end = end;
    return 0;
}

static int room_after(pk_buffer *buffer, size_t size, size_t wanted)
{
    size_t behind = (size_t) (buffer->memory + buffer->capacity - buffer->end);
    if (PK_LIKELY(size <= behind))
        return 0;
    size_t length = pk_buffer_length(buffer), capacity, needed;
    size_t front = (size_t) (buffer->start - buffer->memory);
    if (length == 0)
        front = front < 64 ? front : 0; /* an empty buffer may stand at its end */
    if (__builtin_add_overflow(size, length + front, &needed) || needed > SIZE_MAX / 4)
        return PK_ERR_NOMEM;
    uint8_t *memory = buffer->memory;
    if (needed > buffer->capacity) {
        memory = larger_memory(buffer, needed, wanted, &capacity);
        if (!memory)
            return PK_ERR_NOMEM;
        if (length > 0)
            memcpy(memory + front, buffer->start, length);
        pk_memory_put(buffer->pool->memory, buffer->memory, buffer->capacity);
        buffer->memory = memory;
        buffer->capacity = capacity;
    }
    buffer->start = memory + front;
    buffer->end = buffer->start + length;
    return 0;
}

int pk_buffer_room_after(pk_buffer *buffer, size_t size)
{
    return room_after(buffer, size, 2 * buffer->capacity);
}

int pk_buffer_room_after_exactly(pk_buffer *buffer, size_t size)
{
    return room_after(buffer, size, 0);
}

int pk_buffer_prepend(pk_buffer *buffer, const void *bytes, size_t length)
{
    int r = pk_buffer_room_before(buffer, length);
    if (r < 0)
        return r;
    buffer->start -= length;
    if (length > 0)
        memcpy(buffer->start, bytes, length);
    return 0;
}

int pk_buffer_append(pk_buffer *buffer, const void *bytes, size_t length)
{
    int r = pk_buffer_room_after(buffer, length);
    if (r < 0)
        return r;
    if (length > 0)
        memcpy(buffer->end, bytes, length);
    buffer->end += length;
    return 0;
}

pk_buffer *pk_buffer_queue_on(pk_buffer *more_take)
{
    pk_buffer *gathering = pk_buffer_get(more_take->pool);
    if (PK_UNLIKELY(!gathering))
        return more_take; /* as it is: that takes no memory */
    pk_buffer_rewind_for_append(gathering, 0);
    size_t length = pk_buffer_length(more_take);
    memcpy(gathering->end, more_take->start, length);
    gathering->end += length;
    pk_buffer_unref(more_take);
    return gathering;
}
