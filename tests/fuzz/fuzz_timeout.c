/* marshalling/timeout.c: what is read is written as no less, and reads back the same. */
#include "marshalling/timeout.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t nanoseconds, back;
    if (pk_timeout_parse((pk_slice){data, size}, &nanoseconds) < 0)
        return 0;
    uint8_t text[PK_TIMEOUT_LENGTH_MAX];
    size_t length = pk_timeout_print(text, nanoseconds);
    if (length < 2 || length > sizeof text ||
        pk_timeout_parse((pk_slice){text, length}, &back) < 0 || back < nanoseconds)
        abort();
    return 0;
}
