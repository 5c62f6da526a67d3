/* The registry of benchmarks, and the list of trials made from it; see plan.h. */
#include "jmh-like-bench/plan.h"

#include "jmh-like-bench/allocate.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pk_benchmark **registered;
static size_t registered_count;

void pk_bench_register(const pk_benchmark *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        registered = pk_bench_room(registered, registered_count, sizeof *registered);
        registered[registered_count++] = &table[i];
    }
}

static int by_name(const void *a, const void *b)
{
    const pk_benchmark *const *left = a;
    const pk_benchmark *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* What a table must not leave out; NULL when all is well. */
static const char *fault(const pk_benchmark *benchmark, const pk_benchmark *before)
{
    if (!strchr(benchmark->name, '.'))
        return "its name has no dot: viewers want Class.method";
    if (before && strcmp(benchmark->name, before->name) == 0)
        return "another benchmark has the same name";
    if (!benchmark->run || !benchmark->operation)
        return "run or operation is missing";
    if (!benchmark->check)
        return "it has no check, so nobody would notice if it did nothing";
    return NULL;
}

/* 1 when one of the expressions finds something in the name, -1 when one is wrong. */
static int matches(const pk_bench_list *expressions, const char *name, pk_bench_text *error)
{
    int found = 0;
    for (size_t i = 0; i < expressions->count && !found; i++) {
        regex_t regex;
        int code = regcomp(&regex, expressions->items[i], REG_EXTENDED | REG_NOSUB);
        if (code != 0) {
            char why[128];
            regerror(code, &regex, why, sizeof why);
            pk_bench_text_print(error, "wrong regular expression '%s': %s", expressions->items[i],
                                why);
            return -1;
        }
        found = regexec(&regex, name, 0, NULL, 0) == 0;
        regfree(&regex);
    }
    return found;
}

static const pk_bench_list *asked_values(const pk_bench_options *options, const char *name)
{
    for (size_t i = 0; i < options->param_count; i++)
        if (strcmp(options->params[i].name, name) == 0)
            return &options->params[i].values;
    return NULL;
}

static size_t value_count(const pk_bench_options *options, const pk_bench_param *param)
{
    const pk_bench_list *asked = asked_values(options, param->name);
    size_t count = 0;
    if (asked)
        return asked->count;
    while (param->values[count])
        count++;
    return count;
}

static const char *value_at(const pk_bench_options *options, const pk_bench_param *param, size_t i)
{
    const pk_bench_list *asked = asked_values(options, param->name);
    return asked ? asked->items[i] : param->values[i];
}

static unsigned pick(int first, int second, unsigned otherwise)
{
    return first >= 0 ? (unsigned) first : second >= 0 ? (unsigned) second : otherwise;
}

static pk_bench_time pick_time(pk_bench_time first, pk_bench_time otherwise)
{
    return first.unit ? first : otherwise;
}

static pk_bench_time seconds(uint64_t count)
{
    return (pk_bench_time){count, &pk_bench_second};
}

static unsigned processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned) count : 1;
}

/* Everything but the parameters. */
static pk_bench_plan settle(const pk_benchmark *benchmark, pk_bench_mode mode,
                            const pk_bench_options *options)
{
    static const pk_bench_unit millisecond = {"ms", 1e6, 1000000};
    static const pk_bench_unit minute = {"min", 6e10, UINT64_C(60000000000)};
    bool single = mode == PK_BENCH_SINGLE_SHOT;
    bool quick = options->quick;
    pk_bench_time quick_warmup = {100, &millisecond};
    pk_bench_time quick_time = {200, &millisecond};
    pk_bench_plan plan = {
        .benchmark = benchmark,
        .mode = mode,
        .forks = pick(options->forks, quick ? 1 : -1, 5),
        .warmup_forks = pick(options->warmup_forks, -1, 0),
        .threads = options->threads == 0 ? processors() : pick(options->threads, -1, 1),
        .operations = pick(options->operations, -1, benchmark->operations),
        .timeout = pick_time(options->timeout, (pk_bench_time){10, &minute}),
        .unit = options->unit ? options->unit : &pk_bench_second,
        .synchronized = !options->unsynchronized,
        .profilers = options->profilers,
    };
    plan.warmup.iterations = pick(options->warmup_iterations, single ? 0 : quick ? 2 : -1, 5);
    plan.warmup.batch = pick(options->warmup_batch, -1, 1);
    plan.measurement.iterations = pick(options->iterations, single ? 1 : -1, 5);
    plan.measurement.batch = pick(options->batch, -1, 1);
    if (plan.operations == 0)
        plan.operations = 1;
    if (single) {
        plan.warmup.time = plan.measurement.time = seconds(0);
    } else {
        plan.warmup.time = pick_time(options->warmup_time, quick ? quick_warmup : seconds(10));
        plan.measurement.time = pick_time(options->time, quick ? quick_time : seconds(10));
    }
    return plan;
}

/* Adds one plan per combination of parameter values; the last parameter turns fastest. */
static void add_combinations(pk_bench_plans *plans, const pk_bench_plan *settled,
                             const pk_bench_options *options)
{
    const pk_bench_param *params = settled->benchmark->params;
    size_t param_count = 0;
    size_t combinations = 1;
    while (params && params[param_count].name)
        combinations *= value_count(options, &params[param_count++]);
    for (size_t number = 0; number < combinations; number++) {
        plans->items = pk_bench_room(plans->items, plans->count, sizeof *plans->items);
        pk_bench_plan *plan = &plans->items[plans->count++];
        *plan = *settled;
        plan->param_count = param_count;
        plan->params = pk_bench_zeroed(param_count, sizeof *plan->params);
        size_t rest = number;
        for (size_t i = param_count; i-- > 0;) {
            size_t count = value_count(options, &params[i]);
            plan->params[i].name = params[i].name;
            plan->params[i].value = value_at(options, &params[i], rest % count);
            rest /= count;
        }
    }
}

static bool has_param(const pk_bench_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->param_count; i++)
        if (strcmp(plan->params[i].name, name) == 0)
            return true;
    return false;
}

/* A value for a parameter that no plan has would be ignored: a slip of the pen, most likely. */
static void refuse_unknown_params(const pk_bench_plans *plans, const pk_bench_options *options,
                                  pk_bench_text *error)
{
    for (size_t i = 0; i < options->param_count && plans->count > 0 && error->length == 0; i++) {
        const char *name = options->params[i].name;
        size_t at = 0;
        while (at < plans->count && !has_param(&plans->items[at], name))
            at++;
        if (at == plans->count)
            pk_bench_text_print(error,
                                "-p %s: none of the benchmarks chosen has such a parameter; "
                                "-lp lists them",
                                name);
    }
}

bool pk_bench_plans_make(pk_bench_plans *plans, const pk_bench_options *options, char **ret_error)
{
    pk_bench_text error = {0};
    unsigned modes = options->modes ? options->modes : 1u << PK_BENCH_THROUGHPUT;
    if (registered_count > 0)
        qsort(registered, registered_count, sizeof *registered, by_name);
    for (size_t i = 0; i < registered_count && error.length == 0; i++) {
        const pk_benchmark *benchmark = registered[i];
        const char *wrong = fault(benchmark, i > 0 ? registered[i - 1] : NULL);
        if (wrong) {
            pk_bench_text_print(&error, "benchmark %s: %s", benchmark->name, wrong);
            break;
        }
        int found =
            options->includes.count ? matches(&options->includes, benchmark->name, &error) : 1;
        if (found == 1 && matches(&options->excludes, benchmark->name, &error) != 0)
            found = 0;
        for (int mode = 0; mode < PK_BENCH_MODES && found == 1; mode++)
            if (modes & (1u << mode)) {
                pk_bench_plan settled = settle(benchmark, (pk_bench_mode) mode, options);
                add_combinations(plans, &settled, options);
            }
    }
    refuse_unknown_params(plans, options, &error);
    if (error.length == 0)
        return true;
    *ret_error = pk_bench_text_take(&error);
    return false;
}

void pk_bench_plans_done(pk_bench_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++)
        free(plans->items[i].params);
    free(plans->items);
    *plans = (pk_bench_plans){0};
}

double pk_bench_plan_duration(const pk_bench_plan *plan)
{
    double fork =
        (double) pk_bench_time_nanoseconds(plan->warmup.time) * plan->warmup.iterations +
        (double) pk_bench_time_nanoseconds(plan->measurement.time) * plan->measurement.iterations;
    unsigned forks = plan->forks ? plan->forks + plan->warmup_forks : 1;
    return fork * forks;
}
