/* jmh-like-bench/time_unit.c: what JMH 1.37's TimeValue.fromString takes, and how it prints it. */
#include "jmh-like-bench/time_unit.h"

#include <criterion/criterion.h>

#include <math.h>

Test(bench_time_unit, reads_what_jmh_reads)
{
    static const struct {
        const char *text;
        const char *printed; /* NULL: refused */
        uint64_t nanoseconds;
    } rows[] = {
        {"1", "1 s", 1000000000},
        {"10s", "10 s", UINT64_C(10000000000)},
        {"100ms", "100 ms", 100000000},
        {"5us", "5 us", 5000},
        {"7ns", "7 ns", 7},
        {"2m", "2 min", UINT64_C(120000000000)},
        {"2min", "2 min", UINT64_C(120000000000)},
        {"3hr", "3 hr", UINT64_C(10800000000000)},
        {"1day", "1 day", UINT64_C(86400000000000)},
        {"1 s", "1 s", 1000000000},
        {" 1s", "1 s", 1000000000},
        {"1sec", "1 s", 1000000000},
        {"0s", "single-shot", 0},
        {"3h", NULL, 0},
        {"1.5s", NULL, 0},
        {"-1s", NULL, 0},
        {"", NULL, 0},
        {"s", NULL, 0},
        {"1 parsec", NULL, 0},
        {"99999999999day", NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_time time = {0};
        char printed[48];
        cr_expect_eq(pk_bench_time_parse(rows[i].text, &time), rows[i].printed != NULL, "%s",
                     rows[i].text);
        if (!time.unit)
            continue;
        pk_bench_time_write(time, printed, sizeof printed);
        cr_expect_str_eq(printed, rows[i].printed);
        cr_expect_eq(pk_bench_time_nanoseconds(time), rows[i].nanoseconds);
    }
}

Test(bench_time_unit, finds_the_unit_in_a_score)
{
    static const struct {
        const char *score;
        double nanoseconds; /* 0: none */
    } rows[] = {{"ops/s", 1e9},   {"ops/us", 1e3}, {"ns/op", 1},         {"ms/op", 1e6},
                {"MB/sec", 0},    {"B/op", 0},     {"#/op", 0},          {"counts", 0},
                {"allocs/op", 0}, {"", 0},         {"ops/fortnight", 0}, {"/op", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const pk_bench_unit *unit = pk_bench_unit_of_score(rows[i].score);
        double found = unit ? unit->nanoseconds : 0;
        cr_expect_float_eq(found, rows[i].nanoseconds, 0, "%s", rows[i].score);
    }
    cr_expect_str_eq(pk_bench_score_unit("m")->label, "min");
    cr_expect_str_eq(pk_bench_score_unit("h")->label, "hr");
    cr_expect_null(pk_bench_score_unit("day"));
    cr_expect_null(pk_bench_score_unit("lightyear"));
}
