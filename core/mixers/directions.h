/* The random directions of Performer's features. */
#ifndef ATTN_DIRECTIONS_H
#define ATTN_DIRECTIONS_H

#include "attn/plan.h"

/* Draw directions [first, first + d) of `params->features` of them, in d columns, into `omega`
 * (features, d). Blocks are independent of each other. `basis` lends d x d doubles. */
void attn_directions_draw(const attn_mix_params *params, int64_t d, int64_t first, double *basis,
                          float *omega);

#endif
