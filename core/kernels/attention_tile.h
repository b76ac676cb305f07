/* Fused attention over one tile of queries, written once for every vector ISA. An overlay includes
 * its vec_<isa>.h and then this file.
 *
 * The idea of FlashAttention (Dao et al. 2022, algorithm 1): walk the keys in blocks, keep a
 * running maximum and sum for every query, and rescale the answer when the maximum grows; the n x m
 * matrix never exists. The layout is our own choice: queries live in the SIMD lanes. A *panel* is 3
 * vectors of queries (24 on AVX2, 48 on AVX-512), held transposed, so that
 *
 *     scores (key, PANEL)  = K . q      K broadcast from where the client's rows lie
 *     answer (column, PANEL) += V^T . p   V likewise, p being the scores after the exponential
 *
 * are the same small product (`multiply`), K and V are never packed, and the softmax runs down the
 * lanes without a horizontal step. Scores are in units of log2, since 2^x is what the exponential
 * computes anyway. Each block's p V is summed from zero and then added: peaked rows lose less.
 *
 * Every row's arithmetic is independent of its neighbours and of the tile's size: over the same
 * spans an answer's bits do not depend on how rows were dealt to tiles. (A band's span begins where
 * its tile does, so there they do, and the plan fixes them.) */
#ifndef ATTN_ATTENTION_TILE_H
#define ATTN_ATTENTION_TILE_H

#include "kernels/kernels.h"
#include "kernels/vec_math.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PANEL = 3 * VF_LANES,
    KEY_BLOCK = 192,     /* keys whose scores are held at once: K, V and p stay in L2, p in L1 */
    GATHER_REACH = 4096, /* furthest a block looks for visible keys: floats count rows and
                            positions exactly, and much longer blocks would only hide skipping */
};

#define LOG2_E 1.44269504088896341

/* The compiler would rather fold a panel load into each multiply-add that uses it, which makes the
 * product wait for loads (16 for 12 multiply-adds instead of 7). This costs nothing but forbids it:
 * the value must sit in a register here. */
#define VF_PIN(x) __asm__("" : "+v"(x))

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

/* Vectors low .. high - 1 of a panel, outside of which no row sees any of some keys: along the
 * edges of a band a third of the work. */
typedef struct lane_range {
    int low, high;
} lane_range;

/* So many keys in a row with the same vectors. */
typedef struct lane_run {
    lane_range lanes;
    int keys;
} lane_run;

enum {
    MOST_RUNS = 6 /* two edges of two steps each, and the last few keys */
};

/* The ranges there are: DO(low, high) makes a constant of each. */
#define EACH_LANE_RANGE(DO) DO(0, 1) DO(0, 2) DO(0, 3) DO(1, 2) DO(1, 3) DO(2, 3)

typedef struct score_range {
    vf maximum[3]; /* over all scores that are not hidden */
    vf minimum[3]; /* over all scores: -infinity means that a product overflowed on its way */
} score_range;

typedef struct workspace {
    query_panel *panels;
    float *scores; /* (KEY_BLOCK, PANEL) scores, then p */
    float *k, *v;  /* gathered keys and values when a mask has holes, else NULL */
    int *position;
} workspace;

static size_t attend_bytes(int rows, int d, int dv, bool masked)
{
    size_t panels = ((size_t)rows + PANEL - 1) / PANEL;
    size_t panel = attn_arena_round((size_t)d * PANEL * sizeof(float)) +
                   attn_arena_round((size_t)dv * PANEL * sizeof(float));
    size_t bytes = attn_arena_round(panels * sizeof(query_panel)) + panels * panel +
                   attn_arena_round(KEY_BLOCK * PANEL * sizeof(float));
    if (masked)
        bytes += attn_arena_round(KEY_BLOCK * (size_t)d * sizeof(float)) +
                 attn_arena_round(KEY_BLOCK * (size_t)dv * sizeof(float)) +
                 attn_arena_round(KEY_BLOCK * sizeof(int));
    return bytes;
}

/* to[c][r] = from[r][c] */
static void transpose(const float *from, ptrdiff_t from_stride, int rows, int columns, float *to,
                      ptrdiff_t to_stride)
{
    int whole_rows = rows - rows % VF_LANES, whole_columns = columns - columns % VF_LANES;
    for (int r = 0; r < whole_rows; r += VF_LANES) {
        for (int c = 0; c < whole_columns; c += VF_LANES) {
            vf square[VF_LANES];
            for (int i = 0; i < VF_LANES; i++)
                square[i] = vf_load_unaligned(from + (r + i) * from_stride + c);
            vf_transpose(square);
            for (int i = 0; i < VF_LANES; i++)
                vf_store_unaligned(to + (c + i) * to_stride + r, square[i]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            to[c * to_stride + r] = from[r * from_stride + c];
}

/* sum[r] += sum over t of a[r*row + t*step] * b[t]: `rows` broadcast values against vectors `low`
 * to `high` - 1 of a panel row, the one product both halves of attention are made of. `rows`, `low`
 * and `high` are constants where this is inlined. */
VF_INLINE void multiply(int rows, int low, int high, const float *a, ptrdiff_t row, ptrdiff_t step,
                        const float *b, int count, vf sum[][3])
{
#pragma GCC unroll 4
    for (int t = 0; t < count; t++, a += step, b += PANEL) {
        vf b0 = vf_load(b), b1 = vf_load(b + VF_LANES), b2 = vf_load(b + 2 * VF_LANES);
        VF_PIN(b0);
        VF_PIN(b1);
        VF_PIN(b2);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vf x = vf_set(a[r * row]);
            VF_PIN(x);
            if (low == 0)
                sum[r][0] = vf_fma(x, b0, sum[r][0]);
            if (low <= 1 && high > 1)
                sum[r][1] = vf_fma(x, b1, sum[r][1]);
            if (high > 2)
                sum[r][2] = vf_fma(x, b2, sum[r][2]);
        }
    }
}

/* -0.0 and not 0.0: it is the one number that adding never changes, sign included. */
VF_INLINE void clear(int rows, vf sum[][3])
{
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = sum[r][2] = vf_set(-0.0F);
}

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

/* Scores of `keys` keys from key `j` on, -infinity outside of the vectors, and their range. `keys`,
 * `low` and `high` are constants where this is inlined. */
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
        for (int c = 0; c < 3; c++) {
            bool inside = c >= low && c < high;
            vf_store(scores + i * PANEL + c * VF_LANES, inside ? score[i][c] : vf_set(-INFINITY));
            if (inside)
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

/* scores = 2^(scores - maximum), added up into sum. */
static void exponentiate(float *scores, int keys, const vf maximum[3], vf sum[3])
{
    vf sum0 = vf_set(0), sum1 = vf_set(0), sum2 = vf_set(0);
    for (int j = 0; j < keys; j++, scores += PANEL) {
        vf p0 = vf_exp2(vf_sub(vf_load(scores), maximum[0]));
        vf p1 = vf_exp2(vf_sub(vf_load(scores + VF_LANES), maximum[1]));
        vf p2 = vf_exp2(vf_sub(vf_load(scores + 2 * VF_LANES), maximum[2]));
        vf_store(scores, p0);
        vf_store(scores + VF_LANES, p1);
        vf_store(scores + 2 * VF_LANES, p2);
        sum0 = vf_add(sum0, p0);
        sum1 = vf_add(sum1, p1);
        sum2 = vf_add(sum2, p2);
    }
    sum[0] = sum0;
    sum[1] = sum1;
    sum[2] = sum2;
}

/* answer = answer * keep + p V for `columns` columns (a constant where inlined) from v on, over
 * keys that fall into `count` runs. */
VF_INLINE void mix_columns(int columns, const float *v, ptrdiff_t v_stride, const lane_run *runs,
                           int count, const float *p, const vf keep[3], float *answer)
{
    vf mixed[VF_ROWS][3];
    clear(columns, mixed);
    for (const lane_run *run = runs; run < runs + count; run++) {
        switch (4 * run->lanes.low + run->lanes.high) {
#define MIX(low, high)                                                     \
    case 4 * low + high:                                                   \
        multiply(columns, low, high, v, 1, v_stride, p, run->keys, mixed); \
        break;
            EACH_LANE_RANGE(MIX)
#undef MIX
        }
        v += run->keys * v_stride;
        p += run->keys * PANEL;
    }
#pragma GCC unroll 8
    for (int i = 0; i < columns; i++) {
#pragma GCC unroll 3
        for (int l = 0; l < 3; l++) {
            float *at = answer + (ptrdiff_t)i * PANEL + l * VF_LANES;
            vf_store(at, vf_fma(vf_load(at), keep[l], mixed[i][l]));
        }
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
        range.minimum[c] = vf_set(0);
    }
    int count = score_block(block, from, keys, d, panel, scores, &range, runs);
    for (int c = 0; c < 3; c++) {
        vmask overflown = vf_between(range.minimum[c], vf_set(-INFINITY), vf_set(-FLT_MAX));
        range.maximum[c] = vf_select(overflown, vf_set(NAN), range.maximum[c]);
    }
    exponentiate(scores, keys, range.maximum, sum);
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

static bool is_visible(const attn_tile *t, const attn_span *span, int64_t ordinal)
{
    return !t->key_mask || t->key_mask[span->begin + ordinal * span->step];
}

/* Copy the visible keys among the next `reach` of the span together until the block is full. */
static int64_t gather_block(const attn_tile *t, const attn_span *span, int64_t from, int64_t reach,
                            const workspace *space, key_block *block)
{
    int keys = 0, offset = 0;
    for (; offset < reach && keys < KEY_BLOCK; offset++) {
        int64_t j = span->begin + (from + offset) * span->step;
        if (!t->key_mask[j])
            continue;
        memcpy(space->k + (size_t)keys * (size_t)t->d, t->k + j * t->k_stride,
               (size_t)t->d * sizeof(float));
        memcpy(space->v + (size_t)keys * (size_t)t->dv, t->v + j * t->v_stride,
               (size_t)t->dv * sizeof(float));
        space->position[keys++] = offset;
    }
    *block = (key_block){.k = space->k,
                         .v = space->v,
                         .k_stride = t->d,
                         .v_stride = t->dv,
                         .position = space->position,
                         .keys = keys};
    return from + offset;
}

/* An edge of the band counted from the block's start. Far ones are pulled in, since floats compare
 * them; no row of a tile can tell. */
static int edge(int64_t at, int64_t from)
{
    const int64_t far = 1 << 22;
    int64_t offset = at - from;
    return (int)(offset < -far ? -far : offset > far ? far : offset);
}

/* Fill `block` with the next visible keys of the span from ordinal `from` on; returns where it
 * stopped. */
static int64_t next_block(const attn_tile *t, const attn_span *span, int64_t from,
                          const workspace *space, key_block *block)
{
    while (from < span->count && !is_visible(t, span, from))
        from++;
    int64_t left = span->count - from, run = t->key_mask ? 0 : left, j = span->begin;
    int64_t whole = left < KEY_BLOCK ? left : KEY_BLOCK;
    while (run < whole && is_visible(t, span, from + run))
        run++;
    int64_t end = from + whole;
    j += from * span->step;
    if (run >= whole)
        *block = (key_block){.k = t->k + j * t->k_stride,
                             .v = t->v + j * t->v_stride,
                             .k_stride = t->k_stride * span->step,
                             .v_stride = t->v_stride * span->step,
                             .keys = (int)whole};
    else
        end = gather_block(t, span, from, left < GATHER_REACH ? left : GATHER_REACH, space, block);
    block->first = edge(span->first, from);
    block->last = edge(span->last, from);
    return end;
}

/* Load rows of `from` into the lanes of a panel's array, 0 where the tile has no such row. */
static void load_lanes(const float *from, ptrdiff_t stride, int rows, int columns, float *to)
{
    if (rows < PANEL)
        memset(to, 0, (size_t)columns * PANEL * sizeof(float));
    transpose(from, stride, rows, columns, to, PANEL);
}

static void multiply_lanes(float *lanes, int columns, const vf factor[3])
{
    for (int i = 0; i < columns; i++, lanes += PANEL)
        for (int c = 0; c < 3; c++)
            vf_store(lanes + c * VF_LANES, vf_mul(vf_load(lanes + c * VF_LANES), factor[c]));
}

static void open_panel(const attn_tile *t, int first, query_panel *panel)
{
    int rows = t->rows - first < PANEL ? t->rows - first : PANEL;
    vf scale = vf_set((float)(t->scale * LOG2_E));
    panel->first = first;
    panel->last = first + rows - 1;
    load_lanes(t->q + first * t->q_stride, t->q_stride, rows, t->d, panel->q);
    multiply_lanes(panel->q, t->d, (const vf[]){scale, scale, scale});
    for (ptrdiff_t i = 0; i < (ptrdiff_t)t->dv * PANEL; i += VF_LANES)
        vf_store(panel->answer + i, vf_set(-0.0F));
    for (int c = 0; c < 3; c++) {
        /* Finite: infinity minus infinity would poison a row whose first block is all hidden. */
        panel->maximum[c] = vf_set(-FLT_MAX);
        panel->sum[c] = panel->seen[c] = vf_set(0);
    }
}

/* Go on from where an earlier tile left these rows. */
static void resume_panel(const attn_tile *t, query_panel *panel)
{
    float lanes[3][PANEL] __attribute__((aligned(ATTN_ALIGN))) = {{0}};
    int rows = panel->last - panel->first + 1;
    for (int r = 0; r < rows; r++) {
        const attn_row_state *state = t->state + (panel->first + r) * t->state_stride;
        lanes[0][r] = state->sum == 0 ? -FLT_MAX : state->maximum;
        lanes[1][r] = state->sum;
        lanes[2][r] = state->sum != 0;
    }
    for (int c = 0; c < 3; c++) {
        panel->maximum[c] = vf_load(lanes[0] + c * VF_LANES);
        panel->sum[c] = vf_load(lanes[1] + c * VF_LANES);
        panel->seen[c] = vf_load(lanes[2] + c * VF_LANES);
    }
    load_lanes(t->out + panel->first * t->out_stride, t->out_stride, rows, t->dv, panel->answer);
    multiply_lanes(panel->answer, t->dv, panel->sum);
}

static void save_state(const attn_tile *t, const query_panel *panel)
{
    float maximum[PANEL] __attribute__((aligned(ATTN_ALIGN)));
    float sum[PANEL] __attribute__((aligned(ATTN_ALIGN)));
    for (int c = 0; c < 3; c++) {
        vf_store(maximum + c * VF_LANES, panel->maximum[c]);
        vf_store(sum + c * VF_LANES, panel->sum[c]);
    }
    for (int r = 0; r <= panel->last - panel->first; r++)
        t->state[(panel->first + r) * t->state_stride] = (attn_row_state){maximum[r], sum[r]};
}

static void close_panel(const attn_tile *t, query_panel *panel)
{
    for (int c = 0; c < 3; c++) {
        vf inverse = vf_div(vf_set(1.0F), panel->sum[c]);
        vmask seen = vf_between(panel->seen[c], vf_set(1.0F), vf_set(1.0F));
        for (int i = 0; i < t->dv; i++) {
            float *at = panel->answer + (ptrdiff_t)i * PANEL + c * VF_LANES;
            vf_store(at, vf_select(seen, vf_mul(vf_load(at), inverse), vf_set(0)));
        }
    }
    transpose(panel->answer, PANEL, t->dv, panel->last - panel->first + 1,
              t->out + panel->first * t->out_stride, t->out_stride);
    if (t->state)
        save_state(t, panel);
}

static bool open_workspace(const attn_tile *t, attn_arena *scratch, workspace *space)
{
    int panels = (t->rows + PANEL - 1) / PANEL;
    size_t d = (size_t)t->d, dv = (size_t)t->dv;
    *space = (workspace){.panels = attn_arena_take(scratch, (size_t)panels * sizeof(query_panel)),
                         .scores = attn_arena_take(scratch, KEY_BLOCK * PANEL * sizeof(float))};
    if (!space->panels || !space->scores)
        return false;
    for (int p = 0; p < panels; p++) {
        space->panels[p].q = attn_arena_take(scratch, d * PANEL * sizeof(float));
        space->panels[p].answer = attn_arena_take(scratch, dv * PANEL * sizeof(float));
        if (!space->panels[p].q || !space->panels[p].answer)
            return false;
    }
    if (!t->key_mask)
        return true;
    space->k = attn_arena_take(scratch, KEY_BLOCK * d * sizeof(float));
    space->v = attn_arena_take(scratch, KEY_BLOCK * dv * sizeof(float));
    space->position = attn_arena_take(scratch, KEY_BLOCK * sizeof(int));
    return space->k && space->v && space->position;
}

static attn_status attend(const attn_tile *t, attn_arena *scratch, uint64_t *scores)
{
    size_t mark = scratch->used;
    workspace space;
    if (!open_workspace(t, scratch, &space))
        return ATTN_NO_MEMORY;
    int panels = (t->rows + PANEL - 1) / PANEL;
    for (int p = 0; p < panels; p++) {
        open_panel(t, p * PANEL, &space.panels[p]);
        if (t->resume)
            resume_panel(t, &space.panels[p]);
    }
    for (int s = 0; s < t->span_count; s++) {
        key_block block;
        for (int64_t from = 0; from < t->spans[s].count;) {
            from = next_block(t, &t->spans[s], from, &space, &block);
            for (int p = 0; p < panels; p++) {
                query_panel *panel = &space.panels[p];
                int keys = absorb_block(&block, t->d, t->dv, panel, space.scores);
                *scores += (uint64_t)keys * (uint64_t)(panel->last - panel->first + 1);
            }
        }
    }
    for (int p = 0; p < panels; p++)
        close_panel(t, &space.panels[p]);
    attn_arena_rewind(scratch, mark);
    return ATTN_OK;
}

static size_t shorten_bytes(int columns)
{
    return attn_arena_round(KEY_BLOCK * PANEL * sizeof(float)) +
           attn_arena_round((size_t)columns * PANEL * sizeof(float));
}

/* answer (columns, PANEL) += x^T p over `keys` rows of x. */
static void add_rows(const attn_shortened *of, int64_t from, int keys, int rows, const float *p,
                     float *answer)
{
    const vf keep[3] = {vf_set(1), vf_set(1), vf_set(1)};
    const lane_run run = {{0, (rows - 1) / VF_LANES + 1}, keys};
    const float *x = of->x + from * of->stride;
    int c = 0;
    for (; c + VF_ROWS <= of->columns; c += VF_ROWS)
        mix_columns(VF_ROWS, x + c, of->stride, &run, 1, p, keep, answer + (ptrdiff_t)c * PANEL);
    for (; c < of->columns; c++)
        mix_columns(1, x + c, of->stride, &run, 1, p, keep, answer + (ptrdiff_t)c * PANEL);
}

/* A panel of rows of e takes the place of p in attention's second half. */
static void shorten_panel(const attn_shortening *s, int first, float *p, float *answer)
{
    int rows = s->rows - first < PANEL ? s->rows - first : PANEL;
    float *at = answer;
    for (int i = 0; i < s->of_count; at += s->of[i++].columns * PANEL)
        load_lanes(s->of[i].out + (ptrdiff_t)first * s->of[i].columns, s->of[i].columns, rows,
                   s->of[i].columns, at);
    for (int64_t from = 0; from < s->count; from += KEY_BLOCK) {
        int keys = s->count - from < KEY_BLOCK ? (int)(s->count - from) : KEY_BLOCK;
        load_lanes(s->e + first * s->stride + from, s->stride, rows, keys, p);
        at = answer;
        for (int i = 0; i < s->of_count; at += s->of[i++].columns * PANEL)
            add_rows(&s->of[i], from, keys, rows, p, at);
    }
    at = answer;
    for (int i = 0; i < s->of_count; at += s->of[i++].columns * PANEL)
        transpose(at, PANEL, s->of[i].columns, rows,
                  s->of[i].out + (ptrdiff_t)first * s->of[i].columns, s->of[i].columns);
}

static attn_status shorten(const attn_shortening *s, attn_arena *scratch)
{
    size_t mark = scratch->used, columns = 0;
    for (int i = 0; i < s->of_count; i++)
        columns += (size_t)s->of[i].columns;
    float *p = attn_arena_take(scratch, KEY_BLOCK * PANEL * sizeof(float));
    float *answer = attn_arena_take(scratch, columns * PANEL * sizeof(float));
    if (!p || !answer)
        return ATTN_NO_MEMORY;
    for (int first = 0; first < s->rows; first += PANEL)
        shorten_panel(s, first, p, answer);
    attn_arena_rewind(scratch, mark);
    return ATTN_OK;
}

#endif
