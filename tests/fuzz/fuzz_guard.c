/*
 * libprotobuf-c's unpack behind guards: no input crashes it, or takes more than its budget. The
 * first byte chooses a type; what was unpacked is packed.
 */
#include "kinds2.pekoe.h"
#include "kinds3.pekoe.h"
#include "marshalling/decoder.h"
#include "marshalling/guard.h"
#include "marshalling/message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    static const pk_message_type *const types[] = {
        &kinds3_everything_type, &kinds2_everything_type, &kinds3_scalars_type,
        &kinds3_repeated_type,   &kinds3_maps_type,       &kinds3_choice_type,
        &kinds3_tree_type,       &kinds2_required_type,
    };
    pk_memory memory;
    pk_arena arena;
    pk_buffer_pool pool;
    void *message;
    const char *problem = NULL;

    if (length == 0 || pk_memory_init(&memory, NULL))
        return 0;
    pk_message_type type = *types[input[0] % (sizeof types / sizeof types[0])];
    size_t budget = pk_decode_budget(length - 1, PK_DECODE_BUDGET_DEFAULT);
    pk_arena_init(&arena, &memory, 0);
    pk_buffer_pool_init(&pool, &memory);
    type.pack = NULL;
    if (pk_guarded_unpack(&type, &arena, budget, PK_DECODE_DEPTH_DEFAULT, input + 1, length - 1,
                          &message, &problem) == 0) {
        pk_buffer *packed = pk_buffer_get(&pool);
        if (packed) {
            pk_buffer_rewind_for_prepend(packed);
            if (pk_message_pack(&type, message, packed))
                abort();
        }
        pk_buffer_unref(packed);
    } else if (!problem) {
        abort();
    }
    /* Blocks are powers of two, so that up to twice the budget may be held. */
    if (arena.total > 2 * budget + 65536)
        abort();
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
