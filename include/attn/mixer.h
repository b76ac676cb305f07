/* The seam that every attention variant fits: plan, then run the plan's tiles.
 *
 * Arrays, all float32 and row-major, with the names of the Transformer literature:
 *   q   (batch, heads, n, d)        queries
 *   k   (batch, kv_heads, m, d)     keys;   query head h reads kv head h / (heads / kv_heads)
 *   v   (batch, kv_heads, m, dv)    values
 *   out (batch, heads, n, dv)       the answer
 * A variant is a file under core/mixers that ends in one `const attn_mixer`, more where it holds
 * several ideas, and one line in mixers.def. */
#ifndef ATTN_MIXER_H
#define ATTN_MIXER_H

#include "attn/arena.h"
#include "attn/machine.h"
#include "attn/plan.h"
#include "attn/status.h"
#include "attn/tensor.h"

/* Traits. */
enum {
    ATTN_CAUSAL = 1 << 0,        /* can hide the future */
    ATTN_EXACT = 1 << 1,         /* no approximation beyond float32 rounding */
    ATTN_NEEDS_WEIGHTS = 1 << 2, /* runs only inside a loaded model */
    ATTN_RECURRENT = 1 << 3,     /* carries a constant-size state along the sequence */
};

typedef struct attn_mix_io {
    attn_view q, k, v; /* read */
    attn_view out;     /* written, every row of it; rows that see no key become 0. Where it overlaps
                          q, k or v answers are wrong: a mixer may read them after it wrote */
    void *shared;      /* plan->shared_bytes, ATTN_ALIGN-aligned, the same for every tile */
    uint64_t *scores;  /* NULL, or as many slots as the longest phase has tiles: each tile adds the
                          number of query-key scores it computed to its slot */
} attn_mix_io;

typedef struct attn_mixer {
    const char *name;    /* as configuration, routes and metrics spell it */
    const char *summary; /* one line for --help and the docs */
    unsigned traits;
    /* Decide phases, tiles, bytes and cost. The only call that explains a refusal. The plan borrows
     * what `mask` points to. */
    attn_status (*plan)(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error);
    /* Run one tile. `scratch` lends at least plan->scratch_bytes; the caller rewinds it. Takes no
     * lock, allocates nothing, and touches no memory another tile of the phase writes. */
    attn_status (*run)(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch);
} attn_mixer;

/* Every mixer, in the order of mixers.def; NULL-terminated. */
extern const attn_mixer *const attn_mixers[];

/* The mixer of that name, or NULL. */
const attn_mixer *attn_mixer_find(const char *name);

/* Check that the sizes make sense together, then let the mixer plan. */
attn_status attn_mixer_plan(const attn_mixer *mixer, const attn_machine *machine,
                            const attn_mix_params *params, const attn_shape *shape, attn_plan *plan,
                            attn_error *error);

#endif
