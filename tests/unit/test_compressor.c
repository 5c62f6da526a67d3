/*
 * marshalling/compressor*.c: whole pieces and nothing else come through, limits hold, and nothing
 * is allocated once the states are there. Samples were written by python3's gzip and zlib modules.
 */
#include "marshalling/compressor.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>
#include <zlib.h>

#include <stdio.h>
#include <string.h>

static counting_allocator counts;
static pk_memory memory;
static pk_buffer_pool buffers;
static pk_compressor_pool pool;

static const pk_compressor *const both[] = {&pk_compressor_gzip, &pk_compressor_deflate};

static void set_up(void)
{
    counts = (counting_allocator){0};
    cr_assert_eq(pk_memory_init(&memory, COUNTING_ALLOCATOR(&counts)), 0);
    pk_buffer_pool_init(&buffers, &memory);
    pk_compressor_pool_init(&pool, &memory);
}

static void tear_down(void)
{
    pk_compressor_pool_done(&pool);
    cr_expect_eq(buffers.lent, 0);
    pk_buffer_pool_done(&buffers);
    cr_expect_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
    cr_expect_eq(counts.blocks, 0);
}

static pk_buffer *output(void)
{
    pk_buffer *buffer = pk_buffer_get(&buffers);
    cr_assert_not_null(buffer);
    pk_buffer_rewind_for_append(buffer, 0);
    return buffer;
}

static pk_slice contents(const pk_buffer *buffer)
{
    return (pk_slice){buffer->start, pk_buffer_length(buffer)};
}

/* Decompresses from a block of exactly its size. */
static int decompress(const pk_compressor *compressor, pk_slice piece, size_t limit,
                      pk_buffer *ret_plain)
{
    uint8_t *exact = malloc(piece.length + (piece.length == 0));
    cr_assert_not_null(exact);
    if (piece.length > 0)
        memcpy(exact, piece.bytes, piece.length);
    pk_buffer_rewind_for_append(ret_plain, 0);
    int r = pk_decompress(&pool, compressor, (pk_slice){exact, piece.length}, limit, ret_plain);
    free(exact);
    return r;
}

/* gzip.compress(HELLO, mtime=0) and zlib.compress(HELLO). */
#define HELLO "hello hello hello hello"
static const pk_slice hello[] = {
    PK_SLICE("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\x01\xe3"
             "\x51\x3d\x8d\x17\x00\x00\x00"),
    PK_SLICE("\x78\x9c\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\x01\x68\x03\x08\xb1"),
};

static bool is_hello(const pk_buffer *buffer)
{
    return pk_buffer_length(buffer) == sizeof HELLO - 1 &&
           memcmp(buffer->start, HELLO, sizeof HELLO - 1) == 0;
}

Test(compressor, reads_what_another_implementation_wrote, .init = set_up, .fini = tear_down)
{
    pk_buffer *plain = output();
    for (size_t i = 0; i < 2; i++) {
        cr_expect_eq(decompress(both[i], hello[i], 100, plain), 0, "%s", both[i]->name);
        cr_expect(is_hello(plain));
        /* Each reads its own form only: deflate is the zlib form, not the bare one. */
        cr_expect_eq(decompress(both[i], hello[1 - i], 100, plain), PK_ERR_MALFORMED);
        pk_slice bare = {hello[1].bytes + 2, hello[1].length - 6};
        cr_expect_eq(decompress(both[i], bare, 100, plain), PK_ERR_MALFORMED);
    }
    pk_buffer_unref(plain);
}

/* `length` bytes that compress well (even seed) or hardly (odd seed). */
static uint8_t *sample(size_t length, unsigned seed)
{
    uint8_t *bytes = malloc(length + (length == 0));
    cr_assert_not_null(bytes);
    uint32_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < length; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = seed % 2 ? (uint8_t) (state >> 24) : (uint8_t) ("abcd"[state >> 30]);
    }
    return bytes;
}

Test(compressor, zlib_itself_reads_what_is_written_and_so_do_we, .init = set_up, .fini = tear_down)
{
    static const size_t lengths[] = {0, 1, 511, 512, 4096, 65536, 1u << 20};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (unsigned seed = 0; seed < 2; seed++) {
            for (size_t j = 0; j < 2; j++) {
                size_t length = lengths[i];
                uint8_t *bytes = sample(length, seed), *back = malloc(length + 1);
                pk_buffer *piece = output(), *plain = output();
                cr_assert_eq(
                    pk_compress(&pool, both[j], (pk_slice){bytes, length}, SIZE_MAX, piece), 0);
                z_stream stream = {.next_in = piece->start,
                                   .avail_in = (unsigned) pk_buffer_length(piece),
                                   .next_out = back,
                                   .avail_out = (unsigned) length + 1};
                cr_assert_eq(inflateInit2(&stream, j == 0 ? 15 + 16 : 15), Z_OK);
                cr_expect_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
                cr_expect_eq(stream.total_out, length);
                cr_expect_eq(memcmp(back, bytes, length), 0);
                inflateEnd(&stream);
                cr_expect_eq(decompress(both[j], contents(piece), length, plain), 0);
                cr_expect_eq(pk_buffer_length(plain), length);
                cr_expect_eq(memcmp(plain->start, bytes, length), 0);
                pk_buffer_unref(piece);
                pk_buffer_unref(plain);
                free(bytes);
                free(back);
            }
        }
    }
}

Test(compressor, a_piece_that_is_cut_off_anywhere_is_malformed, .init = set_up, .fini = tear_down)
{
    pk_buffer *plain = output();
    for (size_t i = 0; i < 2; i++) {
        for (size_t length = 0; length < hello[i].length; length++)
            cr_expect_eq(decompress(both[i], (pk_slice){hello[i].bytes, length}, 100, plain),
                         PK_ERR_MALFORMED, "%s, %zu bytes", both[i]->name, length);
        cr_expect_eq(decompress(both[i], hello[i], 100, plain), 0, "the state is fit again");
    }
    pk_buffer_unref(plain);
}

/* Some bits of gzip's header (time, system) mean nothing; all others are covered by a checksum. */
Test(compressor, a_flipped_bit_is_an_error_or_changes_nothing, .init = set_up, .fini = tear_down)
{
    pk_buffer *plain = output();
    for (size_t i = 0; i < 2; i++) {
        size_t harmless = 0;
        for (size_t bit = 0; bit < 8 * hello[i].length; bit++) {
            uint8_t flipped[64];
            memcpy(flipped, hello[i].bytes, hello[i].length);
            flipped[bit / 8] ^= (uint8_t) (1u << bit % 8);
            int r = decompress(both[i], (pk_slice){flipped, hello[i].length}, 100, plain);
            cr_expect(r == PK_ERR_MALFORMED || r == PK_ERR_LIMIT || (r == 0 && is_hello(plain)),
                      "%s, bit %zu: %d", both[i]->name, bit, r);
            harmless += r == 0;
        }
        cr_expect_leq(harmless, i == 0 ? 6 * 8 + 1 : 3, "%zu", harmless);
    }
    pk_buffer_unref(plain);
}

Test(compressor, exactly_one_piece_is_taken, .init = set_up, .fini = tear_down)
{
    pk_buffer *plain = output();
    for (size_t i = 0; i < 2; i++) {
        uint8_t twice[64];
        memcpy(twice, hello[i].bytes, hello[i].length);
        memcpy(twice + hello[i].length, hello[i].bytes, hello[i].length);
        cr_expect_eq(decompress(both[i], (pk_slice){twice, 2 * hello[i].length}, 100, plain),
                     PK_ERR_MALFORMED, "two members");
        twice[hello[i].length] = 0;
        cr_expect_eq(decompress(both[i], (pk_slice){twice, hello[i].length + 1}, 100, plain),
                     PK_ERR_MALFORMED, "a byte behind the end");
        cr_expect_eq(decompress(both[i], (pk_slice){NULL, 0}, 100, plain), PK_ERR_MALFORMED,
                     "nothing at all");
    }
    pk_buffer_unref(plain);
}

Test(compressor, output_that_equals_the_limit_passes_and_one_more_byte_does_not, .init = set_up,
     .fini = tear_down)
{
    static const size_t lengths[] = {1, 23, 512, 513, 1024, 100000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t j = 0; j < 4; j++) {
            size_t length = lengths[i];
            uint8_t *bytes = sample(length, (unsigned) j / 2);
            pk_buffer *piece = output(), *other = output(), *plain = output();
            const pk_compressor *compressor = both[j % 2];
            pk_slice message = {bytes, length};
            cr_assert_eq(pk_compress(&pool, compressor, message, SIZE_MAX, piece), 0);
            cr_expect_eq(decompress(compressor, contents(piece), length, plain), 0);
            cr_expect_eq(decompress(compressor, contents(piece), length - 1, plain), PK_ERR_LIMIT);
            cr_expect_leq(pk_buffer_length(plain), length - 1);
            size_t size = pk_buffer_length(piece);
            cr_expect_eq(pk_compress(&pool, compressor, message, size - 1, other), PK_ERR_LIMIT);
            pk_buffer_rewind_for_append(other, 0);
            cr_expect_eq(pk_compress(&pool, compressor, message, size, other), 0);
            cr_expect_eq(pk_buffer_length(other), size);
            cr_expect_eq(memcmp(other->start, piece->start, size), 0);
            pk_buffer_unref(piece);
            pk_buffer_unref(other);
            pk_buffer_unref(plain);
            free(bytes);
        }
    }
}

/*
 * 1 GiB of zeros: 16 MiB of them, flushed so that the piece stands on its own, 64 times over. The
 * checksum at the end would be wrong, but nobody should get there.
 */
static uint8_t *make_bomb(size_t *ret_length)
{
    enum { CHUNK = 16 << 20, TIMES = 64, ROOM = 64 << 10 };
    uint8_t *zeros = calloc(1, CHUNK), *bomb = malloc((size_t) ROOM * TIMES);
    cr_assert(zeros && bomb);
    z_stream stream = {.next_out = bomb, .avail_out = ROOM};
    cr_assert_eq(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    cr_assert_eq(deflate(&stream, Z_FULL_FLUSH), Z_OK);
    size_t header = stream.total_out;
    stream.next_in = zeros;
    stream.avail_in = CHUNK;
    cr_assert_eq(deflate(&stream, Z_FULL_FLUSH), Z_OK);
    size_t size = stream.total_out - header;
    cr_assert_gt(stream.avail_out, 0);
    deflateEnd(&stream);
    for (size_t i = 1; i < TIMES; i++)
        memcpy(bomb + header + i * size, bomb + header, size);
    *ret_length = header + TIMES * size;
    free(zeros);
    return bomb;
}

Test(compressor, a_bomb_stops_at_the_limit_and_costs_no_more, .init = set_up, .fini = tear_down)
{
    const size_t limit = 4u << 20;
    size_t length;
    uint8_t *bomb = make_bomb(&length);
    cr_assert_lt(length, 1100u << 10);
    pk_buffer *plain = output();
    cr_expect_eq(pk_decompress(&pool, &pk_compressor_gzip, (pk_slice){bomb, length}, limit, plain),
                 PK_ERR_LIMIT);
    cr_expect_eq(pk_buffer_length(plain), limit);
    /* The rest is inflate's own state, some 40 KiB, and small blocks that are kept. */
    cr_expect_leq(counts.peak, limit + (128u << 10), "%zu", counts.peak);
    pk_buffer_unref(plain);
    free(bomb);
}

Test(compressor, nothing_is_allocated_after_the_first_messages, .init = set_up, .fini = tear_down)
{
    uint8_t *bytes = sample(20000, 0);
    size_t before = 0;
    for (int round = 0; round < 100; round++) {
        if (round == 2)
            before = counts.requests;
        for (size_t i = 0; i < 2; i++) {
            pk_buffer *piece = output(), *plain = output();
            cr_assert_eq(pk_compress(&pool, both[i], (pk_slice){bytes, 20000 - (size_t) round},
                                     20000, piece),
                         0);
            cr_assert_eq(decompress(both[i], contents(piece), 20000, plain), 0);
            pk_buffer_unref(piece);
            pk_buffer_unref(plain);
        }
    }
    cr_expect_eq(counts.requests, before);
    free(bytes);
}

Test(compressor, each_allocation_may_fail)
{
    uint8_t *bytes = sample(5000, 0);
    for (size_t i = 0; i < 2; i++) {
        size_t fail_at = 1, needed = SIZE_MAX;
        for (; fail_at <= needed; fail_at++) {
            set_up();
            pk_buffer *piece = output(), *plain = output();
            counts.fail_at = counts.requests + fail_at;
            counts.fail_after = fail_at % 2;
            int r = pk_compress(&pool, both[i], (pk_slice){bytes, 5000}, 5000, piece);
            if (r == 0)
                r = pk_decompress(&pool, both[i], contents(piece), 5000, plain);
            cr_expect(r == 0 || r == PK_ERR_NOMEM, "%d", r);
            if (r == 0 && counts.requests < counts.fail_at)
                needed = fail_at;
            counts.fail_at = 0;
            pk_buffer_rewind_for_append(piece, 0);
            pk_buffer_rewind_for_append(plain, 0);
            cr_expect_eq(pk_compress(&pool, both[i], (pk_slice){bytes, 5000}, 5000, piece), 0);
            cr_expect_eq(pk_decompress(&pool, both[i], contents(piece), 5000, plain), 0);
            cr_expect_eq(memcmp(plain->start, bytes, 5000), 0);
            pk_buffer_unref(piece);
            pk_buffer_unref(plain);
            tear_down();
            cr_assert_lt(fail_at, 100);
        }
        cr_expect_gt(fail_at, 5, "%s allocates", both[i]->name);
    }
    free(bytes);
}

/* ---- A compressor of the user's: pairs of count and byte; it keeps no state. ---- */

static int put(pk_compressor_output *out, uint8_t byte)
{
    size_t room;
    uint8_t *at = pk_compressor_output_room(out, &room);
    if (!at)
        return pk_compressor_output_error(out);
    *at = byte;
    pk_compressor_output_add(out, 1);
    return 0;
}

static int compress_runs(void *state, pk_slice message, pk_compressor_output *out)
{
    for (size_t i = 0, run; i < message.length; i += run) {
        for (run = 1; run < 255 && i + run < message.length; run++)
            if (message.bytes[i + run] != message.bytes[i])
                break;
        int r = put(out, (uint8_t) run);
        r = r < 0 ? r : put(out, message.bytes[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int decompress_runs(void *state, pk_slice piece, pk_compressor_output *out)
{
    if (piece.length % 2)
        return PK_ERR_MALFORMED;
    for (size_t i = 0; i < piece.length; i += 2)
        for (unsigned n = piece.bytes[i]; n > 0; n--) {
            int r = put(out, piece.bytes[i + 1]);
            if (r < 0)
                return r;
        }
    return 0;
}

Test(compressor, a_program_may_bring_its_own, .init = set_up, .fini = tear_down)
{
    static const pk_compressor runs = {
        .name = "runs", .compress = compress_runs, .decompress = decompress_runs};
    pk_compressor_set set;
    pk_compressor_set_init(&set);
    cr_assert_eq(pk_compressor_set_add(&set, &runs), 0);
    cr_assert_eq(pk_compressor_set_find(&set, PK_SLICE("runs")), &runs);
    pk_buffer *piece = output(), *plain = output();
    cr_assert_eq(pk_compress(&pool, &runs, PK_SLICE("aaaabb"), 4, piece), 0);
    cr_expect_eq(pk_buffer_length(piece), 4);
    cr_expect_eq(memcmp(piece->start,
                        "\x04"
                        "a\x02"
                        "b",
                        4),
                 0);
    cr_expect_eq(decompress(&runs, contents(piece), 6, plain), 0);
    cr_expect_eq(memcmp(plain->start, "aaaabb", 6), 0);
    cr_expect_eq(decompress(&runs, contents(piece), 5, plain), PK_ERR_LIMIT);
    pk_buffer_rewind_for_append(piece, 0);
    cr_expect_eq(pk_compress(&pool, &runs, PK_SLICE("aaaabb"), 3, piece), PK_ERR_LIMIT);
    pk_buffer_unref(piece);
    pk_buffer_unref(plain);
}

/* More compressors than places: the last place changes hands. */
Test(compressor, the_pool_serves_more_compressors_than_it_keeps, .init = set_up, .fini = tear_down)
{
    static pk_compressor many[PK_COMPRESSORS_MAX + 3]; /* used until the pool is done */
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
            many[i] = *both[i % 2];
            pk_buffer *piece = output(), *plain = output();
            cr_assert_eq(pk_compress(&pool, &many[i], PK_SLICE(HELLO), 100, piece), 0);
            cr_assert_eq(decompress(&many[i], contents(piece), 100, plain), 0);
            cr_expect(is_hello(plain));
            pk_buffer_unref(piece);
            pk_buffer_unref(plain);
        }
    }
}
