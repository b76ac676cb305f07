/* Exact attention once more, a row at a time in float64, for rows here and there. */
#include "tests/bench/support/errors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* (m) weights of query i of head h, which add up to 1. */
static void reference_weights(const srv_bench_task *task, int64_t h, int64_t i, double *weights)
{
    const attn_shape *s = &task->plan.shape;
    int64_t keys = task->plan.params.mask.causal ? i + 1 + s->m - s->n : s->m;
    const float *q = attn_view_row(task->io.q, 0, h, i);
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->m; j++) {
        const float *k = attn_view_row(task->io.k, 0, h, j);
        double logit = 0;
        for (int64_t c = 0; c < s->d; c++)
            logit += (double)q[c] * k[c];
        weights[j] = j < keys ? task->plan.params.scale * logit : -INFINITY;
        maximum = fmax(maximum, weights[j]);
    }
    for (int64_t j = 0; j < s->m; j++)
        sum += weights[j] = exp(weights[j] - maximum);
    for (int64_t j = 0; j < s->m; j++)
        weights[j] /= sum;
}

/* Largest error of sampled rows, over the largest |v|. NaN without memory. */
static double error_of(const srv_bench_task *task)
{
    const int64_t every = 61; /* rows apart: coprime to every tile size */
    const attn_shape *s = &task->plan.shape;
    double *weights = malloc((size_t)s->m * sizeof *weights);
    double worst = weights ? 0 : NAN, v = 0;
    for (int64_t i = 0; i < s->heads * s->m * s->dv; i++)
        v = fmax(v, fabs((double)task->io.v.data[i]));
    for (int64_t row = 0; row < s->heads * s->n && weights; row += every) {
        int64_t h = row / s->n, i = row % s->n;
        reference_weights(task, h, i, weights);
        for (int64_t c = 0; c < s->dv; c++) {
            double expected = 0;
            for (int64_t j = 0; j < s->m; j++)
                expected += weights[j] * attn_view_row(task->io.v, 0, h, j)[c];
            double error = fabs(attn_view_row(task->io.out, 0, h, i)[c] - expected);
            worst = error <= worst ? worst : error;
        }
    }
    free(weights);
    return worst / v;
}

void bench_print_errors_head(void)
{
    printf("\n%-46s %7s  %5s\n", "unit-normal q, k, v: error / max |v|", "", "floor");
}

void bench_print_error(const srv_bench_task *task)
{
    const double most = 1e-6;
    double error = error_of(task);
    printf("%-46s %7.1e  %.0e  %s\n", task->label, error, most, error <= most ? "ok" : "MISSED");
}
