/*
 * The command line: JMH's options under JMH's names, and the few that go beyond it.
 *
 * Reads arguments into a struct and says what is wrong with them; runs nothing.
 */
#ifndef PEKOE_BENCH_OPTIONS_H
#define PEKOE_BENCH_OPTIONS_H

#include "jmh-like-bench/text.h"
#include "jmh-like-bench/time_unit.h"

typedef enum pk_bench_mode {
    PK_BENCH_THROUGHPUT,
    PK_BENCH_AVERAGE_TIME,
    PK_BENCH_SAMPLE_TIME,
    PK_BENCH_SINGLE_SHOT,
    PK_BENCH_MODES
} pk_bench_mode;

/* "thrpt", "avgt", "sample", "ss". */
const char *pk_bench_mode_label(pk_bench_mode mode);
/* "Throughput, ops/time" and so on, for the heading of a run. */
const char *pk_bench_mode_title(pk_bench_mode mode);
/* The mode with that short label; false for others. */
bool pk_bench_mode_find(const char *label, pk_bench_mode *ret_mode);

typedef enum pk_bench_action {
    PK_BENCH_RUN,
    PK_BENCH_LIST,
    PK_BENCH_LIST_PARAMS,
    PK_BENCH_LIST_FORMATS,
    PK_BENCH_LIST_PROFILERS,
    PK_BENCH_HELP
} pk_bench_action;

typedef enum pk_bench_format {
    PK_BENCH_FORMAT_TEXT,
    PK_BENCH_FORMAT_CSV,
    PK_BENCH_FORMAT_SCSV,
    PK_BENCH_FORMAT_JSON,
    PK_BENCH_FORMAT_LATEX,
    PK_BENCH_FORMATS
} pk_bench_format;

/* "text", "csv", ... */
const char *pk_bench_format_name(pk_bench_format format);

enum {
    PK_BENCH_PROFILE_GC = 1 << 0,
    PK_BENCH_PROFILE_CALLGRIND = 1 << 1,
    PK_BENCH_PROFILE_PERFNORM = 1 << 2,
};

typedef enum pk_bench_verbosity {
    PK_BENCH_SILENT,
    PK_BENCH_NORMAL,
    PK_BENCH_EXTRA
} pk_bench_verbosity;

typedef struct pk_bench_list {
    char **items; /* each freed with free */
    size_t count;
} pk_bench_list;

typedef struct pk_bench_option_param {
    char *name;
    pk_bench_list values;
} pk_bench_option_param;

/* An unset count is -1; an unset time has no unit. */
typedef struct pk_bench_options {
    pk_bench_action action;
    pk_bench_list includes; /* regular expressions */
    pk_bench_list excludes;
    pk_bench_option_param *params;
    size_t param_count;

    unsigned modes; /* 1 << pk_bench_mode, 0 for the default */
    int forks;
    int warmup_forks;
    int iterations;
    int warmup_iterations;
    int batch;
    int warmup_batch;
    int operations;
    int threads; /* 0 for as many as there are processors */
    pk_bench_time time;
    pk_bench_time warmup_time;
    pk_bench_time timeout;
    const pk_bench_unit *unit; /* NULL for seconds */
    bool unsynchronized;
    bool fail_on_error;
    unsigned profilers;
    pk_bench_verbosity verbosity;

    bool result_wanted; /* -rf or -rff was given */
    pk_bench_format format;
    const char *result_file; /* borrowed from argv, as all below; NULL for the default */
    const char *output_file;

    const char *baseline_file;
    const char *input_file;
    const char *chart_file;
    bool fail_on_regression;
    bool quick;
    bool gc_asked; /* -gc was given: there is no collector */

    /* What a parent passes to the process that it starts; see fork.h. */
    const char *internal;
} pk_bench_options;

/*
 * Reads argv[1] to argv[argc - 1]. On failure false, and ret_error gets a text to be freed; the
 * options are then to be done with, too.
 */
bool pk_bench_options_parse(pk_bench_options *options, int argc, char **argv, char **ret_error);
void pk_bench_options_done(pk_bench_options *options);

/* The text of -h. */
void pk_bench_options_help(pk_bench_text *text);

#endif
