/* jmh-like-bench/result_reader.c and json_reader.c, and every report on what they let through. */
#include "jmh-like-bench/chart.h"
#include "jmh-like-bench/report.h"
#include "jmh-like-bench/result_reader.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void report(const pk_bench_results *results)
{
    static char name[] = "fuzz";
    pk_bench_environment environment = {.harness = name,
                                        .program = name,
                                        .compiler = name,
                                        .flags = name,
                                        .build = name,
                                        .machine = name,
                                        .governor = name,
                                        .layout = name};
    pk_bench_comparison comparison;
    pk_bench_text text = {0};
    for (int format = 0; format < PK_BENCH_FORMATS; format++)
        pk_bench_report(&text, (pk_bench_format) format, results, &environment);
    pk_bench_compare(&comparison, results, results);
    pk_bench_chart(&text, results, &comparison, &environment, true);
    pk_bench_chart(&text, results, NULL, &environment, false);
    pk_bench_comparison_done(&comparison);
    pk_bench_text_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_bench_results results = {0};
    char *error = NULL;
    if (pk_bench_results_parse(&results, (const char *) data, size, &error))
        report(&results);
    free(error);
    pk_bench_results_done(&results);
    return 0;
}
