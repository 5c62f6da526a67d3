/* A process beside a benchmark: see child.h. */
#include "jmh-like-bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In the new process, which shares its locks with threads that are not there: system calls only. */
static void become(const char *const *argv, const cpu_set_t *processors, int output)
{
    char *const nothing[] = {NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (processors)
        sched_setaffinity(0, sizeof *processors, processors);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    /* Nothing else is inherited: who reads from this process's parent would wait for this one. */
    close_range(STDERR_FILENO + 1, ~0u, 0);
    execvpe(argv[0], (char *const *) (uintptr_t) argv, nothing);
    _exit(127);
}

bool pk_bench_child_start(struct pk_bench_child *child, const char *const *argv,
                          const cpu_set_t *processors)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    child->pid = fork();
    if (child->pid == 0)
        become(argv, processors, ends[1]);
    close(ends[1]);
    child->output = ends[0];
    if (child->pid < 0)
        close(ends[0]);
    return child->pid > 0;
}

size_t pk_bench_child_read(struct pk_bench_child *child, bool line, char *out, size_t room)
{
    size_t length = 0;
    while (length < room - 1) {
        ssize_t got = read(child->output, out + length, line ? 1 : room - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t) got;
        if (line && out[length - 1] == '\n')
            break;
    }
    out[length] = '\0';
    return length;
}

int pk_bench_child_wait(struct pk_bench_child *child)
{
    int status = -1;
    close(child->output);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void pk_bench_child_stop(struct pk_bench_child *child)
{
    kill(child->pid, SIGKILL);
    (void) pk_bench_child_wait(child);
}

uint64_t pk_bench_child_cpu(const struct pk_bench_child *child)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(child->pid, &clock) != 0 || clock_gettime(clock, &time) < 0)
        return 0;
    return (uint64_t) time.tv_sec * 1000000000 + (uint64_t) time.tv_nsec;
}
