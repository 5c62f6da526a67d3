/*
 * What a benchmark file needs: the table of benchmarks, what set-up and check may ask of the
 * harness, and the means to keep the compiler from removing the work.
 *
 * A benchmark file (bench_<what>.c) holds one `static const pk_benchmark` table and one
 * PK_BENCHMARKS(table) line, and is named in bench_sources in meson.build. It must not read the
 * clock, print, or count operations itself. docs/benchmarks.md shows a whole file.
 */
#ifndef PEKOE_BENCH_HARNESS_H
#define PEKOE_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thread of one trial, as set-up and check see it. Owned by the harness. */
typedef struct pk_bench_context pk_bench_context;

/* A parameter and its default values; the last row of a list has no name. */
typedef struct pk_bench_param {
    const char *name;
    const char *const *values; /* ends with NULL; `-p name=a,b` replaces them */
} pk_bench_param;

/* A list of values for pk_bench_param. */
#define PK_BENCH_VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})

/*
 * One benchmark. Every thread has its own state, as with JMH's Scope.Thread; all functions are
 * called on the thread that runs the benchmark. An iteration is: before_iteration, then `run` as
 * often as its time allows, then check, then after_iteration.
 */
typedef struct pk_benchmark {
    const char *name;      /* "pekoe.SomeBenchmark.someMethod", as in JSON and in the table */
    const char *operation; /* one line: what one operation does, shown with `-l -v extra` */
    const pk_bench_param *params; /* NULL for none */
    unsigned operations;          /* per invocation; 0 means 1; `-opi` replaces it */

    /* Once per trial. Returns the state, which may be NULL; an error goes to pk_bench_fail. */
    void *(*setup)(pk_bench_context *context);
    void (*teardown)(void *state); /* not called when setup failed or skipped */

    void (*before_iteration)(void *state);
    void (*after_iteration)(void *state);

    /*
     * The measured body: does its work `invocations` times, each time from the same start, and
     * gives each result to one of the pk_bench_keep functions. The loop is the benchmark's own so
     * that no call through a pointer is counted. Must not be declared inline or pure.
     */
    void (*run)(void *state, uint64_t invocations);

    /*
     * Once per iteration, outside the measured time: looks at what the last invocation left and,
     * where the state counts, at the number of invocations since before_iteration. Calls
     * pk_bench_fail when the result is not the right one; the trial then has no score. Required:
     * a benchmark without a check is refused.
     */
    void (*check)(pk_bench_context *context, void *state, uint64_t invocations);
} pk_benchmark;

/* Makes the benchmarks of one file known before main. One such line per file. */
#define PK_BENCHMARKS(table)                                               \
    __attribute__((constructor)) static void pk_bench_register_table(void) \
    {                                                                      \
        pk_bench_register(table, sizeof(table) / sizeof((table)[0]));      \
    }

/* Adds `count` benchmarks; the table is borrowed for ever. */
void pk_bench_register(const pk_benchmark *table, size_t count);

/* Runs the command line and returns the exit status of the program. */
int pk_bench_main(int argc, char **argv);

/*
 * The value of a parameter in this trial. Borrowed until the trial ends. A name that the benchmark
 * does not declare is a failure of the trial, and gives "".
 */
const char *pk_bench_value(pk_bench_context *context, const char *name);

/* The same, as an unsigned decimal number; anything else is a failure of the trial and gives 0. */
uint64_t pk_bench_number(pk_bench_context *context, const char *name);

/* 0 for the first thread of a trial. */
unsigned pk_bench_thread(const pk_bench_context *context);

/* Ends the trial with an error. The first text of a trial is the one that is shown. */
void pk_bench_fail(pk_bench_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Ends the trial without a score, and not as a failure: for what this build or this machine cannot
 * do, such as a peer's library that is not there. From setup only.
 */
void pk_bench_skip(pk_bench_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For checks: fails with the condition's text. */
#define PK_BENCH_EXPECT(context, condition)                                               \
    do {                                                                                  \
        if (!(condition))                                                                 \
            pk_bench_fail(context, "%s:%d: expected %s", __FILE__, __LINE__, #condition); \
    } while (0)

/*
 * For checks: adds a secondary metric to this iteration. Over all iterations it is averaged; over
 * threads it is summed. `label` and `unit` are copied.
 */
void pk_bench_metric_add(pk_bench_context *context, const char *label, const char *unit,
                         double value);

/* The memory behind `pointer` counts as read, and all memory as changed, at this place. */
static inline void pk_bench_keep(const void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

/* The value counts as used. For integers, pointers and floating point numbers. */
#define pk_bench_keep_value(value)                          \
    do {                                                    \
        __typeof__(value) pk_kept_ = (value);               \
        __asm__ volatile("" : : "rm"(pk_kept_) : "memory"); \
    } while (0)

/* The compiler no longer knows what the variable holds, so nothing can be computed beforehand. */
#define pk_bench_hide(variable) __asm__ volatile("" : "+rm"(variable) : : "memory")

/* Nothing is moved across this place. */
#define pk_bench_barrier() __asm__ volatile("" : : : "memory")

#endif
