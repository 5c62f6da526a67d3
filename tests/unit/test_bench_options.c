/* jmh-like-bench/options.c: JMH's command line. */
#include "jmh-like-bench/options.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* Splits at spaces; at most 31 arguments. */
static bool parse(pk_bench_options *options, const char *line, char **ret_error)
{
    static char copy[512];
    char *argv[32] = {copy};
    int argc = 1;
    cr_assert_lt(strlen(line), sizeof copy);
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word && argc < 32; word = strtok(NULL, " "))
        argv[argc++] = word;
    return pk_bench_options_parse(options, argc, argv, ret_error);
}

Test(bench_options, reads_every_option_of_jmh)
{
    pk_bench_options options;
    char *error = NULL;
    bool good = parse(&options,
                      "Handler.* -f 3 -wf 1 -wi 4 -i 10 -w 100ms -r 2s -bs 5 -wbs 6 -t 2 "
                      "-bm avgt,sample -tu us -opi 10 -e Old,New -prof gc,callgrind -prof perfnorm",
                      &error);
    cr_assert(good, "%s", error);
    cr_expect_eq(options.includes.count, 1);
    cr_expect_str_eq(options.includes.items[0], "Handler.*");
    cr_expect_eq(options.forks, 3);
    cr_expect_eq(options.warmup_forks, 1);
    cr_expect_eq(options.warmup_iterations, 4);
    cr_expect_eq(options.iterations, 10);
    cr_expect_eq(pk_bench_time_nanoseconds(options.warmup_time), 100000000);
    cr_expect_eq(pk_bench_time_nanoseconds(options.time), UINT64_C(2000000000));
    cr_expect_eq(options.batch, 5);
    cr_expect_eq(options.warmup_batch, 6);
    cr_expect_eq(options.threads, 2);
    cr_expect_eq(options.modes, 1u << PK_BENCH_AVERAGE_TIME | 1u << PK_BENCH_SAMPLE_TIME);
    cr_expect_str_eq(options.unit->label, "us");
    cr_expect_eq(options.operations, 10);
    cr_expect_eq(options.excludes.count, 2);
    cr_expect_str_eq(options.excludes.items[1], "New");
    cr_expect_eq(options.profilers,
                 PK_BENCH_PROFILE_GC | PK_BENCH_PROFILE_CALLGRIND | PK_BENCH_PROFILE_PERFNORM);
    cr_expect_not(options.result_wanted);
    pk_bench_options_done(&options);

    good =
        parse(&options,
              "-p n=1,10 -p n=100 -p codec=gzip -rf json -rff a.json -o b.txt -v EXTRA -foe true "
              "-si false -to 5s -gc true -t max -bm all a b",
              &error);
    cr_assert(good, "%s", error);
    cr_expect_eq(options.param_count, 2);
    cr_expect_str_eq(options.params[0].name, "n");
    cr_expect_eq(options.params[0].values.count, 3);
    cr_expect_str_eq(options.params[0].values.items[2], "100");
    cr_expect_str_eq(options.params[1].values.items[0], "gzip");
    cr_expect_eq(options.format, PK_BENCH_FORMAT_JSON);
    cr_expect(options.result_wanted);
    cr_expect_str_eq(options.result_file, "a.json");
    cr_expect_str_eq(options.output_file, "b.txt");
    cr_expect_eq(options.verbosity, PK_BENCH_EXTRA);
    cr_expect(options.fail_on_error && options.unsynchronized && options.gc_asked);
    cr_expect_eq(options.threads, 0);
    cr_expect_eq(options.modes, (1u << PK_BENCH_MODES) - 1);
    cr_expect_eq(options.includes.count, 2);
    pk_bench_options_done(&options);
}

Test(bench_options, a_value_may_follow_a_letter_at_once)
{
    pk_bench_options options;
    char *error = NULL;
    cr_assert(parse(&options, "-f1 -t2 -i3 -r10ms", &error), "%s", error);
    cr_expect_eq(options.forks, 1);
    cr_expect_eq(options.threads, 2);
    cr_expect_eq(options.iterations, 3);
    cr_expect_eq(pk_bench_time_nanoseconds(options.time), 10000000);
    pk_bench_options_done(&options);
}

Test(bench_options, lists_and_help_are_actions)
{
    static const struct {
        const char *line;
        pk_bench_action action;
    } rows[] = {{"", PK_BENCH_RUN},
                {"-l", PK_BENCH_LIST},
                {"-lp x", PK_BENCH_LIST_PARAMS},
                {"-lrf", PK_BENCH_LIST_FORMATS},
                {"-lprof", PK_BENCH_LIST_PROFILERS},
                {"-h", PK_BENCH_HELP}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_options options;
        char *error = NULL;
        cr_assert(parse(&options, rows[i].line, &error));
        cr_expect_eq(options.action, rows[i].action);
        pk_bench_options_done(&options);
    }
}

Test(bench_options, what_is_wrong_is_named)
{
    static const struct {
        const char *line, *named;
    } rows[] = {
        {"-zz", "-zz"},
        {"-r 1.5s", "1.5s"},
        {"-f", "-f"},
        {"-f -1", "-1"},
        {"-i 0", "-i"},
        {"-t 0", "-t"},
        {"-bm fast", "fast"},
        {"-tu day", "day"},
        {"-p n", "-p"},
        {"-p =1", "=1"},
        {"-p n=", "n="},
        {"-rf xml", "xml"},
        {"-prof stack", "stack"},
        {"-foe maybe", "maybe"},
        {"-v loud", "loud"},
        {"--chart a.png", "a.png"},
        {"-f 99999999999", "99999999999"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_bench_options options;
        char *error = NULL;
        cr_assert_not(parse(&options, rows[i].line, &error), "%s", rows[i].line);
        cr_expect_not_null(strstr(error, rows[i].named), "%s", error);
        free(error);
        pk_bench_options_done(&options);
    }
}

Test(bench_options, help_names_every_option_that_jmh_has_here)
{
    static const char *const names[] = {
        "-i ",  "-bs ",  "-r ", "-wi ", "-wbs ", "-w ",   "-to ",    "-t ",    "-bm ", "-si ",
        "-gc ", "-foe ", "-v ", "-f ",  "-wf ",  "-o ",   "-rff ",   "-prof ", "-tu ", "-opi ",
        "-rf ", "-e ",   "-p ", "-l ",  "-lp ",  "-lrf ", "-lprof ", "-h "};
    pk_bench_text text = {0};
    pk_bench_options_help(&text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_not_null(strstr(text.bytes, names[i]), "%s", names[i]);
    pk_bench_text_done(&text);
}
