/*
 * Included before slab_unchecked.pekoe.c, which is slab_shapes.pekoe.c with another package: takes
 * the look at proto3's strings out, so that SlabBenchmark can tell what it costs.
 */
#ifndef PEKOE_BENCH_SLAB_UNCHECKED_H
#define PEKOE_BENCH_SLAB_UNCHECKED_H

#include <pekoe/generated_messages.h>

static inline __attribute__((always_inline)) bool
pk_bench_decode_unchecked(pk_decoder *decoder, uint8_t **place, uint8_t *end, char **text)
{
    size_t length;
    if (!pk_decode_length(decoder, place, end, &length))
        return false;
    *text = (char *) *place;
    *place += length;
    return true;
}

#define pk_decode_utf8 pk_bench_decode_unchecked

#endif
