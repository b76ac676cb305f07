/* Normalisations of rows: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019). */
#ifndef CORE_MODEL_NORM_H
#define CORE_MODEL_NORM_H

#include "model/product.h"

typedef struct attn_row_norm {
    attn_normalization kind; /* NONE, LAYER or RMS */
    const float *weight;     /* (hidden); NULL: ones */
    const float *bias;       /* (hidden); NULL: zeros */
    double epsilon;
} attn_row_norm;

/* Append y = norm(x), rows of `columns`; y may be x. */
attn_status attn_row_norm_add(attn_program *program, const attn_rates *rates,
                              const attn_row_norm *norm, attn_region x, attn_region y,
                              attn_extent extent, int64_t columns, attn_error *error);

#endif
