/* The list of what is pending, its cancellation, and the end of a scope: see scope.h. */
#include "core/scope.h"

#include <assert.h>

__thread struct pk_current pk_current;

static const pk_status scope_ended = {
    .code = PK_CANCELLED,
    .message = {(const uint8_t *) "the call has ended", 18},
};

void pk_scope_init(pk_scope *scope, pk_memory *memory, const pk_scope_host *host, void *loop,
                   size_t first_block)
{
    pk_arena_init(&scope->arena, memory, first_block);
    pk_scope_start(scope, host, loop);
}

void pk_scope_start(pk_scope *scope, const pk_scope_host *host, void *loop)
{
    scope->pending.next = scope->pending.previous = &scope->pending;
    scope->pending.cancel = NULL;
    scope->host = host;
    scope->loop = loop;
    scope->cancelled = NULL;
    scope->lasting = false;
    scope->completed = false;
    scope->on_released = NULL;
    scope->pins = 0;
    scope->label = NULL;
}

void pk_scope_cancel(pk_scope *scope, const pk_status *status)
{
    assert(status->code != PK_OK);
    if (scope->cancelled)
        return;
    scope->cancelled = status;
    /* A cancel function may take other entries off the ring: always go on from its head. */
    while (scope->pending.next != &scope->pending) {
        pk_pending *pending = scope->pending.next;
        pk_scope_remove(pending);
        pending->cancel(pending, status);
    }
}

void pk_scope_unpin(pk_scope *scope)
{
    assert(scope->pins > 0);
    if (--scope->pins == 0 && scope->on_released)
        scope->on_released(scope);
}

void pk_scope_release(pk_scope *scope, void (*on_released)(pk_scope *scope))
{
    assert(!scope->on_released);
    scope->on_released = on_released;
    if (scope->pins == 0)
        on_released(scope);
}

void pk_scope_end(pk_scope *scope, void (*on_released)(pk_scope *scope))
{
    pk_scope_cancel(scope, &scope_ended);
    pk_scope_release(scope, on_released);
}
