/* jmh-like-bench/report_formats.c against what JMH 1.37 wrote. */
#include "jmh-like-bench/report.h"
#include "jmh-like-bench/result_reader.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_results(pk_bench_results *results)
{
    char *error = NULL;
    cr_assert(pk_bench_results_read(results, JMH_FILES "/result.json", &error), "%s", error);
}

/* Equal fields, or numbers that differ by less than the error of JMH's inverse t, 1e-9. */
static bool same_field(const char *a, const char *b)
{
    char *end;
    if (strcmp(a, b) == 0)
        return true;
    double left = strtod(a, &end);
    double right = strtod(b, NULL);
    return *end == '\0' && fabs(left - right) <= 1e-9 * fabs(right);
}

/* Cuts the next field or line end off *text. */
static char *next_field(char **text)
{
    char *field = *text;
    size_t length = strcspn(field, ",\n");
    *text = field[length] ? field + length + 1 : NULL;
    field[length] = '\0';
    return field;
}

Test(bench_report_formats, csv_is_that_of_jmh)
{
    pk_bench_results results = {0};
    pk_bench_text csv = {0};
    static char wanted[8192];
    FILE *file = fopen(JMH_FILES "/result.csv", "r");
    cr_assert_not_null(file);
    size_t length = fread(wanted, 1, sizeof wanted - 1, file);
    fclose(file);
    cr_assert_gt(length, 1000);
    read_results(&results);
    pk_bench_report_csv(&csv, &results, ',');
    char *ours = csv.bytes;
    char *theirs = wanted;
    while (ours && theirs) {
        const char *left = next_field(&ours);
        const char *right = next_field(&theirs);
        cr_expect(same_field(left, right), "'%s' is not '%s'", left, right);
    }
    cr_expect_null(ours);
    cr_expect_null(theirs);
    pk_bench_text_done(&csv);
    pk_bench_results_done(&results);
}

Test(bench_report_formats, scsv_differs_by_its_delimiter_only)
{
    pk_bench_results results = {0};
    pk_bench_text csv = {0};
    pk_bench_text scsv = {0};
    read_results(&results);
    pk_bench_report(&csv, PK_BENCH_FORMAT_CSV, &results, NULL);
    pk_bench_report(&scsv, PK_BENCH_FORMAT_SCSV, &results, NULL);
    cr_assert_eq(csv.length, scsv.length);
    for (size_t i = 0; i < csv.length; i++)
        if (csv.bytes[i] != scsv.bytes[i])
            cr_assert(csv.bytes[i] == ',' && scsv.bytes[i] == ';');
    cr_expect_null(strchr(scsv.bytes, ','));
    pk_bench_text_done(&csv);
    pk_bench_text_done(&scsv);
    pk_bench_results_done(&results);
}

static const char demo[] =
    "[{\"benchmark\":\"org.pekoe.DemoBench.tenlog\",\"mode\":\"thrpt\",\"threads\":1,\"forks\":0,"
    "\"params\":{\"protocol\":\"grpc\"},\"primaryMetric\":{\"score\":43880538.926,"
    "\"scoreError\":\"NaN\",\"scoreUnit\":\"ops/s\",\"rawData\":[[43880538.926]]},"
    "\"secondaryMetrics\":{}},"
    "{\"benchmark\":\"org.pekoe.DemoBench.tenlog\",\"mode\":\"thrpt\",\"threads\":1,\"forks\":0,"
    "\"params\":{\"protocol\":\"web\"},\"primaryMetric\":{\"score\":48303870.320,"
    "\"scoreError\":\"NaN\",\"scoreUnit\":\"ops/s\",\"rawData\":[[48303870.320]]},"
    "\"secondaryMetrics\":{}}]";

Test(bench_report_formats, latex_is_that_of_jmh)
{
    pk_bench_results results = {0};
    pk_bench_text latex = {0};
    char *error = NULL;
    cr_assert(pk_bench_results_parse(&results, demo, sizeof demo - 1, &error), "%s", error);
    pk_bench_report(&latex, PK_BENCH_FORMAT_LATEX, &results, NULL);
    cr_expect_str_eq(
        latex.bytes,
        "\\begin{tabular}{r|l|rl}\n"
        " \\multicolumn{1}{c|}{\\texttt{Benchmark}} & \\texttt{protocol} & "
        "\\multicolumn{2}{c}{\\texttt{Score, ops/s}} \\\\\n"
        "\\hline\n"
        "\\texttt{DemoBench.tenlog} & \\texttt{grpc} & \\texttt{43880538.926} &  \\\\\n"
        "\\texttt{DemoBench.tenlog} & \\texttt{web} & \\texttt{48303870.320} &  \\\\\n"
        "\\end{tabular}\n");
    pk_bench_text_done(&latex);
    pk_bench_results_done(&results);
}

Test(bench_report_formats, latex_escapes_what_latex_would_take)
{
    pk_bench_results results = {0};
    pk_bench_text latex = {0};
    read_results(&results);
    pk_bench_report_latex(&latex, &results);
    cr_expect_not_null(strstr(latex.bytes, "\\texttt{with\\_space}"));
    cr_expect_not_null(strstr(latex.bytes, "{c}{\\texttt{Score}}"), "units are mixed");
    cr_expect_not_null(strstr(latex.bytes, "\\scriptsize $\\pm$ \\texttt{"));
    pk_bench_text_done(&latex);
    pk_bench_results_done(&results);
}
