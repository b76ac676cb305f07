/* What mixers share. Exact, window, sparse and linformer run the fused attention tile and differ
 * only in which keys a run of queries may see; performer cuts and predicts its work the same way.
 *
 * A tile should have kernels->tile_flops of work, so that short calls need not wait for long ones.
 * Fewer queries a tile keep it so while there are more of them than share registers; beyond that
 * the keys are cut into ranges, a phase each, and a row's softmax goes on from where the phase
 * before left it: its state in shared memory, its answer so far in `out`. */
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

enum {
    ATTN_FUSED_MOST_RANGES = 128, /* a plan has room for two such cuts; then ranges get longer */
};

/* Rows for a tile in which each has `keys` keys: its worth, in whole panels, at most `most`. */
int attn_fused_height(const attn_plan *plan, int64_t keys, int64_t most);

/* The same, but no more than there are queries. */
int attn_fused_rows(const attn_plan *plan, int64_t keys, int64_t most);

/* Cut `keys` keys so that a panel of queries against a range is a tile's worth at most. How long a
 * range is depends on `keys` only if those are fewer, or so many that there would be too many
 * ranges: so padding does not change the last bits of an answer. */
attn_ranges attn_fused_cut(const attn_plan *plan, int64_t keys);

/* Scratch bytes a tile of `rows` queries takes. */
size_t attn_fused_bytes(const attn_plan *plan, int rows);

/* Append a phase of `runs` times `tiles_a_run` tiles that take `ns` in all. ATTN_INVALID when those
 * are more tiles than can be counted. */
attn_status attn_run_phase(attn_plan *plan, const char *name, int64_t runs, int64_t tiles_a_run,
                           double ns, attn_error *error);

/* What the fused tiles of a phase have to do. */
typedef struct attn_fused_work {
    int64_t rows; /* queries of a tile */
    double keys;  /* that a query may see at most */
    double pairs; /* query-key pairs in all */
    double cuts;  /* edges of bands among a query's keys: those are computed in whole lanes and
                     groups. An end of a span counts half: whole groups only */
    bool resumes; /* tiles begin where earlier ones left their rows */
} attn_fused_work;

/* Predicted time of `tiles` such tiles. */
double attn_fused_ns(const attn_plan *plan, const attn_rates *rates, double tiles,
                     const attn_fused_work *work);

/* Choose tile_rows, scratch_bytes and ranges for runs of at most `most` rows, each of which sees
 * `keys` keys, and append the phases: one a range, of tiles that attn_fused_place places. `right`
 * is the right edge of the band that rows see; ATTN_NO_EDGE for none. `pairs` and `cuts` are as
 * above. */
attn_status attn_fused_row_phases(attn_plan *plan, const attn_machine *machine, const char *name,
                                  int64_t keys, int64_t right, int64_t most, double pairs,
                                  double cuts, attn_error *error);

/* Add a state for each row to the shared workspace, unless it is there. ATTN_INVALID when so many
 * cannot be counted. */
attn_status attn_fused_keep_states(attn_plan *plan, attn_error *error);

/* That of the run's first row; NULL when none is kept. */
attn_row_state *attn_fused_state(const attn_plan *plan, const attn_mix_io *io, const attn_run *run);

/* Valid keys of a batch row; and its queries that are not padding. */
int64_t attn_valid_keys(const attn_plan *plan, int64_t b);
int64_t attn_valid_rows(const attn_plan *plan, int64_t b);

/* Of the valid keys, the share that no key mask hides. */
double attn_visible_share(const attn_plan *plan);

/* Query-key pairs of the band that attn_band describes, over all batch rows and heads: exact but
 * for a key mask, which counts as its share. */
double attn_band_pairs(const attn_plan *plan, int64_t left, int64_t right);

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

/* The span of a band: row i of the call sees keys p - left .. p + right, p = i + m - n. A side of
 * ATTN_NO_EDGE has no end. */
attn_span attn_band(const attn_plan *plan, const attn_run *run, int64_t left, int64_t right);

/* Run a job's tile of phase `range` of those that attn_fused_row_phases appended: of the one span
 * of keys that its rows see, take in that range. */
attn_status attn_fused_run_range(const attn_plan *plan, const attn_mix_io *io,
                                 const attn_fused_job *job, attn_span span, int range,
                                 attn_arena *scratch);

/* The same where each row sees a band. Run and span follow from it. */
attn_status attn_fused_run_band(const attn_plan *plan, const attn_mix_io *io, int range,
                                int64_t tile, int64_t left, int64_t right, attn_arena *scratch);

#endif
