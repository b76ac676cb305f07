/* Performer (Choromanski et al. 2021, FAVOR+): softmax attention's kernel exp(q.k) is the mean over
 * random directions w of phi_w(q) phi_w(k), phi_w(x) = exp(w.x' - |x'|^2 / 2), x' = x sqrt(scale).
 * So
 *
 *   out = sum_w phi_w(q) S_w / sum_w phi_w(q) z_w,   S_w = sum_k phi_w(k) v,   z_w = sum_k phi_w(k)
 *
 * and cost is O(n features (d + dv)). Everything is kept as exponents of 2 relative to a maximum a
 * feature (attn_feature_sums), so nothing over- or underflows and no epsilon distorts the answer;
 * the factors that a query's |q'|^2 and 1 / features would bring cancel.
 *
 * Phases: draw the directions, unless given; sum the keys of each chunk; combine the chunks, into
 * one or, under a causal mask, into prefixes; answer the queries, a range of features a pass. Sums
 * of many features and columns are as good as others: they only make more ranges. */
#include "mixers/performer.h"

#include "mixers/directions.h"
#include "mixers/mixers.h"

_Static_assert(ATTN_DIRECTION_PHASES + 2 + ATTN_PERFORMER_MOST_PASSES <= ATTN_MAX_PHASES,
               "a plan has room for all phases");

static attn_status check(const attn_mix_params *p, const attn_shape *s, attn_error *error)
{
    const double countable = 0x1p58; /* floats */
    double slots = (double)s->m / ATTN_PERFORMER_CAUSAL_CHUNK + ATTN_PERFORMER_BLOCK;
    double floats = (double)p->features * ((double)s->dv + (double)s->d + 64) * slots *
                    (double)s->batch * (double)s->kv_heads;
    if ((double)s->batch * (double)s->heads * (double)s->n > countable)
        return attn_error_set(error, ATTN_INVALID, "batch",
                              "batch, heads and n make more rows than can be counted");
    if (p->features >= 1 && p->features < INT32_MAX / ATTN_PERFORMER_BLOCK && floats < countable)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "params.features",
                          "params.features is %lld, expected at least 1 and sums that can be "
                          "counted",
                          (long long)p->features);
}

static attn_status add_draw_phases(attn_plan *plan, const attn_rates *rates, attn_error *error)
{
    attn_status status = ATTN_OK;
    int count = attn_directions_phases(&plan->params, plan->shape.d);
    for (int i = 0; i < count && status == ATTN_OK; i++)
        status = attn_plan_append(
            plan, attn_directions_phase(&plan->params, plan->shape.d, i, rates), error);
    return status;
}

static attn_status add_sum_phases(attn_plan *plan, const attn_rates *rates, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    int64_t heads = s->batch * s->kv_heads, chunks = attn_performer_chunk_count(plan);
    attn_status status = attn_run_phase(
        plan, "keys", heads, chunks * attn_performer_range_count(plan, ATTN_PERFORMER_KEYS),
        attn_performer_keys_ns(plan, rates), error);
    if (status == ATTN_OK)
        status = attn_run_phase(plan, "combine", heads,
                                attn_performer_range_count(plan, ATTN_PERFORMER_COMBINE),
                                attn_performer_combine_ns(plan, rates), error);
    return status;
}

static attn_status add_query_phases(attn_plan *plan, const attn_rates *rates, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    attn_status status = ATTN_OK;
    int64_t passes = attn_performer_range_count(plan, ATTN_PERFORMER_QUERIES);
    int64_t tiles = plan->params.mask.causal ? attn_performer_chunk_count(plan)
                                             : (s->n + plan->tile_rows - 1) / plan->tile_rows;
    for (int64_t i = 0; i < passes && status == ATTN_OK; i++) {
        attn_performer_range range = attn_performer_range_at(plan, ATTN_PERFORMER_QUERIES, i);
        status = attn_run_phase(plan, "queries", s->batch * s->heads, tiles,
                                attn_performer_queries_ns(plan, rates, range.count), error);
    }
    return status;
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    attn_status status = check(params, shape, error);
    if (status == ATTN_OK)
        status = attn_fused_open(&attn_mixer_performer, machine, params, shape, plan, error);
    if (status != ATTN_OK)
        return status;
    plan->tile_rows = attn_performer_tile_rows(plan);
    plan->shared_bytes = attn_performer_shared_bytes(plan);
    plan->scratch_bytes = attn_performer_workspace_bytes(plan);
    if (attn_performer_draws(plan))
        status = add_draw_phases(plan, &machine->rates, error);
    if (status == ATTN_OK)
        status = add_sum_phases(plan, &machine->rates, error);
    if (status == ATTN_OK)
        status = add_query_phases(plan, &machine->rates, error);
    return status;
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    const attn_mix_params *p = &plan->params;
    attn_performer_workspace w;
    int drawing = attn_performer_draws(plan) ? attn_directions_phases(p, plan->shape.d) : 0;
    if (phase < drawing) {
        attn_directions_run(p, plan->shape.d, phase, tile, attn_performer_drawing(plan, io),
                            attn_performer_drawn(io));
        return ATTN_OK;
    }
    phase -= drawing;
    if (phase == 1) {
        attn_performer_run_combine(plan, io, tile);
        return ATTN_OK;
    }
    if (!attn_performer_workspace_open(plan, scratch, &w))
        return ATTN_NO_MEMORY;
    if (phase == 0)
        attn_performer_run_keys(plan, io, tile, &w);
    else if (p->mask.causal)
        attn_performer_run_causal(plan, io, phase - 2, tile, &w);
    else
        attn_performer_run_queries(plan, io, phase - 2, tile, &w);
    return ATTN_OK;
}

const attn_mixer attn_mixer_performer = {
    .name = "performer",
    .summary = "FAVOR+: the softmax kernel estimated with params.features random directions",
    .traits = ATTN_CAUSAL,
    .plan = plan,
    .run = run,
};
