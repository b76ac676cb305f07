/* Measuring an approximation: some rows of the answer once more by exact attention, and how far the
 * answer is from them. */
#ifndef ATTN_SAMPLE_H
#define ATTN_SAMPLE_H

#include "program/mix.h"

/* Query positions, in order of batch row and position; every head of each. */
typedef struct attn_samples {
    int count;
    struct {
        int64_t b, i;
    } at[ATTN_SAMPLES_MAX];
} attn_samples;

/* One position drawn from each of `sampling->rows` equal parts of all that are not padding; all of
 * them when they are fewer. */
void attn_samples_choose(attn_samples *samples, const attn_sampling *sampling,
                         const attn_shape *shape, const attn_mask *mask);

/* Append the exact answers of the samples: row s, head h of `to` becomes what exact attention with
 * these params would answer for them. Costs O(samples m (d + dv)) a head. */
attn_status attn_sample_add(attn_program *program, const attn_machine *machine,
                            const attn_mix_params *params, const attn_shape *shape,
                            const attn_samples *samples, const attn_mix_regions *regions,
                            attn_region to, attn_error *error);

/* Append the comparison, in the order of attn_program_deviation: rows of `exact`, (samples, heads,
 * columns), against the samples' rows of `answer`. */
attn_status attn_compare_add(attn_program *program, const attn_rates *rates,
                             const attn_samples *samples, int64_t heads, int64_t columns,
                             attn_region exact, attn_region answer, attn_error *error);

#endif
