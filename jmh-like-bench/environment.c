/* The environment of a measurement; see environment.h. */
#include "jmh-like-bench/environment.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/build_commit.h"
#include "jmh-like-bench/harness.h"
#include "jmh-like-bench/time_unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SPINS 40
#define SPIN_TURNS 250000 /* about a millisecond of dependent multiplications */

/* The first line of a file, without its end; NULL when it cannot be read. To be freed. */
static char *first_line(const char *path)
{
    char line[256];
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    char *read = fgets(line, sizeof line, file);
    fclose(file);
    if (!read)
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return pk_bench_copy(line);
}

static char *processor_name(void)
{
    char line[256];
    char name[200] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %199[^\n]", name) == 1)
            break;
    if (file)
        fclose(file);
    return pk_bench_copy(name);
}

static char *machine(void)
{
    pk_bench_text text = {0};
    struct utsname system;
    char *processor = processor_name();
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    pk_bench_text_print(&text, "%s, %ld processor%s", processor, count, count == 1 ? "" : "s");
    if (uname(&system) == 0)
        pk_bench_text_print(&text, ", %s %s %s", system.sysname, system.release, system.machine);
    free(processor);
    return pk_bench_text_take(&text);
}

static char *program(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    return pk_bench_copy(path);
}

static char *compiler(void)
{
#if defined(__clang__)
    return pk_bench_copy("clang " __clang_version__);
#else
    return pk_bench_copy("gcc " __VERSION__);
#endif
}

void pk_bench_environment_read(pk_bench_environment *environment)
{
    char *randomized = first_line("/proc/sys/kernel/randomize_va_space");
    char *governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    *environment = (pk_bench_environment){
        .harness = pk_bench_copy("pekoe-bench " PK_BENCH_VERSION),
        .program = program(),
        .compiler = compiler(),
        .flags = pk_bench_copy(PK_BENCH_FLAGS),
        .build = pk_bench_copy(PK_BENCH_COMMIT),
        .machine = machine(),
        .governor = governor ? governor : pk_bench_copy("unknown"),
        .layout = pk_bench_copy(!randomized          ? "unknown"
                                : *randomized == '0' ? "off"
                                                     : "on"),
    };
    free(randomized);
}

void pk_bench_environment_done(pk_bench_environment *environment)
{
    free(environment->harness);
    free(environment->program);
    free(environment->compiler);
    free(environment->flags);
    free(environment->build);
    free(environment->machine);
    free(environment->governor);
    free(environment->layout);
}

void pk_bench_environment_print(pk_bench_text *text, const pk_bench_environment *environment)
{
    pk_bench_text_print(text, "# %s, build %s\n", environment->harness, environment->build);
    pk_bench_text_print(text, "# Compiler: %s, flags: %s\n", environment->compiler,
                        environment->flags);
    pk_bench_text_print(text, "# Machine: %s\n", environment->machine);
    pk_bench_text_print(text, "# Frequency governor: %s, address space randomization: %s\n",
                        environment->governor, environment->layout);
#ifndef __OPTIMIZE__
    pk_bench_text_put(text, "# *** WARNING: built without optimization. ***\n");
#endif
    if (strstr(environment->flags, "sanitize"))
        pk_bench_text_put(text, "# *** WARNING: built with a sanitizer. ***\n");
    pk_bench_text_put(text, "\n");
}

static double spin(void)
{
    uint64_t value = 1;
    uint64_t start = pk_bench_now();
    for (int i = 0; i < SPIN_TURNS; i++) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        pk_bench_hide(value);
    }
    return (double) (pk_bench_now() - start);
}

static int ascending(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

pk_bench_steadiness pk_bench_steadiness_measure(void)
{
    double times[SPINS];
    double distances[SPINS];
    for (int i = 0; i < SPINS; i++)
        times[i] = spin();
    qsort(times, SPINS, sizeof times[0], ascending);
    double median = times[SPINS / 2];
    for (int i = 0; i < SPINS; i++)
        distances[i] = fabs(times[i] - median);
    qsort(distances, SPINS, sizeof distances[0], ascending);
    return (pk_bench_steadiness){
        .fastest = times[0], .median = median, .deviation = distances[SPINS / 2]};
}

bool pk_bench_is_steady(const pk_bench_steadiness *steadiness)
{
    return steadiness->deviation <= 0.01 * steadiness->median &&
           steadiness->median <= 1.03 * steadiness->fastest;
}
