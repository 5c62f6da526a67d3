/* marshalling/protocol_bare_error.c: JSON that is read is written and read again as the same. */
#include "marshalling/protocol_bare_error.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    pk_status status, again;
    if (pk_memory_init(&memory, NULL) < 0)
        abort();
    pk_buffer_pool_init(&pool, &memory);
    pk_arena_init(&arena, &memory, 0);
    pk_buffer *json = pk_buffer_get(&pool);
    if (!json)
        abort();
    pk_buffer_rewind_for_append(json, 0);
    if (pk_bare_error_read((pk_slice){data, size}, &arena, &status)) {
        if (pk_bare_error_write(&status, json) < 0 ||
            !pk_bare_error_read((pk_slice){json->start, pk_buffer_length(json)}, &arena, &again) ||
            again.code != status.code || again.message.length != status.message.length ||
            (status.message.length > 0 &&
             memcmp(again.message.bytes, status.message.bytes, status.message.length) != 0))
            abort();
    }
    /* The input as details must not upset the writer. */
    status = (pk_status){PK_ABORTED, {data, size}, {data, size}};
    pk_buffer_rewind_for_append(json, 0);
    if (pk_bare_error_write(&status, json) < 0)
        abort();
    pk_buffer_unref(json);
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
