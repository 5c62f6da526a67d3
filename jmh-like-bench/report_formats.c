/* CSV (RFC 4180) and LaTeX as JMH writes them, and the choice among all formats; see report.h. */
#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A parameter's value; quoted where it has to be. */
static void put_field(pk_bench_text *text, const char *value, char delimiter)
{
    char special[] = {delimiter, ' ', '\n', '\r', '"', '\0'};
    if (!strpbrk(value, special)) {
        pk_bench_text_put(text, value);
        return;
    }
    pk_bench_text_put(text, "\"");
    for (; *value; value++) {
        if (*value == '"')
            pk_bench_text_put(text, "\"");
        pk_bench_text_add(text, value, 1);
    }
    pk_bench_text_put(text, "\"");
}

static void put_number(pk_bench_text *text, double value)
{
    if (isnan(value))
        pk_bench_text_put(text, "NaN");
    else
        pk_bench_text_print(text, "%f", value);
}

static void put_csv_line(pk_bench_text *text, const pk_bench_result *result,
                         const pk_bench_metric *metric, const char *const *params,
                         size_t param_count, char delimiter)
{
    pk_bench_metric_summary summary = pk_bench_metric_summarize(metric);
    bool primary = metric == &result->primary;
    pk_bench_text_print(text, "\"%s%s%s\"%c\"%s\"%c%u%c%" PRIu64 "%c", result->benchmark,
                        primary ? "" : ":", primary ? "" : metric->label, delimiter,
                        pk_bench_mode_label(result->mode), delimiter, result->threads, delimiter,
                        summary.count, delimiter);
    put_number(text, summary.score);
    pk_bench_text_add(text, &delimiter, 1);
    put_number(text, summary.error);
    pk_bench_text_print(text, "%c\"%s\"", delimiter, metric->unit);
    for (size_t i = 0; i < param_count; i++) {
        const char *value = pk_bench_result_param(result, params[i]);
        pk_bench_text_add(text, &delimiter, 1);
        if (value)
            put_field(text, value, delimiter);
    }
    pk_bench_text_put(text, "\r\n");
}

void pk_bench_report_csv(pk_bench_text *text, const pk_bench_results *results, char delimiter)
{
    static const char *const headings[] = {
        "Benchmark", "Mode", "Threads", "Samples", "Score", "Score Error (99.9%)", "Unit"};
    size_t param_count;
    const char **params = pk_bench_results_param_names(results, &param_count);
    for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++) {
        if (i > 0)
            pk_bench_text_add(text, &delimiter, 1);
        pk_bench_text_print(text, "\"%s\"", headings[i]);
    }
    for (size_t i = 0; i < param_count; i++)
        pk_bench_text_print(text, "%c\"Param: %s\"", delimiter, params[i]);
    pk_bench_text_put(text, "\r\n");
    for (size_t i = 0; i < results->count; i++) {
        const pk_bench_result *result = &results->items[i];
        put_csv_line(text, result, &result->primary, params, param_count, delimiter);
        for (size_t j = 0; j < result->secondary_count; j++)
            put_csv_line(text, result, &result->secondary[j], params, param_count, delimiter);
    }
    free(params);
}

/* Backslashes before what LaTeX would not take for itself. */
static void put_latex(pk_bench_text *text, const char *string)
{
    for (; *string; string++) {
        if (strchr("_#%&$", *string))
            pk_bench_text_put(text, "\\");
        pk_bench_text_add(text, string, 1);
    }
}

/* The unit of every metric when it is one and the same, otherwise NULL. */
static const char *common_unit(const pk_bench_results *results)
{
    const char *unit = results->count ? results->items[0].primary.unit : NULL;
    for (size_t i = 0; i < results->count && unit; i++) {
        const pk_bench_result *result = &results->items[i];
        if (strcmp(result->primary.unit, unit) != 0)
            return NULL;
        for (size_t j = 0; j < result->secondary_count; j++)
            if (strcmp(result->secondary[j].unit, unit) != 0)
                return NULL;
    }
    return unit;
}

static void put_latex_line(pk_bench_text *text, const pk_bench_result *result, const char *name,
                           const pk_bench_metric *metric, const char *const *params,
                           size_t param_count, bool with_unit)
{
    pk_bench_metric_summary summary = pk_bench_metric_summarize(metric);
    char *score = pk_bench_format_score_latex(summary.score);
    pk_bench_text_put(text, "\\texttt{");
    put_latex(text, name);
    pk_bench_text_put(text, "} & ");
    for (size_t i = 0; i < param_count; i++) {
        const char *value = pk_bench_result_param(result, params[i]);
        pk_bench_text_put(text, "\\texttt{");
        put_latex(text, value ? value : "N/A");
        pk_bench_text_put(text, "} & ");
    }
    pk_bench_text_print(text, "\\texttt{%s} & ", score);
    if (!isnan(summary.error) && !pk_bench_is_approximate(summary.score)) {
        char *error = pk_bench_format_error(summary.error);
        pk_bench_text_print(text, "\\scriptsize $\\pm$ \\texttt{%s} ", error);
        free(error);
    }
    if (with_unit) {
        pk_bench_text_put(text, "& \\texttt{");
        put_latex(text, metric->unit);
        pk_bench_text_put(text, "}");
    }
    pk_bench_text_put(text, " \\\\\n");
    free(score);
}

/* The names of all lines, primary and secondary, in order. Each and the array to be freed. */
static char **line_names(const pk_bench_results *results, size_t *ret_count)
{
    char **names = NULL;
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++)
        for (size_t j = 0; j <= results->items[i].secondary_count; j++) {
            pk_bench_text name = {0};
            pk_bench_text_put(&name, results->items[i].benchmark);
            if (j > 0)
                pk_bench_text_print(&name, ":%s", results->items[i].secondary[j - 1].label);
            names = pk_bench_room(names, count, sizeof *names);
            names[count++] = pk_bench_text_take(&name);
        }
    *ret_count = count;
    return names;
}

void pk_bench_report_latex(pk_bench_text *text, const pk_bench_results *results)
{
    size_t param_count;
    size_t line_count;
    const char **params = pk_bench_results_param_names(results, &param_count);
    const char *unit = common_unit(results);
    char **names = line_names(results, &line_count);
    char **dense = pk_bench_dense_names((const char *const *) names, line_count);

    pk_bench_text_put(text, "\\begin{tabular}{r|");
    for (size_t i = 0; i < param_count; i++)
        pk_bench_text_put(text, "l|");
    pk_bench_text_put(text, unit ? "rl}\n" : "rll}\n");
    pk_bench_text_put(text, " \\multicolumn{1}{c|}{\\texttt{Benchmark}} & ");
    for (size_t i = 0; i < param_count; i++) {
        pk_bench_text_put(text, "\\texttt{");
        put_latex(text, params[i]);
        pk_bench_text_put(text, "} & ");
    }
    pk_bench_text_print(text, "\\multicolumn{%d}{c}{\\texttt{Score%s%s}} \\\\\n", unit ? 2 : 3,
                        unit ? ", " : "", unit ? unit : "");
    pk_bench_text_put(text, "\\hline\n");
    size_t line = 0;
    for (size_t i = 0; i < results->count; i++) {
        const pk_bench_result *result = &results->items[i];
        put_latex_line(text, result, dense[line++], &result->primary, params, param_count, !unit);
        for (size_t j = 0; j < result->secondary_count; j++)
            put_latex_line(text, result, dense[line++], &result->secondary[j], params, param_count,
                           !unit);
    }
    pk_bench_text_put(text, "\\end{tabular}\n");

    for (size_t i = 0; i < line_count; i++) {
        free(names[i]);
        free(dense[i]);
    }
    free(names);
    free(dense);
    free(params);
}

void pk_bench_report(pk_bench_text *text, pk_bench_format format, const pk_bench_results *results,
                     const pk_bench_environment *environment)
{
    switch (format) {
    case PK_BENCH_FORMAT_CSV:
        pk_bench_report_csv(text, results, ',');
        break;
    case PK_BENCH_FORMAT_SCSV:
        pk_bench_report_csv(text, results, ';');
        break;
    case PK_BENCH_FORMAT_JSON:
        pk_bench_report_json(text, results, environment);
        break;
    case PK_BENCH_FORMAT_LATEX:
        pk_bench_report_latex(text, results);
        break;
    case PK_BENCH_FORMAT_TEXT:
    case PK_BENCH_FORMATS:
        pk_bench_report_table(text, results);
        break;
    }
}
