/*
 * A picture of results: bars with their 99.9 % intervals, or, of a comparison, gains around 1.
 * One SVG, alone or within an HTML page; no script, nothing from outside.
 */
#ifndef PEKOE_BENCH_CHART_H
#define PEKOE_BENCH_CHART_H

#include "jmh-like-bench/compare.h"
#include "jmh-like-bench/environment.h"

/* `comparison` is NULL for a chart of the results alone. */
void pk_bench_chart(pk_bench_text *text, const pk_bench_results *results,
                    const pk_bench_comparison *comparison, const pk_bench_environment *environment,
                    bool html);

#endif
