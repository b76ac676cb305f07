/* Local window attention (Longformer: Beltagy et al. 2020, section 3.1, without dilation or global
 * tokens). A query at position p = i + m - n sees window keys a side, or under a causal mask the
 * last `window` keys up to itself: O(n w d), because only the band's key blocks are visited. */
#include "mixers/fused.h"
#include "mixers/mixers.h"

enum {
    MOST_ROWS = 192, /* tall tiles: a band's two edges are computed in whole blocks for each tile */
};

static int64_t left_of(const attn_plan *plan)
{
    return plan->params.window - (plan->params.mask.causal ? 1 : 0);
}

static int64_t right_of(const attn_plan *plan)
{
    return plan->params.mask.causal ? 0 : plan->params.window;
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    attn_status status = attn_fused_open(&attn_mixer_window, machine, params, shape, plan, error);
    if (status != ATTN_OK)
        return status;
    if (params->window < 1)
        return attn_error_set(error, ATTN_INVALID, "params.window",
                              "params.window is %lld, expected at least 1",
                              (long long)params->window);
    int64_t width = left_of(plan) + right_of(plan) + 1;
    return attn_fused_row_phases(plan, machine, "attend", width < shape->m ? width : shape->m,
                                 right_of(plan), MOST_ROWS,
                                 attn_band_pairs(plan, left_of(plan), right_of(plan)), 2, error);
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    return attn_fused_run_band(plan, io, phase, tile, left_of(plan), right_of(plan), scratch);
}

const attn_mixer attn_mixer_window = {
    .name = "window",
    .summary = "the nearest keys only: params.window a side, or with causal the last so many",
    .traits = ATTN_CAUSAL,
    .plan = plan,
    .run = run,
};
