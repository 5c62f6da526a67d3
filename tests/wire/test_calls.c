/*
 * Calls of a generated service through the real server, over sockets: what a done call leaves out,
 * calls that end each other from inside their callbacks, and memory that runs out anywhere between
 * the bytes of a request and those of its reply.
 */
#include "../support/counting_allocator.h"
#include "../support/wire_peer.h"
#include "calls.pekoe.h"

#include <criterion/criterion.h>
#include <zlib.h>

#include <stdio.h>

/* ---- The service ---- */

#define PLACES 8u

/* Where a call waits until another one releases it. */
static struct place {
    pk_call *call;
    pk_promise *first, *second;
    unsigned ends; /* calls of this place that have ended */
} places[PLACES + 2];

/* What a call that waits knows; lives in the call. */
struct waiting {
    pk_call *call;
    const Wire__Question *question;
    struct place *place;
    uint8_t more[100000]; /* so that it takes a block of its own */
};

static pk_future answer(pk_call *call, const Wire__Question *question)
{
    Wire__Answer *reply = wire_answer_new(call);
    reply->n_parts = question->n_parts;
    reply->parts = question->parts;
    return wire_answer_done(reply);
}

static pk_future answer_waiting(const void *value, void *arg)
{
    const struct waiting *waiting = arg;
    return answer(waiting->call, waiting->question);
}

static pk_future fail_again(const pk_status *status, void *arg)
{
    const struct waiting *waiting = arg;
    cr_assert_not_null(waiting->call);
    return pk_failed_with(status);
}

static void release(struct place *place)
{
    place->call = NULL;
    pk_promise *first = pk_steal(&place->first), *second = pk_steal(&place->second);
    pk_promise_done(second, NULL);
    pk_promise_done(first, NULL);
}

static void leave(void *arg)
{
    struct place *place = arg;
    place->ends++;
    release(place);
}

/* Runs while a call ends: cancels a second one and completes a third. */
static void leave_and_end_others(void *arg)
{
    struct place *place = arg;
    leave(place);
    if (place[1].call)
        pk_call_cancel(place[1].call);
    if (place[2].call)
        release(&place[2]);
}

static pk_future wait(pk_call *call, const Wire__Question *question)
{
    struct place *place = &places[question->place % PLACES];
    pk_scope *scope = pk_call_scope(call);
    bool chain = question->way == WIRE__QUESTION__WAY__CHAIN;
    if (pk_call_on_end(call, chain ? leave_and_end_others : leave, place) < 0)
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "no memory for the end");
    place->call = call;
    place->first = pk_promise_new(scope);
    struct waiting *waiting =
        pk_call_new(call, struct waiting, .call = call, .question = question, .place = place);
    if (question->way == WIRE__QUESTION__WAY__BARE)
        return pk_promise_future(place->first);
    place->second = pk_promise_new(scope);
    const pk_future both[] = {pk_promise_future(place->first), pk_promise_future(place->second)};
    pk_future outcome = pk_timeout(scope, pk_all(scope, both, 2), 60000);
    return pk_recover(pk_then(outcome, answer_waiting, waiting), fail_again, waiting);
}

static pk_future reply_to(pk_call *call, const Wire__Question *question)
{
    switch ((int) question->way) {
    case WIRE__QUESTION__WAY__HOLD:
    case WIRE__QUESTION__WAY__CHAIN:
    case WIRE__QUESTION__WAY__BARE:
        return wait(call, question);
    case WIRE__QUESTION__WAY__RELEASE:
        release(&places[question->place % PLACES]);
        break;
    case WIRE__QUESTION__WAY__FAIL:
        return pk_failed_status(call, &(pk_status){PK_FAILED_PRECONDITION, PK_SLICE("not now"),
                                                   PK_SLICE("\x08\x09\x12\x07not now")});
    default:
        break;
    }
    pk_metadata_place at = PK_METADATA_START;
    pk_slice key, value;
    char text[64];
    while (pk_metadata_next(pk_call_metadata(call), NULL, &at, &key, &value)) {
        snprintf(text, sizeof text, "%.*s", (int) key.length, (const char *) key.bytes);
        if (pk_metadata_add(pk_call_trailers(call), text,
                            pk_call_copy(call, value.bytes, value.length)) < 0)
            return pk_failed(call, PK_RESOURCE_EXHAUSTED, "no memory for the trailers");
    }
    return answer(call, question);
}

static pk_future ask(void *self, pk_call *call, const Wire__Question *question)
{
    return reply_to(call, question);
}

static pk_future ask_guarded(void *self, pk_call *call, const Wire__GuardedQuestion *guarded)
{
    return reply_to(call, guarded->question);
}

static const wire_calls_impl service = {.ask = ask, .ask_guarded = ask_guarded};

/* ---- The server and its peers ---- */

#define ASK "/wire.Calls/Ask"
#define ASK_GUARDED "/wire.Calls/AskGuarded"

static counting_allocator counts;
static struct wire wire;

static void open_server(void)
{
    counts = (counting_allocator){0};
    memset(places, 0, sizeof places);
    wire = (struct wire){.fd = -1};
    path_acceptor_init(&wire.acceptor);
    cr_assert_eq(pk_loop_new(&wire.loop, PK_LOOP_OPTS(.allocator = COUNTING_ALLOCATOR(&counts))),
                 0);
    cr_assert_eq(pk_server_new(&wire.server, wire.loop, NULL), 0);
    cr_assert_eq(wire_calls_serve(wire.server, &service, NULL), 0);
}

static void close_server(void)
{
    reader_init(&wire.in);
    wire_close(&wire);
    cr_assert_eq(counts.blocks, 0);
}

/* Questions with parts of many sizes, from the same few. */
struct parts {
    Wire__Part part[3], inner;
    Wire__Part *pointers[3];
    char *words[40];
    int64_t numbers[100];
    uint8_t data[3000];
};

static void fill_parts(struct parts *parts)
{
    wire__part__init(&parts->inner);
    parts->inner.name = (char *) "inner";
    for (size_t i = 0; i < 40; i++)
        parts->words[i] = (char *) (i % 3 == 0 ? "" : "a word that takes its place");
    for (size_t i = 0; i < 100; i++)
        parts->numbers[i] = (int64_t) (i * i * i) - 500;
    memset(parts->data, 0x5a, sizeof parts->data);
    for (size_t i = 0; i < 3; i++) {
        Wire__Part *part = parts->pointers[i] = &parts->part[i];
        wire__part__init(part);
        part->name = (char *) "part";
        part->n_words = 40 * i / 2;
        part->words = parts->words;
        part->n_numbers = 50 * i;
        part->numbers = parts->numbers;
        part->data = (ProtobufCBinaryData){1500 * i, parts->data};
        part->inner = i == 1 ? &parts->inner : NULL;
    }
}

/* A message behind its prefix; with `compressed` through gzip. */
static void put_message(struct bytes *to, const ProtobufCMessage *message, bool compressed)
{
    uint8_t plain[16384], packed[16384];
    size_t length = protobuf_c_message_pack(message, plain);
    cr_assert_leq(length, sizeof plain);
    const uint8_t *bytes = plain;
    if (compressed) {
        z_stream stream = {.next_in = plain,
                           .avail_in = (uInt) length,
                           .next_out = packed,
                           .avail_out = sizeof packed};
        deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
        cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
        length = stream.total_out;
        deflateEnd(&stream);
        bytes = packed;
    }
    const uint8_t prefix[5] = {compressed, 0, 0, (uint8_t) (length >> 8), (uint8_t) length};
    put(to, prefix, 5);
    put(to, bytes, length);
}

static void put_call(struct wire *peer, uint32_t stream, const char *path,
                     const ProtobufCMessage *message, bool compressed)
{
    struct bytes body = {0};
    const char *const fields[] = {"content-type", "application/grpc", "grpc-timeout", "50S",
                                  "x-first", "the value of this field is sent back as a trailer",
                                  "grpc-accept-encoding", "gzip",
                                  /* the last two only of calls that are compressed */
                                  compressed ? "grpc-encoding" : NULL, "gzip", NULL};
    put_request(&peer->out, stream, false, path, fields);
    put_message(&body, message, compressed);
    put_data(&peer->out, stream, true, body.at, body.length);
    bytes_free(&body);
}

static void put_question(struct wire *peer, uint32_t stream, Wire__Question__Way way,
                         uint32_t place)
{
    Wire__Question question = WIRE__QUESTION__INIT;
    question.way = way;
    question.place = place;
    put_call(peer, stream, ASK, &question.base, false);
}

/* ---- Done calls ---- */

static unsigned promises; /* that have come and gone: each lets go of its scope once */

void __real_pk_scope_unpin(pk_scope *scope);
void __wrap_pk_scope_unpin(pk_scope *scope);
void __wrap_pk_scope_unpin(pk_scope *scope)
{
    promises++;
    __real_pk_scope_unpin(scope);
}

/* Only promises enter the ready queue: where there was none, nothing was queued. */
Test(calls, that_are_done_at_once_make_no_promise)
{
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    promises = 0;
    for (uint32_t i = 0; i < 100; i++)
        put_question(&peer, 2 * i + 1, WIRE__QUESTION__WAY__NOW, 0);
    wire_run(&peer);
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(last_has(&peer.in, 2 * i + 1, "grpc-status: 0"));
    cr_assert_eq(promises, 0);
    put_question(&peer, 201, WIRE__QUESTION__WAY__HOLD, 0);
    put_question(&peer, 203, WIRE__QUESTION__WAY__RELEASE, 0);
    wire_run(&peer);
    cr_assert(last_has(&peer.in, 201, "grpc-status: 0"));
    cr_assert_gt(promises, 0, "the counter counts");
    wire_leave(&peer);
    close_server();
}

/* ---- Calls that end each other ---- */

/* How the first of a row of calls ends. */
enum first_end { BY_ANSWER, BY_RESET, BY_LOSS, BY_FREEING_THE_SERVER, FIRST_ENDS };

static void end_first(enum first_end end, struct wire *peer)
{
    switch ((int) end) {
    case BY_ANSWER:
        put_question(peer, 2 * PLACES + 1, WIRE__QUESTION__WAY__RELEASE, 0);
        wire_run(peer);
        break;
    case BY_RESET:
        put_reset(&peer->out, 1, 8);
        wire_run(peer);
        break;
    case BY_LOSS:
        wire_hang_up(peer);
        break;
    default:
        wire.server = pk_server_free(wire.server);
        pk_loop_end_turn(wire.loop);
        break;
    }
}

/*
 * A call that ends cancels the next one and completes the one behind that, from inside of its
 * clean-up: on its own connection and on another, in the dispatch of what ended it.
 */
Test(calls, may_end_each_other_from_inside_their_ends)
{
    for (unsigned end = 0; end < FIRST_ENDS; end++) {
        struct wire one, other;
        open_server();
        wire_join(&one, &wire);
        wire_join(&other, &wire);
        for (uint32_t i = 0; i < PLACES; i++)
            put_question(i % 2 ? &other : &one, 2 * i + 1, WIRE__QUESTION__WAY__CHAIN, i);
        wire_run(&one);
        wire_run(&other);
        for (uint32_t i = 0; i < PLACES; i++)
            cr_assert_not_null(places[i].call);
        end_first(end, &one);
        for (uint32_t i = 0; i < PLACES; i++)
            cr_expect_eq(places[i].ends, 1, "the call at %u ended %u times", i, places[i].ends);
        wire_run(&other);
        if (end != BY_FREEING_THE_SERVER) {
            cr_expect(last_has(&other.in, 3, "grpc-status: 1"));
            cr_expect(last_has(&other.in, 7, end == BY_LOSS ? "grpc-status: 1" : "grpc-status: 0"));
        }
        wire_leave(&one);
        wire_leave(&other);
        close_server();
    }
}

/* ---- Without memory ---- */

/* What a peer asks in one go, and what the answers with OK must hold. */
struct conversation {
    struct parts parts;
    Wire__Question question;
    Wire__Question__CountsEntry count, *count_pointer;
    Wire__GuardedQuestion guarded;
    struct bytes answer;
};

static void converse_init(struct conversation *with)
{
    fill_parts(&with->parts);
    wire__question__counts_entry__init(&with->count);
    with->count.key = (char *) "key";
    with->count.value = 7;
    with->count_pointer = &with->count;
    wire__question__init(&with->question);
    with->question.n_parts = 3;
    with->question.parts = with->parts.pointers;
    with->question.n_counts = 1;
    with->question.counts = &with->count_pointer;
    wire__guarded_question__init(&with->guarded);
    with->guarded.question = &with->question;
    Wire__Answer answer = WIRE__ANSWER__INIT;
    answer.n_parts = 3;
    answer.parts = with->parts.pointers;
    put_message(&with->answer, &answer.base, false);
}

/* The body of a stream, inflated where it is compressed. */
static struct bytes answer_on(const struct reader *in, uint32_t stream)
{
    struct bytes body = {0}, plain = {0};
    for (size_t i = find_frame(in, 0, DATA, stream); i != SIZE_MAX;
         i = find_frame(in, i + 1, DATA, stream))
        put(&body, in->frames[i].payload, in->frames[i].length);
    if (body.length == 0 || body.at[0] == 0)
        return body;
    uint8_t out[16384];
    z_stream stream_in = {.next_in = body.at + 5,
                          .avail_in = (uInt) body.length - 5,
                          .next_out = out,
                          .avail_out = sizeof out};
    inflateInit2(&stream_in, 15 + 16);
    cr_assert_eq(inflate(&stream_in, Z_FINISH), Z_STREAM_END);
    const uint8_t prefix[5] = {0, 0, 0, (uint8_t) (stream_in.total_out >> 8),
                               (uint8_t) stream_in.total_out};
    put(&plain, prefix, 5);
    put(&plain, out, stream_in.total_out);
    inflateEnd(&stream_in);
    bytes_free(&body);
    return plain;
}

/* True: it says `status` and, with OK, all of the answer. Else it says 8 or was broken off. */
static bool came_right(const struct conversation *with, const struct wire *peer, uint32_t stream,
                       const char *status)
{
    if (!ended(&peer->in, stream) || last_has(&peer->in, stream, "grpc-status: 8"))
        return false;
    cr_assert(last_has(&peer->in, stream, status), "stream %u", stream);
    if (strcmp(status, "grpc-status: 0") == 0) {
        struct bytes body = answer_on(&peer->in, stream);
        cr_assert_eq(body.length, with->answer.length);
        cr_assert_eq(memcmp(body.at, with->answer.at, body.length), 0);
        bytes_free(&body);
    }
    return true;
}

/* One call of each way from the stream on, at a place of the peer's own; true: all came out right. */
static bool converse(struct conversation *with, struct wire *peer, uint32_t stream, uint32_t place)
{
    with->question.place = place;
    with->question.way = WIRE__QUESTION__WAY__HOLD;
    put_call(peer, stream, ASK, &with->question.base, false);
    with->question.way = WIRE__QUESTION__WAY__NOW;
    put_call(peer, stream + 2, ASK, &with->question.base, true);
    put_call(peer, stream + 4, ASK_GUARDED, &with->guarded.base, false);
    with->question.way = WIRE__QUESTION__WAY__FAIL;
    put_call(peer, stream + 6, ASK, &with->question.base, false);
    wire_run(peer);
    with->question.way = WIRE__QUESTION__WAY__RELEASE;
    put_call(peer, stream + 8, ASK, &with->question.base, false);
    wire_run(peer);
    static const char *const statuses[] = {"grpc-status: 0", "grpc-status: 0", "grpc-status: 0",
                                           "grpc-status: 9", "grpc-status: 0"};
    bool right = true;
    for (uint32_t i = 0; i < 5; i++)
        right &= came_right(with, peer, stream + 2 * i, statuses[i]);
    return right;
}

/* True: no allocation was asked for that was to fail. */
static bool survive(struct conversation *with, size_t fail_at, size_t fail_more)
{
    struct wire good, bad;
    open_server();
    wire_join(&good, &wire);
    wire_join(&bad, &wire);
    with->question.way = WIRE__QUESTION__WAY__HOLD;
    with->question.place = 0;
    put_call(&good, 1, ASK, &with->question.base, false);
    wire_run(&good);
    cr_assert_not_null(places[0].call);
    /* Nothing more is kept, so that every request comes to the allocator. */
    wire.loop->memory.kept_bytes = PK_MEMORY_KEPT_MAX;
    counts.fail_more = fail_more;
    counts.fail_at = counts.requests + fail_at;
    bool right = converse(with, &bad, 1, 1);
    bool reached = counts.requests >= counts.fail_at;
    cr_assert(right || reached);
    counts.fail_at = 0;
    /* The call that was waiting, and further ones. */
    put_question(&good, 3, WIRE__QUESTION__WAY__RELEASE, 0);
    wire_run(&good);
    cr_assert(came_right(with, &good, 1, "grpc-status: 0"), "after %zu", fail_at);
    cr_assert(converse(with, &good, 5, 2), "after %zu", fail_at);
    wire_leave(&good);
    wire_leave(&bad);
    close_server();
    for (size_t i = 0; i < PLACES; i++)
        cr_assert_null(places[i].call, "the call at %zu has ended", i);
    return !reached;
}

/*
 * The state of a handler that waits was not to be had, and what it got instead serves others as
 * well: the call is answered at once, and none of its steps sees that state again.
 */
Test(calls, whose_state_is_scratch_do_not_wait_with_it)
{
    struct wire peer;
    open_server();
    wire_join(&peer, &wire);
    counts.largest = 50000;
    for (uint32_t i = 0; i < PLACES; i++)
        put_question(&peer, 2 * i + 1,
                     i % 2 ? WIRE__QUESTION__WAY__HOLD : WIRE__QUESTION__WAY__BARE, i);
    wire_run(&peer);
    for (uint32_t i = 0; i < PLACES; i++) {
        cr_expect(last_has(&peer.in, 2 * i + 1, "grpc-status: 8"));
        cr_expect_eq(places[i].ends, 1);
        release(&places[i]);
    }
    wire_run(&peer);
    wire_leave(&peer);
    close_server();
}

/*
 * Each allocation from the request's bytes to the reply's fails in turn, alone (the loop's memory
 * asks twice) or with all after it: the call is answered with 8 or its connection ends, and a
 * neighbour's calls go on.
 */
Test(calls, without_memory_fail_alone, .timeout = 300)
{
    struct conversation with = {0};
    converse_init(&with);
    for (size_t mode = 0; mode < 2; mode++) {
        size_t fail_at = 1;
        while (!survive(&with, fail_at, mode == 0 ? 1 : SIZE_MAX))
            cr_assert_lt(++fail_at, 2000);
        cr_assert_gt(fail_at, 100);
    }
    bytes_free(&with.answer);
}
