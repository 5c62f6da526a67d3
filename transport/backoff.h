/*
 * Pauses between attempts. Source: gRPC's connection-backoff.md: each is 1.6 times as long as the
 * last, up to a bound, give or take 20 %.
 *
 * Used by subchannels and by a channel whose name cannot be resolved; keeps no timer itself.
 */
#ifndef PEKOE_TRANSPORT_BACKOFF_H
#define PEKOE_TRANSPORT_BACKOFF_H

#include <stdint.h>

typedef struct pk_backoff {
    uint64_t initial, max; /* nanoseconds */
    uint64_t next;         /* before the jitter */
    uint32_t random;       /* never 0 */
} pk_backoff;

static inline void pk_backoff_reset(pk_backoff *backoff)
{
    backoff->next = backoff->initial;
}

static inline uint32_t pk_backoff_random(pk_backoff *backoff)
{
    /* xorshift32 */
    backoff->random ^= backoff->random << 13;
    backoff->random ^= backoff->random >> 17;
    backoff->random ^= backoff->random << 5;
    return backoff->random;
}

/* Nanoseconds to wait now; the next pause is longer. */
static inline uint64_t pk_backoff_pause(pk_backoff *backoff)
{
    uint64_t time = backoff->next;
    backoff->next = time + time / 10 * 6;
    if (backoff->next > backoff->max)
        backoff->next = backoff->max;
    double share = pk_backoff_random(backoff) / 4294967296.0;
    return time / 10 * 8 + (uint64_t) ((double) time * 0.4 * share);
}

#endif
