/*
 * Memory that runs out anywhere between the bytes of a request and those of its reply, through the
 * real server, while a neighbour's calls go on.
 */
#include "calls_service.h"

#include <criterion/criterion.h>
#include <zlib.h>

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
Test(memory, that_is_scratch_is_not_waited_with)
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
        release_place(&places[i]);
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
Test(memory, that_runs_out_fails_one_call_or_connection, .timeout = 300)
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
