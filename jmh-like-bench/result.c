/* Results and their summaries; see result.h. */
#include "jmh-like-bench/result.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/histogram.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pk_bench_metric_done(pk_bench_metric *metric)
{
    free(metric->label);
    free(metric->unit);
    for (size_t i = 0; i < metric->count; i++)
        free(metric->scores[i].points);
    free(metric->scores);
}

void pk_bench_result_done(pk_bench_result *result)
{
    free(result->benchmark);
    for (size_t i = 0; i < result->param_count; i++) {
        free(result->params[i].name);
        free(result->params[i].value);
    }
    free(result->params);
    free(result->warmup_time);
    free(result->time);
    pk_bench_metric_done(&result->primary);
    for (size_t i = 0; i < result->secondary_count; i++)
        pk_bench_metric_done(&result->secondary[i]);
    free(result->secondary);
}

void pk_bench_results_done(pk_bench_results *results)
{
    for (size_t i = 0; i < results->count; i++)
        pk_bench_result_done(&results->items[i]);
    free(results->items);
}

void pk_bench_metric_add_score(pk_bench_metric *metric, unsigned fork, double score,
                               pk_bench_point *points, size_t point_count)
{
    metric->scores = pk_bench_room(metric->scores, metric->count, sizeof *metric->scores);
    metric->scores[metric->count++] = (pk_bench_score){
        .fork = fork, .score = score, .points = points, .point_count = point_count};
}

pk_bench_metric *pk_bench_result_metric(pk_bench_result *result, const char *label,
                                        const char *unit, pk_bench_policy policy)
{
    for (size_t i = 0; i < result->secondary_count; i++)
        if (strcmp(result->secondary[i].label, label) == 0)
            return &result->secondary[i];
    result->secondary =
        pk_bench_room(result->secondary, result->secondary_count, sizeof *result->secondary);
    pk_bench_metric *metric = &result->secondary[result->secondary_count++];
    *metric = (pk_bench_metric){
        .label = pk_bench_copy(label), .unit = pk_bench_copy(unit), .policy = policy};
    return metric;
}

void pk_bench_results_take(pk_bench_results *results, pk_bench_result *result)
{
    results->items = pk_bench_room(results->items, results->count, sizeof *results->items);
    results->items[results->count++] = *result;
    *result = (pk_bench_result){0};
}

/* All samples of a metric in mode sample, ascending. */
static pk_bench_point *joined_points(const pk_bench_metric *metric, size_t *ret_count)
{
    pk_bench_point *all = NULL;
    size_t count = 0;
    for (size_t i = 0; i < metric->count; i++) {
        size_t merged_count;
        pk_bench_point *merged = pk_bench_points_merge(
            all, count, metric->scores[i].points, metric->scores[i].point_count, &merged_count);
        free(all);
        all = merged;
        count = merged_count;
    }
    *ret_count = count;
    return all;
}

static bool is_sampled(const pk_bench_metric *metric)
{
    return metric->count > 0 && metric->scores[0].points;
}

static double *scores_of(const pk_bench_metric *metric)
{
    double *scores = pk_bench_zeroed(metric->count, sizeof *scores);
    for (size_t i = 0; i < metric->count; i++)
        scores[i] = metric->scores[i].score;
    return scores;
}

pk_bench_metric_summary pk_bench_metric_summarize(const pk_bench_metric *metric)
{
    pk_bench_metric_summary summary = {.error = NAN};
    if (metric->policy == PK_BENCH_DERIVED) {
        summary.statistics = pk_bench_summarize(&metric->derived, 1);
    } else if (is_sampled(metric)) {
        size_t count;
        pk_bench_point *points = joined_points(metric, &count);
        summary.statistics = pk_bench_summarize_points(points, count);
        free(points);
    } else {
        double *scores = scores_of(metric);
        summary.statistics = pk_bench_summarize(scores, metric->count);
        free(scores);
    }
    summary.count = summary.statistics.n;
    if (metric->policy == PK_BENCH_SUM) {
        summary.score = summary.statistics.sum;
    } else {
        summary.score = summary.statistics.mean;
        summary.error = summary.statistics.error;
    }
    return summary;
}

pk_bench_summary pk_bench_metric_summarize_fork(const pk_bench_metric *metric, unsigned fork)
{
    double *scores = pk_bench_zeroed(metric->count, sizeof *scores);
    size_t count = 0;
    for (size_t i = 0; i < metric->count; i++)
        if (metric->scores[i].fork == fork)
            scores[count++] = metric->scores[i].score;
    pk_bench_summary summary = pk_bench_summarize(scores, count);
    free(scores);
    return summary;
}

static int ascending(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

double pk_bench_metric_percentile(const pk_bench_metric *metric, double rank)
{
    if (metric->policy == PK_BENCH_DERIVED)
        return metric->derived;
    double value;
    if (is_sampled(metric)) {
        size_t count;
        pk_bench_point *points = joined_points(metric, &count);
        value = pk_bench_percentile_points(points, count, rank);
        free(points);
    } else {
        double *scores = scores_of(metric);
        qsort(scores, metric->count, sizeof *scores, ascending);
        value = pk_bench_percentile(scores, metric->count, rank);
        free(scores);
    }
    return value;
}

void pk_bench_result_derive(pk_bench_result *result)
{
    static const struct {
        const char *label;
        double rank;
    } derived[] = {{"p0.00", 0},  {"p0.50", 50},    {"p0.90", 90},      {"p0.95", 95},
                   {"p0.99", 99}, {"p0.999", 99.9}, {"p0.9999", 99.99}, {"p1.00", 100}};
    if (!is_sampled(&result->primary))
        return;
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++) {
        pk_bench_metric *metric = pk_bench_result_metric(result, derived[i].label,
                                                         result->primary.unit, PK_BENCH_DERIVED);
        metric->derived = pk_bench_metric_percentile(&result->primary, derived[i].rank);
        for (size_t j = 0; j < result->primary.count; j++) {
            const pk_bench_score *from = &result->primary.scores[j];
            pk_bench_metric_add_score(
                metric, from->fork,
                pk_bench_percentile_points(from->points, from->point_count, derived[i].rank), NULL,
                0);
        }
    }
}

const char *pk_bench_result_param(const pk_bench_result *result, const char *name)
{
    for (size_t i = 0; i < result->param_count; i++)
        if (strcmp(result->params[i].name, name) == 0)
            return result->params[i].value;
    return NULL;
}

static int by_text(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;
    return strcmp(*left, *right);
}

const char **pk_bench_results_param_names(const pk_bench_results *results, size_t *ret_count)
{
    const char **names = NULL;
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++)
        for (size_t j = 0; j < results->items[i].param_count; j++) {
            names = pk_bench_room(names, count, sizeof *names);
            names[count++] = results->items[i].params[j].name;
        }
    if (count > 0)
        qsort(names, count, sizeof *names, by_text);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
            names[kept++] = names[i];
    *ret_count = kept;
    return names;
}

/* The length of the dotted part at `name`, without its dot. */
static size_t part_length(const char *name)
{
    return strcspn(name, ".");
}

static bool is_lower(const char *part, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (isupper((unsigned char) part[i]))
            return false;
    return true;
}

/* How many leading parts of `name` are lower case and, up to `most`, the same as in `other`. */
static size_t shared_parts(const char *name, const char *other, size_t most)
{
    size_t count = 0;
    while (count < most && *name) {
        size_t length = part_length(name);
        if (!is_lower(name, length) || part_length(other) != length ||
            strncmp(name, other, length) != 0)
            break;
        count++;
        name += length + (name[length] == '.');
        other += length + (other[length] == '.');
    }
    return count;
}

/*
 * The lower-case parts that all names begin with are dropped when every name has the first name's
 * whole run of them, and cut to one letter each when some have less.
 */
char **pk_bench_dense_names(const char *const *names, size_t count)
{
    char **dense = pk_bench_zeroed(count, sizeof *dense);
    size_t run = count ? shared_parts(names[0], names[0], SIZE_MAX) : 0;
    size_t prefix = run;
    for (size_t i = 1; i < count; i++)
        prefix = shared_parts(names[0], names[i], prefix);
    for (size_t i = 0; i < count; i++) {
        pk_bench_text text = {0};
        const char *rest = names[i];
        for (size_t part = 0; part < prefix; part++) {
            if (prefix != run)
                pk_bench_text_print(&text, "%c.", *rest);
            rest += part_length(rest);
            rest += *rest == '.';
        }
        pk_bench_text_put(&text, rest);
        dense[i] = pk_bench_text_take(&text);
    }
    return dense;
}
