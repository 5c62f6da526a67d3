/* A client's interceptors: see client_chain.h. Read from pk_client_chain_new downwards. */
#include "handlers/client_chain.h"

#include "core/status.h"
#include "handlers/reply.h"

#include <assert.h>
#include <string.h>

static void change_state(struct pk_client_chain *chain, pk_client_chain_state next)
{
    assert(next > chain->state);
    chain->state = next;
}

static bool has_one_request(const pk_call *call)
{
    return call->method->style == PK_UNARY || call->method->style == PK_SERVER_STREAMING;
}

static bool has_one_reply(const pk_call *call)
{
    return call->method->style == PK_UNARY || call->method->style == PK_CLIENT_STREAMING;
}

/* ---- What they wrap ---- */

static void end_inside(pk_client_call *client, const pk_status *status)
{
    struct pk_client_chain *chain = client->chain;
    pk_call *call = &client->call;
    change_state(chain, PK_CLIENT_CHAIN_OVER);
    chain->status =
        status ? pk_status_copy(&call->scope.arena, status) : (pk_status){.code = PK_OK};
    pk_client_leave_wire(client, chain->status.code);
    pk_client_close_writing(client, &chain->status);
    /* What they do with the answer has the time that is left. */
    uint64_t now = chain->due ? pk_loop_now(call->loop) : 0;
    if (chain->due &&
        pk_timer_start(call->loop, &call->deadline, chain->due > now ? chain->due - now : 0) < 0)
        chain->due = 0; /* no memory for a timer: they may take their time */
    pk_promise *inner = pk_steal(&chain->inner);
    if (chain->status.code == PK_OK)
        (void) pk_promise_done(inner, has_one_reply(call) ? client->message : NULL);
    else
        (void) pk_promise_fail_with(inner, &chain->status);
}

/* Nobody waits for it any more, but perhaps for the interceptor that has dropped it. */
static void not_wanted(void *arg)
{
    static const pk_status why = {
        PK_CANCELLED, PK_SLICE("an interceptor has dropped the rest of its call"), {NULL, 0}};
    pk_client_call *client = arg;
    if (!client->chain) {
        pk_reply_not_wanted(client); /* it is the program's own */
        return;
    }
    client->chain->inner = NULL; /* its reference goes with this call */
    if (client->chain->state == PK_CLIENT_CHAIN_SENT)
        end_inside(client, &why);
}

static pk_future send_call(struct pk_chain *chain)
{
    struct pk_client_chain *own = (struct pk_client_chain *) chain;
    pk_client_call *client = chain->call->client;
    pk_promise *inner = pk_promise_new(&chain->call->scope);
    if (!inner)
        return pk_promise_future(NULL);
    pk_future future = pk_promise_future(inner);
    own->inner = inner;
    pk_promise_on_abandon(inner, not_wanted, client);
    change_state(own, PK_CLIENT_CHAIN_SENT);
    pk_client_wake(client);
    if (has_one_request(chain->call))
        pk_client_send_only(client, chain->request);
    pk_client_start(client);
    return future;
}

/* ---- Asking them ---- */

bool pk_client_chain_new(pk_client_call *client, const void *request)
{
    const struct pk_channel_interceptions *all = client->channel->interceptions;
    pk_call *call = &client->call;
    if (client->status.code != PK_OK || client->channel->freed)
        return false;
    size_t size = sizeof(struct pk_client_chain) + all->count * sizeof *all->entries;
    struct pk_client_chain *chain =
        (struct pk_client_chain *) pk_chain_new(call, size, NULL, all->count);
    if (!chain) {
        pk_client_spoil(client, &pk_status_no_memory);
        return false;
    }
    memcpy(chain->entries, all->entries, all->count * sizeof *all->entries);
    chain->chain.entries = chain->entries;
    chain->chain.request = has_one_request(call) ? request : NULL;
    chain->chain.last = send_call;
    chain->state = PK_CLIENT_CHAIN_WAITING;
    chain->settled = false;
    chain->inner = NULL;
    chain->outer = NULL;
    chain->due = 0;
    client->chain = chain;
    pk_client_rest(client);
    chain->keeps_fields = client->keeps_fields;
    client->keeps_fields = true; /* they look at them when the exchange has closed */
    return true;
}

/* The stub returns before the request was encoded: its copy takes its place. */
static void keep_request(pk_client_call *client)
{
    struct pk_chain *chain = &client->chain->chain;
    const pk_message_type *type = client->call.method->request;
    const pk_codec *codec = client->call.encoding.codec;
    pk_buffer *buffer;
    pk_status status = PK_STATUS(PK_INTERNAL, "the request cannot be encoded");
    int r = pk_marshal_to_pool(&client->call.loop->buffers, codec, type, chain->request,
                               (pk_slice){NULL, 0}, &buffer);
    if (r == 0) {
        pk_slice bytes = {buffer->start, pk_buffer_length(buffer)};
        r = pk_unmarshal(codec, NULL, type, bytes, &client->call.scope.arena, &chain->request,
                         &status);
        pk_buffer_unref(buffer);
    } else if (r == PK_ERR_NOMEM) {
        status = pk_status_no_memory;
    }
    if (r < 0)
        pk_client_end(client, &status);
}

/* The outermost's future, with the call's memory pinned until `follow`. */
static pk_future ask(pk_client_call *client)
{
    pk_call *call = &client->call;
    struct pk_client_chain *chain = client->chain;
    const void *request = chain->chain.request;
    pk_scope_pin(&call->scope);
    struct pk_current outer = pk_call_enter(call);
    pk_future outcome = pk_chain_begin(&chain->chain);
    pk_call_leave(outer);
    if (outcome.state == PK_FUTURE_PENDING && chain->state == PK_CLIENT_CHAIN_WAITING && request &&
        chain->chain.request == request && pk_call_is_open(call))
        keep_request(client);
    return outcome;
}

/*
 * Whether they return what they wrap as it is: then they see no more of the call, which is like one
 * without interceptors from here on. The promise passes.
 */
static pk_promise *untouched(pk_client_call *client, pk_future outcome)
{
    struct pk_client_chain *chain = client->chain;
    if (outcome.state != PK_FUTURE_PENDING || !chain->inner || outcome.pointer != chain->inner ||
        chain->inner->steps || chain->state != PK_CLIENT_CHAIN_SENT ||
        !pk_call_is_open(&client->call))
        return NULL;
    client->chain = NULL;
    client->keeps_fields = chain->keeps_fields;
    return pk_steal(&chain->inner);
}

/* They have said how the call ends. */
static void settled(pk_future outcome, void *arg)
{
    static const pk_status wrong = {
        PK_INTERNAL, PK_SLICE("an interceptor has given no reply of the call's type"), {NULL, 0}};
    pk_client_call *client = arg;
    pk_call *call = &client->call;
    pk_promise *outer = pk_steal(&client->chain->outer);
    if (pk_call_is_open(call)) {
        client->chain->settled = true;
        /* The reply may be another call's: it stays until the program is through with it. */
        if (outer && client->reply)
            pk_promise_take_held(client->reply, outer);
        if (outcome.state == PK_FUTURE_FAILED) {
            pk_client_end(client, outcome.pointer);
        } else if (has_one_reply(call) && !pk_chain_fits(call->method->reply, outcome.pointer)) {
            pk_client_end(client, &wrong);
        } else {
            client->message = outcome.pointer;
            pk_client_end(client, NULL);
        }
    }
    if (outer)
        pk_promise_unref(outer);
}

/* Waits for them; takes the pin back. */
static void follow(pk_client_call *client, pk_future outcome)
{
    pk_call *call = &client->call;
    if (!pk_call_is_open(call)) {
        pk_promise_drop(outcome, &call->end_status);
    } else if (outcome.state != PK_FUTURE_PENDING) {
        settled(outcome, client);
    } else {
        pk_promise *outer = pk_bridge(&call->scope, outcome);
        if (outer) {
            client->chain->outer = pk_promise_ref(outer);
            pk_await(&call->scope, pk_promise_future(outer), settled, client);
        } else {
            settled(pk_failed_with(&pk_status_no_memory), client);
        }
    }
    pk_scope_unpin(&call->scope);
}

pk_future pk_client_chain_reply(pk_client_call *client)
{
    pk_future outcome = ask(client);
    pk_promise *inner = untouched(client, outcome);
    if (inner) {
        client->reply = inner;
        pk_scope_unpin(&client->call.scope);
        return outcome;
    }
    pk_future future = pk_reply_future(client);
    if (!client->reply && pk_call_is_open(&client->call)) {
        client->chain->settled = true;
        pk_client_end(client, &pk_status_no_memory);
    } else if (client->reply && !pk_call_is_open(&client->call)) {
        pk_reply_settle(client);
    }
    follow(client, outcome);
    return future;
}

void pk_client_chain_stream(pk_client_call *client)
{
    pk_future outcome = ask(client);
    pk_promise *inner = untouched(client, outcome);
    if (inner) {
        pk_promise_consumed(pk_promise_use(outcome));
        (void) pk_promise_done(inner, NULL);
        pk_scope_unpin(&client->call.scope);
    } else {
        follow(client, outcome);
    }
}

/* ---- Ends ---- */

void pk_client_chain_answered(pk_client_call *client)
{
    pk_call *call = &client->call;
    if (call->deadline.place != 0)
        client->chain->due = pk_timer_due(call->loop, &call->deadline);
}

bool pk_client_chain_goes_on(pk_client_call *client, const pk_status *status)
{
    struct pk_client_chain *chain = client->chain;
    if (chain->state == PK_CLIENT_CHAIN_WAITING)
        client->over = true; /* nothing was sent: nothing is counted */
    if (client->call.abandoned || chain->settled || chain->state == PK_CLIENT_CHAIN_WAITING)
        return false;
    if (chain->state == PK_CLIENT_CHAIN_SENT)
        end_inside(client, status);
    return true;
}

void pk_client_chain_end(pk_client_call *client)
{
    struct pk_client_chain *chain = client->chain;
    const pk_status *status = &client->call.end_status;
    pk_promise *inner = pk_steal(&chain->inner);
    if (inner)
        (void) pk_promise_fail_with(inner, status);
    if (chain->outer)
        pk_promise_end(chain->outer, status);
}
