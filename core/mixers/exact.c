/* Exact softmax attention (Vaswani et al. 2017, section 3.2): a tile is a run of queries of one
 * head against all the keys they may see, in one phase, or where those are very many against a
 * range of them in one phase each. Workspace is a worker's few panels whatever the length, and with
 * ranges 8 bytes a query; the n x m matrix never exists. */
#include "mixers/fused.h"
#include "mixers/mixers.h"

enum {
    MOST_ROWS = 96, /* queries that share each block of keys, while that is in L2 */
};

/* Query-key pairs of one head that lengths and causality leave: what its tiles will cost. */
static double pairs_in_row(const attn_plan *plan, int64_t b)
{
    const attn_shape *s = &plan->shape;
    double keys = (double)attn_valid_keys(plan, b), rows = (double)attn_valid_rows(plan, b);
    if (!plan->params.mask.causal)
        return rows * keys;
    /* Row i sees min(keys, i + 1 + m - n) keys: a ramp cut off at 0 and at `keys`. */
    double pairs = 0, first = (double)(1 + s->m - s->n), last = rows + (double)(s->m - s->n);
    double ramp_from = first > 1 ? first : 1, ramp_to = last < keys ? last : keys;
    if (ramp_to >= ramp_from)
        pairs += (ramp_from + ramp_to) / 2 * (ramp_to - ramp_from + 1);
    double flat_from = ramp_to + 1 > first ? ramp_to + 1 : first;
    if (last >= flat_from && keys > 0)
        pairs += keys * (last - flat_from + 1);
    return pairs;
}

static double visible_pairs(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    if (!plan->params.mask.lengths)
        return pairs_in_row(plan, 0) * (double)s->batch * (double)s->heads;
    double pairs = 0;
    for (int64_t b = 0; b < s->batch; b++)
        pairs += pairs_in_row(plan, b);
    return pairs * (double)s->heads;
}

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
                                 visible_pairs(plan), error);
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
