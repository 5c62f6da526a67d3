/* marshalling/triple_wrapper.c: any bytes as a request and as a response wrapper. */
#include "marshalling/triple_wrapper.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    if (pk_memory_init(&memory, NULL) < 0)
        abort();
    pk_buffer_pool_init(&pool, &memory);
    for (int side = 0; side < 2; side++) {
        pk_codec hessian2 = pk_codec_bytes;
        hessian2.name = "hessian2";
        const pk_codec *inner[] = {&hessian2, &pk_codec_bytes};
        pk_triple_session session;
        const void *message;
        const char *reason = NULL;
        pk_arena_init(&arena, &memory, 0);
        if (pk_triple_session_init(&session, (pk_triple_side) side, inner, 2) < 0)
            abort();
        if (session.codec.decode(&session.codec, NULL, (pk_slice){data, size}, &arena, &message,
                                 &reason) == 0) {
            /* What a server reads a client may write, and the reverse, where it is one value. */
            const pk_triple_values *values = message;
            pk_buffer *buffer = pk_buffer_get(&pool);
            if (!buffer)
                abort();
            if (session.codec.prepend(&session.codec, NULL, values, buffer) < 0 &&
                (side == PK_TRIPLE_CLIENT || values->count < 2))
                abort();
            pk_buffer_unref(buffer);
        } else if (!reason) {
            abort();
        }
        pk_arena_done(&arena);
    }
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
