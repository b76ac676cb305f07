/* One random tile for an attention kernel, in buffers that show where it strays: strides are wider
 * than the columns and filled up with NaN, keys that no row may see are NaN, the answer is framed
 * by guards, and every input ends where its allocation ends. */
#ifndef TESTS_TILE_H
#define TESTS_TILE_H

#include "kernels/kernels.h"
#include "tests/support/random.h"

typedef enum tile_band {
    TILE_FULL,
    TILE_CAUSAL,  /* aligned bottom-right */
    TILE_WINDOW,  /* both edges */
    TILE_LATE,    /* rows of one panel whose first visible key lies in different blocks of keys */
    TILE_PIECES,  /* three spans with gaps and edges of their own */
    TILE_STRIDED, /* every third key, half of them behind an edge */
    TILE_BANDS    /* how many there are */
} tile_band;

typedef enum tile_mask {
    TILE_UNMASKED,
    TILE_VISIBLE,   /* a mask that hides nothing */
    TILE_ALTERNATE, /* every other key */
    TILE_RUNS,      /* long runs, each hidden or visible */
    TILE_SPARSE,    /* about one key in 40 */
    TILE_HIDDEN,    /* a mask that hides everything */
    TILE_HOLE,      /* a few keys at either end */
    TILE_MASKS      /* how many there are */
} tile_mask;

typedef struct tile_spec {
    int rows, keys, d, dv;
    tile_band band;
    tile_mask mask;
    float gain; /* standard deviation of q and k; v's is 1 */
    uint64_t seed;
} tile_spec;

typedef struct tile_case {
    tile_spec spec;
    attn_tile tile; /* of which the arrays may be changed before a run */
    attn_span spans[3];
    float *q, *k, *v, *out; /* what the tile's lie in */
    uint8_t *key_mask;
} tile_case;

/* Make the tile; tile_close frees it. */
void tile_open(tile_case *c, const tile_spec *spec);
void tile_close(tile_case *c);

/* May row r see key j? Stated anew from the header of kernels.h. */
bool tile_sees(const tile_case *c, int r, int j);

typedef struct tile_result {
    attn_status status;
    uint64_t scores;
    size_t peak_bytes;
    bool strayed; /* wrote a guard: around the answer or behind the workspace */
} tile_result;

/* Run the tile in a workspace of `bytes`, not a byte more; the answer goes to c->tile.out. */
tile_result tile_run(tile_case *c, const attn_kernels *kernels, size_t bytes);

/* The elements of row r of the answer. */
const float *tile_answer(const tile_case *c, int r);

/* A description for messages, in static storage that the next call overwrites. */
const char *tile_describe(const tile_case *c, attn_isa isa);

#endif
