/* The step that runs a mixer's plan. */
#ifndef ATTN_MIX_H
#define ATTN_MIX_H

#include "program/step.h"

/* What a mixer reads and writes. */
typedef struct attn_mix_regions {
    attn_region q, k, v, out;
} attn_mix_regions;

/* Append it. The plan is copied; what its params borrow stays borrowed. */
attn_status attn_mix_add(attn_program *program, const attn_plan *plan,
                         const attn_mix_regions *regions, attn_error *error);

#endif
