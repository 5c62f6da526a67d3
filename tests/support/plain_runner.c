/*
 * A main() for Criterion test objects that does without libcriterion: every test runs in a child of
 * this process, one after the other, and TAP goes to stdout as with --tap=-.
 *
 * For builds that libcriterion cannot join: ThreadSanitizer, and -m32 without its libraries. The
 * test files are the same; they are linked with this file instead of -lcriterion. Only what
 * <criterion/criterion.h> and <criterion/parameterized.h> need is here. Asserts count from the
 * test's own thread only.
 */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/parameterized.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct criterion_test_extra_data test_options;

enum outcome { PASSED, FAILED, SKIPPED };

/* The linker's bounds of the sections into which Test() and TestSuite() put their pointers. */
extern struct criterion_test *__start_cr_tst[];
extern struct criterion_test *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;

static jmp_buf leave_test;
static enum outcome outcome;
static void *parameter;
static unsigned reported;
static unsigned failures;

/* Part 1: what the assertion macros call. */

void criterion_internal_test_setup(void)
{
}

void criterion_internal_test_teardown(void)
{
}

void criterion_internal_test_main(void (*body)(void))
{
    /* A plain test ignores the argument: the cdecl conventions of our targets allow that. */
    void (*with_parameter)(void *) = (void (*)(void *)) body;
    with_parameter(parameter);
}

void criterion_abort_test(void)
{
    longjmp(leave_test, 1);
}

void criterion_continue_test(void)
{
}

void criterion_skip_test(const char *format, ...)
{
    (void) format;
    outcome = SKIPPED;
    longjmp(leave_test, 1);
}

void criterion_test_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    abort();
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    if (stats->passed)
        return;
    outcome = FAILED;
    fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message ? stats->message : "");
}

void cri_asserts_passed_incr(void)
{
}

int cr_asprintf(char **ret_text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vasprintf(ret_text, format, args);
    va_end(args);
    return length;
}

void cr_log(enum criterion_severity severity, const char *format, ...)
{
    (void) severity;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void cr_asprintf_free(char *text)
{
    free(text);
}

char *cr_translate_assert_msg(int index, ...)
{
    va_list args;
    char *text = NULL;
    (void) index;
    va_start(args, index);
    const char *expression = va_arg(args, const char *); /* the macros always pass at least "" */
    va_end(args);
    return asprintf(&text, "does not hold: %s", expression) < 0 ? NULL : text;
}

/* Part 2: the runner. */

static const test_options *suite_options(const struct criterion_test *test)
{
    for (struct criterion_suite **s = __start_cr_sts; s < __stop_cr_sts; s++)
        if (*s && !strcmp((*s)->name, test->category))
            return (*s)->data;
    return test->data;
}

static void run_body(const struct criterion_test *test, const test_options *suite)
{
    void (*init)(void) = test->data->init ? test->data->init : suite->init;
    void (*fini)(void) = test->data->fini ? test->data->fini : suite->fini;
    outcome = PASSED;
    if (!setjmp(leave_test)) {
        if (init)
            init();
        test->test();
    }
    if (fini && !setjmp(leave_test))
        fini();
}

/* A child's exit codes; others are a crash, or what the test expected. */
enum { EXIT_OF_FAILED = 125, EXIT_OF_SKIPPED = 124 };

/* In a process of its own, as with Criterion: what a test leaves behind is not seen by the next. */
static void run_in_child(const struct criterion_test *test, const test_options *suite,
                         int expected_signal, int expected_exit)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_body(test, suite);
        fflush(NULL);
        _exit(outcome == FAILED ? EXIT_OF_FAILED : outcome == SKIPPED ? EXIT_OF_SKIPPED : 0);
    }
    outcome = FAILED;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return;
    if (expected_signal != 0 && WIFSIGNALED(status) && WTERMSIG(status) == expected_signal)
        outcome = PASSED;
    if (expected_signal == 0 && WIFEXITED(status) && WEXITSTATUS(status) == expected_exit)
        outcome = PASSED;
    else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OF_SKIPPED)
        outcome = SKIPPED;
}

static void report(const struct criterion_test *test)
{
    reported++;
    failures += outcome == FAILED;
    printf("%s %u - %s::%s%s\n", outcome == FAILED ? "not ok" : "ok", reported, test->category,
           test->name, outcome == SKIPPED ? " # SKIP" : "");
    fflush(stdout);
}

static void run(const struct criterion_test *test, void *with_parameter)
{
    const test_options *suite = suite_options(test);
    int expected_signal = test->data->signal ? test->data->signal : suite->signal;
    int expected_exit = test->data->exit_code ? test->data->exit_code : suite->exit_code;
    double limit = test->data->timeout > 0 ? test->data->timeout : suite->timeout;

    parameter = with_parameter;
    /* Sanitizers slow a test down: the limit only has to end a hang. */
    alarm(limit > 0 ? 10 * (unsigned) limit + 10 : 300);
    if (test->data->disabled || suite->disabled)
        outcome = SKIPPED;
    else
        run_in_child(test, suite, expected_signal, expected_exit);
    alarm(0);
    report(test);
}

int main(void)
{
    for (struct criterion_test **t = __start_cr_tst; t < __stop_cr_tst; t++) {
        if (!*t)
            continue;
        if ((*t)->data->kind_ != CR_TEST_PARAMETERIZED) {
            run(*t, NULL);
            continue;
        }
        struct criterion_test_params all = (*t)->data->param_();
        for (size_t i = 0; i < all.length; i++)
            run(*t, (char *) all.params + i * all.size);
        if (all.cleanup)
            all.cleanup(&all);
    }
    printf("1..%u\n", reported);
    return failures != 0;
}
