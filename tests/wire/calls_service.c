/* See calls_service.h. */
#include "calls_service.h"

#include <criterion/criterion.h>
#include <zlib.h>

#include <stdio.h>
#include <unistd.h>

/* ---- The service ---- */

struct place places[PLACES + 2];

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

void release_place(struct place *place)
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
    release_place(place);
}

/* Runs while a call ends: cancels a second one and completes a third. */
static void leave_and_end_others(void *arg)
{
    struct place *place = arg;
    leave(place);
    if (place[1].call)
        pk_call_cancel(place[1].call);
    if (place[2].call)
        release_place(&place[2]);
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

/* On a worker's thread, perhaps after the call has ended: what is in the call is still there. */
static const void *work(void *arg)
{
    const struct waiting *waiting = arg;
    usleep(1000 * waiting->question->place);
    return waiting->question->n_parts == 0 ? waiting : NULL;
}

static pk_future answer_worked(const void *value, void *arg)
{
    return answer_waiting(NULL, (void *) (uintptr_t) value);
}

static pk_future reply_to(pk_call *call, const Wire__Question *question)
{
    switch ((int) question->way) {
    case WIRE__QUESTION__WAY__HOLD:
    case WIRE__QUESTION__WAY__CHAIN:
    case WIRE__QUESTION__WAY__BARE:
        return wait(call, question);
    case WIRE__QUESTION__WAY__RELEASE:
        release_place(&places[question->place % PLACES]);
        break;
    case WIRE__QUESTION__WAY__FAIL:
        return pk_failed_status(call, &(pk_status){PK_FAILED_PRECONDITION, PK_SLICE("not now"),
                                                   PK_SLICE("\x08\x09\x12\x07not now")});
    case WIRE__QUESTION__WAY__SLEEP:
        return pk_then(pk_sleep(pk_call_scope(call), question->place), answer_waiting,
                       pk_call_new(call, struct waiting, .call = call, .question = question));
    case WIRE__QUESTION__WAY__WORK:
        return pk_then(
            pk_call_offload(call, work,
                            pk_call_new(call, struct waiting, .call = call, .question = question)),
            answer_worked, NULL);
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
    cr_assert_str_eq(pk_call_peer(call), "unix:");
    cr_assert_str_eq(pk_call_method(call), ASK);
    return reply_to(call, question);
}

static pk_future ask_guarded(void *self, pk_call *call, const Wire__GuardedQuestion *guarded)
{
    return reply_to(call, guarded->question);
}

static const wire_calls_impl service = {.ask = ask, .ask_guarded = ask_guarded};

/* ---- The server and its peers ---- */

counting_allocator counts;
struct wire wire;

void open_server(void)
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

void close_server(void)
{
    reader_init(&wire.in);
    wire_close(&wire);
    cr_assert_eq(counts.blocks, 0);
}

/* A message behind its prefix; with `compressed` through gzip. */
void put_message(struct bytes *to, const ProtobufCMessage *message, bool compressed)
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

void put_call(struct wire *peer, uint32_t stream, const char *path, const ProtobufCMessage *message,
              bool compressed)
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

void put_question(struct wire *peer, uint32_t stream, Wire__Question__Way way, uint32_t place)
{
    Wire__Question question = WIRE__QUESTION__INIT;
    question.way = way;
    question.place = place;
    put_call(peer, stream, ASK, &question.base, false);
}
