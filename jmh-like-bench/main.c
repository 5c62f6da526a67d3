/* The program that holds every benchmark of the tree; all of it is in the harness. */
#include "jmh-like-bench/harness.h"

int main(int argc, char **argv)
{
    return pk_bench_main(argc, argv);
}
