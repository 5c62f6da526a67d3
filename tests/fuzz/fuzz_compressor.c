/*
 * marshalling/compressor*.c: any bytes decompress to at most the limit or fail, and what is
 * compressed comes back. One pool serves all inputs, so a state that a bad piece spoils is seen.
 */
#include "marshalling/compressor.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 100000u

static pk_memory memory;
static pk_buffer_pool buffers;
static pk_compressor_pool pool;

/* Sanitizers take what only poisoned blocks point to for leaked. */
static void stop(void)
{
    pk_compressor_pool_done(&pool);
    pk_buffer_pool_done(&buffers);
    pk_memory_done(&memory);
}

static void start(void)
{
    static bool started;
    if (started)
        return;
    if (pk_memory_init(&memory, NULL) < 0)
        abort();
    pk_buffer_pool_init(&buffers, &memory);
    pk_compressor_pool_init(&pool, &memory);
    started = true;
    atexit(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pk_compressor *const both[] = {&pk_compressor_gzip, &pk_compressor_deflate};
    start();
    for (size_t i = 0; i < 2; i++) {
        pk_buffer *piece = pk_buffer_get(&buffers), *plain = pk_buffer_get(&buffers);
        if (!piece || !plain)
            abort();
        pk_buffer_rewind_for_append(piece, 5);
        pk_buffer_rewind_for_append(plain, 0);
        (void) !pk_decompress(&pool, both[i], (pk_slice){data, size}, LIMIT, plain);
        if (pk_buffer_length(plain) > LIMIT)
            abort();
        pk_buffer_rewind_for_append(plain, 0);
        if (pk_compress(&pool, both[i], (pk_slice){data, size}, SIZE_MAX, piece) < 0 ||
            pk_decompress(&pool, both[i], (pk_slice){piece->start, pk_buffer_length(piece)}, size,
                          plain) < 0 ||
            pk_buffer_length(plain) != size || (size > 0 && memcmp(plain->start, data, size) != 0))
            abort();
        pk_buffer_unref(piece);
        pk_buffer_unref(plain);
    }
    return 0;
}
