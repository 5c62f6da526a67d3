/*
 * Hedged calls: several attempts side by side, of which one becomes the call's. Source: gRFC A6,
 * "Hedging Policy".
 *
 * An attempt has an exchange of its own and events that look only for the beginning of a response.
 * The first one that begins, or that fails for good, is handed to the call: its exchange gets the
 * style's events, as if there had never been another, and the others are reset. Until then the call
 * has no exchange. What was written goes to each attempt as a copy, since a transport changes the
 * buffers that it sends.
 */
#include "core/status.h"
#include "handlers/client_call.h"

#include <string.h>

#define ATTEMPTS_MAX 5u
#define NANOSECONDS_PER_MS UINT64_C(1000000)

struct attempt {
    pk_client_call *client;
    pk_opening opening;
    pk_exchange *exchange; /* NULL: not yet, or no longer */
    unsigned number;       /* attempts before it */
    bool replayed, replay; /* it is sent again, without being counted: the server took none of it */
    bool failed;           /* with a code that does not end the call */
};

struct pk_hedges {
    pk_client_call *client;
    pk_timer next;     /* until the next attempt */
    unsigned sent;     /* attempts that were begun */
    unsigned going;    /* of which these have not failed */
    unsigned open;     /* exchanges that have not closed, the call's own not included */
    bool stopped;      /* no further one is begun */
    bool settled;      /* one is the call's */
    bool holds;        /* a reference to the channel, which no exchange may hold between two */
    pk_status failure; /* of the last one that failed */
    struct attempt attempts[ATTEMPTS_MAX];
};

static const pk_exchange_events events;

static bool waits_for_next(const struct pk_hedges *hedges)
{
    return hedges->next.place != 0;
}

/* ---- Choosing one ---- */

/* Ends an attempt that is not wanted any more. */
static void drop(struct attempt *attempt)
{
    pk_channel *channel = attempt->client->channel;
    attempt->replay = false;
    if (attempt->opening.waiting)
        channel->ops->withdraw(channel, &attempt->opening);
    if (attempt->exchange)
        attempt->exchange->ops->reset(attempt->exchange, PK_RESET_CANCEL);
}

static void drop_others(struct pk_hedges *hedges, const struct attempt *one)
{
    hedges->settled = true;
    pk_timer_stop(hedges->client->call.loop, &hedges->next);
    for (unsigned i = 0; i < hedges->sent; i++) {
        if (&hedges->attempts[i] != one)
            drop(&hedges->attempts[i]);
    }
}

/* From here on the exchange is the call's, and the style hears of it. */
static pk_exchange *settle_for(struct attempt *attempt)
{
    pk_client_call *client = attempt->client;
    pk_exchange *exchange = pk_steal(&attempt->exchange);
    client->hedges->open--;
    client->call.exchange = exchange;
    exchange->user = client;
    exchange->events = client->style->events;
    drop_others(client->hedges, attempt);
    pk_client_wake(client);
    pk_hedges_let_go(client); /* the exchange holds it */
    return exchange;
}

pk_exchange *pk_hedges_settle_for_one(pk_client_call *client)
{
    struct pk_hedges *hedges = client->hedges;
    for (unsigned i = 0; i < hedges->sent; i++) {
        struct attempt *one = &hedges->attempts[i];
        if (one->exchange && !one->failed && !one->replay)
            return settle_for(one);
    }
    return NULL;
}

/* ---- Attempts ---- */

static pk_buffer *copy(pk_client_call *client, const uint8_t *bytes, size_t length)
{
    pk_buffer *buffer = pk_buffer_get(&client->call.loop->buffers);
    if (!buffer)
        return NULL;
    pk_buffer_rewind_for_append(buffer, 0);
    if (pk_buffer_append(buffer, bytes, length) == 0)
        return buffer;
    return pk_buffer_unref(buffer);
}

/* Without memory the attempt is broken off, which is then a failure like another. */
static void write_copy(struct attempt *attempt, const uint8_t *bytes, size_t length)
{
    pk_buffer *buffer = copy(attempt->client, bytes, length);
    if (buffer)
        (void) attempt->exchange->ops->write(attempt->exchange, buffer);
    else
        attempt->exchange->ops->reset(attempt->exchange, PK_RESET_CANCEL);
}

void pk_hedges_write(pk_client_call *client, const pk_buffer *body)
{
    struct pk_hedges *hedges = client->hedges;
    for (unsigned i = 0; i < hedges->sent && !hedges->settled; i++) {
        struct attempt *one = &hedges->attempts[i];
        if (one->exchange && !one->failed && !one->replay)
            write_copy(one, body->start, pk_buffer_length(body));
    }
}

void pk_hedges_end_writing(pk_client_call *client)
{
    struct pk_hedges *hedges = client->hedges;
    for (unsigned i = 0; i < hedges->sent; i++) {
        struct attempt *one = &hedges->attempts[i];
        if (one->exchange && !one->failed && !one->replay)
            one->exchange->ops->finish(one->exchange, NULL, 0);
    }
}

static bool make_head(pk_opening *opening, pk_opening_head *ret_head)
{
    const struct attempt *attempt =
        (struct attempt *) ((char *) opening - offsetof(struct attempt, opening));
    return pk_client_make_head(attempt->client, attempt->number, ret_head);
}

static void opened(pk_opening *opening, pk_exchange *exchange)
{
    struct attempt *attempt = exchange->user;
    pk_client_call *client = attempt->client;
    attempt->exchange = exchange;
    client->hedges->open++;
    for (size_t i = 0; i < client->written_count; i++) {
        const struct pk_written *one = &client->written[i];
        write_copy(attempt, one->start, (size_t) (one->buffer->end - one->start));
    }
    if (client->half_closed)
        exchange->ops->finish(exchange, NULL, 0);
    else if (client->style->room)
        client->style->room(client);
}

static void failed(struct attempt *attempt, const pk_status *why, const pk_head *trailers);

static void not_opened(pk_opening *opening, const pk_status *why)
{
    failed((struct attempt *) ((char *) opening - offsetof(struct attempt, opening)), why, NULL);
}

/* Whether the policy, the server and the tokens allow one more. */
static bool may_send(const struct pk_hedges *hedges)
{
    const pk_client_call *client = hedges->client;
    const pk_channel *channel = client->channel;
    unsigned most = client->hedging ? client->hedging->max_attempts : 0;
    return hedges->sent < (most < ATTEMPTS_MAX ? most : ATTEMPTS_MAX) && !hedges->stopped &&
           !hedges->settled && client->keeps_written && pk_call_is_open(&client->call) &&
           !channel->freed && pk_client_has_tokens(channel) &&
           client->written_bytes <= channel->call_buffer_bytes &&
           channel->buffered <= channel->buffer_bytes;
}

static void open_attempt(struct attempt *attempt)
{
    pk_client_call *client = attempt->client;
    attempt->opening = (pk_opening){.wait_for_ready = client->opening.wait_for_ready,
                                    .events = &events,
                                    .user = attempt,
                                    .head = make_head,
                                    .opened = opened,
                                    .failed = not_opened};
    client->channel->ops->open(client->channel, &attempt->opening);
}

/* One more; the call may have ended when it returns. */
static void send_one(struct pk_hedges *hedges)
{
    struct attempt *attempt = &hedges->attempts[hedges->sent];
    *attempt = (struct attempt){.client = hedges->client, .number = hedges->sent};
    hedges->sent++;
    hedges->going++;
    open_attempt(attempt);
}

static void send_after(struct pk_hedges *hedges, uint64_t time)
{
    if (may_send(hedges) && pk_timer_start(hedges->client->call.loop, &hedges->next, time) < 0)
        hedges->stopped = true;
}

/* One now, or all where there is no delay, and a timer for those that follow. */
static void send_next(struct pk_hedges *hedges)
{
    uint64_t delay = hedges->client->hedging->delay_ms * NANOSECONDS_PER_MS;
    do {
        if (hedges->sent == 0 || may_send(hedges))
            send_one(hedges);
    } while (delay == 0 && may_send(hedges));
    if (delay > 0 && !waits_for_next(hedges))
        send_after(hedges, delay);
}

/* The last attempt has failed, and was counted. */
static void end_after_failure(pk_client_call *client)
{
    client->hedging = NULL;
    pk_client_end(client, &client->hedges->failure);
}

static void on_timer(pk_timer *timer)
{
    struct pk_hedges *hedges =
        (struct pk_hedges *) ((char *) timer - offsetof(struct pk_hedges, next));
    pk_client_call *client = hedges->client;
    pk_scope_pin(&client->call.scope);
    if (may_send(hedges))
        send_next(hedges);
    else
        hedges->stopped = true; /* too many calls fail */
    if (hedges->going == 0 && !waits_for_next(hedges))
        end_after_failure(client);
    pk_scope_unpin(&client->call.scope);
}

/* ---- What becomes of one ---- */

static bool is_fatal(const pk_client_call *client, pk_code code)
{
    return code == PK_OK || (unsigned) code >= 32 || !(client->hedging->codes & PK_CODE_BIT(code));
}

/* It has failed with a code that does not end the call: the next one comes forward. */
static void bring_next_forward(struct attempt *attempt, const pk_head *trailers)
{
    struct pk_hedges *hedges = attempt->client->hedges;
    int64_t pushback = pk_client_pushback(trailers);
    pk_timer_stop(attempt->client->call.loop, &hedges->next);
    if (pushback == -1)
        hedges->stopped = true;
    else if (pushback >= 0)
        send_after(hedges, (uint64_t) pushback * NANOSECONDS_PER_MS);
    else if (may_send(hedges))
        send_next(hedges);
}

static void failed(struct attempt *attempt, const pk_status *why, const pk_head *trailers)
{
    pk_client_call *client = attempt->client;
    struct pk_hedges *hedges = client->hedges;
    if (!pk_call_is_open(&client->call) || hedges->settled || attempt->failed)
        return;
    pk_scope_pin(&client->call.scope);
    bool fatal = is_fatal(client, why->code);
    attempt->failed = true;
    hedges->going--;
    hedges->failure = pk_status_copy(&client->call.scope.arena, why);
    if (!fatal) {
        pk_client_count_outcome(client, why->code);
        bring_next_forward(attempt, trailers);
    }
    if (pk_call_is_open(&client->call) && !hedges->settled &&
        (fatal || (hedges->going == 0 && !waits_for_next(hedges)))) {
        client->hedging = fatal ? client->hedging : NULL; /* it was counted */
        if (trailers)
            pk_client_end_with(client, &hedges->failure, trailers);
        else
            pk_client_end(client, &hedges->failure);
    } else if (attempt->exchange) {
        attempt->exchange->ops->reset(attempt->exchange, PK_RESET_CANCEL);
    }
    pk_scope_unpin(&client->call.scope);
}

static void on_head(pk_exchange *exchange, const pk_head *head, bool ended)
{
    struct attempt *attempt = exchange->user;
    pk_client_call *client = attempt->client;
    pk_call *call = &client->call;
    pk_status status;
    if (!pk_call_is_open(call) || client->hedges->settled || attempt->failed)
        return;
    bool over =
        call->protocol->response_head(call->protocol, head, ended, &call->scope.arena, &status);
    if (over && !is_fatal(client, status.code))
        failed(attempt, &status, head);
    else
        settle_for(attempt)->events->on_head(exchange, head, ended);
}

/* Bytes of a response that is not wanted. */
static void on_data(pk_exchange *exchange, const uint8_t *bytes, size_t length, pk_buffer *holder)
{
    exchange->ops->consume(exchange, length);
}

static void on_room(pk_exchange *exchange)
{
    const struct attempt *attempt = exchange->user;
    pk_client_call *client = attempt->client;
    if (pk_call_is_open(&client->call) && !client->hedges->settled && client->style->room)
        client->style->room(client);
}

static void on_cancelled(pk_exchange *exchange, const pk_status *why)
{
    struct attempt *attempt = exchange->user;
    const pk_client_call *client = attempt->client;
    if (exchange->unprocessed && (exchange->unsent || !attempt->replayed) && !attempt->failed &&
        !client->hedges->settled && pk_call_is_open(&client->call) && client->keeps_written) {
        attempt->replayed |= !exchange->unsent;
        attempt->replay = true;
        return;
    }
    failed(attempt, why, NULL);
}

static void on_closed(pk_exchange *exchange)
{
    static const pk_status lost = {PK_UNAVAILABLE, PK_SLICE("the connection was lost"), {NULL, 0}};
    struct attempt *attempt = exchange->user;
    pk_client_call *client = attempt->client;
    bool replay = attempt->replay;
    attempt->exchange = NULL;
    attempt->replay = false;
    client->hedges->open--;
    pk_scope_pin(&client->call.scope);
    if (!replay || client->channel->freed)
        failed(attempt, &lost, NULL); /* unless it has */
    else if (pk_call_is_open(&client->call) && !client->hedges->settled)
        open_attempt(attempt);
    pk_client_release_if_over(client);
    pk_scope_unpin(&client->call.scope);
}

static const pk_exchange_events events = {
    .on_head = on_head,
    .on_data = on_data,
    .on_room = on_room,
    .on_cancelled = on_cancelled,
    .on_closed = on_closed,
};

/* ---- Life ---- */

void pk_hedges_start(pk_client_call *client)
{
    pk_call *call = &client->call;
    struct pk_hedges *hedges = pk_arena_try(&call->scope.arena, sizeof *hedges);
    if (!hedges) {
        pk_client_end(client, &pk_status_no_memory);
        return;
    }
    memset(hedges, 0, sizeof *hedges);
    hedges->client = client;
    hedges->next.fire = on_timer;
    client->hedges = hedges;
    client->channel->references++;
    hedges->holds = true;
    pk_client_rest(client);
    pk_scope_pin(&call->scope);
    send_next(hedges);
    pk_scope_unpin(&call->scope);
}

void pk_hedges_end(pk_client_call *client)
{
    drop_others(client->hedges, NULL);
}

void pk_hedges_let_go(pk_client_call *client)
{
    if (!client->hedges->holds)
        return;
    client->hedges->holds = false;
    pk_channel_unref(client->channel);
}

bool pk_hedges_wait(const pk_client_call *client)
{
    const struct pk_hedges *hedges = client->hedges;
    bool wait = false;
    for (unsigned i = 0; i < hedges->sent; i++) {
        const struct attempt *one = &hedges->attempts[i];
        if (one->exchange)
            return false;
        wait = wait || one->opening.waiting;
    }
    return wait;
}

bool pk_hedges_open(const pk_client_call *client)
{
    return client->hedges->open > 0;
}
