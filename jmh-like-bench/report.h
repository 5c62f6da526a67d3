/*
 * Results as text, CSV, LaTeX and JSON, each as JMH 1.37 writes it.
 *
 * Writes into a text; who calls it decides where that goes.
 */
#ifndef PEKOE_BENCH_REPORT_H
#define PEKOE_BENCH_REPORT_H

#include "jmh-like-bench/environment.h"
#include "jmh-like-bench/result.h"

/* "123.457", or "≈ 10⁻⁵" for what would show as 0.000. Freed with free. */
char *pk_bench_format_score(double score);
/* The same in LaTeX's words. */
char *pk_bench_format_score_latex(double score);
/* At least 0.001. */
char *pk_bench_format_error(double error);
/* Whether a score is shown by its order of magnitude alone. */
bool pk_bench_is_approximate(double score);
/* "1.234 ±(99.9%) 0.056 us/op". Freed with free. */
char *pk_bench_format_metric(const pk_bench_metric_summary *summary, const char *unit);

/* The table that closes a run. */
void pk_bench_report_table(pk_bench_text *text, const pk_bench_results *results);
void pk_bench_report_csv(pk_bench_text *text, const pk_bench_results *results, char delimiter);
void pk_bench_report_latex(pk_bench_text *text, const pk_bench_results *results);
void pk_bench_report_json(pk_bench_text *text, const pk_bench_results *results,
                          const pk_bench_environment *environment);

void pk_bench_report(pk_bench_text *text, pk_bench_format format, const pk_bench_results *results,
                     const pk_bench_environment *environment);

#endif
