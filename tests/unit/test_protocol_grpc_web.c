/* marshalling/protocol_grpc_web.c: what PROTOCOL-WEB.md wants on the wire, binary and text. */
#include "core/base64.h"
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

#define FIELDS(reply) fields_text((reply).fields, (reply).field_count)
#define ABC                \
    "\0\0\0\0\x05\x0a\x03" \
    "abc"
#define OK_TRAILERS  \
    "\x80\0\0\0\x0f" \
    "grpc-status:0\r\n"
/* base64.b64encode of python3 of the two above, each on its own. */
#define ABC_TEXT "AAAAAAUKA2FiYw=="
#define OK_TRAILERS_TEXT "gAAAAA9ncnBjLXN0YXR1czowDQo="

static bool body_is(const pk_buffer *body, const char *bytes, size_t length)
{
    return body && pk_buffer_length(body) == length && memcmp(body->start, bytes, length) == 0;
}
#define BODY_IS(body, literal) body_is(body, literal, sizeof(literal) - 1)

Test(protocol_grpc_web, a_unary_reply_is_a_message_and_a_trailer_frame, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const pk_protocol *protocol;
        const char *head;
        bool text;
    } rows[] = {
        {&pk_protocol_grpc_web, "content-type: application/grpc-web\n", false},
        {&pk_protocol_grpc_web_proto, "content-type: application/grpc-web+proto\n", false},
        {&pk_protocol_grpc_web_text, "content-type: application/grpc-web-text\n", true},
        {&pk_protocol_grpc_web_text_proto, "content-type: application/grpc-web-text+proto\n", true},
    };
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_outcome outcome = {.type = bytes_value_type(), .message = &value};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_reply reply;
        cr_assert_eq(
            rows[i].protocol->reply_unary(rows[i].protocol, &fixture.encoding, &outcome, &reply),
            PK_OK);
        cr_expect_eq(reply.http_status, 200);
        cr_expect_str_eq(FIELDS(reply), rows[i].head);
        cr_expect_eq(reply.trailer_count, 0);
        if (rows[i].text)
            cr_expect(BODY_IS(reply.body, ABC_TEXT OK_TRAILERS_TEXT));
        else
            cr_expect(BODY_IS(reply.body, ABC OK_TRAILERS));
        pk_buffer_unref(reply.body);
    }
    cr_expect_eq(fixture.arena.total, 0);
}

Test(protocol_grpc_web, trailers_are_lower_case_lines_behind_the_message, .init = set_up,
     .fini = tear_down)
{
    const pk_protocol *web = &pk_protocol_grpc_web;
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_metadata headers, trailers;
    pk_metadata_init(&headers, &fixture.arena);
    pk_metadata_init(&trailers, &fixture.arena);
    cr_assert_eq(pk_metadata_add(&headers, "H", "1"), 0);
    cr_assert_eq(pk_metadata_add(&trailers, "Tee", "two words"), 0);
    cr_assert_eq(pk_metadata_add(&trailers, "empty", ""), 0);
    cr_assert_eq(pk_metadata_add_binary(&trailers, "x-bin", "\xab", 1), 0);
    pk_outcome outcome = {
        .type = bytes_value_type(), .message = &value, .headers = &headers, .trailers = &trailers};
    pk_reply reply;
    cr_assert_eq(web->reply_unary(web, &fixture.encoding, &outcome, &reply), PK_OK);
    cr_expect_str_eq(FIELDS(reply), "content-type: application/grpc-web\nh: 1\n");
    cr_expect(BODY_IS(reply.body, ABC "\x80\0\0\0\x30"
                                      "grpc-status:0\r\ntee:two words\r\nempty:\r\nx-bin:qw\r\n"));
    pk_buffer_unref(reply.body);
    /* No second copy of the status beside the frame, and no HTTP trailers. */
    cr_expect_eq(reply.trailer_count, 0);
    cr_expect_null(strstr(FIELDS(reply), "grpc-status"));
}

Test(protocol_grpc_web, an_error_is_once_in_the_headers_with_no_body, .init = set_up,
     .fini = tear_down)
{
    static const pk_protocol *const variants[] = {&pk_protocol_grpc_web,
                                                  &pk_protocol_grpc_web_text};
    pk_status status = PK_STATUS(PK_INVALID_ARGUMENT, "100%");
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    for (size_t i = 0; i < 2; i++) {
        pk_outcome outcome = {.type = bytes_value_type(), .message = &value, .status = &status};
        pk_reply reply;
        char want[200];
        sprintf(want, "content-type: %s\ngrpc-status: 3\ngrpc-message: 100%%25\n",
                (const char *) variants[i]->content_type.bytes);
        cr_assert_eq(variants[i]->reply_unary(variants[i], &fixture.encoding, &outcome, &reply),
                     PK_INVALID_ARGUMENT);
        cr_expect_str_eq(FIELDS(reply), want);
        cr_expect_null(reply.body);
        cr_expect_eq(reply.http_status, 200);
        outcome.http_status = 400; /* a body that was no base64 */
        variants[i]->reply_unary(variants[i], &fixture.encoding, &outcome, &reply);
        cr_expect_eq(reply.http_status, 400);
    }
}

Test(protocol_grpc_web, streamed_pieces_are_each_padded_on_their_own, .init = set_up,
     .fini = tear_down)
{
    static const pk_protocol *const variants[] = {&pk_protocol_grpc_web,
                                                  &pk_protocol_grpc_web_text};
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_status failed = PK_STATUS(PK_ABORTED, "no");
    for (size_t i = 0; i < 2; i++) {
        const pk_protocol *web = variants[i];
        pk_buffer *buffer;
        pk_status status;
        pk_protocol_end end;
        cr_assert_eq(
            web->message(web, &fixture.encoding, bytes_value_type(), &value, &buffer, &status), 0);
        cr_expect(i ? BODY_IS(buffer, ABC_TEXT) : BODY_IS(buffer, ABC));
        pk_buffer_unref(buffer);
        web->end(web, &fixture.encoding, NULL, NULL, &end);
        cr_expect(i ? BODY_IS(end.body, OK_TRAILERS_TEXT) : BODY_IS(end.body, OK_TRAILERS));
        cr_expect_eq(end.trailer_count, 0);
        pk_buffer_unref(end.body);
        web->end(web, &fixture.encoding, &failed, NULL, &end);
        cr_expect(i ? BODY_IS(end.body, "gAAAACFncnBjLXN0YXR1czoxMA0KZ3JwYy1tZXNzYWdlOm5vDQo=")
                    : BODY_IS(end.body, "\x80\0\0\0\x21"
                                        "grpc-status:10\r\ngrpc-message:no\r\n"));
        pk_buffer_unref(end.body);
        cr_assert_eq(web->message(web, &fixture.encoding, NULL, NULL, &buffer, &status), 0);
        cr_expect_null(buffer);
    }
}

Test(protocol_grpc_web, what_a_server_wrote_a_client_reads_at_every_split, .init = set_up,
     .fini = tear_down)
{
    static const pk_protocol *const variants[] = {&pk_protocol_grpc_web,
                                                  &pk_protocol_grpc_web_text};
    static const pk_compressor *const compressors[] = {NULL, &pk_compressor_gzip};
    char text[400];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    pk_metadata trailers;
    pk_metadata_init(&trailers, &fixture.arena);
    cr_assert_eq(pk_metadata_add(&trailers, "k", "v"), 0);
    for (size_t i = 0; i < 4; i++) {
        const pk_protocol *web = variants[i % 2];
        pk_outcome outcome = {.type = bytes_value_type(), .message = &value, .trailers = &trailers};
        pk_reply reply;
        fixture.encoding.compressor = compressors[i / 2];
        fixture.encoding.compress_min_bytes = 0;
        cr_assert_eq(web->reply_unary(web, &fixture.encoding, &outcome, &reply), PK_OK);
        cr_expect_eq(strstr(FIELDS(reply), "grpc-encoding: gzip\n") != NULL, i / 2);
        size_t length = pk_buffer_length(reply.body);
        for (size_t cut = 0; cut <= length; cut++) {
            pk_body_reader reader;
            pk_body_message message;
            size_t messages = 0;
            pk_body_reader_init(&reader, web, &fixture.marshalling, &fixture.arena,
                                compressors[i / 2], 1000, PK_BODY_ONE | PK_BODY_RESPONSE);
            const size_t cuts[] = {0, cut, length};
            for (size_t j = 0; j < 2; j++) {
                cr_assert_eq(pk_body_reader_feed(&reader, reply.body->start + cuts[j],
                                                 cuts[j + 1] - cuts[j], NULL),
                             0);
                int r;
                while ((r = pk_body_reader_next(&reader, &message)) > 0) {
                    cr_assert_eq(message.bytes.length, 403);
                    cr_assert_eq(memcmp(message.bytes.bytes, "\x0a\x90\x03xxx", 6), 0);
                    messages++;
                }
                cr_assert_eq(r, 0);
            }
            cr_assert_eq(messages, 1);
            cr_assert_eq(pk_body_reader_end(&reader), 0);
            pk_status status;
            pk_head head = make_head(NULL, 0);
            web->response_end(web, &head, NULL, &reader, &fixture.arena, &status);
            cr_assert_eq(status.code, PK_OK);
            cr_assert_eq(reader.trailers.count, 2);
            pk_body_reader_done(&reader);
            pk_arena_reset(&fixture.arena);
            pk_metadata_init(&trailers, &fixture.arena);
        }
        cr_assert_eq(pk_metadata_add(&trailers, "k", "v"), 0);
        pk_buffer_unref(reply.body);
    }
}

Test(protocol_grpc_web, a_request_asks_for_the_form_that_it_has, .init = set_up, .fini = tear_down)
{
    pk_request_target target = {.scheme = PK_SLICE("http"),
                                .authority = PK_SLICE("h"),
                                .path = PK_SLICE("/a.B/C"),
                                .timeout = UINT64_MAX};
    fixture.encoding.compressors = NULL;
    pk_fields head = pk_protocol_grpc_web_text.request_head(&pk_protocol_grpc_web_text,
                                                            &fixture.encoding, &target, NULL);
    cr_expect_str_eq(fields_text(head.items, head.count),
                     ":method: POST\n:scheme: http\n:path: /a.B/C\n:authority: h\n"
                     "accept: application/grpc-web-text\nx-grpc-web: 1\n"
                     "content-type: application/grpc-web-text\n");
}

Test(protocol_grpc_web, nothing_is_allocated_in_steady_state, .init = set_up, .fini = tear_down)
{
    static const pk_protocol *const variants[] = {&pk_protocol_grpc_web,
                                                  &pk_protocol_grpc_web_text};
    char text[3000];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    size_t before = 0;
    for (int round = 0; round < 20; round++) {
        if (round == 5)
            before = fixture.counts.requests;
        for (size_t i = 0; i < 4; i++) {
            const pk_protocol *web = variants[i % 2];
            pk_outcome outcome = {.type = bytes_value_type(), .message = &value};
            pk_reply reply;
            fixture.encoding.compressor = i / 2 ? &pk_compressor_gzip : NULL;
            cr_assert_eq(web->reply_unary(web, &fixture.encoding, &outcome, &reply), PK_OK);
            pk_buffer_unref(reply.body);
            pk_arena_reset(&fixture.arena);
        }
    }
    cr_expect_eq(fixture.counts.requests, before);
}

Test(protocol_grpc_web, each_allocation_may_fail)
{
    static const pk_protocol *const variants[] = {&pk_protocol_grpc_web,
                                                  &pk_protocol_grpc_web_text};
    char text[2000];
    memset(text, 'x', sizeof text);
    Google__Protobuf__BytesValue value = bytes_value(text, sizeof text);
    for (size_t way = 0; way < 2; way++) {
        const pk_protocol *web = variants[way];
        bool finished = false;
        for (size_t fail_at = 1; !finished; fail_at++) {
            fixture_init(&fixture);
            pk_metadata trailers;
            pk_metadata_init(&trailers, &fixture.arena);
            for (int i = 0; i < 30; i++)
                cr_assert_eq(pk_metadata_add(&trailers, "t", "1"), 0);
            pk_outcome outcome = {
                .type = bytes_value_type(), .message = &value, .trailers = &trailers};
            fixture.counts.fail_at = fixture.counts.requests + fail_at;
            fixture.counts.fail_after = true;
            pk_reply reply;
            pk_code code = web->reply_unary(web, &fixture.encoding, &outcome, &reply);
            cr_assert(code == PK_OK || code == PK_RESOURCE_EXHAUSTED);
            cr_expect_eq(code == PK_OK, reply.body != NULL);
            pk_buffer_unref(reply.body);
            pk_protocol_end end;
            web->end(web, &fixture.encoding, NULL, &trailers, &end);
            pk_buffer_unref(end.body);
            finished = fixture.counts.requests < fixture.counts.fail_at;
            cr_assert_eq(fixture_done(&fixture), 0);
            cr_assert_lt(fail_at, 100);
        }
    }
}
