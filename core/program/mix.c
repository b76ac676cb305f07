/* A mixer's plan as a step of a program. */
#include "program/mix.h"

typedef struct mix {
    attn_step step;
    attn_plan plan;
    attn_mix_regions regions;
    size_t shared; /* offset in floats */
} mix;

static const mix *of_step(const attn_step *step)
{
    return (const mix *)(const void *)step;
}

static attn_phase phase_of(const attn_step *step, int phase)
{
    return of_step(step)->plan.phases[phase];
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const mix *m = of_step(step);
    const attn_mix_io io = {
        .q = attn_region_view(m->regions.q, tile->frame),
        .k = attn_region_view(m->regions.k, tile->frame),
        .v = attn_region_view(m->regions.v, tile->frame),
        .out = attn_region_view(m->regions.out, tile->frame),
        .shared = m->plan.shared_bytes ? tile->frame->data[ATTN_ARRAY_SHARED] + m->shared : NULL,
    };
    return m->plan.mixer->run(&m->plan, &io, tile->phase, tile->index, tile->scratch);
}

static const attn_step_kind kind = {.phase = phase_of, .run = run};

attn_status attn_mix_add(attn_program *program, const attn_plan *plan,
                         const attn_mix_regions *regions, attn_error *error)
{
    mix *m = attn_program_add(program, &kind, sizeof *m, plan->phase_count, error);
    if (!m)
        return ATTN_NO_MEMORY;
    m->plan = *plan;
    m->regions = *regions;
    m->step.scratch_bytes = plan->scratch_bytes;
    attn_program_warn(program, plan->warning);
    return attn_program_take(program, (double)plan->shared_bytes / sizeof(float), &m->shared,
                             error);
}
