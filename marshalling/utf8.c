/* UTF-8 by the table of well-formed byte sequences, Unicode standard 3.9, table 3-7. */
#include "marshalling/utf8.h"

#include <pekoe/generated_wire.h>

/* Bytes of plain ASCII (1 to 127) that the text begins with, found in steps of 16 and 8. */
static size_t plain_prefix(const uint8_t *text, size_t length)
{
    size_t i = 0;
#if PK_SSE2
    for (; length - i >= 16; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *) (const void *) (text + i));
        if (_mm_movemask_epi8(_mm_cmpgt_epi8(bytes, _mm_setzero_si128())) != 0xffff)
            return i;
    }
#endif
    for (; length - i >= 8; i += 8) {
        uint64_t word = pk_load64(text + i);
        /* A byte of 0 borrows, a byte above 127 has its high bit set. */
        if (((word - UINT64_C(0x0101010101010101)) | word) & UINT64_C(0x8080808080808080))
            return i;
    }
    return i;
}

static int is_continuation(uint8_t byte, uint8_t low, uint8_t high)
{
    return byte >= low && byte <= high;
}

/* Bytes of the sequence of two or more bytes that starts here; 0 where it is none. */
static size_t sequence_length(const uint8_t *text, size_t left)
{
    uint8_t lead = text[0];
    if (lead >= 0xc2 && lead <= 0xdf)
        return left >= 2 && is_continuation(text[1], 0x80, 0xbf) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : 0xbf;
        return left >= 3 && is_continuation(text[1], low, high) &&
                       is_continuation(text[2], 0x80, 0xbf)
                   ? 3
                   : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
        return left >= 4 && is_continuation(text[1], low, high) &&
                       is_continuation(text[2], 0x80, 0xbf) && is_continuation(text[3], 0x80, 0xbf)
                   ? 4
                   : 0;
    }
    return 0;
}

pk_text_verdict pk_utf8_check(const uint8_t *text, size_t length)
{
    pk_text_verdict verdict = PK_TEXT_OK;
    size_t i = 0;
    while (i < length) {
        i += plain_prefix(text + i, length - i);
        /* Byte by byte past what stopped the fast steps. */
        for (size_t steps = 0; i < length && steps < 8; steps++) {
            if (text[i] < 0x80) {
                if (text[i] == 0)
                    verdict = PK_TEXT_NUL;
                i++;
                continue;
            }
            size_t sequence = sequence_length(text + i, length - i);
            if (sequence == 0)
                return PK_TEXT_BAD;
            i += sequence;
        }
    }
    return verdict;
}
