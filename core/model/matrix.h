/* A weight matrix as its file stores it, widened to float32 a block of rows at a time.
 *
 * y = x W^T reads W (out, in) row by row, so a tile that computes some columns of y needs just
 * these rows in float32, and they fit a worker's scratch. A matrix that is float32 already is read
 * where it lies. */
#ifndef CORE_MODEL_MATRIX_H
#define CORE_MODEL_MATRIX_H

#include "kernels/kernels.h"

/* Borrowed from an attn_weights; a copy is as good. */
typedef struct attn_matrix {
    const void *data;      /* little-endian, row-major; FP32 is aligned and native */
    attn_dtype dtype;      /* FP32, FP16 or BF16 */
    int64_t rows, columns; /* PyTorch's Linear: rows are out_features, columns in_features */
} attn_matrix;

/* Floats of scratch that attn_matrix_rows needs for `count` rows: 0 when it is float32. */
int64_t attn_matrix_scratch(const attn_matrix *matrix, int64_t count);

/* Rows [first, first + count) as float32, dense, `columns` floats apart. Widened into `scratch`, of
 * attn_matrix_scratch() floats, or where they lie (then `scratch` may be NULL). No allocation. */
const float *attn_matrix_rows(const attn_matrix *matrix, const attn_elementwise_kernels *kernels,
                              int64_t first, int64_t count, float *scratch);

#endif
