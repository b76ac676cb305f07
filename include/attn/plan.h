/* Phases and tiles: everything about a piece of work that is decided before the first number is
 * touched.
 *
 * A plan is an ordered list of phases. A phase is a number of tiles that may run in any order on
 * any worker; a barrier stands between phases. Tile shapes are fixed by the plan, never by the
 * number of workers, so an answer's bits do not depend on how many there are. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "attn/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sizes of one attention call; attn/mixer.h says what each array looks like. All are >= 1. */
typedef struct attn_shape {
    int64_t batch, heads, kv_heads;
    int64_t n, m;  /* queries, keys */
    int64_t d, dv; /* columns of q and k; columns of v and of the answer */
} attn_shape;

/* Which keys a query may see. The arrays are borrowed. */
typedef struct attn_mask {
    bool causal;            /* key j is visible to query i when j <= i + (m - n) */
    const int64_t *lengths; /* (batch) valid keys of each row, 0..m; NULL: all. When n == m, queries
                               at or beyond the length are padding too and answer 0 */
    const uint8_t *key_mask; /* (batch, m), 0 hides a key; NULL: none hidden */
} attn_mask;

/* Which keys a Sparse Transformer head attends to; core/mixers/sparse.c has the formulas. */
typedef enum attn_pattern {
    ATTN_STRIDED,
    ATTN_FIXED,
    ATTN_LOCAL,
} attn_pattern;

extern const char *const attn_pattern_names[]; /* in that order; NULL-terminated, as those below */

/* How Linformer shortens keys and values. */
typedef enum attn_projection {
    ATTN_MEAN,     /* means of k segments */
    ATTN_GAUSSIAN, /* entries N(0, 1/k) from the seed, E = F */
    ATTN_GIVEN,    /* learned matrices */
} attn_projection;

extern const char *const attn_projection_names[]; /* but ATTN_GIVEN, which has no word */

/* Lengths of Performer's orthogonal directions. */
typedef enum attn_norm {
    ATTN_NORM_CHI,  /* as long as Gaussian ones would be: unbiased */
    ATTN_NORM_SQRT, /* all sqrt(d) */
} attn_norm;

extern const char *const attn_norm_names[];

/* What a mixer may be told. attn_mix_params_init fills in the defaults; a mixer reads what it uses
 * and leaves the rest. */
typedef struct attn_mix_params {
    float scale; /* multiplies q.k; 1 / sqrt(d) unless the client gave one */
    attn_mask mask;
    int64_t window; /* window: keys a side, or with a causal mask keys including self */
    attn_pattern pattern;
    int64_t stride;  /* sparse: l; 0: ceil(sqrt(m)) */
    int64_t summary; /* sparse, fixed: the last c positions of each block */
    attn_projection projection;
    int64_t k;          /* linformer: projected length */
    const float *e, *f; /* linformer, ATTN_GIVEN: (projection_heads, k, projection_length) each */
    int64_t projection_heads; /* 1: shared, or kv_heads */
    int64_t projection_length;
    int64_t features;   /* performer */
    bool orthogonal;    /* performer: directions orthogonal in blocks of d, else independent */
    attn_norm norm;     /* performer: length of orthogonal directions */
    const float *omega; /* performer: (features, d) directions; NULL: drawn from the seed */
    uint64_t seed;      /* of whatever is drawn */
} attn_mix_params;

typedef struct attn_phase {
    const char *name;
    int64_t tiles;
    double tile_ns; /* predicted time of an average tile on one core */
} attn_phase;

/* Keys cut into `count` ranges of `keys` each, the last one of what is left. */
typedef struct attn_ranges {
    int64_t keys;
    int count;
} attn_ranges;

enum {
    ATTN_MAX_PHASES = 280 /* performer answers queries in as many as 256; others take in keys so */
};

struct attn_mixer;
struct attn_kernels;

typedef struct attn_plan {
    const struct attn_mixer *mixer;
    const struct attn_kernels *kernels;
    attn_shape shape;
    attn_mix_params params;
    int phase_count;
    attn_phase phases[ATTN_MAX_PHASES];
    double tile_flops;    /* work that a tile should have */
    int tile_rows;        /* queries in a tile of the main phase */
    attn_ranges ranges;   /* of the keys: the main phases take in one each */
    size_t shared_bytes;  /* workspace that all tiles share */
    bool keeps_states;    /* part of it are states of softmaxes that go on from phase to phase, */
    size_t states_at;     /* from this byte on */
    size_t scratch_bytes; /* workspace each worker needs of its own */
    char warning[160];    /* for the client; "" for none */
} attn_plan;

/* 1 / sqrt(d). */
float attn_default_scale(int64_t d);

/* Defaults for queries of `d` columns, nothing masked. */
void attn_mix_params_init(attn_mix_params *params, int64_t d);

/* Put a phase behind those there are. ATTN_INTERNAL when there is no room for it: a mixer knows
 * beforehand how many it may need. */
attn_status attn_plan_append(attn_plan *plan, attn_phase phase, attn_error *error);

/* Sum over phases of tiles * tile_ns: one core's time for the whole plan. */
double attn_plan_ns(const attn_plan *plan);

/* Bound on the workspace when `workers` run the plan at once. */
size_t attn_plan_bytes(const attn_plan *plan, int workers);

#endif
