/*
 * marshalling/triple_wrapper.c: both legs of a session write in place what they write slowly, and
 * the wire is that of dubbo's triple_wrapper.proto.
 */
#include "marshalling/triple_wrapper.h"
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

/* The bytes codec by the names of formats that travel in wrappers. */
static pk_codec hessian2, json, json_slowly;

static void name_codecs(void)
{
    hessian2 = json = json_slowly = pk_codec_bytes;
    hessian2.name = "hessian2";
    json.name = json_slowly.name = "json";
    json_slowly.prepend = json_slowly.append = NULL;
}

static pk_triple_session session_with(pk_triple_side side, const pk_codec *inner)
{
    pk_triple_session session;
    name_codecs();
    const pk_codec *const both[] = {inner, &hessian2};
    cr_assert_eq(pk_triple_session_init(&session, side, both, inner == &hessian2 ? 1 : 2), 0);
    return session;
}

static pk_buffer *marshal(const pk_codec *codec, const pk_message_type *type, const void *message,
                          int *ret_result)
{
    pk_buffer *buffer = NULL;
    bool compressed;
    pk_status status;
    fixture.encoding.codec = codec;
    *ret_result = pk_marshal(&fixture.encoding, type, message, NULL, (pk_slice){NULL, 0}, &buffer,
                             &compressed, &status);
    cr_expect(*ret_result == 0 || status.code == PK_INTERNAL);
    return buffer;
}

static bool buffer_is(const pk_buffer *buffer, const char *bytes, size_t length)
{
    return buffer && pk_buffer_length(buffer) == length &&
           memcmp(buffer->start, bytes, length) == 0;
}
#define IS(buffer, literal) buffer_is(buffer, literal, sizeof(literal) - 1)

/* Written by hand from the schema: field 1 the name, field 2 the bytes, field 3 the types. */
#define RESPONSE           \
    "\x0a\x04json\x12\x05" \
    "hello\x1a\x06"        \
    "string"
#define VOID_RESPONSE "\x0a\x04json"
#define REQUEST            \
    "\x0a\x04json\x12\x01" \
    "a\x12\x00\x12\x02"    \
    "bb\x1a\x01x\x1a\x01y\x1a\x01z"

Test(triple_wrapper, a_server_session_writes_both_layers_into_one_buffer, .init = set_up,
     .fini = tear_down)
{
    pk_slice hello = PK_SLICE("hello"), type = PK_SLICE("string"), empty = {NULL, 0};
    const void *items[] = {&hello, &hello}, *null[] = {NULL}, *nothing[] = {&empty};
    const pk_codec *const inner[] = {&json, &json_slowly};
    for (size_t i = 0; i < 4; i++) {
        pk_triple_session session = session_with(PK_TRIPLE_SERVER, inner[i % 2]);
        if (i / 2)
            session.codec.prepend = NULL; /* the slow path */
        const struct {
            pk_triple_values values;
            const char *bytes;
            size_t length;
        } rows[] = {
            {{items, &type, 1}, RESPONSE, sizeof RESPONSE - 1},
            {{NULL, NULL, 0}, VOID_RESPONSE, sizeof VOID_RESPONSE - 1},
            {{null, NULL, 1}, VOID_RESPONSE, sizeof VOID_RESPONSE - 1},
            {{nothing, NULL, 1}, VOID_RESPONSE, sizeof VOID_RESPONSE - 1},
        };
        for (size_t row = 0; row < 4; row++) {
            int r;
            pk_buffer *buffer = marshal(&session.codec, NULL, &rows[row].values, &r);
            cr_expect_eq(r, 0);
            cr_expect(buffer_is(buffer, rows[row].bytes, rows[row].length), "row %zu", row);
            pk_buffer_unref(buffer);
        }
        int r;
        pk_triple_values two = {items, NULL, 2};
        cr_expect_null(marshal(&session.codec, NULL, &two, &r));
        cr_expect_eq(r, PK_ERR_INVALID);

        /* The other leg: a proto message goes to the proto codec. */
        Google__Protobuf__BytesValue value = bytes_value("abc", 3);
        pk_buffer *buffer = marshal(&session.codec, bytes_value_type(), &value, &r);
        cr_expect(IS(buffer, "\x0a\x03"
                             "abc"));
        pk_buffer_unref(buffer);
        Google__Protobuf__StringValue wrong = GOOGLE__PROTOBUF__STRING_VALUE__INIT;
        cr_expect_null(marshal(&session.codec, bytes_value_type(), &wrong, &r));
        cr_expect_eq(r, PK_ERR_INVALID);
    }
}

Test(triple_wrapper, a_server_session_reads_requests_and_answers_in_their_codec, .init = set_up,
     .fini = tear_down)
{
    pk_triple_session session = session_with(PK_TRIPLE_SERVER, &hessian2);
    const pk_codec *const inner[] = {&hessian2, &json};
    cr_assert_eq(pk_triple_session_init(&session, PK_TRIPLE_SERVER, inner, 2), 0);
    const void *message;
    pk_status status;
    cr_assert_eq(pk_unmarshal(&session.codec, NULL, NULL, PK_SLICE(REQUEST), &fixture.arena,
                              &message, &status),
                 0);
    const pk_triple_values *values = message;
    cr_assert_eq(values->count, 3);
    cr_expect(slice_is(*(const pk_slice *) values->items[0], "a"));
    cr_expect_null(values->items[1]);
    cr_expect(slice_is(*(const pk_slice *) values->items[2], "bb"));
    cr_expect(slice_is(values->types[2], "z"));
    cr_expect_eq(session.chosen, &json);
    int r;
    pk_triple_values reply = {values->items, NULL, 1};
    pk_buffer *buffer = marshal(&session.codec, NULL, &reply, &r);
    cr_expect(IS(buffer, "\x0a\x04json\x12\x01"
                         "a"));
    pk_buffer_unref(buffer);
    /* A proto message is read by the proto codec. */
    cr_assert_eq(pk_unmarshal(&session.codec, NULL, bytes_value_type(), PK_SLICE("\x0a\x01z"),
                              &fixture.arena, &message, &status),
                 0);
    cr_expect_eq(((const Google__Protobuf__BytesValue *) message)->value.data[0], 'z');
}

Test(triple_wrapper, a_client_session_is_the_reverse, .init = set_up, .fini = tear_down)
{
    pk_triple_session session = session_with(PK_TRIPLE_CLIENT, &json);
    pk_slice a = PK_SLICE("a"), b = PK_SLICE("bb");
    const pk_slice types[] = {PK_SLICE("x"), PK_SLICE("y"), PK_SLICE("z")};
    const void *items[] = {&a, NULL, &b};
    pk_triple_values values = {items, types, 3};
    int r;
    pk_buffer *buffer = marshal(&session.codec, NULL, &values, &r);
    cr_expect(IS(buffer, REQUEST));
    pk_buffer_unref(buffer);
    const void *message;
    pk_status status;
    cr_assert_eq(pk_unmarshal(&session.codec, NULL, NULL, PK_SLICE(RESPONSE), &fixture.arena,
                              &message, &status),
                 0);
    const pk_triple_values *back = message;
    cr_assert_eq(back->count, 1);
    cr_expect(slice_is(*(const pk_slice *) back->items[0], "hello"));
    cr_expect(slice_is(back->types[0], "string"));
    cr_assert_eq(pk_unmarshal(&session.codec, NULL, NULL, PK_SLICE(VOID_RESPONSE), &fixture.arena,
                              &message, &status),
                 0);
    cr_expect_eq(((const pk_triple_values *) message)->count, 0);
}

Test(triple_wrapper, names_decide_which_codec_reads, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *bytes;
        size_t length;
        int result;
    } rows[] = {
        {"\x12\x01"
         "a",
         3, 0}, /* no name: Hessian 2 */
        {"\x0a\x08hessian4\x12\x01"
         "a",
         13, 0}, /* its old name */
        {"\x0a\x08hessian2\x12\x01"
         "a",
         13, 0},
        {"\x0a\x07msgpack\x12\x01"
         "a",
         12, PK_ERR_MALFORMED},
        {"\x0a\x04jso", 5, PK_ERR_MALFORMED},
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, PK_ERR_MALFORMED},
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, PK_ERR_MALFORMED},
        /* A length of over five bytes, whatever its value. */
        {"\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x04", 11, PK_ERR_MALFORMED},
        {"\x02", 1, PK_ERR_MALFORMED},
        {"\x13", 1, PK_ERR_MALFORMED},
        {"\x20\x01\x29"
         "12345678\x35"
         "1234\x12\x01"
         "a",
         19, 0}, /* unknown fields */
        {"\x29"
         "1234567",
         8, PK_ERR_MALFORMED},
        {"\x12\x01"
         "a\x1a\x01x\x1a\x01y",
         9, PK_ERR_MALFORMED}, /* two types, one value */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_triple_session session = session_with(PK_TRIPLE_SERVER, &json);
        const void *message = NULL;
        pk_status status;
        uint8_t *exact = malloc(rows[i].length);
        cr_assert_not_null(exact);
        memcpy(exact, rows[i].bytes, rows[i].length);
        cr_expect_eq(pk_unmarshal(&session.codec, NULL, NULL, (pk_slice){exact, rows[i].length},
                                  &fixture.arena, &message, &status),
                     rows[i].result, "row %zu", i);
        cr_expect_eq(message != NULL, rows[i].result == 0);
        free(exact);
    }
    pk_triple_session session;
    cr_expect_eq(pk_triple_session_init(&session, PK_TRIPLE_SERVER, NULL, 0), PK_ERR_INVALID);
}

/* Reads a wrapper from a block of exactly its size; there is no checksum, so it may be another. */
static void read_anything(pk_triple_side side, const void *bytes, size_t length)
{
    pk_triple_session session = session_with(side, &json);
    const void *message = NULL;
    pk_status status = {.code = PK_OK};
    uint8_t *exact = malloc(length + (length == 0));
    cr_assert_not_null(exact);
    memcpy(exact, bytes, length);
    int r = pk_unmarshal(&session.codec, NULL, NULL, (pk_slice){exact, length}, &fixture.arena,
                         &message, &status);
    free(exact);
    cr_expect(r == 0 || r == PK_ERR_MALFORMED || r == PK_ERR_LIMIT);
    cr_expect_eq(message != NULL, r == 0);
    cr_expect_eq(status.code == PK_OK, r == 0);
}

Test(triple_wrapper, every_truncation_and_flip_is_an_error_or_another_wrapper, .init = set_up,
     .fini = tear_down)
{
    static const char *const samples[] = {REQUEST, RESPONSE};
    static const size_t lengths[] = {sizeof REQUEST - 1, sizeof RESPONSE - 1};
    for (size_t i = 0; i < 4; i++) {
        size_t length = lengths[i / 2];
        for (size_t cut = 0; cut < length; cut++)
            read_anything((pk_triple_side) (i % 2), samples[i / 2], cut);
        for (size_t bit = 0; bit < 8 * length; bit++) {
            uint8_t flipped[64];
            memcpy(flipped, samples[i / 2], length);
            flipped[bit / 8] ^= (uint8_t) (1u << bit % 8);
            read_anything((pk_triple_side) (i % 2), flipped, length);
        }
    }
}

Test(triple_wrapper, nothing_is_allocated_in_steady_state, .init = set_up, .fini = tear_down)
{
    pk_slice hello = PK_SLICE("hello"), type = PK_SLICE("string");
    const void *items[] = {&hello};
    pk_triple_values values = {items, &type, 1};
    pk_triple_session session = session_with(PK_TRIPLE_SERVER, &json);
    size_t before = 0;
    for (int round = 0; round < 10; round++) {
        if (round == 2)
            before = fixture.counts.requests;
        int r;
        pk_buffer *buffer = marshal(&session.codec, NULL, &values, &r);
        cr_expect(IS(buffer, RESPONSE));
        pk_buffer_unref(buffer);
    }
    cr_expect_eq(fixture.counts.requests, before);
}
