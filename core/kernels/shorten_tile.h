/* Linformer's shortening: a panel of rows of e takes the place of p in the second half of
 * attention. An overlay includes its vec_<isa>.h first. */
#ifndef ATTN_SHORTEN_TILE_H
#define ATTN_SHORTEN_TILE_H

#include "kernels/attention_panel.h"

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
