/* What every plan can be asked. */
#include "attn/plan.h"

#include <math.h>

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
