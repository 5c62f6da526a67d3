/* grpc-timeout: see timeout.h. */
#include "marshalling/timeout.h"

#define DIGITS_MAX 8u
#define LARGEST 99999999u /* with 8 digits */

static const struct unit {
    uint8_t letter;
    uint64_t nanoseconds;
} units[] = {
    /* The finest first: the order in which the writer tries them. */
    {'n', 1},
    {'u', 1000},
    {'m', 1000 * 1000},
    {'S', 1000 * 1000 * 1000},
    {'M', UINT64_C(60) * 1000 * 1000 * 1000},
    {'H', UINT64_C(3600) * 1000 * 1000 * 1000},
};
#define UNITS (sizeof units / sizeof *units)

int pk_timeout_parse(pk_slice value, uint64_t *ret_nanoseconds)
{
    if (value.length < 2 || value.length > PK_TIMEOUT_LENGTH_MAX)
        return PK_ERR_MALFORMED;
    uint64_t number = 0;
    for (size_t i = 0; i < value.length - 1; i++) {
        unsigned digit = (unsigned) value.bytes[i] - '0';
        if (digit > 9)
            return PK_ERR_MALFORMED;
        number = number * 10 + digit;
    }
    for (size_t i = 0; i < UNITS; i++) {
        if (units[i].letter != value.bytes[value.length - 1])
            continue;
        if (__builtin_mul_overflow(number, units[i].nanoseconds, ret_nanoseconds))
            *ret_nanoseconds = UINT64_MAX;
        return 0;
    }
    return PK_ERR_MALFORMED;
}

size_t pk_timeout_print(uint8_t out[PK_TIMEOUT_LENGTH_MAX], uint64_t nanoseconds)
{
    uint64_t number = LARGEST;
    size_t unit = 0;
    for (; unit < UNITS; unit++) {
        uint64_t size = units[unit].nanoseconds;
        uint64_t rounded_up = nanoseconds / size + (nanoseconds % size != 0);
        if (rounded_up <= LARGEST) {
            number = rounded_up;
            break;
        }
    }
    if (unit == UNITS)
        unit = UNITS - 1;
    uint8_t digits[DIGITS_MAX];
    size_t count = 0, length = 0;
    do {
        digits[count++] = (uint8_t) ('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        out[length++] = digits[--count];
    out[length++] = units[unit].letter;
    return length;
}
