/* The feed-forward half of a layer: down(act(up x)), or gated, down(act(gate x) * (up x)) (Shazeer
 * 2020, "GLU Variants Improve Transformer"). */
#ifndef CORE_MODEL_FEED_FORWARD_H
#define CORE_MODEL_FEED_FORWARD_H

#include "model/site.h"

typedef struct attn_feed_forward {
    int64_t intermediate;
    attn_linear up, gate, down; /* gate when gated */
    bool gated;
    attn_activation activation;
} attn_feed_forward;

/* Append it, in chunks of the sequence, so that the workspace does not grow with n. */
attn_status attn_feed_forward_add(attn_program *program, const attn_machine *machine,
                                  const attn_feed_forward *feed_forward, const attn_site *site,
                                  attn_error *error);

#endif
