/*
 * Compression as a server's user meets it: who decides whether a reply is compressed, requests in
 * each encoding, a compressor of one's own, and every protocol variant through the router.
 */
#include <pekoe/pekoe.h>
#include <pekoe/testing.h>

#include "core/base64.h"
#include "core/loop.h"
#include "helloworld.pekoe.h"

#include <criterion/criterion.h>
#include <zlib.h>

#include <string.h>

/* ---- The service: replies with what it was told, decided by the first letter ---- */

static pk_future say_hello(void *self, pk_call *call, const Helloworld__HelloRequest *request)
{
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = request->name;
    if (request->name[0] == 'A')
        pk_call_set_compress_min_bytes(call, 0);
    if (request->name[0] == 'N')
        pk_call_set_compress_min_bytes(call, SIZE_MAX);
    return helloworld_hello_reply_done(reply);
}

static const helloworld_greeter_impl greeter = {.say_hello = say_hello};

static pk_loop *loop;
static pk_router *router;

#define PATH "/helloworld.Greeter/SayHello"

static void start(const pk_router_opts *opts)
{
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, opts), 0);
    cr_assert_eq(helloworld_greeter_route(router, &greeter, NULL), 0);
}

static void stop(void)
{
    router = pk_router_free(router);
    cr_assert_eq(loop->buffers.lent, 0);
    loop = pk_loop_free(loop);
}

/* A HelloRequest of `length` (at least 128) times the letter, or a HelloReply: the same bytes. */
static size_t message_of(uint8_t *out, char letter, size_t length)
{
    out[0] = 0x0a;
    out[1] = (uint8_t) (length | 0x80);
    out[2] = (uint8_t) (length >> 7);
    memset(out + 3, letter, length);
    return length + 3;
}

static size_t frame_of(uint8_t *out, uint8_t flags, const uint8_t *payload, size_t length)
{
    const uint8_t prefix[] = {flags, 0, 0, (uint8_t) (length >> 8), (uint8_t) length};
    memcpy(out, prefix, 5);
    memcpy(out + 5, payload, length);
    return 5 + length;
}

/* zlib's own compressor: a window of 15 is the zlib form, 31 gzip's, -15 the bare one. */
static size_t deflate_with(int window, uint8_t *out, size_t room, const uint8_t *bytes,
                           size_t length)
{
    z_stream stream = {.next_in = (uint8_t *) (uintptr_t) bytes,
                       .avail_in = (unsigned) length,
                       .next_out = out,
                       .avail_out = (unsigned) room};
    cr_assert_eq(deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return stream.total_out;
}

static size_t inflate_with(int window, uint8_t *out, size_t room, pk_slice bytes)
{
    z_stream stream = {.next_in = (uint8_t *) (uintptr_t) bytes.bytes,
                       .avail_in = (unsigned) bytes.length,
                       .next_out = out,
                       .avail_out = (unsigned) room};
    cr_assert_eq(inflateInit2(&stream, window), Z_OK);
    cr_assert_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    inflateEnd(&stream);
    return stream.total_out;
}

static pk_test_exchange *call(const char *type, const char *const *fields, const void *body,
                              size_t length)
{
    pk_test_exchange *exchange = pk_test_exchange_new(
        router, &(pk_test_request){.path = PATH, .content_type = type, .fields = fields});
    cr_assert_not_null(exchange);
    pk_test_exchange_send(exchange, body, length);
    pk_test_exchange_end(exchange);
    cr_assert(pk_test_exchange_finished(exchange));
    return exchange;
}

/* Whether the reply to `length` letters came compressed with `encoding`. */
static bool replies_compressed(char letter, size_t length, const char *accept, const char *encoding)
{
    uint8_t message[4096], body[4100], plain[4096];
    const char *const fields[] = {"grpc-accept-encoding", accept, NULL};
    size_t size = message_of(message, letter, length);
    pk_test_exchange *exchange =
        call("application/grpc", accept ? fields : NULL, body, frame_of(body, 0, message, size));
    pk_slice reply = pk_test_exchange_body(exchange);
    cr_assert_str_eq(pk_test_exchange_field(exchange, "grpc-status"), "0");
    cr_assert_gt(reply.length, 5);
    bool compressed = reply.bytes[0] == 1;
    const char *named = pk_test_exchange_field(exchange, "grpc-encoding");
    cr_assert_eq(compressed, named != NULL);
    pk_slice payload = {reply.bytes + 5, reply.length - 5};
    if (compressed) {
        cr_assert_str_eq(named, encoding);
        int window = strcmp(named, "gzip") == 0 ? 31 : 15;
        size_t got = inflate_with(window, plain, sizeof plain, payload);
        payload = (pk_slice){plain, got};
    }
    cr_assert_eq(payload.length, size);
    cr_assert_eq(memcmp(payload.bytes, message, size), 0);
    pk_test_exchange_free(exchange);
    return compressed;
}

Test(router_compression, the_default_is_gzip_from_1024_bytes_up_where_the_client_accepts_it)
{
    start(NULL);
    cr_expect(replies_compressed('x', 1021, "gzip", "gzip"), "1,024 bytes with the field's key");
    cr_expect_not(replies_compressed('x', 1020, "gzip", NULL));
    cr_expect_not(replies_compressed('x', 3000, NULL, NULL));
    cr_expect_not(replies_compressed('x', 3000, "identity", NULL));
    cr_expect_not(replies_compressed('x', 3000, "br", NULL));
    cr_expect(replies_compressed('x', 3000, "identity, deflate", "deflate"));
    cr_expect(replies_compressed('x', 3000, "identity,deflate,gzip", "gzip"));
    stop();
}

Test(router_compression, server_method_and_call_each_may_decide)
{
    start(PK_ROUTER_OPTS(.compress_min_bytes = 2000));
    cr_expect_not(replies_compressed('x', 1500, "gzip", NULL));
    cr_expect(replies_compressed('x', 2000, "gzip", "gzip"));
    cr_expect(replies_compressed('A', 200, "gzip", "gzip"), "the call says all");
    cr_expect_not(replies_compressed('N', 3000, "gzip", NULL), "the call says none");
    cr_expect_eq(pk_router_set_compress_min_bytes(router, "/no/Such", 1), PK_ERR_INVALID);
    cr_assert_eq(pk_router_set_compress_min_bytes(router, PATH, 503), 0);
    cr_expect(replies_compressed('x', 500, "gzip", "gzip"));
    cr_expect_not(replies_compressed('x', 499, "gzip", NULL));
    cr_expect_not(replies_compressed('N', 3000, "gzip", NULL));
    cr_assert_eq(pk_router_set_compress_min_bytes(router, PATH, SIZE_MAX), 0);
    cr_expect_not(replies_compressed('x', 3000, "gzip", NULL));
    cr_assert_eq(pk_router_set_compress_min_bytes(router, PATH, 0), 0);
    cr_expect(replies_compressed('x', 200, "gzip", "gzip"));
    stop();
    start(PK_ROUTER_OPTS(.compress_all = true));
    cr_expect(replies_compressed('x', 200, "gzip", "gzip"));
    stop();
}

/* Rows of grpc-node's issue 2767 and of the collected cases on corrupt gzip. */
Test(router_compression, requests_are_read_in_each_encoding_or_refused)
{
    uint8_t message[1024], gzip[1024], zlib[1024], bare[1024], body[2048];
    size_t size = message_of(message, 'x', 500);
    size_t gzip_size = deflate_with(31, gzip, sizeof gzip, message, size);
    size_t zlib_size = deflate_with(15, zlib, sizeof zlib, message, size);
    size_t bare_size = deflate_with(-15, bare, sizeof bare, message, size);
    const struct {
        const char *encoding;
        uint8_t flags;
        const uint8_t *payload;
        size_t length;
        const char *status, *message;
    } rows[] = {
        {"gzip", 1, gzip, gzip_size, "0", NULL},
        {"deflate", 1, zlib, zlib_size, "0", NULL},
        {"gzip", 0, message, size, "0", NULL},
        {"identity", 0, message, size, "0", NULL},
        {"foo", 0, message, size, "12", "identity,gzip,deflate"},
        {"foo", 1, message, size, "12", "identity,gzip,deflate"},
        {"identity", 1, gzip, gzip_size, "13", "compressed flag"},
        {NULL, 1, gzip, gzip_size, "13", "compressed flag"},
        {"deflate", 1, bare, bare_size, "13", "deflate"},
        {"deflate", 1, gzip, gzip_size, "13", "deflate"},
        {"gzip", 1, gzip, gzip_size - 8, "13", "gzip"},
        {"gzip", 1, gzip, 0, "13", "gzip"},
    };
    start(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const fields[] = {"grpc-encoding", rows[i].encoding, NULL};
        pk_test_exchange *exchange =
            call("application/grpc", rows[i].encoding ? fields : NULL, body,
                 frame_of(body, rows[i].flags, rows[i].payload, rows[i].length));
        cr_expect_str_eq(pk_test_exchange_field(exchange, "grpc-status"), rows[i].status, "row %zu",
                         i);
        const char *text = pk_test_exchange_field(exchange, "grpc-message");
        if (rows[i].message)
            cr_expect(text && strstr(text, rows[i].message), "row %zu: %s", i, text);
        const char *known = pk_test_exchange_field(exchange, "grpc-accept-encoding");
        /* Told where the encoding is not known, and to clients that use one that is. */
        cr_expect_eq(known != NULL, rows[i].encoding && strcmp(rows[i].encoding, "identity") != 0,
                     "row %zu", i);
        if (known)
            cr_expect_str_eq(known, "identity,gzip,deflate");
        cr_expect_not(pk_test_exchange_was_reset(exchange));
        pk_test_exchange_free(exchange);
    }
    stop();
}

/* ---- A compressor of the user's: upside down, and one byte less for a reply of 'x' ---- */

static int put_all(pk_slice bytes, size_t from, pk_compressor_output *output)
{
    for (size_t i = from; i < bytes.length; i++) {
        size_t room;
        uint8_t *at = pk_compressor_output_room(output, &room);
        if (!at)
            return pk_compressor_output_error(output);
        *at = (uint8_t) ~bytes.bytes[i];
        pk_compressor_output_add(output, 1);
    }
    return 0;
}

static int compress_inverted(void *state, pk_slice message, pk_compressor_output *output)
{
    return put_all(message, 1, output); /* the key of field 1 is known */
}

static int decompress_inverted(void *state, pk_slice piece, pk_compressor_output *output)
{
    const uint8_t key = (uint8_t) ~0x0a;
    int r = put_all((pk_slice){&key, 1}, 0, output);
    return r < 0 ? r : put_all(piece, 0, output);
}

static const pk_compressor inverted = {
    .name = "inverted", .compress = compress_inverted, .decompress = decompress_inverted};

Test(router_compression, a_program_may_bring_a_compressor_and_prefer_it)
{
    const pk_compressor *const list[] = {&inverted, &pk_compressor_deflate};
    const pk_compressor *const twice[] = {&inverted, &inverted};
    uint8_t message[4096], body[4100];
    size_t size = message_of(message, 'x', 2000);
    start(NULL);
    cr_expect(replies_compressed('x', 2000, "gzip", "gzip"));
    cr_expect_eq(pk_router_set_compressors(router, twice, 2), PK_ERR_EXISTS);
    cr_expect(replies_compressed('x', 2000, "gzip", "gzip"), "nothing has changed");
    cr_assert_eq(pk_router_set_compressors(router, list, 2), 0);
    cr_expect_not(replies_compressed('x', 2000, "gzip", NULL));
    cr_expect(replies_compressed('x', 2000, "gzip,deflate", "deflate"));
    const char *const fields[] = {"grpc-accept-encoding", "deflate, inverted", "grpc-encoding",
                                  "inverted", NULL};
    for (size_t i = 1; i < size; i++)
        message[i - 1] = (uint8_t) ~message[i];
    pk_test_exchange *exchange =
        call("application/grpc", fields, body, frame_of(body, 1, message, size - 1));
    cr_expect_str_eq(pk_test_exchange_field(exchange, "grpc-status"), "0");
    cr_expect_str_eq(pk_test_exchange_field(exchange, "grpc-encoding"), "inverted");
    pk_slice reply = pk_test_exchange_body(exchange);
    cr_assert_eq(reply.length, 5 + size - 1);
    cr_expect_eq(reply.bytes[0], 1);
    cr_expect_eq(memcmp(reply.bytes + 5, message, size - 1), 0);
    pk_test_exchange_free(exchange);
    cr_assert_eq(pk_router_set_compressors(router, NULL, 0), 0);
    cr_expect_not(replies_compressed('x', 2000, "gzip,deflate,inverted", NULL));
    stop();
}

/* ---- gRPC-Web where its switch is on ---- */

#define HELLO "\0\0\0\0\x07\x0a\x05hello"
#define HELLO_TEXT "AAAAAAcKBWhlbGxv"
#define TRAILERS     \
    "\x80\0\0\0\x0f" \
    "grpc-status:0\r\n"
#define TRAILERS_TEXT "gAAAAA9ncnBjLXN0YXR1czowDQo="

Test(router_compression, web_protocols_are_served_where_they_are_switched_on)
{
    static const struct {
        const char *type, *accept;
        const char *body;
        size_t length;
        const char *reply_type;
        const char *reply;
        size_t reply_length;
    } rows[] = {
        {"application/grpc-web", NULL, HELLO, 12, "application/grpc-web", HELLO TRAILERS, 32},
        {"application/grpc-web+proto", NULL, HELLO, 12, "application/grpc-web+proto",
         HELLO TRAILERS, 32},
        {"application/grpc-web-text", NULL, HELLO_TEXT, 16, "application/grpc-web-text",
         HELLO_TEXT TRAILERS_TEXT, 44},
        {"application/grpc-web", "application/grpc-web-text", HELLO, 12,
         "application/grpc-web-text", HELLO_TEXT TRAILERS_TEXT, 44},
        {"application/grpc-web-text", "application/grpc-web", HELLO_TEXT, 16,
         "application/grpc-web", HELLO TRAILERS, 32},
        {"Application/gRPC-Web-Text; charset=utf-8", "*/*", HELLO_TEXT, 16,
         "application/grpc-web-text", HELLO_TEXT TRAILERS_TEXT, 44},
    };
    for (int on = 0; on < 2; on++) {
        start(PK_ROUTER_OPTS(.grpc_web = on));
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const char *const fields[] = {"accept", rows[i].accept, NULL};
            pk_test_exchange *exchange =
                call(rows[i].type, rows[i].accept ? fields : NULL, rows[i].body, rows[i].length);
            cr_expect_eq(pk_test_exchange_http_status(exchange), on ? 200 : 415);
            if (on) {
                pk_slice reply = pk_test_exchange_body(exchange);
                cr_expect_str_eq(pk_test_exchange_field(exchange, "content-type"),
                                 rows[i].reply_type);
                cr_expect_null(pk_test_exchange_field(exchange, "grpc-status"));
                cr_expect_eq(reply.length, rows[i].reply_length, "row %zu", i);
                cr_expect_eq(memcmp(reply.bytes, rows[i].reply, reply.length), 0, "row %zu", i);
            }
            pk_test_exchange_free(exchange);
        }
        stop();
    }
}

Test(router_compression, a_web_call_that_fails_has_its_status_in_the_headers)
{
    start(PK_ROUTER_OPTS(.grpc_web = true));
    static const struct {
        const char *type, *body;
        size_t length;
        unsigned http_status;
        const char *status;
    } rows[] = {
        {"application/grpc-web", "", 0, 200, "12"},
        {"application/grpc-web", "\x80\0\0\0\0", 5, 200, "13"},
        {"application/grpc-web-text", "AAAAAAA", 7, 400, "13"},
        {"application/grpc-web-text", "AAAA AAA=", 9, 400, "13"},
        {"application/grpc-web-text", "AAAAAAE=", 8, 200, "13"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_test_exchange *exchange = call(rows[i].type, NULL, rows[i].body, rows[i].length);
        cr_expect_eq(pk_test_exchange_http_status(exchange), rows[i].http_status, "row %zu", i);
        cr_expect_str_eq(pk_test_exchange_field(exchange, "grpc-status"), rows[i].status);
        cr_expect_str_eq(pk_test_exchange_field(exchange, "content-type"), rows[i].type);
        cr_expect_eq(pk_test_exchange_body(exchange).length, 0);
        pk_test_exchange_free(exchange);
    }
    stop();
}
