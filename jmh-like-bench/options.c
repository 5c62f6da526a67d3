/* JMH's command line; see options.h. One table holds every option, and the help text is its. */
#include "jmh-like-bench/options.h"

#include "jmh-like-bench/allocate.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum option {
    OPT_ITERATIONS,
    OPT_BATCH,
    OPT_TIME,
    OPT_WARMUP_ITERATIONS,
    OPT_WARMUP_BATCH,
    OPT_WARMUP_TIME,
    OPT_TIMEOUT,
    OPT_THREADS,
    OPT_MODE,
    OPT_SYNCHRONIZE,
    OPT_GC,
    OPT_FAIL_ON_ERROR,
    OPT_VERBOSITY,
    OPT_FORKS,
    OPT_WARMUP_FORKS,
    OPT_OUTPUT,
    OPT_RESULT_FILE,
    OPT_PROFILER,
    OPT_UNIT,
    OPT_OPERATIONS,
    OPT_FORMAT,
    OPT_EXCLUDE,
    OPT_PARAM,
    OPT_LIST,
    OPT_LIST_PARAMS,
    OPT_LIST_FORMATS,
    OPT_LIST_PROFILERS,
    OPT_HELP,
    OPT_QUICK,
    OPT_BASELINE,
    OPT_FAIL_ON_REGRESSION,
    OPT_INPUT,
    OPT_CHART,
    OPT_INTERNAL,
};

struct option_row {
    const char *name;
    const char *argument; /* NULL for none */
    const char *help;     /* NULL: not shown */
};

static const struct option_row rows[] = {
    [OPT_ITERATIONS] = {"-i", "int", "measured iterations (5; ss: 1)"},
    [OPT_BATCH] = {"-bs", "int", "invocations that make one operation (1)"},
    [OPT_TIME] = {"-r", "time", "least length of a measured iteration (10 s)"},
    [OPT_WARMUP_ITERATIONS] = {"-wi", "int", "warm-up iterations, not scored (5; ss: 0)"},
    [OPT_WARMUP_BATCH] = {"-wbs", "int", "-bs for warm-up (1)"},
    [OPT_WARMUP_TIME] = {"-w", "time", "least length of a warm-up iteration (10 s)"},
    [OPT_TIMEOUT] = {"-to", "time", "kill a fork whose iteration is this late (10 min)"},
    [OPT_THREADS] = {"-t", "int", "threads, or max (1)"},
    [OPT_MODE] = {"-bm", "mode+", "thrpt, avgt, sample, ss or all (thrpt)"},
    [OPT_SYNCHRONIZE] = {"-si", "bool", "measure only while every thread runs (true)"},
    [OPT_GC] = {"-gc", "bool", "accepted and ignored: there is no collector"},
    [OPT_FAIL_ON_ERROR] = {"-foe", "bool", "stop at the first failed benchmark (false)"},
    [OPT_VERBOSITY] = {"-v", "mode", "silent, normal or extra (normal)"},
    [OPT_FORKS] = {"-f", "int", "processes per benchmark; 0 runs in this one (5)"},
    [OPT_WARMUP_FORKS] = {"-wf", "int", "processes before those, not scored (0)"},
    [OPT_OUTPUT] = {"-o", "file", "where the readable output goes (standard output)"},
    [OPT_RESULT_FILE] = {"-rff", "file", "where results go (jmh-result.<format>)"},
    [OPT_PROFILER] = {"-prof", "profiler+", "gc, callgrind, perfnorm; see -lprof"},
    [OPT_UNIT] = {"-tu", "unit", "time unit of scores: m, s, ms, us, ns (s)"},
    [OPT_OPERATIONS] = {"-opi", "int", "operations per invocation"},
    [OPT_FORMAT] = {"-rf", "format", "format of results: text, csv, scsv, json, latex (csv)"},
    [OPT_EXCLUDE] = {"-e", "regexp+", "leave out benchmarks that match"},
    [OPT_PARAM] = {"-p", "name=v,w", "values of a parameter; once per parameter"},
    [OPT_LIST] = {"-l", NULL, "list what matches; with -v extra, what one operation does"},
    [OPT_LIST_PARAMS] = {"-lp", NULL, "list what matches, with parameters"},
    [OPT_LIST_FORMATS] = {"-lrf", NULL, "list formats of results"},
    [OPT_LIST_PROFILERS] = {"-lprof", NULL, "list profilers, and whether they work here"},
    [OPT_HELP] = {"-h", NULL, "this text"},
    [OPT_QUICK] = {"--quick", NULL, "-f 1 -wi 2 -w 100ms -i 5 -r 200ms, where not given"},
    [OPT_BASELINE] = {"--baseline", "file", "compare with this JSON result"},
    [OPT_FAIL_ON_REGRESSION] = {"--fail-on-regression", NULL, "exit 3 when one got worse"},
    [OPT_INPUT] = {"--input", "file", "read a JSON result instead of running"},
    [OPT_CHART] = {"--chart", "file", "draw result or comparison: file.svg or file.html"},
    [OPT_INTERNAL] = {"--internal", "text", NULL},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const struct {
    const char *label;
    const char *name;
    const char *title;
} modes[PK_BENCH_MODES] = {
    [PK_BENCH_THROUGHPUT] = {"thrpt", "Throughput", "Throughput, ops/time"},
    [PK_BENCH_AVERAGE_TIME] = {"avgt", "AverageTime", "Average time, time/op"},
    [PK_BENCH_SAMPLE_TIME] = {"sample", "SampleTime", "Sampling time"},
    [PK_BENCH_SINGLE_SHOT] = {"ss", "SingleShotTime", "Single shot invocation time"},
};

const char *pk_bench_mode_label(pk_bench_mode mode)
{
    return modes[mode].label;
}

const char *pk_bench_mode_title(pk_bench_mode mode)
{
    return modes[mode].title;
}

bool pk_bench_mode_find(const char *label, pk_bench_mode *ret_mode)
{
    for (int mode = 0; mode < PK_BENCH_MODES; mode++)
        if (strcasecmp(label, modes[mode].label) == 0 || strcasecmp(label, modes[mode].name) == 0) {
            *ret_mode = (pk_bench_mode) mode;
            return true;
        }
    return false;
}

static const char *const format_names[PK_BENCH_FORMATS] = {"text", "csv", "scsv", "json", "latex"};

const char *pk_bench_format_name(pk_bench_format format)
{
    return format_names[format];
}

static void append(pk_bench_list *list, const char *item, size_t length)
{
    list->items = pk_bench_room(list->items, list->count, sizeof *list->items);
    char *copy = pk_bench_zeroed(length + 1, 1);
    memcpy(copy, item, length);
    list->items[list->count++] = copy;
}

static void append_split(pk_bench_list *list, const char *items)
{
    for (;;) {
        size_t length = strcspn(items, ",");
        append(list, items, length);
        if (items[length] == '\0')
            return;
        items += length + 1;
    }
}

static void list_done(pk_bench_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

static bool parse_count(const char *value, int least, int *ret_count)
{
    char *end;
    long count = strtol(value, &end, 10);
    if (!isdigit((unsigned char) *value) || *end || count > INT_MAX || count < least)
        return false;
    *ret_count = (int) count;
    return true;
}

static bool parse_bool(const char *value, bool *ret_value)
{
    bool yes = strcasecmp(value, "true") == 0;
    if (!yes && strcasecmp(value, "false") != 0)
        return false;
    *ret_value = yes;
    return true;
}

static bool parse_threads(pk_bench_options *options, const char *value)
{
    if (strcasecmp(value, "max") != 0)
        return parse_count(value, 1, &options->threads);
    options->threads = 0;
    return true;
}

static bool parse_modes(pk_bench_options *options, const char *value)
{
    pk_bench_list names = {0};
    bool good = true;
    append_split(&names, value);
    for (size_t i = 0; i < names.count; i++) {
        pk_bench_mode mode;
        if (strcasecmp(names.items[i], "all") == 0)
            options->modes |= (1u << PK_BENCH_MODES) - 1;
        else if (pk_bench_mode_find(names.items[i], &mode))
            options->modes |= 1u << mode;
        else
            good = false;
    }
    list_done(&names);
    return good;
}

static bool parse_profilers(pk_bench_options *options, const char *value)
{
    static const char *const names[] = {"gc", "callgrind", "perfnorm"};
    pk_bench_list asked = {0};
    bool good = true;
    append_split(&asked, value);
    for (size_t i = 0; i < asked.count; i++) {
        size_t j = 0;
        while (j < 3 && strcasecmp(asked.items[i], names[j]) != 0)
            j++;
        if (j < 3)
            options->profilers |= 1u << j;
        else
            good = false;
    }
    list_done(&asked);
    return good;
}

static bool parse_format(pk_bench_options *options, const char *value)
{
    for (int format = 0; format < PK_BENCH_FORMATS; format++)
        if (strcasecmp(value, format_names[format]) == 0) {
            options->format = (pk_bench_format) format;
            options->result_wanted = true;
            return true;
        }
    return false;
}

static bool parse_verbosity(pk_bench_options *options, const char *value)
{
    static const char *const names[] = {"silent", "normal", "extra"};
    for (int level = 0; level < 3; level++)
        if (strcasecmp(value, names[level]) == 0) {
            options->verbosity = (pk_bench_verbosity) level;
            return true;
        }
    return false;
}

static bool parse_param(pk_bench_options *options, const char *value)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value || equals[1] == '\0')
        return false;
    size_t length = (size_t) (equals - value);
    pk_bench_option_param *param = NULL;
    for (size_t i = 0; i < options->param_count; i++)
        if (strncmp(options->params[i].name, value, length) == 0 &&
            options->params[i].name[length] == '\0')
            param = &options->params[i];
    if (!param) {
        options->params = pk_bench_room(options->params, options->param_count, sizeof *param);
        param = &options->params[options->param_count++];
        *param = (pk_bench_option_param){.name = pk_bench_zeroed(length + 1, 1)};
        memcpy(param->name, value, length);
    }
    append_split(&param->values, equals + 1);
    return true;
}

static bool parse_flag(pk_bench_options *options, enum option option)
{
    if (option == OPT_QUICK)
        options->quick = true;
    else if (option == OPT_FAIL_ON_REGRESSION)
        options->fail_on_regression = true;
    else
        options->action = option == OPT_LIST             ? PK_BENCH_LIST
                          : option == OPT_LIST_PARAMS    ? PK_BENCH_LIST_PARAMS
                          : option == OPT_LIST_FORMATS   ? PK_BENCH_LIST_FORMATS
                          : option == OPT_LIST_PROFILERS ? PK_BENCH_LIST_PROFILERS
                                                         : PK_BENCH_HELP;
    return true;
}

/* Options whose value is a text that is only kept. */
static bool parse_text(pk_bench_options *options, enum option option, const char *value)
{
    const char **place = option == OPT_OUTPUT        ? &options->output_file
                         : option == OPT_RESULT_FILE ? &options->result_file
                         : option == OPT_BASELINE    ? &options->baseline_file
                         : option == OPT_INPUT       ? &options->input_file
                         : option == OPT_CHART       ? &options->chart_file
                                                     : &options->internal;
    if (option == OPT_RESULT_FILE)
        options->result_wanted = true;
    *place = value;
    return *value != '\0';
}

static bool parse_chart(pk_bench_options *options, const char *value)
{
    size_t length = strlen(value);
    options->chart_file = value;
    return (length > 4 && strcmp(value + length - 4, ".svg") == 0) ||
           (length > 5 && strcmp(value + length - 5, ".html") == 0);
}

static bool parse_value(pk_bench_options *options, enum option option, const char *value)
{
    switch (option) {
    case OPT_ITERATIONS:
        return parse_count(value, 1, &options->iterations);
    case OPT_BATCH:
        return parse_count(value, 1, &options->batch);
    case OPT_TIME:
        return pk_bench_time_parse(value, &options->time);
    case OPT_WARMUP_ITERATIONS:
        return parse_count(value, 0, &options->warmup_iterations);
    case OPT_WARMUP_BATCH:
        return parse_count(value, 1, &options->warmup_batch);
    case OPT_WARMUP_TIME:
        return pk_bench_time_parse(value, &options->warmup_time);
    case OPT_TIMEOUT:
        return pk_bench_time_parse(value, &options->timeout);
    case OPT_THREADS:
        return parse_threads(options, value);
    case OPT_MODE:
        return parse_modes(options, value);
    case OPT_SYNCHRONIZE: {
        bool on;
        bool good = parse_bool(value, &on);
        options->unsynchronized = good && !on;
        return good;
    }
    case OPT_GC:
        return parse_bool(value, &options->gc_asked);
    case OPT_FAIL_ON_ERROR:
        return parse_bool(value, &options->fail_on_error);
    case OPT_VERBOSITY:
        return parse_verbosity(options, value);
    case OPT_FORKS:
        return parse_count(value, 0, &options->forks);
    case OPT_WARMUP_FORKS:
        return parse_count(value, 0, &options->warmup_forks);
    case OPT_PROFILER:
        return parse_profilers(options, value);
    case OPT_UNIT:
        options->unit = pk_bench_score_unit(value);
        return options->unit != NULL;
    case OPT_OPERATIONS:
        return parse_count(value, 1, &options->operations);
    case OPT_FORMAT:
        return parse_format(options, value);
    case OPT_EXCLUDE:
        append_split(&options->excludes, value);
        return true;
    case OPT_PARAM:
        return parse_param(options, value);
    case OPT_CHART:
        return parse_chart(options, value);
    case OPT_OUTPUT:
    case OPT_RESULT_FILE:
    case OPT_BASELINE:
    case OPT_INPUT:
    case OPT_INTERNAL:
        return parse_text(options, option, value);
    case OPT_LIST:
    case OPT_LIST_PARAMS:
    case OPT_LIST_FORMATS:
    case OPT_LIST_PROFILERS:
    case OPT_HELP:
    case OPT_QUICK:
    case OPT_FAIL_ON_REGRESSION:
        break;
    }
    return false;
}

/*
 * The row of an argument, ROW_COUNT for none. JMH's parser also takes "-f1" for "-f 1": the value
 * may follow a one-letter name at once, if it is a digit.
 */
static size_t find_row(const char *argument, const char **ret_attached)
{
    *ret_attached = NULL;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(argument, rows[i].name) == 0)
            return i;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strlen(rows[i].name) == 2 && rows[i].argument &&
            strncmp(argument, rows[i].name, 2) == 0 && isdigit((unsigned char) argument[2])) {
            *ret_attached = argument + 2;
            return i;
        }
    return ROW_COUNT;
}

bool pk_bench_options_parse(pk_bench_options *options, int argc, char **argv, char **ret_error)
{
    *options = (pk_bench_options){
        .forks = -1,
        .warmup_forks = -1,
        .iterations = -1,
        .warmup_iterations = -1,
        .batch = -1,
        .warmup_batch = -1,
        .operations = -1,
        .threads = -1,
        .verbosity = PK_BENCH_NORMAL,
        .format = PK_BENCH_FORMAT_CSV,
    };
    pk_bench_text error = {0};
    for (int i = 1; i < argc && error.length == 0; i++) {
        const char *value;
        if (argv[i][0] != '-') {
            append(&options->includes, argv[i], strlen(argv[i]));
            continue;
        }
        size_t row = find_row(argv[i], &value);
        if (row == ROW_COUNT) {
            pk_bench_text_print(&error, "%s is not a known option; see -h", argv[i]);
        } else if (!rows[row].argument) {
            parse_flag(options, (enum option) row);
        } else {
            if (!value && ++i < argc)
                value = argv[i];
            if (!value)
                pk_bench_text_print(&error, "option %s wants a value: <%s>", rows[row].name,
                                    rows[row].argument);
            else if (!parse_value(options, (enum option) row, value))
                pk_bench_text_print(&error, "cannot parse '%s' for option %s <%s>: %s", value,
                                    rows[row].name, rows[row].argument, rows[row].help);
        }
    }
    if (error.length == 0)
        return true;
    *ret_error = pk_bench_text_take(&error);
    return false;
}

void pk_bench_options_done(pk_bench_options *options)
{
    list_done(&options->includes);
    list_done(&options->excludes);
    for (size_t i = 0; i < options->param_count; i++) {
        free(options->params[i].name);
        list_done(&options->params[i].values);
    }
    free(options->params);
}

void pk_bench_options_help(pk_bench_text *text)
{
    pk_bench_text_put(text, "Usage: pekoe-bench [regexp*] [options]\n"
                            "Runs the benchmarks whose name one of the regular expressions "
                            "(POSIX extended) finds; all without one.\n"
                            "\"+\" means values with commas between them; a time is a whole number "
                            "and ns, us, ms, s, min, hr or day.\n\n");
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!rows[i].help)
            continue;
        char name[64];
        pk_bench_text name_text = {0};
        pk_bench_text_put(&name_text, rows[i].name);
        if (rows[i].argument)
            pk_bench_text_print(&name_text, " <%s>", rows[i].argument);
        strncpy(name, name_text.bytes, sizeof name - 1);
        name[sizeof name - 1] = '\0';
        pk_bench_text_done(&name_text);
        pk_bench_text_put(text, "  ");
        pk_bench_text_pad(text, -24, name);
        pk_bench_text_print(text, "%s\n", rows[i].help);
    }
}
