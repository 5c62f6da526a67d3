/*
 * The payloads of SlabBenchmark: 64 different messages of one shape, packed, in turn. With fewer
 * the branch predictor learns them by heart.
 */
#ifndef PEKOE_BENCH_SLAB_PAYLOADS_H
#define PEKOE_BENCH_SLAB_PAYLOADS_H

#include <pekoe/message.h>

#include "core/arena.h"

#define PK_BENCH_PAYLOADS 64

struct pk_bench_payloads {
    const pk_message_type *type;
    const pk_message_type *unchecked_type; /* the same, decoded without a look at its text */
    pk_memory memory;
    pk_arena arena; /* holds the messages */
    void *messages[PK_BENCH_PAYLOADS];
    uint8_t *bytes[PK_BENCH_PAYLOADS]; /* each with room for padding behind it */
    size_t lengths[PK_BENCH_PAYLOADS];
    size_t largest;
};

/*
 * Whether a shape is measured with `count` elements, 0 meaning any number: SlabBatch with 8, 32 and
 * 128 items, NestedOrder with 1, 8, 32 and 128 lines, WriteRequest with 1, 32 and 128 puts,
 * HelloRequest with 1.
 */
bool pk_bench_payloads_have(const char *shape, size_t count);

/*
 * `dense`: each optional member is there; else each with a probability between 0.3 and 0.9.
 * False where there is no such shape or memory ran out.
 */
bool pk_bench_payloads_init(struct pk_bench_payloads *payloads, const char *shape, size_t count,
                            bool dense);
void pk_bench_payloads_done(struct pk_bench_payloads *payloads);

#endif
