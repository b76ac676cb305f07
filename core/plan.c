/* What every plan can be asked. */
#include "attn/plan.h"

#include <math.h>

const char *const attn_pattern_names[] = {"strided", "fixed", "local", NULL};
const char *const attn_projection_names[] = {"mean", "gaussian", NULL};
const char *const attn_norm_names[] = {"chi", "sqrt", NULL};

float attn_default_scale(int64_t d)
{
    return (float)(1.0 / sqrt((double)d));
}

void attn_mix_params_init(attn_mix_params *params, int64_t d)
{
    *params = (attn_mix_params){
        .scale = attn_default_scale(d),
        .window = 256,
        .pattern = ATTN_STRIDED,
        .summary = 1,
        .projection = ATTN_MEAN,
        .k = 256,
        .features = 256,
        .orthogonal = true,
        .norm = ATTN_NORM_CHI,
    };
}

attn_status attn_plan_append(attn_plan *plan, attn_phase phase, attn_error *error)
{
    if (plan->phase_count >= ATTN_MAX_PHASES)
        return attn_error_set(error, ATTN_INTERNAL, NULL,
                              "a plan has room for %d phases, of which %s is one more",
                              ATTN_MAX_PHASES, phase.name);
    plan->phases[plan->phase_count++] = phase;
    return ATTN_OK;
}

double attn_plan_ns(const attn_plan *plan)
{
    double total = 0;
    for (int p = 0; p < plan->phase_count; p++)
        total += (double)plan->phases[p].tiles * plan->phases[p].tile_ns;
    return total;
}

size_t attn_plan_bytes(const attn_plan *plan, int workers)
{
    return plan->shared_bytes + (size_t)workers * plan->scratch_bytes;
}
