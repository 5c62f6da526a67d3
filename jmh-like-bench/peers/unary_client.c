/*
 * The unary client of `./dev bench peers`: calls with so many at once, and what they cost this
 * process.
 *
 *     unary-client ADDRESS CALLS AT_ONCE
 *
 * A tenth of the calls warm up first. Prints the CPU time of one call in microseconds (user and
 * system, all threads) and calls per second. Stubs, futures and options are used as a program uses
 * them: each call has a deadline, its reply is looked at.
 */
#include <pekoe/pekoe.h>

#include "helloworld.pekoe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static pk_loop *loop;
static pk_channel *channel;
static unsigned long left, going, wrong;

static void start_call(void);

static pk_future check(const void *value, void *arg)
{
    const Helloworld__HelloReply *reply = value;
    wrong += strcmp(reply->message, "Hello, world") != 0;
    return pk_done(NULL);
}

static pk_future count_failure(const pk_status *status, void *arg)
{
    wrong++;
    return pk_done(NULL);
}

static void next_call(void *arg)
{
    going--;
    if (left > 0)
        start_call();
    else if (going == 0)
        pk_loop_stop(loop);
}

static void start_call(void)
{
    Helloworld__HelloRequest request = HELLOWORLD__HELLO_REQUEST__INIT;
    request.name = (char *) "world";
    left--;
    going++;
    pk_future reply =
        helloworld_greeter_say_hello(channel, &request, PK_CALL_OPTS(.timeout_ms = 20000));
    pk_future done = pk_recover(pk_then(reply, check, NULL), count_failure, NULL);
    pk_detach(pk_finally(done, next_call, NULL));
}

static void run(unsigned long calls, unsigned long at_once)
{
    left = calls;
    for (unsigned long i = 0; i < at_once && left > 0; i++)
        start_call();
    pk_loop_run(loop);
}

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
    if (argc != 4 || pk_loop_new(&loop, NULL) < 0 ||
        pk_channel_new(&channel, loop, argv[1], NULL) < 0)
        return fprintf(stderr, "usage: unary-client ADDRESS CALLS AT_ONCE\n"), 2;
    unsigned long calls = strtoul(argv[2], NULL, 10), at_once = strtoul(argv[3], NULL, 10);
    run(calls / 10 + 1, at_once);
    double cpu = cpu_time(), start = now();
    run(calls, at_once);
    cpu = cpu_time() - cpu;
    double time = now() - start;
    if (wrong > 0)
        return fprintf(stderr, "unary-client: %lu calls went wrong\n", wrong), 1;
    printf("cpu_us=%.4f rate=%.0f\n", cpu * 1e6 / (double) calls, (double) calls / time);
    pk_channel_free(channel);
    pk_loop_free(loop);
    return 0;
}
