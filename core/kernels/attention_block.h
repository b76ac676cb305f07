/* One panel of queries against one block of keys: scores, the softmax's running maximum and sum,
 * and the answer (Dao et al. 2022, algorithm 1). The softmax runs down the lanes without a
 * horizontal step. Scores are in units of log2, since 2^x is what the exponential computes anyway.
 * Each block's p V is summed from zero and then added: peaked rows lose less. */
#ifndef ATTN_ATTENTION_BLOCK_H
#define ATTN_ATTENTION_BLOCK_H

#include "kernels/attention_panel.h"
#include "kernels/vec_math.h"

#include <float.h>
#include <math.h>

typedef struct query_panel {
    float *q;        /* (d, PANEL) queries times scale log2 e; rows past the tile's end are 0 */
    float *answer;   /* (dv, PANEL) sum of p v, not yet divided by the sum of p */
    vf maximum[3];   /* of the scores so far */
    vf sum[3];       /* of p = 2^(score - maximum) */
    vf seen[3];      /* 1 where the row has seen a key, else 0: decided on masks, never on values */
    int first, last; /* rows of the tile in lanes 0 and PANEL - 1 (the last real one) */
} query_panel;

/* Keys worked on together, with `position` counted from the block's start. */
typedef struct key_block {
    const float *k, *v;
    ptrdiff_t k_stride, v_stride;
    const int *position; /* of each key, ascending; NULL when key t is at position t */
    int keys;
    int first, last; /* row r sees positions first + r .. last + r */
} key_block;

enum {
    MOST_RUNS = 6 /* two edges of two steps each, and the last few keys */
};

typedef struct score_range {
    vf maximum[3]; /* over all scores that are not hidden */
    vf minimum[3]; /* over all scores: -infinity means that a product overflowed on its way */
} score_range;

VF_INLINE int position_of(const key_block *block, int key)
{
    return block->position ? block->position[key] : key;
}

/* Put -infinity where a row does not see the key at `position`, and note the rows that do. */
VF_INLINE void hide(const key_block *block, int position, query_panel *panel, vf score[3])
{
    vf low = vf_set((float)(position - block->last)),
       high = vf_set((float)(position - block->first));
    for (int c = 0; c < 3; c++) {
        vf row = vf_add(vf_lane_numbers(), vf_set((float)(panel->first + c * VF_LANES)));
        vmask visible = vf_between(row, low, high);
        score[c] = vf_select(visible, score[c], vf_set(-INFINITY));
        panel->seen[c] = vf_select(visible, vf_set(1.0F), panel->seen[c]);
    }
}

/* The vectors with a row that sees one of `keys` keys from `j` on. */
VF_INLINE lane_range lanes_of(const key_block *block, int j, int keys, const query_panel *panel)
{
    int first_row = position_of(block, j) - block->last - panel->first;
    int last_row = position_of(block, j + keys - 1) - block->first - panel->first;
    int rows = panel->last - panel->first;
    int low = first_row > 0 ? first_row / VF_LANES : 0;
    int high = (last_row < rows ? last_row : rows) / VF_LANES + 1;
    return (lane_range){low, high > low ? high : low + 1};
}

/* Scores of `keys` keys from key `j` on, and their range. `keys`, `low` and `high` are constants
 * where this is inlined; other vectors are left as they are, since nobody reads them. */
VF_INLINE void score_keys(int keys, int low, int high, const key_block *block, int j, int d,
                          query_panel *panel, float *scores, score_range *range)
{
    vf score[VF_ROWS][3];
    clear(keys, score);
    multiply(keys, low, high, block->k + j * block->k_stride, block->k_stride, 1, panel->q, d,
             score);
#pragma GCC unroll 8
    for (int i = 0; i < keys; i++)
#pragma GCC unroll 3
        for (int c = low; c < high; c++)
            range->minimum[c] = vf_min(score[i][c], range->minimum[c]);
    bool hidden = position_of(block, j) < block->first + panel->last ||
                  position_of(block, j + keys - 1) > block->last + panel->first;
    if (hidden)
        for (int i = 0; i < keys; i++)
            hide(block, position_of(block, j + i), panel, score[i]);
    else
        panel->seen[0] = panel->seen[1] = panel->seen[2] = vf_set(1.0F);
#pragma GCC unroll 8
    for (int i = 0; i < keys; i++) {
#pragma GCC unroll 3
        for (int c = low; c < high; c++) {
            vf_store(scores + i * PANEL + c * VF_LANES, score[i][c]);
            range->maximum[c] = vf_max(score[i][c], range->maximum[c]);
        }
    }
}

static void score_rows(lane_range lanes, const key_block *block, int j, int d, query_panel *panel,
                       float *scores, score_range *range)
{
    switch (4 * lanes.low + lanes.high) {
#define SCORE(low, high)                                                   \
    case 4 * low + high:                                                   \
        score_keys(VF_ROWS, low, high, block, j, d, panel, scores, range); \
        break;
        EACH_LANE_RANGE(SCORE)
#undef SCORE
    }
}

/* Scores of keys `from` to `from` + `keys`, and how they fall into runs. Returns their number. */
static int score_block(const key_block *block, int from, int keys, int d, query_panel *panel,
                       float *scores, score_range *range, lane_run *runs)
{
    int count = 0, step;
    for (int j = 0; j < keys; j += step, scores += step * PANEL) {
        lane_range lanes = {0, 3};
        step = j + VF_ROWS <= keys ? VF_ROWS : 1;
        if (step == VF_ROWS) {
            lanes = lanes_of(block, from + j, VF_ROWS, panel);
            score_rows(lanes, block, from + j, d, panel, scores, range);
        } else {
            score_keys(1, 0, 3, block, from + j, d, panel, scores, range);
        }
        bool same = count > 0 && runs[count - 1].lanes.low == lanes.low &&
                    runs[count - 1].lanes.high == lanes.high;
        if (same)
            runs[count - 1].keys += step;
        else
            runs[count++] = (lane_run){lanes, step};
    }
    return count;
}

/* scores = 2^(scores - maximum), added to sum, in the vectors low to high - 1, which are constants
 * where this is inlined. */
VF_INLINE void exponentiate(int low, int high, float *scores, int keys, const vf maximum[3],
                            vf sum[3])
{
    vf added[3] = {sum[0], sum[1], sum[2]};
    for (int j = 0; j < keys; j++, scores += PANEL) {
#pragma GCC unroll 3
        for (int c = low; c < high; c++) {
            vf p = vf_exp2(vf_sub(vf_load(scores + c * VF_LANES), maximum[c]));
            vf_store(scores + c * VF_LANES, p);
            added[c] = vf_add(added[c], p);
        }
    }
#pragma GCC unroll 3
    for (int c = low; c < high; c++)
        sum[c] = added[c];
}

static void exponentiate_run(const lane_run *run, float *scores, const vf maximum[3], vf sum[3])
{
    switch (4 * run->lanes.low + run->lanes.high) {
#define EXPONENTIATE(low, high)                                   \
    case 4 * low + high:                                          \
        exponentiate(low, high, scores, run->keys, maximum, sum); \
        break;
        EACH_LANE_RANGE(EXPONENTIATE)
#undef EXPONENTIATE
    }
}

/* First key of the block at `position` or later. */
static int first_key_at(const key_block *block, int position)
{
    int key = position < 0 ? 0 : position;
    if (block->position)
        for (key = 0; key < block->keys && block->position[key] < position;)
            key++;
    return key < block->keys ? key : block->keys;
}

/* One panel against one block. Returns the number of keys it computed scores for. */
static int absorb_block(const key_block *block, int d, int dv, query_panel *panel, float *scores)
{
    int from = first_key_at(block, block->first + panel->first);
    int to = first_key_at(block, block->last + panel->last + 1);
    if (from >= to)
        return 0;
    int keys = to - from;
    lane_run runs[MOST_RUNS];
    score_range range;
    vf keep[3], sum[3];
    for (int c = 0; c < 3; c++) {
        range.maximum[c] = panel->maximum[c];
        range.minimum[c] = sum[c] = vf_set(0);
    }
    int count = score_block(block, from, keys, d, panel, scores, &range, runs);
    for (int c = 0; c < 3; c++) {
        vmask overflown = vf_between(range.minimum[c], vf_set(-INFINITY), vf_set(-FLT_MAX));
        range.maximum[c] = vf_select(overflown, vf_set(NAN), range.maximum[c]);
    }
    float *p = scores;
    for (int i = 0; i < count; p += runs[i++].keys * PANEL)
        exponentiate_run(&runs[i], p, range.maximum, sum);
    for (int c = 0; c < 3; c++) {
        keep[c] = vf_exp2(vf_sub(panel->maximum[c], range.maximum[c]));
        panel->sum[c] = vf_fma(panel->sum[c], keep[c], sum[c]);
        panel->maximum[c] = range.maximum[c];
    }
    const float *v = block->v + from * block->v_stride;
    int c = 0;
    for (; c + VF_ROWS <= dv; c += VF_ROWS)
        mix_columns(VF_ROWS, v + c, block->v_stride, runs, count, scores, keep,
                    panel->answer + (ptrdiff_t)c * PANEL);
    for (; c < dv; c++)
        mix_columns(1, v + c, block->v_stride, runs, count, scores, keep,
                    panel->answer + (ptrdiff_t)c * PANEL);
    return keys;
}

#endif
