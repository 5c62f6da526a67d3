/*
 * Filters of the messages of streams. They stand in a codec of the call's own, around the one that it
 * had: a call without filters does not know of them. Raw streams have no codec and ask for themselves.
 */
#include "handlers/filter.h"

#include "core/status.h"
#include "handlers/chain.h"

#include <string.h>

struct filter {
    struct filter *next; /* the one that sees a message after it */
    pk_message_filter *fn;
    void *self;
};

struct filtering {
    pk_codec codec; /* first; that of the call, with the functions below */
    const pk_codec *inside;
    pk_call *call;
    struct filter *reads, *writes; /* in the order in which messages pass */
    const pk_status *refusal;      /* of the last message; NULL: it was not refused by a filter */
};

static const pk_status *refusal_of(const pk_codec *self)
{
    return ((const struct filtering *) self)->refusal;
}

/* ---- Messages ---- */

/* What comes out behind the last filter; NULL: it was refused. */
static const void *pass(struct filtering *filtering, const struct filter *first,
                        const pk_message_type *type, const void *message)
{
    static const pk_status wrong = {
        PK_INTERNAL, PK_SLICE("a filter has given no message of the stream"), {NULL, 0}};
    pk_call *call = filtering->call;
    struct pk_current outer = pk_call_enter(call);
    filtering->refusal = NULL;
    for (const struct filter *one = first; one && !filtering->refusal; one = one->next) {
        pk_future outcome = one->fn(one->self, call, message);
        if (outcome.state == PK_FUTURE_DONE && pk_chain_fits(type, outcome.pointer))
            message = outcome.pointer;
        else
            filtering->refusal = outcome.state == PK_FUTURE_FAILED ? outcome.pointer : &wrong;
        if (outcome.state == PK_FUTURE_PENDING)
            pk_promise_drop(outcome, &wrong);
    }
    pk_call_leave(outer);
    /* One may have ended the call: nothing passes then that would be sent behind its end. */
    if (!filtering->refusal && !pk_call_is_open(call))
        filtering->refusal = call->scope.cancelled ? call->scope.cancelled : &call->end_status;
    return filtering->refusal ? NULL : message;
}

static int read_message(const pk_codec *self, const pk_message_type *type, const void **ret_message)
{
    struct filtering *filtering = (struct filtering *) (uintptr_t) self;
    const void *message = pass(filtering, filtering->reads, type, *ret_message);
    if (!message)
        return PK_ERR_LIMIT; /* no other codec is to be tried */
    *ret_message = message;
    return 0;
}

bool pk_filter_sees_raw(const pk_call *call, bool read)
{
    if (PK_LIKELY(call->encoding.codec->refusal != refusal_of))
        return false;
    const struct filtering *filtering = (const struct filtering *) call->encoding.codec;
    return (read ? filtering->reads : filtering->writes) != NULL;
}

int pk_filter_raw(pk_call *call, bool read, const void **message, pk_status *ret_status)
{
    if (PK_LIKELY(call->encoding.codec->refusal != refusal_of))
        return 0;
    struct filtering *filtering = (struct filtering *) (uintptr_t) call->encoding.codec;
    const void *passed =
        pass(filtering, read ? filtering->reads : filtering->writes, NULL, *message);
    if (!passed) {
        *ret_status = *filtering->refusal;
        return PK_ERR_LIMIT;
    }
    *message = passed;
    return 0;
}

static int decode(const pk_codec *self, const pk_message_type *type, pk_slice bytes,
                  pk_arena *arena, const void **ret_message, const char **ret_reason)
{
    const pk_codec *inside = ((const struct filtering *) self)->inside;
    int r = inside->decode(inside, type, bytes, arena, ret_message, ret_reason);
    return r < 0 ? r : read_message(self, type, ret_message);
}

static int decode_in_place(const pk_codec *self, const pk_message_type *type, uint8_t *bytes,
                           size_t length, pk_arena *arena, const void **ret_message,
                           const char **ret_reason)
{
    const pk_codec *inside = ((const struct filtering *) self)->inside;
    int r = inside->decode_in_place(inside, type, bytes, length, arena, ret_message, ret_reason);
    return r < 0 ? r : read_message(self, type, ret_message);
}

/* The message that is to be written; NULL: it was refused. */
static const void *written(const pk_codec *self, const pk_message_type *type, const void *message)
{
    struct filtering *filtering = (struct filtering *) (uintptr_t) self;
    return type ? pass(filtering, filtering->writes, type, message)
                : message; /* see pk_filter_raw */
}

static int prepend(const pk_codec *self, const pk_message_type *type, const void *message,
                   pk_buffer *buffer)
{
    const pk_codec *inside = ((const struct filtering *) self)->inside;
    message = written(self, type, message);
    return message ? inside->prepend(inside, type, message, buffer) : PK_ERR_LIMIT;
}

static int append(const pk_codec *self, const pk_message_type *type, const void *message,
                  pk_buffer *buffer)
{
    const pk_codec *inside = ((const struct filtering *) self)->inside;
    message = written(self, type, message);
    return message ? inside->append(inside, type, message, buffer) : PK_ERR_LIMIT;
}

static int marshal(const pk_codec *self, const pk_message_type *type, const void *message,
                   pk_memory *memory, uint8_t **ret_bytes, size_t *ret_length)
{
    const pk_codec *inside = ((const struct filtering *) self)->inside;
    message = written(self, type, message);
    return message ? inside->marshal(inside, type, message, memory, ret_bytes, ret_length)
                   : PK_ERR_LIMIT;
}

/* ---- Registration ---- */

static struct filtering *filtering_of(pk_call *call)
{
    const pk_codec *inside = call->encoding.codec;
    if (inside->refusal == refusal_of)
        return (struct filtering *) (uintptr_t) inside;
    struct filtering *filtering = pk_arena_try(&call->scope.arena, sizeof *filtering);
    if (!filtering)
        return NULL;
    *filtering = (struct filtering){
        .codec = {.name = inside->name,
                  .prepend = inside->prepend ? prepend : NULL,
                  .append = inside->append ? append : NULL,
                  .marshal = marshal,
                  .decode = decode,
                  .decode_in_place = inside->decode_in_place ? decode_in_place : NULL,
                  .refusal = refusal_of},
        .inside = inside,
        .call = call,
    };
    call->encoding.codec = &filtering->codec;
    return filtering;
}

/* Adds one at the beginning or the end. */
static int add(pk_call *call, bool reads, bool first, pk_message_filter *fn, void *self)
{
    if (!pk_call_is_open(call))
        return PK_ERR_STATE;
    pk_style streams = reads == (call->client != NULL) ? PK_SERVER_STREAMING : PK_CLIENT_STREAMING;
    if (!((unsigned) call->method->style & (unsigned) streams))
        return 0;
    struct filter *filter = pk_arena_try(&call->scope.arena, sizeof *filter);
    struct filtering *filtering = filter ? filtering_of(call) : NULL;
    if (!filtering)
        return PK_ERR_NOMEM;
    struct filter **place = reads ? &filtering->reads : &filtering->writes;
    while (!first && *place)
        place = &(*place)->next;
    *filter = (struct filter){*place, fn, self};
    *place = filter;
    return 0;
}

int pk_call_filter_reads(pk_call *call, pk_message_filter *filter, void *self)
{
    return add(call, true, call->client != NULL, filter, self);
}

int pk_call_filter_writes(pk_call *call, pk_message_filter *filter, void *self)
{
    return add(call, false, call->client == NULL, filter, self);
}
