/*
 * From the command line to the reports: lists, runs trials in forks, collects, and writes out.
 *
 * The only file that knows all the others. Called by main.
 */
#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/chart.h"
#include "jmh-like-bench/compare.h"
#include "jmh-like-bench/fork.h"
#include "jmh-like-bench/profile.h"
#include "jmh-like-bench/progress.h"
#include "jmh-like-bench/report.h"
#include "jmh-like-bench/result_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DEFECT = 1, EXIT_REGRESSION = 3 };

/* Nanoseconds. No loop turns this fast on a processor below 6 GHz. */
#define LEAST_TIME 0.15

/* A run and the trial that it is at. */
struct run {
    const pk_bench_options *options;
    const pk_bench_command *command;
    pk_bench_environment environment;
    FILE *out; /* the readable output */
    pk_bench_results results;
    pk_bench_results baseline;
    unsigned failures;
    unsigned unsteady; /* forks before which the machine was not steady */
    double worst;      /* the largest deviation seen, in percent */
    double total;      /* nanoseconds that all trials take at least */
    double done;
    uint64_t began;

    const pk_bench_plan *plan;
    pk_bench_result *result; /* NULL in a warm-up fork */
    unsigned fork;
    bool failed; /* or skipped */
    bool skipped;
    double nanoseconds; /* per invocation, of the last iteration */
};

static void on_begin(void *self, bool warmup, unsigned number)
{
    struct run *run = self;
    if (run->options->verbosity != PK_BENCH_SILENT)
        pk_bench_show_begin(run->out, warmup, number);
}

static pk_bench_point *copy_points(const pk_bench_point *points, size_t count)
{
    if (!points)
        return NULL;
    pk_bench_point *copy = pk_bench_zeroed(count, sizeof *copy);
    memcpy(copy, points, count * sizeof *copy);
    return copy;
}

static void on_end(void *self, const pk_bench_iteration *iteration)
{
    struct run *run = self;
    run->nanoseconds = iteration->nanoseconds;
    if (run->options->verbosity != PK_BENCH_SILENT)
        pk_bench_show_iteration(run->out, run->plan, iteration);
    if (iteration->warmup || !run->result)
        return;
    pk_bench_metric_add_score(&run->result->primary, run->fork, iteration->score,
                              copy_points(iteration->points, iteration->point_count),
                              iteration->point_count);
    for (size_t i = 0; i < iteration->extras.count; i++) {
        const pk_bench_extra *extra = &iteration->extras.items[i];
        pk_bench_metric_add_score(
            pk_bench_result_metric(run->result, extra->label, extra->unit, extra->policy),
            run->fork, extra->value, NULL, 0);
    }
}

static void on_failed(void *self, const char *why)
{
    struct run *run = self;
    run->failed = true;
    fprintf(run->out, "<failure>\n\n%s: %s\n\n", run->plan->benchmark->name, why);
    if (run->out != stdout)
        fprintf(stderr, "%s: %s\n", run->plan->benchmark->name, why);
}

static void on_skipped(void *self, const char *why)
{
    struct run *run = self;
    run->failed = run->skipped = true;
    fprintf(run->out, "<skipped>\n\n%s: %s\n\n", run->plan->benchmark->name, why);
}

static pk_bench_result begin_result(const pk_bench_plan *plan)
{
    char warmup_time[48];
    char time[48];
    pk_bench_time_write(plan->warmup.time, warmup_time, sizeof warmup_time);
    pk_bench_time_write(plan->measurement.time, time, sizeof time);
    const char *method = strrchr(plan->benchmark->name, '.');
    pk_bench_result result = {
        .benchmark = pk_bench_copy(plan->benchmark->name),
        .mode = plan->mode,
        .params = pk_bench_zeroed(plan->param_count, sizeof *result.params),
        .param_count = plan->param_count,
        .threads = plan->threads,
        .forks = plan->forks,
        .warmup_iterations = plan->warmup.iterations,
        .warmup_time = pk_bench_copy(warmup_time),
        .warmup_batch = plan->warmup.batch,
        .iterations = plan->measurement.iterations,
        .time = pk_bench_copy(time),
        .batch = plan->measurement.batch,
        .primary = {.label = pk_bench_copy(method + 1), .unit = pk_bench_unit_of_plan(plan)},
    };
    for (size_t i = 0; i < plan->param_count; i++)
        result.params[i] = (pk_bench_pair){pk_bench_copy(plan->params[i].name),
                                           pk_bench_copy(plan->params[i].value)};
    return result;
}

static void show_share(struct run *run)
{
    double share = run->total > 0 ? run->done / run->total : 0;
    double spent = (double) (pk_bench_now() - run->began) / 1e9;
    double left = share > 0 ? spent / share - spent : run->total / 1e9;
    if (run->options->verbosity != PK_BENCH_SILENT)
        pk_bench_show_share(run->out, share, left);
}

static void look_at_machine(struct run *run)
{
    pk_bench_steadiness steadiness = pk_bench_steadiness_measure();
    double percent = 100 * fmax(steadiness.deviation / steadiness.median,
                                steadiness.median / steadiness.fastest - 1);
    if (percent > run->worst)
        run->worst = percent;
    if (pk_bench_is_steady(&steadiness))
        return;
    run->unsteady++;
    if (run->options->verbosity == PK_BENCH_EXTRA)
        fprintf(run->out, "# The machine is not steady: the same work varies by %.1f%%\n", percent);
}

/* One fork, or the same in this process when there are to be none. */
static bool run_fork(struct run *run, size_t number, bool warmup_fork, unsigned fork)
{
    pk_bench_sink sink = {on_begin, on_end, on_failed, on_skipped, run};
    const pk_bench_plan *plan = run->plan;
    bool forked = plan->forks > 0;
    run->fork = fork;
    show_share(run);
    look_at_machine(run);
    if (run->options->verbosity != PK_BENCH_SILENT) {
        if (!forked)
            fputs("# Fork: N/A, runs in this process: for trying out, not for figures\n", run->out);
        else
            fprintf(run->out, "# %sork: %u of %u\n", warmup_fork ? "Warmup F" : "F", fork + 1,
                    warmup_fork ? plan->warmup_forks : plan->forks);
    }
    bool good =
        forked ? pk_bench_fork(run->command, plan, number, &sink) : pk_bench_measure(plan, &sink);
    run->done += pk_bench_plan_duration(plan) / (forked ? plan->forks + plan->warmup_forks : 1);
    if (run->options->verbosity != PK_BENCH_SILENT)
        fputs("\n", run->out);
    return good;
}

/*
 * Instructions per operation: the difference of two counts, so that everything which the harness
 * does once, and the warm-up, cancels.
 */
static void count_instructions(struct run *run, size_t number)
{
    const pk_bench_plan *plan = run->plan;
    double few;
    double many;
    char *error = NULL;
    /* About 4 ms of work natively, which is some tenths of a second under valgrind. */
    double wanted = run->nanoseconds > 0 ? 4e6 / run->nanoseconds : 100;
    uint64_t step = wanted < 4 ? 4 : wanted > 2000 ? 2000 : (uint64_t) wanted;
    if (pk_bench_count_instructions(run->command, number, step, step, &few, &error) &&
        pk_bench_count_instructions(run->command, number, step, 3 * step, &many, &error)) {
        double operations = 2 * (double) step * plan->operations / plan->measurement.batch;
        pk_bench_metric_add_score(
            pk_bench_result_metric(run->result, "callgrind.instructions", "#/op", PK_BENCH_AVERAGE),
            0, (many - few) / operations, NULL, 0);
        return;
    }
    on_failed(run, error);
    free(error);
}

/* All forks of one benchmark; its result is kept when none failed. True also when skipped. */
static bool run_plan(struct run *run, size_t number, const pk_bench_plan *plan)
{
    pk_bench_result result = begin_result(plan);
    unsigned forks = plan->forks ? plan->forks : 1;
    unsigned warmup_forks = plan->forks ? plan->warmup_forks : 0;
    run->plan = plan;
    run->failed = run->skipped = false;
    run->result = NULL;
    if (run->options->verbosity != PK_BENCH_SILENT)
        pk_bench_show_heading(run->out, plan);
    for (unsigned fork = 0; fork < warmup_forks && !run->failed; fork++)
        run_fork(run, number, true, fork);
    run->result = &result;
    for (unsigned fork = 0; fork < forks && !run->failed; fork++)
        run_fork(run, number, false, fork);
    if (!run->failed && (plan->profilers & PK_BENCH_PROFILE_CALLGRIND))
        count_instructions(run, number);
    if (run->failed) {
        pk_bench_result_done(&result);
        run->failures += !run->skipped;
        return run->skipped;
    }
    if (run->nanoseconds < LEAST_TIME)
        fprintf(run->out,
                "*** WARNING: an invocation takes %.3f ns, less than a processor's cycle: its work "
                "was removed, or its loop was joined. ***\n",
                run->nanoseconds);
    pk_bench_result_derive(&result);
    if (run->options->verbosity != PK_BENCH_SILENT)
        pk_bench_show_result(run->out, &result);
    pk_bench_results_take(&run->results, &result);
    return true;
}

static void run_plans(struct run *run, const pk_bench_plans *plans)
{
    char time[32];
    run->began = pk_bench_now();
    for (size_t i = 0; i < plans->count; i++)
        run->total += pk_bench_plan_duration(&plans->items[i]);
    for (size_t i = 0; i < plans->count; i++)
        if (!run_plan(run, i, &plans->items[i]) && run->options->fail_on_error)
            break;
    pk_bench_format_duration((double) (pk_bench_now() - run->began) / 1e9, time, sizeof time);
    fprintf(run->out, "# Run complete. Total time: %s\n\n", time);
    if (run->unsteady > 0)
        fprintf(run->out,
                "WARNING: the machine was not steady before %u fork%s: the same work varied by up "
                "to %.1f%%.\nSmall differences in this run mean nothing.\n\n",
                run->unsteady, run->unsteady == 1 ? "" : "s", run->worst);
}

static bool write_file(const char *path, const pk_bench_text *text)
{
    FILE *file = fopen(path, "w");
    bool good =
        file && fwrite(text->bytes ? text->bytes : "", 1, text->length, file) == text->length;
    if (file && fclose(file) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "pekoe-bench: cannot write %s: %s\n", path, strerror(errno));
    return good;
}

/* `room` is for the name that results have without -rff. */
static const char *result_path(const pk_bench_options *options, char room[static 32])
{
    snprintf(room, 32, "jmh-result.%s", pk_bench_format_name(options->format));
    return options->result_file ? options->result_file : room;
}

/* Found out beforehand: a run may take hours. The file is there then, empty if it was not before. */
static bool can_write(const char *path)
{
    FILE *file = fopen(path, "a");
    if (file)
        return fclose(file) == 0;
    fprintf(stderr, "pekoe-bench: cannot write %s: %s\n", path, strerror(errno));
    return false;
}

/* What a run would be in vain without: a baseline that can be read, files that can be written. */
static bool prepare_files(struct run *run)
{
    const pk_bench_options *options = run->options;
    char room[32], *error = NULL;
    if (options->fail_on_regression && !options->baseline_file) {
        fputs("pekoe-bench: --fail-on-regression wants a --baseline to compare with\n", stderr);
        return false;
    }
    if (options->baseline_file &&
        !pk_bench_results_read(&run->baseline, options->baseline_file, &error)) {
        fprintf(stderr, "pekoe-bench: %s\n", error);
        free(error);
        return false;
    }
    return (!options->chart_file || can_write(options->chart_file)) &&
           (!options->result_wanted || can_write(result_path(options, room)));
}

static bool write_results(struct run *run)
{
    const pk_bench_options *options = run->options;
    char room[32];
    const char *path = result_path(options, room);
    pk_bench_text text = {0};
    pk_bench_report(&text, options->format, &run->results, &run->environment);
    bool good = write_file(path, &text);
    pk_bench_text_done(&text);
    if (good)
        fprintf(run->out, "\nBenchmark result is saved to %s\n", path);
    return good;
}

/* Everything that is made from results once they are there. Returns the exit status. */
static int conclude(struct run *run)
{
    const pk_bench_options *options = run->options;
    int status = run->failures ? EXIT_DEFECT : 0;
    pk_bench_comparison comparison = {0};
    pk_bench_text text = {0};

    pk_bench_report_table(&text, &run->results);
    fputs(text.bytes, run->out);
    pk_bench_text_done(&text);
    if (options->baseline_file) {
        pk_bench_compare(&comparison, &run->baseline, &run->results);
        pk_bench_comparison_print(&text, &comparison);
        fprintf(run->out, "\n%s", text.bytes);
        pk_bench_text_done(&text);
        if (options->fail_on_regression && comparison.slower > 0 && status == 0)
            status = EXIT_REGRESSION;
        if (options->fail_on_regression && comparison.count == 0) {
            fputs("pekoe-bench: the baseline has none of these benchmarks\n", stderr);
            status = EXIT_DEFECT;
        }
    }
    if (options->chart_file) {
        size_t length = strlen(options->chart_file);
        bool html = strcmp(options->chart_file + length - 5, ".html") == 0;
        pk_bench_chart(&text, &run->results, comparison.count ? &comparison : NULL,
                       &run->environment, html);
        if (!write_file(options->chart_file, &text))
            status = EXIT_DEFECT;
        else
            fprintf(run->out, "\nChart is saved to %s\n", options->chart_file);
        pk_bench_text_done(&text);
    }
    if (options->result_wanted && !write_results(run))
        status = EXIT_DEFECT;
    pk_bench_comparison_done(&comparison);
    return status;
}

static void list_params(const pk_benchmark *benchmark, const pk_bench_options *options)
{
    for (const pk_bench_param *param = benchmark->params; param && param->name; param++) {
        const pk_bench_list *asked = NULL;
        for (size_t i = 0; i < options->param_count; i++)
            if (strcmp(options->params[i].name, param->name) == 0)
                asked = &options->params[i].values;
        printf("  param \"%s\" = {", param->name);
        for (size_t i = 0; asked ? i < asked->count : param->values[i] != NULL; i++)
            printf("%s%s", i ? ", " : "", asked ? asked->items[i] : param->values[i]);
        printf("}\n");
    }
}

static void list_benchmarks(const pk_bench_plans *plans, const pk_bench_options *options)
{
    const pk_benchmark *last = NULL;
    printf("Benchmarks: \n");
    for (size_t i = 0; i < plans->count; i++) {
        const pk_benchmark *benchmark = plans->items[i].benchmark;
        if (benchmark == last)
            continue;
        last = benchmark;
        printf("%s\n", benchmark->name);
        if (options->verbosity == PK_BENCH_EXTRA)
            printf("  %s\n", benchmark->operation);
        if (options->action == PK_BENCH_LIST_PARAMS)
            list_params(benchmark, options);
    }
}

static bool valgrind_found(void)
{
    const char *path = getenv("PATH");
    pk_bench_text file = {0};
    bool found = false;
    while (path && *path && !found) {
        size_t length = strcspn(path, ":");
        pk_bench_text_print(&file, "%.*s/valgrind", (int) length, path);
        found = access(file.bytes, X_OK) == 0;
        pk_bench_text_done(&file);
        path += length + (path[length] == ':');
    }
    return found;
}

static void list_profilers(void)
{
    char library[4096];
    bool hardware;
    char *missing = pk_bench_missing_events(&hardware);
    printf("Profilers:\n");
    printf("         gc: allocations, bytes and frees per operation, by counting malloc%s\n",
           pk_bench_allocation_library(library, sizeof library)
               ? ""
               : "\n             not here: libpekoe-bench-alloc.so is not beside the program");
    printf("  callgrind: instructions per operation, counted by valgrind%s\n",
           valgrind_found() ? "" : "\n             not here: valgrind is not installed");
    printf("   perfnorm: processor and kernel events per operation, by perf_event_open\n");
    if (*missing)
        printf("             not here: %s%s\n", missing,
               hardware ? "" : " (this machine shows no hardware counters)");
    free(missing);
}

/* Whether the profilers asked for can be had; starts this program anew where that takes it. */
static bool check_profilers(struct run *run)
{
    char library[4096];
    unsigned asked = run->options->profilers;
    if ((asked & PK_BENCH_PROFILE_CALLGRIND) && !valgrind_found()) {
        fputs("pekoe-bench: -prof callgrind needs valgrind, which is not installed\n", stderr);
        return false;
    }
    if (!(asked & PK_BENCH_PROFILE_GC) || pk_bench_allocations_counted())
        return true;
    if (!pk_bench_allocation_library(library, sizeof library)) {
        fputs("pekoe-bench: -prof gc needs libpekoe-bench-alloc.so beside the program\n", stderr);
        return false;
    }
    if (run->options->forks == 0) /* nothing is started in which malloc could be replaced */
        pk_bench_restart_counting(run->command);
    return true;
}

static void note_missing_events(const struct run *run)
{
    bool hardware;
    char *missing = pk_bench_missing_events(&hardware);
    if (*missing)
        fprintf(run->out, "# perfnorm: not on this machine: %s%s\n\n", missing,
                hardware ? "" : ". There are no hardware counters here at all");
    free(missing);
}

static void print_preamble(struct run *run)
{
    pk_bench_text text = {0};
    pk_bench_environment_print(&text, &run->environment);
    if (run->options->verbosity != PK_BENCH_SILENT)
        fputs(text.bytes, run->out);
    pk_bench_text_done(&text);
    if (run->options->gc_asked)
        fputs("# -gc is ignored: there is no collector\n\n", run->out);
    if (run->options->profilers & PK_BENCH_PROFILE_PERFNORM)
        note_missing_events(run);
}

/* Results from a file in the place of a run. */
static int read_and_conclude(struct run *run)
{
    char *error = NULL;
    if (run->options->result_wanted && run->options->format == PK_BENCH_FORMAT_JSON) {
        /* The machine and build that JSON names would be this one's, not those of the figures. */
        fputs("pekoe-bench: --input does not go with -rf json\n", stderr);
        return EXIT_DEFECT;
    }
    if (!pk_bench_results_read(&run->results, run->options->input_file, &error)) {
        fprintf(stderr, "pekoe-bench: %s\n", error);
        free(error);
        return EXIT_DEFECT;
    }
    return conclude(run);
}

static int run_and_conclude(struct run *run, const pk_bench_plans *plans)
{
    if (plans->count == 0) {
        fputs("No matching benchmarks. Miss-spelled regexp?\n", stderr);
        return EXIT_DEFECT;
    }
    if (!check_profilers(run))
        return EXIT_DEFECT;
    print_preamble(run);
    run_plans(run, plans);
    return conclude(run);
}

static int act(const pk_bench_options *options, const pk_bench_command *command,
               const pk_bench_plans *plans)
{
    struct run run = {.options = options, .command = command, .out = stdout};
    int status = EXIT_DEFECT;
    if (options->output_file && !(run.out = fopen(options->output_file, "w"))) {
        fprintf(stderr, "pekoe-bench: cannot write %s: %s\n", options->output_file,
                strerror(errno));
        return status;
    }
    pk_bench_environment_read(&run.environment);
    if (prepare_files(&run))
        status = options->input_file ? read_and_conclude(&run) : run_and_conclude(&run, plans);
    pk_bench_environment_done(&run.environment);
    pk_bench_results_done(&run.results);
    pk_bench_results_done(&run.baseline);
    if (run.out != stdout)
        fclose(run.out);
    return status;
}

static int list_or_act(const pk_bench_options *options, const pk_bench_command *command,
                       const pk_bench_plans *plans)
{
    pk_bench_text text = {0};
    switch (options->action) {
    case PK_BENCH_HELP:
        pk_bench_options_help(&text);
        fputs(text.bytes, stdout);
        pk_bench_text_done(&text);
        return 0;
    case PK_BENCH_LIST:
    case PK_BENCH_LIST_PARAMS:
        list_benchmarks(plans, options);
        return 0;
    case PK_BENCH_LIST_FORMATS:
        printf("Available formats: text, csv, scsv, json, latex\n");
        return 0;
    case PK_BENCH_LIST_PROFILERS:
        list_profilers();
        return 0;
    case PK_BENCH_RUN:
        break;
    }
    return options->internal ? pk_bench_fork_main(plans, options->internal)
                             : act(options, command, plans);
}

int pk_bench_main(int argc, char **argv)
{
    pk_bench_options options;
    pk_bench_plans plans = {0};
    pk_bench_command command = {argc, argv};
    char *error = NULL;
    int status = EXIT_DEFECT;
    if (!pk_bench_options_parse(&options, argc, argv, &error))
        fprintf(stderr, "Error parsing command line:\n %s\n", error);
    else if (!pk_bench_plans_make(&plans, &options, &error))
        fprintf(stderr, "pekoe-bench: %s\n", error);
    else
        status = list_or_act(&options, &command, &plans);
    free(error);
    pk_bench_plans_done(&plans);
    pk_bench_options_done(&options);
    return status;
}
