/* Linear maps as steps: y = x W^T, cut into tiles of rows and of columns. */
#ifndef CORE_MODEL_PRODUCT_H
#define CORE_MODEL_PRODUCT_H

#include "model/adapter.h"
#include "model/config.h"
#include "model/matrix.h"
#include "program/step.h"

/* A linear map of a checkpoint, named as the module whose weight it is. */
typedef struct attn_linear {
    attn_matrix weight; /* (out, in) */
    const float *bias;  /* (out), or NULL */
    const char *prefix; /* with `name` the module, for adapters; borrowed */
    const char *name;
} attn_linear;

/* y = act(x W^T + bias) times `times`, or with `onto` y = onto + x W^T + bias. */
typedef struct attn_product {
    attn_linear linear;
    attn_region x, y;
    bool adds;
    attn_region onto; /* when it adds; may be y itself */
    bool activates;
    attn_activation activation;
    bool multiplies;
    attn_region times; /* when it multiplies */
} attn_product;

/* Where products happen: `rows` of each of `batch` sequences. */
typedef struct attn_extent {
    int64_t batch, rows;
} attn_extent;

enum {
    ATTN_PRODUCTS_MAX = 3
};

/* Append `count` products that do not read each other's results: one step, and when the adapter
 * (NULL: none) adapts any of them, its low-rank half before it. */
attn_status attn_products_add(attn_program *program, const attn_machine *machine,
                              const attn_adapter *adapter, const attn_product *products, int count,
                              attn_extent extent, attn_error *error);

#endif
