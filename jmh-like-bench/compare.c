/* Comparison with a baseline; see compare.h. */
#include "jmh-like-bench/compare.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Secondary metrics that are compared, too: counts, of which fewer is better. */
static const char *const counted[] = {"callgrind.instructions", "gc.alloc.rate.norm",
                                      "gc.allocs.norm"};

static bool same_trial(const pk_bench_result *a, const pk_bench_result *b)
{
    if (strcmp(a->benchmark, b->benchmark) != 0 || a->mode != b->mode ||
        a->param_count != b->param_count || a->threads != b->threads)
        return false;
    for (size_t i = 0; i < a->param_count; i++) {
        const char *other = pk_bench_result_param(b, a->params[i].name);
        if (!other || strcmp(a->params[i].value, other) != 0)
            return false;
    }
    return true;
}

static const pk_bench_result *find(const pk_bench_results *results, const pk_bench_result *wanted)
{
    for (size_t i = 0; i < results->count; i++)
        if (same_trial(&results->items[i], wanted))
            return &results->items[i];
    return NULL;
}

static bool is_throughput(const char *unit)
{
    return strncmp(unit, "ops/", 4) == 0;
}

/* What a score in unit `from` is multiplied by to be in unit `to`; NaN when that cannot be. */
static double conversion(const char *from, const char *to)
{
    if (strcmp(from, to) == 0)
        return 1;
    const pk_bench_unit *old = pk_bench_unit_of_score(from);
    const pk_bench_unit *new = pk_bench_unit_of_score(to);
    if (!old || !new || is_throughput(from) != is_throughput(to))
        return NAN;
    return is_throughput(from) ? new->nanoseconds / old->nanoseconds
                               : old->nanoseconds / new->nanoseconds;
}

static pk_bench_summary scaled(pk_bench_summary summary, double factor)
{
    summary.mean *= factor;
    summary.deviation *= factor;
    summary.error *= factor;
    return summary;
}

/* Statistics of the scores of iterations. */
static pk_bench_summary of_iterations(const pk_bench_metric *metric)
{
    double *scores = pk_bench_zeroed(metric->count, sizeof *scores);
    for (size_t i = 0; i < metric->count; i++)
        scores[i] = metric->scores[i].score;
    pk_bench_summary summary = pk_bench_summarize(scores, metric->count);
    free(scores);
    return summary;
}

/* Statistics of the means of forks. */
static pk_bench_summary of_forks(const pk_bench_metric *metric)
{
    double *means = pk_bench_zeroed(metric->count, sizeof *means);
    size_t count = 0;
    for (size_t i = 0; i < metric->count; i++)
        if (i == 0 || metric->scores[i].fork != metric->scores[i - 1].fork)
            means[count++] = pk_bench_metric_summarize_fork(metric, metric->scores[i].fork).mean;
    pk_bench_summary summary = pk_bench_summarize(means, count);
    free(means);
    return summary;
}

static pk_bench_compared compare_metric(const pk_bench_metric *before, const pk_bench_metric *after)
{
    double factor = conversion(before->unit, after->unit);
    pk_bench_summary old = scaled(of_iterations(before), factor);
    pk_bench_summary new = of_iterations(after);
    pk_bench_compared compared = {.unit = after->unit,
                                  .before = old.mean,
                                  .after = new.mean,
                                  .gain_low = NAN,
                                  .gain_high = NAN,
                                  .p = NAN};
    compared.gain = is_throughput(after->unit) ? new.mean / old.mean : old.mean / new.mean;
    if (isnan(factor)) {
        compared.verdict = PK_BENCH_OTHER_UNITS;
        return compared;
    }
    if (fabs(new.mean - old.mean) <= 0) /* 0 of both, for one */
        compared.gain = 1;
    if (old.n < 3 || new.n < 3) {
        compared.verdict = PK_BENCH_TOO_FEW;
        return compared;
    }
    /* Of the gain's logarithm, so that a gain and its inverse are as uncertain as each other. */
    double spread = exp(hypot(old.error / old.mean, new.error / new.mean));
    compared.gain_low = compared.gain / spread;
    compared.gain_high = compared.gain * spread;
    compared.p = pk_bench_welch_test(&old, &new).p;
    pk_bench_summary old_forks = scaled(of_forks(before), factor);
    pk_bench_summary new_forks = of_forks(after);
    if (old_forks.n >= 3 && new_forks.n >= 3)
        compared.p = fmax(compared.p, pk_bench_welch_test(&old_forks, &new_forks).p);
    if (compared.p >= 1 - PK_BENCH_CONFIDENCE)
        compared.verdict = PK_BENCH_SAME;
    else
        compared.verdict = compared.gain > 1 ? PK_BENCH_FASTER : PK_BENCH_SLOWER;
    return compared;
}

static const pk_bench_metric *secondary(const pk_bench_result *result, const char *label)
{
    for (size_t i = 0; i < result->secondary_count; i++)
        if (strcmp(result->secondary[i].label, label) == 0)
            return &result->secondary[i];
    return NULL;
}

static void add(pk_bench_comparison *comparison, pk_bench_compared compared,
                const pk_bench_result *result, const char *label)
{
    comparison->items =
        pk_bench_room(comparison->items, comparison->count, sizeof *comparison->items);
    compared.result = result;
    compared.secondary = label;
    comparison->items[comparison->count++] = compared;
    if (!label && compared.verdict == PK_BENCH_FASTER)
        comparison->faster++;
    if (!label && compared.verdict == PK_BENCH_SLOWER)
        comparison->slower++;
}

void pk_bench_compare(pk_bench_comparison *comparison, const pk_bench_results *before,
                      const pk_bench_results *after)
{
    *comparison = (pk_bench_comparison){0};
    for (size_t i = 0; i < after->count; i++) {
        const pk_bench_result *new = &after->items[i];
        const pk_bench_result *old = find(before, new);
        if (!old) {
            comparison->only_after++;
            continue;
        }
        add(comparison, compare_metric(&old->primary, &new->primary), new, NULL);
        for (size_t j = 0; j < sizeof counted / sizeof counted[0]; j++) {
            const pk_bench_metric *old_count = secondary(old, counted[j]);
            const pk_bench_metric *new_count = secondary(new, counted[j]);
            if (old_count && new_count)
                add(comparison, compare_metric(old_count, new_count), new, counted[j]);
        }
    }
    for (size_t i = 0; i < before->count; i++)
        if (!find(after, &before->items[i]))
            comparison->only_before++;
}

void pk_bench_comparison_done(pk_bench_comparison *comparison)
{
    free(comparison->items);
    *comparison = (pk_bench_comparison){0};
}

const char *pk_bench_verdict_text(pk_bench_verdict verdict)
{
    switch (verdict) {
    case PK_BENCH_FASTER:
        return "better";
    case PK_BENCH_SLOWER:
        return "worse";
    case PK_BENCH_TOO_FEW:
        return "no verdict: fewer than 3 values";
    case PK_BENCH_OTHER_UNITS:
        return "no verdict: other units";
    case PK_BENCH_SAME:
        break;
    }
    return "no difference shown";
}

char *pk_bench_compared_name(const pk_bench_compared *compared)
{
    pk_bench_text text = {0};
    const pk_bench_result *result = compared->result;
    const char *const names[] = {result->benchmark};
    char **dense = pk_bench_dense_names(names, 1);
    pk_bench_text_put(&text, dense[0]);
    free(dense[0]);
    free(dense);
    if (compared->secondary)
        pk_bench_text_print(&text, ":%s", compared->secondary);
    for (size_t i = 0; i < result->param_count; i++)
        pk_bench_text_print(&text, "%s%s=%s", i ? ", " : " [", result->params[i].name,
                            result->params[i].value);
    pk_bench_text_put(&text, result->param_count ? "]" : "");
    if (result->mode != PK_BENCH_THROUGHPUT)
        pk_bench_text_print(&text, " (%s)", pk_bench_mode_label(result->mode));
    return pk_bench_text_take(&text);
}

static int widest_name(const pk_bench_comparison *comparison)
{
    int widest = 9;
    for (size_t i = 0; i < comparison->count; i++) {
        char *name = pk_bench_compared_name(&comparison->items[i]);
        int columns = pk_bench_text_columns(name);
        widest = columns > widest ? columns : widest;
        free(name);
    }
    return widest;
}

void pk_bench_comparison_print(pk_bench_text *text, const pk_bench_comparison *comparison)
{
    int width = widest_name(comparison);
    pk_bench_text_put(text, "Comparison with the baseline (gain above 1 is better; Welch's test at "
                            "99.9 %):\n");
    pk_bench_text_pad(text, -width, "Benchmark");
    pk_bench_text_print(text, "%18s%18s%10s%9s  %s\n", "Before", "Now", "Units", "Gain", "Verdict");
    for (size_t i = 0; i < comparison->count; i++) {
        const pk_bench_compared *compared = &comparison->items[i];
        char *name = pk_bench_compared_name(compared);
        char *before = pk_bench_format_score(compared->before);
        char *after = pk_bench_format_score(compared->after);
        pk_bench_text_pad(text, -width, name);
        pk_bench_text_pad(text, 18, before);
        pk_bench_text_pad(text, 18, after);
        pk_bench_text_print(text, "%10s%9.3f  %s", compared->unit, compared->gain,
                            pk_bench_verdict_text(compared->verdict));
        if (!isnan(compared->p))
            pk_bench_text_print(text, compared->p < 1e-6 ? " (p < 0.000001)" : " (p = %.6f)",
                                compared->p);
        pk_bench_text_put(text, "\n");
        free(name);
        free(before);
        free(after);
    }
    pk_bench_text_print(text, "%zu better, %zu worse, %zu only in the baseline, %zu only now\n",
                        comparison->faster, comparison->slower, comparison->only_before,
                        comparison->only_after);
}
