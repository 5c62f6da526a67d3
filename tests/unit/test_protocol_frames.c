/*
 * marshalling/protocol_frames.c: runs of frames come to what came in, however that was cut, and stop
 * where a check of the reader does; what is written is what it says.
 */
#include "core/base64.h"
#include "marshalling/protocol_frames.h"
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

/* A reader of a raw call whose head names an encoding. */
static void start(const pk_protocol *protocol, size_t limit)
{
    pk_field field = {.name = PK_SLICE("grpc-encoding"), .value = PK_SLICE("zstd")};
    pk_head head = make_head(&field, 1);
    if (reader.protocol)
        pk_body_reader_done(&reader);
    pk_body_reader_init(&reader, protocol, &fixture.marshalling, &fixture.arena, NULL, limit,
                        PK_BODY_REQUEST);
    pk_body_reader_set_raw(&reader, &head);
}

static struct {
    uint8_t bytes[100000];
    size_t length, messages, runs, longest;
    int error;
} came;

/* Reads all of a body in pieces; checks each run. */
static void read_runs(const void *body, size_t length, size_t piece)
{
    pk_body_message message;
    int r = 0;
    came.length = came.messages = came.runs = came.longest = 0;
    for (size_t done = 0; r >= 0 && done < length; done += piece) {
        size_t now = length - done < piece ? length - done : piece;
        uint8_t *exact = malloc(now);
        cr_assert_not_null(exact);
        memcpy(exact, (const uint8_t *) body + done, now);
        r = pk_body_reader_feed(&reader, exact, now, NULL);
        while (r >= 0 && (r = pk_body_reader_next(&reader, &message)) > 0) {
            size_t count = 0;
            pk_buffer *run = NULL;
            pk_status status;
            cr_assert_eq(pk_frames_collect(&reader, &message, &count, &run), 0);
            pk_slice frames = {run->start, pk_buffer_length(run)};
            cr_assert_eq(
                pk_frames_check(&fixture.encoding, frames, count, message.compressed, &status), 0);
            memcpy(came.bytes + came.length, frames.bytes, frames.length);
            came.length += frames.length;
            came.messages += count;
            came.runs++;
            if (frames.length > came.longest)
                came.longest = frames.length;
            pk_buffer_unref(run);
        }
        memset(exact, 0xee, now);
        free(exact);
    }
    came.error = r < 0 ? r : pk_body_reader_end(&reader);
}

/* Plain, empty, flagged ones, a flagged empty one, and one longer than a piece. */
static const uint8_t mixed[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\2de"
                               "\1\0\0\0\4fghi\1\0\0\0\0\1\0\0\0\1j"
                               "\0\0\0\0\0\0\0\0\0\22klmnopqrstuvwxyz01\0\0\0\0\1Z";
#define MIXED_LENGTH (sizeof mixed - 1)
#define MIXED_MESSAGES 9

Test(protocol_frames, runs_come_to_what_came_in_at_every_cut, .init = set_up, .fini = tear_down)
{
    for (size_t piece = 1; piece <= MIXED_LENGTH; piece++) {
        start(&pk_protocol_grpc, 100);
        read_runs(mixed, MIXED_LENGTH, piece);
        cr_assert_eq(came.error, 0, "%zu", piece);
        cr_assert_eq(came.messages, MIXED_MESSAGES);
        cr_assert_eq(reader.messages, MIXED_MESSAGES);
        cr_assert_eq(came.length, MIXED_LENGTH);
        cr_assert_arr_eq(came.bytes, mixed, MIXED_LENGTH);
    }
    cr_assert_eq(came.runs, 3, "one for each change of the flags");
}

Test(protocol_frames, base64_comes_to_the_same, .init = set_up, .fini = tear_down)
{
    uint8_t text[200];
    size_t length = pk_base64_encode(text, mixed, MIXED_LENGTH, true);
    for (size_t piece = 1; piece <= length; piece++) {
        start(&pk_protocol_grpc_web_text, 100);
        read_runs(text, length, piece);
        cr_assert_eq(came.error, 0, "%zu", piece);
        cr_assert_eq(came.messages, MIXED_MESSAGES);
        cr_assert_eq(came.length, MIXED_LENGTH);
        cr_assert_arr_eq(came.bytes, mixed, MIXED_LENGTH);
    }
    cr_assert_eq(came.runs, 3);
}

Test(protocol_frames, what_is_refused_lets_those_before_it_pass, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *body;
        size_t length, messages;
        pk_code code;
    } rows[] = {
        {"\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\5ccccc\0\0\0\0\1d", 28, 2, PK_RESOURCE_EXHAUSTED},
        {"\0\0\0\0\1a\0\0\0\0\1b\2\0\0\0\1c\0\0\0\0\1d", 24, 2, PK_INTERNAL},
        {"\0\0\0\0\1a\0\0\0\0\1b\200\0\0\0\1c", 18, 2, PK_INTERNAL},
        {"\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\2c", 18, 2, PK_INTERNAL}, /* ends inside */
        {"\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0", 16, 2, PK_INTERNAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t piece = 1; piece <= rows[i].length; piece++) {
            start(&pk_protocol_grpc, 4);
            read_runs(rows[i].body, rows[i].length, piece);
            cr_assert_lt(came.error, 0, "%zu, %zu", i, piece);
            cr_assert_eq(came.messages, rows[i].messages, "%zu, %zu", i, piece);
            cr_assert_eq(reader.status.code, rows[i].code, "%zu, %zu", i, piece);
        }
    }
}

Test(protocol_frames, a_run_has_an_end_and_a_long_message_is_alone, .init = set_up,
     .fini = tear_down)
{
    static uint8_t body[90000];
    size_t length = 0, messages = 0;
    while (length < 50000) {
        pk_frame_write_prefix(body + length, 0, 6);
        length += PK_FRAME_PREFIX + 6;
        messages++;
    }
    pk_frame_write_prefix(body + length, 0, 30000);
    length += PK_FRAME_PREFIX + 30000;
    pk_frame_write_prefix(body + length, 0, 0);
    length += PK_FRAME_PREFIX;
    start(&pk_protocol_grpc, 100000);
    read_runs(body, length, length);
    cr_assert_eq(came.error, 0);
    cr_assert_eq(came.messages, messages + 2);
    cr_assert_eq(came.length, length);
    cr_assert_eq(came.longest, 30005);
    cr_assert_eq(came.runs, 50000 / PK_FRAMES_MOST + 1 + 2);
    /* Of small messages alone. */
    start(&pk_protocol_grpc, 100000);
    read_runs(body, 11 * messages, 11 * messages);
    cr_assert_leq(came.longest, PK_FRAMES_MOST);
    cr_assert_gt(came.longest, PK_FRAMES_MOST - 11);
}

Test(protocol_frames, a_message_that_was_gathered_is_not_copied, .init = set_up, .fini = tear_down)
{
    pk_body_message message;
    pk_buffer *run;
    size_t count;
    /* One byte longer than what the reader itself has room for, and an empty one. */
    static const uint8_t bytes[PK_FRAME_SHORT + 1 + PK_FRAME_PREFIX] = {
        1, 0, 0, 0, PK_FRAME_SHORT - PK_FRAME_PREFIX + 1, [PK_FRAME_SHORT + 1] = 1};
    start(&pk_protocol_grpc, 100);
    cr_assert_eq(pk_body_reader_feed(&reader, bytes, 7, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 0);
    cr_assert_eq(pk_body_reader_feed(&reader, bytes + 7, sizeof bytes - 7, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
    cr_assert_eq(pk_frames_collect(&reader, &message, &count, &run), 0);
    cr_assert_eq(run, message.holder);
    cr_assert_eq(count, 1);
    cr_assert_eq(pk_buffer_length(run), PK_FRAME_SHORT + 1);
    cr_assert_arr_eq(run->start, bytes, PK_FRAME_SHORT + 1);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
    cr_assert_eq(message.bytes.length, 0);
    cr_assert_arr_eq(run->start, bytes, PK_FRAME_SHORT + 1);
    pk_buffer_unref(run);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 0);
}

Test(protocol_frames, a_short_message_that_came_in_pieces_begins_a_run, .init = set_up,
     .fini = tear_down)
{
    pk_body_message message;
    pk_buffer *run;
    size_t count;
    start(&pk_protocol_grpc, 100);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) "\1\0\0\0\4ab", 7, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 0);
    cr_assert_eq(pk_body_reader_feed(&reader, (const uint8_t *) "cd\1\0\0\0\1e\1", 9, NULL), 0);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 1);
    cr_assert_eq(pk_frames_collect(&reader, &message, &count, &run), 0);
    cr_assert_eq(count, 2);
    cr_assert_eq(pk_buffer_length(run), 15);
    cr_assert_arr_eq(run->start, "\1\0\0\0\4abcd\1\0\0\0\1e", 15);
    pk_buffer_unref(run);
    cr_assert_eq(pk_body_reader_next(&reader, &message), 0);
}

Test(protocol_frames, frames_that_are_not_what_they_say_are_refused, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *frames;
        size_t length, count;
        bool compressed;
        pk_code code;
    } rows[] = {
        {"\0\0\0\0\0", 5, 1, false, PK_OK},
        {"\0\0\0\0\2ab\0\0\0\0\0", 12, 2, false, PK_OK},
        {"\1\0\0\0\2ab\1\0\0\0\0", 12, 2, true, PK_OK},
        {"", 0, 0, false, PK_INTERNAL},
        {"", 0, 1, false, PK_INTERNAL},
        {"\0\0\0\0\2ab\0\0\0\0\0", 12, 1, false, PK_INTERNAL},
        {"\0\0\0\0\2ab\0\0\0\0\0", 12, 3, false, PK_INTERNAL},
        {"\0\0\0\0\2ab\0\0\0\0", 11, 1, false, PK_INTERNAL},
        {"\0\0\0\0\2ab\0\0\0\0\1", 12, 2, false, PK_INTERNAL},
        {"\0\0\0\0\2ab\1\0\0\0\0", 12, 2, false, PK_INTERNAL},
        {"\1\0\0\0\2ab\0\0\0\0\0", 12, 2, true, PK_INTERNAL},
        {"\200\0\0\0\2ab", 7, 1, false, PK_INTERNAL},
        {"\0\377\377\377\377", 5, 1, false, PK_INTERNAL},
        {"\0\0\0\0\2ab\0\0\0\0\4cdef", 16, 2, false, PK_RESOURCE_EXHAUSTED},
    };
    fixture.encoding.send_limit = 3;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_status status = {PK_OK, {NULL, 0}, {NULL, 0}};
        int r = pk_frames_check(&fixture.encoding,
                                (pk_slice){(const uint8_t *) rows[i].frames, rows[i].length},
                                rows[i].count, rows[i].compressed, &status);
        cr_assert_eq(r == 0, rows[i].code == PK_OK, "%zu", i);
        cr_assert_eq(status.code, rows[i].code, "%zu", i);
    }
}

Test(protocol_frames, frames_are_cut_into_their_messages)
{
    pk_slice frames = {(const uint8_t *) "\0\0\0\0\2ab\0\0\0\0\0\0\0\0\0\1c", 18}, message;
    cr_assert(pk_frames_cut(&frames, &message) && slice_is(message, "ab"));
    cr_assert(pk_frames_cut(&frames, &message) && message.length == 0);
    cr_assert(pk_frames_cut(&frames, &message) && slice_is(message, "c"));
    cr_assert(!pk_frames_cut(&frames, &message));
}
