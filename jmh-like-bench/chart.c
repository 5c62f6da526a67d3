/* Charts; see chart.h. */
#include "jmh-like-bench/chart.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN 7 /* about the width of a letter; all of these in pixels */
#define BARS 420
#define VALUES 300
#define ROW 24
#define TOP 40
#define LOG_FROM 50.0 /* scores this many times apart are drawn on a logarithmic axis */

/* One bar, with everything that is drawn of it. */
struct bar {
    char *label;
    char *value;
    const char *unit;
    const char *class; /* of the style sheet below */
    double at;
    double low; /* NaN for no whisker */
    double high;
    bool heading; /* a line of text alone */
};

static const char style[] =
    "<style>text{font:13px system-ui,sans-serif;fill:#222}.h{font-weight:600}.n{fill:#4a78b5}"
    ".b{fill:#3a8f4d}.w{fill:#c0453a}.s{fill:#9a9a9a}.i{stroke:#222;stroke-width:1.5}"
    ".e{font-size:11px;opacity:.7}.a{stroke:#888;stroke-width:1;stroke-dasharray:3 3}.bg{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.i{stroke:#ddd}.bg{fill:#1b1b1b}}</style>\n";

static void put_escaped(pk_bench_text *text, const char *string)
{
    for (; *string; string++) {
        switch (*string) {
        case '<':
            pk_bench_text_put(text, "&lt;");
            break;
        case '>':
            pk_bench_text_put(text, "&gt;");
            break;
        case '&':
            pk_bench_text_put(text, "&amp;");
            break;
        default:
            pk_bench_text_add(text, string, 1);
        }
    }
}

static struct bar *add(struct bar **bars, size_t *count)
{
    *bars = pk_bench_room(*bars, *count, sizeof **bars);
    struct bar *bar = &(*bars)[(*count)++];
    *bar = (struct bar){.low = NAN, .high = NAN, .class = "n"};
    return bar;
}

static bool seen_before(const pk_bench_results *results, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(results->items[j].primary.unit, results->items[i].primary.unit) == 0)
            return true;
    return false;
}

/* The bars of results, those of one unit together below its heading. */
static struct bar *bars_of_results(const pk_bench_results *results, size_t *ret_count)
{
    struct bar *bars = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < results->count; i++) {
        if (seen_before(results, i))
            continue;
        const char *unit = results->items[i].primary.unit;
        struct bar *heading = add(&bars, ret_count);
        heading->heading = true;
        heading->unit = unit;
        heading->label = pk_bench_copy(unit);
        for (size_t j = i; j < results->count; j++) {
            const pk_bench_result *result = &results->items[j];
            if (strcmp(result->primary.unit, unit) != 0)
                continue;
            pk_bench_metric_summary summary = pk_bench_metric_summarize(&result->primary);
            pk_bench_compared named = {.result = result};
            struct bar *bar = add(&bars, ret_count);
            bar->label = pk_bench_compared_name(&named);
            bar->value = pk_bench_format_metric(&summary, "");
            bar->unit = unit;
            bar->at = summary.score;
            bar->low = summary.score - summary.error;
            bar->high = summary.score + summary.error;
        }
    }
    return bars;
}

static struct bar *bars_of_comparison(const pk_bench_comparison *comparison, size_t *ret_count)
{
    struct bar *bars = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        const pk_bench_compared *compared = &comparison->items[i];
        pk_bench_text value = {0};
        if (!(compared->gain > 0) || isinf(compared->gain))
            continue;
        pk_bench_text_print(&value, "%.3f %s", compared->gain,
                            pk_bench_verdict_text(compared->verdict));
        struct bar *bar = add(&bars, ret_count);
        bar->label = pk_bench_compared_name(compared);
        bar->value = pk_bench_text_take(&value);
        bar->unit = "gain";
        bar->at = compared->gain;
        bar->low = compared->gain_low;
        bar->high = compared->gain_high;
        bar->class = compared->verdict == PK_BENCH_FASTER   ? "b"
                     : compared->verdict == PK_BENCH_SLOWER ? "w"
                                                            : "s";
    }
    return bars;
}

/* Where a value lies between the ends of the axis, 0 to 1. */
struct axis {
    double low;
    double high;
    bool logarithmic;
};

static double place(const struct axis *axis, double value)
{
    double share = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                     : (value - axis->low) / (axis->high - axis->low);
    return isnan(share) || share < 0 ? 0 : share > 1 ? 1 : share;
}

/* The axis for the bars of one unit. */
static struct axis axis_of(const struct bar *bars, size_t count, const char *unit)
{
    double least = INFINITY;
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        if (bars[i].heading || strcmp(bars[i].unit, unit) != 0)
            continue;
        double high = isnan(bars[i].high) ? bars[i].at : bars[i].high;
        if (bars[i].at > 0)
            least = fmin(least, bars[i].at);
        most = fmax(most, high);
    }
    struct axis axis = {0, most > 0 ? most : 1, least < INFINITY && most / least > LOG_FROM};
    if (axis.logarithmic)
        axis.low = pow(10, floor(log10(least) - 0.1));
    return axis;
}

/* An axis that has 1 in the middle. */
static struct axis axis_of_gains(const struct bar *bars, size_t count)
{
    double far = 1.05;
    for (size_t i = 0; i < count; i++) {
        far = fmax(far, fmax(bars[i].at, 1 / bars[i].at));
        if (bars[i].high > 0)
            far = fmax(far, bars[i].high);
        if (bars[i].low > 0)
            far = fmax(far, 1 / bars[i].low);
    }
    return (struct axis){1 / far, far, true};
}

/* The bar, with its label to the left of x `left` and its value behind the axis. */
static void put_bar(pk_bench_text *text, const struct bar *bar, const struct axis *axis, int left,
                    double from, double y)
{
    double start = left + BARS * from;
    double end = left + BARS * place(axis, bar->at);
    pk_bench_text_print(text, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">", left - 10,
                        y + ROW - 9);
    put_escaped(text, bar->label);
    pk_bench_text_print(text,
                        "</text><rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
                        "height=\"%d\"/>",
                        bar->class, fmin(start, end), y + 4, fmax(fabs(end - start), 1), ROW - 8);
    if (!isnan(bar->low))
        pk_bench_text_print(text,
                            "<line class=\"i\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>",
                            left + BARS * place(axis, bar->low),
                            left + BARS * place(axis, bar->high), y + ROW / 2.0, y + ROW / 2.0);
    pk_bench_text_print(text, "<text x=\"%d\" y=\"%.0f\">", left + BARS + 8, y + ROW - 9);
    put_escaped(text, bar->value);
    pk_bench_text_put(text, "</text>\n");
}

/* What the two ends of the axis stand for. */
static void put_ends(pk_bench_text *text, const struct axis *axis, int left, double y)
{
    pk_bench_text_print(text, "<text class=\"e\" x=\"%d\" y=\"%.0f\">%.4g</text>", left, y,
                        axis->low);
    pk_bench_text_print(text,
                        "<text class=\"e\" x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%.4g</text>\n",
                        left + BARS, y, axis->high);
}

static int label_width(const struct bar *bars, size_t count)
{
    int columns = 20;
    for (size_t i = 0; i < count; i++)
        if (!bars[i].heading && pk_bench_text_columns(bars[i].label) > columns)
            columns = pk_bench_text_columns(bars[i].label);
    return columns * COLUMN + 20;
}

static void put_svg(pk_bench_text *text, const struct bar *bars, size_t count, bool comparison)
{
    double height = TOP + ROW * (double) count + 10;
    int left = label_width(bars, count);
    int width = left + BARS + VALUES;
    struct axis axis = axis_of_gains(bars, comparison ? count : 0);
    pk_bench_text_print(text,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
                        "viewBox=\"0 0 %d %.0f\">\n",
                        width, height, width, height);
    pk_bench_text_put(text, style);
    pk_bench_text_put(text, "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
    pk_bench_text_print(text, "<text class=\"h\" x=\"10\" y=\"24\">%s</text>\n",
                        comparison ? "Gain over the baseline, above 1 is better; "
                                     "whiskers: 99.9 % intervals"
                                   : "Scores; whiskers: 99.9 % intervals");
    for (size_t i = 0; i < count; i++) {
        double y = TOP + ROW * (double) i;
        if (bars[i].heading) {
            axis = axis_of(bars, count, bars[i].unit);
            put_ends(text, &axis, left, y + ROW - 6);
            pk_bench_text_print(text, "<text class=\"h\" x=\"%d\" y=\"%.0f\">", left + BARS + 8,
                                y + ROW - 8);
            put_escaped(text, bars[i].label);
            pk_bench_text_print(text, "%s</text>\n", axis.logarithmic ? ", logarithmic axis" : "");
        } else {
            put_bar(text, &bars[i], &axis, left, comparison ? 0.5 : 0, y);
        }
    }
    if (comparison) {
        put_ends(text, &axis, left, TOP - 6);
        pk_bench_text_print(text, "<line class=\"a\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%.0f\"/>\n",
                            left + BARS / 2, left + BARS / 2, TOP, height - 10);
    }
    pk_bench_text_put(text, "</svg>\n");
}

void pk_bench_chart(pk_bench_text *text, const pk_bench_results *results,
                    const pk_bench_comparison *comparison, const pk_bench_environment *environment,
                    bool html)
{
    size_t count;
    struct bar *bars =
        comparison ? bars_of_comparison(comparison, &count) : bars_of_results(results, &count);
    if (html)
        pk_bench_text_put(text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                                "<title>pekoe benchmarks</title></head><body>\n");
    else
        pk_bench_text_put(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    put_svg(text, bars, count, comparison != NULL);
    if (html) {
        pk_bench_text table = {0};
        pk_bench_environment_print(&table, environment);
        pk_bench_report_table(&table, results);
        if (comparison) {
            pk_bench_text_put(&table, "\n");
            pk_bench_comparison_print(&table, comparison);
        }
        pk_bench_text_put(text, "<pre>");
        put_escaped(text, table.bytes);
        pk_bench_text_put(text, "</pre>\n</body></html>\n");
        pk_bench_text_done(&table);
    }
    for (size_t i = 0; i < count; i++) {
        free(bars[i].label);
        free(bars[i].value);
    }
    free(bars);
}
