/* The table of kernels an instruction set offers.
 *
 * attention_scalar.c, features_scalar.c, scan_scalar.c and elementwise_scalar.c are the truth:
 * plain loops that define what correct means. An overlay, those names with _<isa>.c, does the same
 * work with that ISA's vectors; the CPU is asked which ones it can run before any is called. A new
 * ISA is one vec_<isa>.h (its vocabulary), those four files, its flags in the Makefile, and a case
 * in kernels.c.
 */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include "attn/arena.h"
#include "attn/dtype.h"
#include "attn/machine.h"
#include "attn/status.h"
#include "kernels/scan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An edge that is not there: far enough to hide nothing, near enough that adding a row cannot
 * overflow. */
#define ATTN_NO_EDGE ((int64_t)1 << 62)

/* `count` keys: begin, begin + step, begin + 2 step, ... Row r of the tile sees those with an
 * ordinal first + r <= t <= last + r, t counting from 0: a band along the diagonal. */
typedef struct attn_span {
    int64_t begin, step, count;
    int64_t first, last;
} attn_span;

/* Where a row's softmax stands, in the kernel table's own units. */
typedef struct attn_row_state {
    float maximum; /* of the scores so far */
    float sum;     /* of the exponentials above it; 0: the row has seen no key */
} attn_row_state;

/* One tile of fused attention: `rows` queries of one head against the keys they may see. Spans must
 * not share keys. */
typedef struct attn_tile {
    const float *q, *k, *v; /* (rows, d), (m, d), (m, dv), rows `*_stride` floats apart */
    float *out;             /* (rows, dv) */
    ptrdiff_t q_stride, k_stride, v_stride, out_stride;
    int rows, d, dv;
    float scale;
    const attn_span *spans;
    int span_count;
    const uint8_t *key_mask; /* (m), 0 hides a key; NULL: none hidden */
    /* For a softmax whose keys no one tile has all of: (rows), `state_stride` apart, or NULL. Left
     * behind by a tile; with `resume` the next one goes on from it and from `out`. */
    attn_row_state *state;
    ptrdiff_t state_stride;
    bool resume;
} attn_tile;

/* Rows of a sequence, and the few that they are shortened to. */
typedef struct attn_shortened {
    const float *x; /* (count, columns), rows `stride` floats apart */
    ptrdiff_t stride;
    int columns;
    float *out; /* (rows, columns), dense: grows by e x */
} attn_shortened;

/* Linformer's products with one matrix e. */
typedef struct attn_shortening {
    const float *e; /* (rows, count), rows `stride` floats apart */
    ptrdiff_t stride;
    int rows;
    int64_t count;
    attn_shortened of[2]; /* keys and values, or only one of them */
    int of_count;
} attn_shortening;

enum {
    ATTN_LANES = 16 /* features and columns of running sums, and channels of a scan's state, are
                       padded to a multiple of this */
};

/* Performer's running sums over keys: for every feature the largest exponent so far and, relative
 * to it, the sum of the key features and of their products with the values. A maximum a feature,
 * not one for all, keeps every sum from underflowing: no epsilon is needed anywhere. */
typedef struct attn_feature_sums {
    ptrdiff_t features, columns; /* padded; wide, for their product may pass an int */
    float *maximum;              /* (features) log2; -FLT_MAX before the first key */
    float *mass;                 /* (features) */
    float *values;               /* (features, columns) */
} attn_feature_sums;

/* Arrays of features and columns are ATTN_ALIGN-aligned; padding features of t and u hold
 * -infinity, padding columns 0. */
typedef struct attn_feature_kernels {
    /* t (rows, features) minus shift (rows): log2 of the features of new keys; a shift of infinity
     * hides a key. On return t holds the features relative to the raised maximum; mass follows;
     * keep (features) is what older sums have to be multiplied by. */
    void (*absorb)(attn_feature_sums *sums, float *t, const float *shift, int rows, float *keep);
    /* values *= keep, a feature a row; and the same with one key's phi v added. */
    void (*decay)(attn_feature_sums *sums, const float *keep);
    void (*add_key)(attn_feature_sums *sums, const float *keep, const float *phi, const float *v);
    /* u (rows, features): log2 of the features of queries. On return what to weigh the values with,
     * and in state (rows) the maximum that the weights are relative to and the sum to divide by: 0
     * for a row that has seen no key, else at least 1. */
    void (*weigh)(const attn_feature_sums *sums, float *u, int rows, attn_row_state *state);
    /* out (columns) = the values weighed with w (features). */
    void (*read)(const attn_feature_sums *sums, const float *w, float *out);
} attn_feature_kernels;

/* What is done to each number by itself. An answer does not depend on its place in the array. */
typedef struct attn_elementwise_kernels {
    /* Activation functions of `count` numbers, in place. What is not finite stays so, but that
     * minus infinity may become 0; numbers below float32's normal ones may be taken for 0. */
    void (*gelu)(float *x, ptrdiff_t count); /* x Phi(x) with the true normal distribution */
    void (*silu)(float *x, ptrdiff_t count); /* x / (1 + e^-x) */
    /* As attn_dtype_to_float, of FP16 and BF16. */
    void (*widen)(attn_dtype dtype, const void *from, size_t count, float *to);
} attn_elementwise_kernels;

typedef struct attn_kernels {
    attn_isa isa;
    double tile_flops; /* about a quarter of a millisecond's work: less costs speed, and for more a
                          short call beside a long one waits. A constant, not a measurement: tile
                          shapes decide an answer's last bits */
    int panel_rows;    /* queries that share vector registers; tiles are best a multiple of it */
    int lane_rows;     /* queries that share one: fewer cost as much */
    int key_group;     /* keys that a panel takes in at a time */
    /* Workspace that attend takes from its arena for a tile of these sizes at most; `masked` when
     * it may have a key mask. */
    size_t (*attend_bytes)(int rows, int d, int dv, bool masked);
    /* out = softmax(scale q k^T over the visible keys) v, without ever holding a full row of
     * scores. A row that sees no key becomes 0. *scores grows by the query-key scores computed.
     * Keys outside the spans or hidden by key_mask are never read; a key that only some rows of the
     * tile see is read for all of them and must be finite not to disturb the others. */
    attn_status (*attend)(const attn_tile *tile, attn_arena *scratch, uint64_t *scores);
    /* Both products in one pass over e. Workspace for `columns` of both together. */
    size_t (*shorten_bytes)(int columns);
    attn_status (*shorten)(const attn_shortening *shortening, attn_arena *scratch);
    const attn_feature_kernels *features;
    const attn_scan_kernels *scan;
    const attn_elementwise_kernels *elementwise;
} attn_kernels;

/* The table of an instruction set, or NULL when this CPU (or this build) lacks it. */
const attn_kernels *attn_kernels_find(attn_isa isa);

extern const attn_kernels attn_kernels_scalar;
extern const attn_feature_kernels attn_features_scalar;
extern const attn_scan_kernels attn_scan_scalar;
extern const attn_elementwise_kernels attn_elementwise_scalar;
#ifdef __x86_64__
extern const attn_kernels attn_kernels_avx2;
extern const attn_feature_kernels attn_features_avx2;
extern const attn_scan_kernels attn_scan_avx2;
extern const attn_elementwise_kernels attn_elementwise_avx2;
extern const attn_kernels attn_kernels_avx512;
extern const attn_feature_kernels attn_features_avx512;
extern const attn_scan_kernels attn_scan_avx512;
extern const attn_elementwise_kernels attn_elementwise_avx512;
#endif

#endif
