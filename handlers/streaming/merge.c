/*
 * merge: messages of several sources as they come.
 *
 * Each source is asked for one message at most; the one that it gave is lent on, and the source is
 * asked again when the consumer comes for more. Whoever is next in the round is looked at first, so
 * that a source which always has something does not shut out the others.
 */
#include "handlers/streaming/source.h"

enum input_state {
    INPUT_IDLE,    /* to be asked */
    INPUT_PENDING, /* asked */
    INPUT_HERE,    /* has given a message that nobody has used */
    INPUT_LENT,    /* the consumer has its message */
    INPUT_ENDED,
};

struct merge;

struct input {
    struct merge *merge;
    pk_source *from;
    const void *message;
    enum input_state state;
};

struct merge {
    pk_source source;
    pk_call *call;
    struct pk_stream_wait wait; /* the consumer's pending future */
    struct input *inputs;
    size_t count, turn, live;
    const pk_status *failure; /* of one of them: the end of all */
};

static void merge_cancel(pk_source *source)
{
    struct merge *merge = (struct merge *) source;
    for (size_t i = 0; i < merge->count; i++)
        pk_source_cancel(merge->inputs[i].from);
}

static void input_came(struct input *input, pk_future came)
{
    struct merge *merge = input->merge;
    if (came.state == PK_FUTURE_DONE && came.pointer) {
        input->message = came.pointer;
        input->state = INPUT_HERE;
        return;
    }
    input->state = INPUT_ENDED;
    merge->live--;
    if (came.state == PK_FUTURE_FAILED && !merge->failure) {
        merge->failure = came.pointer;
        merge_cancel(&merge->source);
    }
}

/* What the consumer gets right now; pending: nothing. */
static pk_future give(struct merge *merge)
{
    if (PK_UNLIKELY(merge->failure != NULL))
        return pk_failed_with(merge->failure);
    for (size_t i = 0; i < merge->count; i++) {
        size_t place =
            merge->turn + i < merge->count ? merge->turn + i : merge->turn + i - merge->count;
        struct input *input = &merge->inputs[place];
        if (input->state != INPUT_HERE)
            continue;
        merge->turn = place + 1 < merge->count ? place + 1 : 0;
        input->state = INPUT_LENT;
        return pk_done(input->message);
    }
    return merge->live > 0 ? (pk_future){.state = PK_FUTURE_PENDING} : pk_done(NULL);
}

static void input_came_later(pk_future came, void *arg)
{
    struct input *input = arg;
    struct merge *merge = input->merge;
    input_came(input, came);
    if (!pk_stream_is_awaited(&merge->wait))
        return;
    pk_future now = give(merge);
    if (now.state != PK_FUTURE_PENDING)
        pk_stream_settle(&merge->wait, now);
}

static void ask(struct input *input)
{
    pk_future came = input->from->next(input->from);
    if (PK_LIKELY(came.state != PK_FUTURE_PENDING)) {
        input_came(input, came);
        return;
    }
    input->state = INPUT_PENDING;
    pk_await(&input->merge->call->scope, came, input_came_later, input);
}

static pk_future merge_next(pk_source *source)
{
    struct merge *merge = (struct merge *) source;
    for (size_t i = 0; i < merge->count && !merge->failure; i++) {
        struct input *input = &merge->inputs[i];
        if (input->state == INPUT_IDLE || input->state == INPUT_LENT)
            ask(input);
    }
    pk_future now = give(merge);
    return now.state == PK_FUTURE_PENDING ? pk_stream_wait(merge->call, &merge->wait) : now;
}

static void forget_wait(void *arg)
{
    pk_stream_forget(&((struct merge *) arg)->wait);
}

pk_source *pk_source_merge(pk_call *call, pk_source *const *sources, size_t count)
{
    struct merge *merge = PK_OPERATOR(call, struct merge);
    struct input *inputs = pk_arena_try(&call->scope.arena, (count + 1) * sizeof *inputs);
    if (!merge || !inputs || pk_call_on_end(call, forget_wait, merge) < 0)
        return &pk_source_no_memory;
    *merge = (struct merge){.source = {.next = merge_next, .cancel = merge_cancel},
                            .call = call,
                            .inputs = inputs,
                            .count = count,
                            .live = count};
    for (size_t i = 0; i < count; i++)
        inputs[i] = (struct input){.merge = merge, .from = sources[i]};
    return &merge->source;
}
