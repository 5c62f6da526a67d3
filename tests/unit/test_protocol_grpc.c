/* marshalling/protocol_grpc.c and protocol_fields.c: what PROTOCOL-HTTP2.md wants on the wire. */
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

static marshalling_fixture fixture;

static void set_up(void)
{
    fixture_init(&fixture);
}

static void tear_down(void)
{
    cr_assert_eq(fixture_done(&fixture), 0);
}

static pk_code reply_unary(const pk_protocol *protocol, const pk_outcome *outcome,
                           pk_reply *ret_reply)
{
    return protocol->reply_unary(protocol, &fixture.encoding, outcome, ret_reply);
}

#define FIELDS(reply) fields_text((reply).fields, (reply).field_count)
#define TRAILERS(reply) fields_text((reply).trailers, (reply).trailer_count)
#define ABC                \
    "\0\0\0\0\x05\x0a\x03" \
    "abc"

Test(protocol_grpc, a_reply_without_metadata_is_made_of_static_fields, .init = set_up,
     .fini = tear_down)
{
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_outcome outcome = {.type = bytes_value_type(), .message = &value};
    const pk_protocol *const variants[] = {&pk_protocol_grpc, &pk_protocol_grpc_proto};
    const char *const heads[] = {"content-type: application/grpc\n",
                                 "content-type: application/grpc+proto\n"};
    for (size_t i = 0; i < 2; i++) {
        pk_reply reply;
        cr_assert_eq(reply_unary(variants[i], &outcome, &reply), PK_OK);
        cr_expect_eq(reply.http_status, 200);
        cr_expect_str_eq(FIELDS(reply), heads[i]);
        cr_expect_str_eq(TRAILERS(reply), "grpc-status: 0\n");
        cr_expect_eq(pk_buffer_length(reply.body), 10);
        cr_expect_eq(memcmp(reply.body->start, ABC, 10), 0);
        pk_buffer_unref(reply.body);
    }
    cr_expect_eq(fixture.arena.total, 0);
}

Test(protocol_grpc, metadata_and_details_go_where_they_belong, .init = set_up, .fini = tear_down)
{
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_metadata headers, trailers;
    pk_metadata_init(&headers, &fixture.arena);
    pk_metadata_init(&trailers, &fixture.arena);
    cr_assert_eq(pk_metadata_add(&headers, "h", "1"), 0);
    cr_assert_eq(pk_metadata_add(&headers, "h", "2"), 0);
    cr_assert_eq(pk_metadata_add_binary(&trailers, "t-bin", "\xab", 1), 0);
    pk_status ok = {PK_OK, {NULL, 0}, {NULL, 0}};
    pk_outcome outcome = {.type = bytes_value_type(),
                          .message = &value,
                          .status = &ok,
                          .headers = &headers,
                          .trailers = &trailers};
    pk_reply reply;
    cr_assert_eq(reply_unary(&pk_protocol_grpc, &outcome, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc\nh: 1\nh: 2\n");
    cr_expect_str_eq(TRAILERS(reply), "grpc-status: 0\nt-bin: qw\n");
    pk_buffer_unref(reply.body);

    /* The same call failing: everything in one head, no body, no trailers. */
    pk_status failed = {PK_NOT_FOUND, PK_SLICE("no \xc3\xa4"), PK_SLICE("\x08\x05")};
    outcome.status = &failed;
    cr_assert_eq(reply_unary(&pk_protocol_grpc, &outcome, &reply), PK_NOT_FOUND);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc\n"
                                    "grpc-status: 5\ngrpc-message: no %C3%A4\n"
                                    "grpc-status-details-bin: CAU\nh: 1\nh: 2\nt-bin: qw\n");
    cr_expect_null(reply.body);
    cr_expect_eq(reply.trailer_count, 0);
}

Test(protocol_grpc, a_compressed_reply_says_so_and_an_uncompressed_one_does_not, .init = set_up,
     .fini = tear_down)
{
    char text[300];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    pk_outcome outcome = {.type = bytes_value_type(), .message = &value};
    fixture.encoding.compressor = &pk_compressor_gzip;
    fixture.encoding.compress_min_bytes = 100;
    pk_reply reply;
    cr_assert_eq(reply_unary(&pk_protocol_grpc, &outcome, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc\ngrpc-encoding: gzip\n");
    cr_expect_eq(reply.body->start[0], 1);
    pk_buffer_unref(reply.body);
    value.value.len = 10;
    cr_assert_eq(reply_unary(&pk_protocol_grpc, &outcome, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc\n");
    cr_expect_eq(reply.body->start[0], 0);
    pk_buffer_unref(reply.body);
}

Test(protocol_grpc, what_cannot_be_replied_becomes_a_status, .init = set_up, .fini = tear_down)
{
    Google__Protobuf__StringValue other = GOOGLE__PROTOBUF__STRING_VALUE__INIT;
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    const struct {
        const void *message;
        size_t send_limit;
        pk_code code;
        const char *fields;
    } rows[] = {
        {NULL, 0, PK_INTERNAL,
         "content-type: application/grpc\ngrpc-status: 13\n"
         "grpc-message: the handler ended without a message\n"},
        {&other, 0, PK_INTERNAL,
         "content-type: application/grpc\ngrpc-status: 13\ngrpc-message: cannot encode a message "
         "as google.protobuf.BytesValue with codec proto: invalid argument\n"},
        {&value, 4, PK_RESOURCE_EXHAUSTED,
         "content-type: application/grpc\ngrpc-status: 8\n"
         "grpc-message: message of 5 bytes is above the send limit of 4 bytes\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_outcome outcome = {.type = bytes_value_type(), .message = rows[i].message};
        pk_reply reply;
        fixture.encoding.send_limit = rows[i].send_limit;
        cr_expect_eq(reply_unary(&pk_protocol_grpc, &outcome, &reply), rows[i].code);
        cr_expect_str_eq(FIELDS(reply), rows[i].fields);
        cr_expect_null(reply.body);
        cr_expect_eq(reply.trailer_count, 0);
    }
}

Test(protocol_grpc, an_unsupported_encoding_is_answered_with_what_is_known, .init = set_up,
     .fini = tear_down)
{
    pk_status status = PK_STATUS(PK_UNIMPLEMENTED, "no");
    pk_outcome outcome = {.status = &status};
    pk_reply reply;
    fixture.encoding.tell_encodings = true;
    cr_expect_eq(
        pk_protocol_grpc.reply_status(&pk_protocol_grpc, &fixture.encoding, &outcome, &reply),
        PK_UNIMPLEMENTED);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc\ngrpc-status: 12\n"
                                    "grpc-message: no\n"
                                    "grpc-accept-encoding: identity,gzip,deflate\n");
}

Test(protocol_grpc, a_stream_has_a_head_messages_and_an_end, .init = set_up, .fini = tear_down)
{
    const pk_protocol *grpc = &pk_protocol_grpc;
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_metadata trailers;
    pk_metadata_init(&trailers, &fixture.arena);
    cr_assert_eq(pk_metadata_add(&trailers, "t", "1"), 0);

    pk_fields head = grpc->head(grpc, &fixture.encoding, NULL);
    cr_expect_str_eq(fields_text(head.items, head.count), "content-type: application/grpc\n");
    fixture.encoding.compressor = &pk_compressor_deflate;
    head = grpc->head(grpc, &fixture.encoding, NULL);
    cr_expect_str_eq(fields_text(head.items, head.count),
                     "content-type: application/grpc\ngrpc-encoding: deflate\n");

    pk_buffer *buffer;
    pk_status status;
    cr_assert_eq(
        grpc->message(grpc, &fixture.encoding, bytes_value_type(), &value, &buffer, &status), 0);
    cr_expect_eq(pk_buffer_length(buffer), 10);
    cr_expect_eq(memcmp(buffer->start, ABC, 10), 0);
    pk_buffer_unref(buffer);

    pk_protocol_end end;
    grpc->end(grpc, &fixture.encoding, NULL, NULL, &end);
    cr_expect_null(end.body);
    cr_expect_str_eq(fields_text(end.trailers, end.trailer_count), "grpc-status: 0\n");
    status = PK_STATUS(PK_ABORTED, "100%");
    grpc->end(grpc, &fixture.encoding, &status, &trailers, &end);
    cr_expect_null(end.body);
    cr_expect_str_eq(fields_text(end.trailers, end.trailer_count),
                     "grpc-status: 10\ngrpc-message: 100%25\nt: 1\n");

    /* A stream that ends well before its head was sent. */
    pk_outcome nothing = {.trailers = &trailers};
    pk_reply reply;
    cr_expect_eq(grpc->reply_status(grpc, &fixture.encoding, &nothing, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc\ngrpc-status: 0\nt: 1\n");
    cr_expect_null(reply.body);
}

Test(protocol_grpc, each_allocation_may_fail, .timeout = 60)
{
    char text[2000];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    bool finished = false;
    for (size_t fail_at = 1; !finished; fail_at++) {
        fixture_init(&fixture);
        pk_metadata headers, trailers;
        pk_metadata_init(&headers, &fixture.arena);
        pk_metadata_init(&trailers, &fixture.arena);
        for (int i = 0; i < 40; i++) {
            cr_assert_eq(pk_metadata_add(&headers, "h", "1"), 0);
            cr_assert_eq(pk_metadata_add(&trailers, "t", "1"), 0);
        }
        fixture.encoding.compressor = &pk_compressor_gzip;
        pk_outcome outcome = {.type = bytes_value_type(),
                              .message = &value,
                              .headers = &headers,
                              .trailers = &trailers};
        fixture.counts.fail_at = fixture.counts.requests + fail_at;
        fixture.counts.fail_after = true;
        pk_reply reply;
        pk_code code = reply_unary(&pk_protocol_grpc, &outcome, &reply);
        cr_assert(code == PK_OK || code == PK_RESOURCE_EXHAUSTED);
        cr_expect_eq(code == PK_OK, reply.body != NULL);
        if (code != PK_OK)
            cr_expect_not_null(strstr(FIELDS(reply), "grpc-status: 8\n"));
        finished = fixture.counts.requests < fixture.counts.fail_at;
        pk_buffer_unref(reply.body);
        cr_assert_eq(fixture_done(&fixture), 0);
        cr_assert_lt(fail_at, 100);
    }
}

/* ---- Client ---- */

Test(protocol_grpc, a_request_has_its_pseudo_fields_first, .init = set_up, .fini = tear_down)
{
    pk_metadata metadata;
    pk_metadata_init(&metadata, &fixture.arena);
    cr_assert_eq(pk_metadata_add(&metadata, "k", "v"), 0);
    pk_request_target target = {.scheme = PK_SLICE("http"),
                                .authority = PK_SLICE("example.org:1"),
                                .path = PK_SLICE("/a.B/C"),
                                .user_agent = PK_SLICE("pekoe/1"),
                                .timeout = UINT64_C(1500000000)};
    pk_fields head =
        pk_protocol_grpc.request_head(&pk_protocol_grpc, &fixture.encoding, &target, &metadata);
    cr_expect_str_eq(fields_text(head.items, head.count),
                     ":method: POST\n:scheme: http\n:path: /a.B/C\n:authority: example.org:1\n"
                     "te: trailers\ncontent-type: application/grpc\nuser-agent: pekoe/1\n"
                     "grpc-timeout: 1500m\ngrpc-accept-encoding: identity,gzip,deflate\nk: v\n");
    target.timeout = UINT64_MAX;
    target.user_agent.length = 0;
    fixture.encoding.compressor = &pk_compressor_gzip;
    fixture.encoding.compressors = NULL;
    head = pk_protocol_grpc.request_head(&pk_protocol_grpc, &fixture.encoding, &target, NULL);
    cr_expect_str_eq(fields_text(head.items, head.count),
                     ":method: POST\n:scheme: http\n:path: /a.B/C\n:authority: example.org:1\n"
                     "te: trailers\ncontent-type: application/grpc\ngrpc-encoding: gzip\n");
}

Test(protocol_grpc, a_responses_head_tells_the_end_or_that_messages_follow, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *http, *content_type, *status, *message;
        bool ended, final;
        int code;
        const char *text;
    } rows[] = {
        {"200", "application/grpc", NULL, NULL, false, false, 0, ""},
        {"200", "application/grpc+proto", NULL, NULL, false, false, 0, ""},
        {"200", "application/grpc", "5", "a%20b", true, true, 5, "a b"},
        {"200", "application/grpc", "0", NULL, true, true, 0, ""},
        {"200", "application/grpc", NULL, NULL, true, true, 2,
         "the response has ended without a status"},
        {"200", "text/html", NULL, NULL, false, true, 2,
         "the server answered with content-type \"text/html\""},
        {"200", "application/grpc-web", NULL, NULL, false, true, 2,
         "the server answered with content-type \"application/grpc-web\""},
        {"200", NULL, NULL, NULL, false, true, 2, "the server answered with content-type \"\""},
        {"503", "text/html", NULL, NULL, false, true, 14,
         "the server answered with HTTP status 503"},
        {"404", NULL, NULL, NULL, true, true, 12, "the server answered with HTTP status 404"},
        {"401", NULL, NULL, NULL, true, true, 16, "the server answered with HTTP status 401"},
        {"403", "application/grpc", "9", "m", true, true, 9, "m"},
        {"20", NULL, NULL, NULL, true, true, 2, "the server answered with HTTP status 0"},
        {"2x0", NULL, NULL, NULL, true, true, 2, "the server answered with HTTP status 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const names[] = {":status", "content-type", "grpc-status", "grpc-message"};
        const char *const values[] = {rows[i].http, rows[i].content_type, rows[i].status,
                                      rows[i].message};
        pk_field fields[4];
        size_t count = 0;
        for (size_t j = 0; j < 4; j++)
            if (values[j])
                fields[count++] =
                    (pk_field){.name = slice_of(names[j]), .value = slice_of(values[j])};
        pk_head head = make_head(fields, count);
        pk_status status = {PK_OK, {NULL, 0}, {NULL, 0}};
        bool final = pk_protocol_grpc.response_head(&pk_protocol_grpc, &head, rows[i].ended,
                                                    &fixture.arena, &status);
        cr_expect_eq(final, rows[i].final, "row %zu", i);
        if (final) {
            cr_expect_eq((int) status.code, rows[i].code, "row %zu", i);
            cr_expect(slice_is(status.message, rows[i].text), "row %zu", i);
        }
    }
}

Test(protocol_grpc, a_responses_end_is_in_its_trailers, .init = set_up, .fini = tear_down)
{
    pk_field head_fields[] = {{.name = PK_SLICE(":status"), .value = PK_SLICE("200")}};
    pk_field trailer_fields[] = {{.name = PK_SLICE("grpc-status"), .value = PK_SLICE("7")},
                                 {.name = PK_SLICE("grpc-message"), .value = PK_SLICE("no")}};
    pk_head head = make_head(head_fields, 1), trailers = make_head(trailer_fields, 2);
    pk_body_reader reader;
    pk_status status;
    pk_body_reader_init(&reader, &pk_protocol_grpc, &fixture.marshalling, &fixture.arena, NULL, 100,
                        PK_BODY_RESPONSE);
    pk_protocol_grpc.response_end(&pk_protocol_grpc, &head, &trailers, &reader, &fixture.arena,
                                  &status);
    cr_expect_eq(status.code, PK_PERMISSION_DENIED);
    cr_expect(slice_is(status.message, "no"));
    pk_protocol_grpc.response_end(&pk_protocol_grpc, &head, NULL, &reader, &fixture.arena, &status);
    cr_expect_eq(status.code, PK_UNKNOWN);
    pk_body_reader_done(&reader);
}
