/* marshalling/frame.c: frames come out whole however their bytes come in. */
#include "marshalling/frame.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static counting_allocator counts;
static pk_memory memory;
static pk_buffer_pool pool;
static pk_frame_reader reader;

static void set_up(void)
{
    counts = (counting_allocator){0};
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    pk_buffer_pool_init(&pool, &memory);
    pk_frame_reader_init(&reader, &pool, 1000, 1);
}

static void tear_down(void)
{
    pk_frame_reader_done(&reader);
    pk_frame_reader_done(&reader);
    cr_expect_eq(pool.lent, 0);
    pk_buffer_pool_done(&pool);
    cr_expect_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
    cr_expect_eq(counts.blocks, 0);
}

static void feed(const void *bytes, size_t length)
{
    cr_assert_eq(pk_frame_reader_feed(&reader, bytes, length, NULL), 0);
}

/* Three frames: "abc", an empty one with a flag, 40 bytes of 'x'. */
static const uint8_t three[] = "\0\0\0\0\x03"
                               "abc"
                               "\x01\0\0\0\0"
                               "\0\0\0\0\x28"
                               "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
#define THREE_LENGTH (sizeof three - 1)

static void check_frame(size_t number, const pk_frame *frame)
{
    static const struct {
        uint8_t flags;
        const char *payload;
    } expected[] = {{0, "abc"}, {1, ""}, {0, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}};
    cr_assert_lt(number, 3);
    cr_expect_eq(frame->flags, expected[number].flags);
    cr_assert_eq(frame->payload.length, strlen(expected[number].payload));
    cr_expect_eq(memcmp(frame->payload.bytes, expected[number].payload, frame->payload.length), 0);
}

Test(frame, the_prefix_is_flags_and_a_big_endian_length)
{
    uint8_t prefix[PK_FRAME_PREFIX];
    pk_frame_write_prefix(prefix, 0x81, 0x01020304);
    cr_expect_eq(memcmp(prefix, "\x81\x01\x02\x03\x04", 5), 0);
    cr_expect_eq(pk_frame_read_length(prefix), 0x01020304);
    pk_frame_write_prefix(prefix, 0, UINT32_MAX);
    cr_expect_eq(pk_frame_read_length(prefix), UINT32_MAX);
}

Test(frame, whole_frames_in_one_chunk_are_not_copied, .init = set_up, .fini = tear_down)
{
    size_t number = 0;
    pk_frame frame;
    feed(three, THREE_LENGTH);
    while (pk_frame_reader_next(&reader, &frame) == 1) {
        check_frame(number++, &frame);
        cr_expect(frame.payload.bytes >= three && frame.payload.bytes <= three + THREE_LENGTH);
        cr_expect_null(frame.holder);
        cr_expect_not(frame.gathered);
    }
    cr_expect_eq(number, 3);
    cr_expect_eq(counts.requests, 0);
    cr_expect_not(pk_frame_reader_inside(&reader));
}

/* Each pair of cuts; each piece in a block of its own that is gone after it was read. */
Test(frame, every_split_gives_the_same_frames, .init = set_up, .fini = tear_down, .timeout = 60)
{
    for (size_t first = 0; first <= THREE_LENGTH; first++) {
        for (size_t second = first; second <= THREE_LENGTH; second++) {
            const size_t cuts[] = {0, first, second, THREE_LENGTH};
            size_t number = 0;
            for (size_t piece = 0; piece < 3; piece++) {
                size_t length = cuts[piece + 1] - cuts[piece];
                uint8_t *bytes = malloc(length + (length == 0));
                cr_assert_not_null(bytes);
                memcpy(bytes, three + cuts[piece], length);
                feed(bytes, length);
                pk_frame frame;
                int r;
                while ((r = pk_frame_reader_next(&reader, &frame)) == 1)
                    check_frame(number++, &frame);
                cr_assert_eq(r, 0);
                memset(bytes, 0xee, length);
                free(bytes);
            }
            cr_assert_eq(number, 3, "cut at %zu and %zu", first, second);
            cr_assert_not(pk_frame_reader_inside(&reader));
        }
    }
}

/* What holds a chunk, and how long that is there. */
enum holding {
    BORROWED, /* by the holder, as long as the chunk is read */
    KEPT,     /* the reader keeps what is left of it */
    RETAINED, /* who reads takes references to what payloads lie in */
    HOLDINGS,
};

/* Four frames: those above, and one that is not short. */
static void lay_four(uint8_t *bytes, size_t *ret_length)
{
    memcpy(bytes, three, THREE_LENGTH);
    pk_frame_write_prefix(bytes + THREE_LENGTH, 0, 70);
    memset(bytes + THREE_LENGTH + PK_FRAME_PREFIX, 'l', 70);
    *ret_length = THREE_LENGTH + PK_FRAME_PREFIX + 70;
}

struct retained {
    pk_buffer *holder;
    const uint8_t *bytes;
    size_t length;
};

Test(frame, every_split_of_chunks_with_a_holder_gives_the_same_frames, .init = set_up,
     .fini = tear_down, .timeout = 60)
{
    uint8_t bytes[200];
    size_t length;
    lay_four(bytes, &length);
    for (unsigned how = 0; how < 3 * length * length; how++) {
        enum holding holding = how / (length * length);
        const size_t one = how / length % length, other = how % length;
        if (other < one)
            continue;
        const size_t cuts[] = {0, one, other, length};
        struct retained retained[4];
        size_t count = 0, retained_count = 0;
        for (size_t piece = 0; piece < 3; piece++) {
            size_t size = cuts[piece + 1] - cuts[piece];
            pk_buffer *chunk = pk_buffer_get(&pool);
            cr_assert(chunk && pk_buffer_prepend(chunk, bytes + cuts[piece], size) == 0);
            cr_assert_eq(pk_frame_reader_feed(&reader, chunk->start, size, chunk), 0);
            uint8_t *start = chunk->start;
            pk_frame frame;
            int r;
            if (holding == KEPT) {
                cr_assert_eq(pk_frame_reader_keep(&reader), 0);
                if (size == 0 || chunk->references == 1)
                    memset(start, 0xee, size);
                pk_buffer_unref(chunk);
            }
            while ((r = pk_frame_reader_next(&reader, &frame)) == 1) {
                if (count < 3)
                    check_frame(count, &frame);
                cr_assert_eq(frame.payload.length, count == 3 ? 70 : frame.payload.length);
                bool in_chunk = frame.payload.bytes >= start && frame.payload.bytes <= start + size;
                cr_assert(!in_chunk || frame.holder == chunk);
                cr_assert_eq(frame.gathered, frame.holder && frame.holder != chunk);
                if (holding == RETAINED && frame.holder)
                    retained[retained_count++] = (struct retained){
                        pk_buffer_ref(frame.holder), frame.payload.bytes, frame.payload.length};
                count++;
            }
            cr_assert_eq(r, 0);
            if (holding != KEPT) {
                if (chunk->references == 1)
                    memset(start, 0xee, size);
                pk_buffer_unref(chunk);
            }
        }
        cr_assert_eq(count, 4, "%u: cut at %zu and %zu", (unsigned) holding, one, other);
        cr_assert_not(pk_frame_reader_inside(&reader));
        for (size_t i = 0; i < retained_count; i++) {
            for (size_t j = 0; j < retained[i].length; j++)
                cr_assert_eq(retained[i].bytes[j], retained[i].length == 70   ? 'l'
                                                   : retained[i].length == 40 ? 'x'
                                                                              : "abc"[j]);
            pk_buffer_unref(retained[i].holder);
        }
        feed("", 0); /* lets go of the last chunk */
        pk_frame none;
        cr_assert_eq(pk_frame_reader_next(&reader, &none), 0);
        cr_assert_eq(pool.lent, 0);
    }
}

/* The longest that is put together in the reader, and the shortest that is not. */
Test(frame, short_frames_take_no_buffer, .init = set_up, .fini = tear_down)
{
    for (size_t length = 0; length <= PK_FRAME_SHORT - PK_FRAME_PREFIX + 1; length++) {
        bool is_short = length <= PK_FRAME_SHORT - PK_FRAME_PREFIX;
        for (size_t cut = 1; cut < PK_FRAME_PREFIX + length; cut++) {
            uint8_t bytes[PK_FRAME_SHORT + 1];
            memset(bytes, 'x', sizeof bytes);
            pk_frame_write_prefix(bytes, 1, (uint32_t) length);
            pk_frame frame;
            feed(bytes, cut);
            cr_assert_eq(pk_frame_reader_next(&reader, &frame), 0);
            cr_assert(pk_frame_reader_inside(&reader));
            bool gathers = !is_short && cut >= PK_FRAME_PREFIX;
            cr_assert_eq(pk_frame_reader_held(&reader), gathers ? cut - PK_FRAME_PREFIX : 0);
            feed(bytes + cut, PK_FRAME_PREFIX + length - cut);
            cr_assert_eq(pk_frame_reader_next(&reader, &frame), 1);
            cr_assert_eq(frame.flags, 1);
            cr_assert_eq(frame.payload.length, length);
            cr_assert_eq(memcmp(frame.payload.bytes, bytes + PK_FRAME_PREFIX, length), 0);
            cr_assert_eq(frame.gathered, gathers);
            cr_assert_eq(pool.lent, gathers);
            cr_assert_eq(pk_frame_reader_next(&reader, &frame), 0);
            cr_assert_eq(pool.lent, 0);
        }
    }
}

Test(frame, a_gathered_payload_is_padded_and_its_own, .init = set_up, .fini = tear_down)
{
    uint8_t big[PK_FRAME_PREFIX + 512] = {0, 0, 0, 2, 0};
    pk_frame frame;
    feed(big, 300);
    cr_expect_eq(pk_frame_reader_next(&reader, &frame), 0);
    cr_expect(pk_frame_reader_inside(&reader));
    cr_expect_eq(pk_frame_reader_held(&reader), 295);
    feed(big + 300, sizeof big - 300);
    cr_assert_eq(pk_frame_reader_next(&reader, &frame), 1);
    cr_expect(frame.gathered);
    cr_assert_not_null(frame.holder);
    cr_expect_eq(frame.payload.length, 512);
    const uint8_t *room_end = frame.holder->memory + frame.holder->capacity;
    cr_expect_geq((size_t) (room_end - frame.payload.bytes), 512 + PK_FRAME_PADDING);
    /* Who wants it longer takes a reference. */
    pk_buffer_ref(frame.holder);
    pk_frame other;
    cr_expect_eq(pk_frame_reader_next(&reader, &other), 0);
    cr_expect_eq(pool.lent, 1);
    pk_buffer_unref(frame.holder);
    cr_expect_eq(pool.lent, 0);
}

Test(frame, the_limit_is_checked_at_the_prefix_and_equal_passes, .init = set_up, .fini = tear_down)
{
    static const struct {
        const char *prefix;
        int result;
        uint32_t length;
    } rows[] = {
        {"\0\0\0\x03\xe8", 0, 1000},
        {"\0\0\0\x03\xe9", PK_ERR_LIMIT, 1001},
        {"\0\xff\xff\xff\xff", PK_ERR_LIMIT, UINT32_MAX},
        {"\0\x80\0\0\0", PK_ERR_LIMIT, 0x80000000},
        {"\x02\0\0\0\0", PK_ERR_MALFORMED, 0},
        {"\x80\0\0\0\0", PK_ERR_MALFORMED, 0},
        {"\x80\xff\xff\xff\xff", PK_ERR_MALFORMED, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_frame frame;
        pk_frame_reader_done(&reader);
        pk_frame_reader_init(&reader, &pool, 1000, 1);
        size_t requests = counts.requests;
        feed(rows[i].prefix, 5);
        cr_expect_eq(pk_frame_reader_next(&reader, &frame), rows[i].result, "row %zu", i);
        cr_expect_eq(pk_frame_reader_length(&reader), rows[i].length);
        cr_expect_eq(pk_frame_reader_flags(&reader), (uint8_t) rows[i].prefix[0]);
        if (rows[i].result < 0) {
            cr_expect_eq(counts.requests, requests, "row %zu has kept something", i);
            cr_expect_eq(pk_frame_reader_next(&reader, &frame), rows[i].result, "stays");
        }
    }
}

Test(frame, memory_follows_the_bytes_that_came_and_not_the_promise, .init = set_up,
     .fini = tear_down)
{
    pk_frame frame;
    pk_frame_reader_init(&reader, &pool, 100u << 20, 0);
    feed("\0\x06\0\0\0xyz", 8); /* 96 MiB are announced */
    cr_expect_eq(pk_frame_reader_next(&reader, &frame), 0);
    cr_expect_lt(counts.peak, 2000);
}

Test(frame, what_is_left_of_a_chunk_can_be_kept, .init = set_up, .fini = tear_down)
{
    for (int with_holder = 0; with_holder < 2; with_holder++) {
        pk_buffer *chunk = pk_buffer_get(&pool);
        cr_assert(chunk && pk_buffer_prepend(chunk, three, THREE_LENGTH) == 0);
        pk_frame frame;
        cr_assert_eq(
            pk_frame_reader_feed(&reader, chunk->start, THREE_LENGTH, with_holder ? chunk : NULL),
            0);
        cr_assert_eq(pk_frame_reader_next(&reader, &frame), 1);
        cr_assert_eq(pk_frame_reader_keep(&reader), 0);
        cr_assert_eq(pk_frame_reader_keep(&reader), 0, "twice is once");
        cr_expect_eq(pk_frame_reader_left(&reader), THREE_LENGTH - 8);
        cr_expect_eq(pk_frame_reader_feed(&reader, three, 1, NULL), PK_ERR_STATE);
        if (!with_holder)
            memset(chunk->start, 0xee, THREE_LENGTH);
        pk_buffer_unref(chunk);
        for (size_t number = 1; number < 3; number++) {
            cr_assert_eq(pk_frame_reader_next(&reader, &frame), 1);
            check_frame(number, &frame);
            cr_expect_not_null(frame.holder);
        }
        cr_expect_eq(pk_frame_reader_next(&reader, &frame), 0);
        cr_expect_eq(pool.lent, 0);
    }
}

Test(frame, each_allocation_may_fail, .init = set_up, .fini = tear_down)
{
    for (size_t fail_at = 1; fail_at < 6; fail_at++) {
        uint8_t big[PK_FRAME_PREFIX + 1000] = {0, 0, 0, 3, 0xe8};
        pk_frame frame;
        int r = 0;
        pk_frame_reader_done(&reader);
        pk_buffer_pool_done(&pool);
        pk_memory_done(&memory);
        counts = (counting_allocator){.fail_at = fail_at, .fail_after = true};
        cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
        pk_frame_reader_init(&reader, &pool, 1000, 1);
        for (size_t at = 0; at < sizeof big && r == 0; at += 201) {
            feed(big + at, 201);
            r = pk_frame_reader_next(&reader, &frame);
        }
        cr_expect(r == 1 || r == PK_ERR_NOMEM);
        cr_expect_eq(r == 1, counts.requests < fail_at, "request %zu", fail_at);
    }
}
