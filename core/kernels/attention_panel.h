/* A panel: 3 vectors of rows (24 on AVX2, 48 on AVX-512) held transposed, so that a row lives in
 * one lane. Here is how rows get into a panel and out of it, and the one small product that
 * attention and Linformer's shortening are made of: broadcast values from where the client's rows
 * lie against panel rows. An overlay includes its vec_<isa>.h first. */
#ifndef ATTN_ATTENTION_PANEL_H
#define ATTN_ATTENTION_PANEL_H

#include "kernels/kernels.h"

#include <string.h>

enum {
    PANEL = 3 * VF_LANES,
    KEY_BLOCK = 192, /* keys whose scores are held at once: K, V and p stay in L2, p in L1 */
};

/* The compiler would rather fold a panel load into each multiply-add that uses it, which makes the
 * product wait for loads (16 for 12 multiply-adds instead of 7). This costs nothing but forbids it:
 * the value must sit in a register here. */
#define VF_PIN(x) __asm__("" : "+v"(x))

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

/* The ranges there are: DO(low, high) makes a constant of each. */
#define EACH_LANE_RANGE(DO) DO(0, 1) DO(0, 2) DO(0, 3) DO(1, 2) DO(1, 3) DO(2, 3)

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

/* Load rows of `from` into the lanes of a panel's array, 0 where the tile has no such row. */
static void load_lanes(const float *from, ptrdiff_t stride, int rows, int columns, float *to)
{
    if (rows < PANEL)
        memset(to, 0, (size_t)columns * PANEL * sizeof(float));
    transpose(from, stride, rows, columns, to, PANEL);
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

#endif
