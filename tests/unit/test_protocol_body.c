/*
 * marshalling/protocol_body.c: every protocol's bodies at every split, and what each way of
 * breaking one is called. Rows 41, 53, 54, 56 and 69 of the collected cases are here.
 */
#include "marshalling/protocol_body.h"
#include "tests/support/marshalling_fixture.h"

#include <criterion/criterion.h>

static marshalling_fixture fixture;
static pk_body_reader reader;

static void set_up(void)
{
    fixture_init(&fixture);
    memset(&reader, 0, sizeof reader);
}

static void tear_down(void)
{
    if (reader.protocol)
        pk_body_reader_done(&reader);
    cr_assert_eq(fixture_done(&fixture), 0);
}

static void start(const pk_protocol *protocol, const pk_compressor *incoming, size_t limit,
                  unsigned kind)
{
    if (reader.protocol)
        pk_body_reader_done(&reader);
    pk_body_reader_init(&reader, protocol, &fixture.marshalling, &fixture.arena, incoming, limit,
                        kind);
}

/* What a body came to: "[payload][payload] end", or "[payload] 13: text". */
static const char *outcome(const uint8_t *body, size_t length, size_t piece)
{
    static char text[2048];
    char *at = text;
    int r = 0;
    for (size_t done = 0; r >= 0 && done < length;) {
        size_t now = length - done < piece ? length - done : piece;
        uint8_t *exact = malloc(now);
        if (!exact)
            abort();
        memcpy(exact, body + done, now);
        r = pk_body_reader_feed(&reader, exact, now, NULL);
        pk_body_message message;
        while (r >= 0 && (r = pk_body_reader_next(&reader, &message)) > 0)
            at += sprintf(at, "[%.*s]", (int) message.bytes.length,
                          (const char *) message.bytes.bytes);
        memset(exact, 0xee, now);
        free(exact);
        done += now;
    }
    if (r >= 0)
        r = pk_body_reader_end(&reader);
    if (r < 0)
        sprintf(at, " %d: %.*s", reader.status.code, (int) reader.status.message.length,
                (const char *) reader.status.message.bytes);
    else
        strcpy(at, " end");
    return text;
}

#define ABC        \
    "\0\0\0\0\x03" \
    "abc"
#define EMPTY "\0\0\0\0\0"
#define SIZED(literal) literal, sizeof(literal) - 1

Test(protocol_body, bodies_come_to_the_same_at_every_split, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *body;
        size_t length;
        unsigned kind;
        const char *outcome;
    } rows[] = {
        {SIZED(""), PK_BODY_REQUEST, " end"},
        {SIZED(ABC), PK_BODY_REQUEST, "[abc] end"},
        {SIZED(ABC EMPTY ABC), PK_BODY_REQUEST, "[abc][][abc] end"},
        {SIZED(ABC), PK_BODY_ONE, "[abc] end"},
        {SIZED(EMPTY), PK_BODY_ONE, "[] end"},
        {SIZED(""), PK_BODY_ONE, " 12: no message came where one was due"},
        {SIZED(""), PK_BODY_ONE | PK_BODY_RESPONSE, " 12: no message came where one was due"},
        {SIZED(ABC ABC), PK_BODY_ONE, "[abc] 12: more than one message came where one was due"},
        {SIZED(ABC EMPTY), PK_BODY_ONE, "[abc] 12: more than one message came where one was due"},
        {SIZED(ABC ABC), PK_BODY_ONE | PK_BODY_RESPONSE,
         "[abc] 12: more than one message came where one was due"},
        {SIZED("\0\0\0\0"), PK_BODY_REQUEST, " 13: the body ends inside a message"},
        {SIZED("\0\0\0\0"), PK_BODY_ONE, " 13: the body ends inside a message"},
        {SIZED("\0\0\0\0\x03"
               "ab"),
         PK_BODY_ONE, " 13: the body ends inside a message"},
        {SIZED(ABC "\0"), PK_BODY_ONE, "[abc] 13: the body ends inside a message"},
        {SIZED("\x02\0\0\0\0"), PK_BODY_REQUEST,
         " 13: a message has flags 0x02, which are not known"},
        {SIZED("\x80\0\0\0\0"), PK_BODY_REQUEST,
         " 13: a message has flags 0x80, which are not known"},
        {SIZED("\x80\0\0\0\0"), PK_BODY_RESPONSE,
         " 13: a message has flags 0x80, which are not known"},
        {SIZED("HTTP/1.1 400"), PK_BODY_REQUEST,
         " 13: a message has flags 0x48, which are not known"},
        {SIZED("\x01\0\0\0\x03"
               "abc"),
         PK_BODY_REQUEST,
         " 13: a message has its compressed flag set, but no compression was named in "
         "grpc-encoding"},
        {SIZED("\0\0\0\x27\x11"), PK_BODY_REQUEST,
         " 8: received message of 10001 bytes is above the limit of 10000 bytes"},
        {SIZED("\0\xff\xff\xff\xff"), PK_BODY_ONE,
         " 8: received message of 4294967295 bytes is above the limit of 10000 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t piece = 1; piece <= rows[i].length + 1; piece++) {
            start(&pk_protocol_grpc, NULL, 10000, rows[i].kind);
            const char *got = outcome((const uint8_t *) rows[i].body, rows[i].length, piece);
            cr_assert_str_eq(got, rows[i].outcome, "row %zu by %zu: %s", i, piece, got);
        }
    }
}

Test(protocol_body, text_comes_to_the_same_at_every_split_or_is_http_400, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *body, *outcome;
        unsigned http_status;
    } rows[] = {
        {"AAAAAAA=", "[] end", 0},
        {"AAAAAANhYmM=", "[abc] end", 0},
        {"AAAAAANhYmM=AAAAAAA=AAAAAANhYmM=", "[abc][][abc] end", 0}, /* each frame padded */
        {"AA==AAAAAw==YWJj", "[abc] end", 0},                        /* padded inside frames */
        {"", " end", 0},
        {"AAAAAAA", " 13: the body is not valid base64", 400},
        {"AAAAAAN", " 13: the body is not valid base64", 400},
        {"AAAA\r\nAAA=", " 13: the body is not valid base64", 400},
        {"AAA-AAA=", " 13: the body is not valid base64", 400},
        {"AAA_AAA=", " 13: the body is not valid base64", 400},
        {"AAAAAANhYmM=*", "[abc] 13: the body is not valid base64", 400},
        {"AAAAAANh", " 13: the body ends inside a message", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].body);
        for (size_t piece = 1; piece <= length + 1; piece++) {
            start(&pk_protocol_grpc_web_text, NULL, 10000, PK_BODY_REQUEST);
            const char *got = outcome((const uint8_t *) rows[i].body, length, piece);
            cr_assert_str_eq(got, rows[i].outcome, "%s by %zu: %s", rows[i].body, piece, got);
            cr_assert_eq(reader.http_status, rows[i].http_status, "%s", rows[i].body);
        }
    }
}

/* An enveloped body of one compressed message. */
static pk_buffer *compressed_body(const pk_compressor *compressor, const void *bytes, size_t length)
{
    static const pk_envelope envelope = {0, 1};
    pk_slice raw = {bytes, length};
    pk_buffer *body;
    bool compressed;
    pk_status status;
    pk_encoding encoding = fixture.encoding;
    encoding.codec = &pk_codec_bytes;
    encoding.compressor = compressor;
    encoding.compress_min_bytes = 0;
    cr_assert_eq(pk_marshal(&encoding, NULL, &raw, &envelope, (pk_slice){NULL, 0}, &body,
                            &compressed, &status),
                 0);
    cr_assert(compressed);
    return body;
}

#define REPEATED "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"

Test(protocol_body, compressed_messages_are_decompressed_and_stale_ones_refused, .init = set_up,
     .fini = tear_down)
{
    static const pk_compressor *const compressors[] = {&pk_compressor_gzip, &pk_compressor_deflate};
    for (size_t i = 0; i < 2; i++) {
        pk_buffer *body = compressed_body(compressors[i], SIZED(REPEATED));
        size_t length = pk_buffer_length(body);
        for (size_t piece = 1; piece <= length; piece++) {
            start(&pk_protocol_grpc, compressors[i], 10000, PK_BODY_ONE);
            cr_assert_str_eq(outcome(body->start, length, piece), "[" REPEATED "] end");
            /* Each compressor refuses the other's bytes. */
            start(&pk_protocol_grpc, compressors[1 - i], 10000, PK_BODY_ONE);
            cr_assert_str_eq(outcome(body->start, length, piece),
                             i == 0 ? " 13: a message is not valid deflate"
                                    : " 13: a message is not valid gzip");
        }
        /* A message without the flag passes beside an encoding. */
        start(&pk_protocol_grpc, compressors[i], 10000, PK_BODY_ONE);
        cr_expect_str_eq(outcome((const uint8_t *) SIZED(ABC), 99), "[abc] end");
        /* An empty payload with the flag is no compressed message. */
        start(&pk_protocol_grpc, compressors[i], 10000, PK_BODY_ONE);
        cr_expect_str_eq(outcome((const uint8_t *) SIZED("\x01\0\0\0\0"), 99),
                         i == 0 ? " 13: a message is not valid gzip"
                                : " 13: a message is not valid deflate");
        /* The limit is that of the plain message: equal passes. */
        start(&pk_protocol_grpc, compressors[i], sizeof REPEATED - 1, PK_BODY_ONE);
        cr_expect_str_eq(outcome(body->start, length, 99), "[" REPEATED "] end");
        char text[200];
        sprintf(text,
                " 8: received message of %zu compressed bytes is above the limit of %zu bytes "
                "when decompressed",
                length - 5, sizeof REPEATED - 2);
        start(&pk_protocol_grpc, compressors[i], sizeof REPEATED - 2, PK_BODY_ONE);
        cr_expect_str_eq(outcome(body->start, length, 99), text);
        pk_buffer_unref(body);
    }
}

Test(protocol_body, every_truncation_and_flip_of_every_sample_is_an_error_or_right, .init = set_up,
     .fini = tear_down, .timeout = 60)
{
    pk_buffer *samples[4] = {compressed_body(&pk_compressor_gzip, SIZED(REPEATED)),
                             compressed_body(&pk_compressor_deflate, SIZED(REPEATED)),
                             pk_buffer_get(&fixture.pool), pk_buffer_get(&fixture.pool)};
    static const pk_compressor *const incoming[] = {&pk_compressor_gzip, &pk_compressor_deflate,
                                                    NULL, NULL};
    static const pk_protocol *const protocols[] = {&pk_protocol_grpc, &pk_protocol_grpc_web,
                                                   &pk_protocol_grpc, &pk_protocol_grpc_web_text};
    cr_assert_eq(pk_buffer_prepend(samples[2], SIZED(ABC)), 0);
    cr_assert_eq(pk_buffer_prepend(samples[3], SIZED("AAAAAANhYmM=")), 0);
    for (size_t i = 0; i < 4; i++) {
        size_t length = pk_buffer_length(samples[i]);
        const char *right = i < 2 ? "[" REPEATED "] end" : "[abc] end";
        for (size_t cut = 0; cut < length; cut++) {
            start(protocols[i], incoming[i], 1000, PK_BODY_ONE);
            outcome(samples[i]->start, cut, 7);
            cr_assert_neq(reader.error, 0, "sample %zu cut at %zu", i, cut);
        }
        for (size_t bit = 0; bit < 8 * length; bit++) {
            uint8_t flipped[200];
            cr_assert_leq(length, sizeof flipped);
            memcpy(flipped, samples[i]->start, length);
            flipped[bit / 8] ^= (uint8_t) (1u << bit % 8);
            start(protocols[i], incoming[i], 1000, PK_BODY_ONE);
            const char *got = outcome(flipped, length, 7);
            bool is_error = reader.error != 0;
            /* Nothing can tell where there is no checksum: without compression, or its flag. */
            cr_assert(is_error || strcmp(got, right) == 0 || i >= 2 || bit == 0,
                      "sample %zu bit %zu: %s", i, bit, got);
        }
        pk_buffer_unref(samples[i]);
    }
}

Test(protocol_body, a_message_in_one_chunk_is_not_copied_and_long_ones_are_owned, .init = set_up,
     .fini = tear_down)
{
    /* The second is one byte longer than what the reader itself has room for. */
    uint8_t bytes[8 + PK_FRAME_SHORT + 1] = ABC "\0\0\0\0\x3c";
    pk_buffer *chunk = pk_buffer_get(&fixture.pool);
    cr_assert_eq(pk_buffer_prepend(chunk, bytes, sizeof bytes), 0);
    start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST);
    pk_body_message message;
    cr_assert_eq(pk_body_reader_feed(&reader, chunk->start, pk_buffer_length(chunk) - 1, chunk), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
    cr_expect_eq(message.bytes.bytes, chunk->start + 5);
    cr_expect_eq(message.holder, chunk);
    cr_expect_not(message.owned);
    cr_expect_eq(pk_body_reader_next(&reader, &message), 0);
    cr_expect_eq(pk_body_reader_held(&reader), 59);
    cr_assert_eq(pk_body_reader_feed(&reader, chunk->end - 1, 1, chunk), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
    cr_expect(message.owned);
    cr_expect_neq(message.holder, chunk);
    cr_expect_eq(reader.messages, 2);
    pk_buffer_unref(chunk);
}

Test(protocol_body, a_short_message_in_pieces_lies_in_the_reader, .init = set_up, .fini = tear_down)
{
    start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST);
    pk_body_message message;
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) ABC, 7, NULL), 0);
    cr_expect_eq(pk_body_reader_next(&reader, &message), 0);
    cr_expect_eq(pk_body_reader_held(&reader), 0);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) "c", 1, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
    cr_expect_eq(memcmp(message.bytes.bytes, "abc", 3), 0);
    cr_expect_not(message.owned);
    cr_expect_null(message.holder);
    cr_expect_eq(fixture.pool.lent, 0);
}

/* A stream's messages as its reader takes them: by the short cuts wherever these will do. */
static const char *outcome_of_short_cuts(const uint8_t *body, size_t length, size_t first,
                                         size_t piece)
{
    static char text[2048];
    char *at = text;
    int r = 0;
    text[0] = '\0';
    for (size_t done = 0, now = first; r >= 0 && done < length; done += now, now = piece) {
        now = length - done < now ? length - done : now;
        uint8_t *exact = malloc(now + (now == 0));
        cr_assert_not_null(exact);
        memcpy(exact, body + done, now);
        pk_body_message message;
        r = pk_body_reader_feed_short(&reader, exact, now, &message);
        if (r == PK_ERR_STATE) {
            cr_assert_eq(pk_body_reader_feed(&reader, exact, now, NULL), 0);
            r = pk_body_reader_next(&reader, &message);
        }
        while (r > 0) {
            at += sprintf(at, "[%.*s]", (int) message.bytes.length,
                          (const char *) message.bytes.bytes);
            r = pk_body_reader_next_plainly(&reader, &message);
            if (r == PK_ERR_STATE)
                r = pk_body_reader_next(&reader, &message);
        }
        memset(exact, 0xee, now);
        free(exact);
    }
    if (r >= 0)
        r = pk_body_reader_end(&reader);
    sprintf(at, " %d", r < 0 ? (int) reader.status.code : 0);
    return text;
}

/* The same where chunks have a holder, and what a first look leaves of one is kept. */
static const char *outcome_of_kept_chunks(const uint8_t *body, size_t length, size_t first,
                                          size_t piece)
{
    static char text[2048];
    char *at = text;
    int r = 0;
    text[0] = '\0';
    for (size_t done = 0, now = first; r >= 0 && done < length; done += now, now = piece) {
        now = length - done < now ? length - done : now;
        pk_buffer *chunk = pk_buffer_get(&fixture.pool);
        cr_assert(chunk && pk_buffer_prepend(chunk, body + done, now) == 0);
        cr_assert_eq(pk_body_reader_feed(&reader, chunk->start, now, chunk), 0);
        pk_body_message message;
        bool kept = false;
        for (;;) {
            r = pk_body_reader_next_plainly(&reader, &message);
            if (r == PK_ERR_STATE)
                r = pk_body_reader_next(&reader, &message);
            if (r <= 0)
                break;
            at += sprintf(at, "[%.*s]", (int) message.bytes.length,
                          (const char *) message.bytes.bytes);
            if (kept)
                continue;
            kept = true;
            cr_assert_eq(pk_body_reader_keep(&reader), 0);
            if (chunk->references == 1)
                memset(chunk->start, 0xee, now);
            pk_buffer_unref(chunk);
        }
        if (!kept) {
            memset(chunk->start, 0xee, now);
            cr_assert_eq(chunk->references, 1);
            pk_buffer_unref(chunk);
        }
    }
    if (r >= 0)
        r = pk_body_reader_end(&reader);
    sprintf(at, " %d", r < 0 ? (int) reader.status.code : 0);
    return text;
}

#define FIFTY_NINE "sssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"
#define SIXTY FIFTY_NINE "s"

Test(protocol_body, short_cuts_come_to_the_same, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *body;
        size_t length;
        const char *outcome;
    } rows[] = {
        {SIZED(ABC EMPTY ABC EMPTY EMPTY ABC), "[abc][][abc][][][abc] 0"},
        {SIZED(ABC "\0\0\0\0\x3b" FIFTY_NINE), "[abc][" FIFTY_NINE "] 0"},
        {SIZED(ABC "\0\0\0\0\x3c" SIXTY ABC), "[abc][" SIXTY "][abc] 0"},
        {SIZED(ABC "\0\0\0\0\x04"
                   "abc"),
         "[abc] 13"},
        {SIZED(ABC "\x02\0\0\0\0" ABC), "[abc] 13"},
        {SIZED(ABC "\0\0\0\x03\xe9" ABC), "[abc] 8"},
        {SIZED(ABC "\x01\0\0\0\x03"
                   "abc"),
         "[abc] 13"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t *body = (const uint8_t *) rows[i].body;
        for (size_t first = 1; first <= rows[i].length; first++) {
            for (size_t piece = 1; piece <= rows[i].length; piece++) {
                start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST);
                const char *came = outcome_of_short_cuts(body, rows[i].length, first, piece);
                cr_assert_str_eq(came, rows[i].outcome, "row %zu, pieces of %zu and %zu", i, first,
                                 piece);
                start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST);
                came = outcome_of_kept_chunks(body, rows[i].length, first, piece);
                cr_assert_str_eq(came, rows[i].outcome, "row %zu, kept, of %zu and %zu", i, first,
                                 piece);
            }
        }
    }
}

Test(protocol_body, short_cuts_leave_alone_what_is_not_a_plain_stream, .init = set_up,
     .fini = tear_down)
{
    pk_body_message message;
    const uint8_t *body = (const uint8_t *) ABC;
    start(&pk_protocol_grpc_web_text, NULL, 1000, PK_BODY_REQUEST);
    cr_expect_eq(pk_body_reader_feed_short(&reader, body, 4, &message), PK_ERR_STATE);
    start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST | PK_BODY_ONE);
    cr_expect_eq(pk_body_reader_feed_short(&reader, body, 4, &message), PK_ERR_STATE);
    /* Behind trailers; behind an error. */
    start(&pk_protocol_grpc_web, NULL, 1000, PK_BODY_RESPONSE);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) "\x80\0\0\0\0", 5, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 0);
    cr_expect_eq(pk_body_reader_feed_short(&reader, body, 4, &message), PK_ERR_STATE);
    start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) "\x04\0\0\0\0", 5, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), PK_ERR_MALFORMED);
    cr_expect_eq(pk_body_reader_feed_short(&reader, body, 4, &message), PK_ERR_STATE);
    cr_expect_eq(pk_body_reader_next_plainly(&reader, &message), PK_ERR_STATE);
}

Test(protocol_body, a_whole_body_may_be_taken_at_once_and_anything_else_not, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *body;
        size_t length;
        const pk_protocol *protocol;
        const pk_compressor *incoming;
        bool taken;
    } rows[] = {
        {SIZED(ABC), &pk_protocol_grpc, NULL, true},
        {SIZED(EMPTY), &pk_protocol_grpc, NULL, true},
        {SIZED(ABC), &pk_protocol_grpc_web, &pk_compressor_gzip, true},
        {SIZED(ABC), &pk_protocol_grpc_web_text, NULL, false},
        {SIZED("\x01\0\0\0\x03"
               "abc"),
         &pk_protocol_grpc, &pk_compressor_gzip, false},
        {SIZED("\x02\0\0\0\x03"
               "abc"),
         &pk_protocol_grpc, NULL, false},
        {SIZED(ABC "\0"), &pk_protocol_grpc, NULL, false},
        {SIZED("\0\0\0\0\x03"
               "ab"),
         &pk_protocol_grpc, NULL, false},
        {SIZED("\0\0\0\0"), &pk_protocol_grpc, NULL, false},
        {SIZED(""), &pk_protocol_grpc, NULL, false},
        {SIZED("\0\0\0\0\x04"
               "abcd"),
         &pk_protocol_grpc, NULL, false}, /* the limit is 3 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t *body = (const uint8_t *) rows[i].body;
        pk_body_message message;
        start(rows[i].protocol, rows[i].incoming, 3, PK_BODY_ONE);
        cr_assert_eq(pk_body_reader_take_whole(&reader, body, rows[i].length, NULL, &message),
                     rows[i].taken, "row %zu", i);
        if (!rows[i].taken)
            continue;
        cr_expect_eq(message.bytes.bytes, body + 5);
        cr_expect_eq(message.bytes.length, rows[i].length - 5);
        /* A second one is refused on either way. */
        cr_expect_not(pk_body_reader_take_whole(&reader, body, rows[i].length, NULL, &message));
        cr_expect_eq(pk_body_reader_end(&reader), 0);
        cr_assert_eq(pk_body_reader_feed(&reader, body, rows[i].length, NULL), 0);
        cr_expect_lt(pk_body_reader_next(&reader, &message), 0);
        cr_expect_eq(reader.status.code, PK_UNIMPLEMENTED);
    }
    /* Not behind a part of a message. */
    pk_body_message message;
    start(&pk_protocol_grpc, NULL, 3, PK_BODY_ONE);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) "\0\0", 2, NULL), 0);
    cr_expect_eq(pk_body_reader_next(&reader, &message), 0);
    cr_expect_not(pk_body_reader_take_whole(&reader, (const uint8_t *) SIZED(ABC), NULL, &message));
}

Test(protocol_body, what_is_not_taken_now_can_be_kept, .init = set_up, .fini = tear_down)
{
    static const struct {
        const pk_protocol *protocol;
        const char *body;
        size_t length;
    } rows[] = {{&pk_protocol_grpc, SIZED(ABC EMPTY ABC)},
                {&pk_protocol_grpc_web_text, SIZED("AAAAAANhYmM=AAAAAAA=AAAAAANhYmM=")}};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *chunk = malloc(rows[i].length);
        cr_assert_not_null(chunk);
        memcpy(chunk, rows[i].body, rows[i].length);
        pk_body_message message;
        start(rows[i].protocol, NULL, 1000, PK_BODY_REQUEST);
        cr_assert_eq(pk_body_reader_feed(&reader, chunk, rows[i].length, NULL), 0);
        cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
        cr_assert_eq(pk_body_reader_keep(&reader), 0);
        free(chunk);
        cr_expect_eq(pk_body_reader_feed(&reader, (const uint8_t *) "", 0, NULL), PK_ERR_STATE);
        cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
        cr_expect_eq(message.bytes.length, 0);
        cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
        cr_expect(slice_is(message.bytes, "abc"));
        cr_expect_eq(pk_body_reader_next(&reader, &message), 0);
        cr_expect_eq(pk_body_reader_end(&reader), 0);
    }
}

Test(protocol_body, eight_mebibytes_need_a_raised_limit, .init = set_up, .fini = tear_down)
{
    const size_t size = 8u << 20;
    for (int more = -1; more <= 1; more++) {
        size_t length = (size_t) ((long) size + more);
        uint8_t *bytes = calloc(1, length + 5);
        cr_assert_not_null(bytes);
        pk_frame_write_prefix(bytes, 0, (uint32_t) length);
        pk_body_message message;
        start(&pk_protocol_grpc, NULL, PK_RECEIVE_LIMIT_DEFAULT, PK_BODY_ONE);
        cr_assert_eq(pk_body_reader_feed(&reader, bytes, length + 5, NULL), 0);
        cr_expect_eq(pk_body_reader_next(&reader, &message), PK_ERR_LIMIT);
        cr_expect_eq(reader.status.code, PK_RESOURCE_EXHAUSTED);
        start(&pk_protocol_grpc, NULL, size + 1, PK_BODY_ONE);
        cr_assert_eq(pk_body_reader_feed(&reader, bytes, length + 5, NULL), 0);
        cr_expect_eq(pk_body_reader_next(&reader, &message), 1);
        cr_expect_eq(message.bytes.length, length);
        cr_expect_eq(pk_body_reader_next(&reader, &message), 0);
        free(bytes);
    }
}

#define TRAILER_BLOCK "grpc-status: 5\r\nGrpc-Message:a%20b \nno colon here\r\nx-bin: qw\r\n:\r\n"

/* The end of a response, as its protocol reads it. */
static pk_status end_of_response(const pk_protocol *protocol)
{
    pk_head head = make_head(NULL, 0);
    pk_status status;
    protocol->response_end(protocol, &head, NULL, &reader, &fixture.arena, &status);
    return status;
}

Test(protocol_body, a_trailer_frame_ends_a_web_response, .init = set_up, .fini = tear_down)
{
    pk_buffer *body = pk_buffer_get(&fixture.pool);
    uint8_t prefix[5];
    pk_frame_write_prefix(prefix, 0x80, sizeof TRAILER_BLOCK - 1);
    cr_assert_eq(pk_buffer_prepend(body, SIZED(TRAILER_BLOCK)), 0);
    cr_assert_eq(pk_buffer_prepend(body, prefix, 5), 0);
    cr_assert_eq(pk_buffer_prepend(body, SIZED(ABC)), 0);
    size_t length = pk_buffer_length(body);
    for (size_t piece = 1; piece <= length; piece++) {
        start(&pk_protocol_grpc_web, NULL, 1000, PK_BODY_ONE | PK_BODY_RESPONSE);
        cr_assert_str_eq(outcome(body->start, length, piece), "[abc] end");
        pk_status status = end_of_response(&pk_protocol_grpc_web);
        cr_assert_eq(status.code, PK_NOT_FOUND);
        cr_assert(slice_is(status.message, "a b"));
        cr_assert_str_eq(fields_text(reader.trailers.fields, reader.trailers.count),
                         "grpc-status: 5\ngrpc-message: a%20b\nx-bin: qw\n");
    }
    /* Nothing may follow it. */
    cr_assert_eq(pk_buffer_append(body, SIZED(EMPTY)), 0);
    start(&pk_protocol_grpc_web, NULL, 1000, PK_BODY_RESPONSE);
    cr_expect_str_eq(outcome(body->start, length + 5, 99),
                     "[abc] 13: the body goes on behind its trailers");
    /* A server takes none. */
    start(&pk_protocol_grpc_web, NULL, 1000, PK_BODY_REQUEST);
    cr_expect_str_eq(outcome(body->start, length, 99),
                     "[abc] 13: a message has flags 0x80, which are not known");
    pk_buffer_unref(body);
}

Test(protocol_body, compressed_trailers_are_read_too, .init = set_up, .fini = tear_down)
{
#define LONG_BLOCK \
    "grpc-status: 5\r\ngrpc-message: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"
    pk_buffer *body = compressed_body(&pk_compressor_gzip, SIZED(LONG_BLOCK));
    body->start[0] = 0x81;
    start(&pk_protocol_grpc_web, &pk_compressor_gzip, 1000, PK_BODY_RESPONSE);
    cr_expect_str_eq(outcome(body->start, pk_buffer_length(body), 3), " end");
    cr_expect_eq(end_of_response(&pk_protocol_grpc_web).code, PK_NOT_FOUND);
    /* And refused where no compression was agreed on. */
    start(&pk_protocol_grpc_web, NULL, 1000, PK_BODY_RESPONSE);
    outcome(body->start, pk_buffer_length(body), 3);
    cr_expect_eq(reader.status.code, PK_INTERNAL);
    pk_buffer_unref(body);
}

Test(protocol_body, a_failure_stays_and_gives_everything_back, .init = set_up, .fini = tear_down)
{
    pk_body_message message;
    start(&pk_protocol_grpc, NULL, 1000, PK_BODY_REQUEST);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) SIZED("\x07\0\0\0\0" ABC), NULL),
                 0);
    cr_expect_eq(pk_body_reader_next(&reader, &message), PK_ERR_MALFORMED);
    cr_expect_eq(pk_body_reader_next(&reader, &message), PK_ERR_MALFORMED);
    cr_expect_eq(pk_body_reader_feed(&reader, (const uint8_t *) SIZED(ABC), NULL),
                 PK_ERR_MALFORMED);
    cr_expect_eq(pk_body_reader_keep(&reader), PK_ERR_MALFORMED);
    cr_expect_eq(pk_body_reader_end(&reader), PK_ERR_MALFORMED);
    pk_body_reader_done(&reader);
    pk_body_reader_done(&reader);
}

Test(protocol_body, each_allocation_may_fail)
{
    for (size_t way = 0; way < 3; way++) {
        static const pk_protocol *const protocols[] = {&pk_protocol_grpc, &pk_protocol_grpc,
                                                       &pk_protocol_grpc_web_text};
        bool finished = false;
        for (size_t fail_at = 1; !finished; fail_at++) {
            set_up();
            pk_buffer *body =
                way == 1 ? compressed_body(&pk_compressor_gzip, SIZED(REPEATED)) : NULL;
            const char *text = way == 0 ? ABC : "AAAAAANhYmM=";
            const uint8_t *bytes = body ? body->start : (const uint8_t *) text;
            size_t length = body ? pk_buffer_length(body) : way == 0 ? sizeof ABC - 1 : 12;
            fixture.counts.fail_at = fixture.counts.requests + fail_at;
            fixture.counts.fail_after = fail_at % 2;
            start(protocols[way], &pk_compressor_gzip, 1000, PK_BODY_ONE);
            outcome(bytes, length, 3);
            cr_expect(reader.error == 0 || (reader.error == PK_ERR_NOMEM &&
                                            reader.status.code == PK_RESOURCE_EXHAUSTED));
            finished = fixture.counts.requests < fixture.counts.fail_at;
            cr_expect(!finished || reader.error == 0);
            pk_buffer_unref(body);
            tear_down();
            cr_assert_lt(fail_at, 100);
        }
    }
}

Test(protocol_body, nothing_is_allocated_in_steady_state, .init = set_up, .fini = tear_down)
{
    pk_buffer *body = compressed_body(&pk_compressor_gzip, SIZED(REPEATED));
    size_t before = 0;
    for (int round = 0; round < 20; round++) {
        if (round == 3)
            before = fixture.counts.requests;
        start(&pk_protocol_grpc, NULL, 1000, PK_BODY_ONE);
        outcome((const uint8_t *) SIZED(ABC), 2);
        cr_assert_eq(reader.error, 0);
        start(&pk_protocol_grpc, &pk_compressor_gzip, 1000, PK_BODY_ONE);
        outcome(body->start, pk_buffer_length(body), 1000);
        cr_assert_eq(reader.error, 0);
        start(&pk_protocol_grpc_web_text, NULL, 1000, PK_BODY_ONE);
        outcome((const uint8_t *) SIZED("AAAAAANhYmM="), 5);
        cr_assert_eq(reader.error, 0);
    }
    cr_expect_eq(fixture.counts.requests, before);
    pk_buffer_unref(body);
}
