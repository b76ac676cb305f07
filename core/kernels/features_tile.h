/* Performer's running sums, written once for every vector ISA. An overlay includes its vec_<isa>.h
 * and then this file. Features lie in the lanes while exponentials are taken, columns of v while
 * sums are updated. */
#ifndef ATTN_FEATURES_TILE_H
#define ATTN_FEATURES_TILE_H

#include "kernels/kernels.h"
#include "kernels/vec_math.h"

#include <math.h>

static void absorb(attn_feature_sums *sums, float *t, const float *shift, int rows, float *keep)
{
    ptrdiff_t features = sums->features;
    for (ptrdiff_t f = 0; f < features; f += VF_LANES) {
        vf before = vf_load(sums->maximum + f), maximum = before;
        for (int r = 0; r < rows; r++)
            /* A NaN must win, to reach the answer. */
            maximum = vf_max(maximum, vf_sub(vf_load(t + r * features + f), vf_set(shift[r])));
        vf kept = vf_exp2(vf_sub(before, maximum));
        vf mass = vf_mul(vf_load(sums->mass + f), kept);
        for (int r = 0; r < rows; r++) {
            vf log_phi = vf_sub(vf_load(t + r * features + f), vf_set(shift[r]));
            vf phi = vf_exp2(vf_sub(log_phi, maximum));
            vf_store(t + r * features + f, phi);
            mass = vf_add(mass, phi);
        }
        vf_store(keep + f, kept);
        vf_store(sums->maximum + f, maximum);
        vf_store(sums->mass + f, mass);
    }
}

static void decay(attn_feature_sums *sums, const float *keep)
{
    float *at = sums->values;
    for (int f = 0; f < sums->features; f++) {
        vf factor = vf_set(keep[f]);
        for (int c = 0; c < sums->columns; c += VF_LANES, at += VF_LANES)
            vf_store(at, vf_mul(vf_load(at), factor));
    }
}

static void add_key(attn_feature_sums *sums, const float *keep, const float *phi, const float *v)
{
    float *at = sums->values;
    for (int f = 0; f < sums->features; f++) {
        vf kept = vf_set(keep[f]), added = vf_set(phi[f]);
        for (int c = 0; c < sums->columns; c += VF_LANES, at += VF_LANES)
            vf_store(at, vf_fma(added, vf_load(v + c), vf_mul(vf_load(at), kept)));
    }
}

static float largest_lane(vf x)
{
    float lanes[VF_LANES] __attribute__((aligned(ATTN_ALIGN)));
    vf_store(lanes, x);
    float largest = lanes[0];
    for (int i = 1; i < VF_LANES; i++)
        /* The comparison is false for a NaN on the right, so one on the left stays. */
        largest = lanes[i] > largest || isnan(lanes[i]) ? lanes[i] : largest;
    return largest;
}

static float sum_of_lanes(vf x)
{
    float lanes[VF_LANES] __attribute__((aligned(ATTN_ALIGN))), sum = 0;
    vf_store(lanes, x);
    for (int i = 0; i < VF_LANES; i++)
        sum += lanes[i];
    return sum;
}

static void weigh(const attn_feature_sums *sums, float *u, int rows, attn_row_state *state)
{
    ptrdiff_t features = sums->features;
    for (int r = 0; r < rows; r++, u += features) {
        vf maximum = vf_set(-INFINITY), total = vf_set(0);
        for (int f = 0; f < features; f += VF_LANES) {
            vf x = vf_add(vf_load(u + f), vf_load(sums->maximum + f));
            vf_store(u + f, x);
            maximum = vf_max(maximum, x);
        }
        state[r].maximum = largest_lane(maximum);
        vf largest = vf_set(state[r].maximum);
        for (int f = 0; f < features; f += VF_LANES) {
            vf w = vf_exp2(vf_sub(vf_load(u + f), largest));
            vf_store(u + f, w);
            total = vf_fma(w, vf_load(sums->mass + f), total);
        }
        state[r].sum = sums->mass[0] == 0 ? 0 : sum_of_lanes(total);
    }
}

static void read_sums(const attn_feature_sums *sums, const float *w, float *out)
{
    ptrdiff_t columns = sums->columns;
    for (int c = 0; c < columns; c += VF_LANES) {
        const float *at = sums->values + c;
        vf even = vf_set(0), odd = vf_set(0);
        for (int f = 0; f < sums->features; f += 2, at += 2 * columns) {
            even = vf_fma(vf_set(w[f]), vf_load(at), even);
            odd = vf_fma(vf_set(w[f + 1]), vf_load(at + columns), odd);
        }
        vf_store(out + c, vf_add(even, odd));
    }
}

#endif
