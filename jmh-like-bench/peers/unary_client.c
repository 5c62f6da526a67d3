/*
 * The unary client of `./dev bench peers`: calls with so many at once, and what they cost this
 * process.
 *
 *     unary-client ADDRESS CALLS AT_ONCE
 *
 * A tenth of the calls warm up first. Prints the CPU time of one call in microseconds (user and
 * system, all threads) and calls per second.
 */
#include "jmh-like-bench/peers/greeter_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double seconds(struct timeval time)
{
    return (double) time.tv_sec + (double) time.tv_usec / 1e6;
}

static double cpu_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    pk_loop *loop;
    pk_channel *channel;
    struct greeter_calls calls;
    unsigned long count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long at_once = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (count == 0 || at_once == 0 || pk_loop_new(&loop, NULL) < 0 ||
        pk_channel_new(&channel, loop, argv[1], NULL) < 0 ||
        !greeter_calls_init(&calls, loop, channel, greeter_say_hello, (unsigned) at_once))
        return fprintf(stderr, "usage: unary-client ADDRESS CALLS AT_ONCE\n"), 2;
    unsigned long warm_up = count / 10 + 1;
    greeter_calls_run(&calls, warm_up);
    double cpu = cpu_time(), start = now();
    greeter_calls_run(&calls, count);
    cpu = cpu_time() - cpu;
    double time = now() - start;
    if (calls.right != warm_up + count)
        return fprintf(stderr, "unary-client: %lu calls went wrong\n",
                       warm_up + count - (unsigned long) calls.right),
               1;
    printf("cpu_us=%.4f rate=%.0f\n", cpu * 1e6 / (double) count, (double) count / time);
    greeter_calls_done(&calls);
    pk_channel_free(channel);
    pk_loop_free(loop);
    return 0;
}
