/* core/percent.c: any bytes survive being encoded, and decoding any text stays within it. */
#include "core/percent.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_slice input = {data, size};
    size_t expected = pk_percent_encoded_length(input);
    uint8_t *text = malloc(expected + 1), *back = malloc(expected + 1), *decoded = malloc(size + 1);
    if (!text || !back || !decoded)
        abort();
    size_t length = pk_percent_encode(text, input);
    if (length != expected)
        abort();
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            abort();
    if (pk_percent_decode(back, (pk_slice){text, length}) != size || memcmp(back, data, size) != 0)
        abort();
    size_t short_length = pk_percent_decode(decoded, input);
    if (short_length > size || (!pk_percent_present(input) && short_length != size))
        abort();
    free(text);
    free(back);
    free(decoded);
    return 0;
}
