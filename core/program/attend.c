/* A raw attention call as a program: the mixer, and when rows are to be sampled, exact attention on
 * those and the comparison. */
#include "program/mix.h"
#include "program/sample.h"

static attn_mix_regions regions_of(const attn_shape *s)
{
    return (attn_mix_regions){
        .q = attn_region_dense(ATTN_ARRAY_Q, s->heads, s->n, s->d),
        .k = attn_region_dense(ATTN_ARRAY_K, s->kv_heads, s->m, s->d),
        .v = attn_region_dense(ATTN_ARRAY_V, s->kv_heads, s->m, s->dv),
        .out = attn_region_dense(ATTN_ARRAY_OUT, s->heads, s->n, s->dv),
    };
}

static attn_status add_sampling(attn_program *program, const attn_machine *machine,
                                const attn_plan *plan, const attn_mix_regions *regions,
                                const attn_sampling *sampling, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    attn_samples samples;
    attn_region exact;
    attn_samples_choose(&samples, sampling, s, &plan->params.mask);
    if (samples.count == 0)
        return ATTN_OK;
    attn_status status =
        attn_program_take_rows(program, 1, samples.count, s->heads * s->dv, &exact, error);
    exact = attn_region_with_heads(exact, s->dv);
    if (status == ATTN_OK)
        status =
            attn_sample_add(program, machine, &plan->params, s, &samples, regions, exact, error);
    if (status == ATTN_OK)
        status = attn_compare_add(program, &machine->rates, &samples, s->heads, s->dv, exact,
                                  regions->out, error);
    return status;
}

attn_status attn_program_attend(attn_program **program, const attn_machine *machine,
                                const attn_mixer *mixer, const attn_mix_params *params,
                                const attn_shape *shape, const attn_sampling *sampling,
                                attn_error *error)
{
    attn_plan plan;
    attn_mix_regions regions = regions_of(shape);
    *program = NULL;
    attn_status status = attn_mixer_plan(mixer, machine, params, shape, &plan, error);
    if (status != ATTN_OK)
        return status;
    attn_program *made = attn_program_open();
    if (!made)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a program");
    status = attn_mix_add(made, &plan, &regions, error);
    if (status == ATTN_OK && sampling && sampling->rows > 0)
        status = add_sampling(made, machine, &plan, &regions, sampling, error);
    if (status == ATTN_OK)
        *program = made;
    else
        attn_program_close(made);
    return status;
}
