/*
 * Requests by RFC 9112 and RFC 9110. Each is read whole, byte by byte and cut at every place, which
 * must make no difference.
 */
#include "../support/counting_allocator.h"
#include "../support/http1_reading.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#define HEADER_BYTES 65536u

static void expect_same(const struct reading *left, const struct reading *right, const char *what)
{
    cr_assert_eq(left->end, right->end, "%.60s", what);
    cr_assert_eq(left->status, right->status, "%.60s", what);
    if (left->end == READING_REFUSED) {
        cr_assert_str_eq(left->why, right->why, "%.60s", what);
        return;
    }
    cr_assert_eq(left->eaten, right->eaten, "%.60s", what);
    cr_assert_eq(left->length, right->length, "%.60s", what);
    cr_assert_arr_eq(left->text, right->text, left->length, "%.60s", what);
}

/* The request read whole, after it was read in every other way. */
static struct reading every_way(const char *request, size_t length)
{
    struct reading whole, other;
    const uint8_t *bytes = (const uint8_t *) request;
    reading_of(&whole, bytes, length, length, HEADER_BYTES);
    reading_of(&other, bytes, length, 1, HEADER_BYTES);
    expect_same(&whole, &other, request);
    reading_done(&other);
    for (size_t cut = 0; cut <= length; cut++) {
        reading_of_halves(&other, bytes, length, cut, HEADER_BYTES);
        expect_same(&whole, &other, request);
        reading_done(&other);
    }
    return whole;
}

#define GET_LINE "GET / HTTP/1.1\r\n"
#define POST_LINE "POST /p HTTP/1.1\r\nHost: h\r\n"
#define CHUNKED POST_LINE "Transfer-Encoding: chunked\r\n\r\n"

Test(http1_parser, requests_are_read)
{
    static const struct {
        const char *request, *text;
    } cases[] = {
        /* RFC 9112 section 2.1, example */
        {"GET /hello.txt HTTP/1.1\r\nUser-Agent: curl/7.64.1\r\nHost: www.example.com\r\n"
         "Accept-Language: en, mi\r\n\r\n",
         "GET /hello.txt 1\nuser-agent: curl/7.64.1\nhost: www.example.com\n"
         "accept-language: en, mi\n\n"},
        /* section 2.2: an empty line in front */
        {"\r\n" GET_LINE "Host: h\r\n\r\n", "GET / 1\nhost: h\n\n"},
        /* section 3.2 */
        {"GET /where?q=now HTTP/1.1\r\nHost: www.example.org:8001\r\n\r\n",
         "GET /where?q=now 1\nhost: www.example.org:8001\n\n"},
        {"OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "OPTIONS * 1\nhost: [::1]:80\n\n"},
        {GET_LINE "Host:\r\n\r\n", "GET / 1\nhost: \n\n"},
        {"GET / HTTP/1.0\r\n\r\n", "GET / 0\n\n"},
        {"get / HTTP/1.1\r\nHost: h\r\n\r\n", "get / 1\nhost: h\n\n"},
        {"M-SEARCH! / HTTP/1.1\r\nHost: h\r\n\r\n", "M-SEARCH! / 1\nhost: h\n\n"},
        /* section 5.1: blanks around values */
        {GET_LINE "Host:h\r\nA:\t b c \t\r\nB:\r\nC: \r\n\r\n",
         "GET / 1\nhost: h\na: b c\nb: \nc: \n\n"},
        {GET_LINE "Host: h\r\nX: Gr\xc3\xbc\xc3\x9f"
                  "e\t!\r\n\r\n",
         "GET / 1\nhost: h\nx: Gr\xc3\xbc\xc3\x9f"
         "e\t!\n\n"},
        {GET_LINE "Host: h\r\na:b:c\r\nA: d\r\n\r\n", "GET / 1\nhost: h\na: b:c\na: d\n\n"},
        /* A connection field that names others stays, so that a proxy can leave them out. */
        {GET_LINE "Host: h\r\nConnection: close, X-A\r\nX-A: b\r\n\r\n",
         "GET / 1\nhost: h\nconnection: close, X-A\nx-a: b\n\n"},
        /* What concerns the connection is no field of the request (section 7.6.1 of RFC 9110). */
        {GET_LINE "Host: h\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n"
                  "Proxy-Connection: x\r\nTE: gzip\r\nTE: trailers\r\n\r\n",
         "GET / 1\nhost: h\nte: trailers\n\n"},
        /* section 6.3 */
        {POST_LINE "Content-Length: 5\r\n\r\nhello",
         "POST /p 1\nhost: h\ncontent-length: 5\n\nhello"},
        {POST_LINE "Content-Length: 0\r\n\r\n", "POST /p 1\nhost: h\ncontent-length: 0\n\n"},
        {POST_LINE "Content-Length: 0005\r\n\r\nhello",
         "POST /p 1\nhost: h\ncontent-length: 0005\n\nhello"},
        {POST_LINE "\r\n", "POST /p 1\nhost: h\n\n"},
        /* section 7.1 */
        {CHUNKED "5\r\nhello\r\n0\r\n\r\n", "POST /p 1\nhost: h\n\nhello"},
        {CHUNKED "1\r\nh\r\n00A\r\nello world\r\n000\r\n\r\n", "POST /p 1\nhost: h\n\nhello world"},
        {CHUNKED "0\r\n\r\n", "POST /p 1\nhost: h\n\n"},
        {CHUNKED "5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", "POST /p 1\nhost: h\n\nhello"},
        {CHUNKED "2\r\n\r\n\r\n0\r\n\r\n", "POST /p 1\nhost: h\n\n\r\n"},
        {CHUNKED "1\r\nx\r\n0\r\nExpires: never\r\nX:\r\n\r\n",
         "POST /p 1\nhost: h\n\nx\nexpires: never\nx: \n"},
        {POST_LINE "transfer-encoding:  Chunked \r\n\r\n0\r\n\r\n", "POST /p 1\nhost: h\n\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading got = every_way(cases[i].request, strlen(cases[i].request));
        cr_assert_eq(got.end, READING_COMPLETE, "case %zu: %s", i, got.why ? got.why : "goes on");
        cr_expect_str_eq(got.text, cases[i].text, "case %zu", i);
        cr_expect_eq(got.eaten, strlen(cases[i].request), "case %zu", i);
        reading_done(&got);
    }
}

Test(http1_parser, what_breaks_a_rule_or_smuggles_is_refused)
{
    static const struct {
        unsigned status;
        const char *request;
    } cases[] = {
        /* section 2.2: line ends and empty lines */
        {400, "\r\n\r\n" GET_LINE "Host: h\r\n\r\n"},
        {400, "\n" GET_LINE "Host: h\r\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: h\r\n\r\n"},
        {400, GET_LINE "Host: h\n\r\n"},
        {400, GET_LINE "Host: h\r\n\n"},
        {400, GET_LINE "Host: h\rX: y\r\n\r\n"},
        {400, GET_LINE "Host: h\r\r\n\r\n"},
        {400, " GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        /* section 3: the request line */
        {400, "GET /  HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"},
        {400, "GET /\r\n\r\n"},
        {400, "PRI * HTTP/2.0\r\n\r\n"},
        {400, "PRI /p HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET\r\n\r\n"},
        {400, "G\xc3\x84T / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, " / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /\xc3\xbc HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET * HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET a HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / http/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.10\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1,1\r\nHost: h\r\n\r\n"},
        {400, "GET / XTTP/1.1\r\nHost: h\r\n\r\n"},
        {505, "GET / HTTP/2.0\r\nHost: h\r\n\r\n"},
        {505, "GET / HTTP/1.2\r\nHost: h\r\n\r\n"},
        {505, "GET / HTTP/0.9\r\nHost: h\r\n\r\n"},
        /* section 3.2: the host */
        {400, GET_LINE "\r\n"},
        {400, GET_LINE "Host: h\r\nHost: h\r\n\r\n"},
        {400, GET_LINE "Host: a, b\r\n\r\n"},
        {400, GET_LINE "Host: user@h\r\n\r\n"},
        {400, GET_LINE "Host: h/p\r\n\r\n"},
        /* section 5: fields */
        {400, GET_LINE "Host: h\r\nA : b\r\n\r\n"},
        {400, GET_LINE "Host: h\r\n A: b\r\n\r\n"},
        {400, GET_LINE "Host: h\r\nA: b\r\n c\r\n\r\n"},
        {400, GET_LINE "Host: h\r\nA: b\r\n\tc\r\n\r\n"},
        {400, GET_LINE "Host: h\r\nA\r\n\r\n"},
        {400, GET_LINE "Host: h\r\n: b\r\n\r\n"},
        {400, GET_LINE "Host: h\r\n:path: b\r\n\r\n"},
        {400, GET_LINE "Host: h\r\nA(: b\r\n\r\n"},
        {400, GET_LINE "Host: h\r\nA: \x01\r\n\r\n"},
        {400, GET_LINE "Host: h\r\nA: x\x7f\r\n\r\n"},
        /* section 6: framing */
        {400, POST_LINE "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"},
        {400, POST_LINE "Content-Length: 5, 5\r\n\r\nhello"},
        {400, POST_LINE "Content-Length: +5\r\n\r\nhello"},
        {400, POST_LINE "Content-Length: -5\r\n\r\nhello"},
        {400, POST_LINE "Content-Length: 0x5\r\n\r\nhello"},
        {400, POST_LINE "Content-Length: 5 5\r\n\r\nhello"},
        {400, POST_LINE "Content-Length:\r\n\r\n"},
        {400, POST_LINE "Content-Length: 18446744073709551621\r\n\r\nhello"},
        {400, POST_LINE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, POST_LINE "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"},
        {400, POST_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {501, POST_LINE "Transfer-Encoding: gzip\r\n\r\n"},
        {501, POST_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n"},
        {501, POST_LINE "Transfer-Encoding: chunked, chunked\r\n\r\n"},
        {501, POST_LINE "Transfer-Encoding: xchunked\r\n\r\n"},
        {501, POST_LINE "Transfer-Encoding: \"chunked\"\r\n\r\n"},
        {501, POST_LINE "Transfer-Encoding: chunked;q=1\r\n\r\n"},
        {400, POST_LINE "Transfer-Encoding : chunked\r\n\r\n"},
        {400, POST_LINE "Transfer-Encoding: \x0b"
                        "chunked\r\n\r\n"},
        {417, POST_LINE "Expect: more\r\n\r\n"},
        /* section 7.1: chunks */
        {400, CHUNKED "\r\n"},
        {400, CHUNKED "g\r\n"},
        {400, CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"},
        {400, CHUNKED "-1\r\n"},
        {400, CHUNKED " 5\r\nhello\r\n"},
        {400, CHUNKED "5 \r\nhello\r\n"},
        {400, CHUNKED "5\nhello\r\n"},
        {400, CHUNKED "5\rhello\r\n"},
        {400, CHUNKED "5\r\nhello\n"},
        {400, CHUNKED "5\r\nhello!\r\n"},
        {400, CHUNKED "5\r\nhello\rx"},
        {400, CHUNKED "5;a\nhello\r\n"},
        {400, CHUNKED "5;\x01\r\nhello\r\n"},
        {400, CHUNKED "0000000000000000\r\n\r\n"},
        {400, CHUNKED "10000000000000005\r\n"},
        {400, CHUNKED "0\r\n\n"},
        {400, CHUNKED "0\r\nA : b\r\n\r\n"},
        {400, CHUNKED "0\r\nContent-Length: 3\r\n\r\n"},
        {400, CHUNKED "0\r\nTransfer-Encoding: x\r\n\r\n"},
        {400, CHUNKED "0\r\nHost: other\r\n\r\n"},
        {400, CHUNKED "0\r\nKeep-Alive: 5\r\n\r\n"},
        {400, CHUNKED "0\r\nProxy-Connection: close\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading got = every_way(cases[i].request, strlen(cases[i].request));
        cr_expect_eq(got.end, READING_REFUSED, "case %zu: %s", i, cases[i].request);
        cr_expect_eq(got.status, cases[i].status, "case %zu: %u %s", i, got.status,
                     got.why ? got.why : "");
        reading_done(&got);
    }
}

Test(http1_parser, a_nul_is_refused_wherever_it_stands_in_a_head)
{
    static const char request[] = "\r\nGET /path HTTP/1.1\r\nHost: host\r\nA: value\r\n\r\n";
    for (size_t place = 0; place < sizeof request - 2; place++) {
        char changed[sizeof request];
        memcpy(changed, request, sizeof request);
        changed[place] = '\0';
        struct reading got;
        reading_of(&got, (const uint8_t *) changed, sizeof request - 1, 7, HEADER_BYTES);
        cr_expect_eq(got.end, READING_REFUSED, "at %zu", place);
        reading_done(&got);
    }
}

Test(http1_parser, a_prefix_of_a_request_is_never_complete)
{
    static const char request[] = CHUNKED "5;x\r\nhello\r\n0\r\nA: b\r\n\r\n";
    for (size_t length = 0; length < sizeof request - 1; length++) {
        struct reading got;
        reading_of(&got, (const uint8_t *) request, length, 5, HEADER_BYTES);
        cr_expect_eq(got.end, READING_INCOMPLETE, "%zu bytes", length);
        cr_expect_eq(got.eaten, length, "%zu bytes", length);
        reading_done(&got);
    }
}

Test(http1_parser, what_follows_a_request_is_left_for_the_next)
{
    static const char bytes[] = POST_LINE "Content-Length: 2\r\n\r\nab" CHUNKED
                                          "1\r\nc\r\n0\r\n\r\n\r\n" GET_LINE "Host: x\r\n\r\n";
    static const char *const paths[] = {"/p", "/p", "/"};
    pk_memory memory;
    pk_http1_parser parser;
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_http1_parser_init(&parser, &memory, HEADER_BYTES);
    const uint8_t *at = (const uint8_t *) bytes, *end = at + sizeof bytes - 1;
    for (size_t i = 0; i < 3; i++) {
        pk_http1_event event = PK_HTTP1_MORE;
        cr_assert_not(pk_http1_parser_in_head(&parser));
        while (parser.state != PK_HTTP1_COMPLETE)
            cr_assert_eq(pk_http1_parser_next(&parser, &at, end, &event), 0);
        pk_slice path = pk_head_value(&parser.head, PK_FIELD_PATH);
        cr_expect_str_eq((const char *) path.bytes, paths[i]);
        /* A complete request eats nothing more. */
        const uint8_t *before = at;
        cr_assert_eq(pk_http1_parser_next(&parser, &at, end, &event), 0);
        cr_expect_eq(event, PK_HTTP1_MORE);
        cr_expect_eq(at, before);
        pk_http1_parser_next_request(&parser);
    }
    cr_expect_eq(at, end);
    pk_http1_parser_done(&parser);
    cr_expect_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
}

Test(http1_parser, the_wish_to_close_and_the_expectation_are_told)
{
    static const struct {
        const char *request;
        bool close, expects;
    } cases[] = {
        {GET_LINE "Host: h\r\n\r\n", false, false},
        {GET_LINE "Host: h\r\nConnection: close\r\n\r\n", true, false},
        {GET_LINE "Host: h\r\nConnection: x , CLOSE\r\n\r\n", true, false},
        {GET_LINE "Host: h\r\nConnection: ,,\r\nConnection: close\r\n\r\n", true, false},
        {GET_LINE "Host: h\r\nConnection: closed\r\n\r\n", false, false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, false},
        {POST_LINE "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", false, true},
        {POST_LINE "Expect: 100-continue\r\n\r\n", false, false}, /* there is no body */
        {"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading got = every_way(cases[i].request, strlen(cases[i].request));
        cr_assert_eq(got.end, READING_COMPLETE, "case %zu", i);
        cr_expect_eq(got.close, cases[i].close, "case %zu", i);
        cr_expect_eq(got.expects_continue, cases[i].expects, "case %zu", i);
        reading_done(&got);
    }
}

/* ---- Limits ---- */

/* A request with `count` fields of `length` bytes each behind the path of `path` bytes. */
static struct reading of_size(size_t path, size_t count, size_t length, size_t limit, size_t piece)
{
    struct reading request = {0}, got;
    static const char filling[] =
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    reading_put(&request, "GET /", 5);
    for (size_t i = 1; i < path; i += 64)
        reading_put(&request, filling, path - i < 64 ? path - i : 64);
    reading_put(&request, " HTTP/1.1\r\nHost: h\r\n", 20);
    for (size_t i = 0; i < count; i++) {
        reading_put(&request, "a: ", 3);
        for (size_t k = 0; k < length; k += 64)
            reading_put(&request, filling, length - k < 64 ? length - k : 64);
        reading_put(&request, "\r\n", 2);
    }
    reading_put(&request, "\r\n", 2);
    reading_of(&got, (const uint8_t *) request.text, request.length, piece, limit);
    reading_done(&request);
    return got;
}

/* :method GET, :scheme http, host h, :path of one byte, and 32 for each. */
#define FIXED (10u + 11u + 5u + 6u + 4u * 32u)

Test(http1_parser, fields_up_to_the_limit_pass_and_one_byte_more_does_not)
{
    static const size_t pieces[] = {1, 1000, SIZE_MAX};
    for (size_t i = 0; i < 3; i++) {
        struct reading got = of_size(1, 1, 900, FIXED + 1 + 900 + 32, pieces[i]);
        cr_expect_eq(got.end, READING_COMPLETE, "%s", got.why ? got.why : "");
        reading_done(&got);
        got = of_size(1, 1, 900, FIXED + 900 + 32, pieces[i]);
        cr_expect_eq(got.status, 431);
        reading_done(&got);
        got = of_size(1, 10, 1, FIXED + 10 * 34, pieces[i]);
        cr_expect_eq(got.end, READING_COMPLETE, "%s", got.why ? got.why : "");
        reading_done(&got);
        got = of_size(1, 10, 1, FIXED + 10 * 34 - 1, pieces[i]);
        cr_expect_eq(got.status, 431);
        reading_done(&got);
        /* A field that never ends is refused before it is kept. */
        got = of_size(1, 1, 1u << 20, 8192, pieces[i]);
        cr_expect_eq(got.status, 431);
        cr_expect_leq(got.eaten, 10000);
        reading_done(&got);
        got = of_size(PK_HTTP1_LINE_BYTES - 15, 0, 0, HEADER_BYTES, pieces[i]);
        cr_expect_eq(got.end, READING_COMPLETE, "%s", got.why ? got.why : "");
        reading_done(&got);
        got = of_size(PK_HTTP1_LINE_BYTES - 14, 0, 0, HEADER_BYTES, pieces[i]);
        cr_expect_eq(got.status, 414);
        reading_done(&got);
    }
}

Test(http1_parser, blanks_around_values_take_no_memory_beyond_the_limit)
{
    static char blanks[HEADER_BYTES / 2];
    memset(blanks, ' ', sizeof blanks);
    counting_allocator counts = {0};
    pk_memory memory;
    pk_http1_parser parser;
    pk_http1_event event;
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    pk_http1_parser_init(&parser, &memory, HEADER_BYTES);
    struct reading request = {0};
    reading_put(&request, GET_LINE, sizeof GET_LINE - 1);
    for (size_t i = 0; i < 100; i++) {
        reading_put(&request, "a:", 2);
        reading_put(&request, blanks, sizeof blanks);
        reading_put(&request, "\r\n", 2);
    }
    const uint8_t *at = (const uint8_t *) request.text, *end = at + request.length;
    cr_expect_eq(pk_http1_parser_next(&parser, &at, end, &event), PK_ERR_MALFORMED);
    cr_expect_eq(parser.status, 431);
    cr_expect_lt(counts.peak, 8 * HEADER_BYTES);
    reading_done(&request);
    pk_http1_parser_done(&parser);
    pk_memory_done(&memory);
}

Test(http1_parser, a_known_field_that_comes_twice_is_marked)
{
    static const char bytes[] = GET_LINE "Host: h\r\nAccept: a\r\nTE: trailers\r\n"
                                         "Accept: b\r\n\r\n";
    pk_memory memory;
    pk_http1_parser parser;
    pk_http1_event event;
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_http1_parser_init(&parser, &memory, HEADER_BYTES);
    const uint8_t *at = (const uint8_t *) bytes, *end = at + sizeof bytes - 1;
    cr_assert_eq(pk_http1_parser_next(&parser, &at, end, &event), 0);
    cr_expect_eq(event, PK_HTTP1_HEAD);
    cr_expect_eq(parser.head.repeated, 1u << PK_FIELD_ACCEPT);
    pk_http1_parser_done(&parser);
    pk_memory_done(&memory);
}

Test(http1_parser, extensions_and_trailers_have_limits)
{
    static const size_t lengths[] = {PK_HTTP1_EXTENSION_BYTES, PK_HTTP1_EXTENSION_BYTES + 1};
    for (size_t i = 0; i < 2; i++) {
        struct reading request = {0}, got;
        reading_put(&request, CHUNKED "1;", sizeof CHUNKED + 1);
        for (size_t k = 0; k < lengths[i]; k++)
            reading_put(&request, "e", 1);
        reading_put(&request, "\r\nx\r\n0\r\n\r\n", 10);
        reading_of(&got, (const uint8_t *) request.text, request.length, 3, HEADER_BYTES);
        cr_expect_eq(got.end, i == 0 ? READING_COMPLETE : READING_REFUSED);
        reading_done(&got);
        reading_done(&request);
    }
    /* Many small ones together. */
    struct reading request = {0}, got;
    reading_put(&request, CHUNKED, sizeof CHUNKED - 1);
    for (size_t i = 0; i <= PK_HTTP1_EXTENSIONS_BYTES / 4; i++)
        reading_put(&request, "1;aaaa\r\nx\r\n", 11);
    reading_of(&got, (const uint8_t *) request.text, request.length, 100, HEADER_BYTES);
    cr_expect_eq(got.status, 400);
    reading_done(&got);
    reading_done(&request);

    request = (struct reading){0};
    reading_put(&request, CHUNKED "0\r\n", sizeof CHUNKED + 2);
    for (size_t i = 0; i < 100; i++)
        reading_put(&request, "a: b\r\n", 6);
    reading_of(&got, (const uint8_t *) request.text, request.length, 100, 1024);
    cr_expect_eq(got.status, 431);
    reading_done(&got);
    reading_done(&request);
}

/* The same request again and again: 0, or how the first one failed. */
static int read_some(pk_memory *memory, unsigned times)
{
    static const char bytes[] = CHUNKED "2\r\nab\r\n0\r\nA: b\r\n\r\n";
    pk_http1_parser parser;
    int r = 0;
    pk_http1_parser_init(&parser, memory, HEADER_BYTES);
    for (unsigned i = 0; r == 0 && i < times; i++) {
        pk_http1_event event = PK_HTTP1_MORE;
        for (size_t k = 0; r == 0 && k < sizeof bytes - 1; k++) {
            const uint8_t *at = (const uint8_t *) bytes + k, *end = at + 1;
            while (r == 0 && at < end)
                r = pk_http1_parser_next(&parser, &at, end, &event);
        }
        if (r == 0)
            cr_assert_eq(parser.state, PK_HTTP1_COMPLETE);
        pk_http1_parser_next_request(&parser);
    }
    pk_http1_parser_done(&parser);
    return r;
}

Test(http1_parser, memory_that_runs_out_is_told_and_kept_memory_is_enough_for_the_next)
{
    size_t fail_at = 1;
    int r;
    do {
        counting_allocator counts = {.fail_at = fail_at, .fail_after = true};
        pk_memory memory;
        cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
        r = read_some(&memory, 3);
        cr_assert(r == 0 || r == PK_ERR_NOMEM);
        cr_assert_eq(memory.live_blocks, 0);
        if (r == 0) {
            size_t before = counts.requests;
            cr_assert_eq(read_some(&memory, 100), 0);
            cr_expect_eq(counts.requests, before);
        }
        pk_memory_done(&memory);
        fail_at++;
    } while (r < 0);
    cr_expect_gt(fail_at, 2);
}
