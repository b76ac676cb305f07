/* Fused attention over one tile of queries, written once for every vector ISA. An overlay includes
 * its vec_<isa>.h and then this file.
 *
 * The idea of FlashAttention (Dao et al. 2022, algorithm 1): walk the keys in blocks, keep a
 * running maximum and sum for every query, and rescale the answer when the maximum grows; the n x m
 * matrix never exists. The layout is our own choice: queries live in the SIMD lanes, a panel of
 * them at a time (attention_panel.h), so that
 *
 *     scores (key, PANEL)  = K . q      K broadcast from where the client's rows lie
 *     answer (column, PANEL) += V^T . p   V likewise, p being the scores after the exponential
 *
 * are the same small product and K and V are never packed (attention_block.h). Here the keys of a
 * tile are cut into blocks, and its queries into panels.
 *
 * Every row's arithmetic is independent of its neighbours and of the tile's size: over the same
 * spans an answer's bits do not depend on how rows were dealt to tiles. (A band's span begins where
 * its tile does, so there they do, and the plan fixes them.) */
#ifndef ATTN_ATTENTION_TILE_H
#define ATTN_ATTENTION_TILE_H

#include "kernels/attention_block.h"

enum {
    GATHER_REACH = 4096, /* furthest a block looks for visible keys: floats count rows and
                            positions exactly, and much longer blocks would only hide skipping */
};

#define LOG2_E 1.44269504088896341

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

#endif
