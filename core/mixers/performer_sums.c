/* Performer's sums: those of each chunk of keys, and then those of all chunks before each. */
#include "attn/blas.h"
#include "mixers/performer.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void clear(attn_feature_sums *sums)
{
    for (int f = 0; f < sums->features; f++)
        sums->maximum[f] = -FLT_MAX;
    memset(sums->mass, 0, (size_t)sums->features * sizeof *sums->mass);
    memset(sums->values, 0, (size_t)sums->features * (size_t)sums->columns * sizeof *sums->values);
}

/* Add `from` to `to`. */
static void combine(attn_feature_sums *to, const attn_feature_sums *from)
{
    for (int f = 0; f < to->features; f++) {
        float maximum = fmaxf(to->maximum[f], from->maximum[f]);
        float mine = exp2f(to->maximum[f] - maximum), theirs = exp2f(from->maximum[f] - maximum);
        float *a = to->values + f * to->columns;
        const float *b = from->values + f * to->columns;
        for (int c = 0; c < to->columns; c++)
            a[c] = a[c] * mine + b[c] * theirs;
        to->mass[f] = to->mass[f] * mine + from->mass[f] * theirs;
        to->maximum[f] = maximum;
    }
}

/* Take in keys [from, from + count), whose features are in w->keys, and their values. */
static void take_block(const attn_plan *plan, attn_feature_sums *sums, int count,
                       const float *values, ptrdiff_t stride, attn_performer_workspace *w)
{
    plan->kernels->features->absorb(sums, w->keys, w->shift, count, w->keep);
    plan->kernels->features->decay(sums, w->keep);
    attn_blas_gemm(&(attn_gemm){
        .rows = sums->features,
        .columns = plan->shape.dv,
        .depth = count,
        .a = w->keys,
        .a_stride = sums->features,
        .a_transposed = true,
        .b = values,
        .b_stride = stride,
        .c = sums->values,
        .c_stride = sums->columns,
        .alpha = 1,
        .beta = 1,
    });
}

void attn_performer_run_keys(const attn_plan *plan, const attn_mix_io *io, int64_t tile,
                             attn_performer_workspace *w)
{
    const attn_shape *s = &plan->shape;
    int64_t ranges = attn_performer_range_count(plan, ATTN_PERFORMER_KEYS);
    int64_t chunks = attn_performer_chunk_count(plan), length = attn_performer_chunk_length(plan);
    int64_t head = tile / ranges / chunks, chunk = tile / ranges % chunks;
    int64_t b = head / s->kv_heads, g = head % s->kv_heads, valid = attn_valid_keys(plan, b);
    int64_t from = chunk * length, end = from + length < valid ? from + length : valid;
    attn_performer_range range = attn_performer_range_at(plan, ATTN_PERFORMER_KEYS, tile % ranges);
    attn_feature_sums sums = attn_performer_slot(plan, io, head, chunk + 1, range);
    clear(&sums);
    for (; from < end; from += ATTN_PERFORMER_BLOCK) {
        int count = (int)(end - from < ATTN_PERFORMER_BLOCK ? end - from : ATTN_PERFORMER_BLOCK);
        attn_performer_project_keys(plan, io, b, g, from, count, range, w);
        take_block(plan, &sums, count, attn_view_row(io->v, b, g, from), io->v.row, w);
    }
}

void attn_performer_run_combine(const attn_plan *plan, const attn_mix_io *io, int64_t tile)
{
    int64_t ranges = attn_performer_range_count(plan, ATTN_PERFORMER_COMBINE);
    int64_t head = tile / ranges;
    attn_performer_range range =
        attn_performer_range_at(plan, ATTN_PERFORMER_COMBINE, tile % ranges);
    attn_feature_sums before = attn_performer_slot(plan, io, head, 0, range);
    clear(&before);
    for (int64_t c = 1; c < attn_performer_slot_count(plan); c++) {
        attn_feature_sums sums = attn_performer_slot(plan, io, head, c, range);
        combine(&sums, &before);
        before = sums;
    }
}
