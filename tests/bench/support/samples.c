#include "tests/bench/support/samples.h"

#include <stdlib.h>
#include <time.h>

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

bench_summary bench_summarize(const bench_samples *samples)
{
    bench_samples sorted = *samples;
    qsort(sorted.value, BENCH_REPETITIONS, sizeof *sorted.value, ascending);
    return (bench_summary){.median = sorted.value[BENCH_REPETITIONS / 2],
                           .min = sorted.value[0],
                           .max = sorted.value[BENCH_REPETITIONS - 1]};
}

bench_samples bench_ratios(const bench_samples *of, const bench_samples *to)
{
    bench_samples ratios;
    for (int i = 0; i < BENCH_REPETITIONS; i++)
        ratios.value[i] = of->value[i] / to->value[i];
    return ratios;
}

double bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}
