/* Mamba's convolution and scan, written once for every vector ISA. An overlay includes its
 * vec_<isa>.h and then this file. Lanes are channels, which never meet, so nothing is ever summed
 * across lanes.
 *
 * The scan goes by chunks of positions. What needs no state is done for the whole chunk first: the
 * softplus, the input's share of the state and of the answer. Then a few states at a time walk
 * through the chunk in registers, and the gate comes last. */
#ifndef ATTN_SCAN_TILE_H
#define ATTN_SCAN_TILE_H

#include "kernels/kernels.h"
#include "kernels/vec_math.h"

enum {
    CHUNK = 32,     /* positions */
    TOGETHER = 4,   /* states that walk through a chunk in registers */
    USUAL_WIDTH = 4 /* of a convolution, and compiled as a constant */
};

/* The first `lanes` of a vector of floats; those behind become 0. */
VF_INLINE vf load_part(const float *from, int lanes)
{
    return lanes == VF_LANES ? vf_load_unaligned(from) : vf_load_masked(from, vf_first(lanes));
}

VF_INLINE void store_part(float *to, vf x, int lanes)
{
    if (lanes == VF_LANES)
        vf_store_unaligned(to, x);
    else
        vf_store_masked(to, x, vf_first(lanes));
}

/* Lanes of the vector that begins at channel c. */
static int lanes_of(ptrdiff_t c, ptrdiff_t last)
{
    return last - c < VF_LANES ? (int)(last - c) : VF_LANES;
}

/* Positions of the chunk that begins at t. */
static ptrdiff_t chunk_count(ptrdiff_t count, ptrdiff_t t)
{
    return count - t < CHUNK ? count - t : CHUNK;
}

/* All positions of a vector of channels. The window's newest input is the last. */
VF_INLINE void convolve_lanes(const attn_conv *v, ptrdiff_t c, ptrdiff_t last, int width)
{
    const int lanes = lanes_of(c, last);
    const ptrdiff_t next = c + ATTN_LANES < last ? c + ATTN_LANES : c;
    vf taps[ATTN_CONV_MOST_WIDTH], window[ATTN_CONV_MOST_WIDTH];
    const vf bias = v->bias ? load_part(v->bias + c, lanes) : vf_set(0);
    for (int i = 0; i < width; i++)
        taps[i] = load_part(v->taps + i * v->channels + c, lanes);
    for (int i = 0; i < width - 1; i++)
        window[i] = load_part(v->history + i * v->channels + c, lanes);
    for (ptrdiff_t t = 0; t < v->count; t++) {
        const bool hidden = v->mask && !v->mask[t];
        vf sum = bias;
        window[width - 1] = hidden ? vf_set(0) : load_part(v->x + t * v->x_stride + c, lanes);
        __builtin_prefetch(v->x + t * v->x_stride + next);
        for (int i = 0; i < width; i++)
            sum = vf_fma(taps[i], window[i], sum);
        store_part(v->out + t * v->out_stride + c, hidden ? vf_set(0) : vf_silu(sum), lanes);
        for (int i = 0; i < width - 1; i++)
            window[i] = window[i + 1];
    }
    for (int i = 0; i < width - 1; i++)
        store_part(v->history + i * v->channels + c, window[i], lanes);
}

/* The chunk of positions that begins at t. */
static attn_conv conv_chunk(const attn_conv *v, ptrdiff_t t)
{
    attn_conv part = *v;
    part.count = chunk_count(v->count, t);
    part.x += t * v->x_stride;
    part.out += t * v->out_stride;
    part.mask = v->mask ? v->mask + t : NULL;
    return part;
}

/* Not to be inlined: its arithmetic has to stay between the two changes of mode. */
static __attribute__((noinline)) void convolve_range(const attn_conv *v, ptrdiff_t first,
                                                     ptrdiff_t last)
{
    for (ptrdiff_t t = 0; t < v->count; t += CHUNK) {
        const attn_conv part = conv_chunk(v, t);
        for (ptrdiff_t c = first; c < last; c += VF_LANES)
            if (v->width == USUAL_WIDTH)
                convolve_lanes(&part, c, last, USUAL_WIDTH);
            else
                convolve_lanes(&part, c, last, v->width);
    }
}

static void convolve(const attn_conv *v, ptrdiff_t first, ptrdiff_t last)
{
    const unsigned mode = vf_flush_denormals();
    convolve_range(v, first, last);
    vf_restore_mode(mode);
}

/* One position of a vector of channels. */
typedef struct pace {
    float d[VF_LANES] __attribute__((aligned(VF_LANES * sizeof(float)))); /* D_t */
    float added[VF_LANES]; /* what the state grows by, before B */
    float y[VF_LANES];     /* the answer before the gate */
} pace;

static void open_walk(const attn_scan *s, ptrdiff_t c, int lanes, pace *w)
{
    const vf bias = s->dt_bias ? load_part(s->dt_bias + c, lanes) : vf_set(0);
    const vf skip = s->skip ? load_part(s->skip + c, lanes) : vf_set(0);
    for (ptrdiff_t t = 0; t < s->count; t++) {
        vf x = load_part(s->x + t * s->x_stride + c, lanes);
        vf d = vf_softplus(vf_add(load_part(s->dt + t * s->dt_stride + c, lanes), bias));
        vf_store(w[t].d, d);
        vf_store(w[t].added, s->euler ? vf_mul(d, x) : x);
        vf_store(w[t].y, vf_mul(skip, x));
    }
}

/* What the next vector of channels will read, fetched while this one computes: its rows lie pages
 * apart, where no prefetcher of the CPU sees them coming. */
typedef struct ahead {
    const float *of;
    ptrdiff_t stride;
} ahead;

/* `states` states from the n-th on through the chunk. */
VF_INLINE void advance(const attn_scan *s, ptrdiff_t lane, int n, int states, const ahead *next,
                       pace *w)
{
    vf decay[TOGETHER], state[TOGETHER];
    const float *a = s->a + lane + n * ATTN_LANES;
    float *h = s->h + lane + n * ATTN_LANES;
    for (int i = 0; i < states; i++) {
        decay[i] = vf_load(a + i * ATTN_LANES);
        state[i] = vf_load(h + i * ATTN_LANES);
    }
    for (ptrdiff_t t = 0; t < s->count; t++) {
        const float *b = s->b + t * s->b_stride + n;
        const float *c = s->c + t * s->c_stride + n;
        vf d = vf_load(w[t].d), added = vf_load(w[t].added), y = vf_load(w[t].y);
        __builtin_prefetch(next->of + t * next->stride);
        for (int i = 0; i < states; i++) {
            vf kept = vf_exp2(vf_mul(d, decay[i]));
            state[i] = vf_fma(kept, state[i], vf_mul(added, vf_set(b[i])));
            y = vf_fma(state[i], vf_set(c[i]), y);
        }
        vf_store(w[t].y, y);
    }
    for (int i = 0; i < states; i++)
        vf_store(h + i * ATTN_LANES, state[i]);
}

/* All states; `next` is where the next vector of channels begins. */
static void advance_all(const attn_scan *s, ptrdiff_t lane, ptrdiff_t next, pace *w)
{
    const ahead arrays[] = {{s->x + next, s->x_stride},
                            {s->dt + next, s->dt_stride},
                            {s->y + next, s->y_stride},
                            {(s->z ? s->z : s->x) + next, s->z ? s->z_stride : s->x_stride}};
    const int count = sizeof arrays / sizeof *arrays;
    int n = 0;
    for (; n + TOGETHER <= s->states; n += TOGETHER)
        advance(s, lane, n, TOGETHER, &arrays[n / TOGETHER % count], w);
    for (; n < s->states; n++)
        advance(s, lane, n, 1, &arrays[n % count], w);
}

static void close_walk(const attn_scan *s, ptrdiff_t c, int lanes, const pace *w)
{
    for (ptrdiff_t t = 0; t < s->count; t++) {
        vf y = vf_load(w[t].y);
        if (s->z)
            y = vf_mul(y, vf_silu(load_part(s->z + t * s->z_stride + c, lanes)));
        store_part(s->y + t * s->y_stride + c, y, lanes);
    }
}

static void scan_lanes(const attn_scan *s, ptrdiff_t c, ptrdiff_t last)
{
    pace w[CHUNK];
    const int lanes = lanes_of(c, last);
    const ptrdiff_t lane = c / ATTN_LANES * s->states * ATTN_LANES + c % ATTN_LANES;
    open_walk(s, c, lanes, w);
    advance_all(s, lane, c + ATTN_LANES < last ? c + ATTN_LANES : c, w);
    close_walk(s, c, lanes, w);
}

/* The chunk of positions that begins at t. */
static attn_scan scan_chunk(const attn_scan *s, ptrdiff_t t)
{
    attn_scan part = *s;
    part.count = chunk_count(s->count, t);
    part.x += t * s->x_stride;
    part.dt += t * s->dt_stride;
    part.b += t * s->b_stride;
    part.c += t * s->c_stride;
    part.z = s->z ? s->z + t * s->z_stride : NULL;
    part.y += t * s->y_stride;
    return part;
}

/* Not to be inlined: its arithmetic has to stay between the two changes of mode. */
static __attribute__((noinline)) void scan_range(const attn_scan *s, ptrdiff_t first,
                                                 ptrdiff_t last)
{
    for (ptrdiff_t t = 0; t < s->count; t += CHUNK) {
        const attn_scan part = scan_chunk(s, t);
        for (ptrdiff_t c = first; c < last; c += VF_LANES)
            scan_lanes(&part, c, last);
    }
}

static void scan(const attn_scan *s, ptrdiff_t first, ptrdiff_t last)
{
    const unsigned mode = vf_flush_denormals();
    scan_range(s, first, last);
    vf_restore_mode(mode);
}

/* Independent sums, and an argument that changes, so that nothing waits or is left out. */
static float exponentials(int64_t count)
{
    const vf step = vf_set(0x1p-20F);
    vf sum[TOGETHER], decay[TOGETHER], d = step;
    for (int i = 0; i < TOGETHER; i++) {
        sum[i] = vf_set(0);
        decay[i] = vf_set((float)-(i + 1));
    }
    for (int64_t done = 0; done < count; done += TOGETHER * VF_LANES) {
        for (int i = 0; i < TOGETHER; i++)
            sum[i] = vf_add(sum[i], vf_exp2(vf_mul(d, decay[i])));
        d = vf_add(d, step);
    }
    float lanes[VF_LANES] __attribute__((aligned(ATTN_ALIGN)));
    vf_store(lanes, vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
    return lanes[0];
}

#endif
