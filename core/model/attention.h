/* A multi-head attention layer: projections to q, k and v, a mixer, projection out. */
#ifndef CORE_MODEL_ATTENTION_H
#define CORE_MODEL_ATTENTION_H

#include "model/site.h"

/* Its weights, all borrowed from the model. */
typedef struct attn_attention {
    int64_t heads, kv_heads, head_dim;
    attn_linear q, k, v; /* (heads head_dim, hidden), (kv_heads head_dim, hidden) twice */
    attn_linear out;     /* (hidden, heads head_dim) */
    const float *e, *f;  /* linformer: (projected, length), f may be e; NULL: none */
    int64_t projected, length;
} attn_attention;

/* Append the layer with that mixer. Of `mix` the matrices of linformer are filled in here; its mask
 * is the site's but for `causal`. With sampling, rows of the layer's answer are held against exact
 * attention between the same projections; only for a site that does not add. */
attn_status attn_attention_add(attn_program *program, const attn_machine *machine,
                               const attn_attention *attention, const attn_mixer *mixer,
                               const attn_mix_params *mix, const attn_site *site,
                               const attn_sampling *sampling, attn_error *error);

#endif
