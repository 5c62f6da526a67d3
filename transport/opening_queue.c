/* Calls that wait for a stream: see opening_queue.h. */
#include "transport/opening_queue.h"

#include <string.h>

void pk_opening_queue_add(pk_opening_queue *queue, pk_opening *opening)
{
    opening->waiting = true;
    if (!queue->first) {
        queue->first = opening->next = opening->previous = opening;
        return;
    }
    opening->next = queue->first;
    opening->previous = queue->first->previous;
    opening->next->previous = opening->previous->next = opening;
}

void pk_opening_queue_remove(pk_opening_queue *queue, pk_opening *opening)
{
    opening->waiting = false;
    if (queue->stays == opening)
        queue->stays = NULL; /* those that stay are gone through once more */
    if (queue->first == opening)
        queue->first = opening->next == opening ? NULL : opening->next;
    opening->next->previous = opening->previous;
    opening->previous->next = opening->next;
}

void pk_opening_queue_fail(pk_opening_queue *queue, bool all, const char *text)
{
    const pk_status why = {PK_UNAVAILABLE, {(const uint8_t *) text, strlen(text)}, {NULL, 0}};
    queue->stays = NULL;
    while (queue->first && queue->first != queue->stays) {
        pk_opening *opening = queue->first;
        if (!all && opening->wait_for_ready) {
            if (!queue->stays)
                queue->stays = opening;
            queue->first = opening->next;
            continue;
        }
        pk_opening_queue_remove(queue, opening);
        opening->failed(opening, &why);
    }
    queue->stays = NULL;
}
