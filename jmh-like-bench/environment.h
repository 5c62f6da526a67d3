/*
 * What a figure depends on besides the code: machine, kernel, compiler, flags, build; and a test
 * of how steadily the machine runs.
 */
#ifndef PEKOE_BENCH_ENVIRONMENT_H
#define PEKOE_BENCH_ENVIRONMENT_H

#include "jmh-like-bench/text.h"

#include <stdbool.h>

/* All strings are owned. */
typedef struct pk_bench_environment {
    char *harness;  /* "pekoe-bench 0.1.0" */
    char *program;  /* path of the executable */
    char *compiler; /* "gcc 12.2.0" */
    char *flags;    /* "-O2 -g" */
    char *build;    /* commit, with -dirty where files differ from it */
    char *machine;  /* "AMD EPYC, 2 processors, Linux 6.1.0" */
    char *governor; /* "performance", "unknown" */
    char *layout;   /* address space randomization: "on", "off" */
} pk_bench_environment;

void pk_bench_environment_read(pk_bench_environment *environment);
void pk_bench_environment_done(pk_bench_environment *environment);

/* The heading of a run; each line starts with '#'. Warns of builds that measure nothing useful. */
void pk_bench_environment_print(pk_bench_text *text, const pk_bench_environment *environment);

/* How long the same fixed work took, again and again. */
typedef struct pk_bench_steadiness {
    double fastest; /* nanoseconds */
    double median;
    double deviation; /* median of the distances from the median */
} pk_bench_steadiness;

/* Takes some 40 ms of work on this processor. */
pk_bench_steadiness pk_bench_steadiness_measure(void);

/* Whether figures that differ by a few percent mean anything now. */
bool pk_bench_is_steady(const pk_bench_steadiness *steadiness);

#endif
