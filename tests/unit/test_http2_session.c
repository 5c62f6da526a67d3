/*
 * The HTTP/2 session of a server without a socket: bytes of a peer in, its bytes out. What peers
 * can see of a whole server is in tests/wire; here is what concerns field blocks.
 */
#include "../support/http2_bytes.h"
#include "core/loop.h"
#include "transport/http2_session.h"

#include <criterion/criterion.h>
#include <nghttp2/nghttp2.h>

#include <string.h>

static pk_loop *loop;
static pk_http2_session session;
static pk_output output;
static struct bytes out;
static struct reader in;

static const pk_http2_limits limits = {.max_streams = 1000,
                                       .stream_window = 65535,
                                       .connection_window = 65535,
                                       .header_bytes = 65536,
                                       .resets = 20,
                                       .resets_per_second = 1,
                                       .glitches = 50,
                                       .queued_frames = 100,
                                       .send_budget = 100000};

static const pk_field head[] = {
    {.name = PK_SLICE("content-type"), .value = PK_SLICE("application/grpc")}};
static const pk_field status[] = {{.name = PK_SLICE("grpc-status"), .value = PK_SLICE("0")}};

static uint64_t no_time(const void *context)
{
    return 0;
}

static void set_up(void)
{
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_http2_session_init(&session, true, &loop->memory, &limits,
                                       sizeof(pk_http2_stream), no_time, NULL),
                 0);
    pk_output_init(&output, &loop->buffers);
    reader_init(&in);
    put_preface(&out);
    put_setting(&out, 0, UINT32_MAX);
}

static void tear_down(void)
{
    while (session.ring)
        pk_http2_release(session.ring);
    pk_http2_session_done(&session);
    pk_output_done(&output);
    cr_expect_eq(loop->buffers.lent, 0);
    pk_loop_free(loop);
    reader_done(&in);
    bytes_free(&out);
}

TestSuite(http2_session, .init = set_up, .fini = tear_down);

static void take(void)
{
    struct iovec pieces[64];
    int more;
    do {
        more = pk_http2_session_take(&session, &output, 65536);
        cr_assert_geq(more, 0);
        while (output.bytes > 0) {
            int count = pk_output_gather(&output, pieces, 64);
            size_t length = 0;
            for (int i = 0; i < count; i++) {
                cr_assert(reader_feed(&in, pieces[i].iov_base, pieces[i].iov_len));
                length += pieces[i].iov_len;
            }
            pk_output_advance(&output, length);
        }
    } while (more > 0);
}

/* Feeds what is in `out` and hands each new stream to `respond`. */
static void feed(void (*respond)(pk_http2_stream *stream))
{
    cr_assert_eq(pk_http2_session_feed(&session, out.at, out.length), 0);
    out.length = 0;
    for (size_t i = 0; i < session.event_count; i++) {
        pk_http2_event event = session.events[i];
        if (event.kind == PK_HTTP2_HEAD && respond)
            respond(event.stream);
        else if (event.kind == PK_HTTP2_CLOSED)
            pk_http2_release(event.stream);
    }
    pk_http2_session_clear(&session);
}

/* Takes what comes of it, too. */
static void run(void (*respond)(pk_http2_stream *stream))
{
    feed(respond);
    take();
}

static pk_buffer *five_bytes(void)
{
    pk_buffer *body = pk_buffer_get(&loop->buffers);
    cr_assert_not_null(body);
    cr_assert_eq(pk_buffer_prepend(body, "hello", 5), 0);
    return body;
}

static void reply_with(pk_http2_stream *stream, const pk_field *fields, size_t count,
                       const pk_field *trailers, size_t trailer_count)
{
    cr_assert_eq(pk_http2_respond(stream, 200, fields, count, false), 0);
    cr_assert_eq(pk_http2_write(stream, five_bytes()), 0);
    cr_assert_eq(pk_http2_finish(stream, trailers, trailer_count), 0);
}

static void reply(pk_http2_stream *stream)
{
    reply_with(stream, head, 1, status, 1);
}

/* The n-th HEADERS of a stream. */
static const struct frame *headers_of(uint32_t stream, unsigned number)
{
    size_t place = find_frame(&in, 0, HEADERS, stream);
    while (number-- > 0 && place != SIZE_MAX)
        place = find_frame(&in, place + 1, HEADERS, stream);
    cr_assert_neq(place, SIZE_MAX);
    return &in.frames[place];
}

static void expect_reply(uint32_t stream)
{
    cr_expect_str_eq(headers_of(stream, 0)->fields,
                     ":status: 200\ncontent-type: application/grpc\n");
    cr_expect_str_eq(headers_of(stream, 1)->fields, "grpc-status: 0\n");
    cr_expect_eq(body_of(&in, stream), 5);
    cr_expect_eq(headers_of(stream, 0)->flags, END_HEADERS);
    cr_expect_eq(in.frames[find_frame(&in, 0, DATA, stream)].flags, 0);
    cr_expect_eq(headers_of(stream, 1)->flags, END_HEADERS | END_STREAM);
}

Test(http2_session, repeated_replies_take_an_index_for_each_field)
{
    for (uint32_t id = 1; id <= 7; id += 2) {
        put_request(&out, id, true, "/x/Y", NULL);
        run(reply);
        expect_reply(id);
        if (id > 1) {
            cr_expect_eq(headers_of(id, 0)->length, 2);
            cr_expect_eq(headers_of(id, 1)->length, 1);
        }
    }
}

/* Replies whose fields alternate, so that what was added meanwhile moves each index. */
static void reply_in_turn(pk_http2_stream *stream)
{
    static const char digits[] = "0123456789";
    static pk_field fields[64];
    unsigned number = (unsigned) stream->id / 2;
    if (number % 3 == 0) {
        reply(stream);
        return;
    }
    fields[number] = (pk_field){.name = PK_SLICE("x-number"),
                                .value = {(const uint8_t *) digits + number % 10, 1}};
    reply_with(stream, &fields[number], 1, status, 1);
}

Test(http2_session, replies_of_different_fields_do_not_spoil_each_other)
{
    for (uint32_t id = 1; id < 120; id += 2) {
        put_request(&out, id, true, "/x/Y", NULL);
        if (id % 5 == 0) /* several at once */
            run(reply_in_turn);
    }
    run(reply_in_turn);
    for (uint32_t id = 1; id < 120; id += 2) {
        char number[] = "x-number: 0\n";
        if (id / 2 % 3 == 0) {
            expect_reply(id);
            continue;
        }
        number[10] = (char) ('0' + id / 2 % 10);
        cr_expect_str_eq(strchr(headers_of(id, 0)->fields, '\n') + 1, number, "stream %u", id);
        cr_expect_str_eq(headers_of(id, 1)->fields, "grpc-status: 0\n");
    }
}

/* RFC 7541 section 4.2: the next block begins with the table's new size. */
Test(http2_session, replies_follow_the_size_of_the_peers_table)
{
    static const uint32_t sizes[] = {0, 4096, 100, 64, 1000000, 4096, 0};
    uint32_t id = 1;
    put_request(&out, id, true, "/x/Y", NULL);
    run(reply);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        put_setting(&out, SETTINGS_HEADER_TABLE_SIZE, sizes[i]);
        run(NULL);
        nghttp2_hd_inflate_change_table_size(in.inflater, sizes[i]);
        for (unsigned n = 0; n < 3; n++) {
            id += 2;
            put_request(&out, id, true, "/x/Y", NULL);
            run(reply);
            expect_reply(id);
            bool updated = (headers_of(id, 0)->payload[0] & 0xe0) == 0x20;
            cr_expect_eq(updated, n == 0, "row %zu, reply %u", i, n);
        }
    }
}

/* The SETTINGS come between a reply and its leaving: a table shrinks behind what was submitted. */
Test(http2_session, replies_that_wait_follow_the_size_too)
{
    put_request(&out, 1, true, "/x/Y", NULL);
    run(reply);
    put_request(&out, 3, true, "/x/Y", NULL);
    feed(reply);
    put_setting(&out, SETTINGS_HEADER_TABLE_SIZE, 0);
    feed(NULL);
    nghttp2_hd_inflate_change_table_size(in.inflater, 0);
    take();
    expect_reply(3);
}

static char long_text[40000];

static void reply_at_length(pk_http2_stream *stream)
{
    static pk_field fields[2];
    memset(long_text, '~', sizeof long_text);
    fields[0] = (pk_field){.name = PK_SLICE("x-long"),
                           .value = {(const uint8_t *) long_text, sizeof long_text}};
    fields[1] = status[0];
    reply_with(stream, head, 1, fields, 2);
}

Test(http2_session, fields_beyond_a_frame_go_on_in_others)
{
    for (uint32_t id = 1; id <= 3; id += 2) {
        put_request(&out, id, true, "/x/Y", NULL);
        run(reply_at_length);
        const struct frame *first = headers_of(id, 1);
        cr_expect_eq(first->flags, END_STREAM);
        cr_expect_eq(first->length, 16384);
        cr_expect_eq(first[1].type, CONTINUATION);
        cr_expect_eq(first[1].flags, 0);
        cr_expect_eq(first[2].type, CONTINUATION);
        cr_expect_eq(first[2].flags, END_HEADERS);
        cr_assert_not_null(first[2].fields);
        cr_expect_eq(strlen(first[2].fields),
                     sizeof long_text + strlen("x-long: \ngrpc-status: 0\n"));
    }
}

static void reply_beyond_measure(pk_http2_stream *stream)
{
    static pk_field fields[30];
    for (size_t i = 0; i < 30; i++)
        fields[i] = (pk_field){.name = PK_SLICE("x-long"),
                               .value = {(const uint8_t *) long_text, sizeof long_text}};
    if (stream->id == 1)
        cr_expect_eq(pk_http2_respond(stream, 200, fields, 30, true), 0);
    else
        reply_with(stream, head, 1, fields, 30);
}

Test(http2_session, fields_over_a_mebibyte_reset_their_stream_only)
{
    put_request(&out, 1, true, "/x/Y", NULL);
    put_request(&out, 3, true, "/x/Y", NULL);
    run(reply_beyond_measure);
    cr_expect_eq(reset_of(&in, 1), PK_HTTP2_INTERNAL_ERROR);
    cr_expect_eq(reset_of(&in, 3), PK_HTTP2_INTERNAL_ERROR);
    put_request(&out, 5, true, "/x/Y", NULL);
    run(reply);
    expect_reply(5);
}

static void reply_secretly(pk_http2_stream *stream)
{
    static const pk_field secret[] = {
        {.name = PK_SLICE("x-secret"), .value = PK_SLICE("abc"), .sensitive = true}};
    reply_with(stream, secret, 1, status, 1);
}

/* RFC 7541 section 6.2.3. */
Test(http2_session, sensitive_fields_are_never_indexed)
{
    for (uint32_t id = 1; id <= 5; id += 2) {
        put_request(&out, id, true, "/x/Y", NULL);
        run(reply_secretly);
        cr_expect_str_eq(headers_of(id, 0)->fields, ":status: 200\nx-secret: abc\n");
        cr_expect_eq(headers_of(id, 0)->payload[1], 0x10);
    }
}

static void reply_nothing(pk_http2_stream *stream)
{
    cr_assert_eq(pk_http2_respond(stream, 200, head, 1, false), 0);
    cr_assert_eq(pk_http2_finish(stream, NULL, 0), 0);
}

Test(http2_session, trailers_without_fields_are_empty_headers)
{
    for (uint32_t id = 1; id <= 3; id += 2) {
        put_request(&out, id, true, "/x/Y", NULL);
        run(reply_nothing);
        cr_expect_eq(headers_of(id, 1)->length, 0);
        cr_expect_eq(headers_of(id, 1)->flags, END_HEADERS | END_STREAM);
    }
}

/* ---- Blocks of requests that are known ---- */

/* What a peer's encoder makes of these requests, which differ in what HPACK does with them. */
static const char *const paths[] = {"/x/Y", "/x/Z", "/a.much.longer.Service/WithALongMethod"};

struct request {
    nghttp2_nv fields[8];
    size_t count;
};

static nghttp2_nv field(const char *name, const char *value, bool indexed)
{
    return (nghttp2_nv){(uint8_t *) (uintptr_t) name, (uint8_t *) (uintptr_t) value, strlen(name),
                        strlen(value), indexed ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX};
}

static struct request request_of(unsigned kind)
{
    static const char *const timeouts[] = {"1S", "200m", "999u", "3H"};
    static const char *const lengths[] = {"0", "12", "13"};
    struct request request = {{field(":method", "POST", true), field(":scheme", "http", true),
                               field(":path", paths[kind % 3], true),
                               field(":authority", "here", true),
                               field("content-type", "application/grpc", true)},
                              5};
    kind /= 3;
    if (kind % 5 > 0)
        request.fields[request.count++] =
            field("grpc-timeout", timeouts[kind % 5 - 1], kind % 5 < 4);
    kind /= 5;
    if (kind % 4 > 0)
        request.fields[request.count++] = field("content-length", lengths[kind % 4 - 1], true);
    return request;
}

#define KINDS 60u

static nghttp2_hd_deflater *peer_encoder;

static void put_encoded(uint32_t id, unsigned flags, unsigned kind)
{
    uint8_t block[512];
    struct request request = request_of(kind);
    ssize_t length =
        nghttp2_hd_deflate_hd(peer_encoder, block, sizeof block, request.fields, request.count);
    cr_assert_gt(length, 0);
    put_frame(&out, HEADERS, flags | END_HEADERS, id, block, (size_t) length);
}

static void expect_fields(const pk_http2_stream *stream, unsigned kind)
{
    struct request request = request_of(kind);
    const pk_head *got = &stream->head.head;
    size_t bytes = 0;
    cr_assert_eq(got->count, request.count, "stream %d", stream->id);
    for (size_t i = 0; i < request.count; i++) {
        const nghttp2_nv *sent = &request.fields[i];
        const pk_field *here = &got->fields[i];
        cr_assert_eq(here->name.length, sent->namelen);
        cr_assert_eq(memcmp(here->name.bytes, sent->name, sent->namelen), 0);
        cr_assert_eq(here->value.length, sent->valuelen, "stream %d, field %zu", stream->id, i);
        cr_assert_eq(memcmp(here->value.bytes, sent->value, sent->valuelen), 0);
        cr_assert_eq(here->known, pk_field_lookup(here->name));
        cr_assert_eq(here->sensitive, (sent->flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0);
        bytes += sent->namelen + sent->valuelen + 32;
    }
    cr_assert_eq(stream->head.bytes, bytes);
    cr_assert_eq(got->first[PK_FIELD_PATH], 3);
}

static unsigned known_heads;

static void expect_second_kind(pk_http2_stream *stream)
{
    known_heads += stream->known != NULL;
    expect_fields(stream, 1);
    reply(stream);
}

Test(http2_session, heads_that_repeat_are_known_from_the_fourth_on)
{
    cr_assert_eq(nghttp2_hd_deflate_new(&peer_encoder, 4096), 0);
    known_heads = 0;
    for (uint32_t id = 1; id <= 19; id += 2)
        put_encoded(id, END_STREAM, 1);
    run(expect_second_kind);
    cr_expect_eq(known_heads, 7); /* one adds, two are looked at */
    for (uint32_t id = 1; id <= 19; id += 2)
        expect_reply(id);
    nghttp2_hd_deflate_del(peer_encoder);
}

/* Streams of the random test: kinds by their number, and those that are kept open for long. */
static unsigned kinds[20001];
static pk_http2_stream *held[20];
static unsigned random_state;

static unsigned next_random(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static void check_and_hold(pk_http2_stream *stream)
{
    known_heads += stream->known != NULL;
    unsigned kind = kinds[stream->id];
    expect_fields(stream, kind);
    unsigned place = next_random(20);
    if (held[place]) {
        expect_fields(held[place], kinds[held[place]->id]); /* whatever came meanwhile */
        reply(held[place]);
    }
    held[place] = stream;
}

/*
 * A peer's encoder makes the truth. Requests repeat often, fields come and go from its table, its
 * size changes, padding, priorities and CONTINUATION are used, and the bytes come in any pieces.
 */
Test(http2_session, heads_are_what_was_sent_whatever_is_known)
{
    for (unsigned seed = 1; seed <= 6; seed++) {
        if (seed > 1) {
            tear_down();
            set_up();
        }
        cr_assert_eq(nghttp2_hd_deflate_new(&peer_encoder, 4096), 0);
        random_state = seed;
        known_heads = 0;
        memset(held, 0, sizeof held);
        unsigned kind = 0;
        for (uint32_t id = 1; id < 8000; id += 2) {
            if (next_random(3) == 0) /* few kinds for a while, then others */
                kind = (next_random(3) + id / 1000 * 7) % KINDS;
            unsigned odd = next_random(seed < 4 ? 400 : 40);
            if (odd == 0)
                nghttp2_hd_deflate_change_table_size(peer_encoder, next_random(2) ? 4096 : 128);
            /* Bodies do not come: where content-length asks for one the stream stays open. */
            kinds[id] = kind;
            size_t start = out.length;
            put_encoded(id, kind / 15 < 2 ? END_STREAM : 0, kind);
            if (odd == 1) { /* the same block in two frames */
                uint8_t *at = out.at + start;
                uint8_t length = at[2];
                at[2] = 1;
                at[4] &= (uint8_t) ~END_HEADERS;
                struct bytes rest = {0};
                put(&rest, at + 10, length - 1u);
                out.length = start + 10;
                put_frame(&out, CONTINUATION, END_HEADERS, id, rest.at, rest.length);
                bytes_free(&rest);
            } else if (odd == 2) { /* with padding */
                struct bytes whole = {0};
                uint8_t *at = out.at + start;
                put(&whole, "\3", 1);
                put(&whole, at + 9, at[2]);
                put(&whole, "\0\0\0", 3);
                unsigned flags = at[4] | PADDED;
                out.length = start;
                put_frame(&out, HEADERS, flags, id, whole.at, whole.length);
                bytes_free(&whole);
            }
            if (next_random(20) > 0)
                continue;
            struct bytes all = out;
            out = (struct bytes){0};
            for (size_t at = 0; at < all.length;) {
                size_t piece = 1 + (next_random(4) ? 4000 : next_random(40));
                if (piece > all.length - at)
                    piece = all.length - at;
                put(&out, all.at + at, piece);
                run(check_and_hold);
                at += piece;
            }
            bytes_free(&all);
        }
        run(check_and_hold);
        cr_expect_gt(known_heads, seed < 4 ? 1000 : 300, "%u", known_heads);
        cr_expect_eq(find_frame(&in, 0, GOAWAY, 0), SIZE_MAX);
        cr_expect_eq(find_frame(&in, 0, RST_STREAM, 1), SIZE_MAX);
        nghttp2_hd_deflate_del(peer_encoder);
    }
}

/* Pseudo-headers have no place in trailers, also where the block is known (RFC 9113 section 8.1). */
Test(http2_session, a_known_block_is_no_head_where_trailers_stand)
{
    cr_assert_eq(nghttp2_hd_deflate_new(&peer_encoder, 4096), 0);
    for (uint32_t id = 1; id <= 9; id += 2)
        put_encoded(id, 0, 0);
    put_encoded(9, END_STREAM, 0);
    put_encoded(3, END_STREAM, 0);
    run(NULL);
    cr_expect_eq(reset_of(&in, 9), PK_HTTP2_PROTOCOL_ERROR);
    cr_expect_eq(reset_of(&in, 3), PK_HTTP2_PROTOCOL_ERROR);
    cr_expect_eq(reset_of(&in, 7), -1);
    nghttp2_hd_deflate_del(peer_encoder);
}

Test(http2_session, known_heads_whose_body_is_missing_are_reset)
{
    cr_assert_eq(nghttp2_hd_deflate_new(&peer_encoder, 4096), 0);
    for (uint32_t id = 1; id <= 9; id += 2)
        put_encoded(id, END_STREAM, 30); /* content-length: 12 */
    put_encoded(11, 0, 30);
    put_data(&out, 11, true, "123456789012", 12);
    put_encoded(13, 0, 30);
    put_data(&out, 13, true, "1234567890123", 13);
    run(reply);
    cr_expect_eq(reset_of(&in, 9), PK_HTTP2_PROTOCOL_ERROR);
    cr_expect_eq(reset_of(&in, 11), -1);
    cr_expect_eq(reset_of(&in, 13), PK_HTTP2_PROTOCOL_ERROR);
    nghttp2_hd_deflate_del(peer_encoder);
}

/* What a refused stream carried is known all the same, and nobody hears of it. */
Test(http2_session, known_heads_of_refused_streams_are_dropped)
{
    cr_assert_eq(nghttp2_hd_deflate_new(&peer_encoder, 4096), 0);
    for (uint32_t id = 1; id <= 2003; id += 2)
        put_encoded(id, END_STREAM, 1);
    known_heads = 0;
    run(expect_second_kind);
    cr_expect_eq(known_heads, 997);
    cr_expect_eq(reset_of(&in, 1999), -1);
    cr_expect_eq(reset_of(&in, 2001), PK_HTTP2_REFUSED_STREAM);
    cr_expect_eq(reset_of(&in, 2003), PK_HTTP2_REFUSED_STREAM);
    put_encoded(2005, END_STREAM, 1);
    run(expect_second_kind);
    expect_reply(2005);
    nghttp2_hd_deflate_del(peer_encoder);
}
