/* The formulas of kernels/scan.h in double, and beside every number how far float32 may be off. */
#include "tests/support/scan.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>

static const double rounding = 0x1p-24;     /* of a float32, relative */
static const double exp2_rounding = 1.3e-7; /* of vf_exp2 */
static const double flushed = 0x1p-126;     /* what is smaller may count as 0 */

/* A number and its bound. */
typedef struct near {
    double value, bound;
} near;

/* Relative error of e^-|x|: that of exp2, and of its argument |x| log2(e), which is rounded twice.
 */
static double exp_error(double x)
{
    return exp2_rounding + 2 * fabs(x) * rounding;
}

/* x / (1 + e^-x); its slope is at most 1.1. */
static near silu(near x)
{
    const double value = x.value / (1 + exp(-x.value));
    return (near){value, 1.1 * x.bound + fabs(value) * (exp_error(x.value) + 5 * rounding) +
                             fabs(x.value) * flushed};
}

/* log(1 + e^x): its slope is the sigmoid, at most 1; of log(1 + e^-|x|) the part below the rest. */
static near softplus(near x)
{
    const double small = log1p(exp(-fabs(x.value))), value = fmax(x.value, 0) + small;
    const double slope = 1 / (1 + exp(-x.value));
    return (near){value, slope * x.bound + small * (exp_error(x.value) + 8 * rounding) +
                             value * rounding + flushed};
}

/* x times the mask at position t; before position 0 stands the history. */
static double input(const scan_case *c, ptrdiff_t channel, ptrdiff_t t)
{
    const attn_conv *v = &c->conv;
    if (t < 0)
        return v->history[(v->width - 1 + t) * v->channels + channel];
    return scan_sees(c, t) ? v->x[t * v->x_stride + channel] : 0;
}

static scan_answer open_answer(ptrdiff_t count, ptrdiff_t channels)
{
    const size_t floats = (size_t)(count * channels);
    scan_answer answer = {calloc(floats, sizeof(double)), calloc(floats, sizeof(double))};
    if (!answer.value || !answer.bound)
        abort();
    return answer;
}

void scan_answer_close(scan_answer *answer)
{
    free(answer->value);
    free(answer->bound);
}

void scan_check(const scan_case *c, attn_isa isa, const char *what, const float *got,
                ptrdiff_t stride, const scan_answer *wanted)
{
    const ptrdiff_t count = (ptrdiff_t)c->spec.count * c->spec.channels;
    double largest = 0;
    for (ptrdiff_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(wanted->value[i]));
    for (ptrdiff_t i = 0; i < count; i++) {
        const ptrdiff_t t = i / c->spec.channels, channel = i % c->spec.channels;
        const double value = got[t * stride + channel];
        const double allowed = fmin(wanted->bound[i], 1e-4 * largest + 1e-30);
        CHECK(fabs(value - wanted->value[i]) <= allowed,
              "%s: %s at position %td, channel %td is %.9g, expected %.9g within %.3g",
              scan_describe(c, isa), what, t, channel, value, wanted->value[i], allowed);
    }
}

scan_answer scan_expect_conv(const scan_case *c)
{
    const attn_conv *v = &c->conv;
    scan_answer answer = open_answer(v->count, v->channels);
    for (ptrdiff_t i = 0; i < v->count * v->channels; i++) {
        const ptrdiff_t t = i / v->channels, channel = i % v->channels;
        if (!scan_sees(c, t))
            continue;
        near sum = {v->bias ? v->bias[channel] : 0, 0};
        double terms = fabs(sum.value);
        for (int k = 0; k < v->width; k++) {
            const double weight = c->weight[channel * v->width + k];
            const double term = weight * input(c, channel, t - (v->width - 1) + k);
            sum.value += term;
            terms += fabs(term);
        }
        sum.bound = terms * (v->width + 1) * rounding + flushed;
        const near out = silu(sum);
        answer.value[i] = out.value;
        answer.bound[i] = out.bound;
    }
    return answer;
}

/* h = kept h + grown b, and what that does to its bound. */
static near step_state(near h, near d, double a, near grown, double b)
{
    const double exponent = d.value * a, kept = exp(exponent);
    const double error = exp2_rounding + fabs(a) * d.bound + 3 * fabs(exponent) * rounding;
    /* Where the exponent is all error, e^0 is the most that it can be. */
    const double kept_bound = fmin(kept * expm1(error), 1) + flushed;
    const double value = kept * h.value + grown.value * b;
    return (near){value, (kept + kept_bound) * h.bound + kept_bound * fabs(h.value) +
                             grown.bound * fabs(b) + fabs(grown.value * b) * rounding +
                             (fabs(value) + h.bound) * rounding + flushed};
}

/* One position of one channel. */
static near step(const scan_case *c, ptrdiff_t channel, ptrdiff_t t, near *h)
{
    const attn_scan *s = &c->scan;
    const double x = s->x[t * s->x_stride + channel];
    const double raw =
        s->dt[t * s->dt_stride + channel] + (s->dt_bias ? (double)s->dt_bias[channel] : 0);
    const near d = softplus((near){raw, fabs(raw) * rounding});
    const near grown =
        s->euler ? (near){d.value * x, d.bound * fabs(x) + fabs(d.value * x) * rounding + flushed}
                 : (near){x, 0};
    near y = {s->skip ? s->skip[channel] * x : 0, 0};
    double terms = fabs(y.value);
    for (int n = 0; n < s->states; n++) {
        const double a = -exp((double)c->a_log[channel * s->states + n]);
        const double weight = s->c[t * s->c_stride + n];
        h[n] = step_state(h[n], d, a, grown, s->b[t * s->b_stride + n]);
        y.value += weight * h[n].value;
        y.bound += fabs(weight) * h[n].bound;
        terms += fabs(weight * h[n].value);
    }
    y.bound += terms * (s->states + 2) * rounding + flushed;
    if (!s->z)
        return y;
    const near gate = silu((near){s->z[t * s->z_stride + channel], 0});
    const double gated = y.value * gate.value;
    return (near){gated, y.bound * (fabs(gate.value) + gate.bound) + fabs(y.value) * gate.bound +
                             fabs(gated) * rounding + flushed};
}

scan_answer scan_expect(const scan_case *c)
{
    const attn_scan *s = &c->scan;
    scan_answer answer = open_answer(s->count, s->channels);
    near *h = calloc((size_t)s->states, sizeof *h);
    if (!h)
        abort();
    for (ptrdiff_t channel = 0; channel < s->channels; channel++) {
        const ptrdiff_t lane = channel / ATTN_LANES * s->states * ATTN_LANES + channel % ATTN_LANES;
        for (int n = 0; n < s->states; n++)
            h[n] = (near){s->h[lane + n * ATTN_LANES], 0};
        for (ptrdiff_t t = 0; t < s->count; t++) {
            const near y = step(c, channel, t, h);
            answer.value[t * s->channels + channel] = y.value;
            answer.bound[t * s->channels + channel] = y.bound;
        }
    }
    free(h);
    return answer;
}
