/*
 * The calls that wait in a channel for a connection with room for one more stream, in the order in
 * which they came. Called by channel.c alone.
 */
#ifndef PEKOE_TRANSPORT_OPENING_QUEUE_H
#define PEKOE_TRANSPORT_OPENING_QUEUE_H

#include "core/channel.h"

typedef struct pk_opening_queue {
    pk_opening *first; /* of a ring; NULL: none waits */
    pk_opening *stays; /* while some of them fail: the first that was passed over; NULL: none */
} pk_opening_queue;

/* Puts one behind the others. */
void pk_opening_queue_add(pk_opening_queue *queue, pk_opening *opening);

/* Takes one out, wherever it stands. */
void pk_opening_queue_remove(pk_opening_queue *queue, pk_opening *opening);

/*
 * Fails those that wait with UNAVAILABLE and the text: all, or those that do not wait for ready. What
 * runs when one fails may remove others, add some, and come here again.
 */
void pk_opening_queue_fail(pk_opening_queue *queue, bool all, const char *text);

#endif
