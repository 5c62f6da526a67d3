/* Units and lengths of time; see time_unit.h. */
#include "jmh-like-bench/time_unit.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const pk_bench_unit units[] = {
    {"ns", 1, 1},
    {"us", 1e3, 1000},
    {"ms", 1e6, 1000000},
    {"s", 1e9, 1000000000},
    {"min", 6e10, UINT64_C(60000000000)},
    {"hr", 3.6e12, UINT64_C(3600000000000)},
    {"day", 8.64e13, UINT64_C(86400000000000)},
};

#define UNIT_COUNT (sizeof units / sizeof units[0])

const pk_bench_unit pk_bench_nanosecond = {"ns", 1, 1};
const pk_bench_unit pk_bench_second = {"s", 1e9, 1000000000};

static const pk_bench_unit *find(const char *label)
{
    if (strcasecmp(label, "m") == 0)
        label = "min";
    if (strcasecmp(label, "sec") == 0)
        label = "s";
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (strcasecmp(label, units[i].label) == 0)
            return &units[i];
    return NULL;
}

bool pk_bench_time_parse(const char *text, pk_bench_time *ret_time)
{
    while (isspace((unsigned char) *text))
        text++;
    if (!isdigit((unsigned char) *text))
        return false;
    char *end;
    unsigned long long count = strtoull(text, &end, 10);
    while (isspace((unsigned char) *end))
        end++;
    const pk_bench_unit *unit = *end ? find(end) : &units[3];
    if (!unit || count > UINT64_MAX / 2 / unit->factor)
        return false;
    ret_time->count = count;
    ret_time->unit = unit;
    return true;
}

void pk_bench_time_write(pk_bench_time time, char *bytes, size_t room)
{
    if (time.count == 0)
        snprintf(bytes, room, "single-shot");
    else
        snprintf(bytes, room, "%" PRIu64 " %s", time.count, time.unit->label);
}

uint64_t pk_bench_time_nanoseconds(pk_bench_time time)
{
    return time.count * time.unit->factor;
}

const pk_bench_unit *pk_bench_score_unit(const char *name)
{
    if (strcasecmp(name, "h") == 0)
        name = "hr";
    const pk_bench_unit *unit = find(name);
    return unit == &units[UNIT_COUNT - 1] ? NULL : unit;
}

const pk_bench_unit *pk_bench_unit_of_score(const char *score_unit)
{
    const char *slash = strchr(score_unit, '/');
    if (!slash)
        return NULL;
    if (strcmp(slash, "/op") != 0)
        return strncmp(score_unit, "ops/", 4) == 0 ? find(slash + 1) : NULL;
    char label[8];
    size_t length = (size_t) (slash - score_unit);
    if (length >= sizeof label)
        return NULL;
    memcpy(label, score_unit, length);
    label[length] = '\0';
    return find(label);
}

uint64_t pk_bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}
