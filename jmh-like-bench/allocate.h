/*
 * Memory for the harness, which ends the program when there is none.
 *
 * A benchmark run that cannot hold its own results has nothing to report; the library proper never
 * does this. Used all over jmh-like-bench/, never inside the measured part.
 */
#ifndef PEKOE_BENCH_ALLOCATE_H
#define PEKOE_BENCH_ALLOCATE_H

#include <stddef.h>

/* `count` zeroed elements of `size` bytes; never NULL. Freed with free. */
void *pk_bench_zeroed(size_t count, size_t size);

/* A copy of the text. Freed with free. */
char *pk_bench_copy(const char *text);

/*
 * Room for one more element behind `count` of them: `array` or its successor, grown at powers of
 * two. Freed with free.
 */
void *pk_bench_room(void *array, size_t count, size_t size);

#endif
