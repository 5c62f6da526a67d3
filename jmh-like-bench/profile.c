/* Counting allocations and hardware events around the timed part; see profile.h. */
#include "jmh-like-bench/profile.h"

#include "jmh-like-bench/alloc_counts.h"

#include <dlfcn.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CYCLES, INSTRUCTIONS };

/* Labels are those of `perf stat`, which JMH's perfnorm uses too. */
static const struct {
    const char *label;
    uint32_t type;
    uint64_t config;
} events[PK_BENCH_EVENTS] = {
    [CYCLES] = {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    [INSTRUCTIONS] = {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"L1-dcache-load-misses", PERF_TYPE_HW_CACHE,
     PERF_COUNT_HW_CACHE_L1D | (PERF_COUNT_HW_CACHE_OP_READ << 8) |
         (PERF_COUNT_HW_CACHE_RESULT_MISS << 16)},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
};

typedef void (*counts_function)(struct pk_bench_alloc_counts *);

static counts_function find_counts(void)
{
    counts_function found = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "pk_bench_alloc_counts");
    /* An object pointer is not convertible to a function pointer in ISO C; its bytes are. */
    memcpy(&found, &symbol, sizeof found);
    return found;
}

bool pk_bench_allocations_counted(void)
{
    return find_counts() != NULL;
}

bool pk_bench_allocation_library(char *ret_path, size_t room)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    int written = snprintf(ret_path, room, "%s/libpekoe-bench-alloc.so", path);
    return written > 0 && (size_t) written < room && access(ret_path, R_OK) == 0;
}

static int open_event(size_t i)
{
    struct perf_event_attr attributes = {
        .type = events[i].type,
        .size = sizeof attributes,
        .config = events[i].config,
        .inherit = 1, /* threads that are started later count too */
        .exclude_kernel = events[i].type != PERF_TYPE_SOFTWARE,
        .exclude_hv = 1,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    long fd = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return (int) fd;
}

/* The count, scaled up where the kernel shared one counter out among several events. */
static double read_event(int fd)
{
    uint64_t values[3];
    if (fd < 0 || read(fd, values, sizeof values) != (ssize_t) sizeof values)
        return NAN;
    if (values[2] == 0)
        return 0;
    return (double) values[0] * ((double) values[1] / (double) values[2]);
}

char *pk_bench_missing_events(bool *ret_any_hardware)
{
    pk_bench_text missing = {0};
    *ret_any_hardware = false;
    for (size_t i = 0; i < PK_BENCH_EVENTS; i++) {
        int fd = open_event(i);
        if (fd < 0)
            pk_bench_text_print(&missing, "%s%s", missing.length ? ", " : "", events[i].label);
        else
            close(fd);
        if (fd >= 0 && events[i].type != PERF_TYPE_SOFTWARE)
            *ret_any_hardware = true;
    }
    return pk_bench_text_take(&missing);
}

void pk_bench_profile_init(pk_bench_profile *profile, unsigned profilers)
{
    *profile = (pk_bench_profile){.profilers = profilers};
    if (!pk_bench_allocations_counted())
        profile->profilers &= ~(unsigned) PK_BENCH_PROFILE_GC;
    for (size_t i = 0; i < PK_BENCH_EVENTS; i++)
        profile->events[i] = profilers & PK_BENCH_PROFILE_PERFNORM ? open_event(i) : -1;
}

void pk_bench_profile_done(pk_bench_profile *profile)
{
    for (size_t i = 0; i < PK_BENCH_EVENTS; i++)
        if (profile->events[i] >= 0)
            close(profile->events[i]);
}

void pk_bench_profile_start(pk_bench_profile *profile)
{
    for (size_t i = 0; i < PK_BENCH_EVENTS; i++)
        profile->event_counts[i] = read_event(profile->events[i]);
    if (profile->profilers & PK_BENCH_PROFILE_GC) {
        struct pk_bench_alloc_counts counts;
        find_counts()(&counts);
        profile->allocations = counts.allocations;
        profile->bytes = counts.bytes;
        profile->releases = counts.releases;
    }
    profile->time = pk_bench_now();
}

static void add_allocations(const pk_bench_profile *profile,
                            const struct pk_bench_alloc_counts *counts, double nanoseconds,
                            double operations, pk_bench_extras *extras)
{
    double bytes = (double) (counts->bytes - profile->bytes);
    double allocations = (double) (counts->allocations - profile->allocations);
    pk_bench_extras_add(extras, "gc.alloc.rate", "MB/sec", PK_BENCH_AVERAGE,
                        bytes / (1024 * 1024) / (nanoseconds / 1e9));
    pk_bench_extras_add(extras, "gc.alloc.rate.norm", "B/op", PK_BENCH_AVERAGE, bytes / operations);
    pk_bench_extras_add(extras, "gc.allocs.norm", "allocs/op", PK_BENCH_AVERAGE,
                        allocations / operations);
    pk_bench_extras_add(extras, "gc.count", "counts", PK_BENCH_SUM,
                        (double) (counts->releases - profile->releases));
}

void pk_bench_profile_stop(pk_bench_profile *profile, double operations, pk_bench_extras *extras)
{
    double nanoseconds = (double) (pk_bench_now() - profile->time);
    struct pk_bench_alloc_counts counts = {0};
    if (profile->profilers & PK_BENCH_PROFILE_GC)
        find_counts()(&counts);
    double happened[PK_BENCH_EVENTS];
    for (size_t i = 0; i < PK_BENCH_EVENTS; i++)
        happened[i] = read_event(profile->events[i]) - profile->event_counts[i];

    if (profile->profilers & PK_BENCH_PROFILE_GC)
        add_allocations(profile, &counts, nanoseconds, operations, extras);
    for (size_t i = 0; i < PK_BENCH_EVENTS; i++)
        if (!isnan(happened[i]))
            pk_bench_extras_add(extras, events[i].label, "#/op", PK_BENCH_AVERAGE,
                                happened[i] / operations);
    if (happened[INSTRUCTIONS] > 0)
        pk_bench_extras_add(extras, "CPI", "clks/insn", PK_BENCH_AVERAGE,
                            happened[CYCLES] / happened[INSTRUCTIONS]);
}
