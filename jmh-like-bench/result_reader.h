/*
 * Results from a JSON file: this harness's own, or JMH's. For --baseline and --input.
 */
#ifndef PEKOE_BENCH_RESULT_READER_H
#define PEKOE_BENCH_RESULT_READER_H

#include "jmh-like-bench/result.h"

/* On failure false; ret_error gets a text that names the file, to be freed. */
bool pk_bench_results_read(pk_bench_results *results, const char *path, char **ret_error);

/* The same of a text. */
bool pk_bench_results_parse(pk_bench_results *results, const char *text, size_t length,
                            char **ret_error);

#endif
