/* Summaries, percentiles and Student's t; see statistics.h. */
#include "jmh-like-bench/statistics.h"

#include <float.h>
#include <math.h>

/* Above this many degrees of freedom the normal approximation is better than 1e-9. */
#define LARGE_FREEDOM 1e5

static double error_of_mean(double deviation, uint64_t n)
{
    if (n <= 2)
        return NAN;
    double p = 1.0 - (1.0 - PK_BENCH_CONFIDENCE) / 2.0;
    return pk_bench_student_quantile(p, (double) (n - 1)) * deviation / sqrt((double) n);
}

pk_bench_summary pk_bench_summarize(const double *values, size_t n)
{
    pk_bench_summary summary = {.n = n, .min = NAN, .max = NAN, .mean = NAN, .deviation = NAN};
    for (size_t i = 0; i < n; i++) {
        summary.sum += values[i];
        summary.min = i == 0 ? values[i] : fmin(summary.min, values[i]);
        summary.max = i == 0 ? values[i] : fmax(summary.max, values[i]);
    }
    if (n > 0)
        summary.mean = summary.sum / (double) n;
    if (n > 1) {
        double squares = 0;
        for (size_t i = 0; i < n; i++)
            squares += (values[i] - summary.mean) * (values[i] - summary.mean);
        summary.deviation = sqrt(squares / (double) (n - 1));
    }
    summary.error = error_of_mean(summary.deviation, n);
    return summary;
}

pk_bench_summary pk_bench_summarize_points(const pk_bench_point *points, size_t n)
{
    pk_bench_summary summary = {.min = NAN, .max = NAN, .mean = NAN, .deviation = NAN};
    for (size_t i = 0; i < n; i++) {
        summary.n += points[i].count;
        summary.sum += points[i].value * (double) points[i].count;
        summary.min = i == 0 ? points[i].value : fmin(summary.min, points[i].value);
        summary.max = i == 0 ? points[i].value : fmax(summary.max, points[i].value);
    }
    if (summary.n > 0)
        summary.mean = summary.sum / (double) summary.n;
    if (summary.n > 1) {
        double squares = 0;
        for (size_t i = 0; i < n; i++) {
            double off = points[i].value - summary.mean;
            squares += off * off * (double) points[i].count;
        }
        summary.deviation = sqrt(squares / (double) (summary.n - 1));
    }
    summary.error = error_of_mean(summary.deviation, summary.n);
    return summary;
}

double pk_bench_percentile(const double *sorted, size_t n, double rank)
{
    if (n == 0)
        return NAN;
    double position = rank * ((double) n + 1) / 100;
    if (position < 1)
        return sorted[0];
    if (position >= (double) n)
        return sorted[n - 1];
    size_t below = (size_t) position;
    double step = sorted[below] - sorted[below - 1];
    return sorted[below - 1] + (position - (double) below) * step;
}

/* The value at a position counted from 1; positions outside give the nearest end. */
static double value_at(const pk_bench_point *sorted, size_t n, double position)
{
    double seen = 0;
    for (size_t i = 0; i < n; i++) {
        seen += (double) sorted[i].count;
        if (seen >= position)
            return sorted[i].value;
    }
    return sorted[n - 1].value;
}

double pk_bench_percentile_points(const pk_bench_point *sorted, size_t n, double rank)
{
    if (n == 0)
        return NAN;
    if (rank <= 0)
        return sorted[0].value;
    double count = 0;
    for (size_t i = 0; i < n; i++)
        count += (double) sorted[i].count;
    double position = rank * (count + 1) / 100;
    double below = value_at(sorted, n, floor(position));
    double above = value_at(sorted, n, floor(position) + 1);
    return below + (above - below) * (position - floor(position));
}

/*
 * The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated
 * from the front by Lentz's method.
 */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = DBL_MIN * 1e10;
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double result = d;
    for (int m = 1; m < 20000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 + even * d;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = 1 + even / c;
        c = fabs(c) < tiny ? tiny : c;
        result *= d * c;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + odd * d;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = 1 + odd / c;
        c = fabs(c) < tiny ? tiny : c;
        result *= d * c;
        if (fabs(d * c - 1) < 1e-15)
            break;
    }
    return result;
}

/* The regularized incomplete beta function; `rest` is 1 - x, given apart to keep its digits. */
static double beta_regularized(double a, double b, double x, double rest)
{
    if (x <= 0)
        return 0;
    if (rest <= 0)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, rest) / b;
}

/* P(T > t) for t >= 0. */
static double upper_tail(double t, double freedom)
{
    if (freedom > LARGE_FREEDOM) {
        double z = t * (1 - 1 / (4 * freedom)) / sqrt(1 + t * t / (2 * freedom));
        return erfc(z / sqrt(2.0)) / 2;
    }
    double sum = freedom + t * t;
    return beta_regularized(freedom / 2, 0.5, freedom / sum, t * t / sum) / 2;
}

double pk_bench_student_cdf(double t, double freedom)
{
    if (isnan(t) || !(freedom > 0))
        return NAN;
    return t >= 0 ? 1 - upper_tail(t, freedom) : upper_tail(-t, freedom);
}

double pk_bench_student_quantile(double p, double freedom)
{
    if (!(p > 0 && p < 1) || !(freedom > 0))
        return NAN;
    if (p < 0.5)
        return -pk_bench_student_quantile(1 - p, freedom);
    double tail = 1 - p;
    double low = 0;
    double high = 1;
    while (upper_tail(high, freedom) > tail && high < DBL_MAX / 4) {
        low = high;
        high *= 2;
    }
    /* Halving ends when no number is left between the two. */
    for (int i = 0; i < 200; i++) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            break;
        if (upper_tail(middle, freedom) > tail)
            low = middle;
        else
            high = middle;
    }
    return low + (high - low) / 2;
}

pk_bench_welch pk_bench_welch_test(const pk_bench_summary *a, const pk_bench_summary *b)
{
    pk_bench_welch test = {.t = NAN, .freedom = NAN, .p = NAN};
    if (a->n < 2 || b->n < 2)
        return test;
    double of_a = a->deviation * a->deviation / (double) a->n;
    double of_b = b->deviation * b->deviation / (double) b->n;
    double difference = a->mean - b->mean;
    if (!(of_a + of_b > 0)) { /* counted figures do not vary at all */
        test.t = difference > 0 ? INFINITY : difference < 0 ? -INFINITY : 0;
        test.freedom = (double) (a->n + b->n - 2);
        test.p = difference < 0 || difference > 0 ? 0 : 1;
        return test;
    }
    test.t = difference / sqrt(of_a + of_b);
    test.freedom = (of_a + of_b) * (of_a + of_b) /
                   (of_a * of_a / (double) (a->n - 1) + of_b * of_b / (double) (b->n - 1));
    test.p = 2 * upper_tail(fabs(test.t), test.freedom);
    return test;
}
