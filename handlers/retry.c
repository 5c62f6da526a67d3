/*
 * Repeating calls that fail: policies, pauses, throttling. Source: gRFC A6.
 *
 * Between two attempts a call is open and has no exchange, or one that is closing; what its program
 * writes is kept. A transparent replay (a stream that the server has not looked at) is not counted.
 */
#include "handlers/client_call.h"

#include <string.h>

#define ATTEMPTS_MAX 5u
#define NANOSECONDS_PER_MS UINT64_C(1000000)

const pk_retry_policy *pk_retry_policy_of(const pk_channel *channel, const char *path)
{
    for (size_t i = 0; i < channel->retry_policy_count; i++) {
        const pk_retry_policy *policy = &channel->retry_policies[i];
        size_t length = policy->method ? strlen(policy->method) : 0;
        bool prefix = length == 0 || policy->method[length - 1] == '/';
        if (length == 0 || (prefix ? strncmp(policy->method, path, length) == 0
                                   : strcmp(policy->method, path) == 0))
            return policy;
    }
    return NULL;
}

static bool may_repeat(const pk_client_call *client, pk_code code)
{
    return client->policy && (unsigned) code < 32 && client->policy->codes & PK_CODE_BIT(code);
}

void pk_client_count_outcome(pk_client_call *client, pk_code code)
{
    if (PK_LIKELY(!client->policy))
        return;
    pk_channel *channel = client->channel;
    if (channel->throttling.max_tokens <= 0)
        return;
    if (code == PK_OK)
        channel->tokens += channel->throttling.token_ratio;
    else if (may_repeat(client, code))
        channel->tokens -= 1;
    if (channel->tokens < 0)
        channel->tokens = 0;
    if (channel->tokens > channel->throttling.max_tokens)
        channel->tokens = channel->throttling.max_tokens;
}

/* Milliseconds that the server asks for; -1: it wants no repetition; -2: it does not say. */
static int64_t pushback_of(const pk_head *trailers)
{
    static const pk_slice name = PK_SLICE("grpc-retry-pushback-ms");
    for (size_t i = 0; trailers && i < trailers->count; i++) {
        const pk_field *field = &trailers->fields[i];
        if (field->name.length != name.length ||
            memcmp(field->name.bytes, name.bytes, name.length) != 0)
            continue;
        int64_t value = 0;
        if (field->value.length == 0 || field->value.length > 9)
            return -1;
        for (size_t j = 0; j < field->value.length; j++) {
            unsigned digit = (unsigned) field->value.bytes[j] - '0';
            if (digit > 9)
                return -1;
            value = 10 * value + digit;
        }
        return value;
    }
    return -2;
}

/* Random, up to the bound of this repetition; from the low bits of the clock. */
static uint64_t pause_of(const pk_client_call *client)
{
    const pk_retry_policy *policy = client->policy;
    double bound = policy->initial_backoff_ms;
    for (unsigned i = 0; i < client->repetitions; i++)
        bound *= policy->backoff_multiplier > 0 ? policy->backoff_multiplier : 1;
    if (policy->max_backoff_ms > 0 && bound > policy->max_backoff_ms)
        bound = policy->max_backoff_ms;
    uint64_t random = pk_loop_now(client->call.loop) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint64_t) (bound * (double) NANOSECONDS_PER_MS * (double) (random >> 40) / 16777216.0);
}

bool pk_client_repeats(pk_client_call *client, const pk_status *status, const pk_head *trailers)
{
    pk_call *call = &client->call;
    if (PK_LIKELY(!may_repeat(client, status->code)) || !client->keeps_written ||
        !pk_call_is_open(call) || client->channel->freed)
        return false;
    const pk_channel *channel = client->channel;
    unsigned most = client->policy->max_attempts;
    if (client->repetitions + 1 >= (most < ATTEMPTS_MAX ? most : ATTEMPTS_MAX))
        return false;
    int64_t pushback = pushback_of(trailers);
    if (pushback == -1)
        return false;
    /* The failure that ends a call is counted by pk_client_end, one that is repeated here. */
    if (channel->throttling.max_tokens > 0 &&
        channel->tokens - 1 <= channel->throttling.max_tokens / 2)
        return false;
    uint64_t pause = pushback >= 0 ? (uint64_t) pushback * NANOSECONDS_PER_MS : pause_of(client);
    if (pk_timer_start(call->loop, &client->pause, pause) < 0)
        return false;
    pk_client_count_outcome(client, status->code);
    client->repetitions++;
    client->repeating = true;
    client->channel->references++; /* until the next attempt or the call's end */
    if (call->exchange)
        call->exchange->ops->reset(call->exchange, PK_RESET_CANCEL);
    return true;
}

void pk_client_repeat(pk_timer *pause)
{
    pk_client_call *client = (pk_client_call *) ((char *) pause - offsetof(pk_client_call, pause));
    if (client->call.exchange)
        return; /* its end goes on from here */
    pk_channel *channel = client->channel;
    client->repeating = false;
    pk_client_start(client);
    pk_channel_unref(channel);
}
