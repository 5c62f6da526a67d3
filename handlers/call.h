/*
 * The inside of a call: what the router makes (a client's: client_call.h), the four styles drive,
 * and one state machine ends.
 *
 * A call is *ended* for its handler once its response was handed down or nobody waits for one; its
 * memory stays until the exchange has closed (the response's fields lie in there) and until no
 * promise or worker needs it.
 */
#ifndef PEKOE_HANDLERS_CALL_H
#define PEKOE_HANDLERS_CALL_H

#include <pekoe/generated.h>

#include "core/loop.h"
#include "future/promise.h"
#include "marshalling/protocol.h"

struct pk_router;

typedef enum pk_call_state {
    PK_CALL_RECEIVING, /* the request is coming in; no handler has been asked */
    PK_CALL_HANDLING,  /* the handler works */
    PK_CALL_ENDED,     /* answered, or nobody waits any more */
    PK_CALL_CLOSED,    /* the exchange is gone as well */
} pk_call_state;

struct pk_call_end_entry {
    struct pk_call_end_entry *next;
    void (*fn)(void *arg);
    void *arg;
};

/* What is given back when the call's memory goes, which workers may still need after its end. */
struct pk_call_release {
    struct pk_call_release *next;
    void (*fn)(struct pk_call_release *release);
};

struct pk_call {
    pk_scope scope; /* first: the arena, and the way back from it */
    pk_loop *loop;
    /* Blank: from here to `deadline.place` all is zero at the start, and cleared at once. */
    pk_call_state state; /* changed by call.c's change_state alone */
    bool settling;       /* the handler's future has yet to settle */
    bool answered;       /* the exchange was given a response */
    bool abandoned;      /* nobody waits for the response: cancelled, deadline, lost */
    bool has_deadline;
    bool request_compressed; /* the request message, or the one read last, came compressed */
    pk_exchange *exchange;   /* NULL before there is one, and once closed */
    struct pk_router *router;
    const pk_method *method; /* NULL for a generic call */
    const void *impl;
    void *self;
    const char *path;         /* ends in NUL; NULL: the head's, until pk_call_method is asked */
    const void *request;      /* the message, once decoded; in the call */
    struct pk_stream *stream; /* of a streaming call, in the call; see streaming/stream.h */
    /* Set by the style: */
    void (*dispatch)(pk_call *call); /* asks the handler; see request.h */
    /* Answers with a failure, as far as the response has come. */
    void (*fail)(pk_call *call, const pk_status *status);
    struct pk_call_end_entry *end_entries;
    struct pk_call_release *releases; /* newest first */
    struct pk_client_call *client;    /* what a client's call has besides; NULL: a server's */
    struct pk_client_call *children;  /* calls that were made for this one; see client_call.h */
    /* What the one message was decoded in, see pk_call_keep, or `packed` lies in; a reference. */
    pk_buffer *kept;
    pk_metadata headers;  /* the response's */
    pk_metadata trailers; /* the response's */
    pk_timer deadline;
    /* Set by pk_call_init, or when it is there. */
    pk_encoding encoding;
    const pk_protocol *protocol; /* of the request */
    const pk_protocol *reply_protocol;
    const pk_head *head;  /* the request's; until the exchange is closed */
    pk_metadata metadata; /* the request's */
    pk_body_reader body;
    pk_slice packed; /* of a generic call: the first bytes that pk_call_encode gave it; in `kept` */
    ProtobufCAllocator allocator; /* filled in by pk_call_allocator */
    pk_status end_status;
};

/* pk_call_answer without a message; a NULL status is OK, for a stream that was empty. */
void pk_call_answer_status(pk_call *call, const pk_status *status);

/* ---- Life ---- */

/* A call and the beginning of its arena come in one block: small calls need no other. */
#define PK_CALL_BLOCK 2048u
#define PK_CALL_SIZE ((sizeof(pk_call) + 15) & ~(size_t) 15)
_Static_assert(PK_CALL_SIZE + 512 <= PK_CALL_BLOCK, "a call's block has room for small messages");

#define PK_CALL_BLANK_FROM offsetof(pk_call, state)
_Static_assert(PK_CALL_BLANK_FROM % 16 == 0, "what is blank is cleared by 16 bytes");

/*
 * What both sides' calls begin with, over an arena that is there: scope.arena. `exchange`, `router`,
 * `fail`, `metadata`, `body` and what negotiation tells follow. In line as pk_call_open.
 */
PK_INLINE void pk_call_init(pk_call *call, pk_loop *loop, const pk_protocol *protocol,
                            const pk_encoding *encoding)
{
    pk_scope_start(&call->scope, &pk_loop_host, loop);
    call->loop = loop;
    pk_clear_piece((uint8_t *) call + PK_CALL_BLANK_FROM,
                   offsetof(pk_call, deadline.fire) - PK_CALL_BLANK_FROM);
    call->headers.arena = &call->scope.arena;
    call->trailers.arena = &call->scope.arena;
    call->encoding = *encoding;
    call->encoding.arena = &call->scope.arena;
    call->protocol = protocol;
    call->reply_protocol = protocol;
}

/*
 * A call for an accepted head. NULL without memory. The caller installs the exchange's events before
 * anything else can happen. In line, since the router has what goes in here in registers.
 */
PK_INLINE pk_call *pk_call_open(struct pk_router *router, pk_exchange *exchange,
                                const pk_head *head, const pk_protocol *protocol,
                                const pk_encoding *encoding, size_t receive_limit)
{
    pk_loop *loop = exchange->loop;
    pk_call *call = (pk_call *) pk_memory_get(&loop->memory, PK_CALL_BLOCK);
    if (PK_UNLIKELY(!call))
        return NULL;
    pk_arena_init_in(&call->scope.arena, &loop->memory, (uint8_t *) call + PK_CALL_SIZE,
                     PK_CALL_BLOCK - PK_CALL_SIZE);
    pk_call_init(call, loop, protocol, encoding);
    call->exchange = exchange;
    call->router = router;
    call->fail = pk_call_answer_status;
    call->head = head;
    call->metadata = pk_metadata_over(head->fields, head->count, &call->scope.arena);
    /* Without a compressor known yet; the router sets it after negotiation. */
    pk_body_reader_init(&call->body, protocol, encoding->marshalling, &call->scope.arena, NULL,
                        receive_limit, PK_BODY_REQUEST);
    return call;
}

/* Arms the deadline, `nanoseconds` from now. False without memory. */
PK_NODISCARD bool pk_call_set_deadline(pk_call *call, uint64_t nanoseconds);

/* What the loop keeps for marshalling, made at the first need. NULL without memory. */
pk_marshalling *pk_loop_marshalling(pk_loop *loop);

/* The one function that changes `state`, forwards only. */
void pk_call_change_state(pk_call *call, pk_call_state next);

/* Runs the clean-up functions of pk_call_on_end. */
void pk_call_run_end_entries(pk_call *call);

/* ---- For the styles ---- */

/* The handler is about to be asked. */
void pk_call_handling(pk_call *call);

/* Whether the response can still be made. */
static inline bool pk_call_is_open(const pk_call *call)
{
    return call->state <= PK_CALL_HANDLING;
}

/*
 * Answers with the whole response at once and ends the call. The outcome's status, where not OK, is
 * what the handler's pending futures resolve with.
 */
void pk_call_answer(pk_call *call, const pk_outcome *outcome);

/*
 * Ends the call for its handler: what is pending resolves with `status`, clean-up runs. NULL means
 * that it was answered OK. Nothing happens to a call that has ended.
 */
void pk_call_end(pk_call *call, const pk_status *status);

/*
 * The future that a handler returned, to be waited for; where the call's memory has run out it is
 * given up instead, since what the handler waits with may be scratch.
 */
static inline pk_future pk_call_waiting(pk_call *call, pk_future outcome)
{
    if (PK_LIKELY(!call->scope.arena.exhausted))
        return outcome;
    pk_promise_drop(outcome, &pk_status_no_memory);
    return pk_failed_with(&pk_status_no_memory);
}

/* The handler's future has settled; what waited for that runs. */
void pk_call_settled(pk_call *call);

/* What a handler's failure is sent as: the router's error handler is asked where it is its own. */
const pk_status *pk_call_map_failure(pk_call *call, const pk_status *status);

/* Has release->fn run when the call's memory goes; newest first. The struct is in the call. */
static inline void pk_call_on_release(pk_call *call, struct pk_call_release *release)
{
    release->next = call->releases;
    call->releases = release;
}

/*
 * Keeps the buffer that the call's one message was decoded in, taking the reference, as long as the
 * call's memory; its bytes count against the exchange's budget. At most once for a call.
 */
void pk_call_keep(pk_call *call, pk_buffer *buffer_take);

/* Runs them and lets go of `kept`: the call's memory is about to go. */
static inline void pk_call_run_releases(pk_call *call)
{
    if (PK_UNLIKELY(call->kept != NULL))
        call->kept = pk_buffer_unref(call->kept);
    while (PK_UNLIKELY(call->releases != NULL)) {
        struct pk_call_release *release = call->releases;
        call->releases = release->next;
        release->fn(release);
    }
}

/* Events that all styles share. */
void pk_call_on_cancelled(pk_exchange *exchange, const pk_status *why);
void pk_call_on_closed(pk_exchange *exchange);

/* Makes `scope` current while handler code runs. */
static inline struct pk_current pk_call_enter(pk_call *call)
{
    struct pk_current outer = pk_current;
    pk_current = (struct pk_current){.scope = &call->scope};
    return outer;
}
static inline void pk_call_leave(struct pk_current outer)
{
    pk_current = outer;
}

#endif
