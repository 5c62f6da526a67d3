/*
 * Forks: trials in processes of their own. The program starts itself again with the same
 * arguments and one more, `--internal`; what the sink hears there comes back over a pipe.
 */
#ifndef PEKOE_BENCH_FORK_H
#define PEKOE_BENCH_FORK_H

#include "jmh-like-bench/measure.h"

/* What is started again: this program's own arguments. */
typedef struct pk_bench_command {
    int argc;
    char **argv;
} pk_bench_command;

/*
 * Runs plan `number` of the list in a new process and passes on to sink what its own sink hears.
 * False after sink->failed: the trial failed, or the process died or was late (then killed).
 */
bool pk_bench_fork(const pk_bench_command *command, const pk_bench_plan *plan, size_t number,
                   const pk_bench_sink *sink);

/*
 * The instructions of `invocations` invocations after `warmup` ones, counted by valgrind's
 * callgrind in a new process; false, and ret_error gets a text to be freed, when that failed.
 */
bool pk_bench_count_instructions(const pk_bench_command *command, size_t number, uint64_t warmup,
                                 uint64_t invocations, double *ret_instructions, char **ret_error);

/* The other side: does what `--internal TASK` says, and returns the exit status. */
int pk_bench_fork_main(const pk_bench_plans *plans, const char *task);

/* Replaces this process by itself with allocation counting on; returns only on failure. */
void pk_bench_restart_counting(const pk_bench_command *command);

typedef enum pk_bench_fork_end {
    PK_BENCH_FORK_OPEN,
    PK_BENCH_FORK_DONE,
    PK_BENCH_FORK_FAILED
} pk_bench_fork_end;

/*
 * What one line of the pipe says goes to sink and *iteration; a last record also to *ret_end.
 * False when the line makes no sense.
 */
bool pk_bench_fork_line(const char *line, pk_bench_iteration *iteration, const pk_bench_sink *sink,
                        pk_bench_fork_end *ret_end);

#endif
