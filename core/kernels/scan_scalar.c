/* Mamba's convolution and scan, the scalar truth: a channel at a time, a position at a time, in
 * double. Only the state is rounded to float32 at every position, since that is where a chunk may
 * end. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double softplus(double x)
{
    const double linear = 20; /* from here on e^-x is below float32's rounding */
    return x > linear ? x : log1p(exp(x));
}

/* The window of one channel: `width` inputs, the newest last. */
static void convolve_channel(const attn_conv *v, ptrdiff_t c)
{
    float window[ATTN_CONV_MOST_WIDTH];
    const int newest = v->width - 1;
    for (int k = 0; k < newest; k++)
        window[k] = v->history[k * v->channels + c];
    for (ptrdiff_t t = 0; t < v->count; t++) {
        const bool hidden = v->mask && !v->mask[t];
        window[newest] = hidden ? 0 : v->x[t * v->x_stride + c];
        double sum = v->bias ? v->bias[c] : 0;
        for (int k = 0; k < v->width; k++)
            sum += (double)v->taps[k * v->channels + c] * window[k];
        v->out[t * v->out_stride + c] = hidden ? 0 : (float)silu(sum);
        memmove(window, window + 1, (size_t)newest * sizeof *window);
    }
    for (int k = 0; k < newest; k++)
        v->history[k * v->channels + c] = window[k];
}

static void convolve(const attn_conv *conv, ptrdiff_t first, ptrdiff_t last)
{
    for (ptrdiff_t c = first; c < last; c++)
        convolve_channel(conv, c);
}

/* One position of one channel. */
static float step(const attn_scan *s, ptrdiff_t c, ptrdiff_t t)
{
    const ptrdiff_t lane = c / ATTN_LANES * s->states * ATTN_LANES + c % ATTN_LANES;
    const double x = s->x[t * s->x_stride + c];
    const double d =
        softplus(s->dt[t * s->dt_stride + c] + (s->dt_bias ? (double)s->dt_bias[c] : 0));
    const double added = s->euler ? d * x : x;
    double y = s->skip ? s->skip[c] * x : 0;
    for (int n = 0; n < s->states; n++) {
        float *h = &s->h[lane + n * ATTN_LANES];
        *h =
            (float)(exp2(d * s->a[lane + n * ATTN_LANES]) * *h + added * s->b[t * s->b_stride + n]);
        y += (double)*h * s->c[t * s->c_stride + n];
    }
    return (float)(s->z ? y * silu(s->z[t * s->z_stride + c]) : y);
}

static void scan(const attn_scan *s, ptrdiff_t first, ptrdiff_t last)
{
    for (ptrdiff_t c = first; c < last; c++)
        for (ptrdiff_t t = 0; t < s->count; t++)
            s->y[t * s->y_stride + c] = step(s, c, t);
}

static float exponentials(int64_t count)
{
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += exp2f(-(float)(i % ATTN_LANES));
    return sum;
}

const attn_scan_kernels attn_scan_scalar = {
    .convolve = convolve,
    .scan = scan,
    .exponentials = exponentials,
};
