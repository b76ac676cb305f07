/* A Mamba block (Gu and Dao 2023): projection in, causal convolution, selective scan, gate,
 * projection out. */
#ifndef CORE_MODEL_MAMBA_H
#define CORE_MODEL_MAMBA_H

#include "model/site.h"

/* Its weights, all borrowed from the model. Di channels, N states, K taps, R the rank of dt. */
typedef struct attn_mamba {
    int64_t inner, states, rank; /* Di, N, R */
    int taps;                    /* K */
    bool euler;                  /* h grows by dt B x; else, as in the article, by B x */
    attn_linear in_proj;         /* (2 Di, hidden): x, then the gate z */
    attn_linear x_proj;          /* (R + 2 N, Di) */
    attn_linear dt_proj;         /* (Di, R), without its bias */
    attn_linear out_proj;        /* (hidden, Di) */
    int64_t dt_at, b_at, c_at;   /* columns where dt, B and C begin in x_proj's answer */
    const float *conv;           /* as attn_conv_prepare made it */
    const float *conv_bias;      /* (Di), or NULL */
    const float *dt_bias;        /* (Di), or NULL */
    const float *a;              /* as attn_scan_prepare made it */
    const float *skip;           /* D (Di) */
} attn_mamba;

/* Append the block. The sequence is worked through in chunks, so that the workspace does not grow
 * with n; convolution history and state, all that a stream would keep, pass from one to the next.
 */
attn_status attn_mamba_add(attn_program *program, const attn_machine *machine,
                           const attn_mamba *mamba, const attn_site *site, attn_error *error);

#endif
