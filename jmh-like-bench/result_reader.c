/* From JMH's JSON back to results; see result_reader.h. */
#include "jmh-like-bench/result_reader.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/json_reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *string_of(const pk_bench_json *json, const char *name, const char *otherwise)
{
    const pk_bench_json *member = pk_bench_json_member(json, name);
    return member && member->type == PK_BENCH_JSON_STRING ? member->string : otherwise;
}

/* A count, within what the reports can show; 0 when it is not there. */
static unsigned count_of(const pk_bench_json *json, const char *name)
{
    const pk_bench_json *member = pk_bench_json_member(json, name);
    bool usable = member && member->type == PK_BENCH_JSON_NUMBER && member->number >= 0 &&
                  member->number <= 1e9;
    return usable ? (unsigned) member->number : 0;
}

/* JMH writes what is no number as a string. */
static double number_of(const pk_bench_json *json)
{
    if (json->type == PK_BENCH_JSON_NUMBER)
        return json->number;
    if (json->type != PK_BENCH_JSON_STRING)
        return NAN;
    return strcmp(json->string, "+INF") == 0   ? INFINITY
           : strcmp(json->string, "-INF") == 0 ? -INFINITY
                                               : NAN;
}

static int by_value(const void *a, const void *b)
{
    const pk_bench_point *left = a;
    const pk_bench_point *right = b;
    return (left->value > right->value) - (left->value < right->value);
}

/* [[value, count], ...]; NULL when it is anything else or empty. */
static pk_bench_point *read_points(const pk_bench_json *json, size_t *ret_count)
{
    pk_bench_point *points = pk_bench_zeroed(json->count, sizeof *points);
    size_t count = 0;
    for (size_t i = 0; i < json->count; i++) {
        const pk_bench_json *pair = &json->items[i];
        if (pair->type != PK_BENCH_JSON_ARRAY || pair->count != 2 ||
            !(pair->items[1].number >= 1 && pair->items[1].number <= 1e15) ||
            isnan(number_of(&pair->items[0])))
            break;
        points[count].value = pair->items[0].number;
        points[count++].count = (uint64_t) pair->items[1].number;
    }
    if (count == 0 || count != json->count) {
        free(points);
        return NULL;
    }
    qsort(points, count, sizeof *points, by_value);
    *ret_count = count;
    return points;
}

static bool read_scores(pk_bench_metric *metric, const pk_bench_json *raw, bool sampled)
{
    if (!raw || raw->type != PK_BENCH_JSON_ARRAY)
        return false;
    for (size_t fork = 0; fork < raw->count; fork++)
        for (size_t i = 0; i < raw->items[fork].count; i++) {
            const pk_bench_json *item = &raw->items[fork].items[i];
            if (!sampled) {
                pk_bench_metric_add_score(metric, (unsigned) fork, number_of(item), NULL, 0);
                continue;
            }
            size_t count;
            pk_bench_point *points = read_points(item, &count);
            if (!points)
                return false;
            pk_bench_metric_add_score(metric, (unsigned) fork,
                                      pk_bench_summarize_points(points, count).mean, points, count);
        }
    return metric->count > 0;
}

static bool read_metric(pk_bench_metric *metric, const char *label, const pk_bench_json *json)
{
    const pk_bench_json *score = pk_bench_json_member(json, "score");
    const pk_bench_json *histogram = pk_bench_json_member(json, "rawDataHistogram");
    const pk_bench_json *raw = pk_bench_json_member(json, "rawData");
    *metric = (pk_bench_metric){.label = pk_bench_copy(label),
                                .unit = pk_bench_copy(string_of(json, "scoreUnit", ""))};
    if (!score || !read_scores(metric, histogram ? histogram : raw, histogram != NULL))
        return false;
    /* The file does not say how scores became one; that a score of many has no error does. */
    const pk_bench_json *error = pk_bench_json_member(json, "scoreError");
    if (metric->count > 2 && !histogram && error && isnan(number_of(error))) {
        double given = number_of(score);
        double sum = pk_bench_metric_summarize(metric).statistics.sum;
        bool is_sum = fabs(given - sum) <= 1e-9 * fabs(given);
        metric->policy = is_sum ? PK_BENCH_SUM : PK_BENCH_DERIVED;
        metric->derived = given;
    }
    return true;
}

static bool read_result(pk_bench_result *result, const pk_bench_json *json)
{
    const char *name = string_of(json, "benchmark", NULL);
    const char *method = name ? strrchr(name, '.') : NULL;
    const pk_bench_json *params = pk_bench_json_member(json, "params");
    const pk_bench_json *secondary = pk_bench_json_member(json, "secondaryMetrics");
    const pk_bench_json *primary = pk_bench_json_member(json, "primaryMetric");
    if (!name || !pk_bench_mode_find(string_of(json, "mode", ""), &result->mode) || !primary)
        return false;
    result->benchmark = pk_bench_copy(name);
    result->threads = count_of(json, "threads");
    result->forks = count_of(json, "forks");
    result->warmup_iterations = count_of(json, "warmupIterations");
    result->warmup_time = pk_bench_copy(string_of(json, "warmupTime", ""));
    result->warmup_batch = count_of(json, "warmupBatchSize");
    result->iterations = count_of(json, "measurementIterations");
    result->time = pk_bench_copy(string_of(json, "measurementTime", ""));
    result->batch = count_of(json, "measurementBatchSize");
    for (size_t i = 0; params && params->names && i < params->count; i++) {
        const char *value = params->items[i].string;
        result->params = pk_bench_room(result->params, i, sizeof *result->params);
        result->params[result->param_count++] =
            (pk_bench_pair){pk_bench_copy(params->names[i]), pk_bench_copy(value ? value : "")};
    }
    if (!read_metric(&result->primary, method ? method + 1 : name, primary))
        return false;
    for (size_t i = 0; secondary && secondary->names && i < secondary->count; i++) {
        result->secondary = pk_bench_room(result->secondary, i, sizeof *result->secondary);
        if (!read_metric(&result->secondary[result->secondary_count++], secondary->names[i],
                         &secondary->items[i]))
            return false;
    }
    return true;
}

bool pk_bench_results_parse(pk_bench_results *results, const char *text, size_t length,
                            char **ret_error)
{
    pk_bench_json json;
    pk_bench_text error = {0};
    if (!pk_bench_json_parse(&json, text, length, ret_error))
        return false;
    if (json.type != PK_BENCH_JSON_ARRAY)
        pk_bench_text_put(&error, "it is not a list of JMH results");
    for (size_t i = 0; i < json.count && error.length == 0 && json.type == PK_BENCH_JSON_ARRAY;
         i++) {
        pk_bench_result result = {0};
        if (!read_result(&result, &json.items[i]))
            pk_bench_text_print(&error, "entry %zu is not a JMH result with its raw data", i + 1);
        pk_bench_results_take(results, &result);
    }
    pk_bench_json_done(&json);
    if (error.length == 0)
        return true;
    *ret_error = pk_bench_text_take(&error);
    return false;
}

bool pk_bench_results_read(pk_bench_results *results, const char *path, char **ret_error)
{
    pk_bench_text text = {0};
    pk_bench_text error = {0};
    char bytes[4096];
    size_t length;
    char *why = NULL;
    FILE *file = fopen(path, "r");
    while (file && (length = fread(bytes, 1, sizeof bytes, file)) > 0)
        pk_bench_text_add(&text, bytes, length);
    bool readable = file && !ferror(file);
    if (!readable)
        pk_bench_text_print(&error, "cannot read %s: %s", path, strerror(errno));
    else if (!pk_bench_results_parse(results, text.bytes ? text.bytes : "", text.length, &why))
        pk_bench_text_print(&error, "%s: %s", path, why);
    if (file)
        fclose(file);
    free(why);
    pk_bench_text_done(&text);
    if (error.length == 0)
        return true;
    *ret_error = pk_bench_text_take(&error);
    return false;
}
