/*
 * transport/http1_parser.c: the bytes of a client, read whole and in pieces, must mean the same.
 * The first byte says how large the pieces are and whether the limit of the fields is small.
 */
#include "../support/http1_reading.h"

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
    if (size == 0)
        return 0;
    size_t piece = 1u + (data[0] & 0x3f), header_bytes = data[0] & 0x80 ? 256 : 65536;
    data++;
    size--;
    /* A connection brings one request after the other; each is looked at alone. */
    for (;;) {
        struct reading whole, pieces;
        reading_of(&whole, data, size, size ? size : 1, header_bytes);
        reading_of(&pieces, data, size, piece, header_bytes);
        check(whole.end == pieces.end);
        check(whole.end == READING_REFUSED ? whole.status >= 400 && whole.why == pieces.why
                                           : whole.eaten == pieces.eaten);
        check(whole.end == READING_REFUSED || (whole.length == pieces.length &&
                                               memcmp(whole.text, pieces.text, whole.length) == 0));
        size_t eaten = whole.eaten;
        bool complete = whole.end == READING_COMPLETE;
        check(eaten <= size && (!complete || eaten > 0));
        reading_done(&whole);
        reading_done(&pieces);
        if (!complete)
            return 0;
        data += eaten;
        size -= eaten;
    }
}
