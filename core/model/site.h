/* Where a mixer or a feed-forward works inside a layer. */
#ifndef CORE_MODEL_SITE_H
#define CORE_MODEL_SITE_H

#include "model/norm.h"
#include "model/product.h"

typedef struct attn_site {
    int64_t batch, n, hidden;
    attn_mask mask;            /* lengths and key_mask, borrowed by the program */
    const attn_row_norm *norm; /* of x, before anything else; NULL: none */
    attn_region x;             /* hidden states in, (batch, n, hidden) */
    attn_region y;    /* and out; may be x: nobody reads a row of x after writing it to y */
    bool adds;        /* y = onto + f(norm(x)); else f alone */
    attn_region onto; /* may be y */
    const attn_adapter *adapter; /* NULL: none */
} attn_site;

#endif
