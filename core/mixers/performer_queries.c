/* Performer's answers without causal order: every query weighs the sums of all keys. */
#include "attn/blas.h"
#include "mixers/performer.h"

#include <math.h>

void attn_performer_row_resume(attn_row_state *row, attn_row_state part, float *out,
                               int64_t columns, float *weights, ptrdiff_t features)
{
    if (part.sum == 0)
        return;
    float maximum = fmaxf(row->maximum, part.maximum);
    float mine = exp2f(row->maximum - maximum), theirs = exp2f(part.maximum - maximum);
    for (int64_t c = 0; c < columns; c++)
        out[c] *= mine;
    for (ptrdiff_t f = 0; f < features; f++)
        weights[f] *= theirs;
    *row = (attn_row_state){.maximum = maximum, .sum = row->sum * mine + part.sum * theirs};
}

void attn_performer_row_finish(float sum, int64_t columns, float *out)
{
    for (int64_t c = 0; c < columns; c++)
        out[c] = sum == 0 ? 0 : out[c] / sum;
}

/* Weights of the run's queries for a range; w->state becomes where its rows stand. */
static void weigh(const attn_plan *plan, const attn_mix_io *io, const attn_run *at,
                  const attn_feature_sums *sums, bool first, attn_performer_workspace *w)
{
    attn_row_state *rows = attn_performer_state(plan, io, at);
    plan->kernels->features->weigh(sums, w->queries, at->rows, w->state);
    for (int r = 0; rows && r < at->rows; r++) {
        if (first)
            rows[r] = w->state[r];
        else
            attn_performer_row_resume(
                &rows[r], w->state[r], attn_view_row(io->out, at->b, at->h, at->first + r),
                plan->shape.dv, w->queries + r * sums->features, sums->features);
        w->state[r] = rows[r];
    }
}

void attn_performer_run_queries(const attn_plan *plan, const attn_mix_io *io, int64_t pass,
                                int64_t tile, attn_performer_workspace *w)
{
    const attn_shape *s = &plan->shape;
    attn_run at = attn_fused_place(plan, tile);
    int64_t head = at.b * s->kv_heads + at.h / (s->heads / s->kv_heads);
    attn_performer_range range = attn_performer_range_at(plan, ATTN_PERFORMER_QUERIES, pass);
    const attn_feature_sums sums =
        attn_performer_slot(plan, io, head, attn_performer_chunk_count(plan), range);
    float *out = attn_view_row(io->out, at.b, at.h, at.first);
    at.rows = attn_fused_clear_padding(plan, io, &at);
    if (at.rows == 0)
        return;
    attn_performer_project_queries(plan, io, &at, range, w);
    weigh(plan, io, &at, &sums, pass == 0, w);
    attn_blas_gemm(&(attn_gemm){
        .rows = at.rows,
        .columns = s->dv,
        .depth = sums.features,
        .a = w->queries,
        .a_stride = sums.features,
        .b = sums.values,
        .b_stride = sums.columns,
        .c = out,
        .c_stride = io->out.row,
        .alpha = 1,
        .beta = pass == 0 ? 0 : 1,
    });
    bool last = pass == attn_performer_range_count(plan, ATTN_PERFORMER_QUERIES) - 1;
    for (int r = 0; last && r < at.rows; r++, out += io->out.row)
        attn_performer_row_finish(w->state[r].sum, s->dv, out);
}
