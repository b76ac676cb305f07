/* What the singular values say: how many carry the energy, and two kinds of rank. */
#include "analysis/head.h"

/* float32's unit of rounding, doubled: what max(n, m) additions may leave of a value that is 0. */
#define RANK_UNIT 1.2e-7

const double attn_energy_levels[ATTN_ENERGY_LEVELS] = {0.9, 0.95, 0.99};

static int64_t smallest_holding(const double *cumulative, int64_t count, double part)
{
    int64_t k = 1;
    while (k < count && cumulative[k - 1] < part)
        k++;
    return k;
}

void attn_head_spectrum(const attn_analysis *a, attn_head_report *r)
{
    const double *s = r->singular_values;
    int64_t n = a->shape.n, m = a->shape.m, count = n < m ? n : m;
    double total = 0, floor = s[0] * (double)(n > m ? n : m) * RANK_UNIT;
    r->rank_bound = count < a->shape.d ? count : a->shape.d;
    r->numerical_rank = 0;
    for (int64_t i = 0; i < count; i++) {
        total += s[i] * s[i];
        r->cumulative_energy[i] = total;
        r->numerical_rank += s[i] > floor;
    }
    for (int64_t i = 0; i < count; i++)
        r->cumulative_energy[i] /= total;
    r->stable_rank = total / (s[0] * s[0]);
    for (int i = 0; i < ATTN_ENERGY_LEVELS; i++)
        r->k_energy[i] = smallest_holding(r->cumulative_energy, count, attn_energy_levels[i]);
}
