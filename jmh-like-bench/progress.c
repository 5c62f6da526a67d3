/* JMH's running commentary; see progress.h. */
#include "jmh-like-bench/progress.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *pk_bench_unit_of_plan(const pk_bench_plan *plan)
{
    pk_bench_text text = {0};
    if (plan->mode == PK_BENCH_THROUGHPUT)
        pk_bench_text_print(&text, "ops/%s", plan->unit->label);
    else
        pk_bench_text_print(&text, "%s/op", plan->unit->label);
    return pk_bench_text_take(&text);
}

void pk_bench_format_duration(double seconds, char *bytes, size_t room)
{
    long whole = seconds > 0 ? lround(seconds) : 0;
    if (whole >= 86400)
        snprintf(bytes, room, "%ldd+%02ld:%02ld:%02ld", whole / 86400, whole / 3600 % 24,
                 whole / 60 % 60, whole % 60);
    else
        snprintf(bytes, room, "%02ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
}

static void show_phase(FILE *out, const char *name, const pk_bench_phase *phase)
{
    char time[48];
    if (phase->iterations == 0) {
        fprintf(out, "# %s: <none>\n", name);
        return;
    }
    pk_bench_time_write(phase->time, time, sizeof time);
    fprintf(out, "# %s: %u iterations, %s each", name, phase->iterations, time);
    if (phase->batch > 1)
        fprintf(out, ", %u calls per op", phase->batch);
    fputs("\n", out);
}

void pk_bench_show_heading(FILE *out, const pk_bench_plan *plan)
{
    char time[48];
    show_phase(out, "Warmup", &plan->warmup);
    show_phase(out, "Measurement", &plan->measurement);
    pk_bench_time_write(plan->timeout, time, sizeof time);
    fprintf(out, "# Timeout: %s per iteration\n", time);
    fprintf(out, "# Threads: %u thread%s%s\n", plan->threads, plan->threads == 1 ? "" : "s",
            plan->mode == PK_BENCH_SINGLE_SHOT ? ""
            : plan->synchronized               ? ", will synchronize iterations"
                                 : ", ***WARNING: Synchronize iterations are disabled!***");
    fprintf(out, "# Benchmark mode: %s\n", pk_bench_mode_title(plan->mode));
    fprintf(out, "# Benchmark: %s\n", plan->benchmark->name);
    for (size_t i = 0; i < plan->param_count; i++)
        fprintf(out, "%s%s = %s", i == 0 ? "# Parameters: (" : ", ", plan->params[i].name,
                plan->params[i].value);
    fputs(plan->param_count ? ")\n\n" : "\n", out);
}

void pk_bench_show_share(FILE *out, double done, double seconds_left)
{
    char left[32];
    pk_bench_format_duration(seconds_left, left, sizeof left);
    fprintf(out, "# Run progress: %.2f%% complete, ETA %s\n", 100 * done, left);
}

void pk_bench_show_begin(FILE *out, bool warmup, unsigned number)
{
    fprintf(out, warmup ? "# Warmup Iteration %3u: " : "Iteration %3u: ", number);
    fflush(out);
}

static void show_secondary(FILE *out, const char *label, int width, const char *value)
{
    /* As wide as "Iteration   1: " and two spaces more, so that values stand below the score. */
    fprintf(out, "%17s%s:%*s %s\n", "", label, width - (int) strlen(label), "", value);
}

static int widest_label(const pk_bench_extras *extras, int width)
{
    for (size_t i = 0; i < extras->count; i++)
        if ((int) strlen(extras->items[i].label) > width)
            width = (int) strlen(extras->items[i].label);
    return width;
}

static void show_percentiles(FILE *out, const pk_bench_iteration *iteration, const char *unit,
                             int width)
{
    static const struct {
        const char *label;
        double rank;
    } shown[] = {{"p0.00", 0},  {"p0.50", 50},    {"p0.90", 90},      {"p0.95", 95},
                 {"p0.99", 99}, {"p0.999", 99.9}, {"p0.9999", 99.99}, {"p1.00", 100}};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        pk_bench_metric_summary summary = {
            .score = pk_bench_percentile_points(iteration->points, iteration->point_count,
                                                shown[i].rank),
            .error = NAN};
        char *value = pk_bench_format_metric(&summary, unit);
        show_secondary(out, shown[i].label, width, value);
        free(value);
    }
}

void pk_bench_show_iteration(FILE *out, const pk_bench_plan *plan,
                             const pk_bench_iteration *iteration)
{
    char *unit = pk_bench_unit_of_plan(plan);
    pk_bench_metric_summary summary = {.score = iteration->score, .error = NAN};
    if (iteration->points)
        summary.error = pk_bench_summarize_points(iteration->points, iteration->point_count).error;
    char *score = pk_bench_format_metric(&summary, unit);
    fprintf(out, "%s\n", score);
    if (!iteration->warmup && (iteration->points || iteration->extras.count > 0)) {
        int width = widest_label(&iteration->extras, iteration->points ? 7 : 0);
        for (size_t i = 0; i < iteration->extras.count; i++) {
            const pk_bench_extra *extra = &iteration->extras.items[i];
            pk_bench_metric_summary value = {.score = extra->value, .error = NAN};
            char *text = pk_bench_format_metric(&value, extra->unit);
            show_secondary(out, extra->label, width, text);
            free(text);
        }
        if (iteration->points)
            show_percentiles(out, iteration, unit, width);
        fputs("\n", out);
    }
    fflush(out);
    free(score);
    free(unit);
}

static const char *policy_name(pk_bench_policy policy)
{
    return policy == PK_BENCH_SUM ? "Sum" : "Average";
}

static void show_metric(FILE *out, const pk_bench_metric *metric)
{
    pk_bench_metric_summary summary = pk_bench_metric_summarize(metric);
    const pk_bench_summary *statistics = &summary.statistics;
    char *text = pk_bench_format_metric(&summary, metric->unit);
    if (isnan(summary.error) || pk_bench_is_approximate(summary.score)) {
        fprintf(out, "  %s\n", text);
    } else {
        fprintf(out, "  %s [%s]\n", text, policy_name(metric->policy));
        fprintf(out, "  (min, avg, max) = (%.3f, %.3f, %.3f), stdev = %.3f\n", statistics->min,
                statistics->mean, statistics->max, statistics->deviation);
        fprintf(out, "  CI (99.9%%): [%.3f, %.3f] (assumes normal distribution)\n",
                summary.score - summary.error, summary.score + summary.error);
    }
    free(text);
}

/* A round width (1, 2 or 5 times a power of ten) of which at most a dozen cover the range. */
static double bin_width(double range)
{
    static const double steps[] = {1, 2, 5};
    double power = pow(10, floor(log10(range / 12)));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (range / (power * steps[i]) <= 12)
            return power * steps[i];
    return power * 10;
}

static void show_histogram(FILE *out, const pk_bench_metric *metric, double min, double max)
{
    double width = max > min ? bin_width(max - min) : 1;
    double low = floor(min / width) * width;
    fprintf(out, "\n  Histogram, %s:\n", metric->unit);
    for (double from = low; from <= max; from += width) {
        uint64_t count = 0;
        for (size_t i = 0; i < metric->count; i++)
            for (size_t j = 0; j < metric->scores[i].point_count; j++) {
                const pk_bench_point *point = &metric->scores[i].points[j];
                count += point->value >= from && point->value < from + width ? point->count : 0;
            }
        fprintf(out, "    [%8.3f, %8.3f) = %" PRIu64 "\n", from, from + width, count);
    }
}

static void show_samples(FILE *out, const pk_bench_metric *metric)
{
    static const double ranks[] = {0, 50, 90, 95, 99, 99.9, 99.99, 99.999, 99.9999, 100};
    pk_bench_metric_summary summary = pk_bench_metric_summarize(metric);
    char *mean = pk_bench_format_metric(&summary, metric->unit);
    fprintf(out, "  N = %" PRIu64 "\n  mean = %s\n", summary.count, mean);
    show_histogram(out, metric, summary.statistics.min, summary.statistics.max);
    fprintf(out, "\n  Percentiles, %s:\n", metric->unit);
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        char name[24];
        snprintf(name, sizeof name, "p(%.4f)", ranks[i]);
        fprintf(out, "  %13s = %10.3f %s\n", name, pk_bench_metric_percentile(metric, ranks[i]),
                metric->unit);
    }
    free(mean);
}

void pk_bench_show_result(FILE *out, const pk_bench_result *result)
{
    fprintf(out, "\nResult \"%s\":\n", result->benchmark);
    if (result->mode == PK_BENCH_SAMPLE_TIME)
        show_samples(out, &result->primary);
    else
        show_metric(out, &result->primary);
    for (size_t i = 0; i < result->secondary_count; i++) {
        if (result->secondary[i].policy == PK_BENCH_DERIVED)
            continue;
        fprintf(out, "\nSecondary result \"%s:%s\":\n", result->benchmark,
                result->secondary[i].label);
        show_metric(out, &result->secondary[i]);
    }
    fputs("\n\n", out);
    fflush(out);
}
