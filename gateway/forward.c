/*
 * One call to an upstream and back: see forward.h. Read from gateway_forward at the end.
 */
#include "gateway/forward.h"

#include <string.h>

/* A call on its way through; in the caller's call. */
typedef struct passage {
    const gateway_forward_rules *rules;
    gateway_tally *tally;
    pk_channel *channel;
    pk_call *call, *upstream;
    pk_reader *in, *replies; /* from the caller, from the upstream */
    pk_writer *out, *requests;
    bool from_page;    /* it came over gRPC-Web */
    bool accepts_some; /* the caller has named compressions that it understands */
} passage;

/* ---- Fields ---- */

static bool keep_of_request(void *self, pk_slice name)
{
    const passage *p = self;
    return gateway_request_header_goes_on(&p->rules->headers, name, p->from_page);
}

static bool keep_of_response(void *self, pk_slice name)
{
    const passage *p = self;
    return gateway_response_header_goes_on(&p->rules->headers, name);
}

/* The caller's address without scheme, port and brackets: "127.0.0.1", "::1", "unix". */
static const char *address_of(pk_call *call)
{
    const char *peer = pk_call_peer(call);
    if (strncmp(peer, "unix:", 5) == 0)
        return "unix";
    const char *start = strchr(peer, ':');
    const char *end = strrchr(peer, ':');
    if (!start || end <= start)
        return peer;
    if (start[1] == '[' && end[-1] == ']') {
        start++;
        end--;
    }
    return pk_call_copy(call, start + 1, (size_t) (end - start - 1));
}

/* The request's metadata; NULL where memory has run out. */
static pk_metadata *request_metadata(passage *p)
{
    pk_metadata *metadata = pk_metadata_new(pk_call_scope(p->call));
    int r = pk_metadata_forward(metadata, pk_call_metadata(p->call), keep_of_request, p);
    if (r == 0 && p->rules->tell_peer)
        r = pk_metadata_add(metadata, "x-forwarded-for", address_of(p->call));
    return r < 0 ? NULL : metadata;
}

/* Names what a page may read of a response beside gRPC's own fields. */
static void expose(passage *p, const pk_metadata *fields)
{
    pk_metadata_place place = PK_METADATA_START;
    pk_slice key;
    while (p->rules->expose && p->from_page && pk_metadata_next(fields, NULL, &place, &key, NULL)) {
        if (!gateway_response_header_goes_on(&p->rules->headers, key))
            continue;
        /* Without memory the page does not see the field; the call goes on. */
        (void) !pk_metadata_add(pk_call_headers(p->call), "access-control-expose-headers",
                                pk_call_copy(p->call, key.bytes, key.length));
    }
}

/* The upstream's head is that of the response. */
static pk_future head_came(const void *headers, void *arg)
{
    passage *p = arg;
    if (!headers)
        return pk_done(NULL); /* a status alone: the reply's reader has it */
    pk_encodings encodings = pk_call_received_encodings(p->upstream);
    expose(p, headers);
    if (pk_metadata_forward(pk_call_headers(p->call), headers, keep_of_response, p) < 0 ||
        pk_call_set_encodings(p->call, &encodings) < 0)
        return pk_failed(p->call, PK_RESOURCE_EXHAUSTED, "out of memory");
    (void) !pk_writer_send_headers(p->out); /* in the state that it is in, or the call has ended */
    return pk_done(NULL);
}

/* The upstream's trailers go with whatever status the call ends. */
static void pass_trailers(passage *p)
{
    const pk_metadata *trailers = pk_call_received_trailers(p->upstream);
    (void) !pk_metadata_forward(pk_call_trailers(p->call), trailers, keep_of_response, p);
}

/* ---- Messages ---- */

/* Bytes of their messages. */
static uint64_t length_of(const pk_raw_frames *frames)
{
    return frames->bytes.length - frames->count * PK_RAW_FRAME_PREFIX;
}

static pk_future pass_requests(const void *requests, void *arg)
{
    passage *p = arg;
    const pk_raw_frames *frames = requests;
    p->tally->received_messages += frames->count;
    p->tally->received_bytes += length_of(frames);
    return pk_writer_write_frames(p->requests, frames);
}

static pk_future pass_the_rest(const void *unused, void *arg)
{
    passage *p = arg;
    return pk_reader_each_frames(p->in, pass_requests, p);
}

static pk_future requests_ended(const void *unused, void *arg)
{
    passage *p = arg;
    pk_writer_end(p->requests);
    return pk_done(NULL);
}

static pk_future pass_replies(const void *replies, void *arg)
{
    passage *p = arg;
    const pk_raw_frames *frames = replies;
    if (frames->compressed && !p->accepts_some)
        return pk_failed(p->call, PK_INTERNAL,
                         "the upstream has compressed a message for a caller that did not ask");
    p->tally->sent_messages += frames->count;
    p->tally->sent_bytes += length_of(frames);
    return pk_writer_write_frames(p->out, frames);
}

/* ---- The end ---- */

static pk_future ended_well(const void *unused, void *arg)
{
    passage *p = arg;
    p->tally->code = PK_OK;
    pass_trailers(p);
    return pk_done(NULL);
}

/* The upstream's failure, the caller's cancel, the deadline, or a request that is none. */
static pk_future ended_badly(const pk_status *status, void *arg)
{
    passage *p = arg;
    p->tally->code = status->code;
    pass_trailers(p);
    expose(p, pk_call_received_trailers(p->upstream));
    pk_encodings encodings = pk_call_received_encodings(p->upstream);
    encodings.message = (pk_slice){NULL, 0};
    if (!pk_call_status(p->upstream) || encodings.accepted.length == 0)
        return pk_failed_with(status);
    /* Which compressions would have been understood; too late where the head has gone. */
    (void) !pk_call_set_encodings(p->call, &encodings);
    return pk_failed_with(status);
}

static void let_go(void *arg)
{
    passage *p = arg;
    p->upstream = pk_call_unref(p->upstream);
}

/* ---- The beginning ---- */

/* The call to the upstream. False without memory. */
static bool call_upstream(passage *p, pk_channel *channel)
{
    pk_encodings encodings = pk_call_received_encodings(p->call);
    p->accepts_some = encodings.accepted.length > 0;
    const pk_metadata *metadata = request_metadata(p);
    if (!metadata)
        return false;
    p->replies = pk_call_raw(channel, pk_call_method(p->call), &encodings, &p->requests,
                             PK_CALL_OPTS(.timeout_ms = p->rules->timeout_ms, .metadata = metadata,
                                          .authority = p->rules->authority, .parent = p->call,
                                          .call = &p->upstream));
    if (!p->upstream)
        return false;
    if (pk_call_on_end(p->call, let_go, p) == 0)
        return true;
    let_go(p);
    return false;
}

/* Everything that a call consists of, from its first messages on where they are there already. */
static pk_future forward_from(passage *p, const void *first, bool ended)
{
    if (!call_upstream(p, p->channel)) {
        p->tally->code = PK_RESOURCE_EXHAUSTED;
        return pk_failed(p->call, PK_RESOURCE_EXHAUSTED, "out of memory");
    }
    /* A request that breaks off ends the call by itself, and an upstream that does shows below. */
    pk_future requests =
        ended ? pk_done(NULL)
              : pk_then(first ? pass_requests(first, p) : pk_done(NULL), pass_the_rest, p);
    pk_detach(pk_then(requests, requests_ended, p));
    /* The head goes on as soon as it is there; it is there before the first message is. */
    pk_detach(pk_then(pk_call_received_head(p->upstream), head_came, p));
    pk_future replies = pk_reader_each_frames(p->replies, pass_replies, p);
    return pk_recover(pk_then(replies, ended_well, p), ended_badly, p);
}

static pk_future first_came(const void *requests, void *arg)
{
    return forward_from(arg, requests, requests == NULL);
}

/* The request was none, or did not come; the upstream has not heard of it. */
static pk_future none_came(const pk_status *status, void *arg)
{
    passage *p = arg;
    if (!p->upstream)
        p->tally->code = status->code;
    return pk_failed_with(status);
}

/*
 * A page sends its request before it reads, so the upstream hears of it with the first message:
 * requests that stop half-way would take all the calls that an upstream serves at once.
 */
pk_future gateway_forward(const gateway_forward_rules *rules, pk_channel *channel, pk_call *call,
                          pk_reader *in, pk_writer *out, gateway_tally *tally)
{
    passage *p =
        pk_call_new(call, passage, .rules = rules, .tally = tally, .channel = channel, .call = call,
                    .in = in, .out = out, .from_page = strcmp(pk_call_protocol(call), "grpc") != 0);
    tally->code = PK_UNKNOWN;
    if (!p->from_page)
        return forward_from(p, NULL, false);
    return pk_recover(pk_then(pk_reader_read_frames(in), first_came, p), none_came, p);
}
