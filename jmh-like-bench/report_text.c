/* Scores in words, and JMH's table of results; see report.h. */
#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST 0.001
#define COLUMN_GAP 2

bool pk_bench_is_approximate(double score)
{
    return score < SMALLEST / 2;
}

/* The nearest power of ten, 0 for a score of 0 or less. */
static int magnitude(double score)
{
    return score > 0 ? (int) lround(log10(score)) : 0;
}

static char *plain(double score)
{
    pk_bench_text text = {0};
    if (isnan(score))
        pk_bench_text_put(&text, "NaN");
    else if (isinf(score))
        pk_bench_text_put(&text, score > 0 ? "Infinity" : "-Infinity");
    else
        pk_bench_text_print(&text, "%.3f", score);
    return pk_bench_text_take(&text);
}

char *pk_bench_format_score(double score)
{
    static const char *const raised[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                         "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
    if (!pk_bench_is_approximate(score))
        return plain(score);
    pk_bench_text text = {0};
    int power = magnitude(score);
    if (power == 0)
        pk_bench_text_put(&text, "\u2248 0");
    else {
        char digits[16];
        snprintf(digits, sizeof digits, "%d", abs(power));
        pk_bench_text_put(&text, power < 0 ? "\u2248 10\u207b" : "\u2248 10");
        for (const char *digit = digits; *digit; digit++)
            pk_bench_text_put(&text, raised[*digit - '0']);
    }
    return pk_bench_text_take(&text);
}

char *pk_bench_format_score_latex(double score)
{
    if (!pk_bench_is_approximate(score))
        return plain(score);
    pk_bench_text text = {0};
    int power = magnitude(score);
    if (power == 0)
        pk_bench_text_put(&text, "$\\approx 0$");
    else
        pk_bench_text_print(&text, "$\\approx 10^{%d}$", power);
    return pk_bench_text_take(&text);
}

char *pk_bench_format_error(double error)
{
    return plain(error < SMALLEST ? SMALLEST : error);
}

char *pk_bench_format_metric(const pk_bench_metric_summary *summary, const char *unit)
{
    pk_bench_text text = {0};
    char *score = pk_bench_format_score(summary->score);
    pk_bench_text_put(&text, score);
    if (!isnan(summary->error) && !pk_bench_is_approximate(summary->score)) {
        char *error = pk_bench_format_error(summary->error);
        pk_bench_text_print(&text, " \u00b1(99.9%%) %s", error);
        free(error);
    }
    pk_bench_text_print(&text, " %s", unit);
    free(score);
    return pk_bench_text_take(&text);
}

/* One line of the table, as texts. */
struct row {
    const pk_bench_result *result;
    char *name;
    char *count;
    char *score;
    char *error; /* "" where none is shown */
    const char *unit;
};

static struct row make_row(const pk_bench_result *result, const pk_bench_metric *metric)
{
    pk_bench_metric_summary summary = pk_bench_metric_summarize(metric);
    pk_bench_text count = {0};
    pk_bench_text name = {0};
    bool with_error = !isnan(summary.error) && !pk_bench_is_approximate(summary.score);
    if (summary.count > 1)
        pk_bench_text_print(&count, "%" PRIu64, summary.count);
    pk_bench_text_put(&name, result->benchmark);
    if (metric != &result->primary)
        pk_bench_text_print(&name, ":%s", metric->label);
    return (struct row){
        .result = result,
        .name = pk_bench_text_take(&name),
        .count = pk_bench_text_take(&count),
        .score = pk_bench_format_score(summary.score),
        .error = with_error ? pk_bench_format_error(summary.error) : pk_bench_copy(""),
        .unit = metric->unit,
    };
}

static struct row *make_rows(const pk_bench_results *results, size_t *ret_count)
{
    struct row *rows = NULL;
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++) {
        const pk_bench_result *result = &results->items[i];
        rows = pk_bench_room(rows, count, sizeof *rows);
        rows[count++] = make_row(result, &result->primary);
        for (size_t j = 0; j < result->secondary_count; j++) {
            rows = pk_bench_room(rows, count, sizeof *rows);
            rows[count++] = make_row(result, &result->secondary[j]);
        }
    }
    *ret_count = count;
    return rows;
}

static void free_rows(struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(rows[i].name);
        free(rows[i].count);
        free(rows[i].score);
        free(rows[i].error);
    }
    free(rows);
}

/* Puts the dense form of each name in its place. */
static void shorten_names(struct row *rows, size_t count)
{
    const char **names = pk_bench_zeroed(count, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i].name;
    char **dense = pk_bench_dense_names(names, count);
    for (size_t i = 0; i < count; i++) {
        free(rows[i].name);
        rows[i].name = dense[i];
    }
    free(dense);
    free(names);
}

static void widen(int *width, const char *text)
{
    int columns = pk_bench_text_columns(text);
    if (*width < columns)
        *width = columns;
}

static int param_width(const char *name, const struct row *rows, size_t count)
{
    int width = pk_bench_text_columns(name) + 2;
    for (size_t i = 0; i < count; i++) {
        const char *value = pk_bench_result_param(rows[i].result, name);
        if (value)
            widen(&width, value);
    }
    return width + COLUMN_GAP;
}

void pk_bench_report_table(pk_bench_text *text, const pk_bench_results *results)
{
    size_t count;
    size_t param_count;
    struct row *rows = make_rows(results, &count);
    const char **params = pk_bench_results_param_names(results, &param_count);
    int name = 9, mode = 4, samples = 3, score = 5, error = 5, unit = 5; /* the headings' */
    shorten_names(rows, count);
    for (size_t i = 0; i < count; i++) {
        widen(&name, rows[i].name);
        widen(&mode, pk_bench_mode_label(rows[i].result->mode));
        widen(&samples, rows[i].count);
        widen(&score, rows[i].score);
        widen(&error, rows[i].error);
        widen(&unit, rows[i].unit);
    }

    pk_bench_text_pad(text, -name, "Benchmark");
    for (size_t j = 0; j < param_count; j++) {
        pk_bench_text heading = {0};
        pk_bench_text_print(&heading, "(%s)", params[j]);
        pk_bench_text_pad(text, param_width(params[j], rows, count), heading.bytes);
        pk_bench_text_done(&heading);
    }
    pk_bench_text_pad(text, mode + COLUMN_GAP, "Mode");
    pk_bench_text_pad(text, samples + COLUMN_GAP, "Cnt");
    pk_bench_text_pad(text, score + COLUMN_GAP, "Score");
    pk_bench_text_pad(text, error + COLUMN_GAP + 1, "Error");
    pk_bench_text_pad(text, unit + COLUMN_GAP, "Units");
    pk_bench_text_put(text, "\n");

    for (size_t i = 0; i < count; i++) {
        pk_bench_text_pad(text, -name, rows[i].name);
        for (size_t j = 0; j < param_count; j++) {
            const char *value = pk_bench_result_param(rows[i].result, params[j]);
            pk_bench_text_pad(text, param_width(params[j], rows, count), value ? value : "N/A");
        }
        pk_bench_text_pad(text, mode + COLUMN_GAP, pk_bench_mode_label(rows[i].result->mode));
        pk_bench_text_pad(text, samples + COLUMN_GAP, rows[i].count);
        pk_bench_text_pad(text, score + COLUMN_GAP, rows[i].score);
        pk_bench_text_put(text, *rows[i].error ? " \u00b1" : "  ");
        pk_bench_text_pad(text, error + COLUMN_GAP - 1, rows[i].error);
        pk_bench_text_pad(text, unit + COLUMN_GAP, rows[i].unit);
        pk_bench_text_put(text, "\n");
    }
    free(params);
    free_rows(rows, count);
}
