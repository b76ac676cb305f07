/* What the files of Performer share; performer.c says how they work together.
 *
 * Where a tile would take too long with all features, sums are cut into ranges of them: of one
 * feature's sums nothing depends on another's. Keys are summed and sums combined range by range in
 * tiles of the same phase; queries are answered in one phase a range, a "pass", each adding to what
 * the one before left. */
#ifndef ATTN_PERFORMER_H
#define ATTN_PERFORMER_H

#include "kernels/kernels.h"
#include "mixers/fused.h"

enum {
    ATTN_PERFORMER_BLOCK = 128,        /* rows whose features are computed at a time */
    ATTN_PERFORMER_CAUSAL_CHUNK = 512, /* keys between two saved prefixes */
    ATTN_PERFORMER_MOST_PASSES = 256,
};

/* Features [first, first + count), multiples of ATTN_LANES. */
typedef struct attn_performer_range {
    int64_t first, count;
} attn_performer_range;

/* What is cut into ranges. */
typedef enum attn_performer_cut {
    ATTN_PERFORMER_KEYS,
    ATTN_PERFORMER_COMBINE,
    ATTN_PERFORMER_QUERIES,
} attn_performer_cut;

/* performer_ranges.c: sizes and cuts. */

/* Features and columns of sums: padded to ATTN_LANES. */
size_t attn_performer_features(const attn_plan *plan);
size_t attn_performer_columns(const attn_plan *plan);
int64_t attn_performer_range_count(const attn_plan *plan, attn_performer_cut cut);
attn_performer_range attn_performer_range_at(const attn_plan *plan, attn_performer_cut cut,
                                             int64_t index);

/* A kv head's keys are summed chunk by chunk; it has a slot for the sums of each, and one for those
 * of no key. */
int64_t attn_performer_chunk_length(const attn_plan *plan);
int64_t attn_performer_chunk_count(const attn_plan *plan);
int64_t attn_performer_slot_count(const attn_plan *plan);

/* Queries that a tile has. */
int attn_performer_tile_rows(const attn_plan *plan);

/* performer_cost.c: predicted time of all tiles of a phase; for queries, of a pass over `features`
 * of them. */
double attn_performer_keys_ns(const attn_plan *plan, const attn_rates *rates);
double attn_performer_combine_ns(const attn_plan *plan, const attn_rates *rates);
double attn_performer_queries_ns(const attn_plan *plan, const attn_rates *rates, int64_t features);

/* performer_layout.c: where numbers lie. */

bool attn_performer_draws(const attn_plan *plan);
size_t attn_performer_shared_bytes(const attn_plan *plan);
/* (features, d) directions: drawn ones; those in use, drawn or given. */
float *attn_performer_drawn(const attn_mix_io *io);
const float *attn_performer_omega(const attn_plan *plan, const attn_mix_io *io);
/* Workspace to draw them in, before there are sums. */
void *attn_performer_drawing(const attn_plan *plan, const attn_mix_io *io);
/* Sums in a slot of a kv head of the batch, a range of them. */
attn_feature_sums attn_performer_slot(const attn_plan *plan, const attn_mix_io *io, int64_t head,
                                      int64_t index, attn_performer_range range);
/* Where the rows of a run stand between two passes; NULL when there is only one. */
attn_row_state *attn_performer_state(const attn_plan *plan, const attn_mix_io *io,
                                     const attn_run *run);

/* Workspace of a tile, for the widest range. */
typedef struct attn_performer_workspace {
    float *own;            /* memory for a causal tile's own sums */
    float *keys, *queries; /* (ATTN_PERFORMER_BLOCK, range) */
    float *keep;           /* (range) */
    float *row;            /* (columns), padding columns 0 */
    float *shift;          /* (ATTN_PERFORMER_BLOCK) */
    attn_row_state *state; /* (ATTN_PERFORMER_BLOCK) */
} attn_performer_workspace;

size_t attn_performer_workspace_bytes(const attn_plan *plan);
bool attn_performer_workspace_open(const attn_plan *plan, attn_arena *scratch,
                                   attn_performer_workspace *w);
attn_feature_sums attn_performer_own_sums(const attn_plan *plan, const attn_performer_workspace *w,
                                          attn_performer_range range);

/* performer_project.c: exponents of features. */

/* w->queries becomes (run->rows, range): omega x' of the run's queries in units of log2. |x'|^2,
 * which cancels, is left out; padding features are -infinity. */
void attn_performer_project_queries(const attn_plan *plan, const attn_mix_io *io,
                                    const attn_run *run, attn_performer_range range,
                                    attn_performer_workspace *w);
/* w->keys becomes the same of keys [from, from + count) of kv head g of batch row b, and w->shift
 * what to take off each key's: |x'|^2 / 2, or infinity for a hidden one. */
void attn_performer_project_keys(const attn_plan *plan, const attn_mix_io *io, int64_t b, int64_t g,
                                 int64_t from, int count, attn_performer_range range,
                                 attn_performer_workspace *w);

/* performer_sums.c: a tile that sums a range of a chunk; a tile after which slot c holds, in a
 * range, the sums of all chunks before c, and the last slot those of all. */
void attn_performer_run_keys(const attn_plan *plan, const attn_mix_io *io, int64_t tile,
                             attn_performer_workspace *w);
void attn_performer_run_combine(const attn_plan *plan, const attn_mix_io *io, int64_t tile);

/* performer_queries.c, performer_causal.c: a tile of a pass. */
void attn_performer_run_queries(const attn_plan *plan, const attn_mix_io *io, int64_t pass,
                                int64_t tile, attn_performer_workspace *w);
void attn_performer_run_causal(const attn_plan *plan, const attn_mix_io *io, int64_t pass,
                               int64_t tile, attn_performer_workspace *w);

/* A row goes on with `part`, its weights' maximum and sum in one more range: its answer so far and
 * the new weights become relative to the larger maximum. */
void attn_performer_row_resume(attn_row_state *row, attn_row_state part, float *out,
                               int64_t columns, float *weights, ptrdiff_t features);
/* The answer of a row after its last pass; 0 when it has seen no key. */
void attn_performer_row_finish(float sum, int64_t columns, float *out);

#endif
