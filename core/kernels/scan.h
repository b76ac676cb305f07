/* Kernels of Mamba's mixer between its projections: the causal convolution and the selective scan
 * (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023, section
 * 3.2 and algorithm 2; with D_t B in place of the full zero-order hold, as its checkpoints have
 * it).
 *
 *     x = silu(conv(x) + bias)                                   convolve
 *     D_t = softplus(dt + dt_bias)                               scan, from here on
 *     h = exp(D_t A) h + D_t B x,  y = (C h + D x) silu(z)
 *
 * Channels do not know of each other: a range of them is a tile, and the answer's bits depend on
 * neither the ranges nor the chunks of positions that the work is cut into. A range begins at a
 * multiple of ATTN_LANES and ends at one or behind the last channel. What is carried from chunk to
 * chunk, `history` and `h`, is all that a stream has to keep; both are 0 before the first position.
 *
 * A mask multiplies x before and after the convolution, as the published block has it, and nothing
 * else: a hidden input counts as 0 in window and history, its output is 0. The scan knows no mask.
 * Where a hidden x has come out as 0, a projection without bias makes B and C 0 too, so that the
 * step there only lets the state decay. Hence padding on the left, which meets zeros, leaves zeros
 * and changes no bit of what follows. Padding on the right is for the caller to leave out of
 * `count`: a hidden position moves history and state like any other.
 *
 * Every array is the caller's. Rows of (count, ...) arrays lie `*_stride` floats apart and need no
 * alignment and no padding; nothing is read or written outside the range's columns. */
#ifndef ATTN_KERNELS_SCAN_H
#define ATTN_KERNELS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ATTN_CONV_MOST_WIDTH = 8
};

/* A depthwise causal convolution of width 1 to ATTN_CONV_MOST_WIDTH, and SiLU. */
typedef struct attn_conv {
    ptrdiff_t count, channels;
    const float *x; /* (count, channels) */
    float *out;     /* (count, channels); may be x itself, with its stride */
    ptrdiff_t x_stride, out_stride;
    int width;
    const float *taps;   /* (width, channels), dense: what attn_conv_prepare made */
    const float *bias;   /* (channels), or NULL */
    float *history;      /* (width - 1, channels), dense: the last inputs, oldest first */
    const uint8_t *mask; /* (count), 0 hides a position, whose x is not read; NULL: none hidden */
} attn_conv;

/* A selective scan with `states` numbers a channel, 1 or more. */
typedef struct attn_scan {
    ptrdiff_t count, channels;
    int states;
    bool euler;      /* h grows by D_t B x; else by B x */
    const float *x;  /* (count, channels), convolved */
    const float *dt; /* (count, channels), before bias and softplus */
    const float *b;  /* (count, states) */
    const float *c;  /* (count, states) */
    const float *z;  /* (count, channels): the gate; NULL: none */
    float *y;        /* (count, channels); may be x, dt or z itself, with its stride */
    ptrdiff_t x_stride, dt_stride, b_stride, c_stride, z_stride, y_stride;
    const float *a;       /* what attn_scan_prepare made */
    const float *dt_bias; /* (channels), or NULL */
    const float *skip;    /* (channels): D, or NULL for 0 */
    float *h;             /* attn_scan_floats of them, laid out as `a`; ATTN_ALIGN-aligned */
} attn_scan;

typedef struct attn_scan_kernels {
    /* Channels [first, last). Values of any size; what is not finite stays so. */
    void (*convolve)(const attn_conv *conv, ptrdiff_t first, ptrdiff_t last);
    /* Channels [first, last). However strong the decay, exp(D_t A) is 0 at worst; numbers below
     * float32's normal ones may be taken for 0. */
    void (*scan)(const attn_scan *scan, ptrdiff_t first, ptrdiff_t last);
    /* At least `count` of the exponentials that a scan takes one of for every position, channel and
     * state, and nothing else: the yardstick of its benchmark. Returns their sum. */
    float (*exponentials)(int64_t count);
} attn_scan_kernels;

/* taps (width, channels) from a checkpoint's weight (channels, width). */
void attn_conv_prepare(const float *weight, ptrdiff_t channels, int width, float *taps);

/* Floats of `a`, and of `h`: (channels / ATTN_LANES rounded up, states, ATTN_LANES). */
size_t attn_scan_floats(ptrdiff_t channels, int states);

/* a = -exp(A_log) log2(e) from a checkpoint's A_log (channels, states); 0 for padding channels, and
 * never infinite. `a` is ATTN_ALIGN-aligned. */
void attn_scan_prepare(const float *a_log, ptrdiff_t channels, int states, float *a);

#endif
