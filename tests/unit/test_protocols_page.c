/* docs/protocols.md: its example of a protocol compiles as it stands and does what it says. */
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

/* What the page adds to marshalling/protocol.h, and its file. */
#define PK_PROTOCOLS_TAIL 4u
extern const pk_protocol pk_protocol_tail;
#include "protocol_tail_example.h"

Test(protocols_page, the_example_replies_with_its_status_as_the_last_line)
{
    marshalling_fixture fixture;
    fixture_init(&fixture);
    const pk_protocol *tail = &pk_protocol_tail;
    Google__Protobuf__BytesValue value = bytes_value("abc", 3);
    pk_outcome outcome = {.type = bytes_value_type(), .message = &value};
    pk_reply reply;
    cr_expect_eq(tail->reply_unary(tail, &fixture.encoding, &outcome, &reply), PK_OK);
    cr_expect_str_eq(fields_text(reply.fields, reply.field_count),
                     "content-type: application/tail\n");
    cr_assert_eq(pk_buffer_length(reply.body), 20);
    cr_expect_eq(memcmp(reply.body->start,
                        "\0\0\0\0\x05\x0a\x03"
                        "abcstatus: 0\n",
                        20),
                 0);
    pk_buffer_unref(reply.body);
    cr_expect_eq(fixture.arena.total, 0, "nothing was built");

    pk_status status = PK_STATUS(PK_NOT_FOUND, "no such book");
    pk_protocol_end end;
    tail->end(tail, &fixture.encoding, &status, NULL, &end);
    cr_expect(slice_is((pk_slice){end.body->start, pk_buffer_length(end.body)},
                       "status: 5 no such book\n"));
    pk_buffer_unref(end.body);
    outcome.status = &status;
    cr_expect_eq(tail->reply_unary(tail, &fixture.encoding, &outcome, &reply), PK_NOT_FOUND);
    cr_expect_null(reply.body);
    cr_expect_eq(fixture_done(&fixture), 0);
}
