/* Exact softmax attention (Vaswani et al. 2017, section 3.2): a tile is a run of queries of one
 * head against all the keys they may see, in one phase, or where those are very many against a
 * range of them in one phase each. Workspace is a worker's few panels whatever the length, and with
 * ranges 8 bytes a query; the n x m matrix never exists. */
#include "mixers/fused.h"
#include "mixers/mixers.h"

enum {
    MOST_ROWS = 96, /* queries that share each block of keys, while that is in L2 */
};

static int64_t right_of(const attn_plan *plan)
{
    return plan->params.mask.causal ? 0 : ATTN_NO_EDGE;
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    attn_status status = attn_fused_open(&attn_mixer_exact, machine, params, shape, plan, error);
    if (status != ATTN_OK)
        return status;
    return attn_fused_row_phases(plan, machine, "attend", shape->m, right_of(plan), MOST_ROWS,
                                 attn_band_pairs(plan, ATTN_NO_EDGE, right_of(plan)),
                                 params->mask.causal ? 1 : 0.5, error);
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    return attn_fused_run_band(plan, io, phase, tile, ATTN_NO_EDGE, right_of(plan), scratch);
}

const attn_mixer attn_mixer_exact = {
    .name = "exact",
    .summary = "softmax attention, fused: every visible key, never an n x m matrix",
    .traits = ATTN_CAUSAL | ATTN_EXACT,
    .plan = plan,
    .run = run,
};
