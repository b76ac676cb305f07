/* The softmax kernel and its estimate, one query and one key at a time: what performer's mixer
 * computes for all of them at once, and divides by the sum over keys. */
#include "attn/analysis.h"

#include <math.h>

static double dot(const float *a, const float *b, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

double attn_softmax_kernel(const float *q, const float *k, int64_t d, double scale)
{
    return exp(scale * dot(q, k, d));
}

double attn_softmax_kernel_estimate(const float *q, const float *k, int64_t d, double scale,
                                    const float *omega, int64_t features)
{
    double half_norms = scale * (dot(q, q, d) + dot(k, k, d)) / 2, sum = 0;
    for (int64_t f = 0; f < features; f++) {
        const float *w = omega + f * d;
        sum += exp(sqrt(scale) * (dot(w, q, d) + dot(w, k, d)) - half_norms);
    }
    return sum / (double)features;
}
