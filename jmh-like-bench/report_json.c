/* Results as JMH's JSON, which jmh-visualizer and github-action-benchmark read; see report.h. */
#include "jmh-like-bench/json_writer.h"
#include "jmh-like-bench/report.h"

#include <math.h>

static void put_string(pk_bench_json_writer *json, const char *name, const char *value)
{
    pk_bench_json_name(json, name);
    pk_bench_json_string(json, value);
}

static void put_integer(pk_bench_json_writer *json, const char *name, uint64_t value)
{
    pk_bench_json_name(json, name);
    pk_bench_json_integer(json, value);
}

static void put_number(pk_bench_json_writer *json, const char *name, double value)
{
    pk_bench_json_name(json, name);
    pk_bench_json_number(json, value);
}

static void put_percentiles(pk_bench_json_writer *json, const pk_bench_metric *metric)
{
    static const struct {
        const char *name;
        double rank;
    } percentiles[] = {{"0.0", 0},           {"50.0", 50},   {"90.0", 90},     {"95.0", 95},
                       {"99.0", 99},         {"99.9", 99.9}, {"99.99", 99.99}, {"99.999", 99.999},
                       {"99.9999", 99.9999}, {"100.0", 100}};
    pk_bench_json_name(json, "scorePercentiles");
    pk_bench_json_open(json, '{');
    for (size_t i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++)
        put_number(json, percentiles[i].name,
                   pk_bench_metric_percentile(metric, percentiles[i].rank));
    pk_bench_json_close(json, '}');
}

/* [[value, count], ...] of one iteration. */
static void put_points(pk_bench_json_writer *json, const pk_bench_score *score)
{
    pk_bench_json_open(json, '[');
    for (size_t i = 0; i < score->point_count; i++) {
        pk_bench_json_open_line(json);
        pk_bench_json_number(json, score->points[i].value);
        pk_bench_json_integer(json, score->points[i].count);
        pk_bench_json_close(json, ']');
    }
    pk_bench_json_close(json, ']');
}

/* Scores by fork and iteration. */
static void put_raw(pk_bench_json_writer *json, const pk_bench_metric *metric)
{
    bool sampled = metric->count > 0 && metric->scores[0].points;
    pk_bench_json_name(json, sampled ? "rawDataHistogram" : "rawData");
    pk_bench_json_open(json, '[');
    for (size_t i = 0; i < metric->count;) {
        unsigned fork = metric->scores[i].fork;
        pk_bench_json_open(json, '[');
        for (; i < metric->count && metric->scores[i].fork == fork; i++) {
            if (sampled)
                put_points(json, &metric->scores[i]);
            else
                pk_bench_json_number(json, metric->scores[i].score);
        }
        pk_bench_json_close(json, ']');
    }
    pk_bench_json_close(json, ']');
}

static void put_metric(pk_bench_json_writer *json, const char *name, const pk_bench_metric *metric)
{
    pk_bench_metric_summary summary = pk_bench_metric_summarize(metric);
    double low = summary.score - summary.error;
    double high = summary.score + summary.error;
    if (metric->policy == PK_BENCH_SUM)
        low = high = summary.score;
    pk_bench_json_name(json, name);
    pk_bench_json_open(json, '{');
    put_number(json, "score", summary.score);
    put_number(json, "scoreError", summary.error);
    pk_bench_json_name(json, "scoreConfidence");
    pk_bench_json_open(json, '[');
    pk_bench_json_number(json, low);
    pk_bench_json_number(json, high);
    pk_bench_json_close(json, ']');
    put_percentiles(json, metric);
    put_string(json, "scoreUnit", metric->unit);
    put_raw(json, metric);
    pk_bench_json_close(json, '}');
}

static void put_result(pk_bench_json_writer *json, const pk_bench_result *result,
                       const pk_bench_environment *environment)
{
    pk_bench_json_open(json, '{');
    put_string(json, "jmhVersion", environment->harness);
    put_string(json, "benchmark", result->benchmark);
    put_string(json, "mode", pk_bench_mode_label(result->mode));
    put_integer(json, "threads", result->threads);
    put_integer(json, "forks", result->forks);
    put_string(json, "jvm", environment->program);
    pk_bench_json_name(json, "jvmArgs");
    pk_bench_json_open(json, '[');
    pk_bench_json_string(json, environment->flags);
    pk_bench_json_close(json, ']');
    put_string(json, "jdkVersion", environment->compiler);
    put_string(json, "vmName", environment->machine);
    put_string(json, "vmVersion", environment->build);
    put_integer(json, "warmupIterations", result->warmup_iterations);
    put_string(json, "warmupTime", result->warmup_time);
    put_integer(json, "warmupBatchSize", result->warmup_batch);
    put_integer(json, "measurementIterations", result->iterations);
    put_string(json, "measurementTime", result->time);
    put_integer(json, "measurementBatchSize", result->batch);
    if (result->param_count > 0) {
        pk_bench_json_name(json, "params");
        pk_bench_json_open(json, '{');
        for (size_t i = 0; i < result->param_count; i++)
            put_string(json, result->params[i].name, result->params[i].value);
        pk_bench_json_close(json, '}');
    }
    put_metric(json, "primaryMetric", &result->primary);
    pk_bench_json_name(json, "secondaryMetrics");
    pk_bench_json_open(json, '{');
    for (size_t i = 0; i < result->secondary_count; i++)
        put_metric(json, result->secondary[i].label, &result->secondary[i]);
    pk_bench_json_close(json, '}');
    pk_bench_json_close(json, '}');
}

void pk_bench_report_json(pk_bench_text *text, const pk_bench_results *results,
                          const pk_bench_environment *environment)
{
    pk_bench_json_writer json = {.text = text};
    pk_bench_json_open(&json, '[');
    for (size_t i = 0; i < results->count; i++)
        put_result(&json, &results->items[i], environment);
    pk_bench_json_close(&json, ']');
    pk_bench_text_put(text, "\n");
}
