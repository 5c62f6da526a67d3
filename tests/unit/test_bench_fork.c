/* jmh-like-bench/fork.c: the records on the pipe. Whole forks are in bench_program.py. */
#include "jmh-like-bench/fork.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct heard {
    unsigned begins, ends, number;
    bool warmup;
    double score;
    size_t points, extras;
    char label[32], unit[32], why[64];
};

static void on_begin(void *self, bool warmup, unsigned number)
{
    struct heard *heard = self;
    heard->begins++;
    heard->warmup = warmup;
    heard->number = number;
}

static void on_end(void *self, const pk_bench_iteration *iteration)
{
    struct heard *heard = self;
    heard->ends++;
    heard->score = iteration->score;
    heard->points = iteration->point_count;
    heard->extras = iteration->extras.count;
    if (iteration->extras.count > 0) {
        strcpy(heard->label, iteration->extras.items[0].label);
        strcpy(heard->unit, iteration->extras.items[0].unit);
    }
}

static void on_failed(void *self, const char *why)
{
    struct heard *heard = self;
    snprintf(heard->why, sizeof heard->why, "%s", why);
}

static void on_skipped(void *self, const char *why)
{
    struct heard *heard = self;
    snprintf(heard->why, sizeof heard->why, "skipped: %s", why);
}

Test(bench_fork, records_become_iterations)
{
    static const char *const lines[] = {"B 0 3",
                                        "P 0x1.8p+1 7",
                                        "P 0x1p+2 1",
                                        "S 0 0x1p+6 B/op\tgc.alloc.rate.norm",
                                        "R 0x1.9p+6 0x1p+0",
                                        "D"};
    struct heard heard = {0};
    pk_bench_sink sink = {on_begin, on_end, on_failed, on_skipped, &heard};
    pk_bench_iteration iteration = {0};
    pk_bench_fork_end end = PK_BENCH_FORK_OPEN;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cr_expect_eq(end, PK_BENCH_FORK_OPEN);
        cr_expect(pk_bench_fork_line(lines[i], &iteration, &sink, &end), "%s", lines[i]);
    }
    cr_expect_eq(end, PK_BENCH_FORK_DONE);
    cr_expect_eq(heard.begins, 1);
    cr_expect_eq(heard.ends, 1);
    cr_expect_eq(heard.number, 3);
    cr_expect_not(heard.warmup);
    cr_expect_float_eq(heard.score, 100, 0);
    cr_expect_eq(heard.points, 2);
    cr_expect_eq(heard.extras, 1);
    cr_expect_str_eq(heard.label, "gc.alloc.rate.norm");
    cr_expect_str_eq(heard.unit, "B/op");
    cr_expect_null(iteration.points);
}

Test(bench_fork, a_failure_is_passed_on)
{
    struct heard heard = {0};
    pk_bench_sink sink = {on_begin, on_end, on_failed, on_skipped, &heard};
    pk_bench_iteration iteration = {0};
    pk_bench_fork_end end = PK_BENCH_FORK_OPEN;
    cr_expect(pk_bench_fork_line("F out of tea", &iteration, &sink, &end));
    cr_expect_eq(end, PK_BENCH_FORK_FAILED);
    cr_expect_str_eq(heard.why, "out of tea");
    end = PK_BENCH_FORK_OPEN;
    cr_expect(pk_bench_fork_line("K no tea here", &iteration, &sink, &end));
    cr_expect_eq(end, PK_BENCH_FORK_FAILED);
    cr_expect_str_eq(heard.why, "skipped: no tea here");
}

Test(bench_fork, other_lines_are_refused)
{
    static const char *const lines[] = {
        "", "X", "B", "B 1", "P", "P 1", "R", "S 0 1", "S 0 1 B/op", "S 9 0x1p+0 u\tl", "hello"};
    struct heard heard = {0};
    pk_bench_sink sink = {on_begin, on_end, on_failed, on_skipped, &heard};
    pk_bench_iteration iteration = {0};
    pk_bench_fork_end end = PK_BENCH_FORK_OPEN;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect_not(pk_bench_fork_line(lines[i], &iteration, &sink, &end), "%s", lines[i]);
    cr_expect_eq(heard.begins + heard.ends, 0);
    cr_expect_eq(end, PK_BENCH_FORK_OPEN);
}
