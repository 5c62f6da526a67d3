/*
 * How many instructions a piece of code executes, for tests that nothing loops: a child runs it step
 * by step. Works where ptrace does (not under valgrind).
 */
#ifndef PEKOE_TESTS_SUPPORT_COUNT_INSTRUCTIONS_H
#define PEKOE_TESTS_SUPPORT_COUNT_INSTRUCTIONS_H

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The count, those of two calls of raise() included; `most` where there are more, for the child is
 * ended then. -1 where it failed, or cannot be traced.
 */
static inline long count_instructions(void (*body)(void *arg), void *arg, long most)
{
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(1);
        raise(SIGSTOP);
        body(arg);
        raise(SIGSTOP);
        _exit(0);
    }
    long count = -1;
    int status;
    if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        count = 0;
        do {
            count++;
            if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0 ||
                waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
                count = -1;
                break;
            }
        } while (WSTOPSIG(status) == SIGTRAP && count < most);
        if (count > 0 && count < most && WSTOPSIG(status) != SIGSTOP)
            count = -1;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return count;
}

#endif
