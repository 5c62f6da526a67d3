/* marshalling/protocol_bare.c: Connect's and Triple's unary calls, both sides. */
#include "marshalling/protocol_bare.h"
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

static marshalling_fixture fixture;
static pk_bare_reader reader;

static void set_up(void)
{
    fixture_init(&fixture);
    pk_bare_reader_init(&reader, &fixture.marshalling, &fixture.arena, NULL, 1000);
}

static void tear_down(void)
{
    pk_bare_reader_done(&reader);
    cr_assert_eq(fixture_done(&fixture), 0);
}

#define FIELDS(reply) fields_text((reply).fields, (reply).field_count)

static bool buffer_is(const pk_buffer *buffer, const char *text)
{
    return buffer && slice_is((pk_slice){buffer->start, pk_buffer_length(buffer)}, text);
}

Test(protocol_bare, a_reply_is_the_message_with_its_trailers_among_the_headers, .init = set_up,
     .fini = tear_down)
{
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_metadata headers, trailers;
    pk_metadata_init(&headers, &fixture.arena);
    pk_metadata_init(&trailers, &fixture.arena);
    cr_assert_eq(pk_metadata_add(&headers, "h", "1"), 0);
    cr_assert_eq(pk_metadata_add(&trailers, "t", "2"), 0);
    pk_outcome outcome = {
        .type = bytes_value_type(), .message = &value, .headers = &headers, .trailers = &trailers};
    pk_reply reply;
    cr_expect_eq(pk_bare_reply(&pk_bare_connect, &fixture.encoding, &outcome, &reply), PK_OK);
    cr_expect_eq(reply.http_status, 200);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/proto\nh: 1\ntrailer-t: 2\n");
    cr_expect(buffer_is(reply.body, "\x0a\x03"
                                    "abc"));
    cr_expect_eq(reply.trailer_count, 0);
    pk_buffer_unref(reply.body);

    Google__Protobuf__BytesValue empty = bytes_value("", 0);
    pk_outcome nothing = {.type = bytes_value_type(), .message = &empty};
    cr_expect_eq(pk_bare_reply(&pk_bare_connect, &fixture.encoding, &nothing, &reply), PK_OK);
    cr_expect_eq(pk_buffer_length(reply.body), 0);
    pk_buffer_unref(reply.body);
}

Test(protocol_bare, a_compressed_reply_names_its_content_encoding, .init = set_up,
     .fini = tear_down)
{
    char text[300];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    pk_outcome outcome = {.type = bytes_value_type(), .message = &value};
    pk_reply reply;
    fixture.encoding.compressor = &pk_compressor_gzip;
    fixture.encoding.compress_min_bytes = 303; /* the length to the byte */
    cr_expect_eq(pk_bare_reply(&pk_bare_triple, &fixture.encoding, &outcome, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/proto\ncontent-encoding: gzip\n");
    pk_slice message;
    pk_bare_reader_init(&reader, &fixture.marshalling, &fixture.arena, &pk_compressor_gzip, 303);
    cr_assert_eq(
        pk_bare_reader_feed(&reader, reply.body->start, pk_buffer_length(reply.body), reply.body),
        0);
    pk_buffer_unref(reply.body);
    cr_assert_eq(pk_bare_reader_end(&reader, &message), 0);
    cr_expect_eq(message.length, 303);
    fixture.encoding.compress_min_bytes = 304;
    cr_expect_eq(pk_bare_reply(&pk_bare_triple, &fixture.encoding, &outcome, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/proto\n");
    pk_buffer_unref(reply.body);
}

/* The tables of Connect's protocol page and of dubbo-go's triple protocol. */
Test(protocol_bare, an_error_is_an_http_status_and_json, .init = set_up, .fini = tear_down)
{
    static const unsigned connect[] = {0,   499, 500, 400, 504, 404, 409, 403, 429,
                                       400, 409, 400, 501, 500, 503, 500, 401};
    static const unsigned triple[] = {0,   408, 500, 400, 408, 404, 409, 403, 429,
                                      412, 409, 400, 404, 500, 503, 500, 401};
    for (int code = 1; code <= 16; code++) {
        for (int i = 0; i < 2; i++) {
            const pk_bare_style *style = i ? &pk_bare_triple : &pk_bare_connect;
            pk_status status = {(pk_code) code, PK_SLICE("m"), {NULL, 0}}, back;
            pk_outcome outcome = {.status = &status};
            pk_reply reply;
            cr_expect_eq((int) pk_bare_reply(style, &fixture.encoding, &outcome, &reply), code);
            cr_expect_eq(reply.http_status, i ? triple[code] : connect[code]);
            cr_expect_str_eq(FIELDS(reply), "content-type: application/json\n");
            char digits[12];
            sprintf(digits, "%u", reply.http_status);
            pk_field fields[] = {{.name = PK_SLICE(":status"), .value = slice_of(digits)}};
            pk_head head = make_head(fields, 1);
            pk_bare_response_status(style, &head,
                                    (pk_slice){reply.body->start, pk_buffer_length(reply.body)},
                                    &fixture.arena, &back);
            cr_expect_eq((int) back.code, code);
            cr_expect(slice_is(back.message, "m"));
            pk_buffer_unref(reply.body);
        }
    }
}

Test(protocol_bare, what_cannot_be_replied_becomes_an_error, .init = set_up, .fini = tear_down)
{
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_outcome nothing = {.type = bytes_value_type()};
    pk_outcome large = {.type = bytes_value_type(), .message = &value};
    pk_reply reply;
    cr_expect_eq(pk_bare_reply(&pk_bare_connect, &fixture.encoding, &nothing, &reply), PK_INTERNAL);
    pk_buffer_unref(reply.body);
    fixture.encoding.send_limit = 4;
    cr_expect_eq(pk_bare_reply(&pk_bare_connect, &fixture.encoding, &large, &reply),
                 PK_RESOURCE_EXHAUSTED);
    cr_expect(buffer_is(reply.body, "{\"code\":\"resource_exhausted\",\"message\":"
                                    "\"message of 5 bytes is above the send limit of 4 bytes\"}"));
    pk_buffer_unref(reply.body);
}

Test(protocol_bare, a_request_is_written_in_each_style, .init = set_up, .fini = tear_down)
{
    static const struct {
        const pk_bare_style *style;
        const char *own;
    } rows[] = {
        {&pk_bare_connect, "connect-protocol-version: 1\nconnect-timeout-ms: 1501\n"},
        {&pk_bare_triple, "triple-protocol-version: 0.1.0\ntriple-timeout-ms: 1501\n"},
    };
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_request_target target = {.scheme = PK_SLICE("http"),
                                .authority = PK_SLICE("h"),
                                .path = PK_SLICE("/a.B/C"),
                                .timeout = UINT64_C(1500000001)};
    for (size_t i = 0; i < 2; i++) {
        pk_fields head;
        pk_buffer *body;
        pk_status status;
        char want[400];
        cr_assert_eq(pk_bare_request(rows[i].style, &fixture.encoding, &target, bytes_value_type(),
                                     &value, NULL, &head, &body, &status),
                     0);
        sprintf(want,
                ":method: POST\n:scheme: http\n:path: /a.B/C\n:authority: h\n"
                "content-type: application/proto\n%saccept-encoding: identity,gzip,deflate\n",
                rows[i].own);
        cr_expect_str_eq(fields_text(head.items, head.count), want);
        cr_expect(buffer_is(body, "\x0a\x03"
                                  "abc"));
        pk_buffer_unref(body);
    }
}

Test(protocol_bare, a_body_is_gathered_from_chunks_or_kept_in_its_only_one, .init = set_up,
     .fini = tear_down)
{
    static const char body[] = "the whole body";
    const size_t length = sizeof body - 1;
    for (int with_holder = 0; with_holder < 2; with_holder++) {
        for (size_t piece = 1; piece <= length; piece++) {
            pk_slice message;
            pk_bare_reader_done(&reader);
            pk_bare_reader_init(&reader, &fixture.marshalling, &fixture.arena, NULL, length);
            for (size_t done = 0; done < length; done += piece) {
                size_t now = length - done < piece ? length - done : piece;
                pk_buffer *chunk = pk_buffer_get(&fixture.pool);
                cr_assert_eq(pk_buffer_prepend(chunk, body + done, now), 0);
                cr_assert_eq(
                    pk_bare_reader_feed(&reader, chunk->start, now, with_holder ? chunk : NULL), 0);
                if (!with_holder || done > 0)
                    memset(chunk->start, 0xee, now);
                pk_buffer_unref(chunk);
            }
            cr_assert_eq(pk_bare_reader_end(&reader, &message), 0);
            cr_assert(slice_is(message, body));
            cr_expect_eq(reader.gathered == NULL, with_holder && piece == length);
        }
    }
    pk_slice message = PK_SLICE("x");
    pk_bare_reader_done(&reader);
    pk_bare_reader_init(&reader, &fixture.marshalling, &fixture.arena, &pk_compressor_gzip, 10);
    cr_assert_eq(pk_bare_reader_end(&reader, &message), 0, "an empty body is an empty message");
    cr_expect_eq(message.length, 0);
}

Test(protocol_bare, limits_hold_for_the_body_and_what_it_decompresses_to, .init = set_up,
     .fini = tear_down)
{
    pk_slice message;
    pk_bare_reader_init(&reader, &fixture.marshalling, &fixture.arena, NULL, 4);
    cr_expect_eq(pk_bare_reader_feed(&reader, (const uint8_t *) "abc", 3, NULL), 0);
    cr_expect_eq(pk_bare_reader_feed(&reader, (const uint8_t *) "de", 2, NULL), PK_ERR_LIMIT);
    cr_expect_eq(reader.status.code, PK_RESOURCE_EXHAUSTED);
    cr_expect_eq(pk_bare_reader_end(&reader, &message), PK_ERR_LIMIT);
    pk_bare_reader_done(&reader);

    static const uint8_t hello[] =
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57"
        "\xc8\x40\x27\x01\xe3\x51\x3d\x8d\x17\x00\x00\x00";
    const struct {
        size_t length, limit;
        int result;
        pk_code code;
    } rows[] = {{28, 28, 0, PK_OK},
                {27, 28, PK_ERR_MALFORMED, PK_INVALID_ARGUMENT},
                {28, 27, PK_ERR_LIMIT, PK_RESOURCE_EXHAUSTED}};
    for (size_t i = 0; i < 3; i++) {
        pk_bare_reader_init(&reader, &fixture.marshalling, &fixture.arena, &pk_compressor_gzip,
                            rows[i].limit);
        int r = pk_bare_reader_feed(&reader, hello, rows[i].length, NULL);
        if (r == 0)
            r = pk_bare_reader_end(&reader, &message);
        cr_expect_eq(r, rows[i].result, "row %zu", i);
        if (r < 0)
            cr_expect_eq(reader.status.code, rows[i].code);
        else
            cr_expect(slice_is(message, "hello hello hello hello"));
        pk_bare_reader_done(&reader);
    }
}

Test(protocol_bare, heads_are_understood, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *text;
        uint64_t nanoseconds;
    } timeouts[] = {{"0", 0},
                    {"1500", UINT64_C(1500000000)},
                    {"9999999999", UINT64_C(9999999999000000)},
                    {"", 1},
                    {"12345678901", 1},
                    {"-1", 1},
                    {"1m", 1},
                    {" 1", 1}};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        uint64_t got = 1;
        cr_expect_eq(pk_bare_timeout(slice_of(timeouts[i].text), &got),
                     timeouts[i].nanoseconds == 1 ? PK_ERR_MALFORMED : 0);
        cr_expect_eq(got, timeouts[i].nanoseconds);
    }
    static const struct {
        const char *encoding;
        const pk_compressor *incoming;
        int result;
    } encodings[] = {{"", NULL, 0},
                     {"identity", NULL, 0},
                     {"gzip", &pk_compressor_gzip, 0},
                     {"br", NULL, PK_ERR_UNSUPPORTED}};
    for (size_t i = 0; i < 4; i++) {
        pk_field fields[] = {
            {.name = PK_SLICE("content-encoding"), .value = slice_of(encodings[i].encoding)}};
        pk_head head = make_head(fields, 1);
        const pk_compressor *incoming = NULL;
        pk_status status;
        cr_expect_eq(pk_bare_negotiate(&pk_compressor_set_default, &head, &fixture.arena, &incoming,
                                       &status),
                     encodings[i].result);
        cr_expect_eq(incoming, encodings[i].incoming);
    }
    static const struct {
        const char *http;
        int connect, triple;
    } statuses[] = {{"400", 13, 3}, {"408", 2, 4},   {"412", 2, 9},   {"413", 2, 8},
                    {"431", 2, 8},  {"404", 12, 12}, {"503", 14, 14}, {"500", 2, 2}};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        pk_field fields[] = {{.name = PK_SLICE(":status"), .value = slice_of(statuses[i].http)}};
        pk_head head = make_head(fields, 1);
        pk_status status;
        pk_bare_response_status(&pk_bare_connect, &head, PK_SLICE("<html>"), &fixture.arena,
                                &status);
        cr_expect_eq((int) status.code, statuses[i].connect, "%s", statuses[i].http);
        pk_bare_response_status(&pk_bare_triple, &head, PK_SLICE(""), &fixture.arena, &status);
        cr_expect_eq((int) status.code, statuses[i].triple, "%s", statuses[i].http);
    }
    pk_field fields[] = {{.name = PK_SLICE("h"), .value = PK_SLICE("1")},
                         {.name = PK_SLICE("trailer-t"), .value = PK_SLICE("2")},
                         {.name = PK_SLICE("trailer-"), .value = PK_SLICE("3")}};
    pk_head head = make_head(fields, 3);
    pk_fields headers, trailers;
    cr_assert(pk_bare_response_fields(&head, &fixture.arena, &headers, &trailers));
    cr_expect_str_eq(fields_text(headers.items, headers.count), "h: 1\ntrailer-: 3\n");
    cr_expect_str_eq(fields_text(trailers.items, trailers.count), "t: 2\n");
}

Test(protocol_bare, each_allocation_may_fail)
{
    char text[2000];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    bool finished = false;
    for (size_t fail_at = 1; !finished; fail_at++) {
        fixture_init(&fixture);
        pk_metadata trailers;
        pk_metadata_init(&trailers, &fixture.arena);
        for (int i = 0; i < 30; i++)
            cr_assert_eq(pk_metadata_add(&trailers, "t", "1"), 0);
        pk_outcome outcome = {.type = bytes_value_type(), .message = &value, .trailers = &trailers};
        fixture.encoding.compressor = &pk_compressor_gzip;
        fixture.counts.fail_at = fixture.counts.requests + fail_at;
        fixture.counts.fail_after = true;
        pk_reply reply;
        pk_code code = pk_bare_reply(&pk_bare_connect, &fixture.encoding, &outcome, &reply);
        cr_assert(code == PK_OK || code == PK_RESOURCE_EXHAUSTED);
        cr_expect(reply.http_status == 200 || reply.http_status == 429);
        pk_buffer_unref(reply.body);
        finished = fixture.counts.requests < fixture.counts.fail_at;
        cr_assert_eq(fixture_done(&fixture), 0);
        cr_assert_lt(fail_at, 100);
    }
}
