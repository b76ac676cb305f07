/* Fused attention, the scalar truth: one query at a time, one visible key at a time, with the
 * softmax kept online (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax",
 * algorithm 3) so that no row of scores is ever stored. Accumulates in double: what the overlays
 * are tested against should be better than they are. */
#include "kernels/kernels.h"

#include <math.h>

static size_t attend_bytes(int rows, int d, int dv, bool masked)
{
    (void)rows;
    (void)d;
    (void)masked;
    return attn_arena_round((size_t)dv * sizeof(double));
}

typedef struct row_state {
    double maximum, sum;
    double *weighted; /* (dv) sum of p v */
} row_state;

static double dot(const float *a, const float *b, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static void absorb_key(row_state *state, double score, const float *v, int dv)
{
    /* A NaN score must not lose against the maximum: it has to reach the answer. */
    double maximum = score > state->maximum || isnan(score) ? score : state->maximum;
    double keep = state->sum == 0 ? 0 : exp(state->maximum - maximum);
    double p = exp(score - maximum);
    state->maximum = maximum;
    state->sum = state->sum * keep + p;
    for (int c = 0; c < dv; c++)
        state->weighted[c] = state->weighted[c] * keep + p * v[c];
}

static int64_t attend_row(const attn_tile *t, int r, row_state *state)
{
    int64_t seen = 0;
    for (int s = 0; s < t->span_count; s++) {
        const attn_span *span = &t->spans[s];
        int64_t from = span->begin > span->first + r ? span->begin : span->first + r;
        int64_t to = span->end < span->last + r + 1 ? span->end : span->last + r + 1;
        for (int64_t j = from; j < to; j++) {
            if (t->key_mask && !t->key_mask[j])
                continue;
            double score = t->scale * dot(t->q + r * t->q_stride, t->k + j * t->k_stride, t->d);
            absorb_key(state, score, t->v + j * t->v_stride, t->dv);
            seen++;
        }
    }
    return seen;
}

static attn_status attend(const attn_tile *t, attn_arena *scratch, uint64_t *scores)
{
    size_t mark = scratch->used;
    double *weighted = attn_arena_take(scratch, (size_t)t->dv * sizeof *weighted);
    if (!weighted)
        return ATTN_NO_MEMORY;
    for (int r = 0; r < t->rows; r++) {
        row_state state = {.maximum = -INFINITY, .weighted = weighted};
        /* -0.0 and not 0.0: it is the one number that adding never changes, sign included. */
        for (int c = 0; c < t->dv; c++)
            weighted[c] = -0.0;
        int64_t seen = attend_row(t, r, &state);
        for (int c = 0; c < t->dv; c++)
            t->out[r * t->out_stride + c] = seen ? (float)(weighted[c] / state.sum) : 0.0F;
        *scores += (uint64_t)seen;
    }
    attn_arena_rewind(scratch, mark);
    return ATTN_OK;
}

const attn_kernels attn_kernels_scalar = {
    .isa = ATTN_ISA_SCALAR,
    .panel_rows = 1,
    .attend_bytes = attend_bytes,
    .attend = attend,
};
