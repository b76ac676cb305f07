/* What the mixers that run the fused attention tile share: exact, window, sparse and linformer
 * differ only in which keys a run of queries may see. */
#ifndef ATTN_FUSED_H
#define ATTN_FUSED_H

#include "attn/mixer.h"
#include "kernels/kernels.h"

/* A run of queries of one head: rows first, first + step, ... of batch row b. */
typedef struct attn_run {
    int64_t b, h, first, step;
    int rows;
} attn_run;

/* What a run attends to, when not simply the call's k and v under its key mask. */
typedef struct attn_fused_job {
    attn_run run;
    const attn_view *k, *v; /* instead of the call's, and without its key mask; NULL: the call's */
    const attn_span *spans;
    int span_count;
    attn_row_state *state; /* of the run's first row; see attn_tile. NULL: the softmax is whole */
    bool resume;
    uint64_t *scores; /* grows; NULL when nobody counts */
} attn_fused_job;

/* Start a plan: kernels, shape and params. ATTN_INTERNAL when the machine's ISA has no kernels. */
attn_status attn_fused_open(const attn_mixer *mixer, const attn_machine *machine,
                            const attn_mix_params *params, const attn_shape *shape, attn_plan *plan,
                            attn_error *error);

/* Queries for a tile in which each has `keys` keys: about a millisecond's worth, in whole panels,
 * at most `most`. */
int attn_fused_rows(const attn_plan *plan, int64_t keys, int64_t most);

/* Predicted time of one query-key pair: its score and its share of the answer. */
double attn_fused_pair_ns(const attn_plan *plan, const attn_machine *machine);

/* Scratch bytes a tile of `rows` queries takes. */
size_t attn_fused_bytes(const attn_plan *plan, int rows);

/* Append a phase of `tiles` tiles with `pairs` query-key pairs in all. */
attn_status attn_fused_phase(attn_plan *plan, const attn_machine *machine, const char *name,
                             int64_t runs, int64_t tiles_a_run, double pairs, attn_error *error);

/* Valid keys of a batch row; and its queries that are not padding. */
int64_t attn_valid_keys(const attn_plan *plan, int64_t b);
int64_t attn_valid_rows(const attn_plan *plan, int64_t b);

/* Tile `tile` of a phase that cuts each head's rows into runs of plan->tile_rows. The last rows
 * come first: under a causal mask they are the longest. */
attn_run attn_fused_place(const attn_plan *plan, int64_t tile);

/* The answers of rows [from, run->rows) of a run become 0. */
void attn_fused_clear(const attn_plan *plan, const attn_mix_io *io, const attn_run *run, int from);

/* Rows of a run that are not padding; the answers of the others become 0. */
int attn_fused_clear_padding(const attn_plan *plan, const attn_mix_io *io, const attn_run *run);

/* Write the answers of a run, 0 for padding. */
attn_status attn_fused_run(const attn_plan *plan, const attn_mix_io *io, const attn_fused_job *job,
                           attn_arena *scratch);

/* The span of a band: row i of the call sees keys p - left .. p + right, p = i + m - n. */
attn_span attn_band(const attn_plan *plan, const attn_run *run, int64_t left, int64_t right);

#endif
