/* marshalling/negotiation.c: any accept list and encoding; a remembered answer is the same answer. */
#include "marshalling/negotiation.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    pk_marshalling marshalling;
    if (pk_memory_init(&memory, NULL) < 0)
        abort();
    pk_buffer_pool_init(&pool, &memory);
    pk_arena_init(&arena, &memory, 0);
    pk_marshalling_init(&marshalling, &memory, &pool);

    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t first = newline ? (size_t) (newline - data) : size;
    pk_field fields[] = {
        {.name = PK_SLICE("grpc-accept-encoding"),
         .value = {data, first},
         .known = PK_FIELD_GRPC_ACCEPT_ENCODING},
        {.name = PK_SLICE("grpc-encoding"),
         .value = {newline ? newline + 1 : data, newline ? size - first - 1 : 0},
         .known = PK_FIELD_GRPC_ENCODING},
    };
    pk_head head = {.fields = fields, .count = 2};
    head.first[PK_FIELD_GRPC_ACCEPT_ENCODING] = 1;
    head.first[PK_FIELD_GRPC_ENCODING] = 2;
    pk_negotiation once = {NULL, NULL}, again = {NULL, NULL};
    pk_status status;
    int r = pk_negotiate(&marshalling, &pk_compressor_set_default, &head, &arena, &once, &status);
    int s = pk_negotiate(&marshalling, &pk_compressor_set_default, &head, &arena, &again, &status);
    if (r != s || once.incoming != again.incoming || once.outgoing != again.outgoing)
        abort();
    if (r == 0 &&
        once.outgoing != pk_negotiate_accepted(&pk_compressor_set_default, fields[0].value))
        abort();
    pk_marshalling_done(&marshalling);
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
