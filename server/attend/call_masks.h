/* What raw calls and calls of a model read alike: which keys are valid. */
#ifndef SERVER_ATTEND_CALL_MASKS_H
#define SERVER_ATTEND_CALL_MASKS_H

#include "server/attend/call.h"

/* Fill the call's masks and longest, once its shape is known. `key_mask` may be NULL. */
attn_status srv_call_read_masks(srv_call *call, const srv_tensor *key_mask,
                                const srv_options *options, attn_error *error);

/* Refuse the shape.* options beside tensors. */
attn_status srv_call_refuse_shape(const srv_options *options, attn_error *error);

#endif
