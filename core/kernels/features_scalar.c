/* Performer's running sums, the scalar truth. */
#include "kernels/kernels.h"

#include <math.h>

static void absorb(attn_feature_sums *sums, float *t, const float *shift, int rows, float *keep)
{
    for (int f = 0; f < sums->features; f++) {
        float maximum = sums->maximum[f];
        for (int r = 0; r < rows; r++)
            maximum = fmaxf(maximum, t[r * sums->features + f] - shift[r]);
        keep[f] = exp2f(sums->maximum[f] - maximum);
        double mass = (double)sums->mass[f] * keep[f];
        for (int r = 0; r < rows; r++) {
            float *phi = &t[r * sums->features + f];
            *phi = exp2f(*phi - shift[r] - maximum);
            mass += *phi;
        }
        sums->mass[f] = (float)mass;
        sums->maximum[f] = maximum;
    }
}

static void decay(attn_feature_sums *sums, const float *keep)
{
    for (int f = 0; f < sums->features; f++)
        for (int c = 0; c < sums->columns; c++)
            sums->values[f * sums->columns + c] *= keep[f];
}

static void add_key(attn_feature_sums *sums, const float *keep, const float *phi, const float *v)
{
    for (int f = 0; f < sums->features; f++) {
        float *row = sums->values + f * sums->columns;
        for (int c = 0; c < sums->columns; c++)
            row[c] = row[c] * keep[f] + phi[f] * v[c];
    }
}

static void weigh(const attn_feature_sums *sums, float *u, int rows, attn_row_state *state)
{
    for (int r = 0; r < rows; r++, u += sums->features) {
        float maximum = -INFINITY;
        for (int f = 0; f < sums->features; f++)
            maximum = fmaxf(maximum, u[f] + sums->maximum[f]);
        double total = 0;
        for (int f = 0; f < sums->features; f++) {
            u[f] = exp2f(u[f] + sums->maximum[f] - maximum);
            total += (double)u[f] * sums->mass[f];
        }
        state[r].maximum = maximum;
        state[r].sum = sums->mass[0] == 0 ? 0 : (float)total;
    }
}

static void read_sums(const attn_feature_sums *sums, const float *w, float *out)
{
    for (int c = 0; c < sums->columns; c++) {
        double sum = 0;
        for (int f = 0; f < sums->features; f++)
            sum += (double)w[f] * sums->values[f * sums->columns + c];
        out[c] = (float)sum;
    }
}

const attn_feature_kernels attn_features_scalar = {
    .absorb = absorb,
    .decay = decay,
    .add_key = add_key,
    .weigh = weigh,
    .read = read_sums,
};
