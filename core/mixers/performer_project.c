/* Exponents of Performer's features: products of rows with the directions of a range. */
#include "attn/blas.h"
#include "mixers/performer.h"

#include <math.h>
#include <string.h>

#define LOG2_E 1.44269504088896341

/* t (count, range) = factor omega x. */
static void project(const attn_plan *plan, const attn_mix_io *io, attn_performer_range range,
                    const float *x, ptrdiff_t stride, int count, double factor, float *t)
{
    int64_t d = plan->shape.d, left = plan->params.features - range.first;
    int64_t features = left < range.count ? left : range.count;
    attn_blas_gemm(&(attn_gemm){
        .rows = count,
        .columns = features,
        .depth = d,
        .a = x,
        .a_stride = stride,
        .b = attn_performer_omega(plan, io) + range.first * d,
        .b_stride = d,
        .b_transposed = true,
        .c = t,
        .c_stride = range.count,
        .alpha = (float)factor,
    });
    for (int r = 0; r < count; r++)
        for (int64_t f = features; f < range.count; f++)
            t[r * range.count + f] = -INFINITY;
}

/* From the plain numbers to x' = x sqrt(scale), in units of log2. */
static double root_of_scale(const attn_plan *plan)
{
    return sqrt(fabs((double)plan->params.scale)) * LOG2_E;
}

void attn_performer_project_queries(const attn_plan *plan, const attn_mix_io *io,
                                    const attn_run *run, attn_performer_range range,
                                    attn_performer_workspace *w)
{
    double root = root_of_scale(plan);
    /* A negative scale turns the queries round. */
    project(plan, io, range, attn_view_row(io->q, run->b, run->h, run->first), io->q.row, run->rows,
            plan->params.scale < 0 ? -root : root, w->queries);
}

/* Eight sums at once: one alone would wait for each addition. */
static double sum_of_squares(const float *x, int64_t d)
{
    float sums[8] = {0};
    int64_t whole = d - d % 8;
    for (int64_t c = 0; c < whole; c += 8)
        for (int i = 0; i < 8; i++)
            sums[i] += x[c + i] * x[c + i];
    double total = 0;
    for (int i = 0; i < 8; i++)
        total += sums[i];
    for (int64_t c = whole; c < d; c++)
        total += (double)x[c] * x[c];
    return total;
}

void attn_performer_project_keys(const attn_plan *plan, const attn_mix_io *io, int64_t b, int64_t g,
                                 int64_t from, int count, attn_performer_range range,
                                 attn_performer_workspace *w)
{
    const uint8_t *mask = plan->params.mask.key_mask;
    const float *x = attn_view_row(io->k, b, g, from);
    double factor = fabs((double)plan->params.scale) * LOG2_E / 2;
    project(plan, io, range, x, io->k.row, count, root_of_scale(plan), w->keys);
    for (int r = 0; r < count; r++, x += io->k.row) {
        float shift = (float)(factor * sum_of_squares(x, plan->shape.d));
        /* Too large a norm is not a hidden key; a NaN reaches the answer. */
        w->shift[r] = isinf(shift) ? NAN : shift;
        if (mask && !mask[b * plan->shape.m + from + r]) {
            w->shift[r] = INFINITY;
            /* Its products may have overflown. */
            memset(w->keys + r * range.count, 0, (size_t)range.count * sizeof *w->keys);
        }
    }
}
