/* Reading and joining the sample buffers of histogram.h. */
#include "jmh-like-bench/histogram.h"

#include "jmh-like-bench/allocate.h"

pk_bench_point *pk_bench_histogram_points(const pk_bench_histogram *histogram, double scale,
                                          size_t *ret_count)
{
    const size_t buckets = sizeof histogram->counts / sizeof histogram->counts[0];
    const size_t slots = sizeof histogram->counts[0] / sizeof histogram->counts[0][0];
    pk_bench_point *points = NULL;
    size_t count = 0;
    /* Buckets above the first use only the upper half of their slots, so this order ascends. */
    for (size_t bucket = 0; bucket < buckets; bucket++)
        for (size_t slot = 0; slot < slots; slot++) {
            if (histogram->counts[bucket][slot] == 0)
                continue;
            points = pk_bench_room(points, count, sizeof *points);
            points[count].value = (double) ((uint64_t) slot << bucket) * scale;
            points[count++].count = histogram->counts[bucket][slot];
        }
    *ret_count = count;
    return points;
}

pk_bench_point *pk_bench_points_merge(const pk_bench_point *a, size_t n_a, const pk_bench_point *b,
                                      size_t n_b, size_t *ret_count)
{
    pk_bench_point *merged = pk_bench_zeroed(n_a + n_b, sizeof *merged);
    size_t count = 0;
    for (size_t i = 0, j = 0; i < n_a || j < n_b;) {
        const pk_bench_point *next =
            j == n_b || (i < n_a && a[i].value <= b[j].value) ? &a[i++] : &b[j++];
        if (count > 0 && merged[count - 1].value >= next->value)
            merged[count - 1].count += next->count;
        else
            merged[count++] = *next;
    }
    *ret_count = count;
    return merged;
}
