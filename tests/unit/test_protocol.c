/* marshalling/protocol.c: the choice by content-type, and replies of last resort. */
#include "marshalling/protocol.h"
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

#define ALL (PK_PROTOCOLS_GRPC | PK_PROTOCOLS_GRPC_WEB)

/* Rows of the conformance notes and of grpc-rust's issue 1720. */
Test(protocol, is_chosen_by_content_type_without_case_and_parameters)
{
    static const struct {
        const char *content_type;
        const pk_protocol *grpc, *all;
    } rows[] = {
        {"application/grpc", &pk_protocol_grpc, &pk_protocol_grpc},
        {"application/grpc+proto", &pk_protocol_grpc_proto, &pk_protocol_grpc_proto},
        {"APPLICATION/GRPC", &pk_protocol_grpc, &pk_protocol_grpc},
        {"Application/Grpc+Proto", &pk_protocol_grpc_proto, &pk_protocol_grpc_proto},
        {"application/grpc; charset=utf-8", &pk_protocol_grpc, &pk_protocol_grpc},
        {"application/grpc;", &pk_protocol_grpc, &pk_protocol_grpc},
        {"application/grpc+proto;a=b", &pk_protocol_grpc_proto, &pk_protocol_grpc_proto},
        {" application/grpc \t; x", &pk_protocol_grpc, &pk_protocol_grpc},
        {"application/grpc-web", NULL, &pk_protocol_grpc_web},
        {"application/grpc-web+proto", NULL, &pk_protocol_grpc_web_proto},
        {"application/grpc-web-text", NULL, &pk_protocol_grpc_web_text},
        {"application/grpc-web-text+proto", NULL, &pk_protocol_grpc_web_text_proto},
        {"application/grpc-web-TEXT; x=y", NULL, &pk_protocol_grpc_web_text},
        {"", NULL, NULL},
        {"text/plain", NULL, NULL},
        {"application/json", NULL, NULL},
        {"application/grpcfoo", NULL, NULL},
        {"application/grp", NULL, NULL},
        {"application/grpc+json", NULL, NULL},
        {"application/grpc-", NULL, NULL},
        {"application/grpc application/grpc", NULL, NULL},
        {"application/a-subtype-that-is-longer-than-anything-that-anybody-ever-registered", NULL,
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_slice type = slice_of(rows[i].content_type);
        cr_expect_eq(pk_protocol_for(type, 0), rows[i].grpc, "%s", rows[i].content_type);
        cr_expect_eq(pk_protocol_for(type, PK_PROTOCOLS_GRPC), rows[i].grpc);
        cr_expect_eq(pk_protocol_for(type, ALL), rows[i].all, "%s", rows[i].content_type);
    }
    cr_expect_null(pk_protocol_for((pk_slice){NULL, 0}, ALL));
}

Test(protocol, accept_chooses_the_form_of_a_web_reply)
{
    static const struct {
        const pk_protocol *asked;
        const char *accept;
        const pk_protocol *replied;
    } rows[] = {
        {&pk_protocol_grpc, "application/grpc-web-text", &pk_protocol_grpc},
        {&pk_protocol_grpc_web, "", &pk_protocol_grpc_web},
        {&pk_protocol_grpc_web, "*/*", &pk_protocol_grpc_web},
        {&pk_protocol_grpc_web_text, "", &pk_protocol_grpc_web_text},
        {&pk_protocol_grpc_web_text, "*/*", &pk_protocol_grpc_web_text},
        {&pk_protocol_grpc_web_text, "application/grpc-web-text", &pk_protocol_grpc_web_text},
        {&pk_protocol_grpc_web, "application/grpc-web-text", &pk_protocol_grpc_web_text},
        {&pk_protocol_grpc_web_proto, "text/html, application/grpc-web-text+proto;q=0.5",
         &pk_protocol_grpc_web_text_proto},
        {&pk_protocol_grpc_web_text_proto, "application/grpc-web+proto",
         &pk_protocol_grpc_web_proto},
        {&pk_protocol_grpc_web_text, "application/grpc", &pk_protocol_grpc_web_text},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(pk_protocol_of_reply(rows[i].asked, slice_of(rows[i].accept)), rows[i].replied,
                     "row %zu", i);
}

Test(protocol, a_response_is_read_in_the_form_that_its_content_type_names)
{
    static const struct {
        const pk_protocol *asked;
        const char *content_type;
        const pk_protocol *read;
    } rows[] = {
        {&pk_protocol_grpc, "application/grpc", &pk_protocol_grpc},
        {&pk_protocol_grpc, "application/grpc+proto", &pk_protocol_grpc_proto},
        {&pk_protocol_grpc, "application/grpc-web", NULL},
        {&pk_protocol_grpc, "application/grpc+json", NULL},
        {&pk_protocol_grpc, "text/html", NULL},
        {&pk_protocol_grpc_web_text, "application/grpc-web", &pk_protocol_grpc_web},
        {&pk_protocol_grpc_web_text, "application/grpc", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_field fields[] = {
            {.name = PK_SLICE("content-type"), .value = slice_of(rows[i].content_type)}};
        pk_head head = make_head(fields, 1);
        cr_expect_eq(pk_protocol_of_response(rows[i].asked, &head), rows[i].read, "row %zu", i);
    }
    pk_head none = make_head(NULL, 0);
    cr_expect_null(pk_protocol_of_response(&pk_protocol_grpc, &none));
}

Test(protocol, replies_of_last_resort_need_next_to_nothing)
{
    marshalling_fixture fixture;
    pk_reply reply;
    fixture_init(&fixture);
    pk_protocol_reply_unsupported(&fixture.marshalling, &reply);
    cr_expect_eq(reply.http_status, 415);
    cr_assert_not_null(reply.body);
    cr_expect_gt(pk_buffer_length(reply.body), 0);
    cr_expect_eq(reply.trailer_count, 0);
    pk_buffer_unref(reply.body);
    pk_buffer_pool_done(&fixture.pool);

    fixture.counts.fail_at = fixture.counts.requests + 1;
    fixture.counts.fail_after = true;
    pk_memory_done(&fixture.memory);
    cr_assert_eq(pk_memory_init(&fixture.memory, COUNTING_ALLOCATOR(&fixture.counts)), 0);
    pk_protocol_reply_unsupported(&fixture.marshalling, &reply);
    cr_expect_eq(reply.http_status, 415);
    cr_expect_null(reply.body);
    pk_protocol_reply_no_memory(&pk_protocol_grpc_web_text_proto, &reply);
    cr_expect_eq(reply.http_status, 200);
    cr_expect_str_eq(fields_text(reply.fields, reply.field_count),
                     "content-type: application/grpc-web-text+proto\ngrpc-status: 8\n");
    cr_expect_eq(fixture_done(&fixture), 0);
}
