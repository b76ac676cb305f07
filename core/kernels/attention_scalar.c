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

static int64_t attend_span(const attn_tile *t, const attn_span *span, int r, row_state *state)
{
    int64_t seen = 0;
    int64_t from = span->first + r > 0 ? span->first + r : 0;
    int64_t to = span->last + r < span->count - 1 ? span->last + r : span->count - 1;
    for (int64_t ordinal = from; ordinal <= to; ordinal++) {
        int64_t j = span->begin + ordinal * span->step;
        if (t->key_mask && !t->key_mask[j])
            continue;
        double score = t->scale * dot(t->q + r * t->q_stride, t->k + j * t->k_stride, t->d);
        absorb_key(state, score, t->v + j * t->v_stride, t->dv);
        seen++;
    }
    return seen;
}

static attn_row_state *state_of(const attn_tile *t, int r)
{
    return t->state + r * t->state_stride;
}

static void open_row(const attn_tile *t, int r, row_state *state)
{
    *state = (row_state){.maximum = -INFINITY, .weighted = state->weighted};
    bool resumes = t->resume && state_of(t, r)->sum != 0;
    if (resumes) {
        state->maximum = state_of(t, r)->maximum;
        state->sum = state_of(t, r)->sum;
    }
    for (int c = 0; c < t->dv; c++)
        /* -0.0 and not 0.0: it is the one number that adding never changes, sign included. */
        state->weighted[c] = resumes ? state->sum * t->out[r * t->out_stride + c] : -0.0;
}

static void close_row(const attn_tile *t, int r, const row_state *state)
{
    /* The sum of a row that saw a key is at least 1, or NaN. */
    for (int c = 0; c < t->dv; c++)
        t->out[r * t->out_stride + c] =
            state->sum != 0 ? (float)(state->weighted[c] / state->sum) : 0.0F;
    if (!t->state)
        return;
    /* The sum has to be that of the exponentials above the rounded maximum. */
    float maximum = (float)state->maximum;
    double sum = state->sum == 0 ? 0 : state->sum * exp(state->maximum - maximum);
    *state_of(t, r) = (attn_row_state){maximum, (float)sum};
}

static attn_status attend(const attn_tile *t, attn_arena *scratch, uint64_t *scores)
{
    size_t mark = scratch->used;
    double *weighted = attn_arena_take(scratch, (size_t)t->dv * sizeof *weighted);
    if (!weighted)
        return ATTN_NO_MEMORY;
    for (int r = 0; r < t->rows; r++) {
        row_state state = {.weighted = weighted};
        open_row(t, r, &state);
        for (int s = 0; s < t->span_count; s++)
            *scores += (uint64_t)attend_span(t, &t->spans[s], r, &state);
        close_row(t, r, &state);
    }
    attn_arena_rewind(scratch, mark);
    return ATTN_OK;
}

static size_t shorten_bytes(int columns)
{
    (void)columns;
    return 0;
}

static attn_status shorten(const attn_shortening *s, attn_arena *scratch)
{
    (void)scratch;
    for (int i = 0; i < s->of_count; i++) {
        const attn_shortened *of = &s->of[i];
        for (int r = 0; r < s->rows; r++)
            for (int c = 0; c < of->columns; c++) {
                double sum = 0;
                for (int64_t t = 0; t < s->count; t++)
                    sum += (double)s->e[r * s->stride + t] * of->x[t * of->stride + c];
                of->out[(ptrdiff_t)r * of->columns + c] += (float)sum;
            }
    }
    return ATTN_OK;
}

const attn_kernels attn_kernels_scalar = {
    .isa = ATTN_ISA_SCALAR,
    .tile_flops = 1e6,
    .panel_rows = 1,
    .lane_rows = 1,
    .key_group = 1,
    .attend_bytes = attend_bytes,
    .attend = attend,
    .shorten_bytes = shorten_bytes,
    .shorten = shorten,
    .features = &attn_features_scalar,
    .scan = &attn_scan_scalar,
    .elementwise = &attn_elementwise_scalar,
};
