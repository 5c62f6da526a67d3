/*
 * Repeating calls that fail: policies, pauses, throttling; what a service config says of a method.
 * Source: gRFC A6. Attempts side by side are hedging.c's.
 *
 * Between two attempts a call is open and has no exchange, or one that is closing; what its program
 * writes is kept. A transparent replay (a stream that the server has not looked at) is not counted.
 */
#include "core/status.h"
#include "handlers/client_call.h"
#include "handlers/service_config.h"

#include <string.h>

#define ATTEMPTS_MAX 5u
#define NANOSECONDS_PER_MS UINT64_C(1000000)

/* Whether a policy's method is the path, its service, or all. */
static bool names(const char *method, const char *path)
{
    size_t length = method ? strlen(method) : 0;
    if (length == 0)
        return true;
    return method[length - 1] == '/' ? strncmp(method, path, length) == 0
                                     : strcmp(method, path) == 0;
}

/* The policies of the channel's options, the first that names the path. */
static void take_policy(pk_client_call *client, const char *path)
{
    const pk_channel *channel = client->channel;
    client->policy = NULL;
    client->hedging = NULL;
    for (size_t i = 0; i < channel->retry_policy_count && !client->policy; i++) {
        if (names(channel->retry_policies[i].method, path))
            client->policy = &channel->retry_policies[i];
    }
    for (size_t i = 0; i < channel->hedging_policy_count && !client->policy && !client->hedging;
         i++) {
        if (names(channel->hedging_policies[i].method, path))
            client->hedging = &channel->hedging_policies[i];
    }
}

static void lower(size_t *limit, size_t other)
{
    if (other > 0 && (*limit == 0 || other < *limit))
        *limit = other;
}

void pk_client_configure(pk_client_call *client, const char *path)
{
    pk_call *call = &client->call;
    take_policy(client, path);
    const pk_service_config *all = client->channel->service_config;
    const pk_method_config *config = all ? pk_service_config_find(all, path) : NULL;
    if (!config)
        return;
    if (!client->policy && !client->hedging) {
        client->policy = config->retries ? &config->retry : NULL;
        client->hedging = config->hedges ? &config->hedging : NULL;
    }
    client->opening.wait_for_ready |= config->wait_for_ready;
    lower(&call->encoding.send_limit, config->request_limit);
    size_t most = call->body.limit;
    lower(&most, config->response_limit);
    pk_body_reader_set_limit(&call->body, most);
    if (config->timeout > 0 && (!call->has_deadline || config->timeout < pk_call_time_left(call)) &&
        !pk_call_set_deadline(call, config->timeout))
        pk_client_spoil(client, &pk_status_no_memory);
}

/* The codes that count as failures of the server, and that are not the end of all attempts. */
static uint32_t codes_of(const pk_client_call *client)
{
    return client->policy ? client->policy->codes : client->hedging ? client->hedging->codes : 0;
}

static bool may_repeat(const pk_client_call *client, pk_code code)
{
    return client->policy && (unsigned) code < 32 && client->policy->codes & PK_CODE_BIT(code);
}

bool pk_client_has_tokens(const pk_channel *channel)
{
    const pk_retry_throttling *throttling = &channel->throttling;
    return throttling->max_tokens <= 0 || channel->tokens > throttling->max_tokens / 2;
}

static void add_tokens(pk_channel *channel, double tokens)
{
    channel->tokens += tokens;
    if (channel->tokens < 0)
        channel->tokens = 0;
    if (channel->tokens > channel->throttling.max_tokens)
        channel->tokens = channel->throttling.max_tokens;
}

void pk_client_count_outcome(pk_client_call *client, pk_code code)
{
    pk_channel *channel = client->channel;
    if (PK_LIKELY(channel->throttling.max_tokens <= 0))
        return;
    if (code == PK_OK)
        add_tokens(channel, channel->throttling.token_ratio);
    else if ((unsigned) code < 32 && codes_of(client) & PK_CODE_BIT(code))
        add_tokens(channel, -1);
}

/* A value that is no number, a negative one, and more than one value mean: no more. */
int64_t pk_client_pushback(const pk_head *trailers)
{
    static const pk_slice name = PK_SLICE("grpc-retry-pushback-ms");
    int64_t pushback = -2;
    for (size_t i = 0; trailers && i < trailers->count; i++) {
        const pk_field *field = &trailers->fields[i];
        if (field->name.length != name.length ||
            memcmp(field->name.bytes, name.bytes, name.length) != 0)
            continue;
        int64_t value = 0;
        if (pushback != -2 || field->value.length == 0 || field->value.length > 10)
            return -1;
        for (size_t j = 0; j < field->value.length; j++) {
            unsigned digit = (unsigned) field->value.bytes[j] - '0';
            if (digit > 9)
                return -1;
            value = 10 * value + digit;
        }
        if (value > INT32_MAX)
            return -1;
        pushback = value;
    }
    return pushback;
}

/* Of this repetition, from the low bits of the clock: give or take 20 %. */
static uint64_t pause_of(pk_client_call *client)
{
    const pk_retry_policy *policy = client->policy;
    double pause = policy->initial_backoff_ms;
    for (unsigned i = 0; i < client->pauses; i++)
        pause *= policy->backoff_multiplier > 0 ? policy->backoff_multiplier : 1;
    client->pauses++;
    if (policy->max_backoff_ms > 0 && pause > policy->max_backoff_ms)
        pause = policy->max_backoff_ms;
    uint64_t random = pk_loop_now(client->call.loop) * UINT64_C(0x9E3779B97F4A7C15);
    double jitter = 0.8 + 0.4 * (double) (random >> 40) / 16777216.0;
    return (uint64_t) (pause * (double) NANOSECONDS_PER_MS * jitter);
}

bool pk_client_repeats(pk_client_call *client, const pk_status *status, const pk_head *trailers)
{
    pk_call *call = &client->call;
    if (PK_LIKELY(!client->policy) || status->code == PK_OK || !client->keeps_written ||
        !pk_call_is_open(call) || client->channel->freed)
        return false;
    pk_channel *channel = client->channel;
    int64_t pushback = pk_client_pushback(trailers);
    if (!may_repeat(client, status->code)) {
        if (pushback == -1 && channel->throttling.max_tokens > 0)
            add_tokens(channel, -1); /* the others are counted by pk_client_end */
        return false;
    }
    unsigned most = client->policy->max_attempts;
    if (client->repetitions + 1 >= (most < ATTEMPTS_MAX ? most : ATTEMPTS_MAX) || pushback == -1)
        return false;
    /* The failure that ends a call is counted by pk_client_end, one that is repeated here. */
    if (channel->throttling.max_tokens > 0 &&
        channel->tokens - 1 <= channel->throttling.max_tokens / 2)
        return false;
    uint64_t pause = pushback >= 0 ? (uint64_t) pushback * NANOSECONDS_PER_MS : pause_of(client);
    if (pushback >= 0)
        client->pauses = 0; /* the next one of its own is the first again */
    if (pk_timer_start(call->loop, &client->pause, pause) < 0)
        return false;
    pk_client_count_outcome(client, status->code);
    client->repetitions++;
    client->repeating = true;
    channel->references++; /* until the next attempt or the call's end */
    pk_client_rest(client);
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
    pk_client_wake(client);
    pk_client_start(client);
    pk_channel_unref(channel);
}
