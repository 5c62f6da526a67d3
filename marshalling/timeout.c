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

/* To three digits that count, upwards. */
static uint64_t round_up(uint64_t number)
{
    uint64_t step = 1;
    if (number > UINT64_MAX / 2)
        return number;
    while (number >= 1000 * step)
        step *= 10;
    return number % step == 0 ? number : number - number % step + step;
}

size_t pk_timeout_print(uint8_t out[PK_TIMEOUT_LENGTH_MAX], uint64_t nanoseconds)
{
    uint64_t rounded = round_up(nanoseconds), number = rounded;
    size_t unit = 0;
    /* The coarsest unit up to seconds that loses nothing; beyond, what 8 digits can hold. */
    while (unit < 3 && rounded > 0 && rounded % units[unit + 1].nanoseconds == 0)
        unit++;
    for (;; unit++) {
        uint64_t size = units[unit].nanoseconds;
        number = rounded / size + (rounded % size != 0);
        if (number <= LARGEST || unit == UNITS - 1)
            break;
    }
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
