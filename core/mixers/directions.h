/* Performer's random directions, made in phases of tiles: "draw" fills rows with Gaussians and
 * measures them; to make directions orthogonal, "turn" phases follow. */
#ifndef ATTN_DIRECTIONS_H
#define ATTN_DIRECTIONS_H

#include "attn/plan.h"
#include "attn/rates.h"

enum {
    ATTN_DIRECTION_PHASES = 17 /* at most */
};

/* Bytes of the workspace that all these tiles share; `params->features` times d must be below 2^58.
 */
size_t attn_directions_bytes(const attn_mix_params *params, int64_t d);

/* How many phases there are, and each of them. */
int attn_directions_phases(const attn_mix_params *params, int64_t d);
attn_phase attn_directions_phase(const attn_mix_params *params, int64_t d, int phase,
                                 const attn_rates *rates);

/* Run a tile. After the last phase `omega` holds params->features rows of d columns; the workspace
 * is ATTN_ALIGN-aligned and may then be used for something else. */
void attn_directions_run(const attn_mix_params *params, int64_t d, int phase, int64_t tile,
                         void *workspace, float *omega);

#endif
