/*
 * jmh-like-bench/report_text.c against JMH 1.37: its ScoreFormatter row by row, and a whole table
 * that it printed of the results in support/jmh/result.json.
 */
#include "jmh-like-bench/report.h"
#include "jmh-like-bench/result_reader.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    double score;
    const char *text, *error, *latex;
} rows[] = {
    {0, "≈ 0", "0.001", "$\\approx 0$"},
    {1e-9, "≈ 10⁻⁹", "0.001", "$\\approx 10^{-9}$"},
    {4e-4, "≈ 10⁻³", "0.001", "$\\approx 10^{-3}$"},
    {4.9999e-4, "≈ 10⁻³", "0.001", "$\\approx 10^{-3}$"},
    {5e-4, "0.001", "0.001", "0.001"},
    {0.0123456, "0.012", "0.012", "0.012"},
    {3e-5, "≈ 10⁻⁵", "0.001", "$\\approx 10^{-5}$"},
    {9.9e-7, "≈ 10⁻⁶", "0.001", "$\\approx 10^{-6}$"},
    {1e-10, "≈ 10⁻¹⁰", "0.001", "$\\approx 10^{-10}$"},
    {60663084.568, "60663084.568", "60663084.568", "60663084.568"},
    {NAN, "NaN", "NaN", "NaN"},
    {INFINITY, "Infinity", "Infinity", "Infinity"},
};

Test(bench_report_text, scores_are_written_as_jmh_writes_them)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = pk_bench_format_score(rows[i].score);
        char *error = pk_bench_format_error(rows[i].score);
        char *latex = pk_bench_format_score_latex(rows[i].score);
        cr_expect_str_eq(text, rows[i].text);
        cr_expect_str_eq(error, rows[i].error);
        cr_expect_str_eq(latex, rows[i].latex);
        free(text);
        free(error);
        free(latex);
    }
}

static void read_file(pk_bench_text *text, const char *path)
{
    char bytes[4096];
    size_t length;
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while ((length = fread(bytes, 1, sizeof bytes, file)) > 0)
        pk_bench_text_add(text, bytes, length);
    fclose(file);
}

Test(bench_report_text, the_table_is_that_of_jmh_to_the_byte)
{
    pk_bench_results results = {0};
    pk_bench_text wanted = {0};
    pk_bench_text table = {0};
    char *error = NULL;
    cr_assert(pk_bench_results_read(&results, JMH_FILES "/result.json", &error), "%s", error);
    read_file(&wanted, JMH_FILES "/result.text");
    pk_bench_report_table(&table, &results);
    cr_expect_str_eq(table.bytes, wanted.bytes);
    pk_bench_text_done(&table);
    pk_bench_text_done(&wanted);
    pk_bench_results_done(&results);
}

Test(bench_report_text, a_table_of_nothing_is_its_heading)
{
    pk_bench_results results = {0};
    pk_bench_text table = {0};
    pk_bench_report_table(&table, &results);
    cr_expect_str_eq(table.bytes, "Benchmark  Mode  Cnt  Score   Error  Units\n");
    pk_bench_text_done(&table);
}

Test(bench_report_text, a_metric_has_its_error_behind_it)
{
    static const struct {
        double score, error;
        const char *text;
    } metrics[] = {{1.5, 0.25, "1.500 ±(99.9%) 0.250 us/op"},
                   {1.5, 0, "1.500 ±(99.9%) 0.001 us/op"},
                   {1.5, NAN, "1.500 us/op"},
                   {0, 0.25, "≈ 0 us/op"}};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        pk_bench_metric_summary summary = {.score = metrics[i].score, .error = metrics[i].error};
        char *text = pk_bench_format_metric(&summary, "us/op");
        cr_expect_str_eq(text, metrics[i].text);
        free(text);
    }
}
