/*
 * Forks; see fork.h.
 *
 * On the pipe each line is a record: B begins an iteration, P is a point of its histogram, S a
 * secondary metric, R its score, which ends it; F is a failure, K a skipped trial and D the end of
 * one. Numbers that must arrive exactly are written in hexadecimal.
 */
#include "jmh-like-bench/fork.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_FD 3

/* ---- In the process that was started ---- */

static void send_begin(void *self, bool warmup, unsigned number)
{
    fprintf(self, "B %d %u\n", warmup, number);
    fflush(self);
}

static void send_end(void *self, const pk_bench_iteration *iteration)
{
    for (size_t i = 0; i < iteration->point_count; i++)
        fprintf(self, "P %a %" PRIu64 "\n", iteration->points[i].value, iteration->points[i].count);
    for (size_t i = 0; i < iteration->extras.count; i++) {
        const pk_bench_extra *extra = &iteration->extras.items[i];
        fprintf(self, "S %d %a %s\t%s\n", (int) extra->policy, extra->value, extra->unit,
                extra->label);
    }
    fprintf(self, "R %a %a\n", iteration->score, iteration->nanoseconds);
    fflush(self);
}

static void send_failed(void *self, const char *why)
{
    fprintf(self, "F %s\n", why);
    fflush(self);
}

static void send_skipped(void *self, const char *why)
{
    fprintf(self, "K %s\n", why);
    fflush(self);
}

static void ignore_begin(void *self, bool warmup, unsigned number)
{
}

static void ignore_end(void *self, const pk_bench_iteration *iteration)
{
}

int pk_bench_fork_main(const pk_bench_plans *plans, const char *task)
{
    size_t number;
    uint64_t warmup;
    uint64_t invocations;
    if (sscanf(task, "fork:%zu", &number) == 1 && number < plans->count) {
        FILE *pipe = fdopen(PIPE_FD, "w");
        if (!pipe)
            return 1;
        pk_bench_sink sink = {send_begin, send_end, send_failed, send_skipped, pipe};
        bool good = pk_bench_measure(&plans->items[number], &sink);
        if (good)
            fputs("D\n", pipe);
        fclose(pipe);
        return !good;
    }
    if (sscanf(task, "count:%zu:%" SCNu64 ":%" SCNu64, &number, &warmup, &invocations) == 3 &&
        number < plans->count) {
        pk_bench_sink sink = {ignore_begin, ignore_end, send_failed, send_skipped, stderr};
        return !pk_bench_measure_counted(&plans->items[number], warmup, invocations, &sink);
    }
    fputs("pekoe-bench: --internal is not for users\n", stderr);
    return 1;
}

/* ---- In the process that starts ---- */

/* `first` arguments, then ours, then --internal TASK, then NULL. To be freed; strings borrowed. */
static char **arguments(const pk_bench_command *command, char *const *first, size_t first_count,
                        char *task)
{
    static char internal[] = "--internal";
    size_t own = (size_t) command->argc;
    char **argv = pk_bench_zeroed(first_count + own + 3, sizeof *argv);
    memcpy(argv, first, first_count * sizeof *argv);
    memcpy(argv + first_count, command->argv + 1, (own - 1) * sizeof *argv);
    argv[first_count + own - 1] = internal;
    argv[first_count + own] = task;
    return argv;
}

static void become(char **argv, bool count_allocations)
{
    char library[4096];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count_allocations && pk_bench_allocation_library(library, sizeof library))
        setenv("LD_PRELOAD", library, 1);
    execvp(argv[0], argv);
    _exit(127);
}

bool pk_bench_fork_line(const char *line, pk_bench_iteration *iteration, const pk_bench_sink *sink,
                        pk_bench_fork_end *ret_end)
{
    int warmup;
    int policy;
    int used = 0;
    unsigned number;
    pk_bench_point point;
    double value;
    char unit[64];
    switch (line[0]) {
    case 'B':
        if (sscanf(line, "B %d %u", &warmup, &number) != 2)
            return false;
        iteration->warmup = warmup;
        iteration->number = number;
        sink->begin(sink->self, warmup, number);
        return true;
    case 'P':
        if (sscanf(line, "P %la %" SCNu64, &point.value, &point.count) != 2)
            return false;
        iteration->points =
            pk_bench_room(iteration->points, iteration->point_count, sizeof *iteration->points);
        iteration->points[iteration->point_count++] = point;
        return true;
    case 'S':
        if (sscanf(line, "S %d %la %63[^\t]%n", &policy, &value, unit, &used) != 3 ||
            line[used] != '\t' || (policy != PK_BENCH_AVERAGE && policy != PK_BENCH_SUM))
            return false;
        pk_bench_extras_add(&iteration->extras, line + used + 1, unit, (pk_bench_policy) policy,
                            value);
        return true;
    case 'R':
        if (sscanf(line, "R %la %la", &iteration->score, &iteration->nanoseconds) != 2)
            return false;
        sink->end(sink->self, iteration);
        pk_bench_extras_done(&iteration->extras);
        free(iteration->points);
        *iteration = (pk_bench_iteration){0};
        return true;
    case 'F':
        *ret_end = PK_BENCH_FORK_FAILED;
        sink->failed(sink->self, line[1] ? line + 2 : "");
        return true;
    case 'K':
        *ret_end = PK_BENCH_FORK_FAILED;
        sink->skipped(sink->self, line[1] ? line + 2 : "");
        return true;
    case 'D':
        *ret_end = PK_BENCH_FORK_DONE;
        return true;
    default:
        return false;
    }
}

/* Reads records until the other side closes the pipe; false when it is late. */
static bool receive(int fd, uint64_t timeout, pk_bench_iteration *iteration,
                    const pk_bench_sink *sink, pk_bench_fork_end *ret_end)
{
    pk_bench_text line = {0};
    char bytes[4096];
    uint64_t milliseconds = timeout / 1000000;
    bool late = false;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, milliseconds > INT32_MAX ? -1 : (int) milliseconds);
        if (ready < 0 && errno == EINTR)
            continue;
        late = ready == 0;
        ssize_t length = ready > 0 ? read(fd, bytes, sizeof bytes) : 0;
        if (length <= 0)
            break;
        for (ssize_t i = 0; i < length; i++) {
            if (bytes[i] != '\n') {
                pk_bench_text_add(&line, &bytes[i], 1);
                continue;
            }
            if (line.length > 0)
                pk_bench_fork_line(line.bytes, iteration, sink, ret_end);
            line.length = 0;
        }
    }
    pk_bench_text_done(&line);
    return !late;
}

static void report_death(const pk_bench_sink *sink, bool late, int status)
{
    char why[128];
    if (late)
        snprintf(why, sizeof why, "the fork was killed: an iteration took longer than -to allows");
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "the fork died: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(why, sizeof why, "the fork ended early, with exit status %d", WEXITSTATUS(status));
    sink->failed(sink->self, why);
}

bool pk_bench_fork(const pk_bench_command *command, const pk_bench_plan *plan, size_t number,
                   const pk_bench_sink *sink)
{
    static char self[] = "/proc/self/exe";
    char *first[] = {self};
    char task[64];
    int ends[2];
    snprintf(task, sizeof task, "fork:%zu", number);
    if (pipe2(ends, O_CLOEXEC) < 0) {
        sink->failed(sink->self, strerror(errno));
        return false;
    }
    char **argv = arguments(command, first, 1, task);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (ends[1] == PIPE_FD)
            fcntl(PIPE_FD, F_SETFD, 0);
        else
            dup2(ends[1], PIPE_FD);
        become(argv, plan->profilers & PK_BENCH_PROFILE_GC);
    }
    free(argv);
    close(ends[1]);
    pk_bench_fork_end end = PK_BENCH_FORK_OPEN;
    bool in_time = true;
    int status = 0;
    if (pid > 0) {
        uint64_t longest = pk_bench_time_nanoseconds(plan->measurement.time);
        if (longest < pk_bench_time_nanoseconds(plan->warmup.time))
            longest = pk_bench_time_nanoseconds(plan->warmup.time);
        pk_bench_iteration iteration = {0};
        in_time = receive(ends[0], longest + pk_bench_time_nanoseconds(plan->timeout), &iteration,
                          sink, &end);
        pk_bench_extras_done(&iteration.extras);
        free(iteration.points);
        if (!in_time)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    if (pid < 0)
        sink->failed(sink->self, "cannot start a process");
    else if (end != PK_BENCH_FORK_FAILED && (end == PK_BENCH_FORK_OPEN || status != 0))
        report_death(sink, !in_time, status);
    return pid > 0 && end == PK_BENCH_FORK_DONE && status == 0;
}

/* The instructions that a callgrind.out file sums up; negative when there is no such line. */
static double read_total(const char *path)
{
    char line[4096];
    double total = -1;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "totals: %lf", &total) != 1)
            sscanf(line, "summary: %lf", &total);
    fclose(file);
    return total;
}

/* What a log of the counting process says went wrong: our own record, else valgrind's first. */
static char *read_complaint(const char *path, int status)
{
    char line[512];
    char found[512] = "no result";
    pk_bench_text text = {0};
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *valgrind = strstr(line, "Valgrind: ");
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "F ", 2) == 0 || (valgrind && strcmp(found, "no result") == 0))
            snprintf(found, sizeof found, "%s", valgrind ? valgrind : line + 2);
    }
    if (file)
        fclose(file);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        pk_bench_text_put(&text, "valgrind cannot be started");
    else
        pk_bench_text_print(&text, "callgrind: %s", found);
    return pk_bench_text_take(&text);
}

bool pk_bench_count_instructions(const pk_bench_command *command, size_t number, uint64_t warmup,
                                 uint64_t invocations, double *ret_instructions, char **ret_error)
{
    char folder[] = "/tmp/pekoe-bench-XXXXXX";
    char self[4096];
    char out[64];
    char log[64];
    char out_option[128];
    char task[96];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0 || !mkdtemp(folder)) {
        *ret_error = pk_bench_copy(strerror(errno));
        return false;
    }
    self[length] = '\0';
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(out_option, sizeof out_option, "--callgrind-out-file=%s", out);
    snprintf(task, sizeof task, "count:%zu:%" PRIu64 ":%" PRIu64, number, warmup, invocations);
    static char valgrind[] = "valgrind";
    static char tool[] = "--tool=callgrind";
    static char at_start[] = "--collect-atstart=no";
    static char toggle[] = "--toggle-collect=pk_bench_counted_region*";
    char *first[] = {valgrind, tool, at_start, toggle, out_option, self};
    char **argv = arguments(command, first, sizeof first / sizeof first[0], task);
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        become(argv, false);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    free(argv);
    double total = read_total(out);
    bool good = pid > 0 && status == 0 && total >= 0;
    if (good)
        *ret_instructions = total;
    else
        *ret_error = read_complaint(log, status);
    unlink(out);
    unlink(log);
    rmdir(folder);
    return good;
}

void pk_bench_restart_counting(const pk_bench_command *command)
{
    char library[4096];
    if (!pk_bench_allocation_library(library, sizeof library))
        return;
    fflush(NULL);
    setenv("LD_PRELOAD", library, 1);
    execv("/proc/self/exe", command->argv);
}
