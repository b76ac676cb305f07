/* Medians, and the range around them: means would take in what else the machine did. */
#include "server/bench/samples.h"

#include <math.h>
#include <stdlib.h>

void srv_bench_sample(srv_bench_samples *samples, double value)
{
    if (samples->count < SRV_BENCH_MOST_REPETITIONS)
        samples->value[samples->count++] = value;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

srv_bench_summary srv_bench_summarize(const srv_bench_samples *samples)
{
    srv_bench_samples sorted = *samples;
    int count = sorted.count;
    if (count == 0)
        return (srv_bench_summary){NAN, NAN, NAN};
    qsort(sorted.value, (size_t)count, sizeof *sorted.value, ascending);
    return (srv_bench_summary){
        .median = (sorted.value[(count - 1) / 2] + sorted.value[count / 2]) / 2,
        .min = sorted.value[0],
        .max = sorted.value[count - 1],
    };
}

double srv_bench_ratio(const srv_bench_samples *of, const srv_bench_samples *to)
{
    srv_bench_samples ratios = {0};
    for (int i = 0; i < of->count && i < to->count; i++)
        srv_bench_sample(&ratios, of->value[i] / to->value[i]);
    return srv_bench_summarize(&ratios).median;
}
