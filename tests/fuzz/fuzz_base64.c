/*
 * core/base64.c: what decodes encodes to the same text again, and a stream gives the same bytes
 * however it is cut. The first byte of the input is the size of the pieces.
 */
#include "core/base64.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 65536)
        return 0;
    size_t piece = data[0] % 16u + 1, length = 0, whole = 0, cut = 0;
    const uint8_t *text = data + 1;
    size--;
    uint8_t *bytes = malloc(pk_base64_decoded_max(size)), *again = malloc(size + 4);
    uint8_t *pieces = malloc(2 * size + 64);
    if (!bytes || !again || !pieces)
        abort();
    if (pk_base64_decode(bytes, (pk_slice){text, size}, &length) == 0) {
        size_t bare = pk_base64_encode(again, bytes, length, false);
        check(bare <= size && memcmp(again, text, bare) == 0);
        for (size_t i = bare; i < size; i++)
            check(text[i] == '=');
    }
    pk_base64_stream stream = {0}, cut_stream = {0};
    whole = pk_base64_stream_decode(&stream, bytes, text, size);
    check(whole <= pk_base64_decoded_max(size));
    for (size_t at = 0; at < size; at += piece) {
        size_t now = size - at < piece ? size - at : piece;
        size_t got = pk_base64_stream_decode(&cut_stream, pieces + cut, text + at, now);
        check(got <= pk_base64_decoded_max(now));
        cut += got;
    }
    check(whole == cut && memcmp(bytes, pieces, cut) == 0);
    check(stream.malformed == cut_stream.malformed);
    check(pk_base64_stream_complete(&stream) == pk_base64_stream_complete(&cut_stream));
    free(bytes);
    free(again);
    free(pieces);
    return 0;
}
