/*
 * gzip and deflate over zlib. A state is one z_stream that is reset before each message, so after
 * the first message nothing is allocated. Called through the pk_compressor table only.
 *
 * Exactly one complete gzip member (zlib stream) is a message: RFC 1952 allows several members in a
 * row, but no gRPC implementation writes them, and what follows the end is refused as malformed.
 */
#define ZLIB_CONST
#include <pekoe/compressor.h>

#include <zlib.h>

#include <limits.h>

#define GZIP_WINDOW (MAX_WBITS + 16) /* how zlib is told to use gzip's header and trailer */
#define ZLIB_WINDOW MAX_WBITS
#define MEMORY_LEVEL 8 /* zlib's default */

struct zlib_state {
    z_stream stream;
    pk_allocator allocator;
};

static void *zlib_alloc(void *opaque, unsigned count, unsigned size)
{
    const pk_allocator *allocator = opaque;
    size_t bytes;
    if (__builtin_mul_overflow((size_t) count, (size_t) size, &bytes) || bytes == 0)
        return NULL;
    return allocator->resize(allocator->context, NULL, bytes);
}

static void zlib_free(void *opaque, void *block)
{
    const pk_allocator *allocator = opaque;
    allocator->resize(allocator->context, block, 0);
}

static struct zlib_state *state_new(const pk_allocator *allocator)
{
    struct zlib_state *state = allocator->resize(allocator->context, NULL, sizeof *state);
    if (!state)
        return NULL;
    *state = (struct zlib_state){.allocator = *allocator};
    state->stream.zalloc = zlib_alloc;
    state->stream.zfree = zlib_free;
    state->stream.opaque = &state->allocator;
    return state;
}

static void state_free(struct zlib_state *state)
{
    pk_allocator allocator = state->allocator;
    allocator.resize(allocator.context, state, 0);
}

static void *compress_state_new(const pk_allocator *allocator, int window)
{
    struct zlib_state *state = state_new(allocator);
    if (state && deflateInit2(&state->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window,
                              MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        state_free(state);
        state = NULL;
    }
    return state;
}

static void *gzip_compress_state_new(const pk_allocator *allocator)
{
    return compress_state_new(allocator, GZIP_WINDOW);
}

static void *deflate_compress_state_new(const pk_allocator *allocator)
{
    return compress_state_new(allocator, ZLIB_WINDOW);
}

static void compress_state_free(void *opaque)
{
    struct zlib_state *state = opaque;
    deflateEnd(&state->stream);
    state_free(state);
}

static void *decompress_state_new(const pk_allocator *allocator, int window)
{
    struct zlib_state *state = state_new(allocator);
    if (state && inflateInit2(&state->stream, window) != Z_OK) {
        state_free(state);
        state = NULL;
    }
    return state;
}

static void *gzip_decompress_state_new(const pk_allocator *allocator)
{
    return decompress_state_new(allocator, GZIP_WINDOW);
}

static void *deflate_decompress_state_new(const pk_allocator *allocator)
{
    return decompress_state_new(allocator, ZLIB_WINDOW);
}

static void decompress_state_free(void *opaque)
{
    struct zlib_state *state = opaque;
    inflateEnd(&state->stream);
    state_free(state);
}

static unsigned clamp(size_t length)
{
    return length < UINT_MAX ? (unsigned) length : UINT_MAX;
}

static int compress_message(void *opaque, pk_slice message, pk_compressor_output *output)
{
    z_stream *stream = &((struct zlib_state *) opaque)->stream;
    if (message.length > UINT_MAX)
        return PK_ERR_LIMIT; /* no frame can carry it */
    deflateReset(stream);
    stream->next_in = message.bytes;
    stream->avail_in = (unsigned) message.length;
    int r;
    do {
        size_t room;
        uint8_t *at = pk_compressor_output_room(output, &room);
        if (!at)
            return pk_compressor_output_error(output);
        unsigned given = clamp(room);
        stream->next_out = at;
        stream->avail_out = given;
        r = deflate(stream, Z_FINISH);
        pk_compressor_output_add(output, given - stream->avail_out);
    } while (r == Z_OK || r == Z_BUF_ERROR);
    return r == Z_STREAM_END ? 0 : PK_ERR_INVALID;
}

/* One call of inflate with room for output, or with a byte that must stay unused at the limit. */
static int inflate_some(z_stream *stream, pk_compressor_output *output, int *ret_error)
{
    size_t room;
    uint8_t spare, *at = pk_compressor_output_room(output, &room);
    unsigned given = at ? clamp(room) : 1;
    stream->next_out = at ? at : &spare;
    stream->avail_out = given;
    int r = inflate(stream, Z_NO_FLUSH);
    if (at)
        pk_compressor_output_add(output, given - stream->avail_out);
    else if (stream->avail_out == 0 || pk_compressor_output_error(output) != PK_ERR_LIMIT)
        *ret_error = pk_compressor_output_error(output);
    return r;
}

static int decompress_piece(void *opaque, pk_slice piece, pk_compressor_output *output)
{
    z_stream *stream = &((struct zlib_state *) opaque)->stream;
    if (piece.length > UINT_MAX)
        return PK_ERR_LIMIT;
    inflateReset(stream);
    stream->next_in = piece.bytes;
    stream->avail_in = (unsigned) piece.length;
    for (;;) {
        int error = 0;
        int r = inflate_some(stream, output, &error);
        if (error)
            return error;
        if (r == Z_STREAM_END)
            return stream->avail_in == 0 ? 0 : PK_ERR_MALFORMED;
        if (r == Z_MEM_ERROR)
            return PK_ERR_NOMEM;
        /* Output room that is left over means that the input has ended too soon. */
        if ((r != Z_OK && r != Z_BUF_ERROR) || stream->avail_out > 0)
            return PK_ERR_MALFORMED;
    }
}

const pk_compressor pk_compressor_gzip = {
    .name = "gzip",
    .compress_state_new = gzip_compress_state_new,
    .compress_state_free = compress_state_free,
    .decompress_state_new = gzip_decompress_state_new,
    .decompress_state_free = decompress_state_free,
    .compress = compress_message,
    .decompress = decompress_piece,
};

const pk_compressor pk_compressor_deflate = {
    .name = "deflate",
    .compress_state_new = deflate_compress_state_new,
    .compress_state_free = compress_state_free,
    .decompress_state_new = deflate_decompress_state_new,
    .decompress_state_free = decompress_state_free,
    .compress = compress_message,
    .decompress = decompress_piece,
};
