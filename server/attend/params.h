/* A mixer's parameters out of a request's options and extra tensors. */
#ifndef SERVER_ATTEND_PARAMS_H
#define SERVER_ATTEND_PARAMS_H

#include "attn/plan.h"
#include "server/attend/call.h"

/* Fill `params` but for the masks' arrays. Errors name the option or tensor. */
attn_status srv_params_read(attn_mix_params *params, const attn_shape *shape,
                            const srv_inputs *inputs, const srv_options *options,
                            attn_error *error);

/* Put the scale and the params.* that the client gave in place of those that are there. */
attn_status srv_params_override(attn_mix_params *params, const srv_options *options,
                                attn_error *error);

#endif
