/* Memory that is there or ends the program; see allocate.h. */
#include "jmh-like-bench/allocate.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *block)
{
    if (!block) {
        fputs("pekoe-bench: out of memory\n", stderr);
        exit(1);
    }
    return block;
}

void *pk_bench_zeroed(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size));
}

char *pk_bench_copy(const char *text)
{
    return checked(strdup(text));
}

void *pk_bench_room(void *array, size_t count, size_t size)
{
    if (count & (count - 1))
        return array;
    size_t wanted = count ? count * 2 : 1;
    if (wanted > SIZE_MAX / size)
        checked(NULL);
    return checked(realloc(array, wanted * size));
}
