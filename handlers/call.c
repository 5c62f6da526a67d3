/*
 * A server's call: memory, deadline, end. Read from pk_call_open to release_call: that is its life.
 *
 * Ending happens in one place, pk_call_end, whatever the reason. The clean-up functions of
 * pk_call_on_end run when the handler's own future has settled, so that no step of the handler
 * finds its things gone; cancelling the scope makes that happen in the same turn.
 */
#include "handlers/call.h"

#include <pekoe/tls.h>

#include "core/status.h"
#include "handlers/client_call.h"
#include "handlers/router.h"

#include <assert.h>
#include <stdarg.h>

static const pk_status ended_normally = {
    PK_CANCELLED, {(const uint8_t *) "the call has ended", 18}, {NULL, 0}};
static const pk_status deadline_passed = {
    PK_DEADLINE_EXCEEDED, {(const uint8_t *) "deadline exceeded", 17}, {NULL, 0}};
static const pk_status cancelled_by_application = {
    PK_CANCELLED, {(const uint8_t *) "cancelled by the application", 28}, {NULL, 0}};

void pk_call_change_state(pk_call *call, pk_call_state next)
{
    assert(next > call->state);
    call->state = next;
}

/* ---- Life ---- */

static void release_call(pk_scope *scope)
{
    pk_call *call = (pk_call *) scope;
    pk_call_run_releases(call);
    if (PK_UNLIKELY(call->children != NULL))
        pk_client_release_children(call);
    pk_router *router = call->router;
    pk_memory *memory = scope->arena.memory;
    pk_arena_end(&scope->arena);
    pk_memory_put(memory, call, PK_CALL_BLOCK);
    pk_router_call_gone(router);
}

void pk_call_keep(pk_call *call, pk_buffer *buffer_take)
{
    assert(!call->kept && "a call has one message of this kind");
    call->kept = buffer_take;
    call->exchange->ops->hold(call->exchange, buffer_take->capacity);
}

void pk_call_handling(pk_call *call)
{
    pk_call_change_state(call, PK_CALL_HANDLING);
    call->settling = true;
}

/* ---- The response ---- */

const pk_status *pk_call_map_failure(pk_call *call, const pk_status *status)
{
    pk_router *router = call->router;
    if (!router->error_handler || !pk_call_is_open(call) || call->scope.arena.exhausted)
        return status; /* or it is pekoe's own: a cancel, a deadline, no memory */
    struct pk_current outer = pk_call_enter(call);
    const pk_status *mapped = router->error_handler(router->error_self, call, status);
    pk_call_leave(outer);
    return mapped && mapped->code != PK_OK ? mapped : status;
}

/* Hands a whole response down and ends the call; `code` is what it says, `status` what was meant. */
static void send_whole(pk_call *call, pk_reply *reply, pk_code code, const pk_status *status)
{
    if (PK_UNLIKELY(call->scope.arena.exhausted)) {
        pk_buffer_unref(reply->body);
        pk_protocol_reply_no_memory(call->reply_protocol, reply);
        code = PK_RESOURCE_EXHAUSTED;
    }
    call->answered = true;
    call->exchange->ops->reply_strict(call->exchange, reply);
    pk_call_end(call, code == PK_OK ? NULL : status ? status : &ended_normally);
}

void pk_call_answer(pk_call *call, const pk_outcome *outcome)
{
    if (!pk_call_is_open(call))
        return;
    const pk_protocol *protocol = call->reply_protocol;
    pk_reply reply;
    pk_code code = protocol->reply_unary(protocol, &call->encoding, outcome, &reply);
    send_whole(call, &reply, code, outcome->status);
}

void pk_call_answer_status(pk_call *call, const pk_status *status)
{
    if (!pk_call_is_open(call))
        return;
    const pk_protocol *protocol = call->reply_protocol;
    pk_outcome outcome = {.status = status,
                          .headers = &call->headers,
                          .trailers = &call->trailers,
                          .http_status = call->body.http_status};
    pk_reply reply;
    pk_code code = protocol->reply_status(protocol, &call->encoding, &outcome, &reply);
    send_whole(call, &reply, code, status);
}

/* ---- The end ---- */

/* Clean-up functions, newest first. One may add none: the call has ended. */
void pk_call_run_end_entries(pk_call *call)
{
    struct pk_current outer = pk_call_enter(call);
    while (call->end_entries) {
        struct pk_call_end_entry *entry = call->end_entries;
        call->end_entries = entry->next;
        entry->fn(entry->arg);
    }
    pk_call_leave(outer);
}

/* Whether there is more to end than the call itself: what most calls never had. */
static inline bool has_loose_ends(const pk_call *call)
{
    return call->deadline.place != 0 || call->children || call->end_entries ||
           call->scope.pending.next != &call->scope.pending || call->scope.cancelled ||
           pk_body_reader_has_buffers(&call->body);
}

static __attribute__((noinline)) void end_all(pk_call *call, const pk_status *status)
{
    pk_timer_stop(call->loop, &call->deadline);
    pk_body_reader_done(&call->body);
    if (call->children)
        pk_client_end_children(call, status ? status : &ended_normally);
    call->scope.completed = !call->abandoned;
    if (status && call->settling) {
        /* The caller's status may not last as long as the steps that will be told. */
        call->end_status = pk_status_copy(&call->scope.arena, status);
        pk_scope_cancel(&call->scope, &call->end_status);
    } else {
        pk_scope_cancel(&call->scope, &ended_normally);
    }
    if (!call->settling)
        pk_call_run_end_entries(call);
}

void pk_call_end(pk_call *call, const pk_status *status)
{
    if (!pk_call_is_open(call))
        return;
    pk_call_change_state(call, PK_CALL_ENDED);
    if (PK_UNLIKELY(status || has_loose_ends(call))) {
        end_all(call, status);
        return;
    }
    call->scope.completed = !call->abandoned;
    call->scope.cancelled = &ended_normally;
}

void pk_call_settled(pk_call *call)
{
    call->settling = false;
    if (PK_UNLIKELY(call->end_entries != NULL) && !pk_call_is_open(call))
        pk_call_run_end_entries(call);
}

void pk_call_on_cancelled(pk_exchange *exchange, const pk_status *why)
{
    pk_call *call = exchange->user;
    call->abandoned = true;
    pk_call_end(call, why);
}

void pk_call_on_closed(pk_exchange *exchange)
{
    static const pk_status lost = {
        PK_UNAVAILABLE, {(const uint8_t *) "the connection was lost", 23}, {NULL, 0}};
    pk_call *call = exchange->user;
    if (pk_call_is_open(call)) {
        call->abandoned = true;
        pk_call_end(call, &lost);
    }
    pk_call_change_state(call, PK_CALL_CLOSED);
    /* The head's fields go with the exchange. */
    if (PK_UNLIKELY(call->scope.pins > 0)) {
        (void) pk_call_method(call);
        call->metadata = pk_metadata_over(NULL, 0, &call->scope.arena);
    }
    call->exchange = NULL;
    call->head = NULL;
    pk_scope_release(&call->scope, release_call);
}

/* ---- Deadline and cancel ---- */

static void drop_token(void *arg)
{
}

/* An end that the handler did not ask for, with an answer to the peer. */
static void break_off(pk_call *call, const pk_status *status)
{
    if (!pk_call_is_open(call))
        return;
    call->abandoned = true;
    call->fail(call, status);
}

static void deadline_fired(pk_timer *timer)
{
    break_off((pk_call *) ((char *) timer - offsetof(pk_call, deadline)), &deadline_passed);
}

bool pk_call_set_deadline(pk_call *call, uint64_t nanoseconds)
{
    call->has_deadline = true;
    call->deadline.fire = deadline_fired;
    return pk_timer_start(call->loop, &call->deadline, nanoseconds) == 0;
}

void pk_call_cancel(pk_call *call)
{
    break_off(call, &cancelled_by_application);
}

int pk_call_on_end(pk_call *call, void (*fn)(void *arg), void *arg)
{
    if (!pk_call_is_open(call))
        return PK_ERR_STATE;
    struct pk_call_end_entry *entry = pk_arena_try(&call->scope.arena, sizeof *entry);
    if (!entry)
        return PK_ERR_NOMEM;
    *entry = (struct pk_call_end_entry){call->end_entries, fn, arg};
    call->end_entries = entry;
    return 0;
}

pk_future pk_call_cancelled(pk_call *call)
{
    pk_scope *scope = &call->scope;
    if (!pk_call_is_open(call))
        return call->abandoned ? pk_done(NULL) : pk_failed_with(&ended_normally);
    pk_promise *token = pk_promise_new(scope);
    if (!token)
        return pk_promise_future(NULL);
    if (call->client)
        return pk_client_cancelled(call->client, token);
    token->token = true;
    pk_promise_on_abandon(token, drop_token, NULL);
    return pk_promise_future(token);
}

/* ---- Values ---- */

/* Kept among what is released with the call's memory, so that a call without values costs nothing. */
struct value {
    struct pk_call_release release;
    const void *key;
    void *value;
};

static void forget_value(struct pk_call_release *release)
{
}

static struct value *find_value(const pk_call *call, const void *key)
{
    for (struct pk_call_release *one = call->releases; one; one = one->next) {
        if (one->fn == forget_value && ((struct value *) one)->key == key)
            return (struct value *) one;
    }
    return NULL;
}

int pk_call_set_value(pk_call *call, const void *key, void *value)
{
    struct value *place = find_value(call, key);
    if (!place) {
        place = pk_arena_try(&call->scope.arena, sizeof *place);
        if (!place)
            return PK_ERR_NOMEM;
        *place = (struct value){.release.fn = forget_value, .key = key};
        pk_call_on_release(call, &place->release);
    }
    place->value = value;
    return 0;
}

void *pk_call_value(const pk_call *call, const void *key)
{
    const struct value *place = find_value(call, key);
    return place ? place->value : NULL;
}

/* ---- What handlers ask ---- */

void *pk_call_alloc(pk_call *call, size_t size)
{
    return pk_arena_zeroed(&call->scope.arena, size);
}

char *pk_call_printf(pk_call *call, const char *format, ...)
{
    char *text;
    PK_ARENA_PRINT(text, &call->scope.arena, format);
    return text;
}

char *pk_call_copy(pk_call *call, const void *bytes, size_t length)
{
    return pk_arena_copy(&call->scope.arena, bytes, length);
}

static void *allocate_in_call(void *call, size_t size)
{
    return pk_arena_get(&((pk_call *) call)->scope.arena, size);
}

static void free_in_call(void *call, void *block)
{
}

ProtobufCAllocator *pk_call_allocator(pk_call *call)
{
    call->allocator = (ProtobufCAllocator){allocate_in_call, free_in_call, call};
    return &call->allocator;
}

pk_scope *pk_call_scope(pk_call *call)
{
    return &call->scope;
}

pk_loop *pk_call_loop(pk_call *call)
{
    return call->loop;
}

pk_future pk_failed(pk_call *call, pk_code code, const char *format, ...)
{
    assert(code != PK_OK);
    va_list arguments;
    va_start(arguments, format);
    pk_status *status = pk_arena_get(&call->scope.arena, sizeof *status);
    *status = pk_status_print_list(&call->scope.arena, code, format, arguments);
    va_end(arguments);
    return pk_failed_with(status);
}

pk_future pk_failed_status(pk_call *call, const pk_status *status)
{
    assert(status->code != PK_OK);
    pk_status *copy = pk_arena_get(&call->scope.arena, sizeof *copy);
    *copy = pk_status_copy(&call->scope.arena, status);
    return pk_failed_with(copy);
}

pk_future pk_unimplemented(pk_call *call)
{
    return pk_failed(call, PK_UNIMPLEMENTED, "%s is not implemented", pk_call_method(call));
}

pk_future pk_call_offload(pk_call *call, const void *(*work)(void *arg), void *arg)
{
    return pk_offload(&call->scope, work, arg);
}

uint64_t pk_call_time_left(const pk_call *call)
{
    if (!call->has_deadline)
        return UINT64_MAX;
    pk_timer *deadline = (pk_timer *) &call->deadline;
    if (deadline->place == 0)
        return 0; /* it has passed, or the call has ended */
    uint64_t due = pk_timer_due(call->loop, deadline), now = pk_loop_now(call->loop);
    return due > now ? due - now : 0;
}

/* A generic call's path is copied when it is asked for: most handlers know without. */
static __attribute__((noinline)) const char *copy_path(pk_call *call)
{
    pk_slice path = {NULL, 0};
    if (call->head)
        path = pk_head_value(call->head, PK_FIELD_PATH);
    call->path = pk_call_copy(call, path.bytes, path.length);
    return call->path;
}

const char *pk_call_method(const pk_call *call)
{
    return PK_LIKELY(call->path != NULL) ? call->path : copy_path((pk_call *) (uintptr_t) call);
}

const pk_message_type *pk_call_request_type(const pk_call *call)
{
    return call->method ? call->method->request : NULL;
}

const pk_message_type *pk_call_reply_type(const pk_call *call)
{
    return call->method ? call->method->reply : NULL;
}

const char *pk_call_peer(const pk_call *call)
{
    return call->exchange ? call->exchange->peer->address : "closed";
}

const pk_tls_info *pk_call_tls(const pk_call *call)
{
    return call->exchange ? call->exchange->peer->tls : NULL;
}

const pk_metadata *pk_call_metadata(pk_call *call)
{
    return &call->metadata;
}

pk_metadata *pk_call_edit_metadata(pk_call *call)
{
    return pk_metadata_unlock(&call->metadata) ? &call->metadata : NULL;
}

pk_metadata *pk_call_headers(pk_call *call)
{
    return &call->headers;
}

pk_metadata *pk_call_trailers(pk_call *call)
{
    return &call->trailers;
}

bool pk_call_request_compressed(const pk_call *call)
{
    return call->request_compressed;
}

void pk_call_set_compress_min_bytes(pk_call *call, size_t min_bytes)
{
    call->encoding.compress_min_bytes = min_bytes;
}
